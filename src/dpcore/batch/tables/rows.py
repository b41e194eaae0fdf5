"""Rows on their way: the files of an input, one after the other, cut into pieces of bounded size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcore.batch.tables.reports import stored_bytes
from dpcore.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from dpcore.batch.tables.inputs import Inputs
    from dpcore.batch.tables.pieces import Cut, Piece
    from dpcore.batch.tables.values import CellError

PIECE_BYTES = 8 << 20
MAX_PIECE_ROWS = 1 << 17
"""Pieces stay in the cache when columns are few, and memory stays bounded when they are many or their reports are long."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows: a piece, its file, and the position of its first row in the whole input."""

    piece: Piece
    path: Path
    first: int
    done: float


def read_rows(inputs: Inputs, types: dict[str, pa.DataType], cut: Cut) -> Iterator[Rows]:
    """Read the columns in `types` of all files, one after the other; no piece has more rows than `cut` says."""
    first, bytes_done, all_bytes = 0, 0, max(sum(inputs.sizes), 1)
    for path, size in zip(inputs.paths, inputs.sizes, strict=True):
        in_file = 0
        for piece in inputs.pieces(path, types, cut):
            yield Rows(piece, path, first + piece.row, (bytes_done + piece.done * size) / all_bytes)
            in_file = piece.row + len(piece.batch)
        first += in_file
        bytes_done += size


def refused_cell(rows: Rows, error: CellError, *, curator: bool) -> DataError:
    """The error about a cell without a declaration; it names file and row only for a curator."""
    if curator:
        return DataError(f"{rows.path}: row {rows.piece.row + error.row} (counted from 0), column {error.column!r}: {error.problem}")
    return DataError(f"column {error.column!r} holds a cell that is {error.problem}; --curator says where it is")


def piece_rows_for(*types: dict[str, pa.DataType]) -> int:
    """Rows of a piece whose columns, those read and those written, have these types."""
    return min(max(PIECE_BYTES // max(map(stored_bytes, types)), 1), MAX_PIECE_ROWS)
