"""Columns of dates, timestamps, times and durations as whole days or microseconds; what a cell becomes depends on that cell alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.tables.types.timed import DAY, EXAMPLES, parsed
from dpcore.tables.types.whole_arrays import VIEW, texts_of_views

if TYPE_CHECKING:
    import numpy.typing as npt

PER_MICROSECOND = {"s": (10**6, 1), "ms": (10**3, 1), "us": (1, 1), "ns": (1, 1000)}
"""By what a tick is multiplied, and then divided."""
FAR = 2**62
TEXTS = (pa.string(), pa.large_string(), pa.binary())


def holds(dtype: pa.DataType, sort: str) -> bool:
    """Whether a column of this type holds values of a sort; dates are also the days of timestamps."""
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    if pa.types.is_null(dtype) or dtype in TEXTS[:2] or dtype == VIEW:
        return True
    if sort == "date":
        return bool(pa.types.is_date(dtype) or (pa.types.is_timestamp(dtype) and dtype.tz is None))
    if sort in {"timestamp", "instant"}:
        return bool(pa.types.is_timestamp(dtype)) and (dtype.tz is None) == (sort == "timestamp")
    return bool(pa.types.is_time(dtype) if sort == "time" else pa.types.is_duration(dtype))


def wanted(sort: str) -> str:
    """The types that `holds` takes, in words."""
    kinds = {"instant": "a timestamp with a time zone", "date": "a date, a timestamp without a time zone"}
    return f"{kinds.get(sort, f'a {sort}')}, or text like {EXAMPLES[sort]}"


def numbers(cells: pa.Array, sort: str) -> pa.Array:
    """Days or microseconds as int64, null where there is none; those that 64 bits do not hold are far away."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return numbers(cells.dictionary, sort).take(cells.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(cells), pa.int64())
    if kind in TEXTS or kind == VIEW:
        return _of_text(texts_of_views(cells) if kind == VIEW else cells, sort)
    ticks = np.asarray(cells.view(pa.int32() if kind.bit_width == 32 else pa.int64()).fill_null(0).to_numpy()).astype(np.int64)
    if pa.types.is_date(kind):
        found = ticks if kind == pa.date32() else ticks // (DAY // 1000)
    else:
        times, over = PER_MICROSECOND[kind.unit]
        found = np.clip(ticks, -(FAR // times), FAR // times) * times // over
        found = found // DAY if sort == "date" else found
    return pa.array(found, mask=cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None)


def _of_text(cells: pa.Array, sort: str) -> pa.Array:
    """Text as ISO 8601 writes it; other text is missing."""
    different = cells.view(pa.binary() if cells.type != pa.large_string() else pa.large_binary()).dictionary_encode()
    meanings: npt.NDArray[Any] = np.zeros(len(different.dictionary), np.int64)
    unknown = np.ones(len(meanings), np.bool_)
    for place, cell in enumerate(different.dictionary.to_pylist()):
        number = _meaning(cell, sort)
        if number is not None:
            meanings[place], unknown[place] = min(max(number, -FAR), FAR), False
    return pa.array(meanings, mask=unknown).take(different.indices)


def _meaning(cell: bytes, sort: str) -> int | None:
    if len(cell) > 64 or not cell.isascii():
        return None
    text = cell.decode().strip()
    found = parsed(text.replace(" ", "T", 1) if sort in {"timestamp", "instant"} else text)
    if found is not None and sort == "date" and found[0] == "timestamp":
        return found[1] // DAY
    return found[1] if found is not None and found[0] == sort else None
