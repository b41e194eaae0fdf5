"""Comparisons with e^x that decide whether parameters are private: by intervals, rounded towards more privacy."""

from __future__ import annotations

from fractions import Fraction

from dpcore._exact.intervals import Interval, exactly, exp

_LARGEST_EXPONENT = 2000
"""e^2000 is beyond the quotient of any two numbers that a parameter of a release can be."""


def growth_below(exponent: Fraction) -> Fraction:
    """A number ≤ e^x − 1 for x > 0, relatively 2^-80 from it or less; for x > 2000 it is that of 2000."""
    precision = 192
    while True:
        growth = exp(Interval.of(min(exponent, Fraction(_LARGEST_EXPONENT)), precision)) - 1
        if growth.relative_width_below(80):
            return exactly(growth.low)
        precision *= 2


def exp_at_least(exponent: Fraction, bound: Fraction) -> bool:
    """Whether e^x ≥ bound, for rational x > 0 and a bound in [1, 2^2000]; they are never equal, as e^x is transcendental."""
    precision = 192
    while True:
        power = exp(Interval.of(min(exponent, Fraction(_LARGEST_EXPONENT)), precision))
        limit = Interval.of(bound, precision)
        if limit.at_most(power):
            return True
        if power.at_most(limit):
            return False
        precision *= 2
