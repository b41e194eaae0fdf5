"""An input file, opened once, and checked not to change while it is read."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from dpcore.errors import JobError, StorageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder"}


class Version(NamedTuple):
    """Identity, size and time of a file: they differ if it is another file, or was written to."""

    device: int
    inode: int
    size: int
    time_ns: int

    @classmethod
    def of(cls, state: os.stat_result) -> Version:
        """The version with this state."""
        return cls(state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)

    @property
    def identity(self) -> tuple[int, int]:
        """Equal for all names of one file."""
        return self.device, self.inode


@dataclass(frozen=True, slots=True)
class Source:
    """An open file.

    Attributes
    ----------
    path : Path
        Its name, for messages; nothing opens it again.
    file : pyarrow.OSFile
        Where it is read from.
    size : int
        Bytes when it was opened.
    """

    path: Path
    file: pa.OSFile
    size: int


def version_of(path: Path) -> Version:
    """Read the version of a file without opening it.

    Raises
    ------
    JobError
        If it is no regular file: reading a pipe may take forever.
    StorageError
        If there is none.
    """
    try:
        state = path.stat()
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None
    if not stat.S_ISREG(state.st_mode):
        raise JobError(
            f"{path}: {KINDS.get(stat.S_IFMT(state.st_mode), 'not a regular file')}, and a table is read from regular files only"
        )
    return Version.of(state)


@contextlib.contextmanager
def opened(path: Path, found: Version | None = None) -> Iterator[Source]:
    """Open a file for one pass over it.

    Parameters
    ----------
    path : Path
        The file.
    found : Version, optional
        What it was when the job was planned; by default, what it is now.

    Raises
    ------
    StorageError
        If it cannot be opened, or is another than it was, now or at the end of the pass. Whatever reading made of a file that changed is
        worth nothing, so this replaces any other error of the pass.
    """
    found = found or version_of(path)
    version_of(path)
    try:
        file = pa.OSFile(str(path), "rb")
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None
    with file:
        # Of the open file, not of its name: what has taken its place since is not what is read.
        _check_unchanged(path, file, found)
        try:
            yield Source(path, file, found.size)
        except Exception:
            _check_unchanged(path, file, found)
            raise
        _check_unchanged(path, file, found)


def _check_unchanged(path: Path, file: pa.OSFile, found: Version) -> None:
    if Version.of(os.fstat(file.fileno())) != found:
        raise StorageError(
            f"{path}: the input changed while it was read, so the result would mix two tables; try again when nothing writes to it"
        )
