"""A table of people with rows of many types, some of them equal, and a keyed job about it whose units choose rows, groups and values."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpcore.batch import make_release_plan, parse_release_job, release
from support.jobs import KEY

SOURCE = np.random.default_rng(18)
ROWS = 900
GROUPED = {"group_by": "region", "groups": ["north", "south"]}
QUERIES: list[dict[str, Any]] = [
    {"name": "rows", "kind": "count"},
    {"name": "cost", "kind": "sum", "column": "cost", "lower": 0, "upper": 90, "missing": 0},
    {"name": "by region", "kind": "mean", "column": "cost", "lower": 0, "upper": 90, "missing": "skip", **GROUPED},
    {"name": "regions", "kind": "count_distinct", "column": "region", "max_values_per_unit": 1},
    {"name": "people", "kind": "count_distinct"},
    {"name": "levels by region", "kind": "count_distinct", "column": "level", "k": 9, "max_values_per_unit": 2, **GROUPED},
]
PRIVACY = {"unit": "person", "max_rows_per_unit": 3, "max_groups_per_unit": 1}


def table() -> pa.Table:
    """Rows of about ninety people, some of them equal."""
    chosen = SOURCE.integers(0, 4, ROWS)
    cost = np.round(SOURCE.gamma(2.0, 10.0, ROWS))
    return pa.table(
        {
            "person": pa.array([f"p{i}" for i in SOURCE.integers(0, 90, ROWS)], mask=SOURCE.integers(0, 20, ROWS) == 0),
            "region": pa.array(np.array(["north", "south", "east", "NA?"])[chosen]),
            "cost": pa.array(cost + (cost > 30) * 0.1, mask=SOURCE.integers(0, 9, ROWS) == 0),
            "level": pa.array(SOURCE.integers(0, 9, ROWS)),
            "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(int(days)) for days in SOURCE.integers(0, 5, ROWS)]),
            "at": pa.array(1_600_000_000 + SOURCE.integers(0, 3, ROWS) * 3600).cast(pa.timestamp("s")),
            "new": pa.array(SOURCE.integers(0, 2, ROWS).astype(bool)),
        }
    )


TABLE = table()
OTHER_TYPES = {
    "person": pa.large_string(),
    "cost": pa.decimal128(9, 1),
    "level": pa.uint8(),
    "day": pa.timestamp("us"),
    "at": pa.timestamp("ns"),
    "new": pa.int8(),
}


def shuffled(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(SOURCE.permutation(len(rows))))


def job_of(source: Path, **changed: Any) -> dict[str, Any]:
    """The job about a table with these rows."""
    return {
        "version": 1,
        "input": {"path": str(source)},
        "output": {"path": str(source.parent / "answers.json")},
        "privacy": {"max_epsilon": 99.0, "max_delta": 0.1, **PRIVACY},
        "testing": {"key_hex": KEY.hex()},
        "query": [{"epsilon": 1.0, **query} for query in QUERIES],
        **changed,
    }


def answers(source: Path) -> list[Any]:
    """The numbers that it releases on one machine."""
    return [query["value"] for query in release(make_release_plan(parse_release_job(job_of(source)), overwrite=True))["queries"]]
