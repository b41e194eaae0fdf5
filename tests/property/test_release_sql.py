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
from kinds import ORACLES
from kinds.tables import EDGES, FIRST, ODD
from support.jobs import write_table

duckdb = pytest.importorskip("duckdb")

NUMBERS = [0.0, -0.0, 0.1, -2.5, 3.0, 7.25, 1e9, -1e9, float("inf"), float("-inf"), float("nan"), 5e-324, None]
DERIVE = [
    {"name": "band", "sql": "CASE WHEN x IS NULL THEN 'none' WHEN x < 0 THEN 'low' ELSE 'high' END"},
    {"name": "twice", "sql": "code * 2 + length(region)"},
]


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
    queries = [{"name": name, "epsilon": oracle.epsilon, **oracle.keys} for name, oracle in asked.items()]
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
    asked = {name: oracle for name, oracle in ORACLES.items() if seed % 2 or not oracle.of_units}
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
    for query, oracle in zip(document["queries"], asked.values(), strict=True):
        truth = {row[:-1]: row[-1] for row in sql.execute(oracle.sql).fetchall()}
        values = query["value"] if isinstance(query["value"], list) else [query["value"]]
        for key, value in zip(keys_of(query), values, strict=True):
            expected = oracle.of_no_rows if truth.get(key) is None else truth[key]
            if oracle.is_choice:  # noise decides among those that are equally frequent
                assert value in truth.get(key, range(6)), (query["name"], key)
            elif expected is not None:  # a mean of no row has no truth
                assert value == pytest.approx(expected, rel=1e-9 if oracle.near else 0, abs=oracle.near), (query["name"], key)
