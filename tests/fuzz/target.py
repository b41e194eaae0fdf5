"""What a target of the fuzzer is, and what counts as a finding in all of them.

Only errors of dpcore may leave. Their messages, and those of the errors that a traceback would show with them, hold no value of data. What
is refused has written nothing. One input takes bounded time and memory.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dpcore.errors import DpcoreError

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

MARK = "zq7mark"
NUMBER_MARK = 8675309
MARKS = (MARK, str(NUMBER_MARK))
"""Values of data that the targets plant, as a message would show them."""


class FoundError(AssertionError):
    """A finding: a promise that does not hold for an input."""


@dataclass(frozen=True)
class Outcome:
    """What became of an input: the class of the error that refused it, or "" if it was accepted."""

    refusal: str = ""
    message: str = ""


class Target(ABC):
    """A part of dpcore that reads what others wrote.

    Parameters
    ----------
    folder : Path
        An empty folder, in memory if possible; it is the working directory while an input runs.
    """

    name: ClassVar[str]
    promise: ClassVar[str]
    """What is checked beside the promises of all targets."""
    errors: ClassVar[tuple[type[Exception], ...]] = (DpcoreError,)
    longest: ClassVar[int] = 4096
    """Bytes of an input."""
    seconds: ClassVar[float] = 60.0
    megabytes: ClassVar[int] = 400
    """What one input may add to the memory of the process."""
    words: ClassVar[tuple[str, ...]] = ()
    """A dictionary for mutations."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_reading = False
        """Whether rows are read, so that what is kept of a run, such as its charge, may stay after an error."""

    @abstractmethod
    def run(self, data: bytes) -> None:
        """Try one input; any error of `errors` is a refusal."""

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        """A mutation that knows the structure of inputs; None if there is none of this input."""
        return None

    def declares(self, mark: str, data: bytes) -> bool:
        """Whether a planted value is a parameter of the input, which messages may show."""
        return False

    def listing(self) -> dict[str, tuple[int, int]]:
        """The files of the folder, with their sizes and times."""
        return {
            str(path): (0, 0) if stat.S_ISDIR(state.st_mode) else (state.st_size, state.st_mtime_ns)
            for path, state in _files_below(self.folder)
        }

    def is_watched(self, path: Path) -> bool:
        """Whether a file must be as it was after a refusal."""
        return True

    def clear(self, kept: dict[str, tuple[int, int]]) -> None:
        """Remove what an input has made."""
        for path, _ in list(_files_below(self.folder)):
            if str(path) not in kept:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _files_below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for found, folders, names in os.walk(folder):
        for name in (*names, *folders):
            path = Path(found, name)
            if os.path.lexists(path):
                yield path, path.lstat()


def attempt(target: Target, data: bytes, *, limits: bool = False) -> Outcome:
    """Try one input.

    Parameters
    ----------
    target : Target
        What to try.
    data : bytes
        The input.
    limits : bool, default False
        Whether time and memory count, too.

    Raises
    ------
    FoundError
        If a promise does not hold.
    """
    before = target.listing()
    target.is_reading = False
    start, memory = time.process_time(), _Memory(limits)
    here = Path.cwd()
    try:
        os.chdir(target.folder)
        outcome = _outcome(target, data)
        if left := _changes(target, before, is_refused=bool(outcome.refusal)):
            raise FoundError(f"{outcome.refusal or 'nothing'} was raised, and these files are new, changed or gone: {left}")
    finally:
        os.chdir(here)
        target.clear(before)
    if limits:
        memory.check(target.megabytes)
        if (took := time.process_time() - start) > target.seconds:
            raise FoundError(f"one input took {took:.0f} s of CPU, and may take {target.seconds}")
    return outcome


def _outcome(target: Target, data: bytes) -> Outcome:
    try:
        target.run(data)
    except (FoundError, KeyboardInterrupt):
        raise
    except target.errors as error:
        _check_said(target, error, data)
        return Outcome(type(error).__name__, str(error))
    except BaseException as error:
        raise FoundError(f"{type(error).__name__} left: {error}") from error
    return Outcome()


def _changes(target: Target, before: dict[str, tuple[int, int]], *, is_refused: bool) -> list[str]:
    after = target.listing()
    # What is accepted may write files, and changes none that were there.
    looked_at = {**before, **after} if is_refused else before
    changed = sorted(name for name in looked_at if before.get(name) != after.get(name))
    return [name for name in changed if target.is_watched(Path(name).relative_to(target.folder))]


def _check_said(target: Target, error: BaseException, data: bytes) -> None:
    """Raise if a message, or one that a traceback shows with it, holds a planted value that the input does not declare."""
    for each in _shown(error):
        said = " ".join([str(each), *getattr(each, "__notes__", ())])
        for mark in MARKS:
            if mark in said and not target.declares(mark, data):
                raise FoundError(f"a message holds a value of the data: {type(each).__name__}: {said}") from error


def _shown(error: BaseException) -> Iterator[BaseException]:
    """An error, those that its traceback would show before it, and the members of groups."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting.append(each.__cause__ or (None if each.__suppress_context__ else each.__context__))
        waiting += each.exceptions if isinstance(each, BaseExceptionGroup) else ()


class _Memory:
    """The peak of the process's memory during one input, where Linux tells it."""

    STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

    def __init__(self, wanted: bool) -> None:
        self._before = 0
        if wanted and self.RESET.exists():
            try:
                self.RESET.write_text("5")
                self._before = self._peak()
            except OSError:
                self._before = 0

    def _peak(self) -> int:
        """In kilobytes."""
        for line in self.STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
        return 0

    def check(self, megabytes: int) -> None:
        """Raise if the input took too much."""
        if self._before and (more := (self._peak() - self._before) >> 10) > megabytes:
            raise FoundError(f"one input took {more} MB of memory, and may take {megabytes}")
