"""Parquet input, one row group after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.batch.errors import StorageError, reason
from dpcore.batch.pieces import Cut, FileInfo, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

READ_AHEAD_BYTES = 32 << 20
"""Read-ahead of all columns together."""
PIECE_BYTES = 8 << 20
"""Decoded size of a piece with long values."""


def inspect(path: Path) -> FileInfo:
    """Read the footer."""
    with _opened(path, 1) as file:
        return FileInfo(tuple(file.schema_arrow.names), file.schema_arrow, file.metadata.num_rows)


def pieces(path: Path, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
    """Read the columns named in `types`.

    A row group is decoded page by page as it is consumed, which pyarrow.dataset does not do (it decodes whole row groups, so its
    memory is up to whoever wrote the file), and an unreadable one can be named.
    """
    with _opened(path, len(types)) as file:
        total, done = file.metadata.num_rows, 0
        for group in range(file.num_row_groups):
            expected = file.metadata.row_group(group).num_rows
            size = min(cut.rows, _rows_per_piece(file, group, types))
            batches = file.iter_batches(size, row_groups=[group], columns=list(types), use_threads=cut.use_threads)
            end = done + expected
            while done < end:
                batch = _next(batches, path, group, file.num_row_groups)
                yield Piece(batch, done, (done + len(batch)) / total)
                done += len(batch)


def _opened(path: Path, columns: int) -> pq.ParquetFile:
    # Buffered and not pre-buffered: whole column chunks would otherwise be held in memory.
    ahead = min(max(READ_AHEAD_BYTES // columns, 1 << 14), 1 << 20)
    try:
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=ahead, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{path}: cannot be read as Parquet{reason(error)}") from None


def _next(batches: Iterator[pa.RecordBatch], path: Path, group: int, groups: int) -> pa.RecordBatch:
    try:
        batch = next(batches, None)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{path}: row group {group} of {groups} (counted from 0) is unreadable{reason(error)}") from None
    if batch is None:
        raise StorageError(f"{path}: row group {group} of {groups} (counted from 0) has fewer rows than the file says")
    return batch


def _rows_per_piece(file: pq.ParquetFile, group: int, types: Mapping[str, pa.DataType]) -> int:
    """Rows that make about `PIECE_BYTES`, by the sizes in the footer: kept columns may hold long values."""
    metadata = file.metadata.row_group(group)
    needed = 0
    for index in range(metadata.num_columns):
        column = metadata.column(index)
        if column.path_in_schema.partition(".")[0] in types or column.path_in_schema in types:
            needed += column.total_uncompressed_size
    return max(1, PIECE_BYTES * int(metadata.num_rows) // max(needed, 1))
