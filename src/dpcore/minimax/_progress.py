"""Counting of work that is done, for `progress(done, total)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dpcore.errors import ParameterTypeError

Progress: TypeAlias = Callable[[int, int], object]


class Steps:
    """Steps of a known number, reported to a function after each.

    Parameters
    ----------
    progress : callable or None
        Called as progress(done, total); None reports to nobody.
    total : int
        Number of steps, at least 1.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        if progress is not None and not callable(progress):
            raise ParameterTypeError(f"progress must be a function of (done, total), got {type(progress).__name__}")
        self._progress, self._total, self._done = progress, total, 0

    def advance(self, steps: int = 1) -> None:
        """Report that some more steps are done, at most all."""
        self._done = min(self._done + steps, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def finish(self) -> None:
        """Report that all steps are done, if that was not reported yet."""
        if self._done < self._total:
            self.advance(self._total)
