"""The canonical bytes of an Arrow array: a function of its logical values, and different for different values.

An attempt at a piece of work may get the same rows in other buffers: behind another offset, in other chunks, with a dictionary, with other
bytes under a null. None of that may change the noise, and two different values may never share it. What counts as one value:

- a null is a null, whatever its buffer holds;
- every NaN is one value, because a mechanism treats each of them as missing, and a runtime may exchange one for another;
- −0.0 and 0.0 are two values: their bits differ, and noise that is drawn anew is never wrong;
- text is the same text in `string`, `large_string`, `string_view` or a dictionary, and likewise bytes and lists;
- numbers of different types are different values: int32 and int64, timestamps of different units or zones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.tables.types.kept import kept, kept_type
from dpcore.tables.types.slices import stored
from dpcore.tables.types.whole_arrays import one_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

FLOATS = {2: (np.uint16, 0x7E00), 4: (np.uint32, 0x7FC00000), 8: (np.uint64, 0x7FF8000000000000)}
"""By their bytes: an integer of the same size, and the NaN that stands for all."""
WIDE = {pa.large_string(): "string", pa.large_binary(): "binary"}


def canonical_parts(values: pa.Array) -> Iterator[bytes | memoryview]:
    """Yield the canonical bytes of an array, in parts.

    The number of parts and what each holds follow from the first two, the type and the number of rows; so the sequence of parts
    determines the logical values.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray
        Of any type that dpcore copies.

    Yields
    ------
    bytes or memoryview
        Views may point into the array.

    Raises
    ------
    pyarrow.ArrowNotImplementedError
        If the type has no plain form: unions, for example.
    """
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    plain = one_array(pa.chunked_array(list(map(kept, chunks)), kept_type(values.type)))
    yield name_of(plain.type).encode()
    yield len(plain).to_bytes(8, "little")
    yield from _parts(plain)


def name_of(dtype: pa.DataType) -> str:
    """The name of a type, the same for types that hold the same values."""
    if dtype in WIDE:
        return WIDE[dtype]
    if pa.types.is_struct(dtype):
        return f"struct<{', '.join(f'{field.name!r}: {name_of(field.type)}' for field in dtype)}>"
    if pa.types.is_map(dtype):
        return f"map<{name_of(dtype.key_type)}, {name_of(dtype.item_type)}>"
    if pa.types.is_fixed_size_list(dtype):
        return f"list[{dtype.list_size}]<{name_of(dtype.value_type)}>"
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return f"list<{name_of(dtype.value_type)}>"
    return str(dtype)


def _parts(values: Any) -> Iterator[bytes | memoryview]:
    """The values of a plain array: which of them are there, then what they are."""
    kind, absent = values.type, _absent(values)
    yield b"" if absent is None else np.packbits(absent, bitorder="little").tobytes()
    if pa.types.is_null(kind):
        return
    if pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _parts(part)
    elif pa.types.is_nested(kind):
        yield from _lists(values, absent)
    elif pa.types.is_boolean(kind):
        yield np.packbits(_bits(values, absent), bitorder="little").tobytes()
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or kind in WIDE:
        yield from _text(values, absent)
    else:
        yield _fixed(values, absent)


def _absent(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Where the nulls are; None if there is none."""
    if not values.null_count:
        return None
    absent: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return absent


def _bits(values: Any, absent: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (values if absent is None else values.fill_null(fill_value=False)).to_numpy(zero_copy_only=False)
    return found


def _fixed(values: Any, absent: npt.NDArray[np.bool_] | None) -> bytes | memoryview:
    """Values of one size, with zeros under nulls."""
    width = values.type.bit_width // 8
    if width == 0 or len(values) == 0:
        return b""
    whole = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
    if pa.types.is_floating(values.type):
        unsigned, quiet = FLOATS[width]
        numbers = np.frombuffer(whole, values.type.to_pandas_dtype())
        strange = np.isnan(numbers)
        if strange.any():
            bits = numbers.view(unsigned).copy()
            bits[strange] = quiet
            whole = bits.view(np.uint8)
    if absent is not None:
        rows = whole.reshape(len(values), width)
        whole = np.where(absent[:, None], np.uint8(0), rows).reshape(-1)
    return np.ascontiguousarray(whole).data


def _text(values: Any, absent: npt.NDArray[np.bool_] | None) -> Iterator[bytes | memoryview]:
    """The length of each value, then all of them; a null has no bytes."""
    n, content = len(values), values.buffers()[2]
    if n == 0:
        yield from (b"", b"")
        return
    ends = stored(values, np.int64 if values.type in WIDE else np.int32, more=1).astype(np.int64)
    lengths = np.diff(ends)
    if absent is not None and lengths[absent].any():  # what `kept` gathers has no bytes under a null
        raise AssertionError("bytes under a null")
    yield lengths.tobytes()
    yield b"" if content is None else memoryview(content)[int(ends[0]) : int(ends[-1])]


def _lists(values: Any, absent: npt.NDArray[np.bool_] | None) -> Iterator[bytes | memoryview]:
    """The length of each list, then the values of all of them."""
    kind = values.type
    there = values if absent is None else values.drop_null()
    if pa.types.is_fixed_size_list(kind):
        yield from _parts(there.flatten())
        return
    if pa.types.is_map(kind):
        there = there.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    lengths = np.diff(there.offsets.to_numpy()).astype(np.int64)
    inner = there.flatten()
    yield lengths.tobytes()
    yield len(inner).to_bytes(8, "little")
    yield from _parts(inner)
