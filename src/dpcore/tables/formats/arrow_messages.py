"""Positions of the buffers of an Arrow IPC file, read from its footer and messages.

pyarrow loads record batches whole, and one may be as large as the file. (Sources: Arrow columnar format 1.5, "IPC File Format";
FlatBuffers, "Internals".)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.tables.sources import SourceFile

MAGIC = b"ARROW1"
BLOCK_BYTES, PAIR_BYTES = 24, 16
RECORD_BATCH = 3
"""Number of the message type in `MessageHeader`."""
AS_BYTES = {5: 4, 20: 19, 24: 23}
"""Numbers in `Type` of text, large text and views of text, and those of bytes with the same layout."""


class Span(NamedTuple):
    """Bytes of the file."""

    start: int
    length: int


class Block(NamedTuple):
    """A message: where its metadata are, and where its body begins and ends."""

    metadata: Span
    body: Span


@dataclass(frozen=True, slots=True)
class Layout:
    """One record batch.

    Attributes
    ----------
    rows : int
        Its length.
    nodes : tuple of (int, int)
        Length and number of nulls of each field and each of its children, depth first.
    buffers : tuple of Span
        Of all fields, depth first.
    compressed : bool
        Whether they are.
    """

    rows: int
    nodes: tuple[tuple[int, int], ...]
    buffers: tuple[Span, ...]
    compressed: bool


def record_blocks(source: SourceFile) -> tuple[Block, ...] | None:
    """Return the messages of the record batches, in order; None if their numbers are not little-endian.

    Raises
    ------
    struct.error, ValueError
        If the footer is damaged.
    """
    footer = _footer(source)[0]
    schema = footer.table(1)
    if schema is None or schema.number(0, "<h"):
        return None
    blocks = []
    for start, count in footer.vector(3, BLOCK_BYTES):
        for place in range(count):
            offset, metadata, body = struct.unpack_from("<qi4xq", footer.data, start + place * BLOCK_BYTES)
            blocks.append(Block(Span(offset, metadata), Span(offset + metadata, body)))
    return tuple(blocks)


def texts_of_growing_labels(source: SourceFile) -> dict[int, int]:
    """Bytes of the file that would make labels of text labels of bytes, if dictionaries of the file grow from batch to batch; else none.

    pyarrow joins what is added to a dictionary, and then one label that is not UTF-8 ends the reading. Raises like `record_blocks`.
    """
    footer, start = _footer(source)
    schema = footer.table(1)
    if schema is None:
        return {}
    fields = list(_labelled(schema, 1))
    if sum(count for _, count in footer.vector(2, BLOCK_BYTES)) <= len(fields):
        return {}
    tags = ((field.place(2), field.number(2, "<B")) for field in fields)
    return {start + place: AS_BYTES[tag] for place, tag in tags if tag in AS_BYTES}


def _labelled(table: _Table, number: int) -> Iterator[_Table]:
    """The fields of a schema, or inside of a field, that have a dictionary."""
    for start, count in table.vector(number, 4):
        for place in range(start, start + 4 * count, 4):
            field = _Table(table.data, place + _unpack("<I", table.data, place))
            if field.place(4):
                yield field
            yield from _labelled(field, 5)


def _footer(source: SourceFile) -> tuple[_Table, int]:
    """The footer, and where it begins."""
    tail = _read(source, Span(source.size - 10, 10))
    (length,) = struct.unpack_from("<i", tail)
    if tail[4:] != MAGIC or not 0 < length <= source.size - 10:
        raise ValueError("no footer")
    start = source.size - 10 - length
    return _Table.root(_read(source, Span(start, length))), start


def layout_of(source: SourceFile, block: Block) -> Layout:
    """Read the metadata of a record batch; raises like `record_blocks`."""
    data = _read(source, block.metadata)
    start = 8 if data[:4] == b"\xff\xff\xff\xff" else 4  # files before Arrow 0.15 have no mark of continuation
    message = _Table.root(data[start:])
    batch = message.table(2)
    if message.number(1, "<B") != RECORD_BATCH or batch is None:
        raise ValueError("no record batch")
    nodes, pairs = (
        [struct.unpack_from("<qq", batch.data, begin + place * PAIR_BYTES) for begin, count in found for place in range(count)]
        for found in (batch.vector(1, PAIR_BYTES), batch.vector(2, PAIR_BYTES))
    )
    buffers = [Span(*pair) for pair in pairs]
    if any(span.start < 0 or span.length < 0 or span.start + span.length > block.body.length for span in buffers):
        raise ValueError("a buffer outside of its message")
    spans = tuple(Span(block.body.start + span.start, span.length) for span in buffers)
    return Layout(batch.number(0, "<q"), tuple((length, nulls) for length, nulls in nodes), spans, batch.table(3) is not None)


def nodes_of(dtype: pa.DataType) -> int:
    """Return how many nodes of a layout are a field of a type and its children."""
    if isinstance(dtype, pa.BaseExtensionType):
        return nodes_of(dtype.storage_type)
    return 1 if pa.types.is_dictionary(dtype) else 1 + sum(nodes_of(dtype.field(place).type) for place in range(dtype.num_fields))


def buffers_of(dtype: pa.DataType) -> int | None:
    """Return the number of buffers of a field of a type, including its children; None if the type does not determine it."""
    if isinstance(dtype, pa.BaseExtensionType):
        return buffers_of(dtype.storage_type)
    if pa.types.is_dictionary(dtype):
        return 2
    if pa.types.is_null(dtype):
        return 0
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return 3
    if pa.types.is_nested(dtype):
        own = 1 if pa.types.is_struct(dtype) or pa.types.is_fixed_size_list(dtype) else 2
        if own == 2 and not (pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_map(dtype)):
            return None
        inner = [buffers_of(dtype.field(place).type) for place in range(dtype.num_fields)]
        return None if None in inner else own + sum(each for each in inner if each is not None)
    try:
        return 2 if dtype.bit_width else None
    except ValueError:
        return None


class _Table:
    """A table of FlatBuffers; reading outside of the data raises."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self._place = data, place
        self._fields = place - _unpack("<i", data, place)
        self._size = _unpack("<H", data, self._fields)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, _unpack("<I", data, 0))

    def place(self, number: int) -> int:
        """Place of a field; 0 if it is absent."""
        if 4 + 2 * number >= self._size:
            return 0
        offset = _unpack("<H", self.data, self._fields + 4 + 2 * number)
        return self._place + offset if offset else 0

    def number(self, number: int, form: str) -> int:
        place = self.place(number)
        return _unpack(form, self.data, place) if place else 0

    def table(self, number: int) -> _Table | None:
        place = self.place(number)
        return _Table(self.data, place + _unpack("<I", self.data, place)) if place else None

    def vector(self, number: int, size: int) -> list[tuple[int, int]]:
        """Return the position and the number of the elements as one pair; nothing for a vector that is absent."""
        place = self.place(number)
        if not place:
            return []
        start = place + _unpack("<I", self.data, place)
        count = _unpack("<I", self.data, start)
        if start + 4 + count * size > len(self.data):
            raise ValueError("a vector longer than its message")
        return [(start + 4, count)]


def _unpack(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise ValueError("a reference before the message")
    number: int = struct.unpack_from(form, data, place)[0]
    return number


def _read(source: SourceFile, span: Span) -> bytes:
    if span.start < 0 or span.length < 0 or span.start + span.length > source.size:
        raise ValueError("a message outside of the file")
    source.file.seek(span.start)
    data: bytes = source.file.read(span.length)
    if len(data) != span.length:
        raise ValueError("the file ends too early")
    return data


def read_buffer(source: SourceFile, span: Span, start: int, length: int) -> pa.Buffer:
    """Read part of a buffer.

    Raises
    ------
    ValueError
        If the buffer or the file is too short.
    """
    if start < 0 or length < 0 or start + length > span.length:
        raise ValueError("a buffer that is too short")
    source.file.seek(span.start + start)
    data = source.file.read_buffer(length)
    if data.size != length:
        raise ValueError("the file ends too early")
    return data
