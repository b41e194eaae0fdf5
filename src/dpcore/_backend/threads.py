"""Threads of the process, and the ranges of an array that they take."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from pathlib import Path

from dpcore.errors import ParameterError

_THREADS_VARIABLE = "DPCORE_NUM_THREADS"
CHUNK = 1 << 17
"""Elements a thread takes at once: a fraction of a millisecond, so that Ctrl-C is honoured soon."""
SMALL = 1 << 15
"""Arrays up to this size stay on the calling thread."""


def _cgroup_quota() -> float:
    """CPUs that the control group grants, or infinity."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
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
    """The process's worker threads, made on first use and made anew after fork."""

    _executor: ThreadPoolExecutor | None
    _workers: int

    def __init__(self) -> None:
        self.forget()

    def get(self, workers: int) -> ThreadPoolExecutor:
        """An executor with at least this many threads."""
        with self._lock:
            if self._executor is None or workers > self._workers:
                self._executor = ThreadPoolExecutor(workers, thread_name_prefix="dpcore")
                self._workers = workers
            return self._executor

    def forget(self) -> None:
        """Start without threads: a child of fork has the object but not its threads, and perhaps a lock that no one will open."""
        self._lock = threading.Lock()
        self._executor = None
        self._workers = 0


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def for_ranges(work: Callable[[int, int], None], size: int, threads: int | None, *, elements_per_unit: float = 1.0) -> None:
    """Call `work(start, stop)` on ranges that cover [0, size), on `threads` threads; the first error ends it.

    `elements_per_unit` says how many elements cost as much as one noisy float64, for which the chunks are made. Returns, or raises, only
    when no range is being worked on any more.
    """
    chunk, small = (max(1, int(n * elements_per_unit)) for n in (CHUNK, SMALL))
    workers = min(threads or default_threads(), -(-size // chunk))
    if workers <= 1 or size <= small:
        for start in range(0, size, 8 * chunk):
            work(start, min(start + 8 * chunk, size))
        return
    starts, lock = iter(range(0, size, chunk)), threading.Lock()
    stopped: list[bool] = []

    def drain() -> None:
        while not stopped:
            with lock:
                start = next(starts, None)
            if start is None:
                return
            work(start, min(start + chunk, size))

    futures: list[Future[None]] = [_pool.get(workers - 1).submit(drain) for _ in range(workers - 1)]
    try:
        drain()
    finally:
        # Nothing is left to start; wait for the ranges that are being worked on, so that no one writes after the return.
        stopped.append(True)
        running = [future for future in futures if not future.cancel()]
        wait(running)
    for future in running:
        future.result()
