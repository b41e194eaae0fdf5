"""Interval arithmetic of a given precision, for bounds that must be proved.

Every operation returns an interval that contains all results of its operands. Precision travels with the numbers, ends are pairs of Python
integers, and nothing is stored between calls: threads share no state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpcore._exact import elementary

Number = int | float | Fraction
Endpoint = tuple[int, int | float]
"""(m, e): the number m·2^e; the exponent of an infinite end is inf."""

ZERO: Endpoint = (0, 0)
INFINITY: Endpoint = (1, math.inf)
_GUARD = 16
LARGEST_FLOAT = float.fromhex("0x1.fffffffffffffp1023")


def _down(m: int, e: float, precision: int) -> Endpoint:
    """Round m·2^e downward to `precision` bits."""
    excess = m.bit_length() - precision
    if excess <= 0:
        return (m, e) if m else ZERO
    return m >> excess, e + excess


def _up(m: int, e: float, precision: int) -> Endpoint:
    """Round m·2^e upward to `precision` bits."""
    excess = m.bit_length() - precision
    if excess <= 0:
        return (m, e) if m else ZERO
    return -(-m >> excess), e + excess


def _aligned(a: Endpoint, b: Endpoint, precision: int) -> tuple[int, int | float, int]:
    """The sum as (m, e, s): exactly m·2^e if s = 0; else a number between m·2^e and (m + s)·2^e, where m has more than `precision` bits."""
    (m, e), (n, f) = a, b
    if not n:
        return m, e, 0
    if not m:
        return n, f, 0
    if e < f:
        m, e, n, f = n, f, m, e
    shift = e - f
    if shift <= 4 * precision + n.bit_length():  # false for infinite and for undefined differences
        return (m << int(shift)) + n, f, 0
    if e == math.inf:
        return m, e, 0
    return m << 2 * precision, e - 2 * precision, 1 if n > 0 else -1


def _add_down(a: Endpoint, b: Endpoint, precision: int) -> Endpoint:
    m, e, rest = _aligned(a, b, precision)
    return _down(m + min(rest, 0), e, precision)


def _add_up(a: Endpoint, b: Endpoint, precision: int) -> Endpoint:
    m, e, rest = _aligned(a, b, precision)
    return _up(m + max(rest, 0), e, precision)


def _divide(a: Endpoint, b: Endpoint, precision: int, sign: int) -> Endpoint:
    """The quotient, b not 0, rounded downward for sign = 1, upward for −1."""
    (m, e), (n, f) = a, b
    if not m or f == math.inf:
        return ZERO
    if e == math.inf:
        return (1 if (m > 0) == (n > 0) else -1), e
    shift = max(0, precision + 2 + n.bit_length() - m.bit_length())
    quotient = (sign * m << shift) // n
    return _down(quotient, e - f - shift, precision) if sign > 0 else _up(-quotient, e - f - shift, precision)


def _order(a: Endpoint, b: Endpoint) -> int:
    """The sign of a − b."""
    (m, e), (n, f) = a, b
    if m <= 0 <= n or n <= 0 <= m:
        return (m > n) - (m < n)
    if e == f == math.inf:
        return 0
    size, other = m.bit_length() + e, n.bit_length() + f
    if size != other:
        return 1 if (size > other) == (m > 0) else -1
    least = min(e, f)
    m, n = m << int(e - least), n << int(f - least)
    return (m > n) - (m < n)


def _negated(a: Endpoint) -> Endpoint:
    return -a[0], a[1]


def floor(point: Endpoint, bits: int = 0) -> int:
    """⌊point·2^bits⌋ of a finite number."""
    m, e = point
    shift = int(e) + bits
    return m << shift if shift >= 0 else m >> -shift


def ceiling(point: Endpoint, bits: int = 0) -> int:
    """⌈point·2^bits⌉ of a finite number."""
    return -floor(_negated(point), bits)


def exactly(point: Endpoint) -> Fraction:
    """A finite number as a fraction."""
    m, e = point
    return Fraction(m << int(e)) if e >= 0 else Fraction(m, 1 << -int(e))


class Interval:
    """A closed real interval with binary floating-point ends of any exponent.

    Parameters
    ----------
    low, high : tuple
        Ends (m, e), m·2^e, low ≤ high.
    precision : int
        Bits that results of operations keep.
    """

    __slots__ = ("high", "low", "precision")

    def __init__(self, low: Endpoint, high: Endpoint, precision: int) -> None:
        self.low, self.high, self.precision = low, high, precision

    @classmethod
    def of(cls, value: Number, precision: int) -> Interval:
        """Make the point `value`; only a Fraction whose denominator is no power of two becomes wider than a point."""
        if isinstance(value, int):
            point: Endpoint = value, 0
        elif isinstance(value, Fraction):
            return cls.of(value.numerator, precision) / value.denominator
        elif math.isinf(value):
            point = (1 if value > 0 else -1), math.inf
        else:
            numerator, denominator = value.as_integer_ratio()
            point = numerator, 1 - denominator.bit_length()
        return cls(point, point, precision)

    def _lift(self, other: Interval | Number) -> Interval:
        return other if isinstance(other, Interval) else Interval.of(other, self.precision)

    def __add__(self, other: Interval | Number) -> Interval:
        other = self._lift(other)
        precision = max(self.precision, other.precision)
        return Interval(_add_down(self.low, other.low, precision), _add_up(self.high, other.high, precision), precision)

    def __sub__(self, other: Interval | Number) -> Interval:
        return self + -self._lift(other)

    def __mul__(self, other: Interval | Number) -> Interval:
        other = self._lift(other)
        precision = max(self.precision, other.precision)
        (a, b), (c, d) = (self.low, self.high), (other.low, other.high)
        if a[0] >= 0:
            (m, e), (p, g) = a if c[0] >= 0 else b, b if d[0] >= 0 else a
            (n, f), (q, h) = c, d
        elif b[0] <= 0:
            (m, e), (p, g) = a if d[0] > 0 else b, b if c[0] >= 0 else a
            (n, f), (q, h) = d, c
        elif c[0] >= 0 or d[0] <= 0:
            return other * self
        else:
            return _product_of_mixed(self, other, precision)
        return Interval(_down(m * n, e + f, precision), _up(p * q, g + h, precision), precision)

    def __truediv__(self, other: Interval | Number) -> Interval:
        other = self._lift(other)
        precision = max(self.precision, other.precision)
        (a, b), (c, d) = (self.low, self.high), (other.low, other.high)
        if d[0] < 0:
            return -self / -other
        if c[0] <= 0:
            return _quotient_near_zero(self, other, precision)
        low = _divide(a, d if a[0] >= 0 else c, precision, 1)
        return Interval(low, _divide(b, c if b[0] >= 0 else d, precision, -1), precision)

    def __rsub__(self, other: Number) -> Interval:
        return self._lift(other) - self

    def __rtruediv__(self, other: Number) -> Interval:
        return self._lift(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Interval:
        return Interval(_negated(self.high), _negated(self.low), self.precision)

    def power(self, exponent: int) -> Interval:
        """Raise to a positive integer."""
        result = self
        for bit in bin(exponent)[3:]:
            result = result * result
            if bit == "1":
                result = result * self
        return result

    def middle(self) -> Interval:
        """Take a point near the middle, as the start of the next step of an iteration."""
        m, e = _add_down(self.low, self.high, self.precision)
        point = m, e - 1
        return Interval(point, point, self.precision)

    def hull(self, other: Interval | Number) -> Interval:
        """Return the smallest interval that contains both."""
        other = self._lift(other)
        low = self.low if _order(self.low, other.low) <= 0 else other.low
        high = self.high if _order(self.high, other.high) >= 0 else other.high
        return Interval(low, high, self.precision)

    def at_most(self, other: Interval | Number) -> bool:
        """Whether every member of this interval is ≤ every member of the other."""
        return _order(self.high, self._lift(other).low) <= 0

    def relative_width_below(self, bits: int) -> bool:
        """Whether (high − low) ≤ 2^−bits · low, which implies that low > 0 or that the interval is the point 0."""
        width = _add_up(self.high, _negated(self.low), 64)
        return _order(width, (self.low[0], self.low[1] - bits)) <= 0

    def lower(self) -> float:
        """Return the largest float64 ≤ low (−inf below the range)."""
        return -round_up(_negated(self.low))

    def upper(self) -> float:
        """Return the smallest float64 ≥ high (inf above the range)."""
        return round_up(self.high)

    def ceiling(self) -> int:
        """Return the smallest integer ≥ high."""
        return ceiling(self.high)

    def __repr__(self) -> str:
        return f"Interval[{self.lower()!r}, {self.upper()!r}]"


def _product_of_mixed(x: Interval, y: Interval, precision: int) -> Interval:
    """The product of two intervals that both hold numbers of both signs."""
    lows = [_down(m * n, e + f, precision) for (m, e), (n, f) in ((x.low, y.high), (x.high, y.low))]
    highs = [_up(m * n, e + f, precision) for (m, e), (n, f) in ((x.low, y.low), (x.high, y.high))]
    return Interval(lows[0] if _order(*lows) <= 0 else lows[1], highs[0] if _order(*highs) >= 0 else highs[1], precision)


def _quotient_near_zero(x: Interval, y: Interval, precision: int) -> Interval:
    """The quotient by an interval that holds 0: unbounded, on one side if 0 is an end of the divisor and the dividend has one sign."""
    low, high = _negated(INFINITY), INFINITY
    if y.low[0] == 0 < y.high[0] and x.low[0] >= 0:
        low = _divide(x.low, y.high, precision, 1)
    elif y.low[0] == 0 < y.high[0] and x.high[0] <= 0:
        high = _divide(x.high, y.high, precision, -1)
    elif y.high[0] == 0 > y.low[0] and x.low[0] >= 0:
        high = _divide(x.low, y.low, precision, -1)
    elif y.high[0] == 0 > y.low[0] and x.high[0] <= 0:
        low = _divide(x.high, y.low, precision, 1)
    return Interval(low, high, precision)


def round_up(point: Endpoint) -> float:
    """Return the smallest float64 ≥ `point`, subnormal ones and inf included."""
    m, e = point
    size = m.bit_length() + e
    if not m:
        return 0.0
    if e == math.inf:
        return math.inf if m > 0 else -math.inf
    if size > 1100:
        return -LARGEST_FLOAT if m < 0 else math.inf
    if size < -1100:
        return -0.0 if m < 0 else 5e-324
    return fraction_up(exactly(point))


def fraction_up(exact: Fraction) -> float:
    """Return the smallest float64 ≥ `exact`, inf if there is none."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -LARGEST_FLOAT
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def power_of_two(exponent: int, precision: int) -> Interval:
    """Make the point 2^exponent, for any exponent."""
    point = (1, exponent)
    return Interval(point, point, precision)


def _around(value: int, error: int, exponent: int, precision: int) -> Interval:
    """(value ± error)·2^exponent."""
    return Interval(_down(value - error, exponent, precision), _up(value + error, exponent, precision), precision)


def _is_narrow(x: Interval, bits: int) -> bool:
    """Whether high − low is at most 2^-bits times the size of low."""
    m, e = x.low
    width, unit, rest = _aligned(x.high, _negated(x.low), 64)
    return not width or (not rest and width.bit_length() + unit < m.bit_length() + e - bits)


def exp(x: Interval) -> Interval:
    """Enclose e^x."""
    low = _exp_of_point(x.low, x.precision)
    if x.low == x.high:
        return low
    width = Interval(x.high, x.high, x.precision) - Interval(x.low, x.low, x.precision)
    if width.at_most(2.0**-16):
        return Interval(low.low, (low * (1 + width * (1 + width))).high, x.precision)  # e^w ≤ 1 + w + w²
    return Interval(low.low, _exp_of_point(x.high, x.precision).high, x.precision)


def _exp_of_point(x: Endpoint, precision: int) -> Interval:
    m, e = x
    size = m.bit_length() + e  # |x| < 2^size
    if e == math.inf:
        return Interval(INFINITY, INFINITY, precision) if m > 0 else Interval(ZERO, ZERO, precision)
    if not m or size < -precision:
        point = Interval(x, x, precision)
        return Interval((1 + point).low, (1 + point + point * point).high, precision)  # 1 + x ≤ e^x ≤ 1 + x + x² for x ≤ 1
    more = max(int(size), 0) + 4
    working = precision + _GUARD
    fixed, unit = floor(x, working + more), elementary.ln2(working + more)
    whole = fixed // unit
    # fixed is off by 1 and unit by 4, whole of them: below 2^more/2 in all, so that the rest is off by 2 and e^rest by 4 + 4
    return _around(elementary.exp((fixed - whole * unit) >> more, working), 9, whole - working, precision)


def log(x: Interval) -> Interval:
    """Enclose the natural logarithm of a positive interval."""
    if x.low[0] < 0:
        raise ValueError("the logarithm of a negative number")
    low = _log_of_point(x.low, x.precision)
    if x.low == x.high:
        return low
    if x.low[0] and x.high[1] != math.inf and _is_narrow(x, 16):
        start = Interval(x.low, x.low, x.precision)
        rise = (Interval(x.high, x.high, x.precision) - start) / start  # ln(x + w) ≤ ln x + w/x
        return Interval(low.low, (low + rise).high, x.precision)
    return Interval(low.low, _log_of_point(x.high, x.precision).high, x.precision)


def _log_of_point(x: Endpoint, precision: int) -> Interval:
    m, e = x
    if not m or e == math.inf:
        end = INFINITY if m else _negated(INFINITY)
        return Interval(end, end, precision)
    length = m.bit_length()
    fraction_exponent = -length if 3 * m >= 1 << (length + 1) else 1 - length  # x = f·2^whole with f in [2/3, 4/3)
    whole = int(e) - fraction_exponent
    working = precision + _GUARD
    if whole == 0:
        distance, unit = m - (1 << -fraction_exponent), fraction_exponent  # f − 1, exactly
        lost = -(distance.bit_length() + unit)
        if not distance:
            return Interval(ZERO, ZERO, precision)
        if lost > precision:
            d = Interval((distance, unit), (distance, unit), precision)
            return d - d * d * Interval.of(0, precision).hull(1)  # d − d² ≤ ln(1 + d) ≤ d for d ≥ −1/2
        working += lost
    shift = working + fraction_exponent
    fraction = m << shift if shift >= 0 else m >> -shift
    bits = whole.bit_length()
    far = whole * elementary.ln2(working + bits) >> bits
    # fraction is off by 1, which moves the logarithm by 1.5; 4 more from the logarithm, 4 + 1 from the multiple of ln 2
    return _around(far + elementary.log(fraction, working), 11, -working, precision)


def sqrt(x: Interval) -> Interval:
    """Enclose the square root of what is not negative of an interval."""
    return Interval(_root(x.low, x.precision, 1), _root(x.high, x.precision, -1), x.precision)


def _root(x: Endpoint, precision: int, sign: int) -> Endpoint:
    m, e = x
    if m <= 0:
        return ZERO
    if e == math.inf:
        return x
    shift = max(0, 2 * precision + 4 - m.bit_length())
    shift += (int(e) - shift) % 2
    m <<= shift
    if sign > 0:
        return _down(math.isqrt(m), (int(e) - shift) // 2, precision)
    return _up(math.isqrt(m - 1) + 1, (int(e) - shift) // 2, precision)


def pi(precision: int) -> Interval:
    """Enclose π."""
    return _around(elementary.pi(precision + _GUARD), elementary.ERROR, -precision - _GUARD, precision)


def cos_sin_of_turns(turns: Interval) -> tuple[Interval, Interval]:
    """Enclose cos 2πv and sin 2πv, to an absolute precision."""
    precision = turns.precision
    working = precision + _GUARD
    eighths = floor(turns.low, working + 3)
    width = ceiling(turns.high, working + 3) - eighths
    quarter = ((eighths >> working) + 1) // 2
    rest = eighths - (quarter << (working + 1))  # in [−1, 1] eighths
    cosine, sine = elementary.cos_sin(rest * elementary.pi(working) >> (working + 2), working)
    for _ in range(quarter % 4):
        cosine, sine = -sine, cosine
    # the angle is off by 3 + 1 from π and its product, and lies within `width` eighths of π/4 < 1
    return _around(cosine, 8 + width, -working, precision), _around(sine, 8 + width, -working, precision)


def log_up(number: Fraction | float) -> float:
    """The logarithm of a positive number, rounded up: the same float on every machine, as that of a library is not."""
    return log(Interval.of(number, 192)).upper()


def log_complement(x: Interval) -> Interval:
    """Enclose −ln(1 − x) for x in (0, 1), to good relative precision even for small x."""
    if x.at_most(2.0**-100):
        return x.hull(x + x * x)  # x ≤ −ln(1−x) ≤ x + x² for x ≤ 1/2
    return -log(1 - x)


def complement_exp(y: Interval) -> Interval:
    """Enclose 1 − e^−y for y > 0, to good relative precision even for small y."""
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
