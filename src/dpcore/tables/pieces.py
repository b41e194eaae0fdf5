"""Types that the readers of all formats share."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.tables.types.sizes import total_varying_bytes, varies, varying_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

MANY_COLUMNS = 256
"""From here on, what each column of each piece costs is much of all work."""
PIECE_BYTES = 8 << 20
"""Of decoded text in a piece, about."""


@dataclass(frozen=True)
class FileInfo:
    """Facts about a file that are known before any row is read.

    Attributes
    ----------
    names : tuple of str
        Column names, in order.
    schema : pyarrow.Schema or None
        Types and metadata; None if the format has none and takes the types that are demanded of it.
    rows : int or None
        Number of rows; None if it is not known before the file is read.
    footer : pyarrow.parquet.FileMetaData or None
        What a reader need not read again; None if there is no such thing, or much of it.
    """

    names: tuple[str, ...]
    schema: pa.Schema | None
    rows: int | None
    footer: Any = field(default=None, repr=False, compare=False)

    @cached_property
    def types(self) -> dict[str, pa.DataType] | None:
        """Type of each column; None if the format has none."""
        return None if self.schema is None else dict(zip(self.names, self.schema.types, strict=True))

    def is_like(self, other: FileInfo) -> bool:
        """Whether both have the same columns, in one order, of the same types, if their format has types."""
        return self.names == other.names and (self.schema is other.schema or (self.schema is not None and self.schema == other.schema))


@dataclass(frozen=True, slots=True)
class Cut:
    """The sizes of the pieces that a reader makes of a file; the rows do not depend on them.

    Attributes
    ----------
    rows : int
        Rows of a piece, at most; a reader of text goes by bytes instead.
    use_threads : bool
        Whether Arrow may decode on several threads.
    """

    rows: int
    use_threads: bool = True


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one file.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
        At least the columns asked for.
    row : int
        Position in the file of the first row.
    done : float
        Fraction of the file that has been read, for the progress bar.
    text : int
        Bytes of its values of varying size, decoded; `slices` counts them, and readers leave 0.
    """

    batch: pa.RecordBatch
    row: int
    done: float
    text: int = 0


def slices(piece: Piece, rows: int) -> Iterator[Piece]:
    """Cut a piece that has more rows than asked for, or rows that are long once they are decoded."""
    batch, start = piece.batch, 0
    varying = [batch.column(place) for place, kind in enumerate(batch.schema.types) if varies(kind)]
    text = sum(map(total_varying_bytes, varying))
    if len(batch) <= rows and text < PIECE_BYTES:
        if len(batch):
            yield replace(piece, text=text) if text else piece
        return
    ends = np.append(0, np.cumsum(sum(map(varying_bytes, varying), start=np.zeros(len(batch), np.int64))))
    while start < len(batch):
        full = int(np.searchsorted(ends, ends[start] + PIECE_BYTES))
        stop = min(start + rows, max(full, start + 1), len(batch))
        yield Piece(batch.slice(start, stop - start), piece.row + start, piece.done, int(ends[stop] - ends[start]))
        start = stop
