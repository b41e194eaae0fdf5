"""Release jobs, their tables, and the exact statistics that their answers are about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from support.jobs import KEY, Finished, Workplace, toml

SURE = 1 - 1e-6
"""Confidence of the intervals that tests compare with the truth."""
REGIONS = ["north", "east", "south", "west"]
QUERIES: dict[str, dict[str, Any]] = {
    "rows": {"kind": "count"},
    "in the east": {"kind": "count", "column": "region", "categories": ["east", "nowhere"]},
    "a few visits": {"kind": "count", "column": "visits", "lower": 2, "upper": 5},
    "regions": {"kind": "histogram", "column": "region", "categories": REGIONS, "missing": "west", "unknown": "north"},
    "costs": {"kind": "histogram", "column": "cost", "edges": [0, 25, 50, 100.5], "missing": 30.0},
    "visits": {"kind": "sum", "column": "visits", "lower": 0, "upper": 20, "missing": 0},
    "mean cost": {"kind": "mean", "column": "cost", "lower": 10.0, "upper": 90.0, "missing": 20.0},
    "quartiles": {
        "kind": "quantile",
        "column": "cost",
        "q": [0.25, 0.5, 0.75],
        "grid": {"start": 0, "stop": 120, "step": 0.5},
        "missing": 0,
    },
    "codes": {"kind": "top_s", "column": "visits", "s": 3, "k": 30, "values": True},
}
"""A query of each kind that answers with numbers, on the columns of `clinic`."""
MADE_UP: list[dict[str, Any]] = [
    {"name": "region", "categories": REGIONS, "missing": "west", "unknown": "north"},
    {"name": "cost", "edges": [0, 25, 50, 100.5], "missing": 30.0},
    {"name": "visits", "edges": [0, 1, 5, 10, 28], "missing": 0},
]
"""Columns of a synthetic table."""


def clinic(rows: int, people: int | None = None) -> pa.Table:
    """A table with nulls, NaN and values that no query declares; `people` own its rows unevenly."""
    index = np.arange(rows)
    people = people or max(rows // 3, 1)
    cost = index * 7919 % 1200 / 10.0
    cost[index % 11 == 3] = np.nan
    regions = [None if i % 13 == 5 else "abroad" if i % 17 == 4 else REGIONS[i * i % 4] for i in range(rows)]
    return pa.table(
        {
            "person": pa.array(np.sqrt(index * 2654435761 % (people * people)).astype(np.int64)),
            "visits": pa.array(index * index % 29, pa.int32()),
            "cost": pa.array([None if i % 19 == 7 else value for i, value in enumerate(cost.tolist())], pa.float64()),
            "region": pa.array(regions, pa.string()),
        }
    )


def truth(name: str, table: pa.Table) -> Any:
    """The exact statistic of a query of `QUERIES`, computed without the engine."""
    query = QUERIES[name]
    values = table.column(query.get("column", "visits")).to_pylist()
    match query["kind"]:
        case "count" if "categories" in query:
            return sum(value in query["categories"] for value in values)
        case "count":
            return sum(query.get("lower", -1) <= value <= query.get("upper", 10**9) for value in values)
        case "histogram" if "edges" in query:
            edges = query["edges"]
            places = [min(max(np.searchsorted(edges, value, "right") - 1, 0), len(edges) - 2) for value in filled(query, values)]
            return np.bincount(places, minlength=len(edges) - 1).tolist()
        case "histogram":
            known = [value if value in query["categories"] or value is None else query["unknown"] for value in values]
            return [sum((query["missing"] if value is None else value) == label for value in known) for label in query["categories"]]
        case "sum":
            return sum(clamped(query, values))
        case "mean":
            return float(sum(map(Fraction, clamped(query, values))) / len(values))
        case "top_s":
            return np.bincount([value for value in values if 0 <= value < query["k"]], minlength=query["k"])
    return filled(query, values)


def cells_of(column: Mapping[str, Any], table: pa.Table) -> list[int]:
    """The cell of each row in a column of a synthetic table, computed without the engine."""
    values = filled(column, table.column(column["name"]).to_pylist()) if "missing" in column else table.column(column["name"]).to_pylist()
    if "categories" in column:
        return [column["categories"].index(value if value in column["categories"] else column["unknown"]) for value in values]
    edges = column["edges"]
    return [int(min(max(np.searchsorted(edges, value, "right") - 1, 0), len(edges) - 2)) for value in values]


def filled(query: Mapping[str, Any], values: list[Any]) -> list[Any]:
    """With `missing` in place of nulls and NaN."""
    return [query["missing"] if value is None or value != value else value for value in values]


def clamped(query: Mapping[str, Any], values: list[Any]) -> list[Any]:
    """Between the bounds."""
    values = filled(query, values) if "missing" in query else values
    return [min(max(value, query["lower"]), query["upper"]) for value in values]


def release_text(
    source: Path | str,
    target: Path | str,
    queries: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    key: bytes | None = KEY,
    privacy: Mapping[str, Any] | None = None,
    ledger: Path | str | None = None,
    epsilon: float = 1.0,
) -> str:
    """A job file; by default with every query of `QUERIES`, intervals that do not miss, and a test key unless a ledger pays."""
    queries = QUERIES if queries is None else queries
    key = key if ledger is None else None
    limits = {"max_epsilon": 1e9, "max_delta": 0.01} | dict(privacy or {})
    lines = ["version = 1", "[input]", f"path = {toml(str(source))}", "[output]", f"path = {toml(str(target))}"]
    lines += ["[privacy]", *(f"{name} = {toml(value)}" for name, value in limits.items())]
    lines += [] if ledger is None else ["[ledger]", f"path = {toml(str(ledger))}"]
    lines += [] if key is None else ["[testing]", f'key_hex = "{key.hex()}"']
    for name, query in queries.items():
        entry = {"name": name, "epsilon": epsilon, "confidence": SURE} | dict(query)
        lines += ["[[query]]", *(f"{key} = {inline(value)}" for key, value in entry.items())]
    return "\n".join(lines) + "\n"


def inline(value: Any) -> str:
    """A TOML literal; tables are written in one line."""
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(item)}" for key, item in value.items()) + "}"
    return toml(value)


class Counter(Workplace):
    """A folder with an input, a release job and its output."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        super().__init__(folder, capsys)
        self.target = folder / "out" / "answers.json"

    def write_release(self, *args: Any, **kwargs: Any) -> None:
        """Write a job on this folder's input and output."""
        self.job.write_text(release_text(self.source, self.target, *args, **kwargs), encoding="utf-8")

    def synthetic(self, ending: str = "parquet", **changed: Any) -> dict[str, Any]:
        """A query for a table beside the answers; by default of `MADE_UP`."""
        return {"kind": "synthetic", "columns": MADE_UP, "output": str(self.target.parent / f"made.{ending}"), **changed}

    def release(self, *arguments: object) -> Finished:
        """Run the job."""
        return self.dpcore("release", self.job, *arguments)

    def run(self, *arguments: object) -> Finished:
        """Run the job."""
        return self.release(*arguments)

    def answers(self, *arguments: object) -> dict[str, Any]:
        """Run the job, and give its document; it must succeed."""
        done = self.release("--overwrite", *arguments)
        assert done.code == 0, done.said
        document = json.loads(self.target.read_text(encoding="utf-8"))
        assert json.loads(done.out) == document
        return document  # type: ignore[no-any-return]

    def answered(self, *arguments: object) -> dict[str, dict[str, Any]]:
        """The answers by name."""
        return {query["name"]: query for query in self.answers(*arguments)["queries"]}


def entry(name: str, kind: str, value: Any, **keys: Any) -> dict[str, Any]:
    """A query of a document, with an interval of two standard errors if it has one."""
    found = {"name": name, "kind": kind, "column": "visits", "privacy": {"epsilon": 0.5, "delta": 0.0}, "value": value}
    found |= {"stderr": None, "interval": None, "confidence": 0.95} | keys
    if found["stderr"] is not None and found["interval"] is None:
        values, width = np.asarray(value, dtype=float), 2 * np.asarray(found["stderr"])
        found["interval"] = np.stack([values - width, values + width], axis=-1).tolist()
    return found


def document(*queries: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """What `dpcore release` prints."""
    epsilon = sum(query["privacy"]["epsilon"] for query in queries)
    head = {"format": 1, "version": "1.2.3", "secure": True, "unit": "row", "relation": "replace"}
    return head | {"privacy": {"epsilon": epsilon, "delta": 0.0}, "queries": list(queries)} | keys


def page_of(folder: Path, *queries: dict[str, Any], **keys: Any) -> str:
    """The text of the page about a document, with single spaces."""
    from dpcore.query.page import ReleasePages

    ReleasePages(folder / "report", "release").write(document(*queries, **keys))
    return " ".join((folder / "report/release.html").read_text(encoding="utf-8").split())
