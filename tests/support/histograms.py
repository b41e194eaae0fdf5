"""Exact laws of released histograms: once by the formulas of Wasserman & Zhou (2010), once by walking through all choices of our code."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpcore.distributions import _urn, dirichlet, smoothed
from dpcore.distributions._choices import draw_codes

Counts = tuple[int, ...]
Draws = tuple[int, ...]
"""Cells of k draws, in order."""
Law = dict[Draws, Fraction]


def data_sets(n: int, m: int) -> Iterator[Counts]:
    """Counts of every data set of n records in m cells."""
    for bars in itertools.combinations(range(n + m - 1), m - 1):
        ends = (-1, *bars, n + m - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


def neighbours(counts: Counts) -> Iterator[Counts]:
    """Counts of the data sets that differ by the value of one record."""
    for i, j in itertools.permutations(range(len(counts)), 2):
        if counts[i]:
            moved = list(counts)
            moved[i] -= 1
            moved[j] += 1
            yield tuple(moved)


def largest_log_ratio(law_of: Callable[[Counts], Law], n: int, m: int) -> float:
    """Largest ln P(z | x)/P(z | x') over neighbours of n records in m cells and outcomes z."""
    laws = {counts: law_of(counts) for counts in data_sets(n, m)}
    pairs = ((laws[counts], laws[other]) for counts in laws for other in neighbours(counts))
    most = max((p / there[z] for here, there in pairs for z, p in here.items()), default=Fraction(1))
    return math.log(most)


# The formulas


def outcomes(m: int, k: int, *, ascending: bool = False) -> Iterator[Draws]:
    """Every sequence of k cells; or only the ascending ones, for laws in which the order of the draws makes no difference."""
    return itertools.combinations_with_replacement(range(m), k) if ascending else itertools.product(range(m), repeat=k)


def sequences(cells: Sequence[Fraction], k: int, *, ascending: bool = False) -> Law:
    """k independent draws from probabilities of cells."""
    return {z: math.prod((cells[j] for j in z), start=Fraction(1)) for z in outcomes(len(cells), k, ascending=ascending)}


def smoothed_cells(counts: Counts, smoothing: float) -> list[Fraction]:
    """(1 − δ)·C_j/n + δ/m."""
    delta = Fraction(smoothing)
    return [(1 - delta) * c / sum(counts) + delta / len(counts) for c in counts]


def dirichlet_law(counts: Counts, k: int, prior: Sequence[float], *, ascending: bool = False) -> Law:
    """Γ(A)/Γ(A + k)·Π Γ(α_j + d_j)/Γ(α_j) for α = prior + counts and d the counts of the draws."""
    alpha = [Fraction(a) + c for a, c in zip(prior, counts, strict=True)]
    law: Law = {}
    for z in outcomes(len(counts), k, ascending=ascending):
        drawn = [z.count(j) for j in range(len(counts))]
        above = math.prod(a + i for a, d in zip(alpha, drawn, strict=True) for i in range(d))
        law[z] = Fraction(above) / math.prod(sum(alpha) + i for i in range(k))
    return law


# What the code does


def _part_law(part: partial[Any], m: int) -> list[Fraction]:
    """Law of one code that `mixed_codes` or one of its parts makes."""
    if part.func is _urn.record_codes:
        (counts,) = part.args
        return [Fraction(int(c), int(counts.sum())) for c in counts]
    if part.func is _urn.uniform_integers:
        assert part.args == (m,)
        return [Fraction(1, m)] * m
    if part.func is draw_codes:
        (weights,) = part.args
        return [Fraction(w, sum(weights)) for w in weights]
    assert part.func is _urn.mixed_codes
    weights, parts = part.args[:2]
    laws = [_part_law(inner, m) for inner in parts]
    return [sum((Fraction(w, sum(weights)) * law[j] for w, law in zip(weights, laws, strict=True)), Fraction(0)) for j in range(m)]


def smoothed_law_of_the_code(counts: Counts, k: int, smoothing: float, *, ascending: bool = False) -> Law:
    """Law of `smoothed_codes` from the choices it asks for."""
    seen: list[list[Fraction]] = []

    def mixed(weights: Any, parts: Any, size: int, *, rng: Any = None) -> None:
        assert size == k
        seen.append(_part_law(partial(_urn.mixed_codes, weights, parts), len(counts)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothed, "mixed_codes", mixed)
        smoothed.smoothed_codes(np.array(counts), k, smoothing)
    return sequences(seen[0], k, ascending=ascending)


def dirichlet_law_of_the_code(counts: Counts, k: int, prior: Any) -> Law:
    """Law of `dirichlet_codes`: every choice of parents, every choice of the draws that copy none, resolved by `urn_codes`."""
    seen: dict[str, Any] = {}

    def parents(mass: Fraction, size: int, *, rng: Any = None) -> None:
        assert size == k
        seen["mass"] = mass

    def resolve(_: None, base: partial[Any]) -> None:
        seen["cells"] = _part_law(base, len(counts))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dirichlet, "urn_parents", parents)
        patch.setattr(dirichlet, "urn_codes", resolve)
        dirichlet.dirichlet_codes(np.array(counts), k, prior)
    mass, cells = seen["mass"], seen["cells"]
    law: Law = defaultdict(Fraction)
    for chosen in itertools.product(*(range(t + 1) for t in range(k))):
        copies = math.prod((Fraction(mass if j == t else 1) / (mass + t) for t, j in enumerate(chosen)), start=Fraction(1))
        n_roots = sum(j == t for t, j in enumerate(chosen))
        for base in itertools.product(range(len(counts)), repeat=n_roots):
            codes = _urn.urn_codes(np.array(chosen), lambda size, base=base: np.array(base))  # type: ignore[misc]
            law[tuple(codes.tolist())] += copies * math.prod((cells[j] for j in base), start=Fraction(1))
    return dict(law)
