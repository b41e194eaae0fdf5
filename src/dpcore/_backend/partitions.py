"""Decisions about partitions: a random word for each, compared with the bracket of its count's probability."""

from __future__ import annotations

import threading
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend import threads as sizes
from dpcore._backend.levels import secure_cipher
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import Position, uniform_words
from dpcore._dataclasses import dataclass
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
    _short: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        short = _release.ShortBrackets(self.low, self.high, self.shift, sizes, secure_cipher)
        object.__setattr__(self, "_short", short)

    def __reduce__(self) -> tuple[type[Brackets], tuple[Any, ...]]:
        return Brackets, (self.low, self.high, self.shift)

    def decide(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | Position | None:
        """For each of few counts whether its uniform number of the secure source is below its probability.

        Where 64 bits do not tell, the position of all numbers; None if these are not few, and none has been taken.
        """
        found: npt.NDArray[np.bool_] | Position | None = self._short.decide(counts)
        return found


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
