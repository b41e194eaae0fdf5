"""Columns of polars of every type, eager and lazy."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from support.cells.objects import OBJECTS
from support.locality import LISTED, NAME, SOURCES, TYPES, Column, register

SOURCES["PolarsSource"] = "polars"
SOURCES["LazySource"] = "polars lazy"

NULL: dict[str, Any] = {"null": None}
WORDS = {
    f"text {place}": text for place, text in enumerate(("", "a", "5", "1001", "é", "nan", "x" * 3000, "2024-01-31", "\x00", "\U0001f600"))
}
UNITS = ("ms", "us", "ns")


def _of(dtype: Any, cells: Sequence[Any]) -> pl.Series:
    return pl.Series(NAME, list(cells), dtype=dtype)


def _physical(dtype: Any, stored: Any, cells: Sequence[Any]) -> pl.Series:
    """A series whose cells are given as the integers that stand for them."""
    return pl.Series(NAME, list(cells), dtype=stored).cast(dtype)


def _objects(cells: Sequence[Any]) -> pl.Series:
    return pl.Series(NAME, list(cells), dtype=pl.Object)


def _integers(bits: int, *, signed: bool) -> dict[str, Any]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return {str(cell): cell for cell in sorted({0, 1, 5, low, high, high - 1, min(2**53 + 1, high)})} | NULL


FLOATS = {str(cell): cell for cell in (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, 1.5, 7.0)} | NULL
TICKS = {"zero": 0, "one": 1, "before": -1, "most": 2**63 - 1, "least": -(2**63)} | NULL
LABELS = ["a", "b", "5", "1001", ""]
DTYPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Null": (functools.partial(_of, pl.Null), {"null": None, "again": None}),
    "Boolean": (functools.partial(_of, pl.Boolean), {"True": True, "False": False} | NULL),
    **{f"Int{bits}": (functools.partial(_of, getattr(pl, f"Int{bits}")), _integers(bits, signed=True)) for bits in (8, 16, 32, 64, 128)},
    **{
        f"UInt{bits}": (functools.partial(_of, getattr(pl, f"UInt{bits}")), _integers(bits, signed=False))
        for bits in (8, 16, 32, 64, 128)
        if hasattr(pl, f"UInt{bits}")
    },
    **{
        f"Float{bits}": (functools.partial(_of, getattr(pl, f"Float{bits}")), FLOATS)
        for bits in (16, 32, 64)
        if hasattr(pl, f"Float{bits}")
    },
    "Decimal": (
        functools.partial(_of, pl.Decimal(20, 3)),
        {str(cell): Decimal(cell) for cell in ("0", "1.5", "-1.5", "5", "9" * 17)} | NULL,
    ),
    "String": (functools.partial(_of, pl.String), WORDS | NULL),
    "Binary": (
        functools.partial(_of, pl.Binary),
        {f"bytes {cell[:3]!r}": cell for cell in (b"", b"a", b"\xff", b"NA", b"x" * 3000)} | NULL,
    ),
    "Categorical": (functools.partial(_of, pl.Categorical), WORDS | NULL),
    "Enum": (functools.partial(_of, pl.Enum(LABELS)), {label: label for label in LABELS} | NULL),
    "Date": (
        functools.partial(_physical, pl.Date, pl.Int32),
        {"zero": 0, "before": -1, "today": 19_753, "most": 2**31 - 1, "least": -(2**31)} | NULL,
    ),
    "Time": (functools.partial(_of, pl.Time), {str(cell): cell for cell in (dt.time(0), dt.time(12), dt.time(23, 59, 59, 999999))} | NULL),
    **{f"Datetime[{unit}]": (functools.partial(_physical, pl.Datetime(unit), pl.Int64), TICKS) for unit in UNITS},
    **{f"Datetime[{unit}, zone]": (functools.partial(_physical, pl.Datetime(unit, "Europe/Berlin"), pl.Int64), TICKS) for unit in UNITS},
    **{f"Duration[{unit}]": (functools.partial(_physical, pl.Duration(unit), pl.Int64), TICKS) for unit in UNITS},
    "List": (functools.partial(_of, pl.List(pl.String)), {"empty": [], "one": ["a"], "null in it": [None]} | NULL),
    "Array": (functools.partial(_of, pl.Array(pl.Int8, 1)), {"one": [1], "null in it": [None]} | NULL),
    "Struct": (functools.partial(_of, pl.Struct({"x": pl.Int8})), {"one": {"x": 1}, "null in it": {"x": None}} | NULL),
    **({"Map": (functools.partial(_of, pl.Map(pl.String, pl.Int8)), {"one": {"a": 1}} | NULL)} if hasattr(pl, "Map") else {}),
    "Object": (_objects, OBJECTS),
}
"""For each type what makes a Series of it, and its zoo."""
REFUSED = {"Map", "Int128", "UInt128", "List", "Array", "Struct", "Object"}


def _chunks(made: Any, cells: Sequence[Any]) -> pl.DataFrame:
    parts = [pl.DataFrame(made(cells[start : start + 2])) for start in range(0, len(cells), 2)]
    return pl.concat(parts, rechunk=False) if parts else pl.DataFrame(made([]))


def _slice(made: Any, cells: Sequence[Any]) -> pl.DataFrame:
    return pl.DataFrame(made([*cells[:1], *cells])).slice(min(1, len(cells)))


for _name, (_made, _cells) in DTYPES.items():
    _refused = _name in REFUSED
    register(Column("polars", _name, lambda cells, made=_made: pl.DataFrame(made(cells)), _cells, is_refused=_refused))
    register(Column("polars lazy", _name, lambda cells, made=_made: pl.DataFrame(made(cells)).lazy(), _cells, is_refused=_refused))
    if not _refused:
        register(Column("polars chunks", _name, functools.partial(_chunks, _made), _cells))
        register(Column("polars slice", _name, functools.partial(_slice, _made), _cells))


def _dtypes() -> set[str]:
    """The types of polars that have no subtypes."""

    def leaves(kind: type) -> set[str]:
        return {kind.__name__} if not kind.__subclasses__() else set().union(*map(leaves, kind.__subclasses__()))

    return leaves(pl.DataType)


TYPES["polars"] = _dtypes
LISTED["polars"] = {name.partition("[")[0]: name for name in DTYPES} | {
    "Unknown": "a type of expressions, not of columns",
    "Extension": "its values have a type of their own",
}
