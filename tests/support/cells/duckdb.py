"""Columns of relations of DuckDB of every type."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import duckdb

from support.locality import LISTED, NAME, SOURCES, TYPES, Column, register

SOURCES["RelationSource"] = "duckdb"

DATABASE = duckdb.connect()
DATABASE.execute("CREATE TYPE mood AS ENUM ('a', 'b', '5', '')")


def _integers(bits: int, *, signed: bool = True) -> list[str]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [str(cell) for cell in sorted({0, 1, 5, low, high, high - 1, min(2**53 + 1, high)})]


TEXTS = ["''", "'a'", "'5'", "'1001'", "'é'", "'nan'", "'2024-01-31'", "repeat('x', 3000)", "chr(0)"]
MOMENTS = ["'1970-01-01'", "'2024-01-31 12:00:00'", "'infinity'", "'-infinity'", "'1700-01-01'"]
TYPES_OF: dict[str, tuple[str, list[str]]] = {
    "BOOLEAN": ("BOOLEAN", ["true", "false"]),
    **{kind: (kind, _integers(bits)) for kind, bits in (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64))},
    **{
        kind: (kind, _integers(bits, signed=False))
        for kind, bits in (("UTINYINT", 8), ("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64))
    },
    "HUGEINT": ("HUGEINT", ["0", "1", "-1", str(2**53 + 1), str(2**63), str(2**64), str(2**127 - 1), str(-(2**127))]),
    "UHUGEINT": ("UHUGEINT", ["0", "1", str(2**53 + 1), str(2**64), str(2**128 - 1)]),
    "BIGNUM": ("BIGNUM", ["'0'", "'1'", "'-5'", f"'{10**60}'"]),
    **{kind: (kind, ["0", "1", "1.5", "'-0'", "'nan'", "'inf'", "'-inf'"]) for kind in ("FLOAT", "DOUBLE")},
    **{f"DECIMAL({size})": (f"DECIMAL({size})", ["0", "1", "1.5", "-1.5", "7"]) for size in ("4,1", "9,2", "18,3", "38,10")},
    "VARCHAR": ("VARCHAR", TEXTS),
    "BLOB": ("BLOB", ["'a'::BLOB", "''::BLOB", "'\\xFF\\x00'::BLOB"]),
    "BIT": ("BIT", ["'0'", "'1'", "'101'", "'0000000011111111'"]),
    "UUID": ("UUID", ["'12345678-1234-5678-1234-567812345678'", "'00000000-0000-0000-0000-000000000000'"]),
    "ENUM": ("mood", ["'a'", "'b'", "'5'", "''"]),
    "DATE": ("DATE", ["'1970-01-01'", "'2024-01-31'", "'infinity'", "'-infinity'", "'5877642-06-25 (BC)'", "'0001-01-01'"]),
    "TIME": ("TIME", ["'00:00:00'", "'12:00:00'", "'23:59:59.999999'", "'24:00:00'"]),
    "TIME_NS": ("TIME_NS", ["'00:00:00'", "'12:00:00'", "'23:59:59.999999'"]),
    "TIME WITH TIME ZONE": ("TIMETZ", ["'00:00:00+00'", "'12:00:00+02'", "'23:59:59-15'"]),
    **{kind: (kind, MOMENTS) for kind in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")},
    "TIMESTAMP WITH TIME ZONE": ("TIMESTAMPTZ", MOMENTS),
    "TIMESTAMPTZ_NS": ("TIMESTAMPTZ_NS", MOMENTS),
    "INTERVAL": ("INTERVAL", ["'0 days'", "'1 month'", "'-5 days'", "'1 hour'", "'100000 years'"]),
    "LIST": ("VARCHAR[]", ["[]", "['a']", "[NULL]"]),
    "ARRAY": ("INTEGER[1]", ["[1]", "[NULL]"]),
    "STRUCT": ("STRUCT(x INTEGER)", ["{'x': 1}", "{'x': NULL}"]),
    "TUPLE": ("STRUCT(x INTEGER, y VARCHAR)", ["{'x': 1, 'y': 'a'}"]),
    "MAP": ("MAP(VARCHAR, INTEGER)", ["MAP {'a': 1}", "MAP {}"]),
    "UNION": ("UNION(n INTEGER, t VARCHAR)", ["5", "'a'"]),
    "VARIANT": ("VARIANT", ["5", "'a'"]),
    "NULL": ('"NULL"', []),
}
"""For each type its name in SQL, and the text of its cells."""
REFUSED = {"LIST", "ARRAY", "STRUCT", "TUPLE", "MAP", "UNION", "VARIANT"}
ABSENT = {"GEOMETRY": "of an extension that is not loaded", "TYPE": "of expressions, not of columns"}


def relation(kind: str, cells: Sequence[str]) -> Any:
    """A table with these cells, in their order."""
    rows = [f"SELECT {place} AS place, CAST({cell} AS {kind}) AS {NAME}" for place, cell in enumerate(cells)]
    empty = f"SELECT 0 AS place, CAST(NULL AS {kind}) AS {NAME} WHERE false"
    return DATABASE.sql(f"SELECT {NAME} FROM ({' UNION ALL '.join(rows or [empty])}) ORDER BY place")


for _name, (_kind, _cells) in TYPES_OF.items():
    _zoo = {cell: cell for cell in _cells} | {"null": "NULL", "another null": "NULL"}
    register(Column("duckdb", _name, functools.partial(relation, _kind), _zoo, is_refused=_name in REFUSED))


def _types() -> set[str]:
    return {name for (name,) in DATABASE.execute("SELECT DISTINCT logical_type FROM duckdb_types() WHERE logical_type <> ''").fetchall()}


TYPES["duckdb"] = _types
LISTED["duckdb"] = {name.partition("(")[0]: name for name in TYPES_OF} | ABSENT
