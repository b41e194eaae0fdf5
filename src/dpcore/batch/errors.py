"""Errors of batch jobs, one class per exit code that `dpcore.errors` does not already cover."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dpcore.errors import DpcoreError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class JobError(ParameterError):
    """The job file, the input's schema or the installation rules the job out (exit code 2)."""


class StorageError(DpcoreError, OSError):
    """The system failed the job: unreadable input, no space, no permission (exit code 4)."""


class PublishedError(DpcoreError):
    """The output is published, and then something failed, which is the error's cause (exit code 5)."""

    def __init__(self, names: Sequence[Path]) -> None:
        self.names = tuple(names)
        super().__init__(f"published as {', '.join(map(str, self.names))}")


def reason(error: BaseException) -> str:
    """The operating system's words for `error`, or nothing that could quote data.

    Messages of pyarrow may contain cells of the table, so only an `errno` is ever translated.
    """
    code = getattr(error, "errno", None)
    return f": {os.strerror(code)}" if isinstance(code, int) and code > 0 else ""
