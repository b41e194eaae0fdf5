"""How much of memory a row of some columns takes, about: an estimate from their types alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.tables.types.categories import value_type

if TYPE_CHECKING:
    from collections.abc import Mapping

STRING_BYTES = 16
"""A guess at the size of a category that is text."""


def stored_bytes(types: Mapping[str, pa.DataType]) -> int:
    """Bytes of a row of these columns in memory, about."""
    return sum(_bytes(kind) for kind in types.values())


def _bytes(dtype: pa.DataType) -> int:
    dtype = value_type(dtype)
    if pa.types.is_struct(dtype):
        return sum(_bytes(field.type) for field in dtype)
    try:
        return max(int(dtype.bit_width) // 8, 1)
    except ValueError:  # text, lists
        return STRING_BYTES
