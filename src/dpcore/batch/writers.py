"""Writers of the three output formats; each takes record batches and bounds what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from pyarrow import ipc

from dpcore.batch import metadata

if TYPE_CHECKING:
    from dpcore.batch.job import Format

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 64 << 20
"""A row group is written when it reaches either."""


class TableWriter(Protocol):
    """What every output format offers."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def close(self) -> None:
        """Complete the file."""

    def discard(self) -> None:
        """Give the file up as it is."""


class ParquetTable:
    """Gathers batches into row groups: many small ones would slow every later reader down."""

    def __init__(self, sink: Any, schema: pa.Schema, compression: str) -> None:
        # What never repeats would have a dictionary built only to be thrown away.
        repeating = [name for field in schema for name in _repeating(field)]
        self._writer = pq.ParquetWriter(sink, schema, compression=compression, use_dictionary=repeating or False, write_page_checksum=True)
        self._pending: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; every so often this writes a row group."""
        self._pending.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the footer."""
        if self._rows:
            self._flush()
        self._writer.close()

    def discard(self) -> None:
        """Drop what is pending, and keep the writer from adding a footer when it is collected."""
        self._pending.clear()
        self._writer.is_open = False

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._pending)
        self._pending.clear()
        self._rows = self._bytes = 0
        self._writer.write_table(table, row_group_size=len(table))
        del table
        # Arrow's allocator keeps what is freed; without this the peak is the sum of every thread's share.
        pa.default_memory_pool().release_unused()


def _repeating(field: pa.Field) -> list[str]:
    """Parquet columns of a field whose values repeat: not noise on floats, not seeds, not long rows of random bits."""
    if not metadata.is_noisy(field):
        return [field.name]
    if pa.types.is_struct(field.type):
        return [f"{field.name}.{part.name}" for part in field.type if part.type.bit_width <= 32]
    if pa.types.is_fixed_size_binary(field.type):
        return [field.name] if field.type.byte_width <= 2 else []
    return [] if pa.types.is_floating(field.type) else [field.name]


class ArrowTable:
    """Writes each batch as a record batch of an Arrow IPC file."""

    def __init__(self, sink: Any, schema: pa.Schema, compression: str) -> None:
        options = ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self._writer = ipc.new_file(sink, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()

    def discard(self) -> None:
        """Nothing is pending."""


class CsvTable:
    """Writes comma-separated UTF-8 text with a header; floats as the shortest text that reads back to the same number."""

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        self._writer = arrow_csv.CSVWriter(sink, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Flush."""
        self._writer.close()

    def discard(self) -> None:
        """Nothing is pending."""


def open_writer(output_format: Format, sink: Any, schema: pa.Schema, compression: str) -> TableWriter:
    """Start a table of the given format on an open file."""
    match output_format:
        case "parquet":
            return ParquetTable(sink, schema, compression)
        case "arrow":
            return ArrowTable(sink, schema, compression)
        case "csv":
            return CsvTable(sink, schema)
