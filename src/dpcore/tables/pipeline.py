"""Read, transform and write at the same time, in order, with a bounded number of batches in flight."""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = TypeVar("Item")
Result = TypeVar("Result")
POLL_SECONDS = 0.05
"""Seconds that a stage waits before it checks whether the job was stopped."""
UNFINISHED = 0.999
"""The most that is said to be done before all of it is: a file can have been read to its end when few of its rows are written."""


class _StoppedError(Exception):
    """Another stage ended the job."""


class Pipeline(Generic[Item, Result]):
    """One thread reads, `threads` threads transform, one thread writes; the caller's thread stays free for signals.

    The first failure in the order of the items ends the job, whichever stage it comes from and however the threads run.

    Parameters
    ----------
    source : iterator
        Read on the reading thread.
    transform : callable
        Applied to each item on one of the transforming threads.
    write : callable
        Receives the results in order on the writing thread.
    threads : int
        Number of transforming threads; threads + 2 results are in flight at most.
    """

    def __init__(
        self, source: Iterator[Item], transform: Callable[[Item], Result], write: Callable[[Result], None], *, threads: int
    ) -> None:
        self._source = source
        self._transform = transform
        self._write = write
        self._threads = threads
        self._in_flight: queue.Queue[Future[Result] | None] = queue.Queue(maxsize=threads + 1)
        self._stop = threading.Event()
        self._finished = threading.Event()
        self._failure: BaseException | None = None

    def run(self, tick: Callable[[], None]) -> None:
        """Work until the source ends; raises what any stage raised.

        Parameters
        ----------
        tick : callable
            Called on this thread, a few times a second.
        """
        reader = threading.Thread(target=self._read, name="dpcore-read", daemon=True)
        writer = threading.Thread(target=self._write_all, name="dpcore-write", daemon=True)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="dpcore-noise") as self._pool:
            try:
                reader.start()
                writer.start()
                while not self._finished.wait(POLL_SECONDS):
                    tick()
            finally:
                self._stop.set()
                self._pool.shutdown(wait=True, cancel_futures=True)
                for thread in (reader, writer):
                    if thread.ident is not None:
                        thread.join()
        if self._failure is not None:
            raise self._failure

    def _read(self) -> None:
        try:
            for item in self._source:
                self._put(self._pool.submit(self._transform, item))
            self._put(None)
        except _StoppedError:
            pass
        except BaseException as error:  # Whatever it is, the caller's thread must see it, and in its place in the order.
            failed: Future[Result] = Future()
            failed.set_exception(error)
            self._put_last(failed)

    def _put(self, future: Future[Result] | None) -> None:
        while not self._stop.is_set():
            try:
                return self._in_flight.put(future, timeout=POLL_SECONDS)
            except queue.Full:
                continue
        raise _StoppedError

    def _put_last(self, failed: Future[Result]) -> None:
        with contextlib.suppress(_StoppedError):
            self._put(failed)

    def _write_all(self) -> None:
        try:
            while (future := self._take()) is not None:
                self._write(future.result())
        except _StoppedError:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            self._stop.set()
            self._finished.set()

    def _take(self) -> Future[Result] | None:
        while not self._stop.is_set():
            try:
                return self._in_flight.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
        raise _StoppedError
