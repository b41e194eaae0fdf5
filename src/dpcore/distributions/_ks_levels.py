"""The exact KS sampler on counts: a level of the score from an envelope by rejection, then a path inside its band.

Law: P(c) ∝ k!/Π c_i! · e^(−εs(c)/2). As e^(−εs/2) = Σ_{t ≥ s} ω_t with ω_t = e^(−εt/2)(1 − e^(−ε/2)), c is a uniformly drawn path of the
band s ≤ t, once t has been drawn with P(t) ∝ N(t)·ω_t, N(t) the weight of the band. Derivation: docs/exactness-ks.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import Interval, ceiling, complement_exp, exp, floor, power_of_two
from dpcore._exact.sampling import FIRST_PRECISION, Uniform, is_below
from dpcore.distributions._bands import Band, Counts, Sums
from dpcore.distributions._choices import Uniforms
from dpcore.rng import Stream

Progress = Callable[[int, int], object]

ENOUGH = 0.5
"""Share of the envelope that must be proved to be accepted before anchors stop being added."""
_RARE_BITS = 16
"""Levels of a share below 2^-16 are planned as one segment."""
_PLANNED_EPSILON = 2.0**40
"""Planning, which changes no probability, replaces a larger ε by this."""
_USUAL_TABLES = 24
"""Tables that a draw usually fills: the total that progress starts with."""
_KEPT_ENTRIES = 2**22
"""Bands are kept for later trials up to about this many entries of their tables."""


class Levels:
    """The bands of one data set, filled on first use."""

    def __init__(self, counts: Counts, k: int, progress: Progress | None = None) -> None:
        self.sums = Sums.of(counts, k)
        self.at = self.sums.levels()
        self._progress, self._filled = progress, 0
        self._kept = max(1, _KEPT_ENTRIES // (len(counts) * (k + 1)))
        self._bands: dict[int, Band] = {}

    def __len__(self) -> int:
        return len(self.at)

    def band(self, level: int) -> Band:
        """The band of a level, by its number."""
        found = self._bands.get(level)
        if found is None:
            if len(self._bands) >= self._kept:
                self._bands.pop(next(iter(self._bands)))
            found = self._bands[level] = self.sums.band(int(self.at[level]))
            self._filled += 1
            if self._progress is not None:
                self._progress(self._filled, max(_USUAL_TABLES, self._filled + 1))
        return found

    def finish(self) -> None:
        """Report that no more tables are filled."""
        if self._progress is not None:
            self._progress(max(self._filled, 1), max(self._filled, 1))

    def number(self, t: Counts) -> Counts:
        """The last level that is at most t: its band is the one of t."""
        return np.searchsorted(self.at, t, side="right").astype(np.int64) - 1


@dataclass(frozen=True, slots=True)
class Envelope:
    """Segments of scores t: [start_j, start_{j+1} − 1], the last one without an end, with N(t) at most ceiling_j on segment j.

    Attributes
    ----------
    starts : tuple of int
        First score of each segment.
    ceilings : tuple of (int, int)
        (u, e): N/k! ≤ u·2^e on the segment.
    top : int
        The largest score that can occur: every t beyond has its band.
    epsilon : float
        ε of the law.
    """

    starts: tuple[int, ...]
    ceilings: tuple[tuple[int, int], ...]
    top: int
    epsilon: float

    def length(self, j: int) -> int | None:
        """Number of scores of a segment; None for the last."""
        return self.starts[j + 1] - self.starts[j] if j + 1 < len(self.starts) else None

    def shares(self, precision: int) -> tuple[Interval, ...]:
        """Enclose P(segment ≤ j) for all segments j but the last."""
        total, sums = Interval.of(0, precision), []
        for j, (start, (u, e)) in enumerate(zip(self.starts, self.ceilings, strict=True)):
            # relative to the first start: what all weights have in common takes no digits
            decay = exp(-_exponent(self.epsilon, start - self.starts[0], precision))
            total = total + decay * u * power_of_two(e, precision) * _mass(self.epsilon, self.length(j), precision)
            sums.append(total)
        return tuple(part / total for part in sums[:-1])

    def share_within(self, j: int, steps: int, precision: int) -> Interval:
        """Enclose P(t < start_j + steps | segment j)."""
        return _mass(self.epsilon, steps, precision) / _mass(self.epsilon, self.length(j), precision)

    def segments(self, uniforms: Uniforms, first: int, size: int) -> Counts:
        """Draw segments with the uniform numbers `first` …."""
        words = uniforms.words(first + size)[first:]
        ends = [_word_ends(share) for share in self.shares(FIRST_PRECISION)]
        certain = np.searchsorted(np.array([high for _, high in ends if high < 2**64], np.uint64), words, side="right")
        possible = np.searchsorted(np.array([low for low, _ in ends], np.uint64), words, side="right")
        for index in np.flatnonzero(certain != possible):
            certain[index] = self._segment_exactly(uniforms[first + int(index)])
        return certain.astype(np.int64)

    def _segment_exactly(self, uniform: Uniform) -> int:
        last = len(self.starts) - 1
        return bisect_left(range(last), 1, key=lambda j: int(is_below(uniform, lambda precision: self.shares(precision)[j])))

    def scores(self, segments: Counts, uniforms: Uniforms, first: int) -> Counts:
        """Draw a score inside each of these segments, P(start + g) ∝ e^(−εg/2); `top` stands for all beyond it."""
        words = uniforms.words(first + len(segments))[first:]
        guesses = self._guesses(segments, words)
        scores = np.empty_like(guesses)
        pairs, group = np.unique(np.stack([segments, guesses]), axis=1, return_inverse=True)
        for number, (j, guess) in enumerate(pairs.T.tolist()):
            chosen = np.flatnonzero(group.ravel() == number)
            scores[chosen] = self.starts[j] + guess
            inside = self._is_inside(j, guess, words[chosen])
            for index in chosen[~inside]:
                scores[index] = self.starts[j] + self._steps_exactly(j, uniforms[first + int(index)])
        return scores

    def _span(self, j: int) -> int:
        """Number of scores of a segment, with `top` and all beyond it as one."""
        return self.length(j) or max(self.top - self.starts[j], 0) + 1

    def _guesses(self, segments: Counts, words: npt.NDArray[np.uint64]) -> Counts:
        """Likely steps beyond the start, which `_is_inside` verifies."""
        spans = np.array([self._span(j) for j in range(len(self.starts))])[segments]
        masses = np.array([_mass(self.epsilon, self.length(j), 64).lower() for j in range(len(self.starts))])[segments]
        with np.errstate(divide="ignore", over="ignore"):
            steps = np.floor(-np.log1p(words * -(2.0**-64) * masses) / self.epsilon * 2)
        guesses: Counts = np.minimum(steps, spans - 1).astype(np.int64)
        return guesses

    def _is_inside(self, j: int, steps: int, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Whether these first 64 bits alone show that the score is start_j + steps."""
        low = 0 if steps == 0 else _word_ends(self.share_within(j, steps, FIRST_PRECISION))[1]
        high = 2**64 if steps == self._span(j) - 1 else _word_ends(self.share_within(j, steps + 1, FIRST_PRECISION))[0]
        if low >= min(high, 2**64):
            return np.zeros(len(words), bool)
        return (words >= np.uint64(low)) & (words <= np.uint64(high - 1))

    def _steps_exactly(self, j: int, uniform: Uniform) -> int:
        def is_within(steps: int) -> int:
            return int(is_below(uniform, lambda precision: self.share_within(j, steps, precision)))

        return bisect_left(range(1, self._span(j)), 1, key=is_within)


@lru_cache(maxsize=4096)
def _exponent(epsilon: float, steps: int, precision: int) -> Interval:
    """Enclose ε·steps/2."""
    return Interval.of(steps, precision) * Interval.of(epsilon, precision) / 2


@lru_cache(maxsize=4096)
def _mass(epsilon: float, steps: int | None, precision: int) -> Interval:
    """Enclose 1 − e^(−ε·steps/2), steps ≥ 1; None: without end, 1."""
    return Interval.of(1, precision) if steps is None else complement_exp(_exponent(epsilon, steps, precision))


def _word_ends(share: Interval) -> tuple[int, int]:
    """(low, high): a number whose first 64 bits are a word has not passed the share if word < low, and has if word ≥ high."""
    return floor(share.low, 64), ceiling(share.high, 64)


# Planning: any choice of segments gives the same law, so floats do


def make_envelope(levels: Levels, epsilon: float) -> Envelope:
    """Add segments where they save most, until at least half of what the envelope draws is proved to be accepted."""
    last = len(levels) - 1
    heap: list[tuple[float, int, int]] = []
    plan = _Plan(levels, epsilon)
    for below, above in pairwise(sorted({-1, 0, plan.first_rare(), last})):
        heappush(heap, (-plan.gap(below, above), below, above))
    while plan.is_loose(heap):
        _, below, above = heappop(heap)
        middle = (below + above) // 2
        for pair in ((below, middle), (middle, above)):
            heappush(heap, (-plan.gap(*pair), *pair))
    segments = sorted((below, above) for _, below, above in heap)
    starts = tuple(int(levels.at[below + 1]) for below, _ in segments)
    return Envelope(starts, tuple(plan.ceilings[above] for _, above in segments), int(levels.at[-1]), epsilon)


class _Plan:
    """Binary logarithms of weights of segments (below, above] of levels."""

    def __init__(self, levels: Levels, epsilon: float) -> None:
        self._levels, self._rate = levels, min(epsilon, _PLANNED_EPSILON) / 2
        # the last band holds every sequence, and its table would be the largest one
        most, ceiling = levels.sums.all_sequences()
        self._weights: dict[int, float] = {-1: -math.inf, len(levels) - 1: most}
        self.ceilings: dict[int, tuple[int, int]] = {len(levels) - 1: ceiling}

    def _weight(self, level: int) -> float:
        if level not in self._weights:
            band = self._levels.band(level)
            self._weights[level], self.ceilings[level] = band.log2_weight, band.ceiling
        return self._weights[level]

    def _decay(self, first: int, last: int) -> float:
        """log2 of Σ ω_t over the scores from level `first` on and before level `last`, if there is that one."""
        start = float(self._levels.at[first] - self._levels.at[0])
        if last == len(self._levels):
            return -self._rate * start / math.log(2)
        width = float(self._levels.at[last] - self._levels.at[first])
        mass = -math.expm1(-self._rate * width)
        return -self._rate * start / math.log(2) + math.log2(mass) if mass > 0 else -math.inf

    def first_rare(self) -> int:
        """The first level such that those above are rare even if each held every sequence: no table as wide as theirs is needed then."""
        end = len(self._levels)
        rare = self._weight(0) + self._decay(0, end) - _RARE_BITS - self._weight(end - 1)
        return bisect_left(range(end - 1), 1, key=lambda level: int(round(self._decay(level + 1, end) - rare, 6) <= 0))

    def envelope(self, below: int, above: int) -> float:
        """Weight that the segment has in the envelope."""
        return self._weight(above) + self._decay(below + 1, above + 1)

    def gap(self, below: int, above: int) -> float:
        """Weight that is not proved to be accepted: the levels before `above`, where N is only known to be at least that of `below`."""
        low, high = self._weight(below), self._weight(above)
        if above == below + 1 or low >= high:  # N does not fall, its rounded logarithm may
            return -math.inf
        loss = high + math.log2(-math.expm1((low - high) * math.log(2))) + self._decay(below + 1, above)
        return round(
            loss, 6
        )  # the last bits of a mathematical library must not choose among equals, so that a key gives the same draws everywhere

    def is_loose(self, heap: list[tuple[float, int, int]]) -> bool:
        """Whether less than `ENOUGH` of the envelope is proved to be accepted."""
        largest = -heap[0][0]
        if largest == -math.inf:
            return False
        weights = [self.envelope(below, above) for _, below, above in heap]
        scale = max(weights)
        gaps = sum(2.0 ** max(-gap - scale, -1000.0) for gap, _, _ in heap if gap < math.inf)
        return bool(gaps > (1 - ENOUGH) * sum(2.0 ** max(w - scale, -1000.0) for w in weights))


# Draws


def draw_counts(counts: Counts, epsilon: float, k: int, stream: Stream, size: int = 1, *, progress: Progress | None = None) -> Counts:
    """Draw `size` independent vectors c with P(c) ∝ k!/Π c_i!·e^(−εs(c)/2) exactly: shape (size, m); one stream position for each round."""
    levels = Levels(counts, k, progress)
    envelope = make_envelope(levels, epsilon)
    drawn = np.empty((size, len(counts)), np.int64)
    waiting = np.arange(size)
    while len(waiting):
        accepted, numbers = _round(levels, envelope, Uniforms(stream), len(waiting))
        for number in np.unique(numbers[accepted]):
            chosen = waiting[accepted & (numbers == number)]
            drawn[chosen] = levels.band(int(number)).paths(Uniforms(stream), len(chosen))
        waiting = waiting[~accepted]
    levels.finish()
    return drawn


def _round(levels: Levels, envelope: Envelope, uniforms: Uniforms, size: int) -> tuple[npt.NDArray[np.bool_], Counts]:
    """One trial for each of `size` draws: whether it is accepted, and the level it proposed."""
    segments = envelope.segments(uniforms, 0, size)
    numbers = levels.number(envelope.scores(segments, uniforms, size))
    accepted = np.empty(size, bool)
    # the acceptance uniforms of trials that share segment and level lie in one block: a trial's place is its rank in this order
    order = np.lexsort((numbers, segments))
    pairs, starts = np.unique(np.stack([segments, numbers])[:, order], axis=1, return_index=True)
    ends = [*starts[1:], size]
    for (j, number), start, end in zip(pairs.T.tolist(), starts.tolist(), ends, strict=True):
        accepted[order[start:end]] = levels.band(number).accepts(uniforms, 2 * size + start, end - start, envelope.ceilings[j])
    return accepted, numbers
