"""Decisions about partitions: a random word for each, compared with the bracket of its count's probability."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.threads import for_ranges
from dpcore._backend.words import Position, uniform_words
from dpcore._kernels import _release

_BLOCK = 2**16
"""Counts that are handled at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Brackets:
    """Brackets of probabilities in units of 2^-64: for counts n with n >> shift = b, the probability is in [low[b], high[b] + 1).

    Attributes
    ----------
    low, high : ndarray of uint64
        Their ends. The last bracket is that of all larger counts, too.
    shift : int
        In [0, 62].
    """

    low: npt.NDArray[np.uint64]
    high: npt.NDArray[np.uint64]
    shift: int


def below_brackets(
    counts: npt.NDArray[Any], brackets: Brackets, position: Position, *, threads: int | None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """For each count whether its uniform number is below its probability; and the places where 64 bits do not tell, which hold 2."""
    out = np.empty(counts.shape, np.uint8)
    found, lock = list[npt.NDArray[np.int64]](), threading.Lock()
    key, nonce, first, secure = position

    def work(start: int, stop: int) -> None:
        for low in range(start, stop, _BLOCK):
            part = out[low : min(low + _BLOCK, stop)]
            words = uniform_words((key, nonce, first + low, secure), len(part))
            units = np.ascontiguousarray(counts[low : low + len(part)], np.int64)
            if _release.below_brackets(units, words, brackets.low, brackets.high, brackets.shift, part):
                with lock:
                    found.append(low + np.flatnonzero(part > 1))

    for_ranges(work, len(counts), threads)
    return out, np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)
