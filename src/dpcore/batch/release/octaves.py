r"""Numbers by sign and power of two: counts and exact sums of each bin, from which those of numbers clamped to any ends of bins follow.

Bins are [2^e, 2^(e+1)) for e = −32 … 63 and [0, 2^-32), and the same below 0: 194 of them. A number becomes a whole number of steps of its
own bin, by a function of that number alone, and stays in the closed bin. So for ends a < b of bins

    Σ clamp(x, a, b) = Σ of the bins between a and b + a · (rows below a) + b · (rows above b)

exactly, and likewise for squares: bounds that are chosen after the pass over the rows need no second one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.release.steps import CACHED, STEP_BITS, Moments
from dpcore.sums import ExactSum

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
WIDEST = EDGES[0], EDGES[-1]
POINTS = 64
"""Points of the grid for quantiles in each power of two; fewer if there are many groups."""
FEWEST_POINTS = len(EDGES)
"""Points of the grid with one in each power of two."""
BLOCK = 1 << 20
"""Rows whose parts are added up as floats, below 2^53."""
_HALF = 26
_GRID_BITS = 61
"""Sums are rounded down to 2^-61 of the larger bound; of 2^40 rows they then have 101 bits, which a pair of floats holds."""


def octave_grid(points: int = POINTS) -> tuple[float, ...]:
    """The points among which quantiles are chosen: so many in each power of two, evenly."""
    above = [math.ldexp(1 + place / points, exponent) for exponent in range(LEAST, MOST) for place in range(points)]
    above.append(2.0**MOST)
    return (*(-point for point in reversed(above)), 0.0, *above)


def rows_of(numbers: Array) -> Array:
    """Rows in each bin."""
    found: Array = np.zeros(len(EDGES) - 1, np.int64)
    for start in range(0, len(numbers), CACHED):
        found += np.bincount(steps_of(numbers[start : start + CACHED], 0)[0], minlength=len(found))
    return found


def steps_of(numbers: Array, bits: int) -> tuple[Array, Array]:
    """The bin of each number, and its distance from 0 in steps: at most 2^`bits`, of 2^(e − bits) in a bin that ends at 2^e."""
    x = np.clip(numbers.astype(np.float64), *WIDEST)
    size = np.abs(x)
    share, exponent = np.frexp(size)
    far, near = size >= WIDEST[1], size < 2.0**LEAST
    octave = exponent - LEAST
    octave[far], share[far] = OCTAVES - 1, 1.0
    octave[near], share[near] = 0, size[near] * 2.0**-LEAST
    codes = np.where(x < 0, OCTAVES - 1 - octave, OCTAVES + octave)
    return codes, np.rint(share * 2.0**bits)


@dataclass(frozen=True, slots=True)
class Octaves:
    """Rows, and the sums of their steps, in each bin.

    Attributes
    ----------
    bits : int
        Of steps: 53 for sums alone, which are then those of the numbers themselves; 31 with squares.
    rows, first, second : list of int
        Of each bin: rows, Σk and, with 31 bits, Σk² of the distances k from 0.
    """

    bits: int
    rows: list[int]
    first: list[int]
    second: list[int]

    @classmethod
    def of(cls, numbers: Array, *, squares: bool) -> Octaves:
        """The sums of some numbers."""
        bits, bins = STEP_BITS if squares else 53, len(EDGES) - 1
        total = cls(bits, [0] * bins, [0] * bins, [0] * bins)
        for start in range(0, len(numbers), BLOCK):
            total += cls._block(numbers[start : start + BLOCK], bits, squares=squares)
        return total

    @classmethod
    def _block(cls, numbers: Array, bits: int, *, squares: bool) -> Octaves:
        """So few rows that sums of their parts are below 2^53, which floats hold; in pieces that stay in the cache."""
        bins = len(EDGES) - 1
        sums = np.zeros((5, bins))
        for start in range(0, len(numbers), CACHED):
            codes, *parts = _parts(numbers[start : start + CACHED], bits, squares=squares)
            for place, part in enumerate([None, *parts]):
                sums[place] += np.bincount(codes, weights=part, minlength=bins)
        rows, high, low, above, below = ([int(each) for each in part] for part in sums.tolist())
        return cls(bits, rows, _joined(high, low, _HALF), _joined(above, below, STEP_BITS))

    def __add__(self, other: Octaves) -> Octaves:
        def sums(one: list[int], another: list[int]) -> list[int]:
            return [a + b for a, b in zip(one, another, strict=True)]

        return Octaves(self.bits, sums(self.rows, other.rows), sums(self.first, other.first), sums(self.second, other.second))

    @property
    def n(self) -> int:
        """All rows."""
        return sum(self.rows)

    def moments(self, low: int, high: int) -> tuple[Moments, Fraction]:
        """The sums of numbers clamped to [EDGES[low], EDGES[high]], counted from its lower end, and their step."""
        step = Fraction(2) ** (LEAST - self.bits)
        start, stop = (int(Fraction(EDGES[place]) / step) for place in (low, high))
        below, above = sum(self.rows[:low]), sum(self.rows[high:])
        first, second = start * below + stop * above, start**2 * below + stop**2 * above
        for place in range(low, high):
            octave = place - OCTAVES if place >= OCTAVES else OCTAVES - 1 - place
            first += (1 if place >= OCTAVES else -1) * (self.first[place] << octave)
            second += self.second[place] << 2 * octave
        n = self.n
        return Moments(n, (first - n * start,), second - 2 * start * first + n * start**2), step

    def total(self, low: int, high: int, origin: float = 0.0) -> ExactSum:
        """The sum of distances from `origin` of numbers clamped to [EDGES[low], EDGES[high]], rounded down to a fine grid.

        Rounding down is monotone and commutes with whole steps, so that two sums that are at most so many steps apart stay so.
        """
        moments, step = self.moments(low, high)
        exact = moments.sums[0] * step + moments.n * (Fraction(EDGES[low]) - Fraction(origin))
        grid = grid_between(low, high)
        whole = math.floor(exact / Fraction(grid))
        first = float(whole)
        return ExactSum(first * grid, float(whole - int(first)) * grid, grid, moments.n, *rounded_bounds(low, high))


def grid_between(low: int, high: int) -> float:
    """The grid of sums between two ends of bins."""
    return math.ldexp(max(abs(EDGES[low]), abs(EDGES[high])), -_GRID_BITS)


def rounded_bounds(low: int, high: int) -> tuple[float, float]:
    """Two ends of bins, rounded outward to twice the grid of their sums, so that half of their distance is a multiple of it."""
    grid = 2 * grid_between(low, high)
    return math.floor(EDGES[low] / grid) * grid, math.ceil(EDGES[high] / grid) * grid


def _parts(numbers: Array, bits: int, *, squares: bool) -> list[Array]:
    """The bin of each number, and both halves of its steps; with squares also those of the square."""
    codes, steps = steps_of(numbers, bits)
    high = np.floor(steps * 2.0**-_HALF)
    parts = [codes, high, steps - high * 2.0**_HALF]
    if not squares:
        return parts
    whole = steps.astype(np.int64)
    whole *= whole
    return [*parts, whole >> STEP_BITS, whole & (2**STEP_BITS - 1)]


def _joined(high: list[int], low: list[int], bits: int) -> list[int]:
    """Sums of integers from those of their halves."""
    return [(one << bits) + other for one, other in zip(high, low, strict=True)]
