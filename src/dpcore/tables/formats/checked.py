"""Arrays of an untrusted file, checked before a kernel or a writer sees them.

An offset or an index that points elsewhere would make it read, and write, memory that is not the array's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
if hasattr(pa, "string_view"):
    BYTES[pa.string_view()] = pa.binary_view()
NUMBERS = frozenset(
    (
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
    )
)
DAMAGE = (OSError, pa.ArrowException, ValueError, ArithmeticError, LookupError, MemoryError, RuntimeError)
"""The exceptions that pyarrow raises for damaged files: its own and those of Python."""


def names_of(schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the columns; those inside of nested types are looked at, too.

    Raises
    ------
    UnicodeDecodeError
        If one is not UTF-8.
    """
    nested = [kind for kind in schema.types if kind not in NUMBERS]
    while nested:
        kind = nested.pop()
        fields = [kind.field(place) for place in range(kind.num_fields)]
        nested += [field.type for field in fields if field.name is not None]
        if pa.types.is_dictionary(kind):
            nested.append(kind.value_type)
        elif isinstance(kind, pa.BaseExtensionType):
            nested.append(kind.storage_type)
    return tuple(schema.names)


def checked(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """Return these columns of a batch; what follows may trust their buffers.

    Raises
    ------
    pyarrow.ArrowInvalid
        If lengths, offsets, indices or counts of nulls do not fit.
    """
    wanted = list(names)
    chosen = batch if batch.schema.names == wanted else batch.select(wanted)
    if all(kind in NUMBERS for kind in chosen.schema.types):
        chosen.validate(full=True)  # all at once: a table may have thousands of columns
        return chosen
    for column in chosen.columns:
        _check(column)
    return chosen


def _check(values: pa.Array) -> None:
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        _check(values.storage)  # which may be text, and then is treated as such
    elif pa.types.is_dictionary(kind):
        values.validate()
        _check(values.dictionary)
        pa.DictionaryArray.from_arrays(values.indices, pa.nulls(len(values.dictionary)), safe=False).validate(full=True)
    elif kind in BYTES:
        # Whether bytes are UTF-8 is a matter of one cell's value, and no cell may end a job.
        values.view(BYTES[kind]).validate(full=True)
    elif pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        values.validate()  # A full one looks at values only: whether a date is a whole number of days.
    else:
        _as_laid_out(values).validate(full=True)


def _as_laid_out(values: pa.Array) -> pa.Array:
    """Lists and structs with other types of the same layout inside of them, of which any bits are a value; others as they are."""
    kind = _laid_out(values.type)
    try:
        return values if kind == values.type else values.view(kind)
    except pa.ArrowException:
        return values


def _laid_out(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_laid_out(field.type)) for field in dtype])
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        made = pa.list_ if pa.types.is_list(dtype) else pa.large_list
        return made(dtype.value_field.with_type(_laid_out(dtype.value_type)))
    if pa.types.is_decimal(dtype):
        return pa.binary(dtype.bit_width // 8)
    if pa.types.is_temporal(dtype) and dtype.bit_width <= 64:
        return pa.int32() if dtype.bit_width == 32 else pa.int64()
    return BYTES.get(dtype, dtype)
