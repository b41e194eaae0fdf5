"""Data that an estimate keeps to compute confidence intervals at any level: each class is called with the confidence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.local._count_intervals import frequency_interval
from dpcore.local._mean_intervals import mean_margins
from dpcore.local._support import Support

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore._exact.pending import Kind

    Reals = npt.NDArray[np.float64]

CERTAIN = Support(1.0, 0.0, 0.0)
"""Of the share of reports that are True, which are counted as they are."""


class Limits(Protocol):
    """Lower and upper ends of intervals as a function of their confidence."""

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (2,) or (k, 2)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FrequencyLimits:
    """Limits of frequencies, from the numbers of reports that support each category."""

    counts: npt.NDArray[np.generic] | float
    n: int
    support: Support
    target: str

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (2,) or (k, 2)."""
        return frequency_interval(self.counts, self.n, self.support, confidence=confidence, target=self.target)


@dataclass(frozen=True, slots=True)
class OneBitLimits:
    """Limits of the mean of reports middle ± reach, from the number of those that are True.

    Records that differ make the number of True vary less than a binomial one of the same mean does (Hoeffding, 1956), so the interval of
    the population covers the sample's mean as well.
    """

    ones: int
    n: int
    middle: float
    reach: float

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (2,)."""
        shares = frequency_interval(self.ones, self.n, CERTAIN, confidence=confidence, target="population")
        ends: Reals = self.middle + self.reach * (2 * shares - 1)
        return ends


@dataclass(frozen=True, slots=True, eq=False)
class SharesLimits:
    """As `OneBitLimits` for each of d means, of n[j] reports about the j-th; without any, it can be anywhere.

    Given the numbers n[j], the records that are asked about coordinate j are a random subset, so for the sample the number of True is a sum
    of independent bits of different probabilities, too (Borcea, Brändén & Liggett, 2009; docs/exactness-local.md, "Vectors").
    """

    ones: npt.NDArray[np.int64]
    n: npt.NDArray[np.int64]
    middle: Reals
    reach: Reals

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (d, 2)."""
        shares = np.tile([0.0, 1.0], (len(self.n), 1))
        for n in np.unique(self.n[self.n > 0]):
            own = self.n == n
            shares[own] = frequency_interval(self.ones[own], int(n), CERTAIN, confidence=confidence, target="population")
        ends: Reals = self.middle[:, None] + self.reach[:, None] * (2 * shares - 1)
        return ends


@dataclass(frozen=True, slots=True)
class MeanLimits:
    """Limits of the mean of clamped numbers with noise; all but `value` and `grid` in units of the grid, see `mean_margins`."""

    value: float
    grid: float
    kind: Kind
    scale: float
    n: int
    total: float
    half: float
    squares: float | None

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (2,)."""
        tail = (1 - confidence) / 2
        below, above = mean_margins(self.kind, self.scale, self.n, tail, total=self.total, half=self.half, squares=self.squares)
        return np.array([self.value - self.grid * below, self.value + self.grid * above])


@dataclass(frozen=True, slots=True, eq=False)
class MovedLimits:
    """Limits of an estimate to which a number is added, and whose bias is at most `margin`."""

    limits: Limits
    by: float
    margin: float

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, of the same shape."""
        ends: Reals = self.by + self.limits(confidence) + math.fabs(self.margin) * np.array([-1.0, 1.0])
        return ends
