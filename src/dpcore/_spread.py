"""The spread of exact noise of a known law: its standard deviation, and half-widths of intervals that cover."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcore._validation import check_real
from dpcore.noise import default_grid

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

Law = Literal["laplace", "gaussian", "discrete_laplace"]
DIGITS = 50
"""Of decimal numbers; a difference from 1 loses seven of them at most."""


def check_confidence(confidence: object) -> float:
    """Return a confidence in (0, 1), else raise."""
    return check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)


def standard_deviation(law: Law, scale: float) -> float:
    """Standard deviation of noise of this law and scale."""
    if law == "gaussian":
        return scale
    if law == "laplace":
        return math.sqrt(2.0) * scale
    return 1 / (math.sqrt(2.0) * math.sinh(min(0.5 / scale, 700.0)))


@lru_cache(maxsize=4096)
def noise_variance(kind: str, scale: float) -> float:
    """Variance of the noise of one number: the same float on every machine, because answers may be weighted by it.

    Laplace: 2b². Gaussian: σ². Discrete Laplace with ratio r = e^(−1/b): 2r/(1 − r)² = 1/(2 sinh²(1/(2b))), which from b = 2^20 on is
    2b² − 1/6 to the last bit. Discrete Gaussian: the sum over its law, which from σ = 3/2 on is σ² to the last bit. Infinite where it
    leaves the range of float64.
    """
    if kind == "laplace":
        return 2 * scale * scale  # `scale**2` would raise where the product is infinite
    if kind == "discrete_laplace":
        return 2 * scale * scale - 1 / 6 if scale >= 2.0**20 else _of_discrete_laplace(scale)
    return _of_discrete_gaussian(scale) if kind == "discrete_gaussian" and scale < 1.5 else scale * scale


# Exponentials of libraries and of processors differ in the last bit; those of decimal numbers are rounded correctly.


def _of_discrete_laplace(scale: float) -> float:
    with localcontext(Context(prec=DIGITS)):
        ratio = (-1 / Decimal(max(scale, 1 / 700))).exp()  # below, the variance is less than 10^-303
        return float(2 * ratio / ((1 - ratio) * (1 - ratio)))


def _of_discrete_gaussian(scale: float) -> float:
    with localcontext(Context(prec=DIGITS)):
        twice = 2 * Decimal(scale) * Decimal(scale)
        weights = [(k * k, (-k * k / twice).exp()) for k in range(1, 24)]
        return float(2 * sum(square * weight for square, weight in weights) / (1 + 2 * sum(weight for _, weight in weights)))


def half_width(law: Law, scale: float, confidence: float) -> float:
    """A number h with P(|released − exact| ≤ h) ≥ confidence, rounding to the grid of the noise included."""
    return tail_width(law, scale, tail_of(confidence))


def tail_of(confidence: float) -> float:
    """1 − confidence, rounded down."""
    # exact from 1/2 on; below, the next smaller number is on the safe side
    return 1.0 - confidence if confidence >= 0.5 else math.nextafter(1.0 - confidence, 0.0)


@lru_cache(maxsize=4096)
def tail_width(law: Law, scale: float, tail: float, k: int = 1) -> float:
    """A number h that none of k independent |released − exact| exceeds, but with probability `tail`; rounding to the grid included."""
    from dpcore.accounting import _calibration  # loads interval arithmetic

    p = _calibration.tail_probability(tail, k)
    if law == "discrete_laplace":
        return float(_calibration.discrete_laplace_width(scale, p))
    width = _calibration.laplace_width if law == "laplace" else _calibration.gaussian_width
    return width(scale, p, default_grid(scale) / 2)


@lru_cache(maxsize=4096)
def largest_sum_width(law: Literal["laplace", "discrete_laplace"], scale: float, count: int, tail: float) -> float:
    """A number h that no |Z_1 + … + Z_j|, j ≤ count, exceeds, but with probability `tail`; the rounding of count ≥ 1 numbers included.

    For sums of few Laplace numbers, whose law is a mixture of gamma laws, Lévy: P(max_j |S_j| > h) ≤ 2·P(|S_count| > h), as they are
    independent and symmetric. Otherwise Chernoff's bound, which Doob's inequality extends to the largest of the sums.
    """
    if count == 1:
        return tail_width(law, scale, tail)
    if law == "laplace" and count <= _FEW and tail > _LEAST_TAIL:
        width = scale * laplace_sum_width(count, tail / 4 * (1 - 1e-8))
    else:
        width = chernoff_width(lambda s: count * log_moments(law, scale, s), tail / 2, scale)
    return math.floor(width * _UP) if law == "discrete_laplace" else width * _UP + count * default_grid(scale) / 2


def log_moments(law: Literal["laplace", "discrete_laplace"], scale: float, s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Logarithm of E e^(sZ/scale) for one noise Z, s in (0, 1)."""
    if law == "laplace":
        return -np.log1p(-s * s)
    # (1 − r)²/((1 − re^(s/scale))(1 − re^(−s/scale))), r = e^(−1/scale)
    whole, less, more = (np.log(-np.expm1(x / scale)) for x in (-1.0, s - 1, -(s + 1)))
    return np.asarray(2 * whole - less - more, np.float64)


def chernoff_width(log_moment: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]], tail: float, scale: float) -> float:
    """A number h with P(S ≥ h) ≤ tail, if `log_moment` bounds ln E e^(sS/scale) for s in (0, 1): each s gives one."""
    s = np.concatenate([np.geomspace(2.0**-40, 0.5, 4096), 1 - np.geomspace(0.5, 2.0**-20, 1024)])
    return float((scale * (log_moment(s) - math.log(tail)) / s).min()) * _UP


_FEW = 1 << 12
"""Numbers of Laplace noises up to which the tail of a sum is a mixture of gamma tails."""
_LEAST_TAIL = 1e-12
"""Smaller tails of such a mixture may be lost in rounding."""
_UP = 1 + 1e-9
"""More than all roundings of a width."""


def laplace_sum_width(n: int, tail: float) -> float:
    """The h with P(S > h) = tail ≤ 1/2 for the sum S of n Laplace numbers of scale 1.

    It is the difference of two sums of n exponential numbers; when the one is used up the other has k terms left with the probability
    C(2n − k − 1, n − 1)·2^−(2n − k), and those are a gamma number.
    """
    from scipy import special

    k = np.arange(1, n + 1)
    weights = np.exp(special.gammaln(2 * n - k) - special.gammaln(n) - special.gammaln(n - k + 1) - (2 * n - k) * math.log(2))
    low, high = 0.0, 60.0 * math.sqrt(n) + 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(weights @ special.gammaincc(k, middle)) > tail else (low, middle)
    return high
