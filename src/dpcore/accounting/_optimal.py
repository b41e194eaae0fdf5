"""Optimal composition of equal (ε, δ) guarantees, certified in interval arithmetic.

By Kairouz, Oh & Viswanath (2015), Theorem 3.3, k adaptive (ε, δ)-private releases are at worst k binary randomised responses
that fail with probability δ each. Without failures their privacy loss is (k − 2L)ε, L ~ Bin(k, 1/(1+e^ε)), so that the least δ at ε' is

    δ₀(ε') = Σ_{l ≤ m} (P(L = l) − e^ε' P(L = k − l)) = A(m) − e^ε' B(m),   m the last l with (k − 2l)ε > ε',

and with failures 1 − (1−δ)^k (1 − δ₀(ε')). Both tails are summed away from the mode, from a first term whose logarithm Stirling's series
gives.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcore._exact.elementary import bernoulli
from dpcore._exact.intervals import (
    Interval,
    ceiling,
    complement_exp,
    exp,
    floor,
    fraction_up,
    log,
    log_complement,
    pi,
    power_of_two,
    refined,
)
from dpcore.accounting import _composition

if TYPE_CHECKING:
    from collections.abc import Callable

LAST_PRECISION = 1 << 13
EXACT_FACTORIALS = 512
GUARD = 64
"""Bits below the precision that fixed-point sums carry: one unit is lost at every step, and steps number below 2^40."""


# Tails of the binomial law


def log_factorial(n: int, precision: int) -> Interval:
    """Enclose ln n!, by Stirling's series for large n: its error has the sign of the first term left out, and is smaller (DLMF 5.11.1)."""
    if n <= EXACT_FACTORIALS:
        return log(Interval.of(math.factorial(n), precision))
    point = Interval.of(n, precision)
    total = (point + Fraction(1, 2)) * log(point) - point + log(2 * pi(precision)) / 2
    negligible = power_of_two(-precision, precision)
    power, square = 1 / point, point * point
    for j in range(1, 4 * EXACT_FACTORIALS):
        term = power * _stirling_coefficient(j)
        size = term if j % 2 else -term
        if size.at_most(negligible) or j > EXACT_FACTORIALS:
            return total + term.hull(0)
        total, power = total + term, power / square
    return total


@lru_cache(maxsize=EXACT_FACTORIALS)
def _stirling_coefficient(j: int) -> Fraction:
    return bernoulli(2 * j) / (2 * j * (2 * j - 1))


def _log_choices(k: int, m: int, precision: int) -> Interval:
    if k <= EXACT_FACTORIALS:
        return log(Interval.of(math.comb(k, m), precision))
    return log_factorial(k, precision) - log_factorial(m, precision) - log_factorial(k - m, precision)


def _series(ratio: Callable[[int], tuple[int, int]], steps: int, factor: Interval) -> Interval:
    """Enclose 1 + r₀ + r₀r₁ + … for r_j = ratio(j)·factor, which falls in j and is below 1 where it matters; `steps` many are not 0."""
    width = factor.precision + GUARD
    shift = width - _exponent(factor)
    low_factor, high_factor = _scaled(factor, shift)
    low = high = low_sum = high_sum = 1 << width
    rest = 0
    for j in range(steps):
        numerator, denominator = ratio(j)
        low = (low * numerator * low_factor >> shift) // denominator
        high = -(-(high * numerator * high_factor) // (denominator << shift))
        low_sum, high_sum = low_sum + low, high_sum + high
        gap = (denominator << shift) - numerator * high_factor
        if high < 1 << (GUARD // 2) and gap > 0:
            rest = high * numerator * high_factor // gap + 1  # the ratios fall, so a geometric series bounds the terms left out
            break
    scale = power_of_two(-width, factor.precision)
    return Interval.of(low_sum, factor.precision).hull(high_sum + rest) * scale


def _exponent(x: Interval) -> int:
    mantissa, exponent = x.high
    return int(exponent) + mantissa.bit_length() if mantissa else 0


def _scaled(x: Interval, shift: int) -> tuple[int, int]:
    """Round both ends of 2^shift·x outward to integers."""
    return floor(x.low, shift), ceiling(x.high, shift)


def tails(epsilon: float, k: int, m: int, precision: int) -> tuple[Interval, Interval]:
    """Enclose A(m) = P(L ≤ m) and B(m) = P(L ≥ k − m) for 0 ≤ m < k/2."""
    working = precision + 8 + 2 * max(k.bit_length(), math.frexp(epsilon)[1])
    loss = Interval.of(epsilon, working)
    up, down = exp(loss), exp(-loss)
    log_norm = _log_choices(k, m, working) - k * log(1 + down)

    def downward(j: int) -> tuple[int, int]:  # from l = m − j to l − 1
        return m - j, k - m + j + 1

    def upward(j: int) -> tuple[int, int]:  # from l = m + 1 + j to l + 1
        return k - m - 1 - j, m + 2 + j

    far = exp(log_norm - (k - m) * loss) * _series(downward, m, down)
    if m == 0:
        return exp(log_norm), far
    if (m * up).at_most(k - m + 1):
        return exp(log_norm - m * loss) * _series(downward, m, up), far
    # Beyond the mode: one minus the other tail, whose first term is the next one.
    first = exp(log_norm - (m + 1) * loss) * (k - m) / (m + 1)
    return 1 - first * _series(upward, k - m - 1, down), far


def likeliest(k: int, epsilon: float) -> tuple[int, float]:
    """Return a likeliest value of L, and its probability to a unit in the last place."""
    mode = math.floor((k + 1) * (1 / (1 + math.exp(min(epsilon, 700.0)))))
    mode = min(mode, k)

    def evaluate(precision: int) -> Interval:
        loss = Interval.of(epsilon, precision)
        return exp(_log_choices(k, mode, precision) - mode * loss - k * log(1 + exp(-loss)))

    return mode, refined(evaluate).upper()


# The curve δ₀


def piece(epsilon: float, k: int, total: float) -> int:
    """Return the last l with (k − 2l)ε > ε', −1 if there is none."""
    return math.ceil((k - Fraction(total) / Fraction(epsilon)) / 2) - 1


def delta_without_failures(epsilon: float, k: int, total: float, precision: int) -> Interval:
    """Enclose δ₀(ε')."""
    m = piece(epsilon, k, total)
    if m < 0:
        return Interval.of(0, precision)
    near, far = tails(epsilon, k, m, precision)
    return near - exp(Interval.of(total, near.precision)) * far


def _failures(delta: float, k: int, precision: int) -> Interval:
    if k == 1 or not delta:
        return Interval.of(delta, precision)
    return complement_exp(k * log_complement(Interval.of(delta, precision)))


def optimal_delta(epsilon: float, delta: float, k: int, total: float) -> float:
    """Bound the least δ at ε' from above."""

    def evaluate(precision: int) -> Interval:
        failures = _failures(delta, k, precision)
        return failures + (1 - failures) * delta_without_failures(epsilon, k, total, precision) if epsilon else failures

    return min(refined(evaluate, bits=60, start=_first_precision(epsilon) if epsilon else 128).upper(), 1.0)


@lru_cache(maxsize=256)
def optimal_epsilon(epsilon: float, delta: float, k: int, delta_total: float) -> float:
    """Find the least certified ε'; inf if the failures alone are more likely than `delta_total`."""

    def target(precision: int) -> Interval:
        failures = _failures(delta, k, precision)
        return (delta_total - failures) / (1 - failures)

    sum_fits = k * Fraction(delta) <= Fraction(delta_total)
    most = fraction_up(k * Fraction(epsilon))
    if not _certainly_positive(target):
        return most if sum_fits else math.inf
    if not epsilon or meets(epsilon, k, 0.0, target):
        return 0.0
    found = _search(epsilon, k, target(_first_precision(epsilon)), most)
    return _least_float(lambda total: total >= most or meets(epsilon, k, total, target), min(found, most))


def _least_float(passes: Callable[[float], bool], near: float) -> float:
    """Find the least float64 that passes, where 0 does not and all above one that passes do; in few steps if `near` is close to it."""
    low, high, step = near, near, 1.0
    if passes(near):
        while low > 0 and passes(low):
            high, low, step = low, _moved(low, -step), 2 * step
    else:
        while not passes(high):
            low, high, step = high, _moved(high, step), 2 * step
    while math.nextafter(low, math.inf) < high:
        middle = low + (high - low) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _moved(value: float, ulps: float) -> float:
    return max(value + ulps * math.ulp(value), 0.0)


def _first_precision(epsilon: float) -> int:
    """Return a precision that is enough for differences of powers of e^ε, which cancel for small ε."""
    return 128 + 2 * max(0, -math.frexp(epsilon)[1])


def _certainly_positive(target: Callable[[int], Interval]) -> bool:
    precision = 192
    while precision <= LAST_PRECISION:
        value = target(precision)
        if value.at_most(0):
            return False
        if Interval.of(0, precision).at_most(value) and not value.at_most(0):
            return value.lower() > 0
        precision *= 2
    return False


def meets(epsilon: float, k: int, total: float, target: Callable[[int], Interval]) -> bool:
    """Whether δ₀(ε') ≤ target for certain; an undecided comparison counts as no."""
    precision = _first_precision(epsilon) if epsilon else 128
    while precision <= LAST_PRECISION:
        value, bound = delta_without_failures(epsilon, k, total, precision), target(precision)
        if value.at_most(bound):
            return True
        if bound.at_most(value):
            return False
        precision *= 2
    return False


def _search(epsilon: float, k: int, target: Interval, most: float) -> float:
    """Solve δ₀(ε') = target, closely but without a proof: Newton's method on ln δ₀ until the piece is known, on which ε' has a formula."""
    left, right = 0.0, min(most, _composition.hoeffding_epsilon([(k, epsilon, 0.0)], max(target.lower(), 5e-324)))
    at = math.nextafter(right, 0.0)
    for _ in range(400):
        m = piece(epsilon, k, at)
        near, far = tails(epsilon, k, m, target.precision)
        if target.at_most(near):
            solved = log((near - target) / far).upper()
            if solved >= 0 and piece(epsilon, k, solved) == m:
                return solved
        step, above = _newton_step(near, far, at, target)
        left, right = (at, right) if above else (left, at)
        following = at + step
        at = following if left < following < right else left + (right - left) / 2
        if not left < at < right:
            break
    return right


def _newton_step(near: Interval, far: Interval, at: float, target: Interval) -> tuple[float, bool]:
    """Return Newton's step for ln δ₀ at ε', and whether δ₀ is above the target there."""
    moved = exp(Interval.of(at, near.precision)) * far
    value = near - moved
    if not Interval.of(0, value.precision).at_most(value) or value.at_most(0):
        return math.nan, False
    return (log(value / target) * value / moved).upper(), not value.at_most(target)
