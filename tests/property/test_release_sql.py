"""Random tables through whole jobs whose noise rounds away, beside DuckDB's own answers on the same file, which know nothing of tallies.

Tables have nulls, infinities, odd strings and NaN, which is NULL in jobs; they are read in several pieces. No unit has more rows than it
may, so that all rows take part.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.batch import make_release_plan, parse_release_job, release
from support.jobs import write_table

duckdb = pytest.importorskip("duckdb")

ODD = ["", " ", "a", "A", "a ", "null", "NaN", "0", "' OR 1=1 --", "ü\u0308", "\U0001f600", "long " * 80, 'say "x"', "%_\\"]
NUMBERS = [0.0, -0.0, 0.1, -2.5, 3.0, 7.25, 1e9, -1e9, float("inf"), float("-inf"), float("nan"), 5e-324, None]
EDGES = [-4.0, -1.0, 0.0, 0.1, 3.0, 8.0]
FIRST = dt.date(2023, 11, 17)
MONTHS = {"by": "month", "first": "2023-12-01", "last": "2024-02-29"}
NOISELESS = {"sum": 1e12, "mean": 1.8e6, "geometric_mean": 1.8e6, "var": 3.6e6, "covariance": 3.6e6}
"""ε by kind, 9·10^5 for integers: noise of a smaller scale there is not. Then no integer moves, and few numbers by more than `NEAR`."""
NEAR = {"sum": 1e-5, "mean": 2e-3, "geometric_mean": 2e-3, "rate": 1e-15, "var": 2e-2, "covariance": 2e-2}
WHERE = "x > -1 AND (region IS NULL OR region <> 'a') OR code % 3 = 1"
DERIVE = [
    {"name": "band", "sql": "CASE WHEN x IS NULL THEN 'none' WHEN x < 0 THEN 'low' ELSE 'high' END"},
    {"name": "twice", "sql": "code * 2 + length(region)"},
]
BANDS = ["none", "low", "high"]
REGIONS = {"region": {"values": ODD, "null": True}}
LIST = {"group_by": "region", "groups": ODD}
TWO = {"group_by": ["region", "code"], "groups": {**REGIONS, "code": {"k": 6, "null": True}}}
X = {"column": "x", "lower": -4.0, "upper": 8.0, "missing": "skip"}
CLAMPED, THERE = "greatest(-4.0, least(8.0, x))", "x IS NOT NULL"
BIN = "CASE WHEN x >= -4 AND x <= 8 THEN least((x >= -1)::int + (x >= 0)::int + (x >= 0.1)::int + (x >= 3)::int + (x >= 8)::int, 4) END"
ASKED = {
    "rows": ({"kind": "count"}, "SELECT count(*) FROM t"),
    "rows of a list": ({"kind": "count", **LIST}, "SELECT region, count(*) FROM t GROUP BY 1"),
    "rows of two columns": ({"kind": "count", **TWO}, "SELECT region, code, count(*) FROM t GROUP BY 1, 2"),
    "rows of bins": (
        {"kind": "count", "group_by": ["x"], "groups": {"x": {"edges": EDGES}}},
        f"SELECT {BIN}, count(*) FROM t WHERE {THERE} GROUP BY 1",
    ),
    "rows of months": (
        {"kind": "count", "group_by": ["day", "band"], "groups": {"day": MONTHS, "band": BANDS}},
        "SELECT left(day::varchar, 7), band, count(*) FROM t GROUP BY 1, 2",
    ),
    "rows with a number": ({"kind": "count", "column": "x", "missing": "skip", **LIST}, "SELECT region, count(x) FROM t GROUP BY 1"),
    "rows between": ({"kind": "count", "column": "x", "lower": 0, "upper": 7.25}, "SELECT count(*) FROM t WHERE x BETWEEN 0 AND 7.25"),
    "rows that pass": ({"kind": "count", "where": WHERE, **TWO}, f"SELECT region, code, count(*) FROM t WHERE {WHERE} GROUP BY 1, 2"),
    "cells": (
        {"kind": "histogram", "column": "code", "k": 6, "missing": "skip", "unknown": "skip"},
        "SELECT code, count(*) FROM t GROUP BY 1",
    ),
    "sum": ({"kind": "sum", **X}, f"SELECT sum({CLAMPED}) FROM t WHERE {THERE}"),
    "sums": ({"kind": "sum", **X, **TWO}, f"SELECT region, code, sum({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1, 2"),
    "sums that pass": (
        {"kind": "sum", **X, "where": WHERE, **LIST},
        f"SELECT region, sum({CLAMPED}) FROM t WHERE {THERE} AND ({WHERE}) GROUP BY 1",
    ),
    "means": ({"kind": "mean", **X, **LIST}, f"SELECT region, avg({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1"),
    "means of what is derived": (
        {"kind": "mean", "column": "twice", "lower": 0, "upper": 30, "missing": "skip", "group_by": "band", "groups": BANDS},
        "SELECT band, avg(greatest(0, least(30, twice))) FROM t WHERE twice IS NOT NULL GROUP BY 1",
    ),
    "geometric means": (
        {"kind": "geometric_mean", "column": "x", "lower": 0.1, "upper": 8.0, "missing": "skip", **LIST},
        f"SELECT region, exp(avg(ln(greatest(0.1, least(8.0, x))))) FROM t WHERE {THERE} GROUP BY 1",
    ),
    "rates": (
        {"kind": "rate", "column": "code", "categories": [1, 2, 3], **TWO},
        "SELECT region, code, avg((coalesce(code, 0) IN (1, 2, 3))::int) FROM t GROUP BY 1, 2",
    ),
    "rates that pass": (
        {"kind": "rate", "column": "x", "lower": 0, "upper": 7.25, "missing": "skip", "where": WHERE, **LIST},
        f"SELECT region, avg((x BETWEEN 0 AND 7.25)::int) FROM t WHERE {THERE} AND ({WHERE}) GROUP BY 1",
    ),
    "modes": (
        {"kind": "mode", "column": "code", "k": 6, "where": WHERE, **LIST},
        f"SELECT region, list(code) FROM (SELECT region, code, rank() OVER (PARTITION BY region ORDER BY count(*) DESC) place FROM t "
        f"WHERE code < 6 AND ({WHERE}) GROUP BY region, code) WHERE place = 1 GROUP BY 1",
    ),
    "variances": ({"kind": "var", "ddof": 0, **X, **LIST}, f"SELECT region, var_pop({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1"),
    "covariance": (
        {"kind": "covariance", "ddof": 0, "columns": ["x", "code"], "lower": [-4, 0], "upper": [8, 9], "missing": "skip"},
        f"SELECT covar_pop({CLAMPED}, greatest(0, least(9, code))) FROM t WHERE {THERE} AND code IS NOT NULL",
    ),
    "looked up": (
        {"kind": "sum", "column": "weight", "lower": -10, "upper": 10, "missing": "skip", "group_by": "sort", "groups": ["p", "q"]},
        "SELECT sort, sum(greatest(-10, least(10, weight))) FROM t WHERE weight IS NOT NULL GROUP BY 1",
    ),
    "values": ({"kind": "count_distinct", "column": "region", "max_values_per_unit": 1000}, "SELECT count(DISTINCT region) FROM t"),
    "values of bands": (
        {"kind": "count_distinct", "column": "region", "max_values_per_unit": 1000, "group_by": "band", "groups": BANDS},
        "SELECT band, count(DISTINCT region) FROM t GROUP BY 1",
    ),
}  # fmt: skip
OF_UNITS = {
    "units": ({"kind": "count_distinct"}, "SELECT count(DISTINCT person) + count(*) FILTER (person IS NULL) FROM t"),
    "units of a list": (
        {"kind": "count_distinct", **LIST},
        "SELECT region, count(DISTINCT person) + count(*) FILTER (person IS NULL) FROM t GROUP BY 1",
    ),
    "sums of units": (
        {"kind": "sum", "column": "x", "lower": -4.0, "upper": 8.0, "missing": "skip", "max_sum_per_unit": 1e3, **LIST},
        f"SELECT region, sum({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1",
    ),
}


def random_table(rng, rows):
    """Rows of which some share everything, and of which each column has nulls."""

    def some(values, kind):
        return pa.array([values[place] for place in rng.integers(0, len(values), rows)], kind)

    return pa.table(
        {
            "person": some([None, *range(rows // 3 + 1)], pa.int64()),
            "region": some([None, None, "elsewhere", *ODD], pa.string()),
            "code": some([None, *range(9)], pa.int64()),
            "x": some(NUMBERS, pa.float64()),
            "day": some([None, *(FIRST + dt.timedelta(days) for days in range(0, 140, 3))], pa.date32()),
        }
    )


def public_table(rng):
    """Some codes, and columns of them, with nulls."""
    codes = rng.permutation(9)[:7]
    return pa.table(
        {
            "code": codes,
            "weight": pa.array([None if place == 2 else float(place * 3 - 9) for place in range(7)]),
            "sort": pa.array([["p", "q", None][place % 3] for place in range(7)]),
        }
    )


def document_of(folder, source, asked, of_units, rows):
    """The answers of a job."""
    unit = {"unit": "person", "max_rows_per_unit": rows, "null_unit": "own"} if of_units else {}
    queries = [{"name": name, "epsilon": NOISELESS.get(query["kind"], 9e5), **query} for name, (query, _) in asked.items()]
    for query in queries if not of_units else []:
        query.pop("max_values_per_unit", None)
    job = {
        "version": 1, "input": {"path": str(source)}, "output": {"path": str(folder / "o.json")}, "query": queries, "derive": DERIVE,
        "privacy": {"max_epsilon": 1e14, "relation": "add_remove", **unit},
        "lookup": [{"path": str(folder / "codes.parquet"), "key": "code", "columns": ["weight", "sort"]}],
    }  # fmt: skip
    return release(make_release_plan(parse_release_job(job), overwrite=True), piece_rows=17)


def keys_of(query):
    """The groups of an answer as tuples; the categories of a histogram, and bins by their number."""
    groups = query["groups"] if "groups" in query else query.get("categories")
    if groups is None:
        return [()]
    columns = list(groups.values()) if isinstance(groups, dict) else [groups]
    columns = [[EDGES.index(key[0]) if isinstance(key, list) else key for key in column] for column in columns]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 300))])
def test_answers_without_noise_are_those_of_sql(tmp_path, seed):
    rng = np.random.default_rng([16, seed])
    rows = int(rng.integers(0, 6)) if seed % 10 == 9 else int(rng.integers(20, 400))
    table = random_table(rng, rows)
    source = write_table(table, tmp_path / "in.parquet", row_group_rows=int(rng.integers(1, 60)))
    write_table(public_table(rng), tmp_path / "codes.parquet")
    asked = ASKED | (OF_UNITS if seed % 2 else {})
    most = max(Counter(table["person"].to_pylist()).values(), default=1)
    document = document_of(tmp_path, source, asked, seed % 2 == 1, most)
    sql = duckdb.connect(":memory:", config={"threads": 1})
    # Read by pyarrow: from a file DuckDB takes statistics that leave NaN out, and then finds none.
    sql.register("input", pq.read_table(source))
    derived = ", ".join(f"{each['sql']} AS {each['name']}" for each in DERIVE)
    sql.execute(
        f"CREATE TABLE t AS WITH i AS (SELECT * REPLACE (CASE WHEN isnan(x) THEN NULL ELSE x END AS x) FROM input) "
        f"SELECT i.*, {derived}, weight, sort FROM i LEFT JOIN read_parquet('{tmp_path / 'codes.parquet'}') c USING (code)"
    )
    for query, (_, statement) in zip(document["queries"], asked.values(), strict=True):
        truth = {row[:-1]: row[-1] for row in sql.execute(statement).fetchall()}
        values = query["value"] if isinstance(query["value"], list) else [query["value"]]
        for key, value in zip(keys_of(query), values, strict=True):
            if query["kind"] == "mode":  # noise decides among those that are equally frequent
                assert value in truth.get(key, range(6)), (query["name"], key)
            elif query["kind"] not in NEAR:
                assert value == truth.get(key, 0), (query["name"], key)
            elif query["kind"] == "sum" or truth.get(key) is not None:  # a mean of no row has no truth
                assert value == pytest.approx(truth.get(key) or 0.0, rel=1e-9, abs=NEAR[query["kind"]]), (query["name"], key)
