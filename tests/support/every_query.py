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

from kinds import EXAMPLES, MAY_SKIP
from support.jobs import KEY

EPOCH = dt.date(1970, 1, 1).toordinal()
FIRST = (
    "rows", "rows between", "rows with a value", "rows of categories", "categories", "bins", "sum", "sum of decimals", "sum of a unit",
    "mean", "variance", "deviation", "covariance", "quantiles", "median", "top", "top with counts", "units", "values", "numbers",
    "declared values", "found sum", "found mean", "found variance", "found median", "derived", "looked up",
)  # fmt: skip
"""Their order in the golden documents, whose noise depends on it. What is not here comes after it, and has jobs of its own there."""
OF_COLUMNS: dict[str, dict[str, Any]] = {
    "derived": {"kind": "mean", "column": "half", "lower": 0, "upper": 10, "missing": 0},
    "looked up": {"kind": "sum", "column": "weight", "lower": 0, "upper": 4, "missing": 0},
}
"""Of what a job derives and looks up."""
KINDS: dict[str, dict[str, Any]] = {name: (EXAMPLES | OF_COLUMNS)[name] for name in dict.fromkeys([*FIRST, *EXAMPLES])}
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
AGGREGATES = {
    "v": "max(v)", "w": "max(w)", "c": "mode(c)", "p": "max(p)", "q": "min(q)", "code": "min(code)", "day": "arg_min(day, v)",
    "paid": "max(paid)", "name": "min(name)",
}  # fmt: skip
MADE: dict[str, dict[str, Any]] = {
    "made": AGGREGATES | {"g": "mode(g)"},
    "made by key": AGGREGATES | {"more": "max(more)", "by": "g", "groups": ["a", "b", "d", "e"]},
}
"""`per_unit`: what is made of the rows of a person, with the names of what it is made of."""
EVERY_UNIT: dict[str, dict[str, Any]] = UNITS | {
    "made": {"unit": "person"},
    "made by key": {"unit": "person", "max_groups_per_unit": 2},
    "joined": {"unit": "person", "max_rows_per_unit": 3},
}
TYPES = {
    "person": pa.int64(), "v": pa.float64(), "w": pa.float64(), "g": pa.string(), "c": pa.int64(), "p": pa.int64(), "q": pa.int64(),
    "code": pa.string(), "day": pa.date32(), "paid": pa.decimal128(7, 2), "name": pa.string(),
}  # fmt: skip


LATER_JOBS: dict[str, dict[str, Any]] = {
    f"kind {kind}": {
        "version": 1,
        "input": {"path": "/srv/table.parquet"},
        "output": {"path": "/srv/answers.json"},
        "privacy": {"max_epsilon": 1e3, **UNITS["person"]},
        "query": [{"name": name, "epsilon": 1.0, **keys} for name, keys in KINDS.items() if keys["kind"] == kind],
    }
    for kind in dict.fromkeys(keys["kind"] for name, keys in KINDS.items() if name not in FIRST)
}
"""Jobs with the examples of each kind that came later, by names: the ids of their runs are frozen."""
TOTALS: dict[str, dict[str, Any]] = {
    "of dates": {"step": "2026-11-23", "first": "2026-01-05", "every": "week", "max_steps_per_unit": 3},
    "of numbers": {"step": 7, "column": "v", "lower": 1, "upper": 10, "delta": 1e-6},
    "of categories": {"step": 7, "column": "c", "categories": [1, 2], "group_by": "g", "groups": ["a", "b"]},
    "of values": {"step": 7, "column": "v", "missing": "skip", "where": "p // q > 0"},
}
"""Running totals, each of which is alone in its job."""
LATER_JOBS |= {
    f"running total {name}": {
        "version": 1,
        "input": {"path": "/srv/table.parquet"},
        "output": {"path": "/srv/answers.json"},
        "privacy": {"max_epsilon": 1e3, "max_delta": 1e-3, **UNITS["person"]},
        "query": [{"name": "total", "kind": "running_total", "epsilon": 1.0, "steps": 60, "state": "/srv/state/total.state", **keys}],
    }
    for name, keys in TOTALS.items()
}


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


def others(folder: Path) -> Path:
    """Another table of some of the persons, with rows of nobody, and persons of its own."""
    path = folder / "others.parquet"
    who = [None if i % 11 == 3 else i * 37 % 100 for i in range(150)]
    pq.write_table(pa.table({"who": pa.array(who, pa.int32()), "x": [float(i % 13) / 2 for i in range(150)]}), path)
    return path


def document(folder: Path, unit: str, *, relation: str = "replace", key: bytes | None = KEY, where: str | None = None) -> dict[str, Any]:
    """The job, without input and output."""
    is_joined = unit in MADE or unit == "joined"
    half = "w / 2 + p // q" + (" + coalesce(more, 0)" if is_joined else "")
    stage: dict[str, Any] = {
        "lookup": [{"path": str(weights(folder)), "key": "g", "columns": ["weight"]}],
        "derive": [{"name": "half", "sql": half}],
    }
    join = {"path": str(others(folder)), "unit": "who", "how": "left" if unit == "joined" else "inner", "where": "x > 1"}
    joined = {"join": [join | {"per_unit": {"more": "max(x)"}}]} if is_joined else {}
    before: dict[str, Any] = joined
    if unit == "made":
        before, stage = {}, stage | joined
    return {
        "version": 1,
        "privacy": {"max_epsilon": 1e9, "max_delta": 0.5, "relation": relation, **EVERY_UNIT[unit]},
        **before,
        **(stage if unit not in MADE else {"per_unit": MADE[unit] | stage}),
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
