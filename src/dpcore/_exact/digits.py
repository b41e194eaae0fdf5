"""Laws as sums of independent digits with public weights, for constant work. docs/constant-work.md has the proofs.

A digit is a weight, thresholds ⌊2^127·P(digit ≤ k)⌋, and whether it has a fair sign.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from dpcore._exact.intervals import Interval, exp, floor
from dpcore._exact.sampling import thresholds_of_variance

Digit: TypeAlias = tuple[int, list[int], bool]
BITS = 127
PRECISION = 320
BASE_VARIANCE = 64
TAU_SQUARED = Fraction(185, 100) ** 2
"""Least τ² = σ₁²σ₂²/σ² of two parts that are added; sums over shifted lattices then agree to 2e^(−2π²τ²) < 2^−96."""
SPACING_SQUARED = Fraction(192, 100) ** 2
"""(σ₁/k)² where the second part is the base: τ is then 1.867 or more."""


def _floor(value: Interval) -> int:
    """⌊2^127·x⌋, or one less where the interval leaves that open: an error that the law's allowance includes."""
    below: int = floor(value.low, BITS)
    return min(max(below, 0), (1 << BITS) - 1)


@lru_cache(maxsize=1024)
def laplace(scale: float) -> list[Digit]:
    """Discrete Laplace noise: Σ 2^i (b_i − b'_i), the bits of two geometric numbers, P(b_i = 1) = 1/(1 + e^(2^i/t))."""
    return [(1 << i, [_floor(1 - 2 * odds / ((1 + odds) * (1 + odds)))], True) for i, odds in _odds(scale)]


@lru_cache(maxsize=1024)
def geometric(scale: float) -> list[Digit]:
    """Geometric numbers Σ 2^i b_i, P(G ≥ k) = e^(−k/t)."""
    return [(1 << i, [_floor(1 / (1 + odds))], False) for i, odds in _odds(scale)]


def _odds(scale: float) -> list[tuple[int, Interval]]:
    """e^(−2^i/t) for each bit i; what lies above the last bit has a probability below e^−80."""
    bits = max(1, math.ceil(math.log2(scale) + math.log2(80)))
    return [(i, exp(Interval.of(-Fraction(1 << i) / Fraction(scale), PRECISION))) for i in range(bits)]


def _table(variance: Fraction) -> list[int]:
    thresholds: list[int] = []
    for share in thresholds_of_variance(variance, PRECISION):
        thresholds.append(_floor(share))
        if thresholds[-1] >= 2**BITS - 2:  # what is beyond has less than 2^−125
            break
    return thresholds


@lru_cache(maxsize=1)
def _base() -> list[int]:
    return _table(Fraction(BASE_VARIANCE))


@lru_cache(maxsize=256)
def gaussian(scale: float) -> list[Digit]:
    """Discrete Gaussian noise: Σ k_j d_j, each weight so small beside the sum of the digits before that the sum is discrete Gaussian."""
    variance = Fraction(scale) ** 2
    if variance < 4 * BASE_VARIANCE:
        return [(1, _table(variance), True)]
    digits: list[Digit] = [(1, _base(), True)]
    sum_of_variances = BASE_VARIANCE
    while True:
        weight = math.isqrt(math.floor(sum_of_variances / SPACING_SQUARED))
        following = sum_of_variances + weight * weight * BASE_VARIANCE
        if following * 4 > variance:
            break
        digits.append((weight, _base(), True))
        sum_of_variances = following
    rest = variance - sum_of_variances
    weight = math.isqrt(math.floor(sum_of_variances * rest / variance / TAU_SQUARED))
    return [*digits, (weight, _table(rest / (weight * weight)), True)]


def unless(likely: int) -> Digit:
    """A digit that is 1 with probability likely·2^−127, or 2^−127 if that is 0."""
    return 1, [(1 << BITS) - max(likely, 1)], False
