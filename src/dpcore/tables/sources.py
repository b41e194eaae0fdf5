"""An input file, opened once, and checked not to change while it is read."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore._disk import stores
from dpcore._disk.addresses import Address, Location
from dpcore._disk.files import digest_of
from dpcore._disk.stores import ObjectVersion
from dpcore.errors import JobError, StorageError, reason

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from dpcore.tables.pieces import FileInfo

Where = TypeVar("Where", Path, Address, Location)
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


@dataclass(frozen=True, slots=True, order=True)
class Partitioned:
    """A file of a folder whose subfolders are named after values of its rows: messages do not show those.

    Attributes
    ----------
    file : Path or Address
        Where it is.
    shown : str
        Its name in messages.
    """

    file: Location
    shown: str

    def __str__(self) -> str:
        return self.shown


InputFile = Location | Partitioned
"""The name of a file of an input."""


def place_of(name: InputFile) -> Location:
    """Where a file of an input is."""
    return name.file if isinstance(name, Partitioned) else name


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An open file.

    Attributes
    ----------
    path : Path, Address or Partitioned
        Its name, for messages; nothing opens it again.
    file : pyarrow.NativeFile
        Where it is read from.
    size : int
        Bytes when it was opened.
    is_remote : bool
        Whether each read is a request to a store.
    info : FileInfo or None
        What is known of its footer, if that was read before.
    """

    path: InputFile
    file: pa.NativeFile
    size: int
    is_remote: bool = False
    info: FileInfo | None = None


def version_of(path: InputFile) -> Version | ObjectVersion:
    """Read the version of a file without opening it.

    Raises
    ------
    JobError
        If it is no regular file: reading a pipe may take forever.
    StorageError
        If there is none.
    """
    place = place_of(path)
    if isinstance(place, Address):
        return stores.version(place)
    try:
        state = place.stat()
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None
    if not stat.S_ISREG(state.st_mode):
        raise JobError(
            f"{path}: {KINDS.get(stat.S_IFMT(state.st_mode), 'not a regular file')}, and a table is read from regular files only"
        )
    return Version.of(state)


def size_of(place: Location) -> int | None:
    """The size of a file or an object; None if there is none. Raises OSError if that cannot be found out."""
    try:
        return stores.version(place).size if isinstance(place, Address) else place.stat().st_size
    except FileNotFoundError:
        return None
    except stores.StoreError as error:
        if error.is_absence:
            return None
        raise


def exists(place: Location) -> bool:
    """Whether something has this name; raises StorageError if a store does not say."""
    return size_of(place) is not None if isinstance(place, Address) else place.exists()


def bytes_of(place: Location) -> bytes:
    """The content of a small file or object; raises OSError if it cannot be read."""
    if not isinstance(place, Address):
        return place.read_bytes()
    try:
        return stores.content(place)
    except stores.StoreError as error:
        if error.is_absence:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place)) from None
        raise


def digest_of_file(place: Location, stop: threading.Event | None = None) -> str:
    """SHA-256 of a file or an object, or of a part of it if `stop` is set meanwhile; raises OSError if it cannot be read."""
    return stores.digest(place, stop) if isinstance(place, Address) else digest_of(place, stop)


@contextlib.contextmanager
def opened(path: InputFile, found: Version | ObjectVersion | None = None, info: FileInfo | None = None) -> Iterator[SourceFile]:
    """Open a file for one pass over it.

    Parameters
    ----------
    path : Path, Address or Partitioned
        The file.
    found : Version or ObjectVersion, optional
        What it was when the job was planned; by default, what it is now.
    info : FileInfo, optional
        What was read of it then.

    Raises
    ------
    StorageError
        If it cannot be opened, or is another than it was, now or at the end of the pass. Whatever reading made of a file that changed is
        worth nothing, so this replaces any other error of the pass.
    """
    found = found or version_of(path)
    place = place_of(path)
    file, now, descriptor = (*stores.opened_object(place), -1) if isinstance(place, Address) else _opened_file(path, place)
    with file:
        try:
            check_same(path, now, found)  # Of the open file, not of its name: what has taken its place since is not what is read.
            yield SourceFile(path, file, found.size, isinstance(place, Address), info)
        except Exception as error:
            _check_unchanged(path, descriptor, found)
            if isinstance(place, Address) and isinstance(error, StorageError):
                raise stores.with_cause(error) from None
            raise
        _check_unchanged(path, descriptor, found)


def _opened_file(path: InputFile, place: Path) -> tuple[pa.NativeFile, Version, int]:
    """The open file, its version, and its descriptor, which pyarrow has told since version 25; before that Python opens the file for it."""
    version_of(path)
    try:
        file = pa.OSFile(str(place), "rb")
        try:
            descriptor = file.fileno()
        except (AttributeError, io.UnsupportedOperation):
            file.close()
            # With a buffer, since a read without one returns at most 2 GiB.
            own = place.open("rb")
            file, descriptor = pa.PythonFile(own, mode="r"), own.fileno()
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None
    return file, Version.of(os.fstat(descriptor)), descriptor


def _check_unchanged(path: InputFile, descriptor: int, found: Version | ObjectVersion) -> None:
    """Raise `StorageError` if a file is another now. An object is asked for by its name: a store has no open files."""
    place = place_of(path)
    check_same(path, _version_now(place) if isinstance(place, Address) else Version.of(os.fstat(descriptor)), found)


def _version_now(place: Address) -> ObjectVersion | None:
    """The version of an object; None if it was removed."""
    try:
        return stores.version(place)
    except stores.StoreError as error:
        if error.is_absence:
            return None
        raise


def check_same(path: InputFile, now: object, found: object) -> None:
    """Raise `StorageError` if a file is not what it was."""
    if now != found:
        raise StorageError(
            f"{path}: the input changed while it was read, so the result would mix two tables; try again when nothing writes to it"
        )
