"""Threads of the process, and the ranges of an array that they take."""

from __future__ import annotations

import math
import os
import threading
from _thread import start_new_thread
from collections.abc import Callable
from functools import lru_cache
from queue import SimpleQueue

from dpcore._kernels._ranges import Ranges
from dpcore.errors import ParameterError

_THREADS_VARIABLE = "DPCORE_NUM_THREADS"
CHUNK = 1 << 17
"""Elements that a thread takes at a time: a fraction of a millisecond, so that Ctrl-C takes effect soon."""
SMALL = 1 << 15
"""Arrays up to this size stay on the calling thread."""
MOST_WAITING = 1 << 12
"""Most jobs that may wait for threads."""


def _cgroup_quota() -> float:
    """CPUs that the control group grants, or infinity."""
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:  # noqa: PTH123 - pathlib takes long to load
            quota, period = file.read().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return math.inf


@lru_cache(maxsize=1)
def default_threads() -> int:
    """min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS), at least 1; read once."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = max(1, min(affinity, math.floor(max(1.0, min(_cgroup_quota(), 1e6)))))
    text = os.environ.get(_THREADS_VARIABLE)
    if not text:
        return count
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"{_THREADS_VARIABLE} must be an integer ≥ 1, got {text!r}")
    return min(count, int(text))


class _Pool:
    """The worker threads of the process, which take jobs from one queue; made on first use, and again after fork.

    No call waits for a thread to start, as `threading.Thread` does: if a thread died before it began, because memory is short, that wait
    would never end.
    """

    _jobs: SimpleQueue[Callable[[], None] | None]
    _workers: int

    def __init__(self) -> None:
        self.forget()

    def start(self, job: Callable[[], None], workers: int) -> None:
        """Return a job to so many threads, or to fewer where the system starts no more."""
        if getattr(self._here, "starts", False):
            return  # a signal handler has interrupted this function, which may hold the lock: the handler's call works alone
        here = self._here
        here.starts = True
        try:
            with self._lock:
                if self._jobs.qsize() > MOST_WAITING:  # no thread takes them: all have died at their start
                    self._jobs, self._workers = SimpleQueue(), 0
                jobs = self._jobs
                self._hire(workers)
            for _ in range(min(workers, self._workers)):
                jobs.put(job)
        finally:
            here.starts = False

    def _hire(self, workers: int) -> None:
        try:
            while self._workers < workers:
                start_new_thread(_work, (self._jobs,))
                self._workers += 1
        except RuntimeError:  # the system starts no more threads, or the interpreter ends; the caller does the rest alone
            return

    def dismiss(self) -> None:
        """Let all threads end after the waiting jobs, and begin again without threads."""
        for _ in range(self._workers):
            self._jobs.put(None)
        self.forget()

    def forget(self) -> None:
        """Start without threads: a child of fork has the object but not its threads, and perhaps a lock that is never released."""
        self._lock = threading.Lock()
        self._here = threading.local()
        self._jobs = SimpleQueue()
        self._workers = 0


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # it is not kept while the thread waits for the next


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def for_ranges(work: Callable[[int, int], None], size: int, threads: int | None, *, elements_per_unit: float = 1.0) -> None:
    """Call `work(start, stop)` on ranges that cover [0, size), on at most `threads` threads; the first error ends it.

    `elements_per_unit` is the number of elements that cost as much as one noisy float64; it sets the size of the chunks. The function
    returns or raises only when no thread works on a range, and no thread begins one later: working threads have joined, and the end waits
    for all of them in one call that no signal interrupts. The wait is short because no thread takes another range.
    """
    if size <= SMALL * elements_per_unit:
        if size:
            work(0, size)
        return
    chunk = max(1, int(CHUNK * elements_per_unit))
    workers = min(threads or default_threads(), -(-size // chunk))
    if workers <= 1:
        for start in range(0, size, 8 * chunk):
            work(start, min(start + 8 * chunk, size))
        return
    ranges, errors = Ranges(size, chunk), list[BaseException]()

    def drain() -> None:
        while (start := ranges.take()) >= 0:
            work(start, min(start + chunk, size))

    tasks = [drain]  # emptied at the end: a job that a thread takes later must not keep the call, and its keys, alive

    def help_out() -> None:
        if not ranges.join():
            return
        try:
            tasks[0]()
        except BaseException as error:
            errors.append(error)
            ranges.stop()
        finally:
            ranges.leave()

    try:
        try:
            _pool.start(help_out, workers - 1)
            drain()
        finally:
            ranges.close()
            tasks.clear()
        if errors:
            raise errors[0]
    finally:
        errors.clear()  # errors refer to this frame, which refers to the arrays
