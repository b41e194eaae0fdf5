"""Sums of a whole table, which is one group: equal to sums in fractions, whichever way their rows come in, and whatever the words hold."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from dpcore.query.statistics import SumsOfGroups, add_whole

EDGES = [0, 1, -1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**64), -(2**64) - 1, 2**100, -(2**100), 2**126 - 1, -(2**126)]


def number_of(words: np.ndarray) -> int:
    """The integer of two words, read as bytes: little-endian, two's complement."""
    return int.from_bytes(words[:2].tobytes(), "little", signed=True)


@pytest.mark.parametrize("pair", list(itertools.product(EDGES, repeat=2)), ids=str)
def test_integers_of_two_words_are_added_with_their_carries(pair):
    total = np.zeros(3, np.int64)
    for rows, integer in enumerate(pair, 1):
        add_whole(total, integer, rows)
    assert number_of(total) == sum(pair)
    assert total[2] == 3


def test_words_without_a_carry_are_found():
    """The broken twin adds each word by itself."""
    words = np.zeros(2, np.uint64)
    for integer in (2**64 - 1, 1):
        words += np.frombuffer(integer.to_bytes(16, "little", signed=True), np.uint64)
    assert number_of(words) != 2**64


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_the_whole_table_sum_to_their_fractions(seed):
    """Eighths between and beyond the bounds, in pieces with and without the codes of their group, in totals that are merged."""
    rng = np.random.default_rng(seed)
    low, high = sorted((rng.integers(-(2**20), 2**20, 2) / 8).tolist())
    high += 1
    values = rng.integers(-(2**24), 2**24, 4000) / 8
    exact = sum(min(max(Fraction(value), Fraction(low)), Fraction(high)) for value in values.tolist())
    totals = [SumsOfGroups(1, low, high) for _ in range(3)]
    for place, piece in enumerate(np.array_split(values, 11)):
        totals[place % 3].add(piece, np.zeros(len(piece), np.int32) if place % 2 else None)
    first, *others = totals
    for other in others:
        first += other
    (integer,) = first.sums.integers
    assert integer * Fraction(first.sums.grid) == exact
    assert first.counts.tolist() == [4000]
