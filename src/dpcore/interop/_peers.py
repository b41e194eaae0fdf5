"""The packages that modules of interop work with, and the versions that they were tested with."""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from importlib import metadata
from importlib.util import find_spec
from types import ModuleType

from dpcore._dataclasses import dataclass
from dpcore._extras import BELOW, install, release
from dpcore.errors import ParameterError, UntestedVersionWarning


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A package that a module of interop works with.

    Attributes
    ----------
    module : str
        What is imported.
    distribution : str
        What pip calls it.
    tested : tuple of str
        Versions, or beginnings of versions, that the tests ran with.
    extra : str
        The extra of dpcore that installs one of them.
    lowest : str
        The oldest version that has what the module calls; "0" if it is not known.
    """

    module: str
    distribution: str
    tested: tuple[str, ...]
    extra: str
    lowest: str = "0"

    def require(self) -> ModuleType:
        """Import the peer, and warn if its version is an untested one.

        Returns
        -------
        module
            The peer.

        Raises
        ------
        ModuleNotFoundError
            If it is not installed; the message has the pip line.
        ImportError
            If it is older than `lowest`; the message has the pip line.
        ParameterError
            If the caller runs inside the peer's own import, so that the peer is only half there.
        """
        module = sys.modules.get(self.module)
        if module is None and find_spec(self.module.partition(".")[0]) is None:
            raise ModuleNotFoundError(
                f"this needs {self.distribution}, which is not installed; {install(self.extra, gap=BELOW)}", name=self.module
            )
        # Another thread that is importing the peer is waited for here; this thread gets what there is so far.
        module = importlib.import_module(self.module)
        if getattr(module.__spec__, "_initializing", False):
            raise ParameterError(
                f"{self.module} is still being imported by this thread; call this after `import {self.module}` has returned"
            )
        self._check_version()
        return module

    def _check_version(self) -> None:
        try:
            version = metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            version = "unknown"
        if release(version) < release(self.lowest):
            raise ImportError(
                f"{self.distribution} {version} is too old, it must be {self.lowest} or later: pip install "
                f"'{self.distribution}>={self.lowest}'"
            )
        if not any(version == known or version.startswith(f"{known}.") for known in self.tested):
            warnings.warn(
                f"{self.distribution} {version} was not tested with dpcore; the tests ran with {', '.join(self.tested)}",
                UntestedVersionWarning,
                stacklevel=_callers(),
            )


def _callers() -> int:
    """The level, for `warnings.warn` in the caller, of the first function that is not dpcore's, so that the user's line is named."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__.partition(".")[0]:
        frame, level = frame.f_back, level + 1
    return level
