"""Compiled kernels of dpcore, for `dpcore._backend` alone: modules of one library, so that the code of each CPU level is there once."""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Modules:
    """Finds the modules of this package in its library; Python by itself looks for a file a module."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004 - its name is part of the protocol
        if not name.startswith(f"{__name__}._"):
            return None
        library = PathFinder.find_spec(f"{__name__}._library", path)
        if library is None or library.origin is None:
            return None
        return spec_from_file_location(name, library.origin, loader=ExtensionFileLoader(name, library.origin))


sys.meta_path.insert(0, _Modules)  # before files that a build of before, with a file a module, has left
