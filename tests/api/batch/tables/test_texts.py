"""Text as records, cells and values: each against a twin that shares no code with it."""

from __future__ import annotations

import csv
import io
import math
import re
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore._backend import end_of_record, split_records
from dpcore.tables.formats.csv import NULLS
from dpcore.tables.types import texts
from support.hostile import TEXT_CELLS

CELLS = (
    st.sampled_from(TEXT_CELLS)
    | st.binary(max_size=8)
    | st.from_regex(rb"[ +-]?[0-9]{0,3}\.?[0-9]{0,3}(e[+-]?[0-9]{1,3})?", fullmatch=True)
)
RECORDS = st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"\r\n", b"a", b"bc", b'""', b"\xff"]), max_size=40).map(b"".join)
WHITE = " \t"


def cells_of(text: bytes, columns: int, most: int = 100, *, final: bool = True) -> list[list[bytes]]:
    found = split_records(text, columns, range(columns), most, final=final)
    rows = [[bytes(content[starts[i] : starts[i + 1]]) for starts, content in found.cells] for i in range(found.rows)]
    assert all(len(starts) == found.rows + 1 for starts, _ in found.cells)
    return rows


@given(text=RECORDS, columns=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_records_are_those_of_pythons_reader(text, columns):
    found = split_records(text, columns, range(columns), 100, final=True)
    expected = list(csv.reader(io.StringIO(text.decode("latin-1"), newline="")))
    if found.is_open:
        expected = expected[: found.rows] if columns == 1 else [row for row in expected if row][: found.rows]
    if columns > 1:
        expected = [row for row in expected if row]
    filled = [[cell.encode("latin-1") for cell in [*row, *[""] * columns][:columns]] for row in expected]
    assert cells_of(text, columns) == filled


@given(text=RECORDS, columns=st.integers(1, 3), cut=st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_records_do_not_depend_on_where_the_text_is_cut(text, columns, cut):
    whole = split_records(text, columns, range(columns), 100, final=True)
    first = split_records(text[:cut], columns, range(columns), 100, final=False)
    rows = cells_of(text[:cut], columns, final=False) + cells_of(text[first.behind :], columns)
    assert rows == cells_of(text, columns)
    assert split_records(text[first.behind :], columns, range(columns), 100, final=True).is_open == whole.is_open


@given(text=RECORDS, cut=st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_a_record_that_is_passed_over_ends_where_one_that_is_read_does(text, cut):
    one = split_records(text, 1, [0], 1, final=False)
    end, state = end_of_record(text[:cut])
    if end < 0:
        end, _ = end_of_record(text[cut:], state)
        end += cut if end >= 0 else 0
    if one.rows:
        assert end == one.behind


def test_wanted_cells_only():
    found = split_records(b"a,b,c\nd\n\ne,f,g,h\n", 3, [2, 0], 2, final=False)
    assert [bytes(content) for _, content in found.cells] == [b"c", b"ad"]
    assert (found.rows, found.behind, found.is_open) == (2, 8, False)


# Values


def twin(cell: bytes) -> Decimal | float | None:
    """What a cell says, by Python's own arithmetic; None if it is missing."""
    try:
        text = cell.decode("ascii").strip(WHITE)
    except UnicodeDecodeError:
        return None
    if cell.decode("ascii") in NULLS or not text or text != text.strip():
        return None
    if re.fullmatch(r"[+-]?inf(inity)?", text, re.IGNORECASE):
        return float(text)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:  # beyond the exponents of a Decimal
        return (
            math.copysign(math.inf, -1 if text[0] == "-" else 1)
            if "e-" not in text.lower() and re.match(r"[+-]?0*\.?0*[1-9]", text)
            else Decimal(0)
        )


def peculiar(cell: bytes) -> bool:
    """What Arrow's parser reads beyond our grammar, always in the same way: hexadecimal integers, and NaN with a note."""
    return b"x" in cell.lower() or b"nan" in cell.lower()


@given(cells=st.lists(CELLS, min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_reals(cells):
    found = texts.reals(pa.array(cells, pa.binary())).to_pylist()
    for cell, value in zip(cells, found, strict=True):
        expected = twin(cell)
        if peculiar(cell):
            continue
        assert (value is None or math.isnan(value)) if expected is None else value == float(expected), cell


@given(cells=st.lists(CELLS, min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_integers_and_answers(cells):
    array = pa.array(cells, pa.binary())
    for cell, value, answer in zip(cells, texts.integers(array).to_pylist(), texts.answers(array).to_pylist(), strict=True):
        if peculiar(cell):
            continue
        number = twin(cell)
        whole = isinstance(number, Decimal) and (number.adjusted() > 30 or number == number.to_integral_value())
        huge = isinstance(number, float) and b"inf" not in cell.lower()
        if not whole and not huge:
            assert value is None, cell
        else:
            large = huge or (number != 0 and number.adjusted() > 30)
            clamped = (-(2**63) if number < 0 else 2**63 - 1) if large else min(max(int(number), -(2**63)), 2**63 - 1)
            assert value == clamped, cell
        words = {b"true": 1, b"True": 1, b"TRUE": 1, b"false": 0, b"False": 0, b"FALSE": 0}
        expected = words.get(cell, None if value is None else value if value in {0, 1} else texts.NEITHER)
        assert answer == expected, cell


@pytest.mark.long
@given(cells=st.lists(CELLS, min_size=2, max_size=8), place=st.integers(0, 7))
@settings(max_examples=100, deadline=None)
def test_a_cell_means_the_same_in_any_company(cells, place):
    cell = cells[place % len(cells)]
    for read in (texts.reals, texts.integers, texts.answers):
        alone = read(pa.array([cell], pa.binary()))[0]
        among = read(pa.array(cells, pa.binary()))[place % len(cells)]
        assert str(alone).replace("nan", "None") == str(among).replace("nan", "None")  # both are missing


def test_a_parser_that_looks_at_the_whole_piece_is_caught(monkeypatch):
    """As if a piece with one cell that Arrow cannot read were all missing."""
    monkeypatch.setattr(texts, "SIMPLE", dict.fromkeys(texts.SIMPLE, r"\Anone\z"))
    monkeypatch.setattr(texts, "_meaning", lambda *_: None)
    with pytest.raises(AssertionError):
        test_a_cell_means_the_same_in_any_company.hypothesis.inner_test([b"1", b"2.5", b"wrong"], 0)


@pytest.mark.parametrize("cell", [b"9" * 3_000_000, b"1e" + b"9" * 3_000_000, b"0." + b"0" * 3_000_000 + b"1", b"\xff" * 3_000_000])
def test_long_cells_take_linear_time(cell):
    assert len(texts.integers(pa.array([cell, b"1"], pa.binary()))) == 2
    assert len(texts.reals(pa.array([cell, b"1"], pa.binary()))) == 2


def test_an_integer_that_no_64_bits_hold_is_no_category():
    assert texts.integers(pa.array([b"9" * 30, b"-" + b"9" * 30, b"7"], pa.binary()), -5, -6).to_pylist() == [-6, -5, 7]
    assert np.iinfo(np.int64).max == texts.INT64_MAX
