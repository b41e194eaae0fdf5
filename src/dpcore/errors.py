"""Exceptions of dpcore.

Messages contain the values of parameters, but of data only the position (row, column, index).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BudgetError",
    "DataError",
    "DpcoreError",
    "EntropyError",
    "ForeignPatchError",
    "JobError",
    "ParameterError",
    "ParameterTypeError",
    "PublishedError",
    "StorageError",
    "UntestedVersionWarning",
    "UnusedEpsilonWarning",
]


class DpcoreError(Exception):
    """Base class of the errors of dpcore."""


class ParameterError(DpcoreError, ValueError):
    """A parameter has the right type but a value outside its range."""


class ParameterTypeError(DpcoreError, TypeError):
    """A parameter has the wrong type."""


class DataError(DpcoreError, ValueError):
    """Data do not fit the declaration; the message names a position, never a value."""


class BudgetError(DpcoreError):
    """A release would spend more than the budget that was declared for it."""


class EntropyError(DpcoreError, OSError):
    """The operating system gave no randomness."""


class ForeignPatchError(DpcoreError, RuntimeError):
    """Something that `dpcore.interop` would replace or restore was replaced by another library."""


class UntestedVersionWarning(UserWarning):
    """A module of `dpcore.interop` runs on a version of its peer that its tests did not run with."""


class UnusedEpsilonWarning(UserWarning):
    """An ε was given for an answer that has no noise and costs nothing: the number of all rows, where it is public."""


class JobError(ParameterError):
    """The job cannot run with this job file, input schema or installation (exit code 2)."""


class StorageError(DpcoreError, OSError):
    """The system stopped the job: unreadable input, no space, no permission (exit code 4)."""


class PublishedError(DpcoreError):
    """The output is published, but a later step failed, which is the cause of this error (exit code 5)."""

    def __init__(self, names: Sequence[object]) -> None:
        self.names = tuple(names)
        super().__init__(f"published as {', '.join(map(str, self.names))}")


def reason(error: BaseException) -> str:
    """Return the operating system's message for `error`, or an empty string.

    Messages of pyarrow may contain cells of the table, so only an `errno` is translated.
    """
    code = getattr(error, "errno", None)
    why = getattr(error, "why", "")  # of a store, in words of dpcore
    if isinstance(why, str) and why:
        return f": {why}"
    return f": {os.strerror(code)}" if isinstance(code, int) and code > 0 else ""


def __dir__() -> list[str]:
    return __all__
