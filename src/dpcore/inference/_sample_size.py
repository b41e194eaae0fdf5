"""Bounds of the errors of Private inference (chapter 9), Algorithm 9.3.3, and the least number of records at which both are at most 1/3.

docs/exactness-tests.md derives them: everything but the tail of T is a union bound over Gaussian, Laplace and Hoeffding tails; the
tail of T is Cantelli's inequality with its exact variance, convolved with the exact tail of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dpcore._error_curves import least
from dpcore.inference._thresholds import Thresholds, thresholds

ALLOWED = 1 / 3
_SPLITS = np.linspace(0.0, 1.0, 257)
"""Shares of the gap that T may use; the noise has the rest."""


def noisy_tail(gap: float, variance: float, scale: float) -> float:
    """Bound P(T − E T + r ≥ gap) for a Laplace r: the least over f of P(T − E T ≥ f·gap) + P(r ≥ (1 − f)·gap), gap > 0."""
    ratio = math.sqrt(variance) / gap
    cantelli = ratio**2 / (ratio**2 + _SPLITS**2)
    return float((cantelli + 0.5 * np.exp(-(1 - _SPLITS) * (gap / scale))).min())


def uniform_tail(gap: float, n: int, d: int, scale: float) -> float:
    """Bound P(T + r ≥ gap) under the uniform law, for T of unfiltered records and a Laplace r: ½·e^(−gap/b)·E e^(T/b).

    P(r ≥ y) ≤ ½·e^(−y/b) for every y. T is a sum of d independent S² − n, S a sum of n signs. For a normal G, E e^(sS²) = E cosh(√(2s)·G)^n
    ≤ E e^(nsG²) = (1 − 2ns)^(−1/2). The noise dominates, so this is hardly more than the tail of the noise.
    """
    ratio = n / scale
    if ratio >= 0.25:
        return 1.0
    # −x − ½·ln(1 − 2x) = x² + 4x³/3 + 2x⁴ + … as a series, which does not cancel
    growth = ratio**2 * (1 + 4 * ratio / 3 / (1 - 2 * ratio)) * d
    return 0.5 * math.exp(min(growth - gap / scale, 1.0)) * (1 + 1e-9)


def error_bounds(
    n: int, d: int, alpha: float, epsilon: float, delta: float, level: float | None = None, allowed: float = ALLOWED
) -> tuple[float, float]:
    """Bound P(reject | uniform) and the largest P(accept | product law with ‖ν‖₂ ≥ α), for a total budget.

    With a level the first is at most that by itself, and the limit of z₃ is the critical value instead of n(n − 1)α²/4. The second is made
    for misses of probability `allowed`, and no smaller than that.
    """
    limits = thresholds(n, d, epsilon, delta)
    if level is None:
        return size_bound(n, d, alpha, limits), miss_bound(n, d, alpha, limits, allowed=allowed)
    limit = critical_value(n, d, limits, level)
    return 0.0, 1.0 if limit is None else miss_bound(n, d, alpha, limits, limit, allowed)


def size_bound(n: int, d: int, alpha: float, limits: Thresholds) -> float:
    """Bound P(reject) under the uniform law, at the limit of z₃ in Algorithm 9.3.3."""
    return p_value_bound(float(n) * (n - 1) * alpha**2 / 4, n, d, limits)


def p_value_bound(statistic: float, n: int, d: int, limits: Thresholds) -> float:
    """Bound P(z₃ ≥ statistic, or an earlier step rejects) under the uniform law: for this p of the outcome, P(p ≤ t) ≤ t."""
    share = limits.delta
    spread = 1.5 * d + math.sqrt(2.0 * n * d * math.log(2.0 * n / share)) + limits.reach
    if spread > limits.filter:
        return 1.0
    # z₁: 2δ and δ/2; a row beyond the filter: δ and δ; z₂: δ/2
    gap = statistic - limits.grid
    if gap <= 0:
        return 1.0
    if math.isinf(gap):
        return min(1.0, 5 * share)
    scale = limits.third_scale
    tail = min(noisy_tail(gap, 2 * float(n) * (n - 1) * d, scale), uniform_tail(gap, n, d, scale))
    return min(1.0, 5 * share + tail)


def critical_value(n: int, d: int, limits: Thresholds, level: float) -> float | None:
    """The least z₃, from above, whose `p_value_bound` is at most the level; None if there is none."""
    if p_value_bound(math.inf, n, d, limits) >= level:
        return None
    low, high = 0.0, limits.third_scale
    while p_value_bound(high, n, d, limits) > level:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if p_value_bound(middle, n, d, limits) <= level else (middle, high)
    return high


def miss_bound(n: int, d: int, alpha: float, limits: Thresholds, limit: float | None = None, allowed: float = ALLOWED) -> float:
    """Bound P(accept) for every product law with ‖ν‖₂ ≥ α; `limit` is that of z₃, by default n(n − 1)α²/4."""
    share, step = limits.delta, limits.epsilon
    # Beyond this n·max|ν_i| the first step accepts with probability at most allowed/2 + allowed/2.
    edge = limits.first + math.sqrt(2.0 * n * math.log(2 / allowed)) + 2.0 / step * math.log(1 / allowed)
    if not _nothing_filtered(n, d, edge, limits):
        return 1.0
    pairs = float(n) * (n - 1)
    excess = 0.75 * pairs * alpha**2 if limit is None else pairs * alpha**2 - limit
    gap = excess - 1.5 * limits.grid  # T is rounded down, and the noise to the nearest multiple
    if gap <= 0:
        return 1.0
    variance = 2 * pairs * d + 4 * pairs * (n - 2) * alpha**2
    return max(allowed, 4 * share + noisy_tail(gap, variance, limits.third_scale))


def _nothing_filtered(n: int, d: int, edge: float, limits: Thresholds) -> bool:
    """Whether no row is beyond the filter, except with probability 4δ, if n·|ν_i| ≤ edge for all i."""
    share = limits.delta
    fluctuation = math.sqrt(2.0 * math.log(2.0 * n / share))
    length = math.sqrt(d) * (edge + math.sqrt(2.0 * n * math.log(2.0 * d / share)) + 1)  # of X̄ without one row
    mean = math.sqrt(d) * edge / n  # ‖ν‖
    inner = 1.5 * d + n * mean**2 + mean * math.sqrt(n) * fluctuation + length * fluctuation
    return inner + limits.reach <= limits.filter


@lru_cache(maxsize=512)
def least_sample_size(d: int, alpha: float, epsilon: float, delta: float, level: float | None = None) -> int:
    """The least n, as bisection finds it, with both bounds at most 1/3; with a level the size is at most that for any n."""
    return least_allowed(lambda n: error_bounds(n, d, alpha, epsilon, delta, level))


def least_allowed(bounds: Callable[[int], tuple[float, ...]]) -> int:
    """The least n ≥ 2, as bisection finds it, at which bounds of errors are all at most 1/3."""

    def suffices(n: int) -> bool:
        return max(bounds(n)) <= ALLOWED

    high = 2
    while not suffices(high):
        high *= 2
    return least(suffices, high // 2, high)
