"""Reads cells of text as numbers and answers, by a rule that looks at one cell alone and accepts every cell.

Arrow's parser decides where it can, and reads a whole piece at once. The rule of a cell is: what Arrow makes of it by itself; if that is
nothing, what `_number` makes of it. As Arrow's parser looks at one cell at a time too, it does not matter which cells share a piece.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.tables.formats.csv import NULLS
from dpcore.tables.types.slices import where

if TYPE_CHECKING:
    from collections.abc import Callable

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
BLANKS = b" \t"
NUMBER = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
INFINITE = re.compile(rb"([+-]?)inf(?:inity)?", re.ASCII | re.IGNORECASE)
SIMPLE = {
    pa.float64(): r"\A-?[0-9]{1,99}(?:\.[0-9]{0,99})?(?:[eE][+-]?[0-9]{1,2})?\z",
    pa.int64(): r"\A-?[0-9]{1,18}\z",
}
"""Cells that Arrow takes for numbers of a type, and that lie in its range."""
FARTHEST = 10**9
"""Decimal places by which an exponent can move a point; no cell is as long."""
LONGEST_INTEGER = 19
"""Digits of the largest 64-bit integer."""
ANSWERS = {True: (b"true", b"True", b"TRUE", b"1"), False: (b"false", b"False", b"FALSE", b"0")}
NEITHER = 2
"""Stands for an integer that is no answer."""


def reals(cells: pa.Array) -> pa.Array:
    """float64 for cells of bytes: beyond its range infinite; null where no number stands. NaN is for the reader to take as missing."""
    return _read(cells, pa.float64(), _real)


def integers(cells: pa.Array, below: int = INT64_MIN, above: int = INT64_MAX) -> pa.Array:
    """int64 for cells of bytes, `below` and `above` beyond its range; null where no whole number stands."""
    return _read(cells, pa.int64(), lambda cell: _integer(cell, below, above))


def answers(cells: pa.Array) -> pa.Array:
    """1 for true, 0 for false, `NEITHER` for other whole numbers, as int8; null where none of these stands."""
    words = pa.array([word for answer in (True, False) for word in ANSWERS[answer]], pa.binary())
    found = pc.index_in(cells, value_set=words)
    known = pc.if_else(pc.less(found, len(ANSWERS[True])), pa.scalar(1, pa.int8()), pa.scalar(0, pa.int8()))
    if found.null_count == 0:
        return known
    numbers = integers(cells)
    filled = pc.fill_null(numbers, NEITHER).to_numpy()
    others = np.where((filled == 0) | (filled == 1), filled, NEITHER).astype(np.int8)
    return pc.if_else(found.is_valid(), known, pa.array(others, mask=numbers.is_null().to_numpy(zero_copy_only=False)))


def _read(cells: pa.Array, dtype: pa.DataType, rule: Callable[[bytes], Any]) -> pa.Array:
    """All cells at once; else those that are written as most numbers are at once, and each different one of the others by itself."""
    parsed = _cast(cells, dtype)
    if parsed is not None:
        return parsed
    nulls = pc.is_in(cells, value_set=pa.array([null.encode() for null in NULLS], pa.binary()))
    simple = pc.fill_null(pc.match_substring_regex(cells, SIMPLE[dtype]), False)  # noqa: FBT003
    parsed = _cast(where(simple, cells), dtype)
    if parsed is None:
        return _each(where(pc.invert(nulls), cells), dtype, rule)
    others = pc.and_not(cells.is_valid(), pc.or_(nulls, simple))
    return pc.replace_with_mask(parsed, others, _each(cells.filter(others), dtype, rule))


def _each(cells: pa.Array, dtype: pa.DataType, rule: Callable[[bytes], Any]) -> pa.Array:
    different = cells.dictionary_encode()
    meanings = pa.array([_meaning(cell, dtype, rule) for cell in different.dictionary.to_pylist()], dtype)
    return meanings.take(different.indices)


def _cast(cells: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    try:
        return cells.cast(pa.string()).cast(dtype)
    except pa.ArrowInvalid:
        return None


def _meaning(cell: bytes, dtype: pa.DataType, rule: Callable[[bytes], Any]) -> Any:
    parsed = _cast(pa.array([cell], pa.binary()), dtype)
    return rule(cell.strip(BLANKS)) if parsed is None else parsed[0].as_py()


def _real(cell: bytes) -> float | None:
    if NUMBER.fullmatch(cell) and any(digit in b"0123456789" for digit in cell):
        return _float(cell)
    found = INFINITE.fullmatch(cell)
    return None if found is None else float(cell.decode())


def _float(cell: bytes) -> float | None:
    try:
        return float(cell)
    except ValueError:  # an exponent without digits before it
        return None


def _integer(cell: bytes, below: int, above: int) -> int | None:
    """A whole number, however it is written: 3, 3.0, 30e-1."""
    found = NUMBER.fullmatch(cell)
    if found is None:
        return None
    sign, whole, fraction, exponent = (part or b"" for part in found.groups())
    if not whole and not fraction:
        return None
    digits = (whole + fraction).lstrip(b"0")
    point = len(digits) - len(fraction) + _exponent(exponent)
    significant = digits.rstrip(b"0")
    if not significant:
        return 0
    if point < len(significant):
        return None
    if point > LONGEST_INTEGER:
        return below if sign == b"-" else above
    number = int(significant) * 10 ** (point - len(significant)) * (-1 if sign == b"-" else 1)
    return below if number < INT64_MIN else above if number > INT64_MAX else number


def _exponent(text: bytes) -> int:
    """Cut to what can matter: Python takes quadratic time for long numbers."""
    digits = text.lstrip(b"+-").lstrip(b"0")
    size = FARTHEST if len(digits) > len(str(FARTHEST)) - 1 else int(digits or b"0")
    return -size if text.startswith(b"-") else size
