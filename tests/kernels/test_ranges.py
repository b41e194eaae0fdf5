"""How a call is cut into ranges for the threads: all of it once, and nothing runs any more when the call returns or raises."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from dpcore import _backend, noise
from support.outputs import threads_that_fail


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


@pytest.mark.parametrize("after", [0, 1, 2, 3])
@pytest.mark.usefixtures("small_chunks")
def test_threads_that_do_not_start_are_done_without(after: int) -> None:
    work = Recorder()
    with threads_that_fail(after):
        _backend.for_ranges(work, 12345, 4)
    assert work.running == 0
    assert sorted(work.ranges) == [(start, min(start + 100, 12345)) for start in range(0, 12345, 100)]
    again = Recorder()
    _backend.for_ranges(again, 12345, 4)
    assert sum(stop - start for start, stop in again.ranges) == 12345


@pytest.mark.usefixtures("small_chunks")
def test_further_interrupts_do_not_end_the_wait_for_the_others() -> None:
    main, helping, interrupted, over, go_on = threading.main_thread(), *(threading.Event() for _ in range(4))

    def hold() -> None:
        if threading.current_thread() is main:
            helping.wait()
            interrupted.set()
            signal.raise_signal(signal.SIGINT)
        else:
            helping.set()
            go_on.wait()

    class Held(Recorder):
        def __call__(self, start: int, stop: int) -> None:
            self._fail, self._at = hold, start
            super().__call__(start, stop)

    def insist() -> None:
        interrupted.wait()
        for _ in range(3):
            over.wait(0.1)  # long enough to have been heard; the call is over only if it did not wait
            signal.pthread_kill(main.ident or 0, signal.SIGINT)
        over.wait(0.1)
        go_on.set()

    work, other = Held(), threading.Thread(target=insist)
    other.start()
    running = -1
    try:
        with pytest.raises(KeyboardInterrupt):
            _backend.for_ranges(work, 10**6, 2)
        running = work.running
    except KeyboardInterrupt:  # a late one
        running = work.running
    finally:
        over.set()
        go_on.set()
        other.join()
    assert running == 0


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="without the GIL only the collector frees functions")
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.usefixtures("small_chunks")
def test_errors_of_other_threads_keep_nothing_of_the_call_alive(both: bool) -> None:
    class Owner:
        """What a call holds: arrays and keys."""

    main, together, owner = threading.get_ident(), threading.Barrier(2, timeout=60), Owner()
    alive = weakref.ref(owner)

    def work(start: int, stop: int, *, owned: Owner = owner) -> None:
        together.wait()
        if both or threading.get_ident() != main:
            raise ZeroDivisionError

    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError):
            _backend.for_ranges(work, 200, 2)
        del work, owner
        assert alive() is None
    finally:
        gc.enable()


def test_default_threads_is_at_least_one() -> None:
    assert _backend.default_threads() >= 1
