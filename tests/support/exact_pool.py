"""The exact tier on every core: at a fraction of a millisecond a sample, one process is too slow for 10^5 of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import numpy as np

from dpcore import _backend
from support.kernels import EXACT, Array, Law, at_tier

PIECE = 1000


def _piece(law: Law, start: int, n: int) -> Array:
    with at_tier(EXACT):
        return law.draw(n, start, threads=1)


class ExactPool:
    """Draws by the exact tier alone."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor

    def draw(self, law: Law, n: int) -> Array:
        """The same as `law.draw(n)`."""
        pieces = [self._executor.submit(_piece, law, start, min(PIECE, n - start)) for start in range(0, n, PIECE)]
        return np.concatenate([piece.result() for piece in pieces])


@contextmanager
def exact_pool() -> Iterator[ExactPool]:
    """Worker processes, started afresh so that they share nothing with the tests' process."""
    workers = _backend.default_threads()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield ExactPool(executor)
