"""Scales of the mechanisms of diffprivlib from their parameters: recomputed exactly, and rounded towards privacy.

0.0 stands for "no noise", which diffprivlib has for a sensitivity of 0 and for ε = ∞; its own method then serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from dpcore import accounting
from dpcore._exact.intervals import Interval, ceiling, complement_exp, exp, log, log_complement
from dpcore.accounting.scales import quotient_up
from dpcore.errors import ParameterError
from dpcore.noise import DISCRETE_SCALE, FLOAT_SCALE, default_grid

_PRECISION = 320
_KEPT = 4096
_ROUNDS = 40
LEAST_INTEGER_SCALE = math.nextafter(DISCRETE_SCALE[0], 1.0)


@lru_cache(maxsize=_KEPT)
def laplace(epsilon: float, delta: float, sensitivity: float) -> float:
    """b = Δ/(ε − ln(1 − δ)), rounded up. Source: Holohan, Leith & Mason (2015)."""
    if sensitivity == 0 or epsilon == math.inf or delta == 1:
        return 0.0
    if delta == 0:
        return _checked(quotient_up(sensitivity, epsilon))
    return _checked((Interval.of(Fraction(sensitivity), _PRECISION) / _loss(epsilon, delta)).upper())


def _loss(epsilon: float, delta: float) -> Interval:
    """ε − ln(1 − δ): a mechanism that loses so much is (ε, δ)-private."""
    loss = Interval.of(Fraction(epsilon), _PRECISION)
    return loss + log_complement(Interval.of(Fraction(delta), _PRECISION)) if delta else loss


@lru_cache(maxsize=_KEPT)
def geometric(epsilon: float, sensitivity: int) -> float:
    """b = Δ/ε, rounded up, and at least the least scale of integer noise, at which only one draw in e^(2^20) is not 0."""
    if sensitivity == 0 or epsilon == math.inf:
        return 0.0
    return max(_checked(quotient_up(sensitivity, epsilon)), LEAST_INTEGER_SCALE)


@lru_cache(maxsize=_KEPT)
def gaussian(epsilon: float, delta: float, sensitivity: float) -> float:
    """σ = Δ√(2 ln(1.25/δ))/ε, rounded up."""
    return 0.0 if sensitivity == 0 else _checked(accounting.classical_gaussian_scale(epsilon, _below_one(delta), sensitivity))


@lru_cache(maxsize=_KEPT)
def analytic_gaussian(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least σ, of Balle & Wang (2018), rounded up."""
    if sensitivity / epsilon == 0 or delta == 1:
        return 0.0
    return _checked(accounting.analytic_gaussian_scale(epsilon, delta, sensitivity))


@lru_cache(maxsize=_KEPT)
def discrete_gaussian(epsilon: float, delta: float, sensitivity: int) -> float:
    """The smallest σ found, for a single integer."""
    if sensitivity / epsilon == 0 or delta == 1:
        return 0.0
    scale = accounting.exact_discrete_gaussian_scale(epsilon, delta, sensitivity)
    if not DISCRETE_SCALE[0] < scale <= DISCRETE_SCALE[1]:
        raise ParameterError(f"epsilon, delta and sensitivity must give noise of a scale in (2**-20, 2**40], got {scale!r}")
    return scale


@lru_cache(maxsize=_KEPT)
def argmax(epsilon: float, sensitivity: float, *, halved: bool) -> float:
    """b = 2Δ/ε, or half of it, rounded up."""
    return 0.0 if sensitivity == 0 or epsilon == math.inf else _checked(quotient_up(sensitivity, epsilon, 1 if halved else 2))


def _below_one(delta: float) -> float:
    return min(delta, math.nextafter(1.0, 0.0))


def _checked(scale: float) -> float:
    low, high = FLOAT_SCALE
    if not low <= scale <= high:
        raise ParameterError(f"epsilon, delta and sensitivity must give noise of a scale in [2**-960, 2**960], got {scale!r}")
    return scale


class Domain(NamedTuple):
    """Noise of a bounded Laplace mechanism: drawn again until the sum, a multiple of the grid, lies in [lower, upper], multiples too."""

    scale: float
    grid: float
    lower: float
    upper: float


@lru_cache(maxsize=_KEPT)
def bounded_domain(epsilon: float, delta: float, sensitivity: float, lower: float, upper: float) -> Domain | None:
    """A scale for which the page proves Δ/b + ln ΔC(b) ≤ ε − ln(1 − δ), in interval arithmetic; None is no noise."""
    if sensitivity == 0 or epsilon == math.inf or delta == 1 or lower == upper:
        return None
    loss = _loss(epsilon, delta)
    bound = loss.lower()
    moved = min(sensitivity, upper - lower)
    start = _least(lambda b: _spent(b, moved, upper - lower), bound, moved / bound)
    grid = _grid(start, upper - lower, max((abs(end) for end in (lower, upper) if math.isfinite(end)), default=0.0))
    first = _steps(lower, grid, math.ceil)
    last = _steps(upper, grid, math.floor)
    if first > last:
        raise ParameterError(
            "lower and upper must be further apart, compared with the noise and with their own size, for LaplaceBoundedDomain"
        )
    width = (last - first + 1) * grid  # exactly, or infinite
    moved = min(sensitivity, width)
    scale = max(_least(lambda b: _spent(b, moved, width), bound, start * (1 - 2.0**-24), 2.0**-22), moved / bound)
    step = 2.0**-50
    while not _spent_exactly(scale, moved, width).at_most(loss):
        scale, step = scale * (1 + step), 2 * step
    return Domain(_checked(scale), grid, first * grid, last * grid)


def _steps(end: float, grid: float, towards: Callable[[Fraction], int]) -> float:
    """Steps of the grid to the first of its points within a bound."""
    return towards(Fraction(end) / Fraction(grid)) if math.isfinite(end) else end


def _spent(scale: float, sensitivity: float, width: float) -> float:
    """Δ/b + ln ΔC(b), ΔC = (2 − e^(−Δ/b) − e^(−(D−Δ)/b))/(1 − e^(−D/b)), the loss between a bound and Δ beside it, in floats."""
    rest = max(width - sensitivity, 0.0)  # infinite if a bound is: then the loss is Δ/b + ln(2 − e^(−Δ/b))
    ratio = (math.expm1(-sensitivity / scale) + math.expm1(-rest / scale)) / math.expm1(-width / scale)
    return sensitivity / scale + math.log(ratio)


def _spent_exactly(scale: float, moved: float, width: float) -> Interval:
    b = Fraction(scale)
    precision = 128 + 2 * max(0, math.frexp(scale)[1] - math.frexp(min(width, scale))[1])

    def left(distance: Fraction) -> Interval:
        return complement_exp(Interval.of(distance / b, precision)) if distance else Interval.of(0, precision)

    near, one = Fraction(moved), Interval.of(1, precision)
    far, whole = (one, one) if width == math.inf else (left(Fraction(width) - near), left(Fraction(width)))
    return Interval.of(near / b, precision) + log((left(near) + far) / whole)


def _least(spent: Callable[[float], float], bound: float, low: float, step: float = 1.0) -> float:
    """A scale ≥ low that spends at most the bound, nearly the least: `spent` falls, and is searched by the rule of false position."""
    above = spent(low) - bound
    if above <= 0:
        return low
    high = low + step * low
    while (below := spent(high) - bound) > 0:
        low, above, step = high, below, 2 * step
        high = low + step * low
    for _ in range(_ROUNDS):
        middle = min(max((low * below - high * above) / (below - above), low), high)
        found = spent(middle) - bound
        if found > 0:
            low, above, below = middle, found, below / 2  # halved, so that neither end stays for long
        else:
            high, below, above = middle, found, above / 2
        if high - low <= high * 2.0**-40 or not found:
            break
    return high


def _grid(scale: float, width: float, size: float) -> float:
    """A power of two: a billionth of the width or less, where the scale and the digits of float64 at the bounds allow that."""
    fine = default_grid(_checked(scale))
    fine = min(fine, _power_below(width * 2.0**-30)) if width < math.inf else fine
    return max(fine, _power_below(scale * 2.0**-38), _power_below(size * 2.0**-51), 2.0**-1000)


def _power_below(x: float) -> float:
    """The largest power of two that is at most x ≥ 0; 0 for 0."""
    return math.ldexp(1.0, math.frexp(x)[1] - 1) if x else 0.0


class Cut(NamedTuple):
    """Noise of a Laplace mechanism with bounded noise: multiples of the grid, at most `bound`, added to values on the same grid."""

    scale: float
    grid: float
    bound: float


@lru_cache(maxsize=_KEPT)
def bounded_noise(epsilon: float, delta: float, sensitivity: float) -> Cut | None:
    """b = mg/ε and a bound (K + ½)g ≥ b ln(1 + (e^(mg/b) − 1)/2δ), m = ⌈Δ/g⌉ steps of the grid g; None is no noise."""
    if sensitivity / epsilon == 0:
        return None
    start = _checked(quotient_up(sensitivity, epsilon))
    grid = max(min(default_grid(start), _power_below(sensitivity * 2.0**-20)), _power_below(start * 2.0**-38), 2.0**-1000)
    step = Fraction(grid)
    steps = math.ceil(Fraction(sensitivity) / step)
    scale = _checked(Interval.of(steps * step / Fraction(epsilon), _PRECISION).upper())
    moved = exp(Interval.of(steps * step / Fraction(scale), _PRECISION))
    bound = log(1 + (moved - 1) / Interval.of(2 * Fraction(delta), _PRECISION)) * Interval.of(Fraction(scale) / step, _PRECISION)
    return Cut(scale, grid, ceiling((bound - Fraction(1, 2)).high) * grid)
