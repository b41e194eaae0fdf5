"""Probabilities that are real numbers, to any number of bits.

Every probability of a local randomiser has the form (a + b·E)/(c + d·E) with rational a, b, c, d and E = e^x for a rational x ≠ 0. E is
transcendental (Lindemann), so a ratio that depends on E is not a dyadic number. A uniform number equals it with probability zero, and
enough of its bits decide a comparison.
"""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from dpcore._exact.intervals import Interval

GUARD_BITS = 64


@dataclass(frozen=True, slots=True)
class Probability:
    """(a + b·e^x)/(c + d·e^x), a number in [0, 1].

    Attributes
    ----------
    a, b, c, d : Fraction
        Coefficients; c + d·e^x > 0.
    exponent : Fraction
        x.
    """

    a: Fraction
    b: Fraction
    c: Fraction
    d: Fraction
    exponent: Fraction
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # kept, because fractions take microseconds to hash and every call looks something up by its probabilities
        object.__setattr__(self, "_hash", hash((self.a, self.b, self.c, self.d, self.exponent)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def constant(self) -> Fraction | None:
        """The value if it does not depend on e^x."""
        if self.a * self.d != self.b * self.c:
            return None
        return self.b / self.d if self.d else self.a / self.c

    def enclosure(self, precision: int) -> Interval:
        """An interval that holds the number, of about `precision` relative bits."""
        from dpcore._exact.intervals import Interval, exp  # loads when needed

        e = exp(Interval.of(self.exponent, precision))
        a, b, c, d = (Interval.of(x, precision) for x in (self.a, self.b, self.c, self.d))
        return (a + b * e) / (c + d * e)

    def floor(self, bits: int) -> int:
        """⌊p·2^bits⌋."""
        return _floor(self, bits)

    def times(self, factor: int) -> Probability:
        """The number multiplied by a positive integer; the product must be a probability again."""
        return Probability(self.a * factor, self.b * factor, self.c, self.d, self.exponent)

    def __float__(self) -> float:
        return _nearest(self)


@lru_cache(maxsize=4096)
def _floor(p: Probability, bits: int) -> int:
    constant = p.constant
    if constant is not None:
        return (constant.numerator << bits) // constant.denominator
    from dpcore._exact.intervals import floor

    precision = bits + GUARD_BITS
    while True:
        enclosure = p.enclosure(precision)
        low, high = floor(enclosure.low, bits), floor(enclosure.high, bits)
        if low == high:
            return low
        precision += bits + GUARD_BITS


@lru_cache(maxsize=4096)
def _nearest(p: Probability) -> float:
    constant = p.constant
    if constant is not None:
        return float(constant)
    from dpcore._exact.intervals import exactly

    precision = 2 * GUARD_BITS
    while True:
        enclosure = p.enclosure(precision)
        low, high = float(exactly(enclosure.low)), float(exactly(enclosure.high))
        if low == high:
            return low
        precision *= 2


def _exact(value: float) -> Fraction:
    return Fraction(value)


_ZERO, _ONE = Fraction(0), Fraction(1)
HALF = Probability(Fraction(1, 2), _ZERO, _ONE, _ZERO, _ONE)
"""The probability ½."""


@lru_cache(maxsize=1024)
def logistic_complement(epsilon: float, *, halved: bool = False) -> Probability:
    """1/(1 + e^ε), or 1/(1 + e^(ε/2)): the probability that a binary response is false."""
    return Probability(_ONE, _ZERO, _ONE, _ONE, _exact(epsilon) / (2 if halved else 1))


@lru_cache(maxsize=1024)
def one_of(epsilon: float, k: int) -> Probability:
    """1/(e^ε + k − 1): the probability of each wrong answer of a k-ary response."""
    return Probability(_ONE, _ZERO, Fraction(k - 1), _ONE, _exact(epsilon))


@lru_cache(maxsize=1024)
def inclusion(epsilon: float, k: int, w: int) -> Probability:
    """w·e^ε/(w·e^ε + k − w): the probability that a subset of w out of k contains the truth."""
    return Probability(_ZERO, Fraction(w), Fraction(k - w), Fraction(w), _exact(epsilon))


@lru_cache(maxsize=1024)
def complement(p: Probability) -> Probability:
    """1 − p."""
    return Probability(p.c - p.a, p.d - p.b, p.c, p.d, p.exponent)


def tilted(epsilon: float, t: Fraction) -> Probability:
    """½(1 + t·(e^ε − 1)/(e^ε + 1)) for t in [−1, 1]: P(+z0) in a binary channel. Source: Steinberger (2019), Definition 3.12."""
    return Probability(1 - t, 1 + t, Fraction(2), Fraction(2), _exact(epsilon))
