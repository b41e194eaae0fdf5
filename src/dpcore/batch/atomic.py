"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from typing import TYPE_CHECKING

from dpcore.batch.errors import StorageError, reason

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows refuses to remove a file that is open, so there the open file itself is the lock.
    fcntl = None  # type: ignore[assignment]


class AtomicFile:
    """A hidden temporary sibling of `path` that takes its place when committed.

    The temporary is locked for as long as its process lives, however that ends, so a later job can tell a stale temporary from
    one in use, in another container that shares the folder as well.

    Parameters
    ----------
    path : Path
        The final name; its folder exists.

    Raises
    ------
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.temporary, self._lock = _create_locked(path)
        except OSError as error:
            raise StorageError(f"cannot write into {path.parent}{reason(error)}") from None

    @property
    def spill(self) -> Path:
        """A folder for state that outgrows memory; it goes when the temporary goes."""
        return _spill_folder(self.temporary)

    def write(self, content: bytes) -> None:
        """Write the whole of a small file."""
        try:
            self.temporary.write_bytes(content)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}{reason(error)}") from None

    def commit(self) -> None:
        """Make the content durable, then visible under the final name, then make the name durable."""
        try:
            os.fsync(self._lock)
            if fcntl is None:
                self._release()  # Windows does not rename an open file.
            self.temporary.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            raise StorageError(f"cannot complete {self.path}{reason(error)}") from None
        self._release()

    def abort(self) -> None:
        """Remove the temporary, if it is still there."""
        self._release()
        with contextlib.suppress(OSError):
            self.temporary.unlink(missing_ok=True)

    def _release(self) -> None:
        shutil.rmtree(self.spill, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` durable; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale(path: Path) -> list[Path]:
    """Remove temporaries of `path` whose process is dead; return what was removed."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.\d+\.[0-9a-f]{{16}}\.tmp")
    try:
        candidates = [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]
    except OSError as error:
        raise StorageError(f"cannot read the folder {path.parent}{reason(error)}") from None
    return [entry for entry in candidates if _remove_if_unlocked(entry)]


def _create_locked(path: Path) -> tuple[Path, int]:
    while True:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666)
        # Between creation and lock a starting job may take this file for a stale one and remove it: then choose another name.
        if _try_lock(descriptor) and _is_same_file(descriptor, temporary):
            return temporary, descriptor
        os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_if_unlocked(entry: Path) -> bool:
    try:
        if fcntl is None:
            entry.unlink()
        else:
            with entry.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                entry.unlink()
    except OSError:
        return False
    shutil.rmtree(_spill_folder(entry), ignore_errors=True)
    return True


def _spill_folder(temporary: Path) -> Path:
    return temporary.with_name(temporary.name.removesuffix(".tmp") + ".spill")
