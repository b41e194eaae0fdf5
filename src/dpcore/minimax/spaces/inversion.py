"""Confidence intervals of θ from counts of reports, by inverting tests that hold for every distribution of a model.

docs/exactness-minimax.md proves that they cover.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._proportions import share_limits, tail_slack
from dpcore.minimax._binomial import at_least, below
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.polygon import Polygon, trace_polygon

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.minimax.spaces.models import Model

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
STRIPS = 128
"""Number of strips of the first interval that are tested."""
LEAST_TAIL = 1e-15
"""Tails below this count as this where they are inverted."""
PAD = 1e-8
"""Exceeds what rounding adds to a height of a polygon, relative to its width in q: 2^-52 over the least slope of a line."""


def rejected_share(confidence: float) -> float:
    """Return 1 − confidence, rounded down."""
    # The difference is exact from 1/2 on.
    return 1.0 - confidence if confidence >= 0.5 else math.nextafter(1.0 - confidence, 0.0)


def count_intervals(polygon: Polygon, n: int, counts: Counts, level: float) -> Array:
    """Return intervals of θ from counts with the law Bin(n, q), for (θ, q) in a convex polygon.

    Parameters
    ----------
    polygon : Polygon
        Outer polygon of the pairs (θ, q).
    n : int
        Number of reports, at most 2^40.
    counts : ndarray of int64, shape (B,)
        Counts in [0, n].
    level : float
        Probability in (0, 1) that an interval misses, at most.

    Returns
    -------
    ndarray, shape (B, 2)
        Lower and upper ends, within the range of θ.
    """
    distinct, places = np.unique(counts, return_inverse=True)
    return np.array([_count_interval(polygon, n, int(count), level) for count in distinct]).reshape(-1, 2)[places.ravel()]


def _count_interval(polygon: Polygon, n: int, count: int, level: float) -> tuple[float, float]:
    low, high = _over_shares(polygon, *(float(limit) for limit in share_limits(count, n, level / 2)))
    if not low < high:
        return low, high
    ends = np.linspace(low, high, STRIPS + 1)
    kept = np.flatnonzero(_p_values(polygon, n, count, ends) > level)
    if len(kept) == 0:  # where the range of q is so wide that the count is in the middle, every p-value is near 1
        return low, high
    return float(ends[kept[0]]), float(ends[kept[-1] + 1])


def _over_shares(polygon: Polygon, low: float, high: float) -> tuple[float, float]:
    """Return the range of θ over low ≤ q ≤ high; over the nearest possible q if the model has none of these."""
    bottom, width = float(polygon.low[1]), float(polygon.width[1])
    low, high = min(low, bottom + width), max(high, bottom)
    ends = polygon.theta_over(np.array([low]), np.array([high]))
    least, most = polygon.theta_range
    return max(float(ends[0][0]), least), min(float(ends[1][0]), most)


def _p_values(polygon: Polygon, n: int, count: int, ends: Array) -> Array:
    """Bound the p-value of every θ of each strip between two ends, which must not fall outside the range of θ."""
    lowest, highest = polygon.range_over(ends[:-1], ends[1:])
    lower, upper = polygon.range_over(ends, ends)
    pad = PAD * float(polygon.width[1]) + 2.0**-51  # and a rounding of q itself
    # The lower end of the range of q is a convex function of θ, so it is largest at an end of a strip; the upper end is concave.
    inner_low = np.minimum(np.maximum(lower[:-1], lower[1:]) + pad, 1.0)
    inner_high = np.maximum(np.minimum(upper[:-1], upper[1:]) - pad, 0.0)
    many = _too_many(n, count, inner_low, inner_high, highest)
    few = _too_few(n, count, lowest, inner_low, inner_high)
    return np.minimum(many, few)


def _too_many(n: int, count: int, low: Array, high: Array, highest: Array) -> Array:
    """Bound the p-value of hypotheses a ≤ q ≤ b for a count that is high, where a ≤ low and high ≤ b ≤ highest.

    It is the tail t = P_b(C ≥ count), and what rejecting low counts with a tail P_a(C ≤ c) ≤ t may add.
    """
    tail = at_least(count, n, highest)
    limit = np.maximum(tail, LEAST_TAIL) * tail_slack(n) ** 2  # a computed tail beyond it is certainly above t
    other = _first(lambda c: below(c + 1, n, low) > limit, n, len(low))
    total: Array = tail + np.minimum(tail, np.maximum(below(other, n, high), at_least(count, n, low)))
    return total


def _too_few(n: int, count: int, lowest: Array, low: Array, high: Array) -> Array:
    """Bound the p-value for a count that is low, where lowest ≤ a ≤ low and high ≤ b: t = P_a(C ≤ count), and what the other side adds."""
    tail = below(count + 1, n, lowest)
    limit = np.maximum(tail, LEAST_TAIL) * tail_slack(n) ** 2
    other = _first(lambda c: at_least(c, n, high) <= limit, n, len(low))
    total: Array = tail + np.minimum(tail, np.maximum(at_least(other, n, low), below(count + 1, n, high)))
    return total


def _first(met: Callable[[Array], npt.NDArray[np.bool_]], n: int, size: int) -> Array:
    """Return the first count in [0, n + 1] from which on a condition is met, one for each of `size` strips; n + 1 if none is."""
    low, high = np.full(size, -1.0), np.full(size, n + 1.0)
    while (open_ := high - low > 1).any():
        middle = np.floor((low + high) / 2)
        found = met(middle)
        low, high = np.where(open_ & ~found, middle, low), np.where(open_ & found, middle, high)
    return high


@dataclass(frozen=True, eq=False)
class RatioIntervals:
    """Intervals of θ from counts of any finite number of outcomes, by two e-values.

    Let r be a positive number for each outcome, chosen without the data. E Π r^count = (Σ_z q_z r_z)^n, so for each θ the product exceeds
    (2/level)·(max Σ q r)^n, over the members with this θ, with probability at most level/2 (Markov). The same holds for 1/r.

    Attributes
    ----------
    logs : ndarray, shape (K,)
        ln r.
    rises, falls : Polygon
        Outer polygons of (θ, Σ q r/max r) and of (θ, Σ q r⁻¹/max r⁻¹).
    """

    logs: Array
    rises: Polygon
    falls: Polygon

    @classmethod
    def of(cls, model: Model, matrix: Array, logs: Array) -> RatioIntervals:
        """Trace both polygons of a model behind a channel, shape (X, K)."""
        maximise = Maximiser(model)
        polygons = [trace_polygon(maximise, model.f, matrix @ np.exp(side * logs - (side * logs).max())) for side in (1, -1)]
        return cls(logs, *polygons)

    def intervals(self, n: int, counts: Counts, level: float) -> Array:
        """Return the ends, shape (B, 2), for counts of n reports, shape (B, K)."""
        found = np.empty((len(counts), 2))
        for row, own in enumerate(counts.astype(np.float64)):
            low = self._kept(self.rises, own, self.logs, n, level)[0]
            high = self._kept(self.falls, own, -self.logs, n, level)[1]
            found[row] = min(low, high), max(low, high)
        return found

    @staticmethod
    def _kept(polygon: Polygon, counts: Array, logs: Array, n: int, level: float) -> tuple[float, float]:
        """The range of the θ that are not rejected: those of members with n·ln Σ q r > Σ count·ln r − ln(2/level)."""
        terms = counts * (logs - logs.max())
        reserve = (len(logs) + 8) * 2.0**-52 * (n + float(np.abs(terms).sum()))  # of this sum, and of Σ q r
        least = math.exp((float(terms.sum()) - math.log(2 / level) - reserve) / n)
        return _over_shares(polygon, least, math.inf)
