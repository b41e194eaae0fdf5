"""The mathematics of shuffled reports: the hockey-stick divergence of n reports from those of a neighbour, never below the true one.

With E = e^ε₀ of one report, C ~ Bin(n−1, 2/(E+1)) of the other reports are *clones*, which are fair coins. The report of the person in
question is a coin that shows its side with probability E/(E+1). Given c clones, δ at e' = e^ε' is

    h(c) = P(B = m)·(E−e')/(E+1) − (e'−1)·P(B > m),   B ~ Bin(c, 1/2),   m = ⌊(c+1)·(e'E−1)/((E−1)(e'+1))⌋,

which is the largest value over all m. The whole δ is the mean of h(C). As h falls in c (one more clone is post-processing), a block of
values of C may count as its first one. The proof is in docs/exactness-shuffled.md.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcore._exact.intervals import LARGEST_FLOAT, Interval, exp, log, sqrt
from dpcore.accounting._binomials import RESERVE, divergence, fair_tail_ratio, probability

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BLOCKS = 8192
"""Up to this number, the values of C are summed one by one."""
PIECE = 1024
"""Values of C that share a number of terms of the continued fraction."""
LEFT_OUT = 28.0
"""−ln of the part of δ that may lie outside the window of C. It is charged to δ."""
LARGEST_EXPONENT = 690.0
SLACK = 2.0**-48
"""Relative: more than the errors of a handful of elementary functions, which are at most four units in the last place each."""
FEWEST_TERMS = 13
NEAR = 0.2
"""Standard deviations from the middle."""
PRECISION = 192
TELLS_ALL = 800.0
"""A report whose ε₀ is larger than ε by this has a δ of 1, whatever the others do."""
FINENESS = 2.0**-34
"""Relative width to which an ε is searched."""


class Shuffle:
    """δ of n shuffled reports that are ε₀-private each."""

    def __init__(self, local: float, n: int) -> None:
        self.local, self.n = local, n
        small = math.exp(-local)
        self._others = n - 1
        # fewer clones hide less, so their probability is rounded down
        self._cloned = 2 * small / (1 + small) * (1 - SLACK) if n > 1 and small > 1e-290 else 0.0

    def delta(self, epsilon: float) -> float:
        """Bound δ at ε from above."""
        if epsilon >= self.local:
            return 0.0
        given = _Given(self.local, epsilon)
        if not self._cloned:
            return given.alone
        first, last = self._window(given)
        width = max(1, -(-(last - first + 1) // BLOCKS))
        width += 1 - width % 2
        starts = np.arange(first, last + 1, width, dtype=np.float64)
        total = float(np.dot(self._mass(starts, width), given.delta(starts)))
        after = int(starts[-1]) + width
        if first > 0:
            total += given.alone * self._beyond(first)
        if after <= self._others:
            total += float(given.delta(np.array([float(after)]))[0]) * self._beyond(after)
        return min(total * (1 + RESERVE), given.alone)

    def _divergence(self, count: float) -> float:
        return float(divergence(np.array(float(self._others)), np.array(float(count)), self._cloned))

    def _beyond(self, count: int) -> float:
        """Bound the probability of all values of C that are at least as far from the mean, on the same side (Chernoff)."""
        return math.exp(-self._divergence(count)) * (1 + RESERVE) + 1e-300

    def _window(self, given: _Given) -> tuple[int, int]:
        """Find the values of C outside of which there is a negligible part of δ."""
        centre = min(math.floor(self._others * self._cloned), self._others)
        typical = float(given.delta(np.array([float(centre)]))[0])
        reach = min(LEFT_OUT - math.log(max(typical, 1e-300)), LARGEST_EXPONENT)
        first = _first(lambda c: self._divergence(centre - c) >= reach, centre)
        last = _first(lambda c: self._divergence(centre + c) >= LEFT_OUT, self._others - centre)
        return centre - first, centre + last

    def _mass(self, starts: Array, width: int) -> Array:
        """Bound P(start ≤ C < start + width) from above. The law is log-concave: it is below a geometric one that touches its middle."""
        trials = np.full_like(starts, self._others)
        if width == 1:
            return probability(trials, starts, self._cloned)
        middle = np.minimum(starts + (width - 1) / 2, trials - 1)  # of a block that also holds what is below and above it
        at_middle = probability(trials, middle, self._cloned)
        half_slope = np.log((trials - middle) * self._cloned / ((middle + 1) * (1 - self._cloned))) / 2
        span = np.abs(width * half_slope)
        flat = span < 1e-3  # sinh(wx)/sinh(x) ≤ w·sinh(wx)/(wx) ≤ w·(1 + (wx)²/5)
        safe = np.where(flat, 1.0, np.abs(half_slope))
        steep = np.sinh(np.where(flat, 1.0, span)) / np.sinh(safe)
        result: Array = at_middle * np.where(flat, width * (1 + span * span / 5), steep) * (1 + RESERVE)
        return result


class _Given:
    """δ at ε given the number of clones."""

    def __init__(self, local: float, epsilon: float) -> None:
        self._advantage = -math.expm1(epsilon - local) / (1 + math.exp(-local)) * (1 + SLACK)
        # from e^690 on no P(B > m) is left, so that a smaller factor does no harm
        self._gap = math.expm1(min(epsilon, LARGEST_EXPONENT)) * (1 - SLACK)
        self._threshold = math.expm1(-local - epsilon) / math.expm1(-local) / (1 + math.exp(-epsilon))
        self.alone = min(self._advantage, 1.0)
        """δ without any clone."""

    def delta(self, clones: Array) -> Array:
        """Bound h(c) from above."""
        low = np.minimum(np.floor((clones + 1) * (self._threshold * (1 - SLACK))), clones)
        high = np.minimum(np.floor((clones + 1) * (self._threshold * (1 + SLACK))), clones)
        bound = self._at(clones, low)
        unsure = high > low  # the largest value over m is at one of the two
        if unsure.any():
            bound[unsure] = np.maximum(bound[unsure], self._at(clones[unsure], high[unsure]))
        return np.minimum(bound, self.alone)

    def _at(self, clones: Array, m: Array) -> Array:
        if not self._gap:
            return self._advantage * (1 + SLACK) * probability(clones, m, 0.5)
        some = m < clones
        trials, count = np.where(some, clones, 1.0), np.where(some, m + 1, 1.0)
        tails = np.concatenate([_tails(trials[i : i + PIECE], count[i : i + PIECE]) for i in range(0, len(trials), PIECE)])
        # the ratio of P(B > m) to P(B = m)
        ratio = np.where(some, (clones - m) / (m + 1) * tails, 0.0)
        left = np.maximum(self._advantage - self._gap * ratio * (1 - SLACK), 0.0)
        bound: Array = left * (1 + SLACK) * probability(clones, m, 0.5)
        return bound


def _tails(trials: Array, count: Array) -> Array:
    """Bound P(B ≥ count)/P(B = count) from below, by the better of two bounds."""
    distance = float(((2 * count - trials) / np.sqrt(trials)).min())
    most = int((trials - count).max()) + 1
    # k terms leave an error near e^(−4·distance·√k)
    terms = min(FEWEST_TERMS + math.ceil((7 / max(distance, NEAR)) ** 2), most)
    fraction = fair_tail_ratio(trials, count, terms)
    if distance > NEAR:
        return fraction
    # Near the middle the fraction converges slowly. There P(B ≥ count) = (1 − P(trials − count < B < count))/2, with few values between.
    between = (2 * count - trials - 1) * probability(trials, np.floor(trials / 2), 0.5)
    return np.maximum(fraction, np.maximum(1 - between * (1 + SLACK), 0.0) / 2 / probability(trials, count, 0.5) * (1 - SLACK))


def delta(local: float, n: int, epsilon: float) -> float:
    """Bound δ at ε of n shuffled reports that are ε₀-private each."""
    return Shuffle(local, n).delta(epsilon)


@lru_cache(maxsize=256)
def least_epsilon(local: float, n: int, delta: float) -> float:
    """Find the least ε at which the bound of δ is small enough, at most ε₀, where it is 0."""
    shuffle = Shuffle(local, n)
    low, high = 0.0, local
    at_low = shuffle.delta(low)
    if at_low <= delta:
        return 0.0
    # ln δ is close to linear in a small interval; after a step that does not halve the interval, a step to its middle
    at_high, goal, widest = 0.0, math.log(delta), math.inf
    while high - low > high * FINENESS:
        width = high - low
        guess = low + width / 2
        if at_high > 0 and width <= widest:
            slope = (math.log(at_high) - math.log(at_low)) / width
            ideal = low + (goal - math.log(at_low)) / slope if slope else guess
            guess = min(max(ideal, low + width / 64), high - width / 64)
        widest = width / 2
        if not low < guess < high:  # no float lies between
            break
        at_guess = shuffle.delta(guess)
        if at_guess <= delta:
            high, at_high = guess, at_guess
        else:
            low, at_low = guess, at_guess
    return high


def largest_local(epsilon: float, n: int, delta: float) -> float:
    """Find the largest ε₀ of one report with which n of them keep (ε, δ) when shuffled; ε itself at least."""

    def keeps(local: float) -> bool:
        return Shuffle(local, n).delta(epsilon) <= delta

    low, high = epsilon, min(epsilon + TELLS_ALL, LARGEST_FLOAT)
    while high - low > low * FINENESS:
        middle = low + (high - low) / 2 if high <= 4 * low else math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:  # no float lies between
            break
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def closed_epsilon(local: float, n: int, delta: float) -> float:
    """Bound ln(1 + (E−1)/(E+1)·(8√(E·ln(4/δ)/n) + 8E/n)) from above."""
    grown = exp(Interval.of(local, PRECISION))
    root = sqrt(grown * log(4 / Interval.of(delta, PRECISION)) / n)
    return log(1 + (grown - 1) / (grown + 1) * (8 * root + 8 * grown / n)).upper()


def closed_holds(local: float, n: int, delta: float) -> bool:
    """Whether E·16·ln(2/δ) ≤ n for certain, which the closed form needs."""
    return (16 * exp(Interval.of(local, PRECISION)) * log(2 / Interval.of(delta, PRECISION))).at_most(n)


def _first(holds: Callable[[int], bool], most: int) -> int:
    """Find the least number in [0, most] that satisfies a monotone condition; `most` if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
