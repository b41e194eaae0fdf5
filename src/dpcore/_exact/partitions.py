"""Probabilities of the optimal selection of partitions, as real numbers to any precision.

π(n) is the largest probability with which a partition of n units may be released under (ε, δ)-privacy: π(0) = 0 and

    π(n) = min(e^ε·π(n − 1) + δ, 1 − e^−ε·(1 − π(n − 1) − δ), 1).

docs/exactness-partitions.md solves the recursion. Source: Desfontaines et al. (2022), Theorem 1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dpcore._exact.intervals import Interval, ceiling, exp, floor, log
from dpcore._exact.pending import MOST_UNITS
from dpcore._exact.sampling import Uniform, is_below

LARGEST_EPSILON = 1024
"""A larger ε counts as this one, which protects more: what is left out is below e^-1024."""
WORD = 64
_GUARD_BITS = 96
_START = 160


def _growth(x: Fraction, precision: int) -> Interval:
    """e^x − 1 for x > 0, of about `precision` relative bits."""
    lost = max(0, x.denominator.bit_length() - x.numerator.bit_length() + 1)
    return exp(Interval.of(x, precision + lost)) - 1


class ReleaseProbabilities:
    """π(n) for one partition, to which a unit adds at most 1.

    Parameters
    ----------
    epsilon, delta : Fraction
        Of this partition; ε > 0 and 0 < δ < 1.

    Attributes
    ----------
    rising : int
        Counts up to this one follow the first part of the minimum, π(n) = δ·(e^(nε) − 1)/(e^ε − 1).
    certain : int
        The least count that is always released.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        self.epsilon, self.delta = min(epsilon, Fraction(LARGEST_EPSILON)), delta
        if delta * 2 >= 1:
            self.rising, self.certain = 1, 2  # π(1) = δ, and e^ε·(1 − π(2)) = 1 − 2δ ≤ 0: the only ties that the searches could meet
            return
        self.rising = 1 + self._whole(lambda p: Interval.of((1 - delta) / delta, p) * self._half_tangent(p))
        self.certain = self.rising + 1 + self._whole(lambda p: self._left(p) * _growth(self.epsilon, p) / Interval.of(delta, p))

    def _whole(self, ratio: Callable[[int], Interval]) -> int:
        """⌊ln(1 + ratio)/ε⌋, for a number that is no integer."""
        precision = _START
        while True:
            value = log(1 + ratio(precision)) / Interval.of(self.epsilon, precision)
            low, high = floor(value.low), floor(value.high)
            if low == high:
                return low
            precision *= 2

    def _half_tangent(self, precision: int) -> Interval:
        """(e^ε − 1)/(e^ε + 1) = tanh(ε/2)."""
        growth = _growth(self.epsilon, precision)
        return growth / (growth + 2)

    def _rising(self, n: int, precision: int) -> Interval:
        """δ·(e^(nε) − 1)/(e^ε − 1)."""
        return Interval.of(self.delta, precision) * _growth(n * self.epsilon, precision) / _growth(self.epsilon, precision)

    def _left(self, precision: int) -> Interval:
        """1 − π(rising)."""
        return 1 - (Interval.of(self.delta, precision) if self.rising == 1 else self._rising(self.rising, precision))

    def enclosure(self, n: int, precision: int) -> Interval:
        """An interval that holds π(n)."""
        if n <= 0:
            return Interval.of(0, precision)
        if n >= self.certain:
            return Interval.of(1, precision)
        if n == 1:
            return Interval.of(self.delta, precision)
        if n <= self.rising:
            return self._rising(n, precision)
        further = n - self.rising
        return 1 - (self._left(precision) - self._rising(further, precision)) / (1 + _growth(further * self.epsilon, precision))

    def is_below(self, uniform: Uniform, n: int) -> bool:
        """Whether a uniform number lies below π(n), with as many bits of it as that takes."""
        if not 0 < n < self.certain:
            return n > 0
        return is_below(uniform, lambda precision: self.enclosure(n, precision))

    def is_at_least(self, n: int, bound: Fraction) -> bool:
        """Whether π(n) ≥ `bound`, which is no value of π unless n = 1, n = 0 or π(n) = 1."""
        precision = _START
        while True:
            value = self.enclosure(n, precision)
            if Interval.of(bound, precision).at_most(value):
                return True
            if value.at_most(bound):
                return False
            precision *= 2

    def first_at_least(self, bound: Fraction) -> int:
        """The least n with π(n) ≥ `bound` > 0."""
        low, high = 0, self.certain
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_at_least(middle, bound) else (middle, high)
        return high

    def brackets(self, most: int) -> tuple[list[int], list[int], int]:
        """Ends of brackets of π, and a shift: for counts n with n >> shift = b, π(n)·2^64 is in [low[b], high[b] + 1).

        There are at most `most` + 1 of them; the last one is that of all larger counts, too. With the shift 0 they are one unit wide.
        """
        covered = min(self.certain, MOST_UNITS)
        shift = max(0, (-(-covered // most) - 1).bit_length())
        bits = WORD + _GUARD_BITS + self.delta.denominator.bit_length()
        edges = self._edges(1 << shift, -(-covered >> shift), bits)
        top, cut = (1 << WORD) - 1, bits - WORD
        low = [min(low >> cut, top) for low, _ in edges]
        high = [min(high >> cut, top) for _, high in (edges[1:] if shift else edges[:-1])]
        return low, [*high, top], shift

    def _edges(self, step: int, last: int, bits: int) -> list[tuple[int, int]]:
        """π·2^bits for the counts 0, step, 2·step, … last·step: integers at most a few units below and above.

        Each comes from the one before, rounded outward: π(n + s) = e^(sε)·π(n) + π(s) while π rises, and afterwards for q = 1 − π
        q(n + s) = e^(−sε)·(q(n) − δ·(e^(sε) − 1)/(e^ε − 1)).
        """
        factor, gain = 1 + _growth(step * self.epsilon, bits), self._rising(step, bits)
        edges = [(0, 0)]
        (low_up, high_up), (least, most) = _fixed(factor, bits), _fixed(gain, bits)
        while len(edges) <= last and len(edges) * step <= self.rising:
            low, high = edges[-1]
            edges.append(((low * low_up >> bits) + least, -(-high * high_up >> bits) + most))
        if len(edges) <= last:
            edges.append(_fixed(self.enclosure(len(edges) * step, bits), bits))
        one, (low_down, high_down), (least, most) = 1 << bits, _fixed(1 / factor, bits), _fixed(gain / factor, bits)
        while len(edges) <= last:
            low, high = edges[-1]
            left_high, left_low = -(-(one - low) * high_down >> bits) - least, ((one - high) * low_down >> bits) - most
            edges.append((one - max(left_high, 0), one - max(left_low, 0)))
        return edges


def _fixed(x: Interval, bits: int) -> tuple[int, int]:
    """The ends of an interval in units of 2^-bits, rounded outward."""
    return floor(x.low, bits), ceiling(x.high, bits)
