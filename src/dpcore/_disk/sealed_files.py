"""Sealed files: complete outputs that wait, under temporary names, for their final ones.

An output is a file, or a folder of files that gets its name as a whole. A sealed run has written its outputs to temporary files and
recorded their digests in the ledger. A running process holds a lock (flock) on its temporary files. If the process dies, the next process
that opens the ledger gives the files their names.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore._disk import stores
from dpcore._disk.addresses import Address, Location
from dpcore._disk.locks import OPEN_FILES_MOVE, try_lock
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP}
_NO_SYNC = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM}
"""Error numbers of a system that cannot sync a folder, or not one that it may not read."""
_OPEN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A complete output that does not have its final name yet.

    Parameters
    ----------
    temporary : Path
        File that holds the content, synced to disk, or a folder of such files. Absolute, and in the folder of `path` if that is a file.
    path : Path or Address
        Final name of the file. Absolute, or the address of an object.
    sha256 : str
        SHA-256 of the content, as 64 lowercase hexadecimal digits; of a folder that of its listing, see `folder_digest`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a path is relative, the two paths lie in different folders or are equal, or the digest has another form.
    """

    temporary: Path
    path: Location
    sha256: str

    def __post_init__(self) -> None:
        for name in ("temporary", "path"):
            value = getattr(self, name)
            if name == "path" and isinstance(value, Address):
                continue
            if not isinstance(value, Path):
                raise ParameterTypeError(f"{name} must be a pathlib.Path, got {value!r}")
            if not value.is_absolute():
                raise ParameterError(f"{name} must be absolute, got {str(value)!r}")
        if isinstance(self.path, Path) and (self.temporary.parent != self.path.parent or self.temporary == self.path):
            raise ParameterError(
                f"temporary must be another file in the folder of path, {str(self.path.parent)!r}, got {str(self.temporary)!r}"
            )
        digest: object = self.sha256
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ParameterError(f"sha256 must be 64 hexadecimal digits, got {self.sha256!r}")


def move_into_place(file: SealedFile, *, overwrite: bool) -> None:
    """Rename a sealed file to its final name, and sync the folder; upload one whose name is an address.

    Parameters
    ----------
    file : SealedFile
        File to rename. If the temporary file is gone and the final name has the sealed content, the function only syncs the folder.
    overwrite : bool
        Whether to replace another file of that name. Without it no other file can lose its name.

    Raises
    ------
    FileExistsError
        If another file has the name and `overwrite` is false. Nothing has changed then.
    OSError
        If the system refuses.
    """
    try:
        if isinstance(file.path, Address):
            stores.upload(file.temporary, file.path, file.sha256, overwrite=overwrite)
            file.temporary.unlink(missing_ok=True)
        elif overwrite:
            if _is_folder(file.path):
                remove_output(file.path)
            file.temporary.replace(file.path)
        else:
            _link(file.temporary, file.path)
            file.temporary.unlink(missing_ok=True)
    except FileNotFoundError:
        if not has_content(file):
            raise
    sync_folder(file.temporary.parent)


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        if not _is_same(temporary, path):
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links on this file system, so nothing here can look and rename in one step.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.rename(path)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are links to one file, which a process leaves that dies between the two steps of a move."""
    return os.path.samestat(one.lstat(), other.lstat())


def remove_output(path: Location) -> None:
    """Remove a file, an object, or a folder with all that is in it: the name of a folder is gone before its files are."""
    if isinstance(path, Address):
        stores.delete(path)
        return
    if not _is_folder(path):
        path.unlink(missing_ok=True)
        return
    hidden = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
    path.rename(hidden)
    sync_folder(path.parent)
    shutil.rmtree(hidden, ignore_errors=True)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable, where the system can do that; Windows cannot.

    Parameters
    ----------
    folder : Path
        The folder.

    Raises
    ------
    OSError
        If the system tried and failed, as a failing disk does.
    """
    if os.name == "nt":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def identity(path: Location) -> str | None:
    """Return a text that differs for every later file with this name; None if there is no file."""
    if isinstance(path, Address):
        return stores.identity(path)
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def finish(files: Sequence[SealedFile], replaces: Sequence[str | None], *, overwrite: bool) -> bool:
    """Rename the files of a sealed run whose process has died.

    Parameters
    ----------
    files : sequence of SealedFile
        All files of the run.
    replaces : sequence of str or None
        `identity` of the files that had these names when the run was sealed.
    overwrite : bool
        Whether those may be replaced. A file that took a name later is never replaced.

    Returns
    -------
    bool
        Whether every file now has its name. If not, no file of another owner was touched. Reasons: the process is running, a content
        differs from the sealed one, a name is taken, or the system refuses.
    """
    pairs = tuple(zip(files, replaces, strict=True))
    try:
        with contextlib.ExitStack() as held:
            there = [_held(file.temporary, held) for file in files]
            ready = all(_is_ready(*pair, descriptor, overwrite=overwrite) for pair, descriptor in zip(pairs, there, strict=True))
            if not OPEN_FILES_MOVE:
                held.close()
            if ready:
                _settle_all(pairs)
            return ready
    except OSError:
        return False


def _held(path: Path, held: contextlib.ExitStack) -> int | None:
    """Open and lock a temporary file; None if it is gone. Raises BlockingIOError if a running process holds the lock."""
    try:
        descriptor = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    held.callback(os.close, descriptor)
    if not try_lock(descriptor):
        raise BlockingIOError(errno.EWOULDBLOCK, "a running process holds this file", str(path))
    return descriptor


def _is_ready(file: SealedFile, replaces: str | None, temporary: int | None, *, overwrite: bool) -> bool:
    """Whether the move can be made, or was made already."""
    if temporary is None:
        return has_content(file)
    if _digest(temporary) != file.sha256:
        return False
    found = identity(file.path)
    return found is None or (overwrite and found == replaces) or has_content(file)


def _settle_all(pairs: Sequence[tuple[SealedFile, str | None]]) -> None:
    """Rename all files, in their order.

    Files that are replaced are removed first, the last one before the others, so that a new file never lies beside an old one.
    """
    for file, replaces in reversed(pairs):
        if replaces is not None and os.path.lexists(file.temporary) and identity(file.path) == replaces:
            remove_output(file.path)
            sync_folder(file.temporary.parent)
    for file, _ in pairs:
        _settle(file)


def _settle(file: SealedFile) -> None:
    if not os.path.lexists(file.temporary):
        sync_folder(file.temporary.parent)
    elif isinstance(file.path, Path) and os.path.lexists(file.path) and not _is_same(file.temporary, file.path) and has_content(file):
        remove_output(file.temporary)  # the same content came to the name in another way
        sync_folder(file.temporary.parent)
    else:
        move_into_place(file, overwrite=False)


def has_content(file: SealedFile) -> bool:
    """Whether the name has the sealed content; raises StorageError if a store does not say."""
    if isinstance(file.path, Address):
        return stores.has_content(file.path, file.sha256)
    return content_digest(file.path) == file.sha256


def content_digest(path: Path) -> str | None:
    """Return the digest of a file or of a folder of files; None if there is neither, or it cannot be read."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    try:
        return _digest(descriptor)
    finally:
        os.close(descriptor)


def folder_digest(files: Mapping[str, str]) -> str:
    """Return the digest of a folder: SHA-256 of its listing, which has a line for each file in the order of their names.

    Parameters
    ----------
    files : mapping of str to str
        The digest of each file, by its name.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    lines = (f"{digest} {len(os.fsencode(name))} ".encode() + os.fsencode(name) + b"\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _digest(descriptor: int) -> str | None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode) and os.listdir in os.supports_fd:
        return _digest_of_folder(descriptor)
    if not stat.S_ISREG(mode):
        return None
    with open(descriptor, "rb", closefd=False) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _digest_of_folder(folder: int) -> str | None:
    """The digest of a folder that holds files only."""
    found: dict[str, str] = {}
    for name in os.listdir(folder):  # an open folder, which no path names
        try:
            descriptor = os.open(name, _OPEN, dir_fd=folder)
        except OSError:
            return None
        try:
            digest = _digest(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        finally:
            os.close(descriptor)
        if digest is None:
            return None
        found[name] = digest
    return folder_digest(found)
