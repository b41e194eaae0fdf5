"""Cells that no mechanism hopes for, in every format: the one list that tests of refusals draw from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

ROWS = 7
CATEGORIES = ["north", "east", "south"]
CLEAN: dict[str, list[Any]] = {
    "person": ["ann", "bob", "ann", "cyd", "dan", "eve", "bob"],
    "whole": [0, 1, 2, 3, 4, 5, 6],
    "real": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5],
    "place": ["north", "east", "south", "north", "east", "south", "north"],
    "flag": [True, False, True, True, False, False, True],
    "code": [0, 1, 2, 0, 1, 2, 0],
    "note": ["-"] * ROWS,
}
TYPES: dict[str, list[pa.DataType]] = {
    "person": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
    "whole": [pa.int64(), pa.int32(), pa.uint8()],
    "real": [pa.float64(), pa.float32()],
    "place": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "flag": [pa.bool_(), pa.int8(), pa.uint64()],
    "code": [pa.int64(), pa.int8(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())],
    "note": [pa.string()],
}
"""Types that a column may have where the format has types."""

LONG = 100_000
TEXT_CELLS = [
    b"", b"NA", b"NaN", b"nan", b"null", b"inf", b"-Infinity", b"1e400", b"-1e400", b"1e-400", b"1e99999999999999999999", b"0e99999999999",
    b"1" * 30, b"-" + b"9" * 1000, b"0" * 5000 + b"1", b"1." + b"0" * 5000, b"0x1F", b"0b1",
    b"1_000", b"+3", b" 3 ", b"\t2", b"3.0", b"2.5", b"30e-1",
    b".", b"-", b"e5", b"5e", b"1e", b"--1", b"1,5", b"TRUE", b"yes", b"2", b"-1", b"9223372036854775807", b"9223372036854775808",
    b"wrong", b"North", b"north ", b"\xff\xfe\x00", b"\xc3", b"no\xffrth", b"\x00", b"\x1b[31m", b"=cmd|' /C calc'!A0", b"+1+1", b"@sum",
    b'"', b'""', b'a"b', b"line\nbreak", b"line\r\nbreak", b"\r", b"a,b,c", b"z" * LONG, "١٢٣".encode(), "🙂".encode(), "\u202e".encode(),
]  # fmt: skip
"""Contents of a cell of a CSV; it is quoted where it must be."""
RAW_RECORDS = [b"", b"x", b",", b"," * 30, b'a"b,c"d', b'"x"y,"z"', b"\xff", b"1" * LONG, b" ", b'""']
"""Records of a CSV as no writer makes them."""
TYPED_CELLS: dict[str, list[Any]] = {
    "person": [None, "", "\x00", "x" * LONG, "🙂"],
    "whole": [None, 0, 255, 127],
    "real": [None, math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45],
    "place": [None, "", "North", "\x00", "=1+1", "\u202e", "z" * LONG],
    "flag": [None],
    "code": [None, 127, 3],
    "note": [None, "x" * LONG],
}
"""Values of a cell that all of the column's types hold."""
WIDE_CELLS: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int8(): [-128],
    pa.uint64(): [2**64 - 1, 2**63],
    pa.float64(): [1.7e308, -1.7e308, 5e-324],
}


def write_csv(path: Path, row: int | None = None, column: str | None = None, content: bytes = b"") -> Path:
    """The clean table as text; the cell of a row and column holds `content`, or without a column the whole record is `content`."""
    lines = [",".join(CLEAN).encode()]
    for i in range(ROWS):
        cells = {name: str(values[i]).lower().encode() for name, values in CLEAN.items()}
        if i == row and column is not None:
            cells[column] = quoted(content)
        lines.append(content if i == row and column is None else b",".join(cells.values()))
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def quoted(content: bytes) -> bytes:
    """A cell as every writer of CSV makes it."""
    special = any(byte in content for byte in b',"\n\r')
    return b'"' + content.replace(b'"', b'""') + b'"' if special else content


def write_typed(path: Path, types: dict[str, pa.DataType], row: int | None = None, column: str | None = None, value: Any = None) -> Path:
    """The clean table with columns of these types; the cell of a row and column holds `value`."""
    arrays = {}
    for name, kind in types.items():
        values = [value if (i, name) == (row, column) else clean for i, clean in enumerate(CLEAN[name])]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        values = [int(each) if isinstance(each, bool) and plain != pa.bool_() else each for each in values]
        array = pa.array(values, plain)
        arrays[name] = array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array
    table = pa.table(arrays)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path
