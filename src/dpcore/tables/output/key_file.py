"""Key files: the key of one release, which its noise is drawn from, with what it was made for. They are as secret as the data.

A key file is made once, under a name that no file has, and only its owner may read it. After its first line come the key and a second
secret, 32 bytes each, and then a line of JSON that says what the key is for. Another line is added when the release begins. The file is on
the disk before anything that follows from it happens. Key and secret are read into memory that is wiped, and never made into text.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore._backend import Key, fresh_key, os_key
from dpcore._dataclasses import dataclass
from dpcore._disk.locks import is_same_file, try_lock
from dpcore._disk.sealed_files import sync_folder
from dpcore.errors import EntropyError, JobError, StorageError, reason
from dpcore.rng import KEY_BYTES
from dpcore.tables.local_paths import check_local
from dpcore.tables.output.state_file import OTHERS, OWNER_OPENS, OWNER_READS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpcore._disk.addresses import Location
    from dpcore.tables.places import Place

MAGIC = b"dpcore key file 1\n"
HEAD = len(MAGIC) + 2 * KEY_BYTES + 1
"""Bytes before the line that says what the key is for."""
MOST_BYTES = 64 << 20
"""Of a key file: a job has at most 16 MiB, and text grows when it is written as JSON."""
COMMIT = "--commit"
"""Name of a key file in messages of a release."""


@dataclass(frozen=True, slots=True)
class Secret:
    """The secrets of one release.

    Attributes
    ----------
    key : Key
        What the noise follows from.
    blinder : Key
        What hides it in its commitment.
    """

    key: Key
    blinder: Key

    @classmethod
    def fresh(cls) -> Secret:
        """New ones from the operating system."""
        return cls(os_key(), os_key())


@dataclass(frozen=True, slots=True)
class Contents:
    """What a key file holds.

    Attributes
    ----------
    secret : Secret
        The secrets.
    line : bytes
        What the key is for, as it is committed to.
    begun : dict or None
        What was noted when the release began; None before.
    """

    secret: Secret
    line: bytes
    begun: dict[str, Any] | None

    @property
    def about(self) -> dict[str, Any]:
        """What the key is for."""
        found: dict[str, Any] = json.loads(self.line)
        return found


class KeyFile:
    """A key file, by its name. As a context manager it keeps other runs from the file.

    Parameters
    ----------
    path : str or Path
        As the user gave it. It is resolved once, here.
    key : str, default "--commit"
        What messages call it.

    Attributes
    ----------
    path : Path
        The file itself.

    Raises
    ------
    JobError
        If the path is an address.
    """

    def __init__(self, path: str | Path, key: str = COMMIT) -> None:
        self._given, self._key = str(path), key
        check_local(key, self._given)
        given = Path(self._given)
        # The last part is not followed: a link there is refused when the file is opened.
        self.path = given.parent.resolve() / given.name
        self._descriptor = -1

    def __str__(self) -> str:
        return f"{self._key} {self._given!r}"

    @property
    def place(self) -> Place:
        """Its name in messages, and its path."""
        return self._key, self.path

    def check_apart(self, written: Iterable[tuple[str, Location]]) -> None:
        """Raise `JobError` if a file that is shown to others is in the folder of the key file."""
        for key, path in written:
            if isinstance(path, Path) and path.resolve().parent == self.path.parent:
                raise JobError(
                    f"{self} is beside {key} = {str(path)!r}, and is as secret as the data: a folder of outputs is shown to others. Name a "
                    "file in a folder of its own"
                )

    def read(self) -> Contents | None:
        """What the file holds; None if there is no file.

        Raises
        ------
        JobError
            If others may read it, or it is no key file.
        StorageError
            If it cannot be read, or is not complete.
        """
        try:
            descriptor = self._opened(os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return self._contents(descriptor)
        finally:
            os.close(descriptor)

    def make(self, secret: Secret, line: bytes) -> None:
        """Make the file with these secrets, durably, and keep other runs from it.

        Raises
        ------
        StorageError
            If there is such a file, or it cannot be written; then there is none.
        """
        try:
            self.path.parent.mkdir(OWNER_OPENS, parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, _flags(os.O_CREAT | os.O_EXCL | os.O_RDWR), OWNER_READS)
        except FileExistsError:
            raise StorageError(f"{self} exists by now; nothing was read, and nothing is spent") from None
        except OSError as error:
            raise StorageError(f"{self} cannot be made{reason(error)}") from None
        try:
            self._lock()
            for part in (MAGIC, secret.key, secret.blinder, b"\n", line, b"\n"):
                _write(self._descriptor, part)
            os.fsync(self._descriptor)
            sync_folder(self.path.parent)
        except BaseException as error:
            self.close()
            with contextlib.suppress(OSError):
                self.path.unlink()
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise StorageError(f"{self} cannot be written{reason(error)}") from None
            raise

    def take(self, known: Contents) -> None:
        """Keep other runs from the file, which must hold what was read before.

        Raises
        ------
        StorageError
            If another run has it, or it is another file now.
        """
        try:
            self._descriptor = self._opened(os.O_RDWR)
        except OSError as error:
            raise StorageError(f"{self} cannot be written{reason(error)}") from None
        try:
            self._lock()
            self._check_known(known)
        except BaseException:
            self.close()
            raise

    def _check_known(self, known: Contents) -> None:
        if self._contents(self._descriptor) != known:
            raise StorageError(f"{self} has changed since the job was planned; nothing was read, and nothing is spent")

    def note(self, begun: Mapping[str, Any]) -> None:
        """Add what is known when the release begins, durably.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        try:
            end = HEAD + len(_lines_of(self._descriptor)[0]) + 1
            os.ftruncate(self._descriptor, end)  # What a run has left that was killed while it wrote this line.
            os.lseek(self._descriptor, end, os.SEEK_SET)
            _write(self._descriptor, json.dumps(dict(begun), sort_keys=True).encode() + b"\n")
            os.fsync(self._descriptor)
        except OSError as error:
            raise StorageError(f"{self} cannot be written{reason(error)}") from None

    def close(self) -> None:
        """Let other runs have the file. A second call has no effect."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _lock(self) -> None:
        if not (try_lock(self._descriptor) and is_same_file(self._descriptor, self.path)):
            raise StorageError(f"another run is using {self}; nothing was read, and nothing is spent")

    def _opened(self, mode: int) -> int:
        """Open the file and check whose it is; raises FileNotFoundError if there is none."""
        try:
            descriptor = os.open(self.path, _flags(mode) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise JobError(f"{self} is a symbolic link; name the file itself") from None
            raise StorageError(f"{self} cannot be read{reason(error)}") from None
        try:
            self._check(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise JobError(f"{self} is no regular file; name a file")
        if os.name == "posix" and status.st_mode & OTHERS:
            rights = stat.S_IMODE(status.st_mode)
            raise JobError(f"{self} has the rights {rights:04o}: others may read it, and it is as secret as the data. Run chmod 600 on it")
        if status.st_nlink > 1:
            raise JobError(f"{self} has another name (a hard link), under which it stays when you destroy it: remove that name")

    def _contents(self, descriptor: int) -> Contents:
        try:
            if os.fstat(descriptor).st_size > MOST_BYTES or not MAGIC.startswith(_at(descriptor, 0, len(MAGIC))):
                raise JobError(f"{self} is no key file: it was not made by dpcore release --commit")
            secret = Secret(*(_secret(descriptor, len(MAGIC) + place * KEY_BYTES) for place in range(2)))
            first, *others = _lines_of(descriptor)
        except EntropyError:
            raise
        except OSError as error:
            raise StorageError(f"{self} cannot be read{reason(error)}") from None
        except (ValueError, TypeError) as error:
            if isinstance(error, JobError):
                raise
            raise StorageError(
                f"{self} is not complete: the run that made it was killed before anything was read or spent. Remove the file, and run again"
            ) from None
        try:
            about, begun = json.loads(first), json.loads(others[0]) if others else None
        except (ValueError, RecursionError):
            about, begun = None, None
        if not isinstance(about, dict) or not isinstance(begun, dict | None):
            raise StorageError(f"{self} is damaged: it was cut, edited or not written by dpcore. Restore a copy of it")
        return Contents(secret, first, begun)


def _flags(mode: int) -> int:
    return mode | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _write(descriptor: int, content: bytes | Key) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _at(descriptor: int, place: int, size: int) -> bytes:
    """So many bytes of a file, or as many as it has, without a buffer that keeps them."""
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.read(descriptor, size)


def _secret(descriptor: int, place: int) -> Key:
    """A key of a file; raises TypeError if the file ends before it does."""
    found = fresh_key(lambda size: _at(descriptor, place, size))
    if not isinstance(found, Key):
        raise TypeError(place)
    return found


def _lines_of(descriptor: int) -> list[bytes]:
    """The lines of JSON that are complete; raises ValueError if there is none."""
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, HEAD - 1, os.SEEK_SET)
    content = b""
    while len(content) < size - HEAD + 1:
        part = os.read(descriptor, size)
        if not part:
            break
        content += part
    before, *lines = content.split(b"\n")
    if before or len(lines) < 2:
        raise ValueError(len(lines))
    return lines[:-1]
