"""Numbers by sign and power of two: in how many rows each bin has, bounds are found privately.

Bins are [2^e, 2^(e+1)) for e = −32 … 63 and [0, 2^-32), and the same below 0: 194 of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

LEAST, MOST = -32, 64
"""Exponents of the smallest and of the largest end of a bin."""
OCTAVES = MOST - LEAST + 1
"""Bins on each side of 0."""
EDGES = (
    *(-(2.0**exponent) for exponent in range(MOST, LEAST - 1, -1)),
    0.0,
    *(2.0**exponent for exponent in range(LEAST, MOST + 1)),
)
"""The ends of all bins, in order."""
LOG_BINS = len(EDGES) - 1
WIDEST = EDGES[0], EDGES[-1]
POINTS = 64
"""Points of the grid for quantiles in each power of two; fewer if there are many groups."""
FEWEST_POINTS = len(EDGES)
"""Points of the grid with one in each power of two."""
CACHED = 1 << 13
"""Rows whose bins stay in the cache while they are counted."""


def log_grid(points: int = POINTS) -> tuple[float, ...]:
    """The points among which quantiles are chosen: so many in each power of two, evenly."""
    above = [math.ldexp(1 + place / points, exponent) for exponent in range(LEAST, MOST) for place in range(points)]
    above.append(2.0**MOST)
    return (*(-point for point in reversed(above)), 0.0, *above)


def rows_of(numbers: Array) -> Array:
    """Rows in each bin."""
    found: Array = np.zeros(LOG_BINS, np.int64)
    for start in range(0, len(numbers), CACHED):
        found += np.bincount(bins_of(numbers[start : start + CACHED]), minlength=LOG_BINS)
    return found


def bins_of(numbers: Array) -> Array:
    """The bin of each number; those beyond the widest bounds are in the last one of their side."""
    x = np.clip(numbers.astype(np.float64), *WIDEST)
    size = np.abs(x)
    octave = np.frexp(size)[1] - LEAST
    octave[size >= WIDEST[1]] = OCTAVES - 1
    octave[size < 2.0**LEAST] = 0
    codes: Array = np.where(x < 0, OCTAVES - 1 - octave, OCTAVES + octave)
    return codes
