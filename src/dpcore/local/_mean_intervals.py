"""Confidence intervals of the mean of clamped numbers from the sum of their noisy reports.

The noise has a known law, so the sum of n noises has known quantiles. For Laplace noise they follow from mixtures of gamma laws, for
integers from the characteristic function, and for many records from the normal law and the fourth cumulant. For the sample only the noise
varies. For the population the records vary too. If there are many reports and their variance, in squared widths of the range, is at least
1000/n, it is taken from the reports; a smaller one could hide a rare record at a bound. Otherwise it is the largest that the bounds allow,
(μ − lower)(upper − μ), with half a width of continuity, and the interval is solved for μ.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore._exact.pending import Kind

ENOUGH = 1000.0
"""Variance of the sum, in squared widths of the range, from which the sample variance of the reports is used."""
_MANY = 500
"""Number of records from which the sample variance is accurate to some per cent, for any noise."""
_FEW = 64
"""Records up to which sums of Laplace noise are mixtures of gamma laws."""
_NARROW = 1024.0
"""Variance of the sum of integers up to which its law is tabulated."""
_FINE = 1e-12
"""Tails below this are lost in the rounding of a table."""


def noise_variance(kind: str, scale: float) -> float:
    """Variance of the noise of one number.

    Laplace: 2b². Gaussian: σ². Discrete Laplace with ratio r = e^(−1/b): 2r/(1 − r)² = 1/(2 sinh²(1/(2b))). Discrete Gaussian: the
    sum over its law, which from σ = 4 on is σ² to the last bit. Infinite where it leaves the range of float64.
    """
    if kind == "laplace":
        return 2 * scale * scale  # `scale**2` would raise where the product is infinite
    if kind == "discrete_laplace":
        # Beyond 350 the variance is below 10^-303, and the square would overflow.
        return 0.5 / math.sinh(min(0.5 / scale, 350.0)) ** 2
    if kind == "discrete_gaussian" and scale < 4:
        squares = np.arange(-64.0, 65.0) ** 2
        weights = np.exp(-squares / (2 * scale**2))
        return float(squares @ weights / weights.sum())
    return scale * scale


@lru_cache(maxsize=1024)
def noise_width(kind: Kind, scale: float, n: int, tail: float) -> float:
    """Number that the sum of n noises exceeds with probability at most `tail` ≤ ½; for integers in units of the grid."""
    variance = n * noise_variance(kind, scale)
    integral = kind.startswith("discrete")
    if integral and variance <= _NARROW:
        return float(_lattice_width(kind, scale, n, tail) if tail >= _FINE else _chernoff_width(kind, scale, n, tail))
    if kind.endswith("laplace") and n <= _FEW:
        return _laplace_width(n, tail) * scale + integral / 2
    return _normal_width(variance, 3.0 / n if kind.endswith("laplace") else 0.0, tail) + integral / 2


def mean_margins(kind: Kind, scale: float, n: int, tail: float, *, total: float, half: float, squares: float | None) -> tuple[float, float]:
    """Return how far the limits of the mean lie below and above the mean of the reports, all in units of the reports' grid.

    Parameters
    ----------
    kind, scale : str, float
        The law of the noise.
    n : int
        Number of reports.
    tail : float
        (1 − confidence)/2.
    total : float
        Sum of the reports about the middle of the range.
    half : float
        Half the width of the range.
    squares : float or None
        Sample variance of the reports; None for the interval of the sample, whose records do not vary.
    """
    width = noise_width(kind, scale, n, tail)
    if squares is None:
        return width / n, width / n
    variance = noise_variance(kind, scale)
    # No part of the sum has heavier tails than its noise.
    z = max(_normal_width(1.0, 0.0, tail), width / math.sqrt(n * variance) if variance > 0 else 0.0)
    if n >= _MANY and n * squares >= ENOUGH * (2 * half) * (2 * half):
        margin = z * math.sqrt(squares / n)
        return margin, margin
    return _bounded_margin(total, half, n, variance, z, -1), _bounded_margin(total, half, n, variance, z, 1)


def _bounded_margin(total: float, half: float, n: int, variance: float, z: float, side: int) -> float:
    """Solve (total ± half − nμ)² = z²·n·(variance + half² − μ²) for μ on one side; outside the range the noise alone varies."""
    x, u, most = (total + side * half) / n, z * z / n, variance + half * half
    inner = u * (most - x * x) + u * u * most
    mean = (x + side * math.sqrt(max(inner, 0.0))) / (1 + u)
    if side * x >= half or not (inner >= 0 and abs(mean) <= half):
        return half / n + math.sqrt(u * variance)
    return side * (mean - total / n)


def _normal_width(variance: float, excess: float, tail: float) -> float:
    """Quantile of a symmetric law with this excess kurtosis, by Cornish and Fisher."""
    from scipy import special

    z = -float(special.ndtri(tail))
    return math.sqrt(variance) * (z + max(z**3 - 3 * z, 0.0) * excess / 24)


def _laplace_width(n: int, tail: float) -> float:
    """Quantile of the sum of n Laplace numbers of scale 1.

    It is the difference of two sums of n exponential numbers; when the one is used up the other has k terms left with the probability
    C(2n − k − 1, n − 1)·2^−(2n − k), and those are a gamma number.
    """
    from scipy import special

    k = np.arange(1, n + 1)
    weights = np.exp(special.gammaln(2 * n - k) - special.gammaln(n) - special.gammaln(n - k + 1) - (2 * n - k) * math.log(2))
    return _bisected(lambda x: float(weights @ special.gammaincc(k, x)), 60.0 * math.sqrt(n) + 60.0, tail)


def _bisected(tail_of: Callable[[float], float], high: float, tail: float) -> float:
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail_of(middle) > tail else (low, middle)
    return high


def _lattice_width(kind: Kind, scale: float, n: int, tail: float) -> int:
    """The least w with P(sum > w) ≤ tail, for n integers, from the characteristic function on a period that the sum does not leave."""
    reach = 12 * math.sqrt(n * noise_variance(kind, scale)) + 45 * scale + 60
    period = 1 << math.ceil(math.log2(2 * reach))
    angles = np.arange(period // 2 + 1) * (2 * math.pi / period)
    if kind == "discrete_laplace":
        ratio = math.exp(-1 / scale)
        values = (1 - ratio) ** 2 / ((1 - ratio) ** 2 + 4 * ratio * np.sin(angles / 2) ** 2)
    else:
        steps = np.arange(1, math.ceil(9 * scale) + 2)
        weights = np.exp(-((steps / scale) ** 2) / 2)
        values = (1 + 2 * np.cos(np.outer(angles, steps)) @ weights) / (1 + 2 * weights.sum())
    masses = np.fft.irfft(values**n, period)
    beyond = np.cumsum(masses[period // 2 : 0 : -1])[::-1]  # P(sum ≥ w) for w = 1 …
    above = np.flatnonzero(beyond > tail + 1e-15)
    return int(above[-1]) + 1 if len(above) else 0


def _chernoff_width(kind: Kind, scale: float, n: int, tail: float) -> int:
    """A w with P(sum > w) ≤ tail, for n integers, by Chernoff's bound: P(sum ≥ c) ≤ e^(−tc)·E e^(t·sum) for every t.

    Discrete Gaussian noise has E e^(tZ) ≤ e^(σ²t²/2) (Canonne, Kamath & Steinke, 2020), as the normal law; that of discrete Laplace noise
    is (1 − r)²/((1 − re^t)(1 − re^−t)).
    """
    digits = -math.log(tail)
    if kind == "discrete_gaussian":
        c = scale * math.sqrt(2 * n * digits)
    else:
        t = np.arange(1, 1024) / 1024
        logs = 2 * math.log1p(-math.exp(-1 / scale)) - np.log1p(-np.exp((t - 1) / scale)) - np.log1p(-np.exp(-(t + 1) / scale))
        c = scale * float(((n * logs + digits) / t).min())
    return max(math.ceil(c * (1 + 1e-9)) - 1, 0)
