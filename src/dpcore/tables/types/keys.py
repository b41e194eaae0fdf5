"""Keys of groups that nobody declared: the cells of one or several columns as bytes that sort and compare as the values do.

A key is made of one row alone, and no cell can end a job: where a cell is null, or is no key that a document could name, the row has none.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.tables.formats.csv import NULLS
from dpcore.tables.types.categories import INTEGER_TYPES, TEXT_TYPES, value_type
from dpcore.tables.types.slices import where
from dpcore.tables.types.valid_cells import are_utf8
from dpcore.tables.types.whole_arrays import VIEW, texts_of_views

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

LONGEST_TEXT = 256
"""Bytes of the longest text that is a key: keys must not outgrow the memory of what counts them."""
END = b"\0"
"""Ends a text before another column; a text that holds it is no key."""
NUMBER_BYTES, NUMBERS = 8, ">u8"
SIGN = np.uint64(1 << 63)
DAY_TYPES = (pa.date32(), pa.date64())
MILLISECONDS = 86_400_000
EPOCH = 719_163
"""The ordinal of 1970-01-01 in Python's calendar, which begins with 1."""
LEAST_DAYS, MOST_DAYS = 1 - EPOCH, 3_652_059 - EPOCH
"""Days since then of the years 1 to 9999."""
Key = str | int


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of keys.

    Attributes
    ----------
    name : str
        Its name.
    type : pyarrow.DataType or None
        Type of its values; None in a format without types, where all are text.
    """

    name: str
    type: pa.DataType | None = None

    @property
    def is_text(self) -> bool:
        """Whether keys are texts."""
        return self.type is None or self.type in TEXT_TYPES or self.type == VIEW

    @property
    def are_days(self) -> bool:
        """Whether keys are dates."""
        return self.type in DAY_TYPES

    @property
    def wanted(self) -> str:
        """The types that `accepts` takes, in words."""
        return "a string, integer or date type, or a dictionary of these"

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing: a row without a key is in no group."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether a column of this type can hold keys."""
        return value_type(dtype) in (*TEXT_TYPES, *INTEGER_TYPES, *DAY_TYPES, pa.null()) or value_type(dtype) == VIEW

    def for_type(self, dtype: pa.DataType | None) -> KeyColumn:
        """The same column, of this type."""
        return replace(self, type=None if dtype is None else value_type(dtype))

    def encoded(self, cells: pa.Array) -> pa.Array:
        """Each cell as bytes; null where it is no key."""
        if pa.types.is_dictionary(cells.type):
            return self.encoded(cells.dictionary).take(cells.indices)
        if pa.types.is_null(cells.type):
            return pa.nulls(len(cells), pa.binary())
        cells = texts_of_views(cells) if cells.type == VIEW else cells
        return _texts(cells) if self.is_text else _fixed(*self.numbers(cells))

    def numbers(self, cells: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Of a column that is not text: numbers that sort as its values do, those that keys have as bytes; and where a cell is no key."""
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if pa.types.is_null(cells.type):
            return np.zeros(len(cells), np.uint64), np.ones(len(cells), np.bool_)
        whole = self._whole(cells)
        return whole.fill_null(0).to_numpy().view(np.uint64) ^ SIGN, whole.is_null().to_numpy(zero_copy_only=False)

    def numbers_of(self, parts: pa.Array) -> npt.NDArray[np.uint64]:
        """The numbers of parts of keys."""
        return np.frombuffer(b"".join(parts.to_pylist()), NUMBERS).astype(np.uint64)

    def _whole(self, cells: pa.Array) -> pa.Array:
        """Integers, or days since 1970; null beyond the range of a key."""
        if pa.types.is_uint64(cells.type):
            return where(pc.less(cells, pa.scalar(2**63, pa.uint64())), cells).cast(pa.int64())
        if not self.are_days:
            return cells.cast(pa.int64())
        if pa.types.is_date32(cells.type):
            days = cells.view(pa.int32()).cast(pa.int64())
        else:
            raw = cells.view(pa.int64())
            days = pa.array(raw.fill_null(0).to_numpy() // MILLISECONDS, mask=raw.is_null().to_numpy(zero_copy_only=False))
        return where(pc.and_(pc.greater_equal(days, LEAST_DAYS), pc.less_equal(days, MOST_DAYS)), days)

    def value(self, key: bytes) -> Key:
        """The value that a key was made of; a date as ISO 8601 writes it."""
        if self.is_text:
            return key.decode()
        number = int.from_bytes(key, "big") - (1 << 63)
        return dt.date.fromordinal(number + EPOCH).isoformat() if self.are_days else number


def encoded(columns: Sequence[KeyColumn], cells: Sequence[pa.Array]) -> pa.Array:
    """The key of each row: equal bytes for equal values, in the order of the columns; null where a cell is no key."""
    parts = [column.encoded(each) for column, each in zip(columns, cells, strict=True)]
    if len(parts) == 1:
        return parts[0]
    ends = [pa.scalar(END if column.is_text else b"", pa.binary()) for column in columns]
    joined = [each for part, end in zip(parts, ends, strict=True) for each in (part, end)]
    return pc.binary_join_element_wise(*joined, pa.scalar(b"", pa.binary()))


def parts_of(columns: Sequence[KeyColumn], key: bytes) -> list[bytes]:
    """The part of a key that each column made."""
    if len(columns) == 1:
        return [key]
    found = []
    for column in columns:
        if column.is_text:
            part, _, key = key.partition(END)
        else:
            part, key = key[:NUMBER_BYTES], key[NUMBER_BYTES:]
        found.append(part)
    return found


def _fixed(numbers: npt.NDArray[np.uint64], absent: npt.NDArray[np.bool_]) -> pa.Array:
    """Numbers as eight bytes, the most significant first."""
    data = pa.py_buffer(numbers.astype(NUMBERS))
    whole = pa.FixedSizeBinaryArray.from_buffers(pa.binary(NUMBER_BYTES), len(numbers), [None, data]).cast(pa.binary())
    return where(pa.array(~absent), whole) if absent.any() else whole


def _texts(cells: pa.Array) -> pa.Array:
    """Texts as bytes. No keys are those too long, with a zero byte or not UTF-8, and the nulls of a format without types."""
    untyped = cells.type == pa.binary()
    raw = cells if untyped else cells.view(pa.binary() if pa.types.is_string(cells.type) else pa.large_binary())
    fits = pc.and_(pc.less_equal(pc.binary_length(raw), LONGEST_TEXT), pc.invert(pc.match_substring(raw, END)))
    if untyped:
        fits = pc.and_(fits, pc.invert(pc.is_in(raw, value_set=pa.array([null.encode() for null in NULLS], pa.binary()))))
    kept = where(fits, raw).cast(pa.binary())
    try:
        kept.cast(pa.string())
    except pa.ArrowInvalid:
        return where(are_utf8(kept), kept)
    return kept
