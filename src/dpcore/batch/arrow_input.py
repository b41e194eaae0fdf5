"""Arrow IPC input, mapped into memory batch by batch."""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import ipc

from dpcore.batch.errors import StorageError, reason
from dpcore.batch.pieces import Cut, FileInfo, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RESIDENT_BYTES = 64 << 20
"""Bytes read after which the mapped pages are handed back."""


def inspect(path: Path) -> FileInfo:
    """Read the schema in the footer."""
    with _opened(path, None) as (reader, _):
        schema = reader.schema
        return FileInfo(tuple(schema.names), dict(zip(schema.names, schema.types, strict=True)), None)


def pieces(path: Path, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
    """Slice the file's record batches, which may be as large as the file: they are mapped, not loaded."""
    with _opened(path, types) as (reader, mapped):
        done, touched = 0, 0
        for index in range(reader.num_record_batches):
            batch = _record_batch(reader, path, index)
            for start in range(0, len(batch), cut.rows):
                piece = batch.slice(start, cut.rows)
                yield Piece(piece, done, (index + (start + len(piece)) / len(batch)) / reader.num_record_batches)
                done += len(piece)
                touched += piece.nbytes
                if touched > RESIDENT_BYTES:
                    _hand_back(mapped)
                    touched = 0


def _record_batch(reader: ipc.RecordBatchFileReader, path: Path, index: int) -> pa.RecordBatch:
    try:
        batch = reader.get_batch(index)
        batch.validate()
    except (OSError, pa.ArrowException) as error:
        place = f"record batch {index} of {reader.num_record_batches} (counted from 0)"
        raise StorageError(f"{path}: {place} is unreadable{reason(error)}") from None
    return batch


@contextmanager
def _opened(path: Path, types: Mapping[str, pa.DataType] | None) -> Iterator[tuple[ipc.RecordBatchFileReader, mmap.mmap]]:
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        source = pa.BufferReader(pa.py_buffer(mapped))
        reader = ipc.open_file(source)
        if types is not None:
            fields = [reader.schema.get_field_index(name) for name in types]
            reader = ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=fields))
    except (OSError, ValueError) as error:  # mmap refuses an empty file by a ValueError; ArrowInvalid is one as well.
        raise StorageError(f"{path}: cannot be read as an Arrow IPC file{reason(error)}") from None
    yield reader, mapped


def _hand_back(mapped: mmap.mmap) -> None:
    """Drop the pages read so far from this process's memory; those still in use come back from the page cache."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
