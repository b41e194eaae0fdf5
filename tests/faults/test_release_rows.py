"""Rows that do not fit their declaration end a release with exit code 3, a position, no value, no output, and nothing spent."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpcore.accounting import Ledger
from dpcore.tables.formats import parquet as parquet_input
from support.jobs import FORMATS, write_table
from support.refusals import refused_row
from support.releases import Counter

SECRET = "48151623"
NUMBER = int(SECRET)
UNKNOWN = "not one of the declared categories, and the job declares no `unknown` for this column"
MISSING = "null, and the job declares no `missing` for this column"
NAN = "empty or not a number, and the job declares no `missing` for this column"
CELLS = {"kind": "histogram", "column": "n", "categories": ["a", "b"]}
CODES = {"kind": "histogram", "column": "n", "k": 2}
BINS = {"kind": "histogram", "column": "n", "edges": [0, 1, 2]}
SUM = {"kind": "sum", "column": "n", "lower": 0, "upper": 2}
MEAN = {"kind": "mean", "column": "n", "lower": 0, "upper": 2}
MEDIAN = {"kind": "quantile", "column": "n", "q": 0.5, "grid": [0, 1]}


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def refused(place, *words):
    refused_row(place, place.release, SECRET, *words)


@pytest.mark.some(16)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize(
    ("cells", "query", "row", "problem"),
    [
        (["a", "b", SECRET], CELLS, 2, UNKNOWN),
        (["a", None, SECRET], CELLS, 1, MISSING),
        (["a", SECRET, None], {**CELLS, "unknown": "a"}, 2, MISSING),
        (["a", None, SECRET], {**CELLS, "missing": "a"}, 2, UNKNOWN),
        ([0, 1, NUMBER], CODES, 2, UNKNOWN),
        ([0, -1, 1], CODES, 1, UNKNOWN),
        ([0, None, NUMBER], CODES, 1, MISSING),
        ([0.5, None, float(SECRET)], BINS, 1, NAN),
        ([1, None, NUMBER], SUM, 1, NAN),
        ([1, None, NUMBER], MEAN, 1, NAN),
        ([1.5, None, float(SECRET)], MEDIAN, 1, NAN),
    ],
)
def test_cells_that_a_declaration_does_not_cover(place, source, cells, query, row, problem):
    place.source = write_table(pa.table({"m": ["-"] * 3, "n": cells}), place.folder / f"in.{source}")
    place.write_release({"x": query})
    refused(place, f"in.{source}: row {row} (counted from 0), column 'n': {problem}")


@pytest.mark.parametrize("query", [BINS, SUM, MEAN, MEDIAN])
def test_a_nan_without_missing(place, query):
    write_table(pa.table({"n": [0.5, float("nan"), None]}), place.source)
    place.write_release({"x": query})
    refused(place, f"row 1 (counted from 0), column 'n': {NAN}")
    write_table(pa.table({"n": pa.array([1e5, -1e5, float("inf"), float("-inf"), 1e-320])}), place.source)
    assert place.release().code == 0


@pytest.mark.parametrize(
    "query",
    [
        {"kind": "count"},
        {"kind": "count", "column": "n", "categories": ["a"]},
        {"kind": "top_s", "column": "n", "candidates": ["a", "b"], "s": 1},
        {"kind": "count", "group_by": "n", "groups": ["b"]},
    ],
)
def test_what_counts_only_what_it_names_needs_no_declaration_of_others(place, query):
    write_table(pa.table({"n": ["a", None, SECRET]}), place.source)
    place.write_release({"x": query}, epsilon=100.0)
    assert place.release().code == 0


@pytest.mark.parametrize(
    ("cell", "query", "problem"),
    [
        (SECRET + "x", SUM, NAN),
        (SECRET + "x", CODES, MISSING),
        (SECRET + ".5", {**CODES, "unknown": 0}, MISSING),
        (SECRET * 9, {**CODES, "missing": 0}, UNKNOWN),
    ],
)
def test_csv_cells_that_do_not_parse_are_missing(place, cell, query, problem):
    place.source = place.folder / "in.csv"
    place.source.write_text(f"m,n\na,1\nb,{cell}\n")
    place.write_release({"x": query})
    refused(place, f"in.csv: row 1 (counted from 0), column 'n': {problem}")
    place.write_release({"x": {"kind": "count", "column": "n", "lower": 0, "upper": 1}})
    assert place.answered()["x"]["value"] in range(-40, 40)


def test_the_first_bad_row_of_several_files(place):
    place.source = place.folder / "in"
    write_table(pa.table({"n": [1.0, 2.0]}), place.source / "a.parquet")
    write_table(pa.table({"n": [1.0, None, None]}), place.source / "b.parquet")
    place.write_release({"x": SUM})
    refused(place, "b.parquet: row 1 (counted from 0), column 'n'")


def test_a_row_that_would_be_dropped_is_checked_as_well(place):
    """Whether a table is refused must not depend on the random choice of rows."""
    write_table(pa.table({"person": [0] * 50, "n": [1.0] * 49 + [None]}), place.source)
    place.write_release({"x": SUM}, privacy={"unit": "person", "max_rows_per_unit": 1})
    refused(place, "row 49 (counted from 0), column 'n'")


@pytest.mark.parametrize("query", [{**CELLS, "unknown": "a"}, {**CELLS, "missing": "a"}, CODES, BINS, SUM, MEAN, MEDIAN])
def test_with_a_ledger_what_is_not_declared_is_refused_before_a_row_is_read(place, query, monkeypatch):
    """Whether a row ends a job is an answer about the data: repeated, it gave exact values for nothing."""
    ledger = Ledger.create(place.folder / "budget.ledger", epsilon=1.0)
    write_table(pa.table({"n": ["a", "b"] if "categories" in query else [0, 1]}), place.source)
    place.write_release({"x": query}, ledger=ledger.path)
    monkeypatch.setattr(parquet_input, "pieces", None)
    done = place.release()
    assert done.code == 2, done.said
    assert "must be declared where a ledger pays" in done.err
    assert list(ledger.entries()) == []
    assert place.left_behind() == []


def test_a_curator_has_no_ledger(place):
    ledger = Ledger.create(place.folder / "budget.ledger", epsilon=1.0)
    write_table(pa.table({"n": [1.0, None]}), place.source)
    place.write_release({"x": {**SUM, "missing": 0}}, ledger=ledger.path, key=None)
    done = place.release("--curator")
    assert done.code == 2
    assert "--curator is for jobs without a [ledger]" in done.err
    assert place.release().code == 0
