"""The law of `ks_exponential` by enumeration, from its definition and in rational numbers: nothing here is shared with the sampler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from support.kernels import Array

Vector = tuple[int, ...]


def vectors(total: int, m: int) -> Iterator[Vector]:
    """All vectors of m counts with this sum."""
    for bars in itertools.combinations(range(total + m - 1), m - 1):
        edges = (-1, *bars, total + m - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))


def distance(data: Vector, drawn: Vector) -> Fraction:
    """n·max_i |A_i/n − C_i/k|."""
    n, k = sum(data), sum(drawn)
    sums = zip(itertools.accumulate(data), itertools.accumulate(drawn), strict=True)
    return n * max(abs(Fraction(a, n) - Fraction(c, k)) for a, c in sums)


def score(data: Vector, drawn: Vector) -> int:
    """The distance, rounded up to whole records."""
    return math.ceil(distance(data, drawn))


def ways(drawn: Vector) -> int:
    """Number of sequences of bins with these counts."""
    return math.factorial(sum(drawn)) // math.prod(map(math.factorial, drawn))


def law(data: Vector, epsilon: float, k: int, *, rounding=math.ceil) -> dict[Vector, float]:
    """P(c) for every c: ways(c)·e^(−ε·score/2), normalised."""
    scores = {drawn: rounding(distance(data, drawn)) for drawn in vectors(k, len(data))}
    least = min(scores.values())
    weights = {drawn: ways(drawn) * math.exp(-epsilon * (s - least) / 2) for drawn, s in scores.items()}
    total = math.fsum(weights.values())
    return {drawn: w / total for drawn, w in weights.items()}


def neighbours(data: Vector) -> Iterator[Vector]:
    """Counts after one record is replaced."""
    for i, j in itertools.permutations(range(len(data)), 2):
        if data[i]:
            moved = list(data)
            moved[i] -= 1
            moved[j] += 1
            yield tuple(moved)


def loss(one: dict[Vector, float], other: dict[Vector, float]) -> float:
    """Largest |log-ratio| of the probabilities of an outcome."""
    return max(abs(math.log(p / other[drawn])) for drawn, p in one.items())


def tally(drawn: Array) -> dict[Vector, int]:
    """How often each vector of counts occurs."""
    codes = drawn @ (drawn[0].sum() + 1) ** np.arange(drawn.shape[1])
    _, places, counts = np.unique(codes, return_index=True, return_counts=True)
    return {tuple(drawn[place].tolist()): n for place, n in zip(places.tolist(), counts.tolist(), strict=True)}
