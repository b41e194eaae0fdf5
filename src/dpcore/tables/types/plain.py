"""Cells of the types that warehouses have, as the few types that queries compute with; what a cell becomes depends on that cell alone.

| type | as a number | as a category |
|---|---|---|
| bool | 0 and 1 | 0 and 1, or false and true |
| decimal | whole steps (`decimals.py`); where other files hold floats, the nearest one | integers, if whole; others are missing |
| float | as it is | integers, if the number is whole; others are missing |
| null | missing | missing |
| string_view | – | its text |
| a dictionary | as its values | as its values |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.tables.fields import INT64_MAX, INT64_MIN
from dpcore.tables.types.decimals import steps
from dpcore.tables.types.slices import stored
from dpcore.tables.types.whole_arrays import VIEW, VIEWS, one_buffer

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

FLOATS = (pa.float16(), pa.float32(), pa.float64())


def is_more_than_numbers(dtype: pa.DataType) -> bool:
    """Whether `numbers` makes numbers of this type, which has none by itself."""
    return bool(pa.types.is_boolean(dtype) or pa.types.is_decimal(dtype) or pa.types.is_null(dtype))


def unit_type(dtype: pa.DataType) -> pa.DataType:
    """The type of units that a column of this type holds, as a pass over them reads it: without dictionaries and views."""
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    return pa.large_string() if VIEW is not None and dtype == VIEW else dtype


def numbers(cells: pa.Array) -> pa.Array:
    """Integers or floats; null where there are none."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return numbers(cells.dictionary).take(cells.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(cells), pa.int64())
    if pa.types.is_boolean(kind):
        return cells.cast(pa.int8())
    return _decimals(cells) if pa.types.is_decimal(kind) else cells


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with text and bytes in one buffer, of which Arrow can take some rows."""
    if not any(kind in VIEWS for kind in batch.schema.types):
        return batch
    columns = [one_buffer(column) if column.type in VIEWS else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def whole(cells: pa.Array, other: int) -> pa.Array:
    """Floats as int64: null where one is not whole, `other` where 64 bits do not hold it."""
    values = np.asarray(cells.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False))
    absent = ~(np.floor(values) == values)
    far = absent | (values < INT64_MIN) | (values > INT64_MAX - 1024)
    found = np.where(far, 0.0, values).astype(np.int64)
    return pa.array(np.where(far, other, found), mask=absent | ~np.isfinite(values))


def whole_decimals(cells: pa.Array, other: int) -> pa.Array:
    """The same for decimals; `other` also for the largest and the smallest integer of 64 bits, which stand for all beyond them."""
    down, up = (steps(cells, 0, rounding) for rounding in ("down", "up"))
    found = np.asarray(down.fill_null(0).to_numpy())
    absent = cells.is_null().to_numpy(zero_copy_only=False) | (found != up.fill_null(0).to_numpy())
    far = (found == INT64_MAX) | (found == INT64_MIN)
    return pa.array(np.where(far, other, found), mask=absent)


def _decimals(cells: pa.Array) -> pa.Array:
    """The float64 nearest to each decimal, for those of at most 15 digits; of longer ones one beside it."""
    if not len(cells):
        return pa.array([], pa.float64())
    words, kind = cells.type.bit_width // 64, cells.type
    if words in {0, 1}:
        return _scaled(stored(cells, np.int64 if words else np.int32).astype(np.float64), kind.scale, cells)
    parts = stored(cells, np.uint64, words=words)
    low, sign = parts[:, 0].view(np.int64), parts[:, 0].view(np.int64) >> 63
    fits = np.all(parts[:, 1:].view(np.int64) == sign[:, None], axis=1) if len(parts) else np.zeros(0, np.bool_)
    values = low.astype(np.float64)
    far = np.flatnonzero(~fits)
    if len(far):
        # By sign and magnitude: sums of words of a negative number would cancel.
        negative = parts[far, -1].view(np.int64) < 0
        sizes = np.where(negative[:, None], ~parts[far], parts[far]).astype(np.float64) @ 2.0 ** (64 * np.arange(words))
        values[far] = np.where(negative, -sizes, sizes)
    return _scaled(values, kind.scale, cells)


def _scaled(values: Array, scale: int, cells: pa.Array) -> pa.Array:
    # Powers of ten up to 22 are floats, so that the quotient is rounded once.
    found = values / 10.0**scale if scale >= 0 else values * 10.0**-scale
    return pa.array(found, mask=cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None)
