"""How far exact noise of a known law reaches: its standard deviation, and half-widths of intervals that cover."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal

from dpcore._validation import check_real
from dpcore.noise import default_grid

Law = Literal["laplace", "gaussian", "discrete_laplace"]

_UP = 1 + 2.0**-40
"""Outweighs the rounding of logarithms and quantiles."""


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


def half_width(law: Law, scale: float, confidence: float) -> float:
    """A number h with P(|released − exact| ≤ h) ≥ confidence, rounding to the grid of the noise included.

    Laplace: b·ln(1/(1 − c)). Gaussian: σ·Φ⁻¹((1 + c)/2). Discrete Laplace with p = e^(−1/b): P(|X| > h) = 2p^(h + 1)/(1 + p) for whole h.
    """
    beta = 1.0 - confidence  # exact for a confidence of 1/2 or more; off by 2^-54 otherwise, which _UP covers
    if law == "discrete_laplace":
        p = math.exp(-1 / scale)
        return float(max(0, math.ceil((scale * math.log(2 / (beta * (1 + p)))) * _UP - 1)))
    reach = -math.log(beta) if law == "laplace" else -NormalDist().inv_cdf(beta / 2)
    return scale * reach * _UP + default_grid(scale)
