"""Elementary functions in integers: with a precision w, an integer X stands for X/2^w, and a unit is 2^-w.

Everything is computed from the arguments alone. π, ln 2 and a table of logarithms are kept from their first use on; two threads that need
one at once find the same. Beyond their precision π and ln 2 are computed anew for each call. docs/exactness.md proves the bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from math import factorial, isqrt

ERROR = 4
"""No result of this module is further than this many units from the truth."""

CONSTANT_BITS = 2048
_TABLE_BITS = 768
_TABLE_STEP = 7
_GUARD = 32


def _reciprocal_series(n: int, precision: int, *, alternating: bool) -> int:
    """Σ ±1/((2i + 1)·n^(2i+1)): atan(1/n) or atanh(1/n), off by less than 3 units a term."""
    term, square = (1 << precision) // n, n * n
    total, i = 0, 0
    while term:
        total += -(term // (2 * i + 1)) if alternating and i % 2 else term // (2 * i + 1)
        term //= square
        i += 1
    return total


def _combined(parts: Iterable[tuple[int, int]], precision: int, *, alternating: bool) -> int:
    # Σ|factor|·3·terms units of 2^-(precision + guard): below 2^6 · 2^20 < 2^guard for every precision below 2^20
    working = precision + _GUARD
    return sum(factor * _reciprocal_series(n, working, alternating=alternating) for factor, n in parts) >> _GUARD


def _make_pi(precision: int) -> int:
    return _combined([(16, 5), (-4, 239)], precision, alternating=True)  # Machin


def _make_ln2(precision: int) -> int:
    return _combined([(36, 26), (-4, 4801), (16, 8749)], precision, alternating=False) // 2


@lru_cache(maxsize=1)
def _pi() -> int:
    return _make_pi(CONSTANT_BITS)


@lru_cache(maxsize=1)
def _ln2() -> int:
    return _make_ln2(CONSTANT_BITS)


def pi(precision: int) -> int:
    """π."""
    return _pi() >> (CONSTANT_BITS - precision) if precision <= CONSTANT_BITS else _make_pi(precision)


def ln2(precision: int) -> int:
    """The natural logarithm of 2."""
    return _ln2() >> (CONSTANT_BITS - precision) if precision <= CONSTANT_BITS else _make_ln2(precision)


@lru_cache(maxsize=1)
def _table() -> tuple[int, ...]:
    # ln(j/128) for 0 ≤ j ≤ 171, needed from 85 on: ln((j + 1)/j) = 2 atanh(1/(2j + 1))
    middle = 1 << _TABLE_STEP
    table = {middle: 0}
    for j in range(middle, 172):
        table[j + 1] = table[j] + 2 * _reciprocal_series(2 * j + 1, _TABLE_BITS + _GUARD, alternating=False)
    for j in range(middle - 1, 84, -1):
        table[j] = table[j + 1] - 2 * _reciprocal_series(2 * j + 1, _TABLE_BITS + _GUARD, alternating=False)
    return tuple(table.get(j, 0) >> _GUARD for j in range(172))


def log(x: int, precision: int) -> int:
    """The logarithm of a number in [2/3, 4/3]."""
    if precision + _GUARD <= _TABLE_BITS:
        working = precision + _GUARD
        x <<= _GUARD
        nearest = (x + (1 << (working - _TABLE_STEP - 1))) >> (working - _TABLE_STEP)
        return ((_table()[nearest] >> (_TABLE_BITS - working)) + _log_near_1((x << _TABLE_STEP) // nearest, working)) >> _GUARD
    roots = 3 + isqrt(precision) // 5
    working = precision + roots + _GUARD
    x <<= working - precision
    for _ in range(roots):
        x = isqrt(x << working)
    return _log_near_1(x, working) >> (working - precision - roots)


def _log_near_1(x: int, precision: int) -> int:
    # 2 atanh((x − 1)/(x + 1)); off by 3 units and 2 more a term
    one = 1 << precision
    term = ((x - one) << precision) // (x + one)
    square = term * term >> precision
    total, i = 0, 1
    while term and term != -1:  # the last of a falling series of floors
        total += term // i
        term = term * square >> precision
        i += 2
    return 2 * total


def exp(x: int, precision: int) -> int:
    """e^x for x in [−1/8, 3/4]."""
    halvings = 4 + isqrt(precision) // 4
    working = precision + halvings + _GUARD
    x <<= _GUARD  # x/2^halvings at the working precision
    square = x * x >> working
    term = 1 << working
    even = odd = 0
    i = 1
    while term:
        even += term
        odd += term // i
        term = (term * square >> working) // (i * (i + 1))
        i += 2
    result = even + (odd * x >> working)
    for _ in range(halvings):
        result = result * result >> working
    return result >> (working - precision)


def cos_sin(x: int, precision: int) -> tuple[int, int]:
    """The cosine and the sine of x in [−1, 1]."""
    doublings = isqrt(precision) // 4
    working = precision + 2 * doublings + _GUARD
    x <<= doublings + _GUARD  # x/2^doublings at the working precision
    square = x * x >> working
    term = 1 << working
    even = odd = 0
    i = 1
    while term and term != -1:
        odd += term // i
        term = -(term * square >> working) // (i * (i + 1))
        even += term
        i += 2
    versine, sine = -even, odd * x >> working  # 1 − cos: what is near 1 keeps its digits
    for _ in range(doublings):
        versine, sine = 2 * sine * sine >> working, 2 * sine * ((1 << working) - versine) >> working
    shift = working - precision
    return ((1 << working) - versine) >> shift, sine >> shift


def bernoulli(n: int) -> Fraction:
    """B_n for an even n ≥ 2."""
    half = n // 2
    return _even_bernoulli(max(32, 1 << (half - 1).bit_length()))[half - 1]


@lru_cache(maxsize=8)
def _even_bernoulli(count: int) -> tuple[Fraction, ...]:
    # B_2, B_4, …, B_(2·count) by tangent numbers (Brent & Harvey, 2013)
    tangent = [0, *(factorial(k - 1) for k in range(1, count + 1))]
    for k in range(2, count + 1):
        for j in range(k, count + 1):
            tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j]
    return tuple(Fraction((-1) ** (n - 1) * 2 * n * tangent[n], 4**n * (4**n - 1)) for n in range(1, count + 1))
