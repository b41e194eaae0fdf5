"""Means of numbers that stand for the outcomes of a finite channel: estimates from counts, their variances, and frequencies as such means.

Variances and intervals are those of the population. Records that are fixed make a mean vary less (Hoeffding, 1956), so that they hold for
the sample as well.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.local._error_curves import Spread, widest_share
from dpcore.local._limits import CERTAIN, Limits, MeanLimits, OneBitLimits
from dpcore.local.estimates import Estimate

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.privacy import Privacy

    Reals = npt.NDArray[np.float64]
    Counts = npt.NDArray[np.int64]

UNBIASED = 1e-7
"""Largest error of the product of a channel and its left inverse."""


def spreads(matrix: Reals, values: Reals) -> Reals:
    """Variance of each row of values under each row of the channel, shape (rows of values, X)."""
    centre = (values.max(axis=1) + values.min(axis=1)) / 2
    about = values - centre[:, None]
    means = about @ matrix.T
    variances: Reals = np.maximum((about * about) @ matrix.T - means * means, 0.0)
    return variances


def largest_variance(matrix: Reals, values: Reals) -> float:
    """The largest variance of v(report) over all laws of the records: that of a mixture of at most two inputs.

    With a = E(v|x) and g = E(v²|x) it is the largest g(s) − s² for (s, g) in the hull of the points (a, g). On an edge of the upper hull g
    is linear in s, and g − s² is largest where 2s is the slope.
    """
    centre = (values.max() + values.min()) / 2
    about = values - centre
    points = sorted(set(zip((matrix @ about).tolist(), (matrix @ (about * about)).tolist(), strict=True)))
    hull: list[tuple[float, float]] = []
    for s, g in points:
        while len(hull) > 1 and (hull[-1][0] - hull[-2][0]) * (g - hull[-2][1]) >= (hull[-1][1] - hull[-2][1]) * (s - hull[-2][0]):
            hull.pop()
        hull.append((s, g))
    found = max(g - s * s for s, g in hull)
    for (s, g), (t, h) in pairwise(hull):
        if t > s:
            slope = (h - g) / (t - s)
            at = min(max(slope / 2, s), t)
            found = max(found, g + slope * (at - s) - at * at)
    return max(found, 0.0)


def worst_spread(matrix: Reals, rows: Reals, *, exact: bool) -> Spread:
    """What one report contributes to the error of the worst of several means, one for each row of values, for planning.

    Where each row has two values only, intervals are those of a share, whose width has a bound; others follow the spread of the reports.
    """
    variance = max(largest_variance(matrix, row) for row in rows) * (1 + 2.0**-40)
    words = "the largest variance of a report over all laws of the records" + (" and all frequencies" if len(rows) > 1 else "")
    two = all(len(set(row.tolist())) <= 2 for row in rows)
    reach = float(np.ptp(rows, axis=1).max())
    return Spread(
        variance,
        words,
        exact,
        (lambda n, confidence: reach * widest_share(n, confidence, CERTAIN)) if two else None,
        why="whose intervals follow the spread of the reports",
    )


def left_inverse(matrix: Reals) -> Reals | None:
    """Rows L with L·Qᵀ = 1, those of least variance if all inputs are equally frequent; None if there are none.

    Weighted least squares of the frequencies f in counts/n ≈ Qᵀf, with the inverse probabilities of the outcomes as weights.
    """
    law = matrix.mean(axis=0)
    seen = law > 0
    roots = np.sqrt(law[seen])
    weights = np.zeros(matrix.shape)
    weights[:, seen] = np.linalg.pinv(matrix.T[seen] / roots[:, None], rcond=1e-13) / roots
    error = float(np.abs(weights @ matrix.T - np.eye(len(matrix))).max())
    return weights if error <= UNBIASED else None


def mean_estimate(counts: Counts, n: int, values: Reals, least: float, privacy: Privacy) -> Estimate:
    """Estimate the mean of the values from counts of the outcomes; `least` is the least variance of one report."""
    value, variance, limits = _mean(counts, n, values, least)
    return Estimate(value, math.sqrt(variance / n), n, privacy, limits=limits)


def means_estimate(counts: Counts, n: int, values: Reals, least: Reals, privacy: Privacy, categories: tuple[str, ...] | None) -> Estimate:
    """Estimate the means of several rows of values."""
    found = [_mean(counts, n, row, float(at_least)) for row, at_least in zip(values, least, strict=True)]
    errors = np.sqrt(np.array([variance for _, variance, _ in found]) / n)
    limits = EachLimits(tuple(each for _, _, each in found))
    return Estimate(np.array([value for value, _, _ in found]), errors, n, privacy, categories, limits=limits)


def _mean(counts: Counts, n: int, values: Reals, least: float) -> tuple[float, float, Limits]:
    """The mean, the variance of one report, and the limits of the mean."""
    low, high = float(values.min()), float(values.max())
    middle, half = low + (high - low) / 2, (high - low) / 2
    value = math.fsum((counts * (values / n)).tolist())
    if half == 0:
        return value, 0.0, OneBitLimits(n, n, middle, 0.0)
    # in units of a power of two near half the range: squares of the numbers themselves may leave the range of float64
    unit = 2.0 ** (math.frexp(half)[1] - 1)
    about = (values - middle) / unit
    total = math.fsum((counts * about).tolist())
    squares = math.fsum((counts * (about - total / n) ** 2).tolist())
    # for a single report, only the range limits the variance; no record makes a report vary less than `least`
    variance = max(squares / (n - 1), least / unit / unit) if n > 1 else (half / unit) ** 2
    limits: Limits = MeanLimits(value, unit, "gaussian", 0.0, n, total, half / unit, variance)
    if len(set(values.tolist())) == 2:
        limits = OneBitLimits(int(counts[values == high].sum()), n, middle, half)
    return value, variance * unit * unit, limits


@dataclass(frozen=True, slots=True, eq=False)
class EachLimits:
    """Limits of several numbers, each by its own."""

    each: tuple[Limits, ...]

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (k, 2)."""
        return np.stack([limits(confidence) for limits in self.each])
