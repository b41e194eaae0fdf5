"""Hashes of rows: equal for what means the same in any format, type or library, and different for everything else."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from dpcore.tables.pieces import FileInfo
from dpcore.tables.units.row_hash import CellHashes, RowHash, derived, is_hashed, types_of_rows
from dpcore.tables.units.row_random_bits import RowValues, ValueWords, repeats

KEY = bytes(range(16))
DAY = dt.date(2013, 1, 31)
MOMENT = dt.datetime(2013, 1, 31, 12, 30, 15, 250_000)
BYTES = [b"a", None, b"north", b"\xff", b"12x", b"1 2"]
SAME = {
    "integers": [
        *(pa.array([1, None, -3, 100], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())),
        pa.array([1.0, float("nan"), -3.0, 100.0]),
        pa.array(["1", "", "-3", "+100"]),
        pa.array([b"1.0", b"NA", b"-3", b"1e2"]),
        pa.array([decimal.Decimal(1), None, decimal.Decimal("-3.00"), decimal.Decimal(100)], pa.decimal128(9, 2)),
        pa.array([1, None, -3, 100], pa.int32()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, 3]), pa.array([None, -3, 1, 100])),
    ],
    "fractions": [
        pa.array([0.1, None, -2.5, 1e300]),
        pa.array(["0.1", "null", "-2.50", "1e300"]).dictionary_encode(),
        pa.array([b"1e-1", b"", b"-2.5", b"10e299"], pa.large_binary()),
    ],
    "truth values": [
        pa.array([True, None, False]),
        pa.array([1, None, 0], pa.uint8()),
        pa.array(["True", None, "false"]),
        pa.array([1.0, None, -0.0]),
    ],
    "days": [
        pa.array([DAY, None]),
        pa.array([DAY, None], pa.date64()),
        pa.array([DAY, None]).cast(pa.timestamp("s")),
        pa.array(["2013-01-31", "NULL"]),
        pa.array([b"2013-01-31", None]),
    ],
    "moments": [
        *(pa.array([MOMENT, None], pa.timestamp(unit, zone)) for unit in ("ms", "us", "ns") for zone in (None, "UTC")),
        pa.array([MOMENT.isoformat(), None]),
        pa.array(["2013-01-31 12:30:15.25", ""]),
        pa.array([f"{MOMENT.isoformat()}Z", None]),
        pa.array(["2013-01-31T14:30:15.250+02:00", None]),
    ],
    "times": [pa.array([dt.time(1, 2, 3), None]), pa.array([dt.time(1, 2, 3), None], pa.time32("s")), pa.array(["01:02:03", None])],
    "durations": [
        *(pa.array([dt.timedelta(hours=-3), None], pa.duration(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array(["-PT3H", None]),
    ],
    "texts": [
        pa.array(BYTES),
        pa.array(BYTES, pa.large_binary()),
        pa.array(BYTES).view(pa.string()),
        pa.array(BYTES).dictionary_encode(),
        pa.concat_arrays([pa.array([b"before"]), pa.array(BYTES), pa.array([b"behind"])])[1:-1],
        pa.array(BYTES, pa.binary_view()),
    ],
    "nothing": [pa.nulls(2), pa.array([None, None], pa.int64()), pa.array(["", "NaN"]), pa.array([np.nan, None])],
}
"""Arrays of the same values."""
APART = [
    pa.array([0, 1, 2, -1, 2**62, 2**53, 2**53 + 1]),
    pa.array([0.5, 0.1, 1e20, float("inf"), -float("inf"), 2.0**63]),
    pa.array([DAY, DAY + dt.timedelta(1)]),
    pa.array(["a", "b", "aa", "1 ", " 1", "1_0", "2013-02-30", "P", "true?", "x" * 300, "x" * 301, "9" * 100]),
]
"""Values that are all different, also across arrays."""


def of(cells: pa.Array, **how: bool) -> list[tuple[int, int]]:
    """Hash and mark of each cell."""
    return list(zip(*(found.tolist() for found in CellHashes(KEY, "x", **how).of(cells)), strict=True))


@pytest.mark.parametrize("name", SAME)
def test_what_means_the_same_has_one_hash(name: str) -> None:
    found = [[hashed for hashed, _ in of(cells)] for cells in SAME[name]]
    assert found == [found[0]] * len(found)
    assert all((hashed == 0) == (cell is None) for hashed, cell in zip(found[0], SAME[name][0].to_pylist(), strict=True))
    assert len(set(found[0])) == len({str(cell) for cell in SAME[name][0].to_pylist()})


def test_what_means_something_else_has_another() -> None:
    found = [hashed for cells in APART for hashed, _ in of(cells)]
    assert len(set(found)) == sum(map(len, APART))


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["1", "1.0", "+1", "01", "1e0"]),
        pa.array(["", "NA", "nan", None]),
        pa.array(["true", "True", "1"]),
        pa.array(["2013-01-31", "2013-01-31 00:00", "2013-01-31T00:00:00Z"]),
        pa.array([2**63, 2**63 + 1, 2**64 - 1], pa.uint64()),
        pa.array([1.0, np.nan, 2.0], pa.float64()),
        pa.array([1, 2, 1000, 1001], pa.timestamp("ns")),
        pa.array([decimal.Decimal("0.10000000000000000001"), decimal.Decimal("0.10000000000000000002")], pa.decimal128(38, 20)),
    ],
    ids=lambda cells: str(cells.type),
)
def test_cells_that_are_written_differently_are_marked(cells: pa.Array) -> None:
    """Hash and mark together are different for different cells, and so is the hash that is exact."""
    assert len(set(of(cells))) == len(cells)
    assert len({hashed for hashed, _ in of(cells, exactly=True)}) == len(cells)


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("exactly", [False, True])
def test_the_hash_of_a_cell_depends_on_that_cell_alone(name: str, exactly: bool) -> None:
    for cells in SAME[name]:
        whole = of(cells, exactly=exactly)
        assert [of(cells[place : place + 1], exactly=exactly)[0] for place in range(len(cells))] == whole
        assert of(cells[:0], exactly=exactly) == []


FAR = pa.array([2**63 - 1, -(2**63), 0, None], pa.int64())
HOSTILE = [
    *(FAR.view(kind) for kind in (pa.timestamp("s"), pa.timestamp("ns", "No/Where"), pa.duration("s"), pa.date64(), pa.time64("ns"))),
    pa.array([decimal.Decimal(10**75), None, decimal.Decimal(-1)], pa.decimal256(76, 0)),
    pa.array([decimal.Decimal(120), None], pa.decimal128(5, -1)),
    pa.array(np.array([1.5, np.nan, np.inf], np.float16)),
    pa.array([b"", None], pa.binary(0)),
    pa.array(["x" * 10**6, "1" * 1000]),
    pa.array([b"1e9999", b"-0", b".", b"\xd9\xa1", b"+.5", b"0x1"]),
    pa.array([b"25:00", b"PT", b"9999-12-31", b"0000-00-00", b"2020-01-01T00:00:00+99:00", b"P" + b"9" * 50 + b"D", b"2020-01-01\xff"]),
    pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint64()), pa.array([None, "a"])),
    pa.DictionaryArray.from_arrays(pa.array([], pa.int8()), pa.array([], pa.string_view())),
]


@pytest.mark.parametrize("cells", HOSTILE, ids=lambda cells: str(cells.type))
@pytest.mark.parametrize("exactly", [False, True])
def test_no_cell_is_refused(cells: pa.Array, exactly: bool) -> None:
    assert is_hashed(cells.type)
    assert of(cells, exactly=exactly) == of(cells, exactly=exactly)
    assert len(of(cells, exactly=exactly)) == len(cells)


def test_a_row_is_the_sum_of_its_columns_whatever_their_order() -> None:
    batch = pa.record_batch({"a": [1, 2, 1], "b": ["x", "x", None], "c": [0.5, 0.5, 0.5]})
    hashes, _ = RowHash(KEY, ["a", "b", "c"]).of(batch)
    assert RowHash(KEY, ["c", "a", "b"]).of(batch.select(["b", "c", "a"]))[0].tolist() == hashes.tolist()
    assert (CellHashes(KEY, "a").of(batch.column("a"))[0] + RowHash(KEY, ["b", "c"]).of(batch)[0]).tolist() == hashes.tolist()
    assert len(set(hashes.tolist())) == 3


def test_a_column_its_name_and_the_key_change_the_hash() -> None:
    one = pa.array([1])
    found = {CellHashes(key, name).of(one)[0][0] for key in (KEY, bytes(16)) for name in ("x", "y", "")}
    assert len(found) == 6
    assert derived(KEY, b"a") != derived(KEY, b"b")
    assert len(derived(KEY, b"a")) == 16


def test_nested_columns_and_those_of_other_packages_are_left_out() -> None:
    assert not any(map(is_hashed, (pa.list_(pa.int8()), pa.struct([]), pa.map_(pa.int8(), pa.int8()), pa.month_day_nano_interval())))
    assert not is_hashed(pa.dictionary(pa.int8(), pa.list_(pa.int8())))
    assert all(is_hashed(cells.type) for arrays in SAME.values() for cells in arrays)
    info = FileInfo(
        ("a", "b", "c", "c"), pa.schema([("a", pa.int8()), ("b", pa.list_(pa.int8())), ("c", pa.int8()), ("c", pa.int8())]), None
    )
    assert types_of_rows([info]) == {"a": pa.int8()}


def test_columns_that_some_file_does_not_have_are_left_out() -> None:
    typed = FileInfo(("a", "b"), pa.schema([("a", pa.int8()), ("b", pa.string())]), None)
    assert types_of_rows([typed, FileInfo(("b", "c"), None, None)]) == {"b": pa.string()}
    assert types_of_rows([FileInfo(("b", "c"), None, None), typed]) == {"b": pa.binary()}
    assert types_of_rows([]) == {}


def test_equal_rows_of_a_unit_are_numbered() -> None:
    units = np.array([0, 1, 0, 0, 1, 0, 0])
    hashes = np.array([5, 5, 5, 6, 7, 5, 6], np.uint64)
    marks = np.array([9, 0, 0, 0, 0, 9, 0], np.uint64)
    places = np.array([10, 11, 12, 13, 14, 15, 3])
    assert repeats(units, hashes, marks, places).tolist() == [1, 0, 0, 1, 0, 2, 0]
    assert repeats(units[:0], hashes[:0], marks[:0], places[:0]).tolist() == []


def test_the_order_of_rows_changes_no_word() -> None:
    source = np.random.default_rng(3)
    batch = pa.record_batch(
        {"unit": source.integers(0, 4, 200), "x": source.integers(0, 5, 200).astype(str), "g": source.integers(0, 2, 200)}
    )
    values, order = RowValues(KEY, "unit", batch.schema.names), source.permutation(200)

    def words(rows: pa.RecordBatch) -> tuple[list[int], list[int]]:
        chosen = values.words(rows.column("unit").to_numpy(), *values.of(rows), np.arange(200))
        return sorted(chosen.tolist()), values.of_groups(rows, rows.column("g")).tolist()

    (all_words, of_groups), (shuffled, of_shuffled) = words(batch), words(batch.take(pa.array(order)))
    assert all_words == shuffled
    assert len(set(all_words)) == 200
    assert of_shuffled == [of_groups[place] for place in order]
    assert len(set(of_groups)) == 8


def test_a_value_of_a_unit_in_a_group_has_one_word() -> None:
    batch = pa.record_batch({"unit": ["a", "a", "b", "a"], "x": ["1", "1.0", "1", "1"]})
    words = ValueWords(KEY, "unit", "x")
    by_text, by_code = words.of(batch, None), words.of(batch, np.array([0, 0, 0, 0]))
    assert by_text[0] == by_text[3]
    assert len(set(by_text.tolist())) == 3
    assert (by_code[0] == by_code[1] == by_code[3], by_code[0] == by_code[2]) == (True, False)
    assert len(set(words.of(batch, None, np.array([0, 0, 0, 1])).tolist())) == 4
