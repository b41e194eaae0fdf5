"""A release job with a query of every kind, in every combination of condition, groups and rows without a value, and a table for it."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.jobs import KEY

EPOCH = dt.date(1970, 1, 1).toordinal()
NUMBERS = {"column": "v", "lower": -1.0, "upper": 3.0, "missing": 2.0}
FOUND = {"column": "v", "missing": 2.0, "bounds": "private", "bounds_epsilon": 5.0}
GRID = {"column": "v", "grid": {"start": -1, "stop": 3, "step": 0.25}, "missing": 1}
KINDS: dict[str, dict[str, Any]] = {
    "rows": {"kind": "count"},
    "rows between": {"kind": "count", "column": "v", "lower": 1, "upper": 10},
    "rows with a value": {"kind": "count", "column": "v", "missing": "skip"},
    "rows of categories": {"kind": "count", "column": "c", "categories": [1, 2]},
    "categories": {"kind": "histogram", "column": "c", "k": 5, "missing": 0, "unknown": 1},
    "bins": {"kind": "histogram", "column": "v", "edges": [-10, 0, 10], "missing": 0},
    "sum": {"kind": "sum", **NUMBERS},
    "sum of decimals": {"kind": "sum", "column": "paid", "lower": 0, "upper": 50, "missing": 0},
    "sum of a unit": {"kind": "sum", "column": "v", "missing": 2.0, "max_sum_per_unit": 3.0},
    "mean": {"kind": "mean", **NUMBERS},
    "variance": {"kind": "var", **NUMBERS},
    "deviation": {"kind": "std", **NUMBERS},
    "covariance": {"kind": "covariance", "columns": ["v", "w"], "lower": [-1, 0], "upper": [3, 3], "missing": [2, 0]},
    "quantiles": {"kind": "quantile", **GRID, "q": [0.3, 0.75]},
    "median": {"kind": "median", **GRID},
    "top": {"kind": "top_s", "column": "c", "k": 5, "s": 2},
    "top with counts": {"kind": "top_s", "column": "c", "k": 5, "s": 2, "values": True},
    "units": {"kind": "count_distinct"},
    "values": {"kind": "count_distinct", "column": "code", "max_values_per_unit": 2},
    "numbers": {"kind": "count_distinct", "column": "v", "max_values_per_unit": 2},
    "declared values": {"kind": "count_distinct", "column": "c", "k": 5, "max_values_per_unit": 2},
    "found sum": {"kind": "sum", **FOUND},
    "found mean": {"kind": "mean", **FOUND},
    "found variance": {"kind": "var", **FOUND},
    "found median": {"kind": "median", **FOUND},
    "derived": {"kind": "mean", "column": "half", "lower": 0, "upper": 10, "missing": 0},
    "looked up": {"kind": "sum", "column": "weight", "lower": 0, "upper": 4, "missing": 0},
    "geometric mean": {"kind": "geometric_mean", "column": "v", "lower": 0.5, "upper": 3.0, "missing": 2.0},
    "mode": {"kind": "mode", "column": "c", "k": 5},
    "rate": {"kind": "rate", "column": "v", "lower": 1, "upper": 10},
}
MAY_SKIP = {"rate"}
"""Those that leave rows without a value out only if asked; others need a value for such rows otherwise."""
WHERE: dict[str, dict[str, Any]] = {"all": {}, "some": {"where": "p // q > 0 OR half > 2"}}
GROUPS: dict[str, dict[str, Any]] = {
    "one": {},
    "listed": {"group_by": "g", "groups": ["a", "b"]},
    "two": {"group_by": ["g", "day"], "groups": {"g": ["a", "b"], "day": {"by": "month", "first": "2013-01-01", "last": "2013-06-30"}}},
    "private": {"group_by": "g", "groups": "private"},
    "private pairs": {"group_by": ["g", "c"], "groups": "private"},
}
ABSENT: dict[str, dict[str, Any]] = {"filled": {}, "skipped": {"missing": "skip"}}
UNITS: dict[str, dict[str, Any]] = {
    "row": {},
    "person": {"unit": "person", "max_rows_per_unit": 3},
    "person of groups": {"unit": "person", "max_rows_per_unit": 4, "max_groups_per_unit": 2},
}
TYPES = {
    "person": pa.int64(), "v": pa.float64(), "w": pa.float64(), "g": pa.string(), "c": pa.int64(), "p": pa.int64(), "q": pa.int64(),
    "code": pa.string(), "day": pa.date32(), "paid": pa.decimal128(7, 2), "name": pa.string(),
}  # fmt: skip


def is_asked(name: str, groups: str, absent: str, unit: str) -> bool:
    """Whether a job may ask it."""
    keys = KINDS[name]
    if absent == "skipped" and "missing" not in keys and name not in MAY_SKIP:
        return False
    if unit == "person of groups" and groups in {"two", "private pairs", "private"}:
        return False  # one grouping in all grouped queries
    return unit != "row" or not (name == "units" or "max_sum_per_unit" in keys)


def queries(unit: str) -> Iterator[dict[str, Any]]:
    """All of them, as a job has them; queries for keys first."""
    if unit != "person of groups":
        for groups in ("private", "private pairs"):
            yield {"name": groups, "kind": "groups", "group_by": GROUPS[groups]["group_by"], "epsilon": 1.0, "delta": 0.001}
    for name, where, groups, absent in itertools.product(KINDS, WHERE, GROUPS, ABSENT):
        if is_asked(name, groups, absent, unit):
            query = KINDS[name] | WHERE[where] | GROUPS[groups] | ABSENT[absent]
            if unit == "row":
                query.pop("max_values_per_unit", None)
            yield {"name": " / ".join((name, where, groups, absent)), "epsilon": 10.0, **query}


def table(rows: int, people: int, seed: int = 1) -> pa.Table:
    """Rows with nulls, NaN, values beyond all bounds and in no group; people with many rows and with few, and rows of nobody."""
    index = np.arange(rows, dtype=np.int64) * 7919 + seed
    share = (index * 2654435761 % 2**32) / 2**32
    person = np.floor(people * share**2).astype(np.int64)
    v = np.round(8 * ((index * 40503 % 65536) / 65536 - 0.3), 2)
    v[index % 23 == 3] = np.nan
    columns: dict[str, list[Any]] = {
        "person": [None if i % 31 == 7 else int(each) for i, each in zip(index.tolist(), person, strict=True)],
        "v": [None if i % 19 == 5 else float(each) for i, each in zip(index.tolist(), v, strict=True)],
        "w": [float(i % 9) / 2 for i in index.tolist()],
        "g": [None if i % 29 == 4 else "abcde"[i % 17 % 5] for i in index.tolist()],
        "c": [None if i % 37 == 6 else int(i % 7) for i in index.tolist()],
        "p": [int(i % 4) for i in index.tolist()],
        "q": [int(i % 3) for i in index.tolist()],
        "code": [f"code {i % 101}" for i in index.tolist()],
        "day": [None if i % 41 == 8 else int(15706 + i % 400) for i in index.tolist()],
        "paid": [None if i % 43 == 9 else int(i % 9999) for i in index.tolist()],
        "name": [f"name of {each}" for each in person.tolist()],
    }
    columns["paid"] = [None if each is None else Decimal(each).scaleb(-2) for each in columns["paid"]]
    columns["day"] = [None if each is None else dt.date.fromordinal(EPOCH + each) for each in columns["day"]]
    arrays = {name: pa.array(cells, TYPES[name]) for name, cells in columns.items()}
    return pa.table({name: arrays[name] for name in TYPES})


def weights(folder: Path) -> Path:
    """A public table that is looked up."""
    path = folder / "weights.parquet"
    pq.write_table(pa.table({"g": ["a", "b", "c"], "weight": [0.5, 1.25, 3.0]}), path)
    return path


def document(folder: Path, unit: str, *, relation: str = "replace", key: bytes | None = KEY, where: str | None = None) -> dict[str, Any]:
    """The job, without input and output."""
    return {
        "version": 1,
        "privacy": {"max_epsilon": 1e9, "max_delta": 0.5, "relation": relation, **UNITS[unit]},
        "lookup": [{"path": str(weights(folder)), "key": "g", "columns": ["weight"]}],
        "derive": [{"name": "half", "sql": "w / 2 + p // q"}],
        "query": list(queries(unit)),
        **({} if where is None else {"where": where}),
        **({} if key is None else {"testing": {"key_hex": key.hex()}}),
    }


def job_text(job: dict[str, Any]) -> str:
    """A job file."""
    lines = [f"{key} = {_literal(value)}" for key, value in job.items() if not _has_tables(value)]
    for key, value in job.items():
        for each in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
            lines += [
                f"[[{key}]]" if isinstance(value, list) else f"[{key}]",
                *(f"{name} = {_literal(cell)}" for name, cell in each.items()),
            ]
    return "\n".join(lines) + "\n"


def _has_tables(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_literal(each)}" for key, each in value.items()) + "}"
    return f"[{', '.join(map(_literal, value))}]" if isinstance(value, list) else json.dumps(value)
