"""The spread of exact noise of a known law: its standard deviation, and half-widths of intervals that cover."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from dpcore._validation import check_real
from dpcore.noise import default_grid

Law = Literal["laplace", "gaussian", "discrete_laplace"]


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


def half_width(law: Law, scale: float, confidence: float) -> float:
    """A number h with P(|released − exact| ≤ h) ≥ confidence, rounding to the grid of the noise included."""
    from dpcore.accounting import _calibration  # loads interval arithmetic

    # 1 − confidence is exact from 1/2 on; below, the next smaller number is on the safe side
    tail = 1.0 - confidence if confidence >= 0.5 else math.nextafter(1.0 - confidence, 0.0)
    p = _calibration.tail_probability(tail, 1)
    if law == "discrete_laplace":
        return float(_calibration.discrete_laplace_width(scale, p))
    width = _calibration.laplace_width if law == "laplace" else _calibration.gaussian_width
    return width(scale, p, default_grid(scale) / 2)
