"""The mathematics of composition in interval arithmetic, from which the public functions round up.

This module loads interval arithmetic; the public ones import it when a function is called.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore._exact.intervals import LARGEST_FLOAT, Interval, complement_exp, exp, fraction_up, log, log_complement, refined, sqrt
from dpcore._validation import TINY_NORMAL
from dpcore.accounting import _calibration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PRECISION = 256
LEAST_FOUND = TINY_NORMAL
"""A search ends at a value no larger than this."""

# ρ of the mechanisms


def _mean_loss(epsilon: float, precision: int) -> Interval:
    """Enclose ε·tanh(ε/2), the mean privacy loss of binary randomised response, for ε > 0."""
    missing = complement_exp(Interval.of(epsilon, precision))
    return epsilon * missing / (2 - missing)


def rho_pure(epsilon: float) -> float:
    """Bound ε·tanh(ε/2) from above."""
    return refined(lambda precision: _mean_loss(epsilon, precision)).upper() if epsilon else 0.0


def rho_laplace(epsilon: float) -> float:
    """Bound ε + e^−ε − 1 from above."""
    if not epsilon:
        return 0.0
    # Below ε = 2^−60, ε²/2 is within a unit in the last place.
    half_square = fraction_up(Fraction(epsilon) ** 2 / 2)
    if epsilon < 2.0**-60:
        return half_square
    return min(refined(lambda precision: epsilon - complement_exp(Interval.of(epsilon, precision))).upper(), half_square)


def rho_bounded_range(epsilon: float) -> float:
    """Bound min(ε²/8, ε·tanh(ε/2)) from above."""
    return min(fraction_up(Fraction(epsilon) ** 2 / 8), rho_pure(epsilon))


# Advanced composition


def advanced_epsilon(epsilon: float, k: int, delta_prime: float) -> float:
    """Bound ε√(2k ln(1/δ')) + kε(e^ε−1) from above."""
    loss = Interval.of(epsilon, PRECISION)
    drift = k * loss * exp(loss) * complement_exp(loss) if epsilon else Interval.of(0, PRECISION)
    return (_deviation(Fraction(epsilon) ** 2 * k, Interval.of(delta_prime, PRECISION)) + drift).upper()


def lecture_epsilon(epsilon: float, k: int, delta_prime: Fraction) -> float:
    """Bound 2kε² + ε√(2k ln(1/δ')) from above."""
    squares = Fraction(epsilon) ** 2 * k
    return (_deviation(squares, Interval.of(delta_prime, PRECISION)) + 2 * squares).upper()


def _deviation(squares: Fraction, delta_prime: Interval) -> Interval:
    """Enclose √(2 ln(1/δ')·Σε²), which a sum of losses exceeds its mean by with probability at most δ'."""
    return sqrt(-2 * squares * log(delta_prime))


# Several (ε, δ) guarantees at once. By Kairouz, Oh & Viswanath (2015) each is binary randomised response that fails with probability δ.

Part = tuple[int, float, float]
"""Number of uses, ε, δ."""


def _failure(parts: Sequence[Part], precision: int) -> Interval:
    """Enclose 1 − Π(1−δ)^k."""
    total = Interval.of(0, precision)
    for k, _, delta in parts:
        if delta:
            total = total + k * log_complement(Interval.of(delta, precision))
    return complement_exp(total) if any(delta for _, _, delta in parts) else total


def left_over(parts: Sequence[Part], delta: float) -> float:
    """Round down t with δ = f + (1−f)·t, f the probability that some part fails; 0 if the parts alone use up δ."""
    if not any(part[2] for part in parts):
        return delta
    if Interval.of(delta, PRECISION).at_most(_failure(parts, PRECISION)):
        return 0.0

    def evaluate(precision: int) -> Interval:
        failure = _failure(parts, precision)
        return (delta - failure) / (1 - failure)

    return max(refined(evaluate).lower(), 0.0)


def with_failures(parts: Sequence[Part], delta: float) -> float:
    """Round up f + (1−f)·δ, f the probability that some part fails."""
    if not any(part[2] for part in parts):
        return delta
    failure = _failure(parts, PRECISION)
    return min((failure + (1 - failure) * delta).upper(), 1.0)


def drift_and_squares(parts: Sequence[Part]) -> tuple[Interval, Fraction]:
    """Enclose Σ ε·tanh(ε/2), and return Σ ε² exactly."""
    drift, squares = Interval.of(0, PRECISION), Fraction(0)
    for k, epsilon, _ in parts:
        if epsilon:
            drift = drift + k * _mean_loss(epsilon, PRECISION)
        squares += k * Fraction(epsilon) ** 2
    return drift, squares


def hoeffding_epsilon(parts: Sequence[Part], delta: float) -> float:
    """Bound Σ ε·tanh(ε/2) + √(2 ln(1/δ)·Σε²) from above, for losses without failures."""
    drift, squares = drift_and_squares(parts)
    return (drift + _deviation(squares, Interval.of(delta, PRECISION))).upper()


def hoeffding_delta(parts: Sequence[Part], epsilon: float) -> float:
    """Bound exp(−(ε − Σ ε·tanh(ε/2))²/(2Σε²)) from above, for losses without failures."""
    drift, squares = drift_and_squares(parts)
    room = epsilon - drift
    if not squares or room.at_most(0) or not Interval.of(0, PRECISION).at_most(room):
        return 1.0
    return min(exp(room * room / (-2 * squares)).upper(), 1.0)


def sum_up(values: Iterable[float]) -> float:
    """Add floats, and round the exact sum up."""
    return fraction_up(sum(map(Fraction, values), Fraction(0)))


# Gaussian noise: k uses with ρ each are one use with kρ, whose ratio Δ/σ is √(2kρ).


def gaussian_ratio(rho: Fraction) -> Fraction:
    """Round √(2ρ) up."""
    ratio = sqrt(Interval.of(2 * rho, PRECISION)).upper()
    return Fraction(ratio) if ratio < math.inf else 2 * rho + 1


def gaussian_epsilon(delta: float, ratio: Fraction) -> float:
    """Find the least ε with δ(ε, Δ/σ) ≤ δ, certified, within some 10^−14 of the least."""

    def passes(epsilon: float) -> bool:
        return _calibration.gaussian_delta(epsilon, ratio) <= delta

    if passes(0.0):
        return 0.0
    high = float(ratio) + 1.0
    while not passes(high):
        if high == LARGEST_FLOAT:
            return math.inf
        high = min(2 * high, LARGEST_FLOAT)
    return least_passing(passes, 0.0, high)


def least_passing(passes: Callable[[float], bool], low: float, high: float) -> float:
    """Narrow a passing `high` down towards a failing `low` ≥ 0, to 2^−46 of itself."""
    step = 16.0
    while high - low > high * 2.0**-46 and high > LEAST_FOUND:
        if high <= 16 * max(low, LEAST_FOUND):
            middle = low + (high - low) / 2
        elif low:
            middle = math.sqrt(low) * math.sqrt(high)
        else:  # nothing failed yet: ever longer steps
            middle, step = max(high / step, LEAST_FOUND), step * step
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
