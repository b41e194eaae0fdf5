"""Reads cells as days: numbers of days since 1970-01-01, by a rule that looks at one cell alone and accepts every cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.tables.types.categories import null_mask, value_type
from dpcore.tables.types.slices import stored
from dpcore.tables.types.whole_arrays import VIEW, texts_of_views

if TYPE_CHECKING:
    import numpy.typing as npt

    Days = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

SECONDS = 86_400
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TEXT_TYPES = (pa.string(), pa.large_string(), pa.binary())
WANTED = "a date, a timestamp, or text like 2013-01-31"
LENGTH = len("2013-01-31")
SEPARATORS = (ord(" "), ord("T"))


def holds_days(dtype: pa.DataType) -> bool:
    """Whether a column of this type can hold dates; a timestamp with a time zone needs that of its zone."""
    dtype = value_type(dtype)
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        try:
            pc.local_timestamp(pa.array([0], dtype))
        except (pa.ArrowException, ValueError):
            return False
    return pa.types.is_date(dtype) or pa.types.is_timestamp(dtype) or pa.types.is_null(dtype) or dtype in TEXT_TYPES or dtype == VIEW


def days_of(cells: pa.Array, first: int, last: int) -> tuple[Days, Mask | None]:
    """The day of each cell if it is in [first, last], and `last` + 1 for every other; and where a cell is missing, None if nowhere.

    A timestamp with a time zone has the day of that zone, text the day that is written. Text that is no date is missing.
    """
    if len(cells) == 0:
        return np.empty(0, np.int64), None
    if pa.types.is_null(cells.type):
        return np.full(len(cells), last + 1, np.int64), np.ones(len(cells), np.bool_)
    if pa.types.is_dictionary(cells.type):
        days, absent = days_of(cells.dictionary, first, last)
        absent = np.append(np.zeros(len(days), np.bool_) if absent is None else absent, True)
        places = pc.fill_null(cells.indices.cast(pa.int64()), len(days)).to_numpy()
        return np.append(days, last + 1)[places], absent[places]
    cells = texts_of_views(cells) if cells.type == VIEW else cells
    absent = null_mask(cells)
    if cells.type in TEXT_TYPES:
        days, written = _of_text(cells)
        absent = ~written if absent is None else absent | ~written
    elif pa.types.is_timestamp(cells.type):
        days = _of_instants(cells, first, last)
    else:
        days = _integers(cells).astype(np.int64)
        if cells.type == pa.date64():
            days //= SECONDS * TICKS["ms"]
    other = (days < first) | (days > last)
    return np.where(other if absent is None else other | absent, np.int64(last + 1), days), absent


def _integers(cells: pa.Array) -> npt.NDArray[Any]:
    return stored(cells, np.int32 if cells.type.bit_width == 32 else np.int64)


def _of_instants(cells: pa.Array, first: int, last: int) -> Days:
    ticks = SECONDS * TICKS[cells.type.unit]
    if cells.type.tz is None:
        days: Days = _integers(cells) // ticks
        return days
    # What is far from the wanted days could leave the range of the calendar, and end the job.
    instants = _integers(cells)
    low, high = (max(-(2**62), min(2**62, day * ticks)) for day in (first - 2, last + 3))
    near = (instants >= low) & (instants < high)
    local = pc.local_timestamp(pa.array(np.where(near, instants, low), cells.type))
    return np.where(near, _integers(local) // ticks, np.int64(last + 1))


def _of_text(cells: pa.Array) -> tuple[Days, Mask]:
    """Days of texts that begin with a date of the calendar, and end there or go on with a time; and which do."""
    wide = cells.type == pa.large_string()
    ends = stored(cells, np.int64 if wide else np.int32, more=1).astype(np.int64)
    lengths, text = np.diff(ends), np.frombuffer(cells.buffers()[2] or b"", np.uint8)
    days, are_days = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.bool_)
    long = np.flatnonzero(lengths >= LENGTH)
    if not len(long):
        return days, are_days
    letters = text[ends[long][:, None] + np.arange(LENGTH)]
    follows = np.where(lengths[long] > LENGTH, text[np.minimum(ends[long] + LENGTH, len(text) - 1)], SEPARATORS[0])
    digits = letters - np.uint8(ord("0"))  # What is below "0" is above 9, too.
    written = (digits[:, (0, 1, 2, 3, 5, 6, 8, 9)] <= 9).all(axis=1) & (letters[:, (4, 7)] == ord("-")).all(axis=1)
    days[long], valid = _of_calendar(digits.astype(np.int64))
    are_days[long] = written & valid & np.isin(follows, SEPARATORS)
    return days, are_days


def _of_calendar(digits: Days) -> tuple[Days, Mask]:
    """Days of the digits of dates, and whether the calendar has them."""
    year = digits[:, 0] * 1000 + digits[:, 1] * 100 + digits[:, 2] * 10 + digits[:, 3]
    month, day = digits[:, 5] * 10 + digits[:, 6], digits[:, 8] * 10 + digits[:, 9]
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    begin, end = (each.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for each in (months, months + 1))
    return begin + day - 1, (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= end - begin)
