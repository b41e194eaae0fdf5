"""Hand-over of undecided samples to the exact tier: which bits belong to a sample, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from dpcore import _exact
from dpcore._intervals import Interval
from dpcore._sample import TABLE_LIMIT, Kind, Pending

GROUP = 128
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

BULK, ACCEPT, MORE, MORE_PARTNER, MORE_ACCEPT = range(5)


class Words(Protocol):
    """Random words by address."""

    def group(self, domain: int, group: int) -> list[int]:
        """The 128 words of one group."""

    def more(self, domain: int, element: int, attempt: int, chunk: int) -> list[int]:
        """Eight further words of one element."""


def _more(words: Words, domain: int, element: int, attempt: int = 0) -> Callable[[int], list[int]]:
    return lambda chunk: words.more(domain, element, attempt, chunk)


def _bulk(words: Words, element: int) -> int:
    return words.group(BULK, element // GROUP)[element % GROUP]


def _normal(words: Words, element: int, attempt: int) -> Callable[[int], Interval]:
    if attempt:
        radius = _exact.Uniform(0, 0, _more(words, MORE, element, attempt))
        angle = _exact.Uniform(0, 0, _more(words, MORE_PARTNER, element, attempt))
        return _exact.standard_normal(radius, angle, 0)
    half = GROUP // 2
    first = element - element % GROUP + element % half
    radius = _exact.Uniform(_bulk(words, first), 64, _more(words, MORE, first))
    angle = _exact.Uniform(_bulk(words, first + half), 64, _more(words, MORE, first + half))
    return _exact.standard_normal(radius, angle, (element % GROUP) // half)


def real(kind: Kind, words: Words, pending: Pending, scale: float, grid: float) -> float:
    """R(x + scale·W) of one sample."""
    value = Fraction(pending.x) + Fraction(pending.x_low)
    if kind == "laplace":
        sample = _exact.standard_laplace(_bulk(words, pending.element), _more(words, MORE, pending.element))
    else:
        sample = _normal(words, pending.element, 0)
    return _exact.round_release(value, scale, grid, sample)


def _rounded_gaussian(words: Words, element: int, scale: float) -> int:
    attempt = 0
    while True:
        y = _exact.round_normal(scale, _normal(words, element, attempt))
        prefix, bits = 0, 0
        if attempt == 0:
            position = element % (4 * GROUP)
            word = words.group(ACCEPT, element // (4 * GROUP))[position // 4]
            prefix, bits = word >> (16 * (position % 4)) & 0xFFFF, 16
        if _exact.is_accepted(scale, y, _exact.Uniform(prefix, bits, _more(words, MORE_ACCEPT, element, attempt))):
            return y
        attempt += 1


def integer(kind: Kind, words: Words, pending: Pending, scale: float) -> int:
    """x + Z of one sample, saturated at the edges of int64."""
    element = pending.element
    if kind == "discrete_gaussian" and scale >= TABLE_LIMIT:
        z = _rounded_gaussian(words, element, scale)
    else:
        sampler = _exact.discrete_laplace if kind == "discrete_laplace" else _exact.discrete_gaussian_by_table
        z = sampler(scale, _bulk(words, element), _more(words, MORE, element))
    return min(max(pending.x_int + z, INT64_MIN), INT64_MAX)
