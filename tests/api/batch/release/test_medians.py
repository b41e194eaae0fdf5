"""Medians, and quantiles of several levels: they come in order, and that makes no error larger."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from support.jobs import write_table
from support.releases import Counter

GRID = list(range(10))


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def test_a_median_is_the_quantile_at_one_half(place):
    write_table(pa.table({"x": np.arange(100) % 10, "g": ["a", "b"] * 50}), place.source)
    grouped = {"group_by": "g", "groups": ["a", "b"]}
    both = [{"kind": "median"}, {"kind": "quantile", "q": 0.5}]
    for groups in ({}, grouped):
        answers = []
        for each in both:
            place.write_release({"m": {**each, **groups, "column": "x", "grid": GRID}}, epsilon=0.1)
            answers.append(place.answered()["m"])
        assert {key for key in answers[0] if answers[0][key] != answers[1][key]} == {"kind"}
        assert answers[0]["q"] == 0.5


def test_the_terminal_and_the_page_show_a_median(place):
    write_table(pa.table({"x": [4] * 100}), place.source)
    place.write_release({"m": {"kind": "median", "column": "x", "grid": GRID}}, epsilon=1e3)
    done = place.release("--table", "--report", place.folder / "report")
    assert done.code == 0, done.said
    assert "median  4 (rank ± 1 row)" in done.out
    text = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")
    assert "The median of x." in text
    assert "Chosen from a grid of 10 points." in text


def test_quantiles_of_several_levels_come_in_order(place):
    """With next to no ε the points are about uniform, so that without sorting nearly every list would be out of order."""
    write_table(pa.table({"x": np.arange(100) % 10}), place.source)
    levels = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    place.write_release({f"q{i}": {"kind": "quantile", "column": "x", "q": levels, "grid": GRID} for i in range(5)}, epsilon=1e-6)
    for answer in place.answered().values():
        assert answer["value"] == sorted(answer["value"])
        assert len(set(answer["rank_error"])) == 1


def test_sorting_makes_no_miss_larger():
    """All choices of three points from a grid, against all levels: the largest distance in rows never grows."""
    for counts in ([3, 0, 2, 1], [0, 5, 0, 1], [1, 1, 1, 1]):
        upto = np.cumsum(counts)
        for levels in itertools.combinations(range(1, 12, 2), 3):
            wanted = np.array(levels) / 12 * upto[-1]
            for chosen in itertools.product(range(4), repeat=3):
                largest = [misses(upto, counts, wanted, points).max() for points in (np.array(chosen), np.sort(chosen))]
                assert largest[1] <= largest[0]


def misses(upto, counts, wanted, points):
    """Rows between each wanted rank and those of the chosen point."""
    return np.maximum(0, np.maximum(upto[points] - np.take(counts, points) - wanted, wanted - upto[points]))
