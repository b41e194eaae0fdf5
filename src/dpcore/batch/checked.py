"""Arrays of a file that nobody vouches for, checked before a kernel or a writer sees them.

An offset or an index that points elsewhere would make it read, and write, memory that is not the array's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
DAMAGE = (OSError, pa.ArrowException, ValueError, ArithmeticError, LookupError, MemoryError, RuntimeError)
"""What pyarrow raises for damaged files, its own exceptions and those of Python."""


def checked(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """Return these columns of a batch; what follows may trust their buffers.

    Raises
    ------
    pyarrow.ArrowInvalid
        If lengths, offsets, indices or counts of nulls do not fit.
    """
    chosen = batch.select(list(names))
    for column in chosen.columns:
        _check(column)
    return chosen


def _check(values: pa.Array) -> None:
    kind = values.type
    if pa.types.is_dictionary(kind):
        values.validate()
        _check(values.dictionary)
        pa.DictionaryArray.from_arrays(values.indices, pa.nulls(len(values.dictionary)), safe=False).validate(full=True)
    elif kind in BYTES:
        # Whether bytes are UTF-8 is a matter of one cell's value, and no cell may end a job.
        values.view(BYTES[kind]).validate(full=True)
    elif pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        values.validate()  # A full one looks at values only: whether a date is a whole number of days.
    else:
        values.validate(full=True)
