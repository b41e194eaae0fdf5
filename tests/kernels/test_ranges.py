"""How a call is cut into ranges for the threads: all of it once, and nothing runs any more when the call returns or raises."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import numpy as np
import pytest

from dpcore import _backend, noise


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backend.threads, "CHUNK", 100)
    monkeypatch.setattr(_backend.threads, "SMALL", 10)


class Recorder:
    """Ranges that were worked on; one of them may fail, and others can be held up until it has."""

    def __init__(self, fail: Callable[[], None] | None = None, at: int = 0) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.running = 0
        self._fail, self._at, self._lock = fail, at, threading.Lock()

    def __call__(self, start: int, stop: int) -> None:
        with self._lock:
            self.running += 1
        try:
            if self._fail is not None and start == self._at:
                self._fail()
            self.ranges.append((start, stop))
        finally:
            with self._lock:
                self.running -= 1


@pytest.mark.parametrize("threads", [None, 1, 2, 3, 8])
@pytest.mark.parametrize("size", [0, 1, 10, 11, 99, 100, 101, 200, 799, 800, 801, 12345])
@pytest.mark.usefixtures("small_chunks")
def test_ranges_cover_the_call_once(size: int, threads: int | None) -> None:
    work = Recorder()
    _backend.for_ranges(work, size, threads)
    covered = [position for start, stop in sorted(work.ranges) for position in range(start, stop)]
    assert covered == list(range(size))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("at", [0, 800, 19200])
@pytest.mark.usefixtures("small_chunks")
def test_the_first_error_ends_the_call(at: int, threads: int) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    work = Recorder(fail, at)
    with pytest.raises(ZeroDivisionError):
        _backend.for_ranges(work, 20000, threads)
    done = len(work.ranges)
    assert work.running == 0
    again = Recorder()
    _backend.for_ranges(again, 20000, threads)  # the pool is as good as new
    assert sum(stop - start for start, stop in again.ranges) == 20000
    assert len(work.ranges) == done


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.usefixtures("small_chunks")
def test_an_interrupt_ends_the_call_between_ranges(threads: int) -> None:
    main = threading.main_thread()

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    class OnMain(Recorder):
        def __call__(self, start: int, stop: int) -> None:
            if threading.current_thread() is main:
                interrupt()
            super().__call__(start, stop)

    work = OnMain()
    with pytest.raises(KeyboardInterrupt):
        _backend.for_ranges(work, 10**6, threads)
    done = len(work.ranges)
    assert work.running == 0
    noise.laplace(np.zeros(1000), 1.0, threads=threads)
    assert len(work.ranges) == done


def test_default_threads_is_at_least_one() -> None:
    assert _backend.default_threads() >= 1
