"""Locks on names and on files, which end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows refuses to remove a file that is open, so there the open file itself is the lock.
    fcntl = None  # type: ignore[assignment]

OPEN_FILES_MOVE = fcntl is not None
"""Whether a file can be renamed while it is open."""
NOTE_BYTES = 1 << 14
"""What a note may have."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed, by whatever ends its process; False if somebody else has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_if_unlocked(entry: Path) -> bool:
    """Remove a file whose process is dead; whether that could be done."""
    try:
        if fcntl is None:
            entry.unlink()
            return True
        with entry.open("rb") as file:
            if not try_lock(file.fileno()):
                return False
            entry.unlink()
    except OSError:
        return False
    return True


class NameLock:
    """The right to write under a name, in whatever process: a hidden locked file beside it, gone when the lock is.

    A process that dies gives its lock up; the file that it leaves is taken over by the next, with what it says about the dead.

    Parameters
    ----------
    path : Path
        The name; its folder exists.

    Attributes
    ----------
    found : str
        What a dead owner has noted; empty if there was none.

    Raises
    ------
    BlockingIOError
        If another living process, or another job of this one, has the name.
    OSError
        If the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f".{path.name}.lock")
        while True:
            self._descriptor = _open_lock(self._path)
            if not try_lock(self._descriptor):
                os.close(self._descriptor)
                raise BlockingIOError(errno.EWOULDBLOCK, "another job is writing this file", str(path))
            if is_same_file(self._descriptor, self._path):
                self.found = os.pread(self._descriptor, NOTE_BYTES, 0).decode(errors="replace") if hasattr(os, "pread") else ""
                return
            os.close(self._descriptor)  # Its last owner has removed it in between.

    def note(self, text: str) -> None:
        """Leave word for who finds the lock without its owner: where it is told what has become of the files."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, text.encode())
        os.fsync(self._descriptor)

    def release(self, *, keep: bool = False) -> None:
        """Give the name up, with `keep` leaving the note; a second call does nothing."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        if os.name == "nt":
            os.close(descriptor)  # An open file cannot be removed there.
        if not keep:
            with contextlib.suppress(OSError):
                self._path.unlink()
        if os.name != "nt":
            os.close(descriptor)


def _open_lock(path: Path) -> int:
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    if fcntl is not None:
        return os.open(path, flags, 0o666)
    with contextlib.suppress(FileNotFoundError):  # In use, it cannot be removed.
        try:
            path.unlink()
        except PermissionError:
            raise BlockingIOError(errno.EWOULDBLOCK, "another job is writing this file", str(path)) from None
    return os.open(path, flags | os.O_EXCL, 0o666)


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
