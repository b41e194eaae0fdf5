"""Methods of peers' classes with `dpcore.interop` and without."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def method_of(owner: type, name: str, install: Callable[[], AbstractContextManager[Any]], *, served: bool) -> Callable[..., Any]:
    """A method of a peer's class: its own, or the one that `install` puts there.

    Parameters
    ----------
    owner : type
        The class.
    name : str
        Of the method.
    install : callable
        Of the peer's module in `dpcore.interop`.
    served : bool
        Whether dpcore's is wanted.
    """
    with install() if served else nullcontext():
        method: Callable[..., Any] = getattr(owner, name)
        return method
