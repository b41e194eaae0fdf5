"""The functions of Arrow that readers call give what Python gives, also of slices: versions of pyarrow looked beside a slice's ends."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpcore.tables.types.slices import where

TEXTS = ["a", "", "bbb", "é", "x" * 40]
BYTES = [b"a", b"", b"\xff\xfe", b"bbb", b"z" * 40]
CELLS = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary(2): [b"ab", b"cd", b"\xff\x00"],
    pa.bool_(): [True, False],
    pa.int8(): [-128, 0, 127],
    pa.int64(): [-(2**63), 0, 2**63 - 1],
    pa.uint64(): [0, 1, 2**64 - 1],
    pa.float64(): [-0.0, 1.5, math.inf],
    pa.decimal128(5, 2): [Decimal("1.25"), Decimal("-999.99"), Decimal("0.00")],
    pa.timestamp("us"): [dt.datetime(1, 1, 1), dt.datetime(2024, 1, 31, 12)],
    pa.date32(): [dt.date(1960, 2, 29), dt.date(9999, 12, 31)],
}
OF_BYTES = (pa.binary(), pa.large_binary())
TRIALS = 30


def drawn(rng: random.Random, values: list, n: int) -> list:
    return [rng.choice([*values, None]) for _ in range(n)]


def sliced(rng: random.Random, values: list, kind: pa.DataType) -> pa.Array:
    """The values as a slice of a longer array, with others before and behind."""
    before, behind = rng.randrange(12), rng.randrange(12)
    around = [value for value in values if value is not None] or [None]
    return pa.array([rng.choice(around) for _ in range(before)] + values + [rng.choice(around) for _ in range(behind)], kind).slice(
        before, len(values)
    )


def same(found: pa.Array, wanted: list) -> None:
    found.validate(full=True)
    assert found.to_pylist() == wanted


@pytest.mark.parametrize("kind", CELLS, ids=str)
def test_cells_become_null_where_a_condition_does_not_hold(kind):
    rng = random.Random(str(kind))
    for _ in range(TRIALS):
        n = rng.randrange(1, 40)
        cells, fits = drawn(rng, CELLS[kind], n), drawn(rng, [True, False], n)
        same(
            where(sliced(rng, fits, pa.bool_()), sliced(rng, cells, kind)),
            [cell if fit else None for cell, fit in zip(cells, fits, strict=True)],
        )


@pytest.mark.parametrize("kind", CELLS, ids=str)
def test_rows_are_taken_from_a_slice(kind):
    rng = random.Random(f"taken {kind}")
    values = CELLS[kind]
    for _ in range(TRIALS):
        n = rng.randrange(1, 40)
        cells, other = drawn(rng, values, n), drawn(rng, values, 5)
        array, fits, filled = sliced(rng, cells, kind), drawn(rng, [True, False], n), values[0]
        places = [rng.choice([None, rng.randrange(n)]) for _ in range(n)]
        same(array.take(sliced(rng, places, pa.int32())), [None if place is None else cells[place] for place in places])
        same(array.filter(sliced(rng, fits, pa.bool_())), [cell for cell, fit in zip(cells, fits, strict=True) if fit])
        same(pa.concat_arrays([array, sliced(rng, other, kind)]), cells + other)
        same(array.is_null(), [cell is None for cell in cells])
        same(array.is_valid(), [cell is not None for cell in cells])
        same(pc.is_in(array, value_set=pa.array([filled], kind)), [cell == filled for cell in cells])
        same(pc.index_in(array, value_set=pa.array(values, kind)), [None if cell is None else values.index(cell) for cell in cells])
        if not pa.types.is_fixed_size_binary(kind):
            same(pc.fill_null(array, pa.scalar(filled, kind)), [filled if cell is None else cell for cell in cells])
        if not pa.types.is_date(kind):
            encoded = array.dictionary_encode()
            same(encoded.dictionary.take(encoded.indices), cells)
        mask = [fit is True for fit in fits]
        new = drawn(rng, values, sum(mask))
        if kind != pa.bool_():  # which is never asked for, and was wrong before pyarrow 26
            rest = iter(new)
            wanted = [next(rest) if changed else cell for cell, changed in zip(cells, mask, strict=True)]
            same(pc.replace_with_mask(array, sliced(rng, mask, pa.bool_()), sliced(rng, new, kind)), wanted)


@pytest.mark.parametrize("kind", OF_BYTES, ids=str)
def test_bytes_of_a_slice(kind):
    rng = random.Random(f"bytes {kind}")
    for _ in range(TRIALS):
        n = rng.randrange(1, 40)
        cells = drawn(rng, BYTES, n)
        array = sliced(rng, cells, kind)
        same(pc.binary_length(array), [None if cell is None else len(cell) for cell in cells])
        same(pc.match_substring(array, b"b"), [None if cell is None else b"b" in cell for cell in cells])
        same(
            pc.match_substring_regex(array, r"\A[a-z]*\z"),
            [None if cell is None else cell in {b"a", b"", b"bbb", b"z" * 40} for cell in cells],
        )
        same(
            pc.binary_join_element_wise(array, array, pa.scalar(b"-", kind)),
            [None if cell is None else cell + b"-" + cell for cell in cells],
        )
        text = [None if cell is None or cell == b"\xff\xfe" else cell.decode() for cell in cells]
        plain = sliced(rng, text, pa.string())
        same(plain.cast(pa.large_string()), text)
        same(plain.view(pa.binary()).cast(kind), [None if cell is None else cell.encode() for cell in text])
        same(plain.cast(pa.string_view()).cast(pa.string()), text)


def test_truth_of_slices():
    rng = random.Random("truth")
    for _ in range(TRIALS):
        n = rng.randrange(1, 70)
        first, second = drawn(rng, [True, False], n), drawn(rng, [True, False], n)
        one, two = sliced(rng, first, pa.bool_()), sliced(rng, second, pa.bool_())
        pairs = list(zip(first, second, strict=True))
        same(pc.and_(one, two), [None if None in pair else all(pair) for pair in pairs])
        same(pc.or_(one, two), [None if None in pair else any(pair) for pair in pairs])
        same(pc.and_not(one, two), [None if None in pair else pair[0] and not pair[1] for pair in pairs])
        same(pc.invert(one), [None if cell is None else not cell for cell in first])
        assert one.to_numpy(zero_copy_only=False).tolist() == first
        assert pc.any(one).as_py() == (True if True in first else False if False in first else None)
        assert pc.all(one, min_count=0).as_py() == (False not in first)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(5, 2)], ids=str)
def test_numbers_of_slices(kind):
    rng = random.Random(f"numbers {kind}")
    values = CELLS[kind]
    for _ in range(TRIALS):
        n = rng.randrange(1, 40)
        cells, fits = drawn(rng, values, n), drawn(rng, [True, False], n)
        array, middle, others = sliced(rng, cells, kind), pa.scalar(values[1], kind), drawn(rng, values, n)
        same(pc.less(array, middle), [None if cell is None else cell < values[1] for cell in cells])
        same(pc.less_equal(array, middle), [None if cell is None else cell <= values[1] for cell in cells])
        same(pc.greater_equal(array, middle), [None if cell is None else cell >= values[1] for cell in cells])
        known = [cell for cell in cells if cell is not None]
        assert pc.min_max(array).as_py() == {"min": min(known, default=None), "max": max(known, default=None)}
        mixed = [None if fit is None else cell if fit else other for fit, cell, other in zip(fits, cells, others, strict=True)]
        same(pc.if_else(sliced(rng, fits, pa.bool_()), array, sliced(rng, others, kind)), mixed)
