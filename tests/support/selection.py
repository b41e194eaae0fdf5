"""A slow twin of the selection kernels: random bits by their documented addresses, real numbers enclosed by fractions.

It shares no code with the kernels but the block cipher. `bits` makes it wrong on purpose: a twin that reads so many bits of a uniform and
takes their middle for the number.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np

from dpcore._backend.words import KernelWords
from support.kernels import KEY, Array

SELECT, MORE_SELECT = 7, 8
PIECE, GROUP_PIECES = 16, 512
LARGEST_SCORE = Fraction(2**1000)
KINDS = ("gumbel", "exponential", "laplace")
Ends = tuple[Fraction | None, Fraction | None]
"""An interval; None is the infinity on that side."""


def stride(d: int) -> int:
    """Elements from one round to the next."""
    return -(-d // GROUP_PIECES) * GROUP_PIECES


def _exact(x: Any) -> Fraction:
    sign, mantissa, exponent, _ = x._mpf_
    return Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent


def _noise(kind: str, numerator: int, bits: int) -> Fraction | None:
    """The noise of V = numerator·2^-bits, to about bits + 40 places after the point; None where it is infinite."""
    one = 1 << bits
    if numerator == 0 or (numerator == one and kind != "exponential"):
        return None
    with mpmath.workprec(bits + 80):
        v, rest = mpmath.mpf(numerator) / one, mpmath.mpf(one - numerator) / one
        if kind == "exponential":
            return _exact(-mpmath.log(v))
        if kind == "gumbel":
            return _exact(-mpmath.log(-mpmath.log(rest)))
        return _exact(-mpmath.log(2 * v) if v < 0.5 else mpmath.log(2 * rest))


def enclosed(kind: str, first: int, bits: int) -> Ends:
    """All values of the noise, which falls in V, for V in [first, first + 1]·2^-bits."""
    low, high, pad = _noise(kind, first + 1, bits), _noise(kind, first, bits), Fraction(1, 1 << bits + 30)
    return None if low is None else low - pad, None if high is None else high + pad


@lru_cache(maxsize=3)
def _first_bounds(kind: str) -> tuple[Array, Array]:
    """Bounds of the noise for each of the first pieces, widened far beyond float64's rounding."""
    v = np.arange(2**PIECE + 1) / 2**PIECE
    with np.errstate(divide="ignore"):
        if kind == "exponential":
            noise = -np.log(v)
        elif kind == "gumbel":
            noise = -np.log(-np.log1p(-v))
        else:
            noise = np.where(v < 0.5, -np.log(2 * v), np.log(2 * (1 - v)))
    return noise[1:] - 1e-8, noise[:-1] + 1e-8


@dataclass
class Contender:
    """One score and its noise: an interval that shrinks as bits are read."""

    index: int
    element: int
    score: Fraction
    value: int
    known: int = PIECE
    ends: Ends = (None, None)


@dataclass
class Twin:
    """Selection as documented, for one stream and one first element."""

    kind: str
    scale: Fraction
    words: KernelWords = field(default_factory=lambda: KernelWords(KEY, 0, 0))
    first: int = 0
    bits: int | None = None
    pruned: bool = True

    def piece(self, element: int) -> int:
        """The first 16 bits of an element's uniform."""
        group, place = divmod(element, GROUP_PIECES)
        return self.words.group(SELECT, group)[place // 4] >> PIECE * (place % 4) & 0xFFFF

    def pieces(self, element: int, n: int) -> Array:
        """The first 16 bits of n elements."""
        return np.array([self.piece(element + i) for i in range(n)])

    def uniform(self, element: int, chunks: int) -> tuple[int, int]:
        """⌊V·2^n⌋ and n, from the first piece and some chunks of eight words."""
        value, known = self.piece(element), PIECE
        for chunk in range(chunks):
            for word in self.words.more(MORE_SELECT, element, 0, chunk):
                value, known = value << 64 | word, known + 64
        return value, known

    def noise(self, element: int, chunks: int = 1) -> Fraction:
        """An element's noise to hundreds of bits: the middle of its interval."""
        low, high = enclosed(self.kind, *self.uniform(element, chunks))
        assert low is not None
        assert high is not None
        return (low + high) / 2

    def _look(self, contender: Contender, chunks: int) -> None:
        value, known = self.uniform(contender.element, chunks)
        if self.bits is not None:
            value, known = value >> (known - self.bits) << 40 | 1 << 39, self.bits + 40
        contender.value, contender.known = value, known
        low, high = enclosed(self.kind, value, known)
        contender.ends = (
            None if low is None else contender.score + self.scale * low,
            None if high is None else contender.score + self.scale * high,
        )

    def _possible(self, scores: Array, start: int, left: Array, s: int) -> Array:
        """Indices that their first piece does not rule out for the s largest."""
        if not self.pruned or self.bits is not None:
            return left
        low, high = _first_bounds(self.kind)
        pieces = self.pieces(start, len(scores))[left]
        x, scale = np.clip(scores[left].astype(np.float64), -(2.0**1000), 2.0**1000), float(self.scale)
        wide = 4096.0 if scores.dtype.kind in "iu" and np.abs(x).max() > 2**53 else 0.0  # int64 as float64 may be 512 off
        with np.errstate(over="ignore"):
            x = x - x.max()
            pad = wide + 1e-8 * np.abs(x)
            below, above = x + scale * low[pieces] - pad, x + scale * high[pieces] + pad
        below[np.isnan(below)] = -np.inf  # noise of +inf where the score is infinitely far away
        above[np.isnan(above)] = np.inf
        return left[above >= np.partition(below, len(left) - s)[len(left) - s]]

    def largest(self, scores: Array, s: int, round_: int = 0, without: Sequence[int] = ()) -> list[int]:
        """Indices of the s largest keys of one round, the largest first."""
        left = np.setdiff1d(np.arange(len(scores)), np.array(without, np.int64))
        start = self.first + round_ * stride(len(scores))
        field_ = [Contender(i, start + i, clamped(scores[i].item()), 0) for i in self._possible(scores, start, left, s).tolist()]
        for chunks in range(1, 20):
            for contender in field_:
                self._look(contender, chunks)
            lows = sorted((c.ends[0] for c in field_ if c.ends[0] is not None), reverse=True)
            if len(lows) < s:
                continue
            field_ = [c for c in field_ if c.ends[1] is None or c.ends[1] >= lows[s - 1]]
            field_.sort(key=lambda c: (c.ends[1] is None, c.ends[1] or 0, -c.index), reverse=True)
            if self.bits is not None:
                return [c.index for c in field_[:s]]
            if len(field_) == s and all(_above(a, b) for a, b in itertools.pairwise(field_)):
                return [c.index for c in field_]
        raise AssertionError("ten thousand bits do not decide")

    def rounds(self, scores: Array, n: int) -> list[int]:
        """The winner of each of n rounds with all scores."""
        return [self.largest(scores, 1, r)[0] for r in range(n)]

    def peeling(self, scores: Array, s: int) -> list[int]:
        """The winners of s rounds, each without those before it."""
        chosen: list[int] = []
        for r in range(s):
            chosen += self.largest(scores, 1, r, chosen)
        return chosen


def clamped(score: float) -> Fraction:
    """Magnitudes beyond 2^1000 count as 2^1000."""
    return min(max(Fraction(score), -LARGEST_SCORE), LARGEST_SCORE)


def _above(a: Contender, b: Contender) -> bool:
    low, high = a.ends[0], b.ends[1]
    return low is not None and high is not None and low > high


def tied_score(twin: Twin, i: int, j: int, base: float = 0.0) -> float:
    """The float64 score of j that brings its key nearest to that of i, whose score is `base`."""
    return float(Fraction(base) + twin.scale * (twin.noise(twin.first + i) - twin.noise(twin.first + j)))


def rounded_up(value: Fraction) -> Fraction:
    """The least float64 that is not below a fraction."""
    nearest = float(value)
    return Fraction(nearest if Fraction(nearest) >= value else np.nextafter(nearest, np.inf).item())
