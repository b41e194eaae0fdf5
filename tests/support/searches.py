"""Slow twins of the binary search of tests: everything by enumeration, from the vertices of a tiny model."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def binomial_pmf(n: int, q: float) -> list[Fraction]:
    """Exact probabilities of 0 … n."""
    p = Fraction(q)
    return [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]


def pmf(n: int, q: float) -> Array:
    """Probabilities of 0 … n to float64, each from its logarithm."""
    c = np.arange(n + 1)
    logs = math.lgamma(n + 1) - np.array([math.lgamma(k + 1) + math.lgamma(n - k + 1) for k in c])
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(c > 0, c * np.log(q), 0.0) + np.where(c < n, (n - c) * np.log1p(-q), 0.0)
    return np.exp(logs + powers)


def ranges(pairs: Array, low: float, high: float) -> tuple[float, float]:
    """Least and largest q over the mixtures of some (θ, q) with low ≤ θ ≤ high; NaN if there are none."""
    found = []
    for i, j in combinations_with_replacement(range(len(pairs)), 2):
        (t0, q0), (t1, q1) = pairs[i], pairs[j]
        shares = [0.0, 1.0] + ([(end - t0) / (t1 - t0) for end in (low, high)] if t0 != t1 else [])
        for share in shares:
            theta = t0 + share * (t1 - t0)
            if 0 <= share <= 1 and low - 1e-12 <= theta <= high + 1e-12:
                found.append(q0 + share * (q1 - q0))
    return (min(found), max(found)) if found else (math.nan, math.nan)


def rejects(n: int, count: int, zero: tuple[float, float], one: tuple[float, float], rises: bool) -> bool:
    """Whether a test decides for H1 at a count, by the rule of the lemma."""
    if math.isnan(zero[0]) or math.isnan(one[0]):
        return math.isnan(zero[0])
    if not rises:
        count, zero, one = n - count, (1 - zero[1], 1 - zero[0]), (1 - one[1], 1 - one[0])
    near, far = zero[1], one[0]
    if near < far:
        return count * math.log(far / near) + (n - count) * math.log((1 - far) / (1 - near)) > 0
    return count > n * (max(zero[0], one[0]) + min(zero[1], one[1])) / 2


def walk(n: int, count: int, pairs: Array, step: float, intervals: int) -> int:
    """j_{N−1} of one count, test by test."""
    low = pairs[:, 0].min()
    ends = [np.mean(ranges(pairs, end, end)) for end in (low, pairs[:, 0].max())]
    place = 1
    for level in range(1, intervals - 1):
        a, b = low + place * step, low + (place + intervals - level - 1) * step
        place += rejects(n, count, ranges(pairs, -math.inf, a), ranges(pairs, b, math.inf), rises=ends[1] >= ends[0])
    return place


def boundary(pairs: Array, thetas: Array) -> list[tuple[float, float]]:
    """(θ, q) with the extreme q of some θ, and the vertices."""
    found = [(float(t), q) for t in thetas for q in ranges(pairs, t, t)]
    return [*found, *((float(t), float(q)) for t, q in pairs)]


def walk_table(counts: Array, weights: Array, steps: int) -> Array:
    """Last places of data sets in a complete table of tests, in NumPy: the kernel's slow twin."""
    level, place = 1, np.ones(len(counts), np.int64)
    while level <= steps:
        rows = weights[(level - 1) * level // 2 + place - 1]
        place += np.einsum("bk,bk->b", counts, rows[:, : counts.shape[1]]) > 0
        level += 1
    return place
