"""The progress of a job, for a terminal, a log or a function."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Protocol

from dpcore.errors import ParameterTypeError

PARTS = 1000
"""Total that a function is called with: thousandths of a stage. Numbers of rows may be private."""


class Progress(Protocol):
    """Shows how far a job is."""

    def begin(self, stage: str) -> None:
        """Begin a stage: rates and times count from here."""

    def update(self, rows: int, fraction: float) -> None:
        """Show that `rows` are done, and about `fraction` of the input is read."""


Shown = Progress | Callable[[int, int], object] | None
"""Type of the argument `progress`."""


class Silent:
    """Shows nothing."""

    def begin(self, stage: str) -> None:
        """Do nothing."""

    def update(self, rows: int, fraction: float) -> None:
        """Do nothing."""


class Calls:
    """Calls `function(done, total)` with thousandths of the stage that runs."""

    def __init__(self, function: Callable[[int, int], object]) -> None:
        self._function, self._done = function, -1

    def begin(self, stage: str) -> None:  # noqa: ARG002
        """Start again at 0."""
        self._done = -1
        self.update(0, 0.0)

    def update(self, rows: int, fraction: float) -> None:  # noqa: ARG002
        """Call the function if another thousandth is done."""
        done = int(fraction * PARTS)
        if done != self._done:
            self._done = done
            self._function(done, PARTS)


def shown_by(progress: Shown) -> Progress:
    """The object that shows the progress of a job, for an object, a function, or None; raises `ParameterTypeError` for anything else."""
    if progress is None:
        return Silent()
    if callable(progress):
        return Calls(progress)
    if not all(callable(getattr(progress, name, None)) for name in ("begin", "update")):
        what = "a function progress(done, total), an object with begin(stage) and update(rows, fraction), or None"
        raise ParameterTypeError(f"progress must be {what}, got {reprlib.repr(progress)}")
    return progress
