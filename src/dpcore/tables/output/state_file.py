"""State files: what a run of a job keeps for the next one. They are as secret as the data.

A state is one file of JSON that only its owner may read. It is replaced as a whole, by a rename, and is on the disk before anything that
follows from it is published. Its digest shows damage; it does not protect against someone who can write the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dpcore._disk.files import AtomicFile, remove_stale
from dpcore._disk.locks import NameLock
from dpcore.errors import JobError, StorageError, reason
from dpcore.tables.local_paths import check_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from dpcore._disk.addresses import Location
    from dpcore.tables.places import Place

OWNER_READS, OWNER_OPENS = 0o600, 0o700
OTHERS = 0o077
MOST_BYTES = 1 << 30
NEWEST = "Restore the newest copy of it"


class StateFile:
    """A state file, by its key in the job.

    Parameters
    ----------
    key : str
        What messages call it.
    path : str
        As the job has it. It is resolved once, here.

    Attributes
    ----------
    key, path
        The key, and the file itself.

    Raises
    ------
    JobError
        If the path is an address.
    """

    def __init__(self, key: str, path: str) -> None:
        check_local(key, path)
        self.key, self._given = key, path
        self.path = Path(path).resolve()
        self._lock: NameLock | None = None

    def __str__(self) -> str:
        return f"{self.key} = {self._given!r}"

    @property
    def place(self) -> Place:
        """Its name in messages, and its path."""
        return self.key, self.path

    def check_apart(self, written: Iterable[tuple[str, Location]]) -> None:
        """Raise `JobError` if the job publishes a file in the folder of the state."""
        for key, path in written:
            if isinstance(path, Path) and path.resolve().parent == self.path.parent:
                raise JobError(
                    f"{self} is beside {key} = {str(path)!r}, and is as secret as the data: a folder of outputs is shown to others. Name a "
                    "file in a folder of its own"
                )

    def read(self) -> dict[str, Any] | None:
        """The state; None if there is no file.

        Raises
        ------
        JobError
            If others may read it, or it is not a file of its own.
        StorageError
            If it cannot be read, or is damaged.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self} cannot be read{reason(error)}") from None
        try:
            self._check(os.fstat(descriptor))  # a folder can be opened, and is no file
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(MOST_BYTES)
        except JobError:
            raise
        except OSError as error:
            raise StorageError(f"{self} cannot be read{reason(error)}") from None
        finally:
            os.close(descriptor)
        return self._checked(content)

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise JobError(f"{self} is no regular file; name a file")
        if os.name == "posix" and status.st_mode & OTHERS:
            rights = stat.S_IMODE(status.st_mode)
            raise JobError(f"{self} has the rights {rights:04o}, and others may read it, which is as secret as the data: chmod 600 it")
        if status.st_nlink > 1:
            raise JobError(f"{self} has another name (a hard link), under which it stays when it is wiped: remove that name")

    def _checked(self, content: bytes) -> dict[str, Any]:
        state: dict[str, Any] | None = None
        try:
            found = json.loads(content)
            if isinstance(found, dict) and found.pop("digest", None) == _digest(found):
                state = found
        except (ValueError, RecursionError):
            state = None
        if state is None:
            raise self.damaged()
        return state

    def damaged(self) -> StorageError:
        """The error for a content that dpcore did not write."""
        return StorageError(f"{self} is damaged: it was cut, edited or not written by dpcore. {NEWEST}")

    def __enter__(self) -> Self:
        """Make its folder, and keep other runs from it until the end."""
        try:
            self.path.parent.mkdir(OWNER_OPENS, parents=True, exist_ok=True)
            self._lock = NameLock(self.path)
            remove_stale(self.path)
        except BlockingIOError:
            raise StorageError(f"another run is using {self}; nothing was read, and nothing is spent") from None
        except OSError as error:
            raise StorageError(f"cannot write into {self.path.parent}{reason(error)}") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is not None:
            self._lock.release()

    def replace(self, state: Mapping[str, Any]) -> None:
        """Write the state in place of the one before, whose bytes are overwritten where the file system does that in place.

        Raises
        ------
        StorageError
            If it cannot be written. The state before is there as it was.
        """
        content = json.dumps({**state, "digest": _digest(state)}).encode()
        before = self._opened()
        file = AtomicFile(self.path, rights=OWNER_READS)
        try:
            file.write(content)
            file.commit()
        except BaseException:
            file.abort()
            if before is not None:
                os.close(before)
            raise
        if before is not None:
            with contextlib.suppress(OSError), os.fdopen(before, "r+b") as old:
                old.write(bytes(os.fstat(before).st_size))
                old.flush()
                os.fsync(before)

    def _opened(self) -> int | None:
        try:
            return os.open(self.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            return None


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
