"""Columns of Arrow as an expression sees them: in few types, and with nothing in them that a database could stumble over.

What a cell becomes depends on that cell alone. Integers have 64 bits and floats are float64, whatever the file stores. NULL stand for NaN,
for text of more than `LONGEST_CELL` bytes or that is not UTF-8, for decimals with more digits than their type, for dates and times
outside of the years 1 to 9999, for times of day that no day has, and for lengths of time of more than 8000 years. A time with a zone is the
time in UTC, without the zone. Nanoseconds are dropped.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.tables.sql.allowed import LONGEST_CELL
from dpcore.tables.types.slices import stored, where
from dpcore.tables.types.valid_cells import are_utf8, have_digits
from dpcore.tables.types.whole_arrays import texts_of_views

if TYPE_CHECKING:
    import numpy.typing as npt

FIRST_DAY, LAST_DAY = (day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max))
A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
MOST_DIGITS = 38
"""Of a decimal of the database."""
TIME32_BITS = 32
LENGTHS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
"""A length of time as the database gives it."""
MONTH_DAYS = 30
"""Days of a month in a length of time, as the database compares them."""
NULLS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Cells of a format without types that are missing; a test compares them with those of `tables.csv_input`."""
TEXTS = (pa.string(), pa.large_string())
ARROW_TYPES = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIME": pa.time64("us"),
    "INTERVAL": pa.duration("us"),
}


def database_type(dtype: pa.DataType | None) -> str | None:
    """The type that a column has in an expression; None if it cannot be used in one.

    Parameters
    ----------
    dtype : pyarrow.DataType or None
        None is text of a format without types.
    """
    if dtype is None:
        return "VARCHAR"
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    if pa.types.is_integer(dtype):
        return "UBIGINT" if dtype == pa.uint64() else "BIGINT"
    if pa.types.is_decimal(dtype):
        return f"DECIMAL({dtype.precision},{dtype.scale})" if 0 <= dtype.scale <= dtype.precision <= MOST_DIGITS else None
    kinds = {
        "BOOLEAN": pa.types.is_boolean,
        "DOUBLE": pa.types.is_floating,
        "VARCHAR": lambda each: each in TEXTS or _is_view(each),
        "DATE": pa.types.is_date,
        "TIMESTAMP": pa.types.is_timestamp,
        "TIME": pa.types.is_time,
        "INTERVAL": pa.types.is_duration,
        "NULL": pa.types.is_null,
    }
    return next((name for name, is_kind in kinds.items() if is_kind(dtype)), None)


def _is_view(dtype: pa.DataType) -> bool:
    return hasattr(pa, "string_view") and dtype == pa.string_view()


def readable(cells: pa.Array, wanted: str) -> pa.Array:
    """The cells of a column, for a database.

    Parameters
    ----------
    cells : pyarrow.Array
        Of a type that stands for `wanted`, or bytes of a format without types.
    wanted : str
        From `database_type`.

    Returns
    -------
    pyarrow.Array
        Of the type that `ARROW_TYPES` lists; text may be in a dictionary.
    """
    if wanted == "NULL":
        return pa.nulls(len(cells))  # of a dictionary of nulls, too
    if pa.types.is_null(cells.type):
        return pa.nulls(len(cells), _arrow_type(wanted))
    if wanted == "VARCHAR":
        return _text(cells)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary.take(cells.indices)
    if wanted == "DOUBLE":
        numbers = cells.cast(pa.float64())
        nan = pc.is_nan(numbers)
        return where(pc.invert(nan), numbers) if pc.any(nan).as_py() else numbers
    if wanted in {"DATE", "TIMESTAMP"}:
        return _time(cells, wanted)
    if wanted == "TIME":
        return _time_of_day(cells)
    if wanted == "INTERVAL":
        return _duration(cells)
    if wanted.startswith("DECIMAL"):
        return _within_digits(cells if pa.types.is_decimal128(cells.type) else _wide(cells))
    return cells.cast(_arrow_type(wanted))


def computed(cells: pa.Array, kind: str) -> pa.Array:
    """What the database has computed, of a type of its own: dates and times within a calendar, lengths of time as microseconds."""
    if kind == "INTERVAL":
        return _length(cells)
    return readable(cells, kind) if kind in {"DATE", "TIMESTAMP", "TIME"} else cells


def _arrow_type(wanted: str) -> pa.DataType:
    if wanted.startswith("DECIMAL"):
        return pa.decimal128(*map(int, wanted[len("DECIMAL(") : -1].split(",")))
    return ARROW_TYPES[wanted]


def _text(cells: pa.Array) -> pa.Array:
    """Text that is valid and not too long."""
    if pa.types.is_dictionary(cells.type):
        labels = cells.dictionary
        cleaned = _text(labels)
        return cells if cleaned is labels else pa.DictionaryArray.from_arrays(cells.indices, cleaned)
    if cells.type == pa.binary():  # a format without types
        null = pa.array([each.encode() for each in NULLS], pa.binary())
        cells = where(pc.invert(pc.is_in(cells, value_set=null)), cells)
        cells = _valid(pa.Array.from_buffers(pa.string(), len(cells), cells.buffers(), offset=cells.offset))
    elif cells.type not in TEXTS:
        cells = _valid(texts_of_views(cells))
    else:
        cells = _valid(cells)
    longest = pc.max(pc.binary_length(cells)).as_py() or 0
    if longest <= LONGEST_CELL:
        return cells
    return where(pc.less_equal(pc.binary_length(cells), LONGEST_CELL), cells)


def _valid(cells: pa.Array) -> pa.Array:
    """Texts, NULL where one is not UTF-8."""
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        return where(are_utf8(cells), cells)
    return cells


def _within_digits(cells: pa.Array) -> pa.Array:
    """Decimals, NULL where one has more digits than its type. Arrow's own check takes the least number of 128 bits for one of any type."""
    fits = have_digits(cells)
    return cells if pc.all(fits, min_count=0).as_py() else where(fits, cells)


def _time(cells: pa.Array, wanted: str) -> pa.Array:
    """Dates as days, and times as microseconds, within the years that a calendar has."""
    kind = cells.type
    if kind == pa.date32():
        return _between(cells, cells.view(pa.int32()), FIRST_DAY, LAST_DAY)
    ticks = cells.view(pa.int64())
    if wanted == "DATE":
        days = pa.array(stored(ticks, np.int64) // A_DAY["ms"], pa.int64(), mask=_absent(ticks))
        return _between(days.cast(pa.int32(), safe=False).view(pa.date32()), days, FIRST_DAY, LAST_DAY)
    if kind.unit == "ns":
        return pa.array(stored(ticks, np.int64) // 1000, pa.int64(), mask=_absent(ticks)).view(pa.timestamp("us"))
    inside = _between(ticks, ticks, FIRST_DAY * A_DAY[kind.unit], (LAST_DAY + 1) * A_DAY[kind.unit] - 1)
    whole = pc.multiply(inside, pa.scalar(A_DAY["us"] // A_DAY[kind.unit], pa.int64())) if kind.unit != "us" else inside
    return whole.view(pa.timestamp("us"))


def _time_of_day(cells: pa.Array) -> pa.Array:
    """Times as microseconds since midnight, of one day."""
    kind = cells.type
    ticks = cells.view(pa.int32()).cast(pa.int64()) if kind.bit_width == TIME32_BITS else cells.view(pa.int64())
    a_day = A_DAY["us"] * 1000 if kind.unit == "ns" else A_DAY[kind.unit]
    inside = _between(ticks, ticks, 0, a_day - 1)
    if kind.unit == "ns":
        return pa.array(stored(inside, np.int64) // 1000, pa.int64(), mask=_absent(inside)).view(pa.time64("us"))
    return pc.multiply(inside, pa.scalar(A_DAY["us"] // a_day, pa.int64())).view(pa.time64("us"))


def _length(cells: pa.Array) -> pa.Array:
    """Lengths of time of the database as microseconds, of fewer days than the calendar has."""
    if not len(cells):
        return pa.array([], pa.duration("us"))
    parts = stored(cells, LENGTHS)
    days = parts["months"].astype(np.int64) * MONTH_DAYS + parts["days"]
    far = np.abs(days) > LAST_DAY
    found = np.where(far, 0, days) * A_DAY["us"] + parts["nanoseconds"] // 1000
    far |= np.abs(found) > LAST_DAY * A_DAY["us"]
    absent = _absent(cells)
    return pa.array(found, pa.int64(), mask=far if absent is None else far | absent).view(pa.duration("us"))


def _wide(cells: pa.Array) -> pa.Array:
    """Decimals of fewer or more bits, of at most `MOST_DIGITS` digits, as those of 128 bits, whatever the cells hold."""
    kind = pa.decimal128(cells.type.precision, cells.type.scale)
    if cells.type.bit_width < kind.bit_width:
        return cells.cast(kind, safe=False)
    words = stored(cells, np.int64, words=cells.type.bit_width // 64)
    far = np.any(words[:, 2:] != (words[:, 1] >> 63)[:, None], axis=1)
    absent = _absent(cells)
    bits = np.packbits(~(far if absent is None else far | absent), bitorder="little")
    return pa.Array.from_buffers(kind, len(cells), [pa.py_buffer(bits), pa.py_buffer(np.ascontiguousarray(words[:, :2]))])


def _duration(cells: pa.Array) -> pa.Array:
    """Lengths of time as microseconds, of fewer days than the calendar has."""
    ticks = cells.view(pa.int64())
    if cells.type.unit == "ns":
        return pa.array(stored(ticks, np.int64) // 1000, pa.int64(), mask=_absent(ticks)).view(pa.duration("us"))
    a_day = A_DAY[cells.type.unit]
    inside = _between(ticks, ticks, -LAST_DAY * a_day, LAST_DAY * a_day)
    return pc.multiply(inside, pa.scalar(A_DAY["us"] // a_day, pa.int64())).view(pa.duration("us"))


def _absent(cells: pa.Array) -> npt.NDArray[np.bool_] | None:
    return np.asarray(cells.is_null().to_numpy(zero_copy_only=False)) if cells.null_count else None


def _between(cells: pa.Array, numbers: pa.Array, first: int, last: int) -> pa.Array:
    """The cells whose numbers lie in a range, and NULL for others."""
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or (low >= first and high <= last):
        return cells
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return where(inside, cells)
