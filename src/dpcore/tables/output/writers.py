"""Writers of the three output formats; each takes record batches and bounds what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from pyarrow import ipc

from dpcore.tables.formats.csv import decoded
from dpcore.tables.output import metadata
from dpcore.tables.output.recut import Recut, rows_for
from dpcore.tables.types.slices import where

if TYPE_CHECKING:
    from dpcore.tables.sections import Format

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 64 << 20
"""A row group has so many rows, or as many as take so many bytes by their types."""
BATCH_ROWS = 1 << 17
BATCH_BYTES = 8 << 20
"""The same of a record batch."""
DICTIONARY_BYTES = 1 << 20
"""A dictionary that outgrows this is given up. A label takes its own length and four bytes in it, as it does in the metadata."""

FARTHEST_SECOND = (2**63 - 1) // 1000
"""In either direction, of those that 64 bits hold as milliseconds: Parquet has no seconds."""


class TableWriter(Protocol):
    """A writer of one output format."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def close(self) -> None:
        """Complete the file."""

    def discard(self) -> None:
        """Return the file up as it is."""


class ParquetTable:
    """Gathers batches into row groups: many small ones would slow every later reader down."""

    def __init__(self, sink: Any, schema: pa.Schema, compression: str) -> None:
        repeating, encodings = encodings_of(schema)
        self._writer = pq.ParquetWriter(
            sink,
            schema,
            compression=compression,
            use_dictionary=repeating or False,
            column_encoding=encodings or None,
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_page_checksum=True,
        )
        self._groups = parts_of("parquet", schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; every so often this writes a row group."""
        for group in self._groups.add(batch):
            self._write(group)

    def close(self) -> None:
        """Write the last row group and the footer."""
        for group in self._groups.rest():
            self._write(group)
        self._writer.close()

    def discard(self) -> None:
        """Drop what is pending, and keep the writer from adding a footer when it is collected."""
        self._groups.clear()
        self._writer.is_open = False

    def _write(self, group: pa.RecordBatch) -> None:
        self._writer.write_table(pa.Table.from_batches([group]), row_group_size=len(group))
        # Arrow's allocator keeps what is freed; without this the peak is the sum of every thread's share.
        pa.default_memory_pool().release_unused()


def encodings_of(schema: pa.Schema) -> tuple[list[str], dict[str, str]]:
    """The Parquet columns with a dictionary, and the encodings of others that are not plain.

    An encoding is fixed before the first row: a dictionary that may outgrow its page would reveal when it did. A kept column has one
    nevertheless, which is made of its values. Of a noisy real number the sign and the exponent compress, and the digits do not: with its
    bytes in separate streams, a codec finds out in a third of the time, and the file is smaller.
    """
    repeating: list[str] = []
    encodings: dict[str, str] = {}
    for field in schema:
        if not metadata.is_noisy(field) or _has_small_labels(field):
            repeating.append(field.name)
            continue
        parts = list(field.type) if pa.types.is_struct(field.type) else []
        for name, kind in [(f"{field.name}.{part.name}", part.type) for part in parts] or [(field.name, field.type)]:
            if pa.types.is_integer(kind):
                encodings[name] = "DELTA_BINARY_PACKED"
            elif pa.types.is_floating(kind):
                encodings[name] = "BYTE_STREAM_SPLIT"
    return repeating, encodings


def _has_small_labels(field: pa.Field) -> bool:
    """Whether a dictionary of all values that reports can have fits into a page."""
    if pa.types.is_fixed_size_binary(field.type):
        return bool(field.type.byte_width <= 2)
    if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
        return False
    return len(field.metadata[metadata.KEY]) <= DICTIONARY_BYTES // 2


class ArrowTable:
    """Writes an Arrow IPC file of record batches of one length."""

    def __init__(self, sink: Any, schema: pa.Schema, compression: str) -> None:
        options = ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self._writer = ipc.new_file(sink, schema, options=options)
        self._batches = parts_of("arrow", schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; every so often this writes a record batch."""
        for whole in self._batches.add(batch):
            self._writer.write_batch(whole)

    def close(self) -> None:
        """Write the last record batch and the footer."""
        for whole in self._batches.rest():
            self._writer.write_batch(whole)
        self._writer.close()

    def discard(self) -> None:
        """Drop what is pending."""
        self._batches.clear()


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
        """Do nothing: no rows are pending."""


def parts_of(output_format: Format, schema: pa.Schema) -> Recut:
    """What cuts rows into the row groups or record batches of a format."""
    size, most = (ROW_GROUP_BYTES, ROW_GROUP_ROWS) if output_format == "parquet" else (BATCH_BYTES, BATCH_ROWS)
    return Recut(schema, rows_for(schema, size, most), ROW_GROUP_BYTES)


def open_writer(output_format: Format, sink: Any, schema: pa.Schema, compression: str) -> TableWriter:
    """Start a table of the given format on an open file."""
    match output_format:
        case "parquet":
            return ParquetTable(sink, schema, compression)
        case "arrow":
            return ArrowTable(sink, schema, compression)
        case "csv":
            return CsvTable(sink, schema)


def written_type(dtype: pa.DataType, output_format: Format) -> pa.DataType:
    """The type as which kept values of a type are written: one of which the writer can take every value."""
    is_bytes = pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype)
    if output_format == "csv" and is_bytes:
        return pa.string()
    if output_format == "parquet" and pa.types.is_timestamp(dtype) and dtype.unit == "s":
        return pa.timestamp("ms", dtype.tz)
    return dtype


def written(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Return kept values as their `written_type`: U+FFFD stands for bytes that are not UTF-8, null for times that it cannot represent."""
    if values.type == dtype:
        return values
    if not pa.types.is_timestamp(dtype):
        return decoded(values.cast(pa.binary()))
    seconds = values.view(pa.int64())
    told = pc.and_(pc.greater_equal(seconds, -FARTHEST_SECOND), pc.less_equal(seconds, FARTHEST_SECOND))
    return where(told, values).cast(dtype)
