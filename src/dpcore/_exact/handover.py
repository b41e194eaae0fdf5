"""Hand-over of undecided samples to the exact tier: which bits belong to a sample, and how they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, cmp_to_key
from typing import Protocol

from dpcore._exact import sampling
from dpcore._exact.intervals import Interval
from dpcore._exact.pending import TABLE_LIMIT, Kind, Pending, SelectionNoise

GROUP = 128
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

BULK, ACCEPT, MORE, MORE_PARTNER, MORE_ACCEPT = range(5)
SELECTION, MORE_SELECTION, TABLE, MORE_TABLE = 7, 8, 9, 10


class Words(Protocol):
    """Random words by address."""

    def group(self, domain: int, group: int) -> Sequence[int]:
        """The 128 words of one group."""

    def more(self, domain: int, element: int, attempt: int, chunk: int) -> list[int]:
        """Eight further words of one element."""


def _more(words: Words, domain: int, element: int, attempt: int = 0) -> Callable[[int], list[int]]:
    return lambda chunk: words.more(domain, element, attempt, chunk)


def _bulk(words: Words, element: int, domain: int = BULK) -> int:
    return words.group(domain, element // GROUP)[element % GROUP]


def _normal(words: Words, element: int, attempt: int) -> Callable[[int], Interval]:
    if attempt:
        radius = sampling.Uniform(0, 0, _more(words, MORE, element, attempt))
        angle = sampling.Uniform(0, 0, _more(words, MORE_PARTNER, element, attempt))
        return sampling.standard_normal(radius, angle, 0)
    half = GROUP // 2
    first = element - element % GROUP + element % half
    radius = sampling.Uniform(_bulk(words, first), 64, _more(words, MORE, first))
    angle = sampling.Uniform(_bulk(words, first + half), 64, _more(words, MORE, first + half))
    return sampling.standard_normal(radius, angle, (element % GROUP) // half)


def real(kind: Kind, words: Words, pending: Pending, scale: float, grid: float) -> float:
    """R(x + scale·W) of one sample."""
    return fraction(kind, words, pending.element, Fraction(pending.x) + Fraction(pending.x_low), scale, grid)


def fraction(kind: Kind, words: Words, element: int, value: Fraction, scale: float, grid: float) -> float:
    """R(x + scale·W) for any rational number x."""
    if kind == "laplace":
        sample = sampling.standard_laplace(_bulk(words, element), _more(words, MORE, element))
    else:
        sample = _normal(words, element, 0)
    return sampling.round_release(value, scale, grid, sample)


def _piece(words: Words, domain: int, element: int) -> int:
    """The 16 bits that an element has in a domain of pieces."""
    position = element % (4 * GROUP)
    return words.group(domain, element // (4 * GROUP))[position // 4] >> (16 * (position % 4)) & 0xFFFF


def _rounded_gaussian(words: Words, element: int, scale: float) -> int:
    attempt = 0
    while True:
        y = sampling.round_normal(scale, _normal(words, element, attempt))
        prefix, bits = 0, 0
        if attempt == 0:
            prefix, bits = _piece(words, ACCEPT, element), 16
        if sampling.is_accepted(scale, y, sampling.Uniform(prefix, bits, _more(words, MORE_ACCEPT, element, attempt))):
            return y
        attempt += 1


def integer(kind: Kind, words: Words, pending: Pending, scale: float) -> int:
    """x + Z of one sample, saturated at the ends of int64."""
    element = pending.element
    if kind == "discrete_gaussian" and scale >= TABLE_LIMIT:
        z = _rounded_gaussian(words, element, scale)
    elif kind == "discrete_gaussian":
        z = sampling.discrete_gaussian_by_table(scale, _bulk(words, element, TABLE), _more(words, MORE_TABLE, element))
    else:
        z = sampling.discrete_laplace(scale, _bulk(words, element), _more(words, MORE, element))
    return min(max(pending.x_int + z, INT64_MIN), INT64_MAX)


def rank_contenders(noise: SelectionNoise, words: Words, first: int, scores: Mapping[int, Fraction], scale: float) -> list[int]:
    """Sort elements by their keys, score + scale·noise, in descending order; almost surely no two keys are equal."""
    step = Fraction(scale)
    samples = {
        index: cache(sampling.selection_noise(noise, _piece(words, SELECTION, first + index), _more(words, MORE_SELECTION, first + index)))
        for index in scores
    }

    def compare(a: int, b: int) -> int:
        precision = sampling.FIRST_PRECISION
        while True:
            noise_apart = (samples[b](precision) - samples[a](precision)) * Interval.of(step, precision)
            apart = Interval.of(scores[b] - scores[a], precision) + noise_apart
            if apart.at_most(0):
                return -1
            if (-apart).at_most(0):
                return 1
            precision *= 2

    return sorted(scores, key=cmp_to_key(compare))
