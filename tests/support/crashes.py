"""Processes that die between any two steps: a process here is a function whose steps are counted and that ends at one of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore import Privacy
from dpcore._disk.sealed_files import SealedFile, move_into_place
from dpcore.accounting import Ledger
from dpcore.accounting.ledger import database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Death(BaseException):
    """The process ends here: nothing of it runs any more, and its locks are gone."""


class Steps:
    """Counts the steps that touch the disk, before and after each, and dies at the one it is told.

    Parameters
    ----------
    monkeypatch : pytest.MonkeyPatch
        Puts the counting in front of the system's calls and of SQLite's transactions.
    die : callable, optional
        What dying is; by default `Death`.
    """

    def __init__(self, monkeypatch: Any, die: Callable[[], None] | None = None) -> None:
        self._count, self._end, self._die = 0, None, die
        for name in ("link", "unlink", "replace", "rename"):
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))
        transaction = database.transaction

        @contextlib.contextmanager
        def counted(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with transaction(*args, **kwargs) as connection:
                yield connection
                self._step()
            self._step()

        monkeypatch.setattr(database, "transaction", counted)

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._step()
            result = function(*args, **kwargs)
            self._step()
            return result

        return call

    def _step(self) -> None:
        self._count += 1
        if self._count == self._end:
            self._end = None
            if self._die is not None:
                self._die()
            raise Death

    def run(self, process: Callable[[], object], end: int | None = None) -> int | None:
        """Run a process that dies at its step `end`; return how many it took, or None if it died."""
        self._count, self._end = 0, end
        try:
            process()
        except Death:
            return None
        finally:
            self._end = None
        return self._count


def locked(path: Path, content: bytes) -> int:
    """Write a temporary and lock it as a live process does; the lock goes with the descriptor."""
    import fcntl  # only where POSIX is

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.write(descriptor, content)
    os.fsync(descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def sealed(folder: Path, name: str, content: bytes) -> SealedFile:
    """The sealed file of a content."""
    return SealedFile(folder / f".{name}.1.tmp", folder / name, hashlib.sha256(content).hexdigest())


def job(folder: Path, outputs: dict[str, bytes], *, overwrite: bool) -> None:
    """What a batch job does: reserve, write, seal, move, say so."""
    held: list[int] = []
    try:
        reservation = Ledger(folder / "ledger").spend(Privacy(0.25), what="job", run="run")
        files = [sealed(folder, name, content) for name, content in outputs.items()]
        held += [locked(file.temporary, outputs[file.path.name]) for file in files]
        reservation.seal(files, overwrite=overwrite)
        for file in files:
            move_into_place(file, overwrite=overwrite)
        reservation.published()
        reservation.done()
    finally:
        for descriptor in held:
            os.close(descriptor)
