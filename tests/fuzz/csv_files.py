"""CSV files: the same rows and cells as Python's reader has, however they are cut."""

from __future__ import annotations

import csv
import io
import sys
from typing import TYPE_CHECKING, ClassVar
from unittest import mock

import pyarrow as pa

from dpcore.errors import DataError
from dpcore.tables.discovery import discover
from dpcore.tables.formats import csv as csv_input
from fuzz.tables import Files, pieces
from fuzz.target import MARK, NUMBER_MARK, FoundError

if TYPE_CHECKING:
    import random

    from dpcore.tables.inputs import Inputs

BOM = b"\xef\xbb\xbf"
CELLS = (
    b"", b"NA", b"NaN", b"null", b"inf", b"-Infinity", b"1e400", b"-1e400", b"1" * 30, b"0x1F", b"+3", b" 3 ", b"3.0", b".", b"-", b"1e",
    b"TRUE", b"yes",
    b"2", b"-1", b"9223372036854775807", b"9223372036854775808", b"a", b"b", b"c", b"\xff\xfe", b"\xc3", b"\x00", b'"', b'""', b'a"b',
    b'"a,b"', b'"a\nb"',
    b'"a""b"', b'"open', b'"a"b', b"\r", b"\r\n", b"1,5", b"=1+1", "é".encode(), "\u202e".encode(), MARK.encode(),
    str(NUMBER_MARK).encode(), b"2024-02-29",
    b"99999999.99", b"1e-9999999999", b"0" * 300 + b"1",
)  # fmt: skip
TYPES = (pa.int64(), pa.float64(), pa.bool_(), pa.string())
csv.field_size_limit(sys.maxsize)


class CsvFiles(Files):
    """The bytes of a CSV file."""

    name: ClassVar[str] = "csv"
    promise: ClassVar[str] = "rows and cells are those of Python's reader, and the same for every cut of the text"
    ending: ClassVar[str] = "csv"
    longest: ClassVar[int] = 2048
    words: ClassVar[tuple[str, ...]] = (
        '"',
        '""',
        ",",
        "\r\n",
        "\n",
        "\r",
        "visits",
        "income",
        "label",
        "text",
        "flag",
        "code",
        "note",
        "NA",
        '"\n',
        '",',
        "﻿",
    )

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        """Change cells or lines, as a split at commas sees them."""
        lines = data.split(b"\n")
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(lines))
            match rng.randrange(5):
                case 0:
                    lines.insert(at, lines[rng.randrange(len(lines))])
                case 1 if len(lines) > 1:
                    del lines[at]
                case 2:
                    lines[at] = lines[at].rstrip(b"\r") + rng.choice((b"\r", b"\r\r", b"", b",", b'"'))
                case _:
                    cells = lines[at].split(b",")
                    cells[rng.randrange(len(cells))] = rng.choice(CELLS)
                    lines[at] = b",".join(cells)
        return b"\n".join(lines)

    def look(self, inputs: Inputs, data: bytes) -> None:
        path = inputs.paths[0]
        names = inputs.inspect(path).names
        if names != (expected_names := tuple(_plain(data)[0])):
            raise FoundError(f"the header is {names}, and for Python {expected_names}")
        types = {name: pa.binary() for name in names}
        whole = _cells(pieces(inputs, types))
        if names.count(names[0]) == 1 and len(set(names)) == len(names):
            self._compare(data, len(names), whole)
        for block, rows in ((1, 5), (7, 2), (64, 1000)):
            with mock.patch.object(csv_input, "BLOCK_BYTES", block):
                if _cells(pieces(discover(path.name), types, rows)) != whole:
                    raise FoundError(f"blocks of {block} bytes, and pieces of {rows} rows, change what is read")
        for kind in TYPES:
            try:
                pieces(inputs, {names[0]: kind})
            except DataError as error:
                if any(mark in str(error) and mark not in names[0] for mark in (MARK, str(NUMBER_MARK))):
                    raise FoundError(f"a message quotes a cell: {error}") from error

    def _compare(self, data: bytes, columns: int, whole: list[list[bytes]]) -> None:
        _, *records = _plain(data)
        if columns > 1:
            records = [record for record in records if record]
        filled = [[cell.encode("latin-1") for cell in [*record, *[""] * columns][:columns]] for record in records]
        if whole != filled:
            pairs = enumerate(zip(whole, filled, strict=False))
            row = next((i for i, (one, other) in pairs if one != other), min(len(whole), len(filled)))
            ours, pythons = whole[row : row + 1], filled[row : row + 1]
            raise FoundError(f"{len(whole)} rows, and {len(filled)} for Python; row {row} is {ours}, and for Python {pythons}")


def _plain(data: bytes) -> list[list[str]]:
    """The records of Python's reader: a character is a byte, but for the header, whose names are text."""
    content = data.removeprefix(BOM)
    records = list(csv.reader(io.StringIO(content.decode("latin-1"), newline="")))
    if not records:
        return [[]]
    return [[name.encode("latin-1").decode() for name in records[0]], *records[1:]]


def _cells(found: list[pa.RecordBatch]) -> list[list[bytes]]:
    return [list(row) for batch in found for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
