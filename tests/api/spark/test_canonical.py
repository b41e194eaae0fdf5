"""Canonical bytes: the same for the same values in any buffers, and different for different values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.rng import framed
from dpcore.spark.canonical import canonical_parts

INT8 = st.integers(-128, 127)
TEXT = st.text(max_size=3)
KINDS = [
    (pa.int8(), INT8),
    (pa.int64(), INT8),
    (pa.uint8(), st.integers(0, 255)),
    (pa.float32(), st.floats(width=32, allow_nan=True)),
    (pa.float64(), st.floats(allow_nan=True)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=3)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.decimal128(5, 2), st.integers(-99999, 99999).map(lambda each: Decimal(each) / 100)),
    (pa.list_(pa.int8()), st.lists(st.none() | INT8, max_size=3)),
    (pa.struct([("a", pa.int8()), ("b", pa.string())]), st.fixed_dictionaries({"a": st.none() | INT8, "b": st.none() | TEXT})),
    (pa.null(), st.none()),
]
ARRAYS = st.sampled_from(KINDS).flatmap(lambda kind: st.lists(st.none() | kind[1], max_size=9).map(lambda cells: (kind[0], cells)))


def written(values) -> bytes:
    return b"".join(bytes(part) for part in framed(canonical_parts(values)))


def meaning(kind, cells) -> str:
    """The values as text: nulls, NaN, the sign of zero and types are all seen."""
    return f"{kind}: {cells!r}"


@given(ARRAYS, ARRAYS)
def test_different_values_have_different_bytes(one, other):
    same = written(pa.array(one[1], one[0])) == written(pa.array(other[1], other[0]))
    read = [meaning(kind, pa.array(cells, kind).to_pylist()) for kind, cells in (one, other)]
    assert same == (read[0] == read[1])


ZEROS = [
    (pa.int8(), 0),
    (pa.float64(), 0.0),
    (pa.bool_(), False),
    (pa.string(), ""),
    (pa.binary(), b""),
    (pa.binary(2), b"\0\0"),
    (pa.date32(), dt.date(1970, 1, 1)),
    (pa.decimal128(5, 2), Decimal(0)),
    (pa.list_(pa.int8()), []),
    (pa.struct([("a", pa.int8())]), {"a": None}),
]


@pytest.mark.parametrize(("kind", "zero"), ZEROS, ids=[str(kind) for kind, _ in ZEROS])
def test_a_null_is_not_the_value_whose_bytes_lie_under_it(kind, zero):
    arrays = [pa.array(cells, kind) for cells in ([zero, zero], [None, zero], [zero, None], [None, None])]
    assert len({written(array) for array in arrays}) == len(arrays)


@given(ARRAYS, st.data())
def test_the_same_values_have_the_same_bytes_in_other_buffers(array, data):
    kind, cells = array
    plain = pa.array(cells, kind)
    before, after = (data.draw(st.lists(st.sampled_from([*cells, None]), max_size=9)) for _ in range(2))
    sliced = pa.array([*before, *cells, *after], kind).slice(len(before), len(cells))
    place = data.draw(st.integers(0, len(cells)))
    chunked = pa.chunked_array([plain.slice(0, place), sliced.slice(place)], kind)
    for same in (sliced, chunked, pa.concat_arrays([plain.slice(0, place), plain.slice(place)])):
        assert written(same) == written(plain)


TEXTS = pa.array(["a", None, "", "bc", "a", "\0"])


@pytest.mark.parametrize(
    "other",
    [
        TEXTS.cast(pa.large_string()),
        TEXTS.dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([3, None, 0, 2, 3, 1]), pa.array(["", "\0", "bc", "a", "of no row"])),
        TEXTS.cast(pa.string_view()),
    ],
    ids=["large", "dictionary", "another dictionary", "view"],
)
def test_encodings_of_text_make_no_difference(other):
    assert written(other) == written(TEXTS)


def test_what_lies_under_a_null_makes_no_difference():
    for kind, numbers in ((pa.int32(), np.arange(5, dtype=np.int32)), (pa.float64(), np.linspace(0, 1, 5))):
        mask = np.array([False, True, False, True, False])
        one, other = (pa.array(each, kind, mask=mask) for each in (numbers, np.where(mask, 77, numbers).astype(numbers.dtype)))
        assert written(one) == written(other)


def test_a_bitmap_without_nulls_and_its_padding_make_no_difference():
    values = pa.array([1, 2, 3], pa.int8())
    full = pa.Array.from_buffers(pa.int8(), 3, [pa.py_buffer(b"\xff"), values.buffers()[1]])
    assert written(full) == written(values)
    one, other = (pa.Array.from_buffers(pa.bool_(), 3, [None, pa.py_buffer(byte)]) for byte in (b"\x05", b"\xfd"))
    assert written(one) == written(other)


def test_every_nan_is_one_value_and_the_zeros_are_two():
    for size, dtype in ((np.uint16, np.float16), (np.uint32, np.float32), (np.uint64, np.float64)):
        quiet = np.array([np.nan], dtype)
        marked = (quiet.view(size) | size(5)).view(dtype)
        negative = -quiet
        assert written(pa.array(quiet)) == written(pa.array(marked)) == written(pa.array(negative))
        assert written(pa.array(np.array([0.0], dtype))) != written(pa.array(np.array([-0.0], dtype)))


def test_numbers_of_different_types_are_different_values():
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()]
    kinds += [pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("us", "UTC")]
    assert len({written(pa.array([0, 1], pa.int64()).cast(kind)) for kind in kinds}) == len(kinds)


def test_lists_that_are_cut_elsewhere_differ():
    kind = pa.list_(pa.int8())
    assert len({written(pa.array(cells, kind)) for cells in ([[1], [2]], [[1, 2], []], [[], [1, 2]], [[1, 2], None])}) == 4
    assert written(pa.array([[1], None], kind)) == written(pa.array([[1], None], pa.large_list(pa.int8())))


def test_a_type_without_a_plain_form_is_refused():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(pa.ArrowNotImplementedError):
        written(union)


def test_chunks_whose_dictionaries_arrow_does_not_join():
    """A null among the labels, as in rows that came together from two tables; nested ones too."""
    first, second = pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", None]).dictionary_encode("encode")
    plain = pa.array(["a", "b", "b", None])
    with pytest.raises(pa.ArrowException):
        pa.chunked_array([first, second]).combine_chunks()
    assert written(pa.chunked_array([first, second])) == written(plain)
    lists = [pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), each) for each in (first, second)]
    assert written(pa.chunked_array(lists)) == written(pa.array([["a", "b"], ["b", None]]))
