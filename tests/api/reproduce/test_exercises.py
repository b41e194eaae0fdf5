"""The table in the package, and what the sections about the exercises of Private inference (chapter 9) are made of."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from dpcore.inference import functional_regression
from dpcore.inference.functional import coefficient_sensitivity
from dpcore.reproduce import Setting
from dpcore.reproduce.real_data import COLUMNS, visits
from dpcore.reproduce.studies import exercises
from dpcore.testing import KeyedRandom

TABLE = Path(__file__).resolve().parents[3] / "examples" / "randhie.parquet"


@pytest.mark.source_tree
def test_the_table_in_the_package_is_that_of_the_examples():
    parquet = pytest.importorskip("pyarrow.parquet")
    source, table = parquet.read_table(TABLE), visits()
    column = {name: source[name].to_numpy() for name in source.column_names if name != "health"}
    assert table.x.shape == (source.num_rows, len(COLUMNS))
    assert np.array_equal(np.rint(np.expm1(table.y + 1)).astype(int), column["mdvis"])
    assert np.array_equal(table.any_visit, column["mdvis"] > 0)
    assert table.x[:, 1] * math.log(101) == pytest.approx(column["lncoins"], abs=1e-5)
    for place, name, unit in ((2, "idp", 1), (3, "lpi", 8), (4, "fmde", 9), (5, "physlm", 1), (6, "disea", 60), (9, "hlthp", 1)):
        assert table.x[:, place] * unit == pytest.approx(column[name], abs=1e-5)


def test_rows_lie_within_their_public_bounds():
    table = visits()
    assert table.x.min() >= 0
    assert table.x.max() <= 1
    assert (table.x[:, 7:].sum(axis=1) <= 1).all()
    assert np.linalg.norm(table.x, axis=1).max() <= table.x_radius == math.sqrt(8)
    assert np.abs(table.y).max() <= table.y_radius
    with pytest.raises(ValueError, match="read-only"):
        table.x[0, 0] = 2.0


def test_the_predicted_distance_is_the_measured_one():
    x, y = exercises._simulated(20_000, KeyedRandom(bytes(32)))
    exact = exercises._exact(x, y)
    streams = [KeyedRandom(bytes([i, 7]) * 16) for i in range(60)]
    fits = [functional_regression(x, y, 1.0, x_radius=1.0, y_radius=2.0, rng=stream) for stream in streams]
    square = float(np.mean([np.square(fit.value - exact).sum() for fit in fits]))
    assert math.sqrt(square) == pytest.approx(exercises._predicted(20_000, 1.0), rel=0.25)


def test_a_search_reaches_the_sensitivity_of_one_column_and_none_exceeds_it():
    found = exercises._reached(1, Setting(2))
    assert 0.99 * coefficient_sensitivity(1) < found <= coefficient_sensitivity(1)
    assert exercises._reached(5, Setting(2, quick=True)) <= coefficient_sensitivity(5)
