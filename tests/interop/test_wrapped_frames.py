"""Frames of Narwhals and tables of Ibis: they answer as the frames below them, and are read when they are asked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, PrivateTable
from dpcore.accounting import Ledger
from dpcore.errors import StorageError
from dpcore.frames.sources import is_frame, records_of, source_of
from dpcore.testing import KeyedRandom

narwhals = pytest.importorskip("narwhals", reason="pip install '.[test]'")

N = 2_000
COLUMNS = {
    "person": np.arange(N) % 500,
    "region": np.array(["north", "south"])[np.arange(N) % 2],
    "age": (np.arange(N) * 7) % 90,
}


def frames():
    table = pa.table(COLUMNS)
    yield "pandas", narwhals.from_native(pd.DataFrame(COLUMNS))
    yield "polars", narwhals.from_native(pl.DataFrame(COLUMNS))
    yield "polars, lazy", narwhals.from_native(pl.LazyFrame(COLUMNS))
    yield "pyarrow", narwhals.from_native(table)
    import duckdb

    yield "duckdb", narwhals.from_native(duckdb.from_arrow(table))
    import narwhals.stable.v1 as stable

    yield "stable", stable.from_native(pl.DataFrame(COLUMNS))


def answers(frame, **options):
    """Some answers under one key: a mean, counts of groups, and an exact count."""
    table = PrivateTable(frame, rng=KeyedRandom(bytes(32)), **options)
    mean = table.mean("age", epsilon=1.0, lower=0, upper=100, missing=0)
    count = table.where("age > 30").count(epsilon=1.0)
    groups = table.group_by("region", groups=["north", "south"]).mean("age", epsilon=1.0, lower=0, upper=100, missing=0)
    return mean.value, count.value, list(groups.value)


@pytest.mark.parametrize("options", [{}, {"unit": "person", "max_rows_per_unit": 2}], ids=["rows", "persons"])
def test_a_frame_of_narwhals_answers_as_the_frame_below_it(options):
    expected = answers(pa.table(COLUMNS), **options)
    for name, frame in frames():
        assert answers(frame, **options) == expected, name


def test_an_object_column_of_pandas_is_read_by_the_rule_of_pandas():
    """Through the Arrow stream of Narwhals one cell would decide how the others are read, or whether all can be."""
    frame = pd.DataFrame({"x": pd.Series(["1", "2", 3.5], dtype=object)})
    assert source_of(narwhals.from_native(frame)).info().schema.field("x").type == source_of(frame).info().schema.field("x").type
    rows = records_of(narwhals.from_native(frame), ["x"])
    assert rows == records_of(frame, ["x"])


def test_what_is_below_is_what_messages_name():
    with pytest.raises(ParameterTypeError, match="frame must be a table, got a Series of Narwhals"):
        PrivateTable(narwhals.from_native(pl.Series([1, 2]), series_only=True))
    assert is_frame(narwhals.from_native(pl.LazyFrame(COLUMNS)))
    assert not is_frame(narwhals.from_native(pl.Series([1, 2]), series_only=True))


# Ibis


@pytest.fixture(scope="module")
def ibis():
    return pytest.importorskip("ibis", reason="pip install '.[test]'")


def test_a_table_of_ibis_answers_as_its_rows(ibis):
    table = ibis.memtable(pa.table(COLUMNS))
    for options in ({}, {"unit": "person", "max_rows_per_unit": 2}):
        assert answers(table, **options) == answers(pa.table(COLUMNS), **options)
    older = table.filter(table.age > 30).mutate(half=table.age // 2)
    assert source_of(older).info().names == ("person", "region", "age", "half")
    mean = PrivateTable(older, rng=KeyedRandom(bytes(32))).mean("half", epsilon=1e6, lower=0, upper=50, missing=0)
    assert mean.value == pytest.approx(np.mean([a // 2 for a in COLUMNS["age"] if a > 30]), abs=0.01)


def test_ibis_evaluates_when_a_query_runs_and_only_its_columns(ibis, tmp_path):
    """A row that fails: not when the table is made, but in the query that reads its column, and the charge stays."""
    table = ibis.memtable(pa.table({"x": [1, 2, 3], "text": ["1", "2", "secret 31337"]}))
    failing = table.mutate(number=table.text.cast("int64"))
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0)
    private = PrivateTable(failing, ledger=ledger.path)
    assert isinstance(private.mean("x", epsilon=1.0, lower=0, upper=10, missing=0).value, float)
    with pytest.raises((DataError, StorageError, ParameterError)) as caught:
        private.mean("number", epsilon=1.0, lower=0, upper=10, missing=0)
    assert "31337" not in str(caught.value)
    assert ledger.spent.epsilon == 2.0
