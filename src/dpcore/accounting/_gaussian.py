"""The mathematics of Gaussian differential privacy: quantiles of the normal law that are certified in interval arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcore._exact.intervals import Interval, exp, log, sqrt
from dpcore._exact.tails import mills_ratio, normal_density, normal_upper_quantile
from dpcore.accounting import _calibration, _composition

if TYPE_CHECKING:
    from collections.abc import Iterable

PRECISION = 256
CACHED = 1024


def _tail(x: Interval) -> Interval:
    """Enclose Φ(−x)."""
    return mills_ratio(x) * normal_density(x)


def _precision(value: float) -> int:
    """Bits with which a number near 0 or far from it keeps its digits through 1 + e^value."""
    return PRECISION + 2 * abs(math.frexp(value)[1])


@lru_cache(maxsize=CACHED)
def mu_pure(epsilon: float) -> float:
    """Bound 2Φ⁻¹(e^ε/(1+e^ε)) from above."""
    if not epsilon:
        return 0.0
    precision = _precision(epsilon)
    error = 1 / (1 + exp(Interval.of(epsilon, precision)))
    mu = (2 * normal_upper_quantile(log(error))).upper()
    while mu < math.inf and not _tail(Interval.of(mu, precision) / 2).at_most(error):
        mu = math.nextafter(mu, math.inf)
    return mu


@lru_cache(maxsize=CACHED)
def largest_mu(epsilon: float, delta: float) -> float:
    """Bound the μ with δ(ε, μ) = δ from below, so that the rounded conversions in both directions keep (ε, δ)."""
    mu = _calibration.gaussian_ratio(epsilon, delta).lower()
    while mu > 0 and not _keeps(mu, epsilon, delta):
        mu = min(mu * (1 - 2.0**-45), math.nextafter(mu, 0.0))
    return mu


def _keeps(mu: float, epsilon: float, delta: float) -> bool:
    ratio = Fraction(mu)
    return _calibration.gaussian_delta(epsilon, ratio) <= delta and _composition.gaussian_epsilon(delta, ratio) <= epsilon


def composed(parts: Iterable[float]) -> float:
    """Round √Σμ² up."""
    return root_up(sum((Fraction(mu) ** 2 for mu in parts), Fraction(0)))


def root_up(square: Fraction) -> float:
    """Return the least float64 that is at least the root of a fraction."""
    root = sqrt(Interval.of(square, PRECISION)).lower() if square else 0.0
    while root < math.inf and Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def type_two(mu: float, level: float) -> float:
    """Bound Φ(Φ⁻¹(1−α) − μ) from below."""
    if level in (0.0, 1.0):
        return 1.0 - level
    mirrored = level > 0.5
    tail = Interval.of(1 - Fraction(level) if mirrored else level, PRECISION)  # of one side, at most 1/2
    x = normal_upper_quantile(log(tail))
    # A step towards a smaller Φ⁻¹(1−α), until it is certain to be no larger than the true one.
    step = (x * 2.0**-80).hull(2.0**-80).middle()
    while not (_tail(x).at_most(tail) if mirrored else tail.at_most(_tail(x))):
        x = (x + step if mirrored else x - step).middle()
        step = (2 * step).middle()
    argument = (-x if mirrored else x) - Interval.of(mu, PRECISION)
    return max(_tail(-argument).lower(), 0.0)
