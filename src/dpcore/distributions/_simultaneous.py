"""Half-widths that hold at all points at once: of the noise in a histogram, of draws, of a cosine series, and of a sample (DKW).

docs/exactness-bands.md has the proofs. Widths depend on public numbers alone, so how a probability of error is shared may be chosen freely.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._spread import chernoff_width, largest_sum_width, log_moments
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt

    Reals = npt.NDArray[np.float64]
Target = Literal["population", "sample"]
TARGETS = ("population", "sample")
SHARES = tuple(i / 16 for i in range(1, 16))
"""Shares of a probability of error that are tried for one of two causes."""
_UP = 1 + 1e-12
"""More than the roundings of a square root of a logarithm."""


def dkw_width(n: int, tail: float) -> float:
    """A d with sup_x |F_n(x) − F(x)| ≤ d, but with probability `tail`, for n independent draws (Massart, 1990): 2e^(−2nd²) = tail."""
    return math.sqrt(math.log(2 / tail) / (2 * n)) * _UP


def with_population(width: Callable[[float], float], n: int, tail: float, target: str) -> float:
    """The width of the sample at `tail`, or the least sum of it and of `dkw_width` over shares of the tail."""
    if target == "sample":
        return width(tail)
    return min(width(share * tail) + dkw_width(n, (1 - share) * tail) for share in SHARES)


def check_target(target: Target) -> Target:
    """Return what an interval is about, else raise."""
    if target not in TARGETS:
        raise ParameterError(f"target must be 'population' or 'sample', got {target!r}")
    return target


class Link(Protocol):
    """How draws that were released are related to the data: what a band needs of a mechanism."""

    def ends(self, shares: Reals, k: int, n: int, tail: float) -> tuple[Reals, Reals]:
        """Bound the data's distribution function at the inner edges of m bins, all at once, but with probability `tail`.

        `shares` holds the share of the k draws below each of the m − 1 edges.
        """
        ...


@dataclass(frozen=True, slots=True)
class SmoothedLink:
    """k independent draws of (1 − δ)·F̂ + δ·uniform: Massart's bound for the draws, solved for F̂."""

    smoothing: float

    def ends(self, shares: Reals, k: int, n: int, tail: float) -> tuple[Reals, Reals]:  # noqa: ARG002
        """See `Link`."""
        if self.smoothing == 1:
            return np.zeros_like(shares), np.ones_like(shares)
        d, m = dkw_width(k, tail), len(shares) + 1
        uniform = self.smoothing * (np.arange(1, m) / m)
        below, above = ((shares + side * d - uniform) / (1 - self.smoothing) for side in (-1, 1))
        return below, above


@dataclass(frozen=True, slots=True)
class UrnLink:
    """k independent draws of masses from Dirichlet(a + C), a the prior and C the counts.

    With A = n + Σa, the mass below an edge has a beta law about (n·F̂ + Σ_{below} a)/A that is sub-Gaussian with variance 1/(4(A + 1))
    (Marchal & Arbel, 2017); the draws are within Massart's bound of these masses.
    """

    prior: Reals | float

    def ends(self, shares: Reals, k: int, n: int, tail: float) -> tuple[Reals, Reals]:
        """See `Link`."""
        m = len(shares) + 1
        priors = np.broadcast_to(np.asarray(self.prior, np.float64), (m,))
        before, whole = np.cumsum(priors)[:-1], n + float(priors.sum())
        d = min(dkw_width(k, share * tail) + dkw_width_of_beta(whole, m - 1, (1 - share) * tail) for share in SHARES)
        below, above = ((whole * (shares + side * d) - before) / n for side in (-1, 1))
        return below, above


def dkw_width_of_beta(whole: float, edges: int, tail: float) -> float:
    """A d that none of some sub-Gaussian deviations of variance 1/(4(A + 1)) exceeds, but with probability `tail`."""
    return math.sqrt(math.log(2 * max(edges, 1) / tail) / (2 * (whole + 1))) * _UP


@dataclass(frozen=True, slots=True)
class ScoreLink:
    """k draws with probability ∝ (number of sequences)·e^(−εs/2), s = ⌈n·max |F̂ − F_k|⌉.

    There are m^k sequences, and for all data one of them has s ≤ ⌈n/(2k)⌉: so P(s ≥ t) ≤ m^k·e^(−ε(t − ⌈n/(2k)⌉)/2).
    """

    epsilon: float

    def ends(self, shares: Reals, k: int, n: int, tail: float) -> tuple[Reals, Reals]:
        """See `Link`."""
        digits = (k * math.log(len(shares) + 1) - math.log(tail)) * _UP
        least = -(-n // (2 * k)) + 2 * digits / self.epsilon * _UP
        # s is whole: all s ≥ least are unlikely, so s ≤ ⌈least⌉ − 1
        reach = min(math.ceil(least) - 1, n) / n if least < n else 1.0
        return shares - reach, shares + reach


def count_sums_width(law: Literal["laplace", "discrete_laplace"], scale: float, m: int, tail: float) -> float:
    """A number of records that no sum of the noise of fewer than m cells from the nearer end exceeds, but with probability `tail`.

    The cumulative count at edge j is the sum of the first j counts for j ≤ m/2, and n less the sum of the last m − j beyond: two
    independent walks, of ⌊m/2⌋ and ⌊(m − 1)/2⌋ steps, each within the width but with probability tail/2.
    """
    if m == 1:
        return 0.0
    return largest_sum_width(law, scale, m // 2, tail if m == 2 else tail / 2)


# Cosine series


def series_noise_width(scale: float, terms: int, tail: float) -> float:
    """A number that sup_x |Σ_j ν_j √2 cos(πjx)| exceeds with probability `tail` at most, ν_j independent Laplace noise of this scale.

    The smaller of two bounds. √2·Σ|ν_j| has √2 times a gamma law. Or: the sup is at most 1/cos(π/16) times the largest value at the points
    i/(8m) (`grid_factor`), and at each of them ln E e^(sΣ/scale) ≤ s²S/(1 − 2s²), S = Σ_j 2cos²(πjx), for s < 1/√2.
    """
    from scipy import special

    whole = math.sqrt(2.0) * float(special.gammainccinv(terms, tail)) * scale * (1 + 1e-9)
    squares = grid_squares(terms)
    most = float(squares.max())
    log_tail = math.log(tail / 2)

    def union(h: float) -> float:
        """Σ over the grid of the least e^(−s·h + s²S/(1 − √2·s)), which is that of a sub-gamma law: v = 2S, c = √2."""
        u = math.sqrt(2.0) * h / (2 * squares)
        logs = -squares * (1 + u - np.sqrt(1 + 2 * u))
        return float(np.logaddexp.reduce(logs))

    low, high = 0.0, 2 * math.sqrt(4 * most * (math.log(len(squares)) - log_tail)) + 4 * (math.log(len(squares)) - log_tail)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if union(middle) > log_tail else (low, middle)
    return min(whole, high * scale * GRID_FACTOR)


def series_sample_width(terms: int, n: int, tail: float) -> float:
    """A number that sup_x |Σ_j (β̂_j − β_j) √2 cos(πjx)| exceeds with probability `tail` at most, β̂ of n independent records.

    At a point of the grid it is the mean of n numbers K(x, u) = Σ_j 2 cos(πjx) cos(πju), less its expectation: Hoeffding with their range,
    which is at most √(2mS) + min(√(2mS), 0.385(2m + 1) + 1).
    """
    squares = grid_squares(terms)
    reach = np.sqrt(2 * terms * squares)
    ranges = reach + np.minimum(reach, 0.385 * (2 * terms + 1) + 1)
    return float(ranges.max()) * dkw_width(n, tail / len(squares)) * GRID_FACTOR


GRID_POINTS = 8
"""Points of the grid for each term."""
GRID_FACTOR = 1 / math.cos(math.pi / (2 * GRID_POINTS)) * _UP
"""Bounds max|f| over max|f| on the grid for a cosine polynomial f with this many points a term."""


def grid_squares(terms: int) -> Reals:
    """Σ_j 2cos²(πjx) = m + Σ_j cos(2πjx) at the points x = i/(8m), i = 0 … 8m, rounded up."""
    x = np.arange(1, GRID_POINTS * terms) / (GRID_POINTS * terms)
    inner = terms - 0.5 + np.sin((2 * terms + 1) * math.pi * x) / (2 * np.sin(math.pi * x))
    found: Reals = np.concatenate([[2.0 * terms], inner, [2.0 * terms]])
    return np.maximum(found, 0.0) * (1 + 1e-9) + 1e-6


def series_coefficient_width(scale: float, n: int, tail: float) -> float:
    """A number that |Σ_i (ψ_i − E ψ_i) + ν| exceeds with probability `tail` at most, for n independent ψ_i in ±√2 and Laplace noise ν."""

    def log_moment(s: Reals) -> Reals:
        # Hoeffding: ln E e^(t(ψ − Eψ)) ≤ t²(2√2)²/8 = t² for each number
        return n * (s / scale) ** 2 + log_moments("laplace", scale, s)

    return chernoff_width(log_moment, tail / 2, scale)
