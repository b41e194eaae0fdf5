"""Files that get their name only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._disk.addresses import Address
from dpcore._disk.locks import OPEN_FILES_MOVE, is_same_file, remove_if_unlocked, try_lock
from dpcore._disk.sealed_files import SealedFile, folder_digest, move_into_place, sync_folder
from dpcore.errors import StorageError, reason

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from dpcore._disk.addresses import Location

READ_BYTES = 1 << 20
NO_DIGEST = "0" * 64
"""Stands for the digest of a file that neither a ledger nor a sidecar records."""
OWNER, ANYBODY = 0o700, 0o777
"""Rights of a folder that only its owner opens, and of one whose rights the umask decides."""
NOT_ALLOCATED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENODEV}
"""Error numbers of systems and file systems that cannot allocate."""


class AtomicFile:
    """A hidden temporary file beside `path`, which replaces it when it is complete.

    The temporary file is locked while its process runs. The lock ends with the process, however that ends, so a later job can tell stale
    temporary files from those in use, even by another container that shares the folder.

    Parameters
    ----------
    path : Path or Address
        The final name. Its folder exists.
    beside : Path, optional
        The name beside which the temporary file is; required for an address, to which the file is uploaded when it is complete.
    rights : int, default 0o666
        Rights of the file, from which the umask takes.

    Raises
    ------
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, path: Location, beside: Path | None = None, *, rights: int = 0o666) -> None:
        self.path = path
        self._digest: _Digest | None = None
        beside = beside or Path(str(path))
        try:
            self.temporary, self._lock = _create_locked(beside, rights)
        except OSError as error:
            raise StorageError(f"cannot write into {beside.parent}{reason(error)}") from None

    @property
    def spill(self) -> Path:
        """A folder for state that outgrows memory. It is removed with the temporary file."""
        return _spill_folder(self.temporary)

    def allocate(self, size: int) -> None:
        """Reserve space for this number of bytes, where the file system can. `seal` frees what is not used."""
        try:
            if size > 0 and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._lock, 0, size)
        except OSError as error:
            if error.errno not in NOT_ALLOCATED:
                raise StorageError(f"there is no space for about {size} bytes of {self.path}{reason(error)}") from None

    def write(self, content: bytes) -> None:
        """Write the whole of a small file."""
        try:
            self.temporary.write_bytes(content)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}{reason(error)}") from None

    def written(self, end: int) -> _Digest:
        """Extend the digest to everything written before `end`, on a separate thread."""
        if self._digest is None:
            self._digest = _Digest(self._lock)
        self._digest.follow(end)
        return self._digest

    def digest(self, end: int) -> str:
        """Return SHA-256 of the file up to `end`."""
        if not hasattr(os, "pread"):
            return digest_of(self.temporary)
        return self.written(end).result()

    def seal(self, size: int | None = None, digest: str | None = None) -> SealedFile:
        """Make the content durable and return its digest with its names. The file is complete from now on.

        Parameters
        ----------
        size : int, optional
            Number of bytes; the rest is cut off. Default: all.
        digest : str, optional
            SHA-256 of the content, if it is known.

        Returns
        -------
        SealedFile
            The file, which has its temporary name.

        Raises
        ------
        StorageError
            If the system cannot write it.
        """
        try:
            if size is None:
                size = os.fstat(self._lock).st_size
            else:
                os.ftruncate(self._lock, size)
            os.fsync(self._lock)
            # What is uploaded is known by its digest if the answer of the store is lost.
            found = self.digest(size) if digest is None or (digest == NO_DIGEST and isinstance(self.path, Address)) else digest
        except OSError as error:
            raise StorageError(f"cannot complete {self.path}{reason(error)}") from None
        # Another process may give a sealed file its name, and leaves the spill alone, which may hold names of units and their chosen rows.
        shutil.rmtree(self.spill, ignore_errors=True)
        return SealedFile(self.temporary.absolute(), self.path.absolute(), found)

    def commit(self) -> None:
        """Make the content durable, rename the file to its final name or upload it, and make the name durable."""
        try:
            os.fsync(self._lock)
            if isinstance(self.path, Address):
                move_into_place(self.seal(), overwrite=True)
            else:
                if not OPEN_FILES_MOVE:
                    self.release()
                self.temporary.replace(self.path)
                sync_folder(self.path.parent)
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"cannot complete {self.path}{reason(error)}") from None
        self.release()

    def abort(self) -> None:
        """Remove the temporary file, if it is still there."""
        self.release()
        with contextlib.suppress(OSError):
            self.temporary.unlink(missing_ok=True)

    def release(self) -> None:
        """Release the lock and keep the file, which is sealed or has its name."""
        shutil.rmtree(self.spill, ignore_errors=True)
        if self._digest is not None:
            self._digest.stop()
        if self._lock >= 0:
            descriptor, self._lock = self._lock, -1
            os.close(descriptor)


class AtomicFolder:
    """A hidden temporary folder beside `path`, which becomes it when all its files are complete.

    It is locked while its process runs, as the temporary file of an `AtomicFile` is.

    Parameters
    ----------
    path : Path
        The final name. Its folder exists.
    is_private : bool, default True
        Whether nobody but the owner may open the hidden folders. False leaves that to the umask: other users write the files.

    Attributes
    ----------
    path, temporary : Path
        The final name, and the hidden one.
    spill : Path
        A hidden folder for attempts, which never gets the name.

    Raises
    ------
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, path: Path, *, is_private: bool = True) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
        self.spill = _spill_folder(self.temporary)
        self._lock = -1
        try:
            rights = OWNER if is_private else ANYBODY
            self.temporary.mkdir(rights)
            self._rights = _usual_rights(self.temporary)
            if OPEN_FILES_MOVE:
                self._lock = os.open(self.temporary, os.O_RDONLY)
                try_lock(self._lock)
            self.spill.mkdir(rights)
        except OSError as error:
            self.abort()
            raise StorageError(f"cannot write into {path.parent}{reason(error)}") from None

    def seal(self, files: Mapping[str, str]) -> SealedFile:
        """Make the names of the files durable, drop all other attempts, and return the folder with its digest.

        Parameters
        ----------
        files : mapping of str to str
            The files in the folder, which are complete and on the disk, with the SHA-256 of each.

        Returns
        -------
        SealedFile
            The folder, which has its temporary name.
        """
        try:
            found = sorted(entry.name for entry in self.temporary.iterdir())
            if found != sorted(files):
                raise StorageError(f"cannot complete {self.path}: a file of it is missing, or there is another")
            self.temporary.chmod(self._rights)
            sync_folder(self.temporary)
            shutil.rmtree(self.spill, ignore_errors=True)  # a sealed folder may get its name from another process, which cannot know it
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"cannot complete {self.path}{reason(error)}") from None
        return SealedFile(self.temporary.absolute(), self.path.absolute(), folder_digest(files))

    def abort(self) -> None:
        """Remove the temporary folder, if it is still there."""
        self.release()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def release(self) -> None:
        """Release the lock and keep the folder, which is sealed or has its name."""
        shutil.rmtree(self.spill, ignore_errors=True)
        if self._lock >= 0:
            descriptor, self._lock = self._lock, -1
            os.close(descriptor)


def digest_of(path: Path, stop: threading.Event | None = None) -> str:
    """Return SHA-256 of a file in hexadecimal, or of a part of it if `stop` is set meanwhile."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while not (stop is not None and stop.is_set()) and (part := file.read(READ_BYTES)):
            digest.update(part)
    return digest.hexdigest()


class _Digest:
    """The digest of a file that is being written, computed on a thread behind the writer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._hash, self._end = descriptor, hashlib.sha256(), 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="dpcore-digest")

    def follow(self, end: int) -> None:
        """Read up to `end` when the thread has time."""
        self._last = self._worker.submit(self._read, end)

    def result(self) -> str:
        """Return the digest of everything that was followed."""
        self._last.result()
        return self._hash.hexdigest()

    def stop(self) -> None:
        """Stop reading."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _read(self, end: int) -> None:
        while self._end < end:
            part = os.pread(self._descriptor, min(READ_BYTES, end - self._end), self._end)
            if not part:
                raise OSError(errno.EIO, "the file is shorter than what was written")
            self._hash.update(part)
            self._end += len(part)


def remove_stale(path: Path) -> list[Path]:
    """Remove temporary files of `path` whose process has died, and return their names."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.\d+\.[0-9a-f]{{16}}\.tmp")
    try:
        candidates = [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]
    except OSError as error:
        raise StorageError(f"cannot read the folder {path.parent}{reason(error)}") from None
    removed = [entry for entry in candidates if remove_if_unlocked(entry)]
    for entry in removed:
        shutil.rmtree(_spill_folder(entry), ignore_errors=True)
    return removed


def _create_locked(path: Path, rights: int) -> tuple[Path, int]:
    while True:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), rights)
        # Between creation and lock, another job may take this file for a stale one and remove it. Then choose another name.
        if try_lock(descriptor) and is_same_file(descriptor, temporary):
            return temporary, descriptor
        os.close(descriptor)


def _usual_rights(folder: Path) -> int:
    """The rights that a new folder in another one gets, as the umask and the outer folder have it."""
    probe = folder / "rights"
    probe.mkdir()
    found = stat.S_IMODE(probe.stat().st_mode)
    probe.rmdir()
    return found


def _spill_folder(temporary: Path) -> Path:
    return temporary.with_name(temporary.name.removesuffix(".tmp") + ".spill")
