"""CSV input: a header, then records whose cells are text."""

from __future__ import annotations

import codecs
import csv
import io
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore import _backend
from dpcore.errors import DataError, JobError, StorageError, reason
from dpcore.tables.pieces import Cut, FileInfo, Piece
from dpcore.tables.types.slices import where
from dpcore.tables.types.valid_cells import are_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from dpcore.tables.sources import InputFile, SourceFile

BLOCK_BYTES = 4 << 20
"""Bytes read at a time, at least."""
RECORD_BYTES = 64 << 20
"""Text that is held for records; the cells of a record that is longer are empty."""
NULLS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Cells of a privatised column that count as missing."""


def inspect(source: SourceFile) -> FileInfo:
    """Read the header."""
    return FileInfo(header(source), None, None)


def pieces(source: SourceFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
    """Split the text into records, and those into the cells of the columns named in `types`.

    Any bytes are some records: too few cells are filled up with empty ones, further ones are passed over, and a record of more than
    `RECORD_BYTES` has empty cells only. So no record can end a job. Cells of type binary are handed over as they are, and their reader
    determines their meaning; in cells of type string U+FFFD stands for bytes that are not UTF-8. Other types are for tables of reports.

    Raises
    ------
    DataError
        If a cell of another type than those does not parse, naming its row and column but not its content.
    StorageError
        If the file cannot be read on, or ends inside a quoted cell.
    """
    text = _Text(source, header(source), list(types))
    for done, share, cells in text.records(cut.rows):
        arrays = [_typed(source.path, done, name, kind, array) for (name, kind), array in zip(types.items(), cells, strict=True)]
        yield Piece(pa.RecordBatch.from_arrays(arrays, list(types)), done, share)


def header(source: SourceFile) -> tuple[str, ...]:
    """Read the names in the first record; raises `JobError` if there are none."""
    source.file.seek(0)
    # The buffer reaches beyond the header, where columns that are not read may hold any bytes.
    text = io.TextIOWrapper(source.file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        names = tuple(next(csv.reader(text), []))
        "".join(names).encode()
    except (UnicodeError, csv.Error):
        raise JobError(f"{source.path}: the header is not comma-separated UTF-8 text") from None
    except OSError as error:
        raise StorageError(f"{source.path}: cannot be read{reason(error)}") from None
    finally:
        text.detach()
    if not names:
        raise JobError(f"{source.path}: the first line must be a header with the column names; it is empty")
    return names


class _Text:
    """A file's text below its header, as records."""

    def __init__(self, source: SourceFile, names: tuple[str, ...], wanted: list[str]) -> None:
        self._path, self._file, self._size = source.path, source.file, max(source.size, 1)
        self._columns = len(names)
        self._wanted = [names.index(name) for name in wanted]
        self._buffer, self._ended, self._rows = b"", False, 0
        self._taken = 0  # bytes of the records last handed over

    def records(self, most: int) -> Iterator[tuple[int, float, list[pa.Array]]]:
        """Up to so many records at a time: those before them, the share of the file that has been read, and their cells."""
        try:
            self._begin()
            while self._buffer or not self._ended:
                found = self._next(most)
                if found.rows:  # there are none in a block of empty lines
                    share = min(self._file.tell() / self._size, 1.0)
                    yield self._rows, share, [_cells(found.rows, *each) for each in found.cells]
                    self._rows += found.rows
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"{self._path}: unreadable after row {self._rows} (counted from 0){reason(error)}") from None

    def _begin(self) -> None:
        self._file.seek(0)
        self._read()
        self._buffer = self._buffer.removeprefix(codecs.BOM_UTF8)
        self._pass_over()

    def _next(self, most: int) -> _backend.TextRecords:
        """Records that the buffer holds the end of; more text is read for them if it must be."""
        if len(self._buffer) < self._taken and not self._ended:
            self._read(self._taken)
        while True:
            found = _backend.split_records(self._buffer, self._columns, self._wanted, most, final=self._ended)
            if self._ended and found.rows < most and found.is_open:
                raise StorageError(f"{self._path}: the file ends inside a quoted cell: it is damaged or cut off")
            full = len(self._buffer) >= RECORD_BYTES
            if found.rows == most or self._ended or full:
                self._buffer, self._taken = self._buffer[found.behind :], found.behind
            if found.rows == most or self._ended or (full and found.behind):
                return found
            if not full:
                self._read(len(self._buffer))
            else:
                self._pass_over()
                return _backend.TextRecords(1, 0, is_open=False, cells=[(np.zeros(2, np.int32), np.empty(0, np.uint8))] * len(self._wanted))

    def _pass_over(self) -> None:
        """Drop the record that the buffer begins with, however long it is."""
        end, state = _backend.end_of_record(self._buffer)
        while end < 0 and not self._ended:
            self._buffer = b""
            self._read()
            end, state = _backend.end_of_record(self._buffer, state)
        if end < 0 and state == _backend.INSIDE_QUOTES:
            raise StorageError(f"{self._path}: the file ends inside a quoted cell: it is damaged or cut off")
        self._buffer = b"" if end < 0 else self._buffer[end:]

    def _read(self, least: int = 0) -> None:
        """Read on: a block, or more if that is likely to be wanted."""
        more = self._file.read(max(BLOCK_BYTES, least))
        self._buffer += more
        self._ended = not more


def _cells(rows: int, offsets: npt.NDArray[np.int32], content: npt.NDArray[np.uint8]) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(content)], null_count=0)


def _typed(path: InputFile, first: int, name: str, dtype: pa.DataType, cells: pa.Array) -> pa.Array:
    """Cells as values of a type."""
    if dtype == pa.binary():
        return cells
    text = decoded(cells)
    if dtype == pa.string():
        return text
    text = where(pc.invert(pc.is_in(text, value_set=pa.array(NULLS))), text)
    try:
        return text.cast(dtype)
    except pa.ArrowInvalid:
        row = first + _first_unlike(text, dtype)
        problem = f"row {row} (counted from 0 below the header), column {name!r}: the cell is not {_expected(dtype)}"
        raise DataError(f"{path}: {problem}") from None


def decoded(cells: pa.Array) -> pa.Array:
    """Bytes as text; U+FFFD stands for what is not UTF-8."""
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        odd = pc.fill_null(pc.invert(are_utf8(cells)), False)  # noqa: FBT003
        mended = [cell.decode(errors="replace").encode() for cell in cells.filter(odd).to_pylist()]
        return pc.replace_with_mask(cells, odd, pa.array(mended, cells.type)).cast(pa.string())


def _first_unlike(text: pa.Array, dtype: pa.DataType) -> int:
    """The first text that is no value of a type, by halving."""
    start, stop = 0, len(text)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            text[start:middle].cast(dtype)
            start = middle
        except pa.ArrowInvalid:
            stop = middle
    return start


def _expected(dtype: pa.DataType) -> str:
    if pa.types.is_boolean(dtype):
        return "true or false, 1 or 0"
    return "an integer" if pa.types.is_integer(dtype) else "a number"
