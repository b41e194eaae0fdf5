"""Arrow IPC input: record batches are read, in parts where they are large.

They are not mapped into memory: a mapped file that somebody truncates kills the process.
"""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from dpcore.errors import StorageError, reason
from dpcore.tables.formats.arrow_messages import (
    Layout,
    Span,
    buffers_of,
    layout_of,
    nodes_of,
    read_buffer,
    record_blocks,
    texts_of_growing_labels,
)
from dpcore.tables.formats.checked import DAMAGE, checked, names_of
from dpcore.tables.pieces import Cut, FileInfo, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpcore.tables.formats.arrow_messages import Block
    from dpcore.tables.sources import SourceFile

WHOLE_BYTES = 32 << 20
"""Record batches up to this size are read at once."""
PART_BYTES = 8 << 20
TEXTS = {pa.string(): np.int32, pa.binary(): np.int32, pa.large_string(): np.int64, pa.large_binary(): np.int64}


def inspect(source: SourceFile) -> FileInfo:
    """Read the schema in the footer."""
    schema = _open(source).schema
    return FileInfo(tuple(schema.names), schema, None)


def pieces(source: SourceFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:  # noqa: ARG001  # its batches are cut afterwards
    """Read the columns named in `types`, batch by batch."""
    schema = _open(source).schema
    types = {name: schema.field(name).type for name in types}  # Another file of the input may have others of the same kind.
    source = _with_labels_of_bytes(source)
    reader = _open(source, types)
    done, blocks = 0, _blocks(source)
    for index in range(reader.num_record_batches):
        row = 0
        try:
            for rows, share in _parts(source, schema, reader, index, None if blocks is None else blocks[index], types):
                batch = checked(_planned(rows, types), types)
                yield Piece(batch, done + row, (index + share) / reader.num_record_batches)
                row += len(batch)
        except (*DAMAGE, struct.error) as error:
            place = f"record batch {index} of {reader.num_record_batches} (counted from 0)"
            raise StorageError(f"{source.path}: {place} is unreadable{reason(error)}") from None
        done += row


def _open(source: SourceFile, types: Mapping[str, pa.DataType] | None = None) -> ipc.RecordBatchFileReader:
    """Open the file, to read only the columns in `types`."""
    try:
        source.file.seek(0)
        reader = ipc.open_file(source.file)
        names_of(reader.schema)
        if types is None:
            return reader
        fields = [reader.schema.get_field_index(name) for name in types]
        return ipc.open_file(source.file, options=ipc.IpcReadOptions(included_fields=fields))
    except DAMAGE as error:
        raise StorageError(f"{source.path}: cannot be read as an Arrow IPC file{reason(error)}") from None


class _Changed(io.RawIOBase):
    """A file some bytes of which are read as others."""

    def __init__(self, file: pa.NativeFile, changes: Mapping[int, int]) -> None:
        self._file, self._changes = file, changes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> bytes:
        start = self.tell()
        found = self._file.read(None if size < 0 else size)
        inside = {place - start: byte for place, byte in self._changes.items() if start <= place < start + len(found)}
        if not inside:
            return bytes(found)
        changed = bytearray(found)
        for place, byte in inside.items():
            changed[place] = byte
        return bytes(changed)


def _with_labels_of_bytes(source: SourceFile) -> SourceFile:
    """The file, read so that no label that is not UTF-8 ends it."""
    try:
        changes = texts_of_growing_labels(source)
    except (ValueError, struct.error) as error:
        raise StorageError(f"{source.path}: cannot be read as an Arrow IPC file{reason(error)}") from None
    return replace(source, file=pa.PythonFile(_Changed(source.file, changes), mode="r")) if changes else source


def _planned(rows: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The rows with labels of text where they were read as bytes."""
    columns = [_labelled(rows.column(name), kind) for name, kind in types.items()]
    return pa.RecordBatch.from_arrays(columns, list(types))


def _labelled(cells: pa.Array, dtype: pa.DataType) -> pa.Array:
    if cells.type == dtype or not pa.types.is_dictionary(dtype):
        return cells
    return pa.DictionaryArray.from_arrays(cells.indices, cells.dictionary.view(dtype.value_type), ordered=dtype.ordered, safe=False)


def _blocks(source: SourceFile) -> tuple[Block, ...] | None:
    try:
        return record_blocks(source)
    except (ValueError, struct.error) as error:
        raise StorageError(f"{source.path}: cannot be read as an Arrow IPC file{reason(error)}") from None


def _parts(
    source: SourceFile,
    schema: pa.Schema,
    reader: ipc.RecordBatchFileReader,
    index: int,
    block: Block | None,
    types: Mapping[str, pa.DataType],
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """The rows of a record batch, and the share of it that has been read with each part."""
    if block is None or block.body.length <= WHOLE_BYTES:
        yield reader.get_batch(index), 1.0
        return
    layout = layout_of(source, block)
    places = _places(schema, layout)
    flat = {} if places is None else {name: span for name, span in places.items() if name in types and _is_flat(types[name])}
    if layout.compressed or not flat:
        yield reader.get_batch(index), 1.0
        return
    others = [name for name in types if name not in flat]
    loaded = _open(source, dict.fromkeys(others, types[others[0]])).get_batch(index) if others else None
    start = 0
    while start < layout.rows:
        part = _part(source, {name: (types[name], spans) for name, spans in flat.items()}, start, layout.rows)
        rows = len(part)
        columns = {name: part.column(name) if name in flat else loaded.column(name).slice(start, rows) for name in types}  # type: ignore[union-attr]
        start += rows
        yield pa.RecordBatch.from_pydict(columns), start / layout.rows


def _places(schema: pa.Schema, layout: Layout) -> dict[str, tuple[Span, ...]] | None:
    """The buffers of each field; None if a type does not say how many it has."""
    found, first, node = {}, 0, 0
    for field in schema:
        count = buffers_of(field.type)
        if count is None:
            return None
        spans, (length, nulls) = layout.buffers[first : first + count], layout.nodes[node]
        if length != layout.rows:
            raise ValueError("a field of another length than its batch")
        # As pyarrow does: what is said to have no nulls has none, whatever lies where its bitmap would be.
        found[field.name] = (spans[0]._replace(length=0), *spans[1:]) if spans and not nulls else spans
        first, node = first + count, node + nodes_of(field.type)
    if first != len(layout.buffers) or node != len(layout.nodes):
        raise ValueError("a message with more buffers or nodes, or fewer, than its fields have")
    return found


def _is_flat(dtype: pa.DataType) -> bool:
    return dtype in TEXTS or (buffers_of(dtype) == 2 and not pa.types.is_nested(dtype) and not pa.types.is_dictionary(dtype))


def _part(source: SourceFile, flat: dict[str, tuple[pa.DataType, tuple[Span, ...]]], start: int, stop: int) -> pa.RecordBatch:
    """Rows from `start` on, a multiple of 8, as many as take about `PART_BYTES`."""
    widths = sum(1 if kind in TEXTS else kind.bit_width // 8 + 1 for kind, _ in flat.values())
    rows = min(max(PART_BYTES // widths // 8, 1) * 8, stop - start)
    ends = {}
    for name, (kind, spans) in flat.items():
        if kind in TEXTS:
            dtype = np.dtype(TEXTS[kind])
            ends[name] = np.frombuffer(read_buffer(source, spans[1], start * dtype.itemsize, (rows + 1) * dtype.itemsize), dtype)
    for each in ends.values():
        if (np.diff(each) < 0).any():
            raise ValueError("text that ends before it begins")
        fitting = int(np.searchsorted(each, each[0] + min(PART_BYTES, int(each[-1]) - int(each[0])), side="right")) - 1
        rows = min(rows, max(fitting // 8, 1) * 8)
    columns = {name: _column(source, kind, spans, start, rows, ends.get(name)) for name, (kind, spans) in flat.items()}
    return pa.RecordBatch.from_pydict(columns)


def _column(source: SourceFile, dtype: pa.DataType, spans: tuple[Span, ...], start: int, rows: int, ends: np.ndarray | None) -> pa.Array:
    # A batch without nulls may leave the bitmap out.
    valid = read_buffer(source, spans[0], start // 8, (rows + 7) // 8) if spans[0].length else None
    if ends is None:
        width = dtype.bit_width
        data = read_buffer(source, spans[1], start * width // 8, (rows * width + 7) // 8)
        return pa.Array.from_buffers(dtype, rows, [valid, data])
    first, last = int(ends[0]), int(ends[rows])
    own = pa.py_buffer(np.ascontiguousarray(ends[: rows + 1] - ends[0]))
    return pa.Array.from_buffers(dtype, rows, [valid, own, read_buffer(source, spans[2], first, last - first)])
