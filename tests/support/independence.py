"""A net for dependence that knows nothing of where random bits come from: every element of a window against every other.

Windows are rows of independent draws. Of each element three features are taken: the rank among its own draws, the rank of the distance
from their median, and the lowest bit. Under independence any two features of different elements pair up like a random permutation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

ERROR = 1e-6
WINDOW = 256
_MOST_COMMON = 0.98
"""A feature whose commonest value is more frequent says nothing at these sizes."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Verdict:
    """The pair of elements that exceeds its threshold by most."""

    ratio: float
    elements: tuple[int, int]
    features: tuple[int, int]
    pairs: int

    @property
    def is_rejected(self) -> bool:
        """Whether independence is rejected at `ERROR`, corrected for the number of comparisons."""
        return self.ratio > 1.0


def _ranks(x: Array) -> Array:
    """Average ranks of each column."""
    order = np.argsort(x, axis=0, kind="stable")
    ordered = np.take_along_axis(x, order, 0)
    result = np.empty(x.shape)
    for j in range(x.shape[1]):
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:, j] != ordered[:-1, j]]))
        stops = np.append(starts[1:], len(x))
        result[order[:, j], j] = np.repeat((starts + stops - 1) / 2, stops - starts)
    return result


def _low_bits(x: Array) -> Array:
    if x.dtype.kind in "iub":
        return (x.astype(np.int64) & 1).astype(np.float64)
    mantissa, exponent = np.frexp(x[x != 0])
    bits = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2((bits & -bits).astype(np.float64)).astype(np.int64) + exponent - 53
    grid = int(lowest.min(initial=0))  # every number is a multiple of the least one's last bit
    return np.mod(np.floor(np.ldexp(x, -grid)), 2.0)


def _standardised(features: Array) -> tuple[Array, Array]:
    """Features with mean 0 and variance 1, and their largest magnitudes; those that hardly vary become 0."""
    common = np.array([np.unique(column, return_counts=True)[1].max() for column in features.T]) / len(features)
    centred = features - features.mean(axis=0)
    deviation = centred.std(axis=0)
    kept = (common <= _MOST_COMMON) & (deviation > 0)
    scaled = np.where(kept, centred / np.where(kept, deviation, 1.0), 0.0)
    return scaled, np.abs(scaled).max(axis=0)


def examine(windows: Array) -> Verdict:
    """Compare every element with every other; `windows` holds independent windows, one a row.

    The threshold of a pair is Bernstein's: a sum of n products with mean 0, variance 1 and magnitude at most M exceeds s with probability
    at most 2·exp(−s²/(2(n + M·s/3))). It is union-bounded over all pairs.
    """
    n, width = windows.shape
    median = np.sort(windows, axis=0)[n // 2]
    distance = np.abs(windows.astype(np.float64) - median.astype(np.float64))
    features, most = _standardised(np.concatenate([_ranks(windows), _ranks(distance), _low_bits(windows)], axis=1))
    sums = np.abs(features.T @ features)
    element = np.arange(3 * width) % width
    pairs = 9 * width * (width - 1) // 2
    log_error = math.log(2 * pairs / ERROR)
    reach = log_error * np.outer(most, most) / 3
    threshold = reach + np.sqrt(reach**2 + 2 * log_error * n)
    ratio = np.where(element[:, None] == element[None, :], 0.0, sums / threshold)
    a, b = (int(i) for i in np.unravel_index(int(ratio.argmax()), ratio.shape))
    return Verdict(float(ratio[a, b]), (a % width, b % width), (a // width, b // width), pairs)
