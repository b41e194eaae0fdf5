"""What is loaded when it is first used: programs use few names of a package, and a table that is not asked needs no engine."""

from __future__ import annotations

import gc
import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def found_in(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package.

    Parameters
    ----------
    package : str
        Its name.
    modules : dict
        For each module of the package, the names that are found there, with spaces between them.

    Returns
    -------
    callable
        Imports the module of a name, and keeps what it finds in the package.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        found = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return __getattr__


@contextmanager
def uncollected() -> Iterator[None]:
    """Let the collector of cyclic garbage wait while many modules are loaded.

    What they define stays, and with each pass it would look at all that any package has loaded, in vain. Threads that begin at once leave
    it as the first of them found it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
