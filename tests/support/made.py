"""The rows that `[per_unit]` makes of a table, and the same by Python's own integers and fractions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpcore.batch import make_release_plan, parse_release_job
from dpcore.query.local_backend import LocalPasses
from dpcore.tables.progress import Silent
from support.jobs import write_table


@dataclass(frozen=True)
class Room:
    """A folder for what does not fit into memory."""

    spill: Path


def job_of(folder: Path, per_unit: Mapping[str, Any], privacy: Mapping[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """A job on `in.parquet` that counts the rows that are made."""
    return {
        "version": 1, "input": {"path": str(folder / "in.parquet")}, "output": {"path": str(folder / "out.json")},
        "privacy": {"max_epsilon": 1.0, "unit": "unit", "relation": "add_remove", **(privacy or {})}, "per_unit": per_unit,
        "query": [{"name": "n", "kind": "count", "epsilon": 1.0}], **keys,
    }  # fmt: skip


def rows_made(
    folder: Path, table: pa.Table, per_unit: Mapping[str, Any], privacy: Mapping[str, Any] | None = None, *, threads: int = 1,
    piece_rows: int | None = None, **keys: Any,
) -> pa.Table:  # fmt: skip
    """The rows, sorted by unit and key."""
    write_table(table, folder / "in.parquet")
    plan = make_release_plan(parse_release_job(job_of(folder, per_unit, privacy, **keys)), overwrite=True)
    plan = LocalPasses(Room(folder / "spill"), threads, Silent(), piece_rows).make_rows(plan)
    made = pa.Table.from_batches(plan.inputs.made, plan.inputs.recipe.schema)
    return made.sort_by([(name, "ascending") for name in made.schema.names])


def rounded(value: Fraction) -> float:
    """A fraction as the nearest float64, ties to even."""
    return value.numerator / value.denominator


def exact(value: Any) -> Fraction:
    """A number of a table as a fraction."""
    return Fraction(value)


def grid_sum(values: list[float], low: float, high: float) -> Fraction:
    """The sum of clamped numbers, each rounded to the grid of their larger bound."""
    grid = Fraction(2) ** (math.frexp(max(abs(low), abs(high)))[1] - 51)
    return sum((round(Fraction(min(max(each, low), high)) / grid) * grid for each in values), Fraction(0))


def middle(values: list[Any]) -> float | None:
    """The mean of the two values in the middle."""
    ordered = sorted(values)
    return rounded((exact(ordered[(len(ordered) - 1) // 2]) + exact(ordered[len(ordered) // 2])) / 2) if ordered else None


def most_frequent(values: list[Any]) -> Any:
    """The least value among the most frequent."""
    counts = Counter(values)
    return min((value for value in counts if counts[value] == max(counts.values())), default=None)


def quantile(values: list[Any], level: Fraction) -> Any:
    """The value of rank ⌈level·n⌉."""
    return sorted(values)[max(math.ceil(level * len(values)), 1) - 1] if values else None


def within(value: int, low: int, high: int) -> int | None:
    """An integer, or None outside of a range."""
    return value if low <= value <= high else None


TWINS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "different": lambda values: len(set(values)),
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "mode": most_frequent,
    "median": middle,
    "upper": lambda values: quantile(values, Fraction(9, 10)),
    "mean": lambda values: rounded(sum(map(exact, values), Fraction(0)) / len(values)) if values else None,
}
"""Aggregates of the values of one unit that are not null."""


def by_unit(table: pa.Table, name: str) -> dict[Any, list[Any]]:
    """The values of each unit that are not missing; zeros have no sign."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for unit, value in zip(table.column("unit").to_pylist(), table.column(name).to_pylist(), strict=True):
        if unit is not None:
            found[unit] += [] if value is None or value != value else [value + 0.0 if isinstance(value, float) else value]
    return found


def same_bits(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables are equal; zeros of another sign are not."""

    def shown(table: pa.Table) -> list[list[str]]:
        return [[repr(value) for value in column.to_pylist()] for column in table.columns]

    return one.schema == other.schema and shown(one) == shown(other)


def steps(value: Decimal, scale: int) -> int:
    """A decimal in steps of its scale."""
    return int(Fraction(value) * 10**scale)
