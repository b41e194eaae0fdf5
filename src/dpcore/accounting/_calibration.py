"""The mathematics of noise scales: guarantees as intervals, and searches for the scale that meets one.

A search may be approximate, because its result is certified in interval arithmetic before it is returned. Searches in float64 differ in
the last bits between processors and systems, where exponentials and logarithms do. So that a scale is the same on all of them, what such
a search finds is rounded to fewer binary digits, and interval arithmetic decides between neighbours.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcore._exact.intervals import (
    Interval,
    complement_exp,
    exp,
    log,
    log_complement,
    power_of_two,
    refined,
    sqrt,
)
from dpcore._exact.tails import discrete_tail_ratio, mills_in_floats, mills_ratio, normal_density, normal_upper_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LEAST_FLOAT = 5e-324
CACHED = 1024
FAR = 40
"""Beyond this number of standard deviations a tail is below the least float64: Φ(−40) < 10^−349."""
ORDER_BITS, SCALE_BITS = 22, 44
"""Binary digits of the orders, behind the first one, and of the scales of discrete Gaussian noise that searches find."""
SCANNED_SCALE = 32.0
"""Discrete Gaussians up to this scale are searched on a grid, because their δ is visibly not monotone."""


def holds(evaluate: Callable[[int], Interval], bound: float) -> bool:
    """Whether evaluate(precision) ≤ bound for certain; an undecided comparison at high precision counts as no."""
    precision = 192
    while precision <= 1 << 14:
        value = evaluate(precision)
        if value.at_most(bound):
            return True
        if (-value).at_most(-bound):
            return False
        precision *= 2
    return False


# The continuous Gaussian. With s = Δ/σ and u = ε/s − s/2:  δ = Φ(−u) − e^ε Φ(−u−s) = φ(u)·(R(u) − R(u+s)), R the Mills ratio, since
# e^ε φ(u+s) = φ(u). No e^ε is formed, and the difference's cancellation costs log2(1/s) bits or so, which precision pays for.


def _density_and_gap(epsilon: float, ratio: Interval) -> tuple[Interval, Interval]:
    u = epsilon / ratio - ratio / 2
    return normal_density(u), mills_ratio(u) - mills_ratio(u + ratio)


def _gaussian_delta(epsilon: float, ratio: Fraction, precision: int) -> Interval:
    density, gap = _density_and_gap(epsilon, Interval.of(ratio, precision))
    return density * gap


def gaussian_delta(epsilon: float, ratio: Fraction) -> float:
    """Bound δ of Gaussian noise from above; ratio = Δ/σ."""
    distance = Fraction(epsilon) / ratio - ratio / 2
    if abs(distance) > FAR:
        return LEAST_FLOAT if distance > 0 else 1.0
    return min(refined(lambda precision: _gaussian_delta(epsilon, ratio, precision)).upper(), 1.0)


def _ratio_in_floats(epsilon: float, delta: float) -> float:
    """Solve δ(ε, s) = δ for s to about a float's digits, as a start; nan where floats do not reach."""
    z = math.sqrt(-2 * math.log(delta))
    ratio = max(2 * epsilon / (z + math.sqrt(z * z + 2 * epsilon)), 2.5 * delta)  # below the solution, see `gaussian_ratio`
    try:
        for _ in range(60):
            u = epsilon / ratio - ratio / 2
            gap = mills_in_floats(u) - mills_in_floats(u + ratio)
            step = (math.log(delta * math.sqrt(2 * math.pi) / gap) + u * u / 2) * gap / ratio
            ratio *= math.exp(step)
            if abs(step) < 1e-13:
                break
    except (ArithmeticError, ValueError):
        return math.nan
    return ratio


@lru_cache(maxsize=CACHED)
def gaussian_ratio(epsilon: float, delta: float) -> Interval:
    """Solve δ(ε, s) = δ for s = Δ/σ to some 80 bits; the caller certifies its result."""
    precision = 256 + 2 * max(0, math.frexp(epsilon)[1])
    loss, target = Interval.of(epsilon, precision), Interval.of(delta, precision)
    z = sqrt(-2 * log(target))
    # Both starts are below the solution: δ(s) < Φ(−u(s)) ≤ e^(−u²/2), and δ(s) ≤ s/√(2π).
    start = 2 * loss / (z + sqrt(z * z + 2 * loss))
    start = start if (2.5 * target).at_most(start) else 2.5 * target
    near = _ratio_in_floats(epsilon, delta)
    ratio = Interval.of(near, precision) if start.lower() <= near < math.inf else start.middle()
    ratio = Interval(ratio.low, ratio.high, precision + 2 * max(0, -math.frexp(ratio.upper())[1]))
    for _ in range(200):
        density, gap = _density_and_gap(epsilon, ratio)
        # d ln δ / d ln s = s/(R(u) − R(u+s)), which falls in s: from below, Newton's steps never pass the solution.
        step = (log(target / (density * gap)) * gap / ratio).middle()
        ratio = (ratio * exp(step)).middle()
        if (step * step).at_most(2.0**-96):
            break
    return ratio


@lru_cache(maxsize=CACHED)
def analytic_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Find the least certified σ, within a unit or two in the last place."""

    def certified(scale: float) -> bool:
        ratio = Fraction(sensitivity) / Fraction(scale)
        return holds(lambda precision: _gaussian_delta(epsilon, ratio, precision), delta)

    scale = (sensitivity / gaussian_ratio(epsilon, delta)).upper()
    while scale < math.inf and not certified(scale):
        scale = math.nextafter(scale, math.inf)
    return scale


def classical_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Evaluate Δ√(2 ln(1.25/δ))/ε, rounded up."""
    return (sensitivity * sqrt(2 * log(1.25 / Interval.of(delta, 192))) / epsilon).upper()


# zCDP. An order α > 1 is written as 1 + x: near α = 1 the logarithms below are then accurate.


def _best_order(slope: Callable[[float], float]) -> float:
    """The x of few binary digits up to which a function falls, given the sign of its slope; any x > 0 gives a valid bound.

    Where a slope changes its sign, floats are sure of it, unlike of where a value is the least.
    """
    low, high = -1010 << ORDER_BITS, 1010 << ORDER_BITS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slope(_order(middle)) < 0 else (low, middle)
    return _order(low)


def _order(number: int) -> float:
    """The numbers of so many binary digits in their order: that before which there are so many from 1 on."""
    exponent, rest = divmod(number, 1 << ORDER_BITS)
    return math.ldexp((1 << ORDER_BITS) + rest, exponent - ORDER_BITS)


def _order_terms(x: float) -> tuple[Interval, Interval]:
    """Enclose x and −ln((1/x)·(1 − 1/(1+x))^(1+x)) = ln(1+x) + x ln(1 + 1/x)... at the order 1 + x."""
    order = Interval.of(x, 256 + 2 * abs(math.frexp(x)[1]))
    return order, log(1 + order) + order * log(1 + 1 / order)


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Bound δ from above by exp((α−1)(αρ−ε))/(α−1)·(1−1/α)^α at the best order found."""
    order, terms = _order_terms(_best_order(lambda x: (1 + 2 * x) * rho - epsilon - math.log1p(1 / x)))
    return min(exp(order * ((1 + order) * rho - epsilon) - terms).upper(), 1.0)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Bound ε from above at the best order found."""
    log_delta = math.log(delta)
    order, terms = _order_terms(_best_order(lambda x: rho * x * x + log_delta + math.log1p(x)))
    return max(((1 + order) * rho - (log(Interval.of(delta, order.precision)) + terms) / order).upper(), 0.0)


def keeps_zcdp(rho: float, epsilon: float, delta: float) -> bool:
    """Whether ρ-zCDP is certainly (ε, δ)-private, by δ at ε and by ε at δ."""
    return zcdp_delta(rho, epsilon) <= delta and zcdp_epsilon(rho, delta) <= epsilon


def largest_rho(epsilon: float, delta: float) -> float:
    """Find the largest ρ that keeps (ε, δ), within 10^−9 of it; 0 if no float64 does."""
    low, high = 0.0, min(epsilon, 1.0)
    while keeps_zcdp(high, epsilon, delta):
        low, high = high, 2 * high
    while not low and high > 0:
        low, high = (high / 4, high) if keeps_zcdp(high / 4, epsilon, delta) else (0.0, high / 4)
    while high > low * (1 + 1e-10):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if keeps_zcdp(middle, epsilon, delta) else (low, middle)
    return low


@lru_cache(maxsize=CACHED)
def zcdp_discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Find σ from the largest ρ = Δ²/2σ² that the conversion allows."""
    # For a fixed order the bound is at most δ exactly when ρ ≤ (εx + ln δ + terms)/(x(1+x)); the best order allows the largest ρ.
    log_delta = math.log(delta)
    # That ρ grows in x as long as εx² + (1 + 2x)(ln δ + ln(1+x)) + x² ln(1 + 1/x) < 0.
    order, terms = _order_terms(
        _best_order(lambda x: epsilon * x * x + (1 + 2 * x) * (log_delta + math.log1p(x)) + x * (x * math.log1p(1 / x)))
    )
    rho = (order * epsilon + log(Interval.of(delta, order.precision)) + terms) / (order * (1 + order))
    return (sensitivity / sqrt(2 * rho)).upper() if Interval.of(LEAST_FLOAT, 64).at_most(rho) else math.inf


# The discrete Gaussian on one integer answer.


def _cut(epsilon: float, scale: float, shift: int) -> int:
    """Find the largest z with p(z) > e^ε p(z−Δ), in exact arithmetic: a z on the wrong side would give too small a δ."""
    return math.ceil(Fraction(shift, 2) - Fraction(epsilon) * Fraction(scale) ** 2 / shift) - 1


def discrete_upper_tail(start: int, scale: float, precision: int, gain: float = 0.0) -> Interval:
    """Enclose e^gain · Σ_{z ≥ start} e^(−z²/2σ²) for an integer start ≥ 0."""
    exponent = Fraction(gain) - Fraction(start * start) / (2 * Fraction(scale) ** 2)
    return exp(Interval.of(exponent, precision)) * discrete_tail_ratio(start, scale, precision)


def discrete_norm(scale: float, precision: int) -> Interval:
    """Enclose Σ_z e^(−z²/2σ²)."""
    return 2 * discrete_tail_ratio(0, scale, precision) - 1


def _discrete_gaussian_delta(epsilon: float, scale: float, shift: int, precision: int) -> Interval:
    # Σ_z (p(z) − e^ε p(z−Δ))_+ = P(Z ≤ m) − e^ε P(Z ≤ m−Δ), m the cut, as p(z)/p(z−Δ) falls in z.
    cut = _cut(epsilon, scale, shift)
    norm = discrete_norm(scale, precision)
    near = discrete_upper_tail(-cut, scale, precision) if cut <= 0 else norm - discrete_upper_tail(cut + 1, scale, precision)
    return (near - discrete_upper_tail(shift - cut, scale, precision, gain=epsilon)) / norm


def discrete_gaussian_delta(epsilon: float, scale: float, shift: int) -> float:
    """Bound δ of discrete Gaussian noise on one integer answer from above."""
    cut = _cut(epsilon, scale, shift)
    if abs(cut) > FAR * scale + 1:  # P(|Z| ≥ m) ≤ 2e^(−m²/2σ²)
        return LEAST_FLOAT if cut < 0 else 1.0
    return min(refined(lambda precision: _discrete_gaussian_delta(epsilon, scale, shift, precision)).upper(), 1.0)


@lru_cache(maxsize=CACHED)
def exact_discrete_gaussian_scale(epsilon: float, delta: float, shift: int) -> float:
    """Search the smallest σ whose exact δ is small enough, and certify the σ that is returned."""

    def certified(scale: float) -> bool:
        return holds(lambda precision: _discrete_gaussian_delta(epsilon, scale, shift, precision), delta)

    limit = zcdp_discrete_gaussian_scale(epsilon, delta, float(shift))
    if limit == math.inf:
        return limit
    search = _scan_small_scales if limit <= SCANNED_SCALE else _follow_gaussian
    start, exponent = math.frexp(search(epsilon, delta, shift, limit))
    nearest = math.floor(math.ldexp(start, SCALE_BITS))
    for step in (0, 1, 2, 3, *(2**power for power in range(2, SCALE_BITS, 2))):  # until the certificate holds
        scale = math.ldexp(nearest + step, exponent - SCALE_BITS)
        if scale >= limit:
            break
        if certified(scale):
            return scale
    return limit  # zCDP proves this one


def _approximate_log_delta(epsilon: float, scales: NDArray[np.float64], shift: int) -> NDArray[np.float64]:
    """Evaluate ln δ in float64 for scales up to some 32, shape (n,) to shape (n,)."""
    width = math.ceil(FAR * float(scales.max())) + 1
    z = np.arange(-width, width + 1, dtype=np.float64)
    double_variance = 2 * np.square(scales)[:, np.newaxis]
    weights = -np.square(z) / double_variance
    excess = np.minimum(epsilon - (shift * shift - 2 * shift * z) / double_variance, 0.0)
    with np.errstate(divide="ignore"):
        terms = weights + np.log(-np.expm1(excess))
        largest = np.maximum(terms.max(axis=1, keepdims=True), -1e300)
        total = np.log(np.exp(terms - largest).sum(axis=1)) + largest[:, 0]
    result: NDArray[np.float64] = total - np.log(np.exp(weights).sum(axis=1))
    return result


def _scan_small_scales(epsilon: float, delta: float, shift: int, limit: float) -> float:
    target = math.log(delta)

    def passes(scales: NDArray[np.float64]) -> NDArray[np.bool_]:
        return _approximate_log_delta(epsilon, scales, shift) <= target

    low = limit / 8
    while passes(np.array([low]))[0]:
        low /= 8
    grid = np.geomspace(low, limit, 256 * math.ceil(math.log(limit / low, 8)))
    # Blocks keep the table of terms small; the last point passes, but for rounding.
    first = next((i for i in range(1, grid.size) if passes(grid[i : i + 1])[0]), grid.size - 1)
    fails, meets = float(grid[first - 1]), float(grid[first])
    for _ in range(50):
        middle = (fails + meets) / 2
        fails, meets = (fails, middle) if passes(np.array([middle]))[0] else (middle, meets)
    return meets


def _follow_gaussian(epsilon: float, delta: float, shift: int, limit: float) -> float:
    """Correct the continuous Gaussian's scale by Newton's method with that one's slope, which is nearly right for wide noise."""
    ratio = gaussian_ratio(epsilon, delta)
    scale = (shift / ratio).upper()
    _, gap = _density_and_gap(epsilon, ratio)
    inverse_slope = (gap / ratio).upper()
    for _ in range(20):
        value = _discrete_gaussian_delta(epsilon, scale, shift, 256).middle()
        step = (log(value / delta) * inverse_slope).upper()
        scale = min(scale * math.exp(step), limit)
        if abs(step) < 2.0**-48:
            break
    return scale


# Accuracy: the least half-width that the largest of k independent |noise| terms exceeds with probability at most β.

_QUANTILE_PRECISION = 256


def tail_probability(beta: float, k: int) -> Interval:
    """Enclose p = 1 − (1−β)^(1/k), the probability with which each of k independent terms may exceed the width."""
    return complement_exp(log_complement(Interval.of(beta, _QUANTILE_PRECISION)) / k)


def laplace_width(scale: float, p: Interval, slack: float) -> float:
    """Round up −b·ln p + slack."""
    return (slack - scale * log(p)).upper()


def gaussian_width(scale: float, p: Interval, slack: float) -> float:
    """Round up σ·z + slack for a z that certainly has 2Φ(−z) ≤ p."""
    z = normal_upper_quantile(log(p / 2))
    nudge = power_of_two(-100, _QUANTILE_PRECISION)
    while not (2 * mills_ratio(z) * normal_density(z)).at_most(p):
        z = (z * (1 + nudge) + power_of_two(-1200, _QUANTILE_PRECISION)).middle()
        nudge = nudge * 16
    return (scale * z + slack).upper()


def discrete_laplace_width(scale: float, p: Interval) -> int:
    """Find the least integer a ≥ 0 with P(|Z| > a) = 2r^(a+1)/(1+r) ≤ p, r = e^(−1/t)."""
    r = exp(Interval.of(-1 / Fraction(scale), _QUANTILE_PRECISION))
    return max(0, (-scale * (log(p) + log((1 + r) / 2))).ceiling() - 1)


def discrete_gaussian_width(scale: float, p: Interval) -> int:
    """Find the least integer a ≥ 0 with P(|Z| > a) certainly ≤ p."""
    norm = discrete_norm(scale, _QUANTILE_PRECISION)

    def met(a: int) -> bool:
        return (2 * discrete_upper_tail(a + 1, scale, _QUANTILE_PRECISION) / norm).at_most(p)

    guess = max(0, (scale * normal_upper_quantile(log(p / 2)) - 1.5).ceiling())
    low, high, step = guess - 1, guess + 1, 1
    while not met(high):
        low, high, step = high, high + step, 2 * step
    while low >= 0 and met(low):
        low, high, step = low - step, low, 2 * step
    low = max(low, -1)  # −1 stands for what fails by definition
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    return high
