"""Arrow IPC input, mapped into memory batch by batch."""

from __future__ import annotations

import mmap
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
    schema = _open(_mapped(path), path, None).schema
    return FileInfo(tuple(schema.names), schema, None)


def pieces(path: Path, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
    """Slice the file's record batches, which may be as large as the file: they are mapped, not loaded."""
    mapped = _mapped(path)
    reader = _open(mapped, path, None)
    done, touched = 0, 0
    for index in range(reader.num_record_batches):
        batch = _record_batch(reader, path, index)
        if index == 0 and not _lies_in(mapped, batch):
            # Compressed: now every column costs memory, and asking for some of them pays.
            reader = _open(mapped, path, types)
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


def _mapped(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # A ValueError is how mmap refuses an empty file.
        raise StorageError(f"{path}: cannot be read as an Arrow IPC file{reason(error)}") from None


def _open(mapped: mmap.mmap, path: Path, types: Mapping[str, pa.DataType] | None) -> ipc.RecordBatchFileReader:
    """Open the file; naming the columns makes pyarrow copy them, so it is for compressed files."""
    source = pa.BufferReader(pa.py_buffer(mapped))
    try:
        reader = ipc.open_file(source)
        if types is None:
            return reader
        fields = [reader.schema.get_field_index(name) for name in types]
        return ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=fields))
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{path}: cannot be read as an Arrow IPC file{reason(error)}") from None


def _lies_in(mapped: mmap.mmap, batch: pa.RecordBatch) -> bool:
    whole = pa.py_buffer(mapped)
    buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None and buffer.size]
    return all(whole.address <= buffer.address < whole.address + whole.size for buffer in buffers)


def _hand_back(mapped: mmap.mmap) -> None:
    """Drop the pages read so far from this process's memory; those still in use come back from the page cache."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
