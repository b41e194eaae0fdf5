"""Columns of synthetic tables with a step: decimals as people write them, each in its bin and each equally likely."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.privacy import as_written
from dpcore.query.encoders import Bins
from dpcore.query.made_rows import TableColumn, multiples
from dpcore.testing import KeyedRandom
from support.jobs import refused, write_table
from support.laws import ERROR_RATE, p_value
from support.releases import Counter

KEY = bytes(range(32))


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(pa.table({"cost": np.arange(400) / 7.0}), place.source)
    return place


def query(place, **column):
    costs = {"name": "cost", "edges": [0.0, 10.0, 30.25, 60.0], "missing": 0.0}
    return place.synthetic("csv", columns=[costs | column], draws=5000)


def test_a_csv_has_the_decimals_of_the_step(place):
    place.write_release({"x": query(place, step=0.01)}, epsilon=1e5)
    (answer,) = place.answers()["queries"]
    assert answer["columns"][0]["step"] == 0.01
    cells = (place.target.parent / "made.csv").read_text(encoding="utf-8").split()[1:]
    assert len(cells) == 5000
    assert all(re.fullmatch(r"\d{1,2}(\.\d{1,2})?", cell.strip('"')) for cell in cells), cells[:5]
    assert any(re.fullmatch(r"\d+\.\d\d", cell) for cell in cells)


def test_without_a_step_nothing_changes(place):
    place.write_release({"x": query(place)}, epsilon=1e5)
    (answer,) = place.answers()["queries"]
    assert "step" not in answer["columns"][0]
    cells = (place.target.parent / "made.csv").read_text(encoding="utf-8").split()[1:]
    assert sum(len(cell) > 12 for cell in cells) > 4000


@pytest.mark.parametrize("step", [0.01, 0.25, 0.1, 3.0, 1e-6])
def test_values_are_the_floats_nearest_to_multiples_and_lie_in_their_bins(step):
    edges = (-3.0, 0.0, 10.0, 30.25)
    column = TableColumn("x", Bins.between(edges, 0.0), step=step)
    codes = np.repeat(np.arange(3), 2000)
    values = column.values(codes, KeyedRandom(KEY)).to_numpy()
    for value, code in zip(values.tolist(), codes.tolist(), strict=True):
        written = Fraction(Decimal(repr(value)))
        assert (written / as_written(step)).denominator == 1
        assert as_written(edges[code]) <= written
        assert written < as_written(edges[code + 1]) or (code == 2 and written == as_written(edges[3]))
    starts, sizes = multiples(edges, step)
    assert sizes.sum() == (as_written(edges[-1]) / as_written(step)).__floor__() - starts[0] + 1


def test_multiples_of_a_bin_are_equally_likely():
    column = TableColumn("x", Bins.between((0.0, 1.0, 2.0), 0.0), step=0.1)
    values = column.values(np.ones(10**5, np.int64), KeyedRandom(KEY)).to_numpy()
    counts = np.bincount(np.rint(10 * values - 10).astype(int), minlength=11)
    assert p_value(counts, np.full(11, 1 / 11)) > ERROR_RATE
    assert p_value(counts, np.append(np.full(10, 1 / 10.5), 0.5 / 10.5)) < ERROR_RATE  # the last edge belongs to the last bin


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"step": 50.0}, "step must have a multiple in each bin, got 50.0"),
        ({"step": 1e-16}, "step must be at least"),
        ({"step": 0.01, "integers": True}, "step and integers say the same thing twice"),
        ({"step": 0.0}, "step must be"),
    ],
)
def test_steps_that_are_refused(place, column, words):
    place.write_release({"x": query(place, **column)}, epsilon=1.0)
    refused(place, words)
