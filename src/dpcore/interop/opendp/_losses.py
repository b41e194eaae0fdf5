"""Privacy maps: the least float64 that is no smaller than the loss of privacy at a distance."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from scipy import optimize, special

from dpcore import accounting
from dpcore._exact.intervals import Interval, fraction_up, log, refined
from dpcore._validation import TINY_NORMAL
from dpcore.errors import ParameterError, ParameterTypeError


def distance(d_in: Any) -> Fraction:
    """A distance of OpenDP, exactly."""
    if isinstance(d_in, bool) or not isinstance(d_in, (int, float)):
        raise ParameterTypeError(f"d_in must be a number, got {type(d_in).__name__}")
    if not 0 <= d_in < math.inf:
        raise ParameterError(f"d_in must be in [0, ∞), got {d_in!r}")
    return Fraction(d_in)


def proportional(d_in: Any, scale: float, factor: int = 1) -> float:
    """factor·d/scale: ε of Laplace noise, and of a choice whose scores move by d. Without noise it is 0 or ∞."""
    moved = factor * distance(d_in)
    if not scale or not moved:
        return math.inf if moved else 0.0
    return fraction_up(moved / Fraction(scale))


def quadratic(d_in: Any, scale: float, divisor: int, factor: int = 1, uses: int = 1) -> float:
    """uses·(factor·d/scale)²/divisor: ρ of Gaussian noise with divisor 2, and of choices by Gumbel noise with divisor 8."""
    moved = factor * distance(d_in)
    if not scale or not moved:
        return math.inf if moved else 0.0
    return fraction_up(uses * (moved / Fraction(scale)) ** 2 / divisor)


def gaussian_loss(d_in: Any, scale: float, delta: float) -> tuple[float, float]:
    """(ε, δ) of continuous Gaussian noise: an ε that is shown to be enough, and is near the least one."""
    moved = fraction_up(distance(d_in))
    if not moved or not scale or math.isinf(moved):
        return (math.inf if moved else 0.0), delta
    sensitivity = max(moved, TINY_NORMAL)
    if accounting.gaussian_delta(0.0, scale, sensitivity) <= delta:
        return 0.0, delta
    ratio = sensitivity / scale
    size = ratio * ratio
    if not math.isfinite(size):
        return math.inf, delta
    near = size / 2 + ratio * _quantile(ratio, delta)
    margin = 2.0**-44 * (size + abs(near) + ratio)
    while not accounting.gaussian_delta(max(near, 0.0) + margin, scale, sensitivity) <= delta:
        margin *= 4
    return max(near, 0.0) + margin, delta


def _quantile(ratio: float, delta: float) -> float:
    """About the x with δ(r²/2 + x·r) = δ, where r is the ratio of sensitivity and scale. The product of e^ε and a tail is one function."""

    def excess(x: float) -> float:
        tails = special.erfcx(x / math.sqrt(2)) - special.erfcx((ratio + x) / math.sqrt(2))
        return float(-x * x / 2 + math.log(tails / 2) - math.log(delta)) if tails > 0 else -math.inf

    high = math.sqrt(2 * -math.log(delta)) + 1
    low = max(-ratio / 2, -36.0)
    return float(optimize.brentq(excess, low, high)) if excess(low) > 0 > excess(high) else high


def repeated(d_in: Any, epsilon: float) -> float:
    """d·ε: the loss where d records change, and each changes by itself at most ε."""
    changed = distance(d_in)
    if not changed or not epsilon:
        return 0.0
    return math.inf if math.isinf(epsilon) else fraction_up(changed * Fraction(epsilon))


def response_losses(prob: Fraction, k: int) -> tuple[float, float]:
    """ε = ln(p·(k − 1)/(1 − p)) of a response among k that is true with probability p ≥ 1/k: rounded down, and rounded up."""
    if prob == 1:
        return math.inf, math.inf
    odds = prob * (k - 1) / (1 - prob)
    if odds == 1:
        return 0.0, 0.0
    loss = refined(lambda precision: log(Interval.of(odds, precision)))
    return max(loss.lower(), 0.0), loss.upper()
