"""Probabilities as fractions, and the choice of a size by them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dpcore._exact.probability import Probability

PRECISION = 1280
"""Bits behind the binary point: e^−700, the least probability of a report, still has 270 of them."""


def fraction(p: Probability) -> Fraction:
    """The probability, cut after `PRECISION` bits."""
    return Fraction(p.floor(PRECISION), 2**PRECISION)


def least_variance(sizes: Iterable[int], support: Callable[[int], tuple[Fraction, Fraction]]) -> int:
    """The size whose reports estimate a category of frequency 0 best, by q(1 − q)/(p − q)² of its (p, q); the smaller one of equals."""

    def variance(size: int) -> Fraction:
        p, q = support(size)
        return q * (1 - q) / (p - q) ** 2

    return min(sorted(set(sizes)), key=variance)
