"""Confidence intervals of a frequency f from the number C of reports that support it.

For the population C is Bin(n, s), s = q + f(p − q); for the sample, of which m = nf records hold the category, it is Bin(m, p) +
Bin(n − m, q). The limits are the frequencies at which a tail of C, up to the observed count, has probability (1 − confidence)/2. If the
variance of C is below `EXACT`, the tails are exact: the incomplete beta function for one binomial law (Clopper & Pearson, 1934), a sum for
two. Otherwise they are normal tails, corrected by half a count and by the skewness of C (Cornish and Fisher), and solved for f. Near this
border coverage is still above the confidence, because half a count adds more than the expansion leaves out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.local._support import Support

    Reals = npt.NDArray[np.float64]

EXACT = 100.0
"""Variance of the count below which tails are exact."""
_BLOCK = 1 << 14
_PROBES = 9
_SLACK = 1 - 1e-9
"""Tails that differ by rounding only count as larger, which makes an interval wider."""


def frequency_interval(counts: Any, n: int, support: Support, *, confidence: float, target: str) -> Reals:
    """Return lower and upper limits of the frequencies that belong to support counts, shape (…, 2)."""
    law = _Law(n, support, population=target == "population")
    found = np.asarray(counts, np.float64)
    flat = found.reshape(-1)
    tail = (1 - confidence) / 2
    interval, rare = np.empty((len(flat), 2)), np.empty(len(flat), np.bool_)
    for start in range(0, len(flat), _BLOCK):
        part = slice(start, start + _BLOCK)
        for column, side in enumerate((-1, 1)):
            interval[part, column] = law.score_limit(flat[part], tail, side)
        rare[part] = law.variance(law.possible(flat[part])) < EXACT
    if rare.any():
        distinct, place = np.unique(flat[rare], return_inverse=True)
        interval[rare] = law.exact_limits(distinct, tail)[place]
    if not law.population:  # a sample has no other frequencies
        interval = np.clip(interval, 0.0, 1.0)
    # The estimate may be outside [0, 1]; then the interval reaches that far.
    value = law.value(flat)
    interval = np.stack([np.minimum(interval[:, 0], value), np.maximum(interval[:, 1], value)], axis=-1)
    return interval.reshape((*found.shape, 2))


@dataclass(frozen=True, slots=True)
class _Law:
    """The law of a support count, as a function of the frequency."""

    n: int
    support: Support
    population: bool

    @property
    def gap(self) -> float:
        """p − q."""
        return self.support.p - self.support.q

    def value(self, counts: Reals) -> Reals:
        """The frequency whose mean count this is."""
        values: Reals = (counts / self.n - self.support.q) / self.gap
        return values

    def possible(self, counts: Reals) -> Reals:
        """The same, clamped to [0, 1]."""
        return np.clip(self.value(counts), 0.0, 1.0)

    def _squares(self) -> tuple[float, float, float]:
        """a₀, a₁, a₂ in Var C = n(a₀ + a₁f + a₂f²)."""
        p, q, miss = self.support
        if self.population:
            return q * (1 - q), self.gap * (1 - 2 * q), -self.gap * self.gap
        return q * (1 - q), p * miss - q * (1 - q), 0.0

    def variance(self, f: Reals) -> Reals:
        """Var C at frequencies in [0, 1]; where f is 0 or 1 nothing cancels."""
        p, q, miss = self.support
        within = f * (p * miss) + (1 - f) * (q * (1 - q))
        values: Reals = self.n * (within + f * (1 - f) * self.gap**2 if self.population else within)
        return values

    def _skew(self, f: Reals) -> Reals:
        """Third cumulant over the variance."""
        p, q, miss = self.support
        if self.population:
            skew: Reals = 1 - 2 * (q + f * self.gap)
        else:
            third = f * (p * miss * (miss - p)) + (1 - f) * (q * (1 - q) * (1 - 2 * q))
            skew = third / np.maximum(f * (p * miss) + (1 - f) * (q * (1 - q)), 1e-300)
        return skew

    def score_limit(self, counts: Reals, tail: float, side: int) -> Reals:
        """Solve (C ± ½ − K − E C)² = z²·Var C for f on one side, K = (z² − 1)/6·skew taking the skewness into account."""
        from scipy import special

        z = -float(special.ndtri(tail))  # the lower tail keeps its digits where the confidence is close to 1
        limit = self._root(counts + side / 2, z, side)
        shift = (z * z - 1) / 6 * self._skew(np.clip(limit, 0.0, 1.0))
        return self._root(counts + side / 2 - shift, z, side)

    def _root(self, x: Reals, z: float, side: int) -> Reals:
        a0, a1, a2 = self._squares()
        gap, u = self.gap, z * z / self.n
        y = x / self.n - self.support.q
        v = y / gap
        # a possible count has a positive variance; the largest shifts of the others would take it below 0
        inner = np.maximum(a0 + v * (a1 + v * a2), 0.0) * (4 * gap * gap) * u + u * u * (a1 * a1 - 4 * a0 * a2)
        root: Reals = (2 * gap * y + u * a1 + side * np.sqrt(np.maximum(inner, 0.0))) / (2 * (gap * gap - u * a2))
        return root

    def exact_limits(self, counts: Reals, tail: float) -> Reals:
        """Invert exact tails at whole counts: shape (…, 2)."""
        if self.population:
            shares = np.stack([_least_share(counts, self.n, tail), _greatest_share(counts, self.n, tail)], axis=-1)
            limits: Reals = (shares - self.support.q) / self.gap
            return limits
        _, q, miss = self.support
        least = _least_holders(counts, self.n, (miss, q), tail)
        # the reports that do not support it are those of n − m holders, of a category that others support with probability 1 − p
        greatest = self.n - _least_holders(self.n - counts, self.n, (q, miss), tail)
        # a count that no sample is likely to give leaves nothing between the two: the nearest possible one remains
        return np.stack([np.minimum(least, greatest), np.maximum(least, greatest)], axis=-1) / self.n


def _least_share(counts: Reals, n: int, tail: float) -> Reals:
    """The s at which P(Bin(n, s) ≥ count) = tail."""
    from scipy import special

    shares: Reals = np.where(counts == 0, 0.0, special.betaincinv(np.maximum(counts, 1.0), n - counts + 1, tail))
    return shares


def _greatest_share(counts: Reals, n: int, tail: float) -> Reals:
    """The s at which P(Bin(n, s) ≤ count) = tail."""
    from scipy import special

    shares: Reals = np.where(counts == n, 1.0, special.betainccinv(counts + 1, np.maximum(n - counts, 1.0), tail))
    return shares


def _least_holders(counts: Reals, n: int, lies: tuple[float, float], tail: float) -> Reals:
    """The least m in 0 … n at which P(C ≥ count) is at least `tail`; a holder lies with the first probability, others with the second."""
    miss, q = lies
    gap = (1 - miss) - q
    # The tail at the mean is near one half for every m; 12 standard deviations and 60 counts off it is far below any `tail`.
    middle = np.clip(np.rint((counts - n * q) / gap), 0, n)
    spread = math.ceil((12 * math.sqrt(EXACT) + 60) / gap) if gap > 240 / (n + 1) else n
    low: Reals = np.maximum(middle - spread, 0) - 1  # not enough holders
    high: Reals = np.minimum(middle + spread, n)  # enough, or all
    while (high - low).max() > 1:
        steps = np.arange(1, _PROBES + 1) / (_PROBES + 1)
        probes = np.minimum(low[:, None] + np.maximum(np.floor((high - low)[:, None] * steps), 1), high[:, None])
        enough = _upper_tail(counts[:, None], n, probes, miss, q) >= tail * _SLACK
        low = np.maximum(low, np.where(enough, low[:, None], probes).max(axis=1))
        high = np.minimum(high, np.where(enough, probes, high[:, None]).min(axis=1))
    return high


def _upper_tail(counts: Reals, n: int, m: Reals, miss: float, q: float) -> Reals:
    """P(m − A + B ≥ count) for A ~ Bin(m, miss) and B ~ Bin(n − m, q), summed over windows that hold all but 10^-17 of them."""
    shape = m.shape
    m, below = m.reshape(-1), (np.broadcast_to(counts, shape) - m).reshape(-1)
    first_a, weights = _binomial_window(m, miss)
    first_b, others = _binomial_window(n - m, q)
    beyond = np.zeros((len(m), others.shape[1] + 2))  # P(B ≥ first + i) from i = 0 on, then 0
    beyond[:, :-2] = np.cumsum(others[:, ::-1], axis=1)[:, ::-1]
    wanted = (below + first_a - first_b)[:, None] + np.arange(weights.shape[1])
    index = np.clip(wanted, 0, others.shape[1]).astype(np.int64)
    tails: Reals = (weights * np.take_along_axis(beyond, index, axis=1)).sum(axis=1)
    return tails.reshape(shape)


def _binomial_window(m: Reals, rate: float) -> tuple[Reals, Reals]:
    """First values and masses of binomial laws of m trials, m a vector, around their means; normalised, by ratios of neighbours."""
    means = m * rate
    reach = math.ceil(9 * math.sqrt(float((means * (1 - rate)).max())) + 30)
    first = np.maximum(np.floor(means) - reach, 0.0)
    values = first[:, None] + np.arange(min(2 * reach, int(m.max())) + 1)
    with np.errstate(divide="ignore"):
        ratios = np.log(np.maximum(m[:, None] - values[:, :-1], 0.0) / (values[:, 1:])) + (math.log(rate) - math.log1p(-rate))
    logs = np.concatenate([np.zeros((len(m), 1)), np.cumsum(ratios, axis=1)], axis=1)
    masses = np.exp(logs - logs.max(axis=1, keepdims=True))
    normal: Reals = masses / masses.sum(axis=1, keepdims=True)
    return first, normal
