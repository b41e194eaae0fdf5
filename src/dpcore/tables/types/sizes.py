"""Sizes of rows in bytes once they are decoded, independent of how they are encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.tables.types.kept import VIEWS, kept_type
from dpcore.tables.types.slices import stored

if TYPE_CHECKING:
    import numpy.typing as npt

    Sizes = npt.NDArray[np.int64]

FIXED = frozenset((pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()))
"""The most frequent types whose values are all of one size."""
OFFSETS = {pa.string(): np.int32, pa.binary(): np.int32, pa.large_string(): np.int64, pa.large_binary(): np.int64}
"""Types whose text lies between two offsets."""


def varies(dtype: pa.DataType) -> bool:
    """Whether two values of a type may differ in size."""
    if dtype in FIXED or pa.types.is_null(dtype):
        return False
    if pa.types.is_struct(dtype):
        return any(varies(field.type) for field in dtype)
    if pa.types.is_fixed_size_list(dtype):
        return varies(dtype.value_type)
    try:
        return not dtype.bit_width or pa.types.is_dictionary(dtype)
    except ValueError:
        return True


def varying_bytes(values: pa.Array) -> Sizes:
    """Return for each row the bytes of its text, its lists, and what it takes from a dictionary; nulls take none.

    A function of the values alone: however they are encoded or cut, a row has the same size.
    """
    kind = values.type
    if not varies(kind):
        return np.zeros(len(values), np.int64)
    if isinstance(kind, pa.BaseExtensionType):
        return varying_bytes(values.storage)
    if pa.types.is_run_end_encoded(kind):
        return varying_bytes(pc.run_end_decode(values))
    if pa.types.is_dictionary(kind):
        sizes, indices = varying_bytes(values.dictionary), values.indices
        if indices.null_count:  # A null has the number behind the last.
            sizes, indices = np.append(sizes, 0), pc.fill_null(indices.cast(pa.int64()), len(sizes))
        taken: Sizes = sizes[indices.to_numpy()]
        return taken
    if kind in OFFSETS and not values.null_count:
        return np.diff(_ends(values)).astype(np.int64)
    if pa.types.is_struct(kind):
        total: Sizes = np.sum([varying_bytes(part) for part in values.flatten()], axis=0, dtype=np.int64)
        return total
    if pa.types.is_map(kind):
        return varying_bytes(values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    if pa.types.is_nested(kind):
        return _list_bytes(values)
    return _filled(pc.binary_length(values.cast(VIEWS[kind]) if kind in VIEWS else values))


def total_varying_bytes(values: pa.Array) -> int:
    """Return the sum of `varying_bytes`; of text without nulls at once."""
    kind = values.type
    if kind in OFFSETS and not values.null_count:
        ends = _ends(values)
        return int(ends[-1]) - int(ends[0])
    return int(varying_bytes(values).sum())


def _ends(text: pa.Array) -> npt.NDArray[Any]:
    """Where each text begins, and the last one ends."""
    return stored(text, OFFSETS[text.type], more=1)


def _list_bytes(lists: Any) -> Sizes:
    lengths = _filled(pc.list_value_length(lists))
    inner = lists.flatten()
    sizes = varying_bytes(inner) + _fixed_bytes(kept_type(inner.type))
    ends = np.append(0, np.cumsum(sizes))
    behind = np.cumsum(lengths)
    within: Sizes = ends[behind] - ends[behind - lengths]
    return within


def _fixed_bytes(dtype: pa.DataType) -> int:
    try:
        return max(int(dtype.bit_width) // 8, 1)
    except ValueError:
        return 1


def _filled(lengths: pa.Array) -> Sizes:
    filled: Sizes = pc.fill_null(lengths.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return filled
