"""Rows of small files that stay in memory from the first pass over them to those that follow."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore.tables.inputs import Inputs
from dpcore.tables.pieces import slices
from dpcore.tables.sources import check_same, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from dpcore.tables.pieces import Cut, Piece
    from dpcore.tables.sources import InputFile

HELD_BYTES = 128 << 20
"""Memory for all of them."""
FILE_BYTES = 4 << 20
"""A larger file is read again: that it is opened again makes no difference."""


@dataclass(slots=True)
class _Rows:
    """The pieces of files, and the room that is left for others."""

    pieces: dict[InputFile, list[Piece]] = field(default_factory=dict)
    left: int = HELD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldInputs(Inputs):
    """Files of which several passes read some columns each: to open thousands of them takes longer than to read all of these at once.

    What is kept of a file was read from beginning to end while the file stayed what it was when the job was planned; a later pass checks
    that it still is, as it would if it read the file again.

    Attributes
    ----------
    types : dict of str to pyarrow.DataType
        The columns of all passes.
    """

    types: Mapping[str, pa.DataType]
    _rows: _Rows = field(default_factory=_Rows, repr=False)

    @classmethod
    def of(cls, inputs: Inputs, types: Mapping[str, pa.DataType]) -> Inputs:
        """An input for several passes over these columns; the same if it is not of files that say the types of their columns themselves."""
        if type(inputs) is not Inputs or inputs.format != "parquet" or inputs.columns is not None:
            return inputs
        return cls(inputs.format, inputs.paths, inputs.found, types=types, _known=inputs._known)  # noqa: SLF001

    def pieces(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns in `types` of one of the files, in pieces of bounded rows and bytes."""
        held = self._rows.pieces.get(path)
        if held is not None and types.keys() <= self.types.keys():
            check_same(path, version_of(path), self.found[path])
            for piece in held:
                yield from slices(_of(piece, types), cut.rows)
        elif types and self.found[path].size <= min(FILE_BYTES, self._rows.left):
            yield from self._read(path, types, cut)
        else:
            yield from Inputs.pieces(self, path, types, cut)

    def _read(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """Read a file with the columns of the other passes, and keep it if there is room."""
        rows, kept, size = self._rows, list["Piece"](), 0
        with self._opened(path) as source:
            for piece in self._reader(path).pieces(source, {**types, **self.types}, cut):
                size += piece.batch.get_total_buffer_size()
                kept = [*kept, piece] if size <= rows.left else []
                yield from slices(_of(piece, types), cut.rows)
        if size <= rows.left:
            rows.pieces[path] = kept
            rows.left -= size


def _of(piece: Piece, types: Mapping[str, pa.DataType]) -> Piece:
    """Some columns of a piece."""
    return piece if piece.batch.schema.names == [*types] else replace(piece, batch=piece.batch.select([*types]))
