"""One odd cell does not make the cells beside it take longer: what is done with each cell in Python is done for odd ones alone."""

from __future__ import annotations

import sys
from decimal import Decimal

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.tables.formats import csv as csv_input
from dpcore.tables.sql.arrow_values import readable
from dpcore.tables.types import dates, decimals, different, keys, plain, texts, times

BORDERS = bytes.fromhex("000a417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5ff")
"""Bytes at the ends of each range of UTF-8."""
NOT_UTF8 = b"caf\xe9"
LEAST = -(2**127)
"""The least number of 128 bits, which Arrow's check takes for a decimal of any type."""


def bytes_of(cells, kind=None):
    made = pa.array(cells, pa.binary())
    return made if kind is None else pa.Array.from_buffers(kind, len(made), made.buffers(), offset=made.offset)


def decimals_of(numbers, kind):
    words = np.array([[each & (2**64 - 1), each >> 64 & (2**64 - 1)] for each in numbers], np.uint64)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(words)])


def is_utf8(cell):
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.lists(st.sampled_from(BORDERS), max_size=9).map(bytes) | st.text(max_size=4).map(str.encode), max_size=20))
def test_which_texts_are_utf8(cells):
    from dpcore.tables.types.valid_cells import are_utf8

    expected = [None if cell is None else is_utf8(cell) for cell in cells]
    for kind in (None, pa.string()):
        found = are_utf8(bytes_of(cells, kind)) if cells else pa.array([], pa.bool_())
        assert found.to_pylist() == expected


def test_every_pair_and_triple_of_borders():
    from dpcore.tables.types.valid_cells import are_utf8

    cells = [bytes([a, b]) for a in range(256) for b in range(256)]
    cells += [bytes([a, b, c]) for a in BORDERS for b in BORDERS for c in BORDERS] + [b"a\n", b"\n", b"", "a\u2028\U0001f600".encode()]
    assert are_utf8(bytes_of(cells)).to_pylist() == [is_utf8(cell) for cell in cells]


@pytest.mark.parametrize("kind", [pa.decimal128(1, 0), pa.decimal128(18, 2), pa.decimal128(38, 38), pa.decimal128(38, 0)], ids=str)
def test_which_decimals_have_too_many_digits(kind):
    most = 10**kind.precision - 1
    numbers = [0, 1, -1, most, most + 1, -most, -most - 1, 2**127 - 1, LEAST, LEAST + 1]
    found = readable(decimals_of(numbers, kind), f"DECIMAL({kind.precision},{kind.scale})")
    expected = [Decimal((int(each < 0), tuple(map(int, str(abs(each)))), -kind.scale)) if abs(each) <= most else None for each in numbers]
    assert found.to_pylist() == expected


@pytest.mark.parametrize("numbers", [[LEAST], [LEAST, 10**18]])
def test_the_least_decimal_is_missing_in_any_company(numbers):
    assert readable(decimals_of(numbers, pa.decimal128(18, 2)), "DECIMAL(18,2)")[0].as_py() is None


# The work of a piece


def calls_of(work):
    """How many functions Python calls meanwhile."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def numbered(n, odd, text="%d"):
    return [*((text % each).encode() for each in range(n)), odd]


def as_text(cells):
    return readable(cells, "VARCHAR")


WIDE = pa.decimal128(38, 2)
NUMBERS = (
    ("reals", "%d.5", texts.reals),
    ("wholes", "%d", texts.integers),
    ("exponents", "%de-3", texts.reals),
    ("codes", "%d", texts.answers),
)
ODD = (b"x", b"", b"NaN", b"+5", b" 5", b"1e400", b"9" * 40, b"inf", b"5.", b"\xff", b"0x1F", b"1e5", b"-0", b"00", b".5", b" 7\t")
WORK = {
    "text in an expression": (lambda n: bytes_of(numbered(n, NOT_UTF8), pa.string()), as_text),
    "text of a CSV in an expression": (lambda n: bytes_of(numbered(n, NOT_UTF8)), as_text),
    "text that is too long in an expression": (lambda n: bytes_of(numbered(n, b"a" * 10**6), pa.string()), as_text),
    "labels in an expression": (
        lambda n: pa.DictionaryArray.from_arrays(pa.array(range(n + 1)), bytes_of(numbered(n, NOT_UTF8), pa.string())),
        as_text,
    ),
    "decimals in an expression": (
        lambda n: decimals_of([*range(n), 10**30], pa.decimal128(18, 2)),
        lambda cells: readable(cells, "DECIMAL(18,2)"),
    ),
    "wide decimals in an expression": (
        lambda n: pa.array([*map(Decimal, range(n)), Decimal(10**38 - 1)], pa.decimal256(38, 0)),
        lambda cells: readable(cells, "DECIMAL(38,0)"),
    ),
    "kept text of a CSV": (lambda n: bytes_of(numbered(n, NOT_UTF8)), csv_input.decoded),
    "keys of groups": (lambda n: bytes_of(numbered(n, NOT_UTF8), pa.string()), keys._texts),
    **{
        f"{name} beside {odd!r}": (lambda n, odd=odd, text=text: bytes_of(numbered(n, odd, text)), read)
        for name, text, read in NUMBERS
        for odd in ODD
    },
    "text as days": (lambda n: bytes_of([b"2026-01-31"] * n + [NOT_UTF8], pa.string()), lambda cells: dates.days_of(cells, 0, 10**6)),
    "text as times": (
        lambda n: bytes_of([b"2026-01-31T10:00"] * n + [NOT_UTF8], pa.string()),
        lambda cells: times.numbers(cells, "timestamp"),
    ),
    "decimals as steps": (lambda n: decimals_of([*range(n), 10**30], WIDE), lambda cells: decimals.steps(cells, 1)),
    "decimals as floats": (lambda n: decimals_of([*range(n), 10**30], WIDE), plain.numbers),
    "decimals as categories": (lambda n: decimals_of([*range(n), 10**30], WIDE), lambda cells: plain.whole_decimals(cells, -1)),
    "different texts": (lambda n: bytes_of(numbered(n, NOT_UTF8), pa.string()), lambda cells: different.different(cells, "text")),
}  # fmt: skip


@pytest.mark.parametrize("what", WORK)
def test_no_cell_makes_others_take_longer(what):
    make, work = WORK[what]
    few, many = make(20), make(2_000)
    work(few)  # what is made at the first call is not counted
    assert calls_of(lambda: work(many)) <= calls_of(lambda: work(few)) + 5


def test_a_loop_over_the_cells_is_noticed():
    """The twin looks at each cell of a piece in which one is odd."""

    def looped(cells):
        try:
            return cells.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([cell if is_utf8(cell) else None for cell in cells.to_pylist()], pa.binary())

    few, many = (bytes_of(numbered(n, NOT_UTF8)) for n in (20, 2_000))
    assert calls_of(lambda: looped(many)) > calls_of(lambda: looped(few)) + 1_000


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.none()
        | st.sampled_from(ODD)
        | st.from_regex(rb"[ +-]?[0-9]{0,20}\.?[0-9]{0,3}(e[+-]?[0-9]{1,3})?", fullmatch=True),
        max_size=8,
    )
)  # fmt: skip
def test_a_number_is_read_as_it_is_alone(cells):
    for read in (texts.reals, texts.integers, texts.answers):
        alone = [None if cell is None else read(bytes_of([cell]))[0].as_py() for cell in cells]
        found = read(bytes_of(cells)).to_pylist() if cells else []
        assert list(map(repr, _without_nan(found))) == list(map(repr, _without_nan(alone)))


def _without_nan(numbers):
    """NaN and null are both missing."""
    return [None if each is None or each != each else each for each in numbers]


def test_text_that_is_not_utf8_is_mended_where_it_is():
    cells = bytes_of([b"a", NOT_UTF8, None, "ü".encode(), b"\xff\xfe"])
    assert csv_input.decoded(cells).to_pylist() == ["a", "caf\ufffd", None, "ü", "\ufffd\ufffd"]
    assert csv_input.decoded(cells.slice(1, 2)).to_pylist() == ["caf\ufffd", None]
    assert pc.equal(csv_input.decoded(cells.slice(3, 1)), "ü").to_pylist() == [True]
