"""Keys of groups: bytes that sort and compare as the values of their columns do, made of one row alone."""

from __future__ import annotations

import datetime as dt
import itertools
import random

import pyarrow as pa
import pytest

from dpcore.tables.types.keys import LONGEST_TEXT, KeyColumn, encoded, parts_of

COLUMNS = {
    "text": (pa.string(), ["", "a", "aa", "ab", "b", "ä", "€", "z" * LONGEST_TEXT]),
    "large": (pa.large_string(), ["", "x", "xy"]),
    "number": (pa.int64(), [-(2**63), -1, 0, 1, 255, 256, 2**63 - 1]),
    "small": (pa.int8(), [-128, -1, 0, 127]),
    "unsigned": (pa.uint64(), [0, 1, 2**63 - 1]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "date": (pa.date64(), [dt.date(1960, 2, 29), dt.date(2013, 1, 1)]),
}


def column(name: str) -> KeyColumn:
    return KeyColumn(name).for_type(COLUMNS[name][0])


def said(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.date) else value


@pytest.mark.parametrize("names", [*((name,) for name in COLUMNS), ("text", "number"), ("day", "text", "small"), ("large", "text")])
def test_keys_sort_and_come_back_as_the_values_do(names):
    rows = list(itertools.product(*(COLUMNS[name][1] for name in names)))
    random.Random(1).shuffle(rows)
    columns = [column(name) for name in names]
    cells = [pa.array(values, COLUMNS[name][0]) for name, values in zip(names, zip(*rows, strict=True), strict=True)]
    keys = encoded(columns, cells).to_pylist()
    assert len(set(keys)) == len(rows)
    back = [tuple(each.value(part) for each, part in zip(columns, parts_of(columns, key), strict=True)) for key in keys]
    assert back == [tuple(map(said, row)) for row in rows]
    by_key = [row for _, row in sorted(zip(keys, rows, strict=True))]
    as_bytes = [[value.encode() if isinstance(value, str) else value for value in row] for row in by_key]
    assert as_bytes == sorted(as_bytes)


@pytest.mark.parametrize("name", COLUMNS)
def test_slices_dictionaries_and_nulls(name):
    kind, values = COLUMNS[name]
    cells = pa.array([None, *values, None, *values], kind)
    whole = encoded([column(name)], [cells])
    assert whole.null_count == 2
    assert whole[1 : len(values) + 1] == whole[len(values) + 2 :]
    assert encoded([column(name)], [cells.slice(3, 2)]) == whole.slice(3, 2)
    assert encoded([column(name)], [cells.slice(0, 0)]) == whole.slice(0, 0)
    if kind not in (pa.date32(), pa.date64()):
        assert column(name).accepts(pa.dictionary(pa.int32(), kind))
        assert encoded([column(name)], [cells.dictionary_encode()]) == whole


def test_what_is_no_key():
    texts = [b"a\0b", b"\xff", b"\xc3", b"x" * (LONGEST_TEXT + 1)]
    cells = pa.array([b"fine", *texts], pa.binary())
    assert encoded([KeyColumn("text", pa.string())], [cells.view(pa.string())]).to_pylist() == [b"fine", None, None, None, None]
    untyped = pa.array([b"fine", b"", b"NA", b"null", *texts], pa.binary())
    assert encoded([KeyColumn("text")], [untyped]).to_pylist() == [b"fine"] + [None] * 7
    assert encoded([column("unsigned")], [pa.array([2**63, 2**64 - 1], pa.uint64())]).null_count == 2
    far = pa.array([-(2**31), 2**31 - 1], pa.int32()).view(pa.date32())
    assert encoded([column("day")], [far]).null_count == 2
    # A row has a key if all of its cells are keys.
    cells = [pa.array(["a", None, "b"]), pa.array([1, 2, None])]
    assert encoded([column("text"), column("number")], cells).null_count == 2


def test_types():
    for name, (kind, _) in COLUMNS.items():
        assert column(name).accepts(kind)
    for kind in (pa.float64(), pa.bool_(), pa.timestamp("us"), pa.list_(pa.int64()), pa.decimal128(5, 2), pa.binary()):
        assert not KeyColumn("x").accepts(kind)
