"""Binomial laws as tables, for exact risks and for draws by inversion."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass

Array = npt.NDArray[np.float64]
NEGLIGIBLE = 46.0
"""Each tail beyond a table has a probability below exp(−46) < 2^-66, which a 64-bit word cannot distinguish from 0."""


@dataclass(frozen=True, eq=False, slots=True)
class Binomial:
    """The law of a number of successes.

    Attributes
    ----------
    first : int
        The smallest number in the table.
    masses : ndarray of float64
        P(first), P(first + 1), …; their sum is 1.
    """

    first: int
    masses: Array

    @property
    def last(self) -> int:
        """The largest number in the table."""
        return self.first + len(self.masses) - 1

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The numbers in the table."""
        return np.arange(self.first, self.last + 1)

    def thresholds(self) -> npt.NDArray[np.uint64]:
        """Return P(X ≤ first), P(X ≤ first + 1), … in units of 2^-64, without those that are 1.

        Each is computed from the smaller tail, so that no digits cancel.
        """
        below = np.cumsum(self.masses[:-1])
        above = np.cumsum(self.masses[:0:-1])[::-1]
        unit = 2.0**64
        lower = (np.minimum(below, 0.5) * unit).astype(np.uint64)
        upper = (np.minimum(above, 0.5) * unit).astype(np.uint64)
        found = np.where(below <= above, lower, np.uint64(0) - upper)
        return found[: len(found) - int(((below > above) & (upper == 0)).sum())]


def binomial(n: int, q: float) -> Binomial:
    """Return the law of the number of successes in n ≥ 0 trials with probability q in [0, 1] each.

    Masses are products of ratios, from the mode outwards. Their relative error is below 2^-52 times the distance from the mode.
    The table covers about 20 standard deviations: ten million numbers for n = 2^40.
    """
    if q <= 0 or q >= 1 or n == 0:
        return Binomial(n if q >= 1 else 0, np.ones(1))
    # Bernstein's inequality: P(|X − nq| ≥ s) ≤ 2 exp(−s²/(2(v + s/3))).
    slope = NEGLIGIBLE / 3
    reach = slope + math.sqrt(slope**2 + 2 * NEGLIGIBLE * n * q * (1 - q))
    low, high = max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach))
    mode = min(n, math.floor((n + 1) * q))
    up, down = np.arange(mode, high, dtype=np.float64), np.arange(mode, low, -1, dtype=np.float64)
    rising = np.cumprod((n - up) / (up + 1) * (q / (1 - q)))
    falling = np.cumprod(down / (n - down + 1) * ((1 - q) / q)) if len(down) else down
    masses = np.concatenate([falling[::-1], np.ones(1), rising])
    return Binomial(low, masses / masses.sum())


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """Tables for the number of one outcome among the trials that earlier outcomes left.

    Attributes
    ----------
    least : int
        The smallest number of trials that can be left.
    tables : list of (int, ndarray of uint64)
        Smallest number of successes, and thresholds: for `least` trials first, then for 1, 2, 4, … trials.
    """

    least: int
    tables: list[tuple[int, npt.NDArray[np.uint64]]]

    def draw(self, trials: npt.NDArray[np.int64], words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Draw the numbers of successes among these trials, with one column of words for each table."""
        found = _inverted(self.tables[0], words[:, 0])
        rest = trials - self.least
        for bit, table in enumerate(self.tables[1:]):
            rows = np.flatnonzero(rest >> bit & 1)
            found[rows] += _inverted(table, words[rows, bit + 1])
        return found


def _inverted(table: tuple[int, npt.NDArray[np.uint64]], words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    first, thresholds = table
    return np.searchsorted(thresholds, words, side="right").astype(np.int64) + first


class Multinomial:
    """Tables for all outcomes except the last, whose number is that of the trials left."""

    def __init__(self, q: Array, n: int) -> None:
        tails = np.cumsum(q[::-1])[::-1]
        self.n = n
        self.steps: list[Step] = []
        least = most = n
        for mass, tail in zip(q[:-1].tolist(), tails[:-1].tolist(), strict=True):
            share = mass / tail if tail > 0 else 0.0
            base = binomial(least, share)
            laws = [base, *(binomial(1 << bit, share) for bit in range((most - least).bit_length()))]
            self.steps.append(Step(least, [(law.first, law.thresholds()) for law in laws]))
            least, most = least - base.last, most - base.first

    @property
    def words(self) -> int:
        """Number of words for one data set."""
        return sum(len(step.tables) for step in self.steps)

    def fill(self, counts: npt.NDArray[np.int64], words: npt.NDArray[np.uint64]) -> None:
        """Write one data set into each row."""
        left, column = np.full(len(counts), self.n), 0
        for outcome, step in enumerate(self.steps):
            width = len(step.tables)
            counts[:, outcome] = step.draw(left, words[:, column : column + width])
            left -= counts[:, outcome]
            column += width
        counts[:, -1] = left
