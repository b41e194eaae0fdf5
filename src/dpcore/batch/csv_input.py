"""CSV input: a header, then cells of the types that the job demands."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as arrow_csv

from dpcore.batch.errors import JobError, StorageError, reason
from dpcore.batch.pieces import Cut, FileInfo, Piece
from dpcore.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpcore.batch.sources import Source

BLOCK_BYTES = 4 << 20
"""Bytes parsed at a time; no row may be longer."""
NULLS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Cells of a privatised column that count as missing."""


def inspect(source: Source) -> FileInfo:
    """Read the header."""
    return FileInfo(header(source), None, None)


def pieces(source: Source, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
    """Parse the columns named in `types`; a block of text bounds each piece, whatever `cut.rows` says.

    Raises
    ------
    DataError
        If a cell does not parse, naming its row and column but not its content.
    """
    names, path = header(source), source.path
    size = max(source.size, 1)
    done = 0
    try:
        source.file.seek(0)
        with _reader(source.file, names, types, cut) as batches:
            for batch in batches:
                if len(batch):
                    yield Piece(batch, done, min(source.file.tell() / size, 1.0))
                    done += len(batch)
    except pa.ArrowInvalid:
        raise _located(source, names, types) from None
    except OSError as error:
        raise StorageError(f"{path}: unreadable after row {done} (counted from 0){reason(error)}") from None


def header(source: Source) -> tuple[str, ...]:
    """Read the names in the first record; raises `JobError` if there are none."""
    source.file.seek(0)
    # The buffer reaches beyond the header, where other bytes may stand in columns that nobody asks for.
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


def _reader(file: pa.NativeFile, names: tuple[str, ...], types: Mapping[str, pa.DataType], cut: Cut) -> arrow_csv.CSVStreamingReader:
    return arrow_csv.open_csv(
        file,
        read_options=arrow_csv.ReadOptions(use_threads=cut.use_threads, block_size=BLOCK_BYTES),
        # In a table of one column an empty line is a missing cell.
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict(types), include_columns=list(types), null_values=list(NULLS), strings_can_be_null=False
        ),
    )


def _located(source: Source, names: tuple[str, ...], types: Mapping[str, pa.DataType]) -> DataError:
    """Read again on one thread, where pyarrow knows the row; its message quotes the cell, so only its numbers are taken."""
    path = source.path
    try:
        source.file.seek(0)
        with _reader(source.file, names, types, Cut(1, use_threads=False)) as batches:
            for _ in batches:
                pass
    except pa.ArrowInvalid as error:
        return DataError(f"{path}: {_problem(str(error), names, types)}")
    return DataError(f"{path}: a row could not be parsed at the first reading and could at the second; is the file being written?")


def _problem(message: str, names: tuple[str, ...], types: Mapping[str, pa.DataType]) -> str:
    # The header is pyarrow's row 1; ours are counted from 0 below it.
    if found := re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?", message):
        name = names[int(found[1])]
        row = f"row {int(found[2]) - 2} (counted from 0 below the header), " if found[2] else ""
        return f"{row}column {name!r}: the cell is not {_expected(types[name])}"
    if found := re.match(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)", message):
        return f"row {int(found[1]) - 2} (counted from 0 below the header): {found[3]} cells, but the header has {found[2]}"
    return f"a row cannot be split into cells: an open quote, or a row longer than {BLOCK_BYTES >> 20} MiB"


def _expected(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "true or false, 1 or 0"
    if pa.types.is_integer(kind):
        return "an integer"
    return "a number" if pa.types.is_floating(kind) else "UTF-8 text"
