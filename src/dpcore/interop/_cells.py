"""Arrow arrays as the NumPy arrays that kernels read, and back: the same memory wherever the layouts agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Mask = npt.NDArray[np.bool_]

SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (pa.float16(), pa.float32(), pa.float64())
VIEW = pa.string_view() if hasattr(pa, "string_view") else None
TEXTS = tuple(kind for kind in (pa.string(), pa.large_string(), VIEW) if kind is not None)
DTYPES = {kind: np.dtype(name) for kind, name in zip(FLOATS, ("float16", "float32", "float64"), strict=True)} | {
    kind: np.dtype(str(kind)) for kind in INTEGERS
}
INT64_MAX = 2**63 - 1
DECIMAL_WORDS = 2
"""Words of 64 bits of a decimal128."""
ABSENT = -1
"""The code of a label that is none of the categories."""


def is_whole_decimal(dtype: pa.DataType) -> bool:
    """Whether a type holds integers of up to 38 digits, as sums of integers in DuckDB have it."""
    return bool(pa.types.is_decimal128(dtype)) and dtype.scale == 0


def is_text(dtype: pa.DataType) -> bool:
    """Whether a column of this type holds labels: text, or a dictionary of texts."""
    return (dtype.value_type if pa.types.is_dictionary(dtype) else dtype) in TEXTS


def without_views(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column; views of text, which polars has and not every version of Arrow exchanges with it, as plain text."""
    kind = cells.type
    if kind == VIEW:
        return pa.chunked_array([each.cast(pa.large_string()) for each in cells.chunks], type=pa.large_string())
    if not pa.types.is_dictionary(kind) or kind.value_type != VIEW:
        return cells
    chunks = [
        pa.DictionaryArray.from_arrays(each.indices, each.dictionary.cast(pa.large_string()), ordered=kind.ordered) for each in cells.chunks
    ]
    return pa.chunked_array(chunks, type=pa.dictionary(kind.index_type, pa.large_string(), kind.ordered))


def null_mask(cells: pa.Array) -> Mask | None:
    """Where an array is null; None if nowhere."""
    return cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None


def nan_mask(numbers: Array) -> Mask | None:
    """Where an array is NaN; None if nowhere."""
    if numbers.dtype.kind != "f" or not len(numbers):
        return None
    with np.errstate(invalid="ignore"):
        if not np.isnan(numbers.min()):  # the least of numbers with a NaN is NaN; this needs no memory
            return None
    found: Mask = np.isnan(numbers)
    return found


def either(first: Mask | None, second: Mask | None) -> Mask | None:
    """The union of two masks."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def numbers_of(cells: pa.Array) -> Array:
    """The values of integers or floats where they are; what lies under a null is arbitrary."""
    dtype, buffer = DTYPES[cells.type], cells.buffers()[1]
    if not len(cells):
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count=len(cells), offset=cells.offset * dtype.itemsize)


def bits_of(cells: pa.Array) -> Array:
    """Truth values, eight in a byte: where they are, if they begin with a byte; bits behind the last are arbitrary."""
    first, behind = cells.offset // 8, (cells.offset + len(cells) + 7) // 8
    if not len(cells):
        return np.empty(0, np.uint8)
    packed = np.frombuffer(cells.buffers()[1], np.uint8)[first:behind]
    if cells.offset % 8 == 0:
        return packed
    bits = np.unpackbits(packed, bitorder="little")
    return np.packbits(bits[cells.offset % 8 : cells.offset % 8 + len(cells)], bitorder="little")


def whole_of(cells: pa.Array) -> Array:
    """Integers of a decimal as int64; those beyond it become its ends, which no sensitivity grows by."""
    if not len(cells):
        return np.empty(0, np.int64)
    size, first = len(cells) * DECIMAL_WORDS, cells.offset * cells.type.bit_width // 8
    words = np.frombuffer(cells.buffers()[1], np.int64, size, first).reshape(-1, DECIMAL_WORDS)
    low, high = words[:, 0], words[:, 1]
    return np.where(high == low >> 63, low, np.where(high < 0, -INT64_MAX - 1, INT64_MAX))


def label_codes(cells: pa.Array, labels: pa.Array) -> Array:
    """Codes of text, or of a dictionary of texts, by a look-up of the labels; `ABSENT` for all others and for nulls."""
    if pa.types.is_dictionary(cells.type):
        codes = np.append(label_codes(cells.dictionary, labels), np.int32(ABSENT))
        places = pc.fill_null(cells.indices.cast(pa.int64()), len(codes) - 1)
        found: Array = codes[places.to_numpy(zero_copy_only=False)]
        return found
    if cells.type == VIEW:
        cells = cells.cast(pa.large_string())
    codes = pc.fill_null(pc.index_in(cells, value_set=labels.cast(cells.type)), ABSENT)
    return np.asarray(codes.to_numpy(zero_copy_only=False))


def labels_array(codes: Array, labels: pa.Array, dtype: pa.DataType, bitmap: pa.Buffer | None) -> pa.Array:
    """The labels of codes, as text or as a dictionary whose entries are all the labels, whichever of them occur."""
    found = dictionary_type(dtype, len(labels))
    if pa.types.is_dictionary(found):
        places = codes.astype(found.index_type.to_pandas_dtype(), copy=False)
        entries = labels.cast(found.value_type)
        return pa.DictionaryArray.from_arrays(with_validity(array_of(places, found.index_type), bitmap), entries, ordered=found.ordered)
    places = codes.astype(np.int64, copy=False)
    return labels.take(with_validity(array_of(places, pa.int64()), bitmap)).cast(dtype)


def dictionary_type(dtype: pa.DataType, size: int) -> pa.DataType:
    """The type that `labels_array` gives for a column of this type."""
    if not pa.types.is_dictionary(dtype) or size <= 2 ** (dtype.index_type.bit_width - 1):
        return dtype
    return pa.dictionary(pa.int32(), dtype.value_type, dtype.ordered)


def array_of(values: Array, dtype: pa.DataType) -> pa.Array:
    """Numbers, packed bits or rows of bytes as an array of this type, in the same memory."""
    return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(values)], null_count=0)


def bits_array(packed: Array, n: int) -> pa.Array:
    """Packed truth values as an array, in the same memory."""
    return pa.Array.from_buffers(pa.bool_(), n, [None, pa.py_buffer(packed)], null_count=0)


def decimal_array(numbers: Array, dtype: pa.DataType) -> pa.Array:
    """int64 as decimals without digits behind the point, cut at the most that the type holds."""
    most = min(10**dtype.precision - 1, INT64_MAX)
    words = np.empty((len(numbers), DECIMAL_WORDS), np.int64)
    np.clip(numbers, -most, most, out=words[:, 0])
    words[:, 1] = words[:, 0] >> 63
    return pa.Array.from_buffers(dtype, len(numbers), [None, pa.py_buffer(words)], null_count=0)


def validity(cells: pa.Array, nulls: Mask) -> pa.Buffer:
    """The validity bits of an array with nulls: the buffer itself if it begins with a byte and has no bits of other rows."""
    bitmap, n = cells.buffers()[0], len(cells)
    if bitmap is None or (pa.types.is_dictionary(cells.type) and cells.dictionary.null_count):  # the entry of a row may be null, too
        return packed_validity(nulls)
    first, behind = cells.offset // 8, (cells.offset + n + 7) // 8
    if cells.offset % 8 == 0:
        part = bitmap.slice(first, behind - first)
        if n % 8 == 0 or part[len(part) - 1] >> n % 8 == 0:
            return part
    return packed_validity(nulls)


def packed_validity(absent: Mask) -> pa.Buffer:
    """Validity bits of a mask of nulls."""
    return pa.py_buffer(np.packbits(~absent, bitorder="little"))


def with_validity(cells: pa.Array, bitmap: pa.Buffer | None) -> pa.Array:
    """The same array, which begins at its buffers' first row, with nulls."""
    if bitmap is None:
        return cells
    if pa.types.is_struct(cells.type):
        children = [cells.field(i) for i in range(cells.type.num_fields)]
        return pa.Array.from_buffers(cells.type, len(cells), [bitmap], children=children)
    return pa.Array.from_buffers(cells.type, len(cells), [bitmap, *cells.buffers()[1:]])
