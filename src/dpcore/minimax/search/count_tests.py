"""Binary search of tests behind a binary channel: all tests together are one monotone step function of the count of +z0.

In this module, θ is counted from the smallest value of the model, q = P(+z0), and hypotheses are H0: θ ≤ a and H1: θ ≥ b with a ≤ b.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.minimax import _binomial
from dpcore.minimax.programs.frames import STANDARD, Frame
from dpcore.minimax.search.search import Search, outcome_of_empty
from dpcore.minimax.spaces.inversion import count_intervals

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.minimax.spaces.polygon import Polygon

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Ranges = tuple[Array, Array]
SUBCELLS, PLACES = 4, 8
"""Number of strips that a cell of length Δ is first cut into, and number of places in it at which a risk is evaluated."""
MOST_STRIPS = 4096
WITNESSES = 100
"""Number of strips with the largest bounds in which attained risks are evaluated."""
RISK_TOLERANCE = 5e-3
NEGLIGIBLE = 1e-20
"""Probability of the counts on each side that are charged with the largest loss."""
SEPARATE = 2.0**-36
"""Difference of two probabilities that surely moves a likelihood ratio's root by more than rounding does."""
EDGE = 1e-8
"""A last cell that is at most this wide, relative to the range of θ, counts as its left end: the tolerance of the linear programs."""


def first_counts(n: int, zero: Ranges, one: Ranges) -> Counts:
    """Return the first count for which each test decides for H1, which has the larger q.

    Parameters
    ----------
    n : int
        Number of reports.
    zero, one : tuple of ndarray, shape (T,)
        Smallest and largest q under each H0 and H1; NaN if a hypothesis is empty.

    Returns
    -------
    ndarray of int64, shape (T,)
        In [0, n + 1]. The least favourable pair are the closest ends. The test that minimizes the sum of the two errors decides for H1 if
        the likelihood ratio exceeds 1. If the intervals overlap, counts are compared with n times the middle of the overlap. An empty H0
        always gives H1; otherwise an empty H1 always gives H0 (Steinberger, 2019, Lemma 3.16).
    """
    near, far = zero[1], one[0]
    apart = near < far
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = far - near
        less, more = np.log1p(gap / (1 - far)), np.log1p(gap / near)
        ratio = less / (less + more)  # where the likelihood ratio is 1
    middle = (np.maximum(zero[0], far) + np.minimum(near, one[1])) / 2
    share = np.where(apart & np.isfinite(ratio), ratio, np.where(apart, (near + far) / 2, middle))
    first = np.clip(np.floor(n * np.nan_to_num(share)) + 1, 1, n).astype(np.int64)
    # If a report − is impossible under H1, or a report + under H0, a single such report decides.
    first = np.where(apart & (far >= 1) & (near > 0), n, np.where(apart & (near <= 0) & (far < 1), 1, first))
    for no_zero, no_one in ((False, True), (True, False), (True, True)):
        constant = 0 if outcome_of_empty(zero=no_zero, one=no_one) else n + 1
        first = np.where((np.isnan(near) == no_zero) & (np.isnan(far) == no_one), constant, first)
    return first


def step_counts(n: int, intervals: int, zero: Ranges, one: Ranges) -> Counts:
    """Combine all tests of a search into one step function of the count.

    Parameters
    ----------
    n : int
        Number of reports.
    intervals : int
        N ≥ 3, the number of steps Δ that cover the range of θ.
    zero, one : tuple of ndarray, shape (N,)
        Smallest and largest q over θ ≤ jΔ, and over θ ≥ jΔ, j = 0 … N − 1.

    Returns
    -------
    ndarray of int64, shape (N − 2,), ascending
        The estimate of a count is jΔ, where j − 1 of these are at most the count.

    Notes
    -----
    Test j of level k sends counts from its first one on to node j + 1. So the counts at a node are consecutive, and they ascend with the
    nodes, for any tests: walks never cross. The steps at a level are its first counts, clipped to the steps around them one level before.
    If first counts interlace, none is ever clipped, and those of the last level are the steps.
    Cost: O(N) if they interlace, otherwise O(N²).
    """
    if _interlace(zero, one):
        last = np.arange(1, intervals - 1)
        return first_counts(n, (zero[0][last], zero[1][last]), (one[0][last + 1], one[1][last + 1]))
    return _by_levels(n, intervals, zero, one)


def _by_levels(n: int, intervals: int, zero: Ranges, one: Ranges) -> Counts:
    starts = np.array([0, n + 1], np.int64)
    for level in range(1, intervals - 1):
        nodes = np.arange(1, level + 1)
        other = nodes + (intervals - level - 1)
        first = first_counts(n, (zero[0][nodes], zero[1][nodes]), (one[0][other], one[1][other]))
        starts = np.concatenate([starts[:1], np.clip(first, starts[:-1], starts[1:]), starts[-1:]])
    return starts[1:-1]


def _interlace(zero: Ranges, one: Ranges) -> bool:
    """Whether the first count of test (k, j) is certainly between those of tests (k − 1, j − 1) and (k − 1, j), for all k and j.

    Test (k, j) compares near(j), the largest q of its H0, with far(m), the smallest of its H1; the two others replace one of these by its
    neighbour on the left, or on the right. n times the root of the likelihood ratio rises with both, and so does n times the middle of an
    overlap if the ranges of q reach across: the smallest q of H0 is at most far(m), the largest of H1 at least near(j). Both move by more
    than they are rounded by if two near, or two far, are equal or at least `SEPARATE` apart. docs/exactness-minimax.md has the proof.
    """
    near, far = zero[1][1:-1], one[0][2:]
    moves = np.concatenate([np.diff(near), np.diff(far)])
    across = (zero[0][1:-1] <= far) & (one[1][2:] >= near)
    return bool(((moves == 0) | (moves >= SEPARATE)).all() and across.all())


@dataclass(frozen=True, eq=False)
class CountSearch(Search):
    """The search for one step Δ.

    Attributes
    ----------
    n : int
        Number of reports.
    step : float
        Δ > 0.
    polygon : Polygon
        The polygon of (θ, P(+)), mirrored if P(+) falls with θ; counts are then those of −z0.
    frame : Frame
        The conversion to the units of the model.
    """

    n: int
    step: float
    polygon: Polygon
    frame: Frame = STANDARD

    @property
    def theta_range(self) -> tuple[float, float]:
        return self.polygon.theta_range

    @cached_property
    def firsts(self) -> Counts:
        """The first counts for which the estimate is at least 2Δ, 3Δ, …, shape (N − 2,)."""
        return step_counts(self.n, self.intervals, *self._hypotheses)

    @cached_property
    def _hypotheses(self) -> tuple[Ranges, Ranges]:
        ends = self.polygon.theta_range[0] + np.arange(self.intervals) * self.step
        never = np.full_like(ends, np.inf)
        return self.polygon.range_over(-never, ends), self.polygon.range_over(ends, never)

    def first(self, level: int, node: int) -> int:
        """Return the first count for which the test of a node decides for H1."""
        zero, one = self._hypotheses
        a, b = [node], [node + self.intervals - level - 1]
        return int(first_counts(self.n, (zero[0][a], zero[1][a]), (one[0][b], one[1][b]))[0])

    def decide(self, level: int, node: int, counts: Counts) -> int:
        return int(int(counts[0 if self.polygon.falls else 1]) >= self.first(level, node))

    @cached_property
    def thresholds(self) -> Counts:
        """The counts of +z0 at which the estimate changes, ascending."""
        if self.intervals <= 2:
            return np.zeros(0, np.int64)
        return (self.n + 1 - self.firsts)[::-1].copy() if self.polygon.falls else self.firsts

    @cached_property
    def values(self) -> Array:
        """The estimates between the thresholds."""
        ascending: Array = self.frame.points(self.theta_range[0] + self.grid)
        return ascending[::-1].copy() if self.polygon.falls else ascending

    def estimates(self, counts: Counts, threads: int | None) -> Array:
        return _backend.step_values(counts, self.thresholds, self.values, threads=threads)

    def inverted(self, counts: Counts, level: float) -> Array:
        own = self.n - counts if self.polygon.falls else counts
        return self.frame.intervals_outwards(count_intervals(self.polygon, self.n, own, level))

    def error_bound(self, index: int) -> float:
        """Bound P(|θ̂ − θ| > (index + 1)Δ) over the model.

        For θ in (mΔ, (m + 1)Δ), the event is that the estimate is at least (m + index + 2)Δ or at most (m − index − 1)Δ: two tails of the
        count. Their sum first falls and then rises in q, so it is largest at an end of the range of q over the cell.
        """
        if self.intervals <= 2:
            return 0.0
        cells = np.arange(self.intervals)
        low, high = self._cell_ranges
        above, under = self._starts(cells + index + 2), self._starts(cells - index - self._closed)
        sums = [_binomial.at_least(above, self.n, q) + _binomial.below(under, self.n, q) for q in (low, high)]
        return float(min(np.max(sums), 1.0))

    def _starts(self, nodes: npt.NDArray[np.int64]) -> Counts:
        """Return the first count for which the estimate is at least jΔ; 0 for j ≤ 1, n + 1 for j ≥ N."""
        padded = np.concatenate([[0, 0], self.firsts, [self.n + 1]])
        return padded[np.clip(nodes, 0, self.intervals)]

    @cached_property
    def _closed(self) -> npt.NDArray[np.int64]:
        """1 for a last cell that is only its left end mΔ, for which the estimate (m − index − 1)Δ is not too low; else 0."""
        left = np.arange(self.intervals) * self.step
        return (self.reach - left <= EDGE * self.reach).astype(np.int64)

    @property
    def uncounted(self) -> float:
        """The width of a last cell that counts as its left end."""
        return max(self.reach - (self.intervals - 1) * self.step, 0.0) if self._closed[-1] else 0.0

    @cached_property
    def _cell_ranges(self) -> Ranges:
        ends = np.minimum(np.arange(self.intervals + 1) * self.step, self.reach) + self.polygon.theta_range[0]
        return self.polygon.range_over(ends[:-1], ends[1:])

    def risk_bound(self, loss: Callable[[Array], Array], tolerance: float = RISK_TOLERANCE) -> float:
        """Bound E loss(|θ̂ − θ|) over the model.

        Parameters
        ----------
        loss : callable
            Does not decrease on [0, ∞); vectorized.
        tolerance : float
            Relative accuracy of the bound.

        Returns
        -------
        float

        Notes
        -----
        The largest loss over a strip of θ first falls and then rises in the estimate. By the variation diminishing property of binomial
        laws, its expectation first falls and then rises in q, so it is largest at an end of the strip's range of q. Strips whose bound
        exceeds the largest attained risk are cut into pieces.
        """
        if self.intervals <= 2:
            return float(loss(np.array([self.reach / 2]))[0])
        ends = np.linspace(0.0, self.reach, min(SUBCELLS * self.intervals, MOST_STRIPS) + 1)
        left, right = ends[:-1], ends[1:]
        attained, settled, bound = 0.0, 0.0, np.inf
        while len(left) and len(left) <= 8 * MOST_STRIPS:
            bounds = self._strip_bounds(left, right, loss)
            bound = min(bound, max(settled, float(bounds.max())))
            worst = np.argsort(bounds)[-WITNESSES:]
            # Include the ends, where the polygon may have a vertical edge.
            places = np.concatenate([left[worst], (left[worst] + right[worst]) / 2, right[worst]])
            attained = max(attained, float(self._strip_bounds(places, places, loss).max()))
            open_ = bounds > attained * (1 + tolerance)
            settled = max(settled, float(bounds[~open_].max(initial=0.0)))
            left, right = _quartered(left[open_], right[open_])
        return (bound if len(left) else settled) * (1 + 1e-12)

    def risk_seen(self, loss: Callable[[Array], Array]) -> float:
        """Return about the largest E loss(|θ̂ − θ|) at some places in every cell, which is close to the supremum. It is no bound."""
        if self.intervals <= 2:
            return self.risk_bound(loss)
        places = np.linspace(0.0, self.reach, min(PLACES * self.intervals, MOST_STRIPS) + 1)
        return float(self._strip_bounds(places, places, loss, _binomial.NEAR).max())

    def _strip_bounds(self, left: Array, right: Array, loss: Callable[[Array], Array], tails: _binomial.Tails = _binomial.BOUNDS) -> Array:
        """Bound E loss over θ in [left, right], for each strip."""
        origin = self.polygon.theta_range[0]
        ends = self.polygon.range_over(origin + left, origin + right)
        most = float(loss(np.array([self.reach + self.step]))[0])
        return np.maximum(*(self._expected(left, right, q, loss, tails) for q in ends)) + 2 * NEGLIGIBLE * most

    def _expected(self, left: Array, right: Array, q: Array, loss: Callable[[Array], Array], tails: _binomial.Tails) -> Array:
        """Bound the expectation of the largest loss over each strip, at one q for each, except on events of probability 2·NEGLIGIBLE."""
        window = np.sqrt(self.n * np.log(1 / NEGLIGIBLE) / 2)  # Hoeffding
        first = np.searchsorted(self.firsts, self.n * q - window)
        last = np.searchsorted(self.firsts, self.n * q + window, side="right")
        nodes = np.minimum(first[:, None] + np.arange(int((last - first).max()) + 1), last[:, None])
        values = self.grid[nodes]
        losses = np.maximum(loss(np.abs(values - left[:, None])), loss(np.abs(values - right[:, None])))
        rises = np.diff(losses, axis=1)
        terms = np.zeros_like(rises)
        for chosen, tail in zip((rises > 0, rises < 0), tails, strict=True):
            strips, places = np.nonzero(chosen)
            terms[chosen] = np.abs(rises[chosen]) * tail(self.firsts[nodes[strips, places]], self.n, q[strips])
        total: Array = losses.min(axis=1) + terms.sum(axis=1)
        return total


def _quartered(left: Array, right: Array) -> tuple[Array, Array]:
    ends = np.linspace(left, right, 5)
    return ends[:-1].ravel(), ends[1:].ravel()
