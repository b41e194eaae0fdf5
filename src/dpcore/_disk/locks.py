"""Locks on names and on files. They end when the process that holds them ends, even if it is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows does not remove or rename an open file, so the open file itself is the lock there.
    fcntl = None  # type: ignore[assignment]

OPEN_FILES_MOVE = fcntl is not None
"""Whether a file can be renamed while it is open."""
NOTE_BYTES = 1 << 14
"""Longest note that is read."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed or its process ends. Return False if another process has the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_if_unlocked(entry: Path) -> bool:
    """Remove a file or a folder whose process has died, and return whether it was removed."""
    try:
        if entry.is_dir() and not entry.is_symlink():
            return _remove_folder_if_unlocked(entry)
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


def _remove_folder_if_unlocked(entry: Path) -> bool:
    if os.name == "nt":  # An open folder cannot be locked there.
        return False
    descriptor = os.open(entry, os.O_RDONLY)
    try:
        if not try_lock(descriptor):
            return False
        shutil.rmtree(entry)
    finally:
        os.close(descriptor)
    return True


class NameLock:
    """The right to write a file of some name: a hidden locked file beside it, which is removed with the lock.

    If the process dies, its lock ends and the hidden file stays. The next process takes it over and can read the note in it.

    Parameters
    ----------
    path : Path
        The name. Its folder exists.

    Attributes
    ----------
    found : str
        Note of an owner that died; empty if there was none.

    Raises
    ------
    BlockingIOError
        If another running process, or another job of this one, has the lock.
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
            os.close(self._descriptor)  # Its last owner has just removed it.

    def note(self, text: str) -> None:
        """Write a note for a process that finds the lock without its owner: where the state of the files is recorded."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, text.encode())
        os.fsync(self._descriptor)

    def release(self, *, keep: bool = False) -> None:
        """Release the lock; with `keep` the note stays. A second call has no effect."""
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
    with contextlib.suppress(FileNotFoundError):  # A file in use cannot be removed.
        try:
            path.unlink()
        except PermissionError:
            raise BlockingIOError(errno.EWOULDBLOCK, "another job is writing this file", str(path)) from None
    return os.open(path, flags | os.O_EXCL, 0o666)


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
