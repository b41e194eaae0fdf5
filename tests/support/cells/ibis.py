"""Columns of tables of Ibis, over DuckDB: the types that Ibis has in common with it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import ibis

from support.cells.duckdb import TYPES_OF
from support.locality import NAME, SOURCES, Column, register

SOURCES["IbisSource"] = "ibis"

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
SHARED = ("BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(38,10)", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP")
DATABASE = ibis.duckdb.connect()
NUMBERS = itertools.count()


def table(kind: str, cells: Sequence[str]) -> Any:
    """An expression with these cells, in their order."""
    rows = [f"SELECT {place} AS place, CAST({cell} AS {kind}) AS {NAME}" for place, cell in enumerate(cells)]
    empty = f"SELECT 0 AS place, CAST(NULL AS {kind}) AS {NAME} WHERE false"
    name = f"cells_{next(NUMBERS)}"
    # `DATABASE.sql` finds a schema by a method that connections of DuckDB 2 do not have.
    DATABASE.raw_sql(f"CREATE TABLE {name} AS {' UNION ALL '.join(rows or [empty])}")
    return DATABASE.table(name).order_by("place").select(NAME)


for _name in SHARED:
    _kind, _cells = TYPES_OF[_name]
    _zoo = {cell: cell for cell in _cells} | {"null": "NULL", "another null": "NULL"}
    register(Column("ibis", _name, functools.partial(table, _kind), _zoo))
