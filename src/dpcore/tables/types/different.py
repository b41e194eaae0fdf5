"""Cells in a form in which equal values are equal and others are not, to count how many are different.

A value is the same in every file: integers of all widths are one kind, and so are texts, plain or in a dictionary. Null, NaN and what a
format without types writes for missing values are no values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpcore.tables.types.categories import INTEGER_TYPES, null_mask, value_type
from dpcore.tables.units.contributions import compared

MS_A_DAY = 86_400_000
VIEWS = (pa.string_view(), pa.binary_view()) if hasattr(pa, "string_view") else ()
BYTES = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), *VIEWS)
WANTED = "a type with values that are equal or not: numbers, text, bool, dates, times, durations or decimals"


def sort_of(dtype: pa.DataType | None) -> str | None:
    """The sort of values that a type holds, which are compared with each other; None if it cannot be compared. No type is text."""
    if dtype is None:
        return "text"
    dtype = value_type(dtype)
    if dtype == pa.null():
        return "nothing"
    if dtype == pa.uint64() or pa.types.is_floating(dtype):
        return "uint64" if dtype == pa.uint64() else "float"
    if dtype in INTEGER_TYPES or pa.types.is_boolean(dtype):
        return "bool" if pa.types.is_boolean(dtype) else "integer"
    if pa.types.is_date(dtype):
        return "date"
    if pa.types.is_decimal(dtype) or pa.types.is_temporal(dtype):
        return None if pa.types.is_interval(dtype) else str(dtype)
    return "text" if dtype in BYTES or pa.types.is_fixed_size_binary(dtype) else None


def compared_as(sort: str) -> pa.DataType:
    """The type of `different` values of a sort: bytes or integers."""
    return pa.large_binary() if sort == "text" or sort.startswith("decimal") else pa.int64()


def different(cells: pa.Array, sort: str) -> pa.Array:
    """The values of cells of a sort, as values of `compared_as`, equal where they were, and null where there is none.

    Parameters
    ----------
    cells : pyarrow.Array
        Of a type of this sort, or without any value.
    sort : str
        From `sort_of`.
    """
    if pa.types.is_dictionary(cells.type):
        labels = different(cells.dictionary, sort)
        return labels.take(cells.indices)
    if pa.types.is_null(cells.type):
        return pa.nulls(len(cells), compared_as(sort))
    if sort == "text" or sort.startswith("decimal"):
        return compared(_bytes(cells)).cast(pa.large_binary())
    if sort == "float":
        # Both zeros are one value.
        numbers = np.asarray(cells.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)) + 0.0
        absent = np.isnan(numbers) if cells.null_count == 0 else np.isnan(numbers) | null_mask(cells)
        return pa.array(numbers.view(np.int64), mask=absent)
    if sort in {"integer", "bool"}:
        return cells.cast(pa.int64())
    kind = cells.type
    whole = cells.view(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
    if kind != pa.date64():
        return whole
    days = np.asarray(whole.fill_null(0).to_numpy()) // MS_A_DAY
    return pa.array(days, mask=null_mask(cells))


def _bytes(cells: pa.Array) -> pa.Array:
    """Text as it is stored, whether or not it is UTF-8."""
    if cells.type in VIEWS:
        return cells.view(pa.binary_view()).cast(pa.large_binary())
    if pa.types.is_decimal(cells.type):
        return cells.view(pa.binary(cells.type.bit_width // 8)).cast(pa.large_binary())
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        # Not as the bytes of a format without types, in which some stand for missing values.
        return cells.view(pa.binary() if pa.types.is_string(cells.type) else pa.large_binary()).cast(pa.large_binary())
    return cells if cells.type == pa.binary() else cells.cast(pa.large_binary())
