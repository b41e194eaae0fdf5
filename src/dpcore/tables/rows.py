"""Rows on their way: the files of an input, one after the other, cut into pieces of bounded size."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import DataError
from dpcore.tables.pieces import MANY_COLUMNS, PIECE_BYTES
from dpcore.tables.types.row_bytes import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from dpcore.tables.inputs import Inputs
    from dpcore.tables.pieces import Cut
    from dpcore.tables.sources import InputFile
    from dpcore.tables.types.values import CellError

ROWS_BYTES, WIDE_BYTES = 8 << 20, 24 << 20
MAX_PIECE_ROWS, WIDE_ROWS = 1 << 17, 1 << 11
"""Pieces stay in the cache when columns are few, and memory stays bounded when they are many or their reports are long.

With many columns a piece is larger, up to `WIDE_BYTES`: a mechanism is called for each column of each piece.
"""
COUNTED_ROWS = 1 << 18
"""Of a piece of which only statistics are kept: what Arrow and Python do for each piece then takes longer than going beyond the cache."""


@dataclass(frozen=True, slots=True)
class RowsOfFile:
    """Rows of a batch that come from one file: where they begin in the batch, the file, and their position in it."""

    start: int
    path: InputFile
    row: int


NOWHERE = Path("no file")


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of an input, or some of them.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
        The rows.
    parts : tuple of RowsOfFile
        The parts of files that they are made of.
    first : int
        Position of the first row in the whole input.
    done : float
        Fraction of the input that has been read.
    taken : ndarray or None
        The places of the rows of the batch among consecutive ones; None if it has all of them.
    """

    batch: pa.RecordBatch
    parts: tuple[RowsOfFile, ...]
    first: int
    done: float
    taken: npt.NDArray[np.intp] | None = None

    def place(self, row: int) -> tuple[InputFile, int]:
        """File of a row of the batch, and position in it."""
        row = row if self.taken is None else int(self.taken[row])
        part = self.parts[bisect_right(self.parts, row, key=lambda each: each.start) - 1]
        return part.path, part.row + row - part.start


def rows_of_batch(batch: pa.RecordBatch) -> Rows:
    """A batch as rows that lie in no file."""
    return Rows(batch, (RowsOfFile(0, NOWHERE, 0),), 0, 0.0)


def read_rows(inputs: Inputs, types: dict[str, pa.DataType], cut: Cut) -> Iterator[Rows]:
    """Read the columns in `types` of all files, one after the other; no batch has more rows than `cut` says.

    Pieces that are much smaller, as in a folder of small files, are joined: what is done with a batch costs the same for a few rows as for
    thousands.
    """
    return joined(rows_of_pieces(inputs, types, cut), cut.rows)


def rows_of_pieces(inputs: Inputs, types: dict[str, pa.DataType], cut: Cut) -> Iterator[tuple[Rows, int]]:
    """Each piece with the bytes of its text."""
    first, bytes_done, all_bytes = 0, 0, max(sum(inputs.sizes), 1)
    for path, size in zip(inputs.paths, inputs.sizes, strict=True):
        in_file = 0
        for piece in inputs.pieces(path, types, cut):
            done = (bytes_done + piece.done * size) / all_bytes
            yield Rows(piece.batch, (RowsOfFile(0, path, piece.row),), first + piece.row, done), piece.text
            in_file = piece.row + len(piece.batch)
        first += in_file
        bytes_done += size


def joined(pieces: Iterator[tuple[Rows, int]], most: int) -> Iterator[Rows]:
    """Join consecutive pieces of one schema up to so many rows, and about `pieces.PIECE_BYTES` of decoded text.

    An error of the reader comes after the rows before it, so that what a job says first does not depend on what was joined.
    """
    pending: list[Rows] = []
    rows = size = 0
    try:
        for piece, text in pieces:
            more = len(piece.batch)
            if pending and not (rows + more <= most and size + text <= PIECE_BYTES and piece.batch.schema == pending[0].batch.schema):
                yield from _one(pending)
                pending, rows, size = [], 0, 0
            pending.append(piece)
            rows, size = rows + more, size + text
    except GeneratorExit:
        raise
    except BaseException:
        yield from _one(pending)
        raise
    yield from _one(pending)


def _one(pieces: list[Rows]) -> Iterator[Rows]:
    """The rows of some pieces at once, if they have a type of which Arrow can join arrays."""
    if len(pieces) < 2:
        yield from pieces
        return
    batches = [piece.batch for piece in pieces]
    try:
        columns = [pa.concat_arrays([batch.column(place) for batch in batches]) for place in range(batches[0].num_columns)]
    except pa.ArrowException:
        yield from pieces
        return
    starts = itertools.accumulate(map(len, batches), initial=0)
    parts = tuple(
        RowsOfFile(start + part.start, part.path, part.row) for start, piece in zip(starts, pieces, strict=False) for part in piece.parts
    )
    yield Rows(pa.RecordBatch.from_arrays(columns, schema=batches[0].schema), parts, pieces[0].first, pieces[-1].done)


def refused_cell(rows: Rows, error: CellError, *, curator: bool) -> DataError:
    """The error about a cell without a declaration; it names file and row only for a curator."""
    if curator:
        path, row = rows.place(error.row)
        return DataError(f"{path}: row {row} (counted from 0), column {error.column!r}: {error.problem}")
    return DataError(f"column {error.column!r} holds a cell that is {error.problem}; --curator says where it is")


def piece_rows_for(*types: dict[str, pa.DataType], is_counted: bool = False) -> int:
    """Rows of a piece whose columns, those read and those written, have these types; or of which only statistics are kept."""
    row = max(1, *map(stored_bytes, types))
    wide = min(WIDE_BYTES // row, WIDE_ROWS) if max(map(len, types)) >= MANY_COLUMNS else 1
    return min(max(ROWS_BYTES // row, wide, 1), COUNTED_ROWS if is_counted else MAX_PIECE_ROWS)
