"""Columns that a job keeps: only the values of its rows, not what else lies in the memory of the input's arrays.

An Arrow array may carry more than its rows: dictionary values that no row uses, bytes under a null, rows before and behind a slice, text
that no offset points at, metadata inside of nested types. A writer copies buffers, so its input is made anew first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()} if hasattr(pa, "string_view") else {}
"""A view points into buffers that hold other rows' text."""

MOST_PLACES = 1 << 20
"""A null takes as much room as any value: with more places, a file of a few bytes would take gigabytes."""


def kept_type(dtype: pa.DataType) -> pa.DataType:
    """Return the plain type of the same values: without dictionaries, views, extensions, and metadata of nested fields.

    Raises
    ------
    pyarrow.ArrowNotImplementedError
        If there is none.
    """
    if isinstance(dtype, pa.BaseExtensionType):
        return kept_type(dtype.storage_type)
    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return kept_type(dtype.value_type)
    if pa.types.is_struct(dtype):
        return pa.struct([_kept_field(field) for field in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(_kept_field(dtype.key_field), _kept_field(dtype.item_field))
    if not 0 < _places(dtype) <= MOST_PLACES:
        raise pa.ArrowNotImplementedError(str(dtype))
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(_kept_field(dtype.value_field), dtype.list_size)
    if pa.types.is_large_list(dtype):
        return pa.large_list(_kept_field(dtype.value_field))
    if pa.types.is_list(dtype):
        return pa.list_(_kept_field(dtype.value_field))
    if pa.types.is_nested(dtype):
        raise pa.ArrowNotImplementedError(str(dtype))
    return VIEWS.get(dtype, dtype)


def _places(dtype: pa.DataType) -> int:
    """Places of a value that has room for a fixed number of them. pyarrow divides by those of a list, where 0 ends the process."""
    if pa.types.is_fixed_size_list(dtype):
        return int(dtype.list_size) * _places(dtype.value_type)
    return int(dtype.byte_width) or 1 if pa.types.is_fixed_size_binary(dtype) else 1


def has_lists_of_one_length(dtype: pa.DataType) -> bool:
    """Whether a type is one of lists of a fixed size, or has one inside."""
    if isinstance(dtype, pa.BaseExtensionType):
        return has_lists_of_one_length(dtype.storage_type)
    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return has_lists_of_one_length(dtype.value_type)
    inside = (dtype.field(place).type for place in range(dtype.num_fields))
    return pa.types.is_fixed_size_list(dtype) or any(map(has_lists_of_one_length, inside))


def _kept_field(field: pa.Field) -> pa.Field:
    kind = kept_type(field.type)
    return pa.field(field.name, kind, nullable=field.nullable or pa.types.is_null(kind))


def kept(values: pa.Array) -> pa.Array:
    """Return the same values as an array of `kept_type` that holds nothing beside them.

    Rows before and behind a slice go when the writer cuts rows anew; the rest goes here.
    """
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return kept(values.storage)
    if pa.types.is_dictionary(kind):
        return kept(values.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return kept(pc.run_end_decode(values))
    if pa.types.is_struct(kind) and not kind.num_fields:
        return _gathered(values)
    if pa.types.is_struct(kind):
        # `flatten` hands the nulls of the struct down to its fields.
        parts = [kept(part) for part in values.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kept_type(kind)), mask=_mask(values))
    if pa.types.is_nested(kind):
        return _kept_lists(_gathered(values))
    if kind in VIEWS:
        return kept(values.cast(VIEWS[kind]))
    return _gathered(values) if values.null_count else values


def _kept_lists(lists: Any) -> pa.Array:
    """The same lists with their values made anew; `lists` begin at the start of their buffers."""
    kind, mask = kept_type(lists.type), _mask(lists)
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(lists.offsets, kept(lists.keys), kept(lists.items), type=kind, mask=mask)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(kept(lists.values), type=kind, mask=mask)
    made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return made.from_arrays(lists.offsets, kept(lists.values), type=kind, mask=mask)


def _gathered(values: pa.Array) -> pa.Array:
    """A copy with zeros, or no text, under each null."""
    return values.take(pa.array(np.arange(len(values))))


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None
