"""Interval arithmetic of a stated precision, for bounds that must hold and not merely be close.

Every operation returns an interval that contains all results of its operands. Precision travels with the numbers: nothing here reads
or writes mpmath's global contexts, so threads cannot disturb one another. This module imports mpmath; callers import it when they need it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from mpmath import libmp

if TYPE_CHECKING:
    from collections.abc import Callable

_FLOOR, _CEILING = "f", "c"

Number = int | float | Fraction
Endpoint = tuple[int, int, int, int]
"""A binary number (sign, mantissa, exponent, bits of the mantissa) in `mpmath.libmp`'s form."""


class Interval:
    """A closed real interval with binary floating-point ends of any exponent.

    Parameters
    ----------
    low, high : tuple
        Ends, low ≤ high, in `mpmath.libmp`'s form.
    precision : int
        Bits that results of operations keep.
    """

    __slots__ = ("high", "low", "precision")

    def __init__(self, low: Endpoint, high: Endpoint, precision: int) -> None:
        self.low, self.high, self.precision = low, high, precision

    @classmethod
    def of(cls, value: Number, precision: int) -> Interval:
        """Make the point `value`; only a Fraction whose denominator is no power of two becomes wider than a point."""
        if isinstance(value, Fraction):
            return cls.of(value.numerator, precision) / value.denominator
        point = libmp.from_float(value) if isinstance(value, float) else libmp.from_int(value)
        return cls(point, point, precision)

    def _lift(self, other: Interval | Number) -> Interval:
        return other if isinstance(other, Interval) else Interval.of(other, self.precision)

    def _apply(self, operation: Callable[..., tuple[Endpoint, Endpoint]], other: Interval) -> Interval:
        precision = max(self.precision, other.precision)
        low, high = operation((self.low, self.high), (other.low, other.high), precision)
        return Interval(low, high, precision)

    def __add__(self, other: Interval | Number) -> Interval:
        return self._apply(libmp.mpi_add, self._lift(other))

    def __sub__(self, other: Interval | Number) -> Interval:
        return self._apply(libmp.mpi_sub, self._lift(other))

    def __mul__(self, other: Interval | Number) -> Interval:
        return self._apply(libmp.mpi_mul, self._lift(other))

    def __truediv__(self, other: Interval | Number) -> Interval:
        return self._apply(libmp.mpi_div, self._lift(other))

    def __rsub__(self, other: Number) -> Interval:
        return self._lift(other) - self

    def __rtruediv__(self, other: Number) -> Interval:
        return self._lift(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Interval:
        return Interval(libmp.mpf_neg(self.high), libmp.mpf_neg(self.low), self.precision)

    def power(self, exponent: int) -> Interval:
        """Raise to a positive integer."""
        low, high = libmp.mpi_pow_int((self.low, self.high), exponent, self.precision)
        return Interval(low, high, self.precision)

    def middle(self) -> Interval:
        """Take a point near the middle, as the start of the next step of an iteration."""
        point = libmp.mpi_mid((self.low, self.high), self.precision)
        return Interval(point, point, self.precision)

    def hull(self, other: Interval | Number) -> Interval:
        """Return the smallest interval that contains both."""
        other = self._lift(other)
        low = self.low if libmp.mpf_le(self.low, other.low) else other.low
        high = self.high if libmp.mpf_ge(self.high, other.high) else other.high
        return Interval(low, high, self.precision)

    def at_most(self, other: Interval | Number) -> bool:
        """Whether every member of this interval is ≤ every member of the other."""
        return bool(libmp.mpf_le(self.high, self._lift(other).low))

    def relative_width_below(self, bits: int) -> bool:
        """Whether (high − low) ≤ 2^−bits · low, which also says that low > 0 or the interval is the point 0."""
        width = libmp.mpf_sub(self.high, self.low, 64, _CEILING)
        return bool(libmp.mpf_le(width, libmp.mpf_shift(self.low, -bits)))

    def lower(self) -> float:
        """Return the largest float64 ≤ low (−inf below the range)."""
        return -round_up(libmp.mpf_neg(self.low))

    def upper(self) -> float:
        """Return the smallest float64 ≥ high (inf above the range)."""
        return round_up(self.high)

    def ceiling(self) -> int:
        """Return the smallest integer ≥ high."""
        return int(libmp.to_int(self.high, _CEILING))

    def __repr__(self) -> str:
        return f"Interval[{libmp.to_str(self.low, 20)}, {libmp.to_str(self.high, 20)}]"


def round_up(point: Endpoint) -> float:
    """Return the smallest float64 ≥ `point`, subnormal ones and inf included."""
    sign, mantissa, exponent, bits = point
    if not mantissa:
        return float(libmp.to_float(point))  # 0, or an infinity
    if exponent + bits > 1100:
        return -float.fromhex("0x1.fffffffffffffp1023") if sign else math.inf
    if exponent + bits < -1100:
        return -0.0 if sign else 5e-324
    exact = Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent
    return fraction_up(exact)


def fraction_up(exact: Fraction) -> float:
    """Return the smallest float64 ≥ `exact`, inf if there is none."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -float.fromhex("0x1.fffffffffffffp1023")
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _padded(ends: tuple[Endpoint, Endpoint], precision: int) -> Interval:
    # libmp rounds elementary functions in the stated direction from a value good to some guard bits, not from the exact one: two units in
    # the last place outward make the enclosure independent of that.
    ulps = power_of_two(2 - precision, precision)
    return Interval(*ends, precision) * (1 + (-ulps).hull(ulps))


def power_of_two(exponent: int, precision: int) -> Interval:
    """Make the point 2^exponent, whatever the exponent."""
    point = (0, 1, exponent, 1)
    return Interval(point, point, precision)


def exp(x: Interval) -> Interval:
    """Enclose e^x."""
    return _padded(libmp.mpi_exp((x.low, x.high), x.precision), x.precision)


def log(x: Interval) -> Interval:
    """Enclose the natural logarithm of a positive interval."""
    return _padded(libmp.mpi_log((x.low, x.high), x.precision), x.precision)


def sqrt(x: Interval) -> Interval:
    """Enclose the square root of a non-negative interval."""
    return _padded(libmp.mpi_sqrt((x.low, x.high), x.precision), x.precision)


def pi(precision: int) -> Interval:
    """Enclose π."""
    return _padded((libmp.mpf_pi(precision, _FLOOR), libmp.mpf_pi(precision, _CEILING)), precision)


def log_complement(x: Interval) -> Interval:
    """Enclose −ln(1 − x) for x in (0, 1), to good relative precision however small x is."""
    if x.at_most(2.0**-100):
        return x.hull(x + x * x)  # x ≤ −ln(1−x) ≤ x + x² for x ≤ 1/2
    return -log(1 - x)


def complement_exp(y: Interval) -> Interval:
    """Enclose 1 − e^−y for y > 0, to good relative precision however small y is."""
    if y.at_most(2.0**-100):
        return (y - y * y).hull(y)
    return 1 - exp(-y)


def refined(evaluate: Callable[[int], Interval], bits: int = 64, start: int = 192) -> Interval:
    """Evaluate with growing precision until the relative width is ≤ 2^−bits; the last, widest try is an enclosure as well."""
    precision = start
    while True:
        value = evaluate(precision)
        if precision >= 1 << 14 or value.relative_width_below(bits):
            return value
        precision *= 2


def normal_density(x: Interval) -> Interval:
    """Enclose φ(x) = e^(−x²/2)/√(2π)."""
    return exp(x * x / -2) / sqrt(2 * pi(x.precision))


def mills_ratio(x: Interval) -> Interval:
    """Enclose R(x) = Φ(−x)/φ(x), which neither under- nor overflows as the tail does.

    Source: Laplace's continued fraction for large x (DLMF 7.9.1), the power series of Φ near 0 (DLMF 7.6.2), 1/φ(x) − R(−x) below.
    The border between them grows with the precision, where the fraction would need more terms than the series.
    """
    border = max(4.0, math.sqrt(x.precision) / 2)
    if Interval.of(border, x.precision).at_most(x):
        return _mills_fraction(x)
    if x.at_most(-border):
        return 1 / normal_density(x) - _mills_fraction(-x)
    if x.at_most(2 * border) and Interval.of(-2 * border, x.precision).at_most(x):
        return 1 / (2 * normal_density(x)) - _mills_series(x)
    # Too wide for the series, whose length grows with x²: R falls, so its values at the two ends enclose the rest.
    low, high = (Interval(end, end, x.precision) for end in (x.low, x.high))
    return mills_ratio(high).hull(mills_ratio(low))


def _mills_fraction(x: Interval) -> Interval:
    # R(x) = 1/(x + 1/(x + 2/(x + 3/…))). The part below the cut lies in [0, N/x]; intervals carry that honestly to the top.
    # N terms leave a relative error near exp(−2x√(2N)), and near N!/x^2N while N < x²; the number of terms allows for both.
    start = min(max(x.lower(), 4.0), 1e150)
    terms = math.ceil((x.precision * math.log(2) / start) ** 2 / 5) + x.precision // 8
    tail = Interval.of(0, x.precision).hull(terms / x)
    for n in range(terms - 1, 0, -1):
        tail = n / (x + tail)
    return 1 / (x + tail)


def _mills_series(x: Interval) -> Interval:
    # (Φ(x) − 1/2)/φ(x) = Σ x^(2n+1)/(1·3·…·(2n+1)): all terms have the sign of x, and from n ≥ x² on each is below half of the last.
    square = x * x
    fewest = square.ceiling()
    term = total = x
    negligible = power_of_two(-2 * x.precision, x.precision)
    n = 0
    while n < fewest or not (term * term).at_most(negligible):
        n += 1
        term = term * square / (2 * n + 1)
        total = total + term
    return total + term.hull(-term)


def normal_upper_quantile(log_tail: Interval) -> Interval:
    """Find a point x ≥ 0 with ln Φ(−x) close to `log_tail` ≤ ln(1/2): not an enclosure, the caller certifies what it makes of it."""
    x = sqrt(-2 * log_tail).middle()  # here Φ(−x) ≤ e^(−x²/2)/2: right of the root
    for _ in range(200):
        ratio = mills_ratio(x)
        step = ((log(ratio * normal_density(x)) - log_tail) * ratio).middle()  # ln Φ(−x) is concave: Newton comes from the right
        x = (x + step).middle()
        if (step * step).at_most(x * x * 2.0**-160) or x.at_most(0):
            break
    return x if Interval.of(0, x.precision).at_most(x) else Interval.of(0, x.precision)


EULER_MACLAURIN_TERMS = 30
EULER_MACLAURIN_SMOOTHNESS = 32


def discrete_tail_ratio(m: int, scale: float, precision: int) -> Interval:
    """Enclose D(m) = Σ_{j≥0} e^(−(j² + 2jm)/(2σ²)), so that Σ_{z≥m} e^(−z²/2σ²) = e^(−m²/2σ²)·D(m), for an integer m ≥ 0.

    Summed term by term where the terms change fast, by Euler-Maclaurin where they change slowly: time is bounded for every scale.
    """
    if scale >= EULER_MACLAURIN_SMOOTHNESS and Fraction(scale) ** 2 >= EULER_MACLAURIN_SMOOTHNESS * m:
        return _tail_by_euler_maclaurin(m, scale, precision)
    return _tail_by_terms(m, scale, precision)


def _tail_by_terms(m: int, scale: float, precision: int) -> Interval:
    variance = Fraction(scale) ** 2
    ratio = exp(Interval.of(-Fraction(2 * m + 1) / (2 * variance), precision))
    step = exp(Interval.of(-1 / variance, precision))
    negligible = power_of_two(-precision, precision)
    term = total = Interval.of(1, precision)
    while True:
        term = term * ratio
        ratio = ratio * step
        total = total + term
        if term.at_most(negligible):
            rest = term * ratio / (1 - ratio)  # the ratios fall, so a geometric series lies above what is left out
            return total + Interval.of(0, precision).hull(rest)


def _tail_by_euler_maclaurin(m: int, scale: float, precision: int) -> Interval:
    # With μ = m/σ and h(t) = e^(−(t² + 2tm)/2σ²):  D = σR(μ) + 1/2 + Σ_{i≤k} B_2i/(2i)!·σ^(1−2i)·He_{2i−1}(μ) + rest.
    # On a circle of radius r = σ/max(1, μ) Cauchy's estimate gives ∫|h^(2k)| ≤ (2k)!·r^(−2k)·e²·√(2π)·σ, and
    # |B_2k|/(2k)! ≤ 2.01·(2π)^(−2k) for k ≥ 5, so that |rest| ≤ 38·σ·(2k)!/(2πr)^(2k).
    sigma = Interval.of(scale, precision)
    mean = Interval.of(Fraction(m) / Fraction(scale), precision)
    total = sigma * mills_ratio(mean) + Fraction(1, 2)
    below, hermite = Interval.of(1, precision), mean
    weight = 1 / sigma
    for i in range(1, EULER_MACLAURIN_TERMS + 1):
        numerator, denominator = libmp.bernfrac(2 * i)
        total = total + hermite * weight * Fraction(int(numerator), int(denominator) * math.factorial(2 * i))
        for n in (2 * i - 1, 2 * i):
            below, hermite = hermite, mean * hermite - n * below
        weight = weight / (sigma * sigma)
    order = 2 * EULER_MACLAURIN_TERMS
    radius = min(Fraction(scale), Fraction(scale) ** 2 / m) if m else Fraction(scale)
    rest = 38 * sigma * math.factorial(order) / (2 * pi(precision) * Interval.of(radius, precision)).power(order)
    return total + rest.hull(-rest)
