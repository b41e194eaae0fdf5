"""Outputs of sealed runs: how they get their names, by whoever finishes the run.

A sealed run has written its outputs to temporaries and told the ledger their digests. A process that lives keeps a lock (flock) on its
temporaries; those of a dead one are moved by whoever opens the ledger next.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

try:
    import fcntl
except ImportError:  # Windows does not rename a file that is open, so there the open file itself is the lock.
    fcntl = None  # type: ignore[assignment]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP}
_OPEN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A complete output that does not have its name yet.

    Parameters
    ----------
    temporary : Path
        Where its content is, synced; absolute, in the folder of `path`.
    path : Path
        The name it gets; absolute.
    sha256 : str
        Digest of the content, 64 hexadecimal digits.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a value is none of these.
    """

    temporary: Path
    path: Path
    sha256: str

    def __post_init__(self) -> None:
        for name in ("temporary", "path"):
            value = getattr(self, name)
            if not isinstance(value, Path):
                raise ParameterTypeError(f"{name} must be a pathlib.Path, got {value!r}")
            if not value.is_absolute():
                raise ParameterError(f"{name} must be absolute, got {str(value)!r}")
        if self.temporary.parent != self.path.parent or self.temporary == self.path:
            raise ParameterError(
                f"temporary must be another file in the folder of path, {str(self.path.parent)!r}, got {str(self.temporary)!r}"
            )
        digest: object = self.sha256
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ParameterError(f"sha256 must be 64 hexadecimal digits, got {self.sha256!r}")


def move_into_place(file: SealedFile, *, overwrite: bool) -> None:
    """Give a sealed file its name, and make the name last; without `overwrite` no other file can lose its name by it.

    Parameters
    ----------
    file : SealedFile
        What to move. If the temporary is gone and the name has the content already, there is nothing to do.
    overwrite : bool
        Whether a file that has the name is replaced.

    Raises
    ------
    FileExistsError
        If another file has the name, and `overwrite` is false. Nothing has changed then.
    OSError
        If the system does not allow it.
    """
    try:
        if overwrite:
            file.temporary.replace(file.path)
        else:
            _link(file)
            file.temporary.unlink(missing_ok=True)
    except FileNotFoundError:
        if not _has_content(file):
            raise
    sync_folder(file.path.parent)


def _link(file: SealedFile) -> None:
    try:
        os.link(file.temporary, file.path, follow_symlinks=False)
    except FileExistsError:
        if not _is_same(file.temporary, file.path):
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links on this file system, so nothing here can look and rename in one step.
        if os.path.lexists(file.path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file.path)) from None
        file.temporary.rename(file.path)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are one file: what is left if a process dies between the two steps of a move."""
    return os.path.samestat(one.lstat(), other.lstat())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last; systems that cannot sync a folder have nothing to do here."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def identity(path: Path) -> str | None:
    """Tell the file that has a name from every later one; None if there is none."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def finish(files: Sequence[SealedFile], replaces: Sequence[str | None], *, overwrite: bool) -> bool:
    """Move the files of a sealed run whose process is dead.

    Parameters
    ----------
    files : sequence of SealedFile
        All of the run's.
    replaces : sequence of str or None
        `identity` of what had their names when the run was sealed.
    overwrite : bool
        Whether that may be replaced; what took the name later never is.

    Returns
    -------
    bool
        Whether every file now has its name. If not, nothing that belongs to somebody else was touched: the process lives, a content is
        not the one that was sealed, a name is taken, or the system does not allow it.
    """
    pairs = tuple(zip(files, replaces, strict=True))
    try:
        with contextlib.ExitStack() as held:
            there = [_held(file.temporary, held) for file in files]
            ready = all(_is_ready(*pair, descriptor, overwrite=overwrite) for pair, descriptor in zip(pairs, there, strict=True))
            if fcntl is None:
                held.close()
            if ready:
                _settle_all(pairs)
            return ready
    except OSError:
        return False


def _held(path: Path, held: contextlib.ExitStack) -> int | None:
    """Open and lock a temporary; None if it is gone. The lock of a process that lives is an OSError."""
    try:
        descriptor = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    held.callback(os.close, descriptor)
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def _is_ready(file: SealedFile, replaces: str | None, temporary: int | None, *, overwrite: bool) -> bool:
    """Whether the move can be made, or was made already."""
    if temporary is None:
        return _has_content(file)
    if _digest(temporary) != file.sha256:
        return False
    found = identity(file.path)
    return found is None or (overwrite and found == replaces) or _has_content(file)


def _settle_all(pairs: Sequence[tuple[SealedFile, str | None]]) -> None:
    """Give all files their names, in their order.

    What is replaced goes first, the last file before the others: nobody ever finds a new file beside an old one of the same run's names.
    """
    for file, replaces in reversed(pairs):
        if replaces is not None and os.path.lexists(file.temporary) and identity(file.path) == replaces:
            file.path.unlink()
            sync_folder(file.path.parent)
    for file, _ in pairs:
        _settle(file)


def _settle(file: SealedFile) -> None:
    if not os.path.lexists(file.temporary):
        sync_folder(file.path.parent)
    elif os.path.lexists(file.path) and not _is_same(file.temporary, file.path) and _has_content(file):
        file.temporary.unlink()  # the same content came to the name in another way
        sync_folder(file.path.parent)
    else:
        move_into_place(file, overwrite=False)


def _has_content(file: SealedFile) -> bool:
    """Whether the name has the sealed content."""
    try:
        descriptor = os.open(file.path, _OPEN)
    except OSError:
        return False
    try:
        return _digest(descriptor) == file.sha256
    finally:
        os.close(descriptor)


def _digest(descriptor: int) -> str | None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    with open(descriptor, "rb", closefd=False) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
