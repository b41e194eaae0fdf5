"""The rows of one task as the input of a job: what runs over the files of one machine runs over them, and does not know the difference."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.tables.formats.checked import checked
from dpcore.tables.inputs import Inputs
from dpcore.tables.pieces import FileInfo, Piece, slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dpcore.tables.pieces import Cut
    from dpcore.tables.sources import InputFile

PLACE = Path("Spark")
"""What messages of tasks call their rows, which lie in no file."""


@dataclass(frozen=True, slots=True)
class PartInput(Inputs):
    """Some rows of a table, in no order.

    Attributes
    ----------
    info : FileInfo
        The columns of each batch, in their order, with the types of the plan.
    batches : iterable of pyarrow.RecordBatch
        The rows; a list if a job passes over them more than once.
    """

    info: FileInfo = field(repr=False)
    batches: Iterable[pa.RecordBatch] = field(repr=False)

    @classmethod
    def of(cls, info: FileInfo, batches: Iterable[pa.RecordBatch]) -> PartInput:
        """The input of one task."""
        return cls("arrow", (PLACE,), {}, info, batches)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (1,)

    def inspect(self, path: InputFile) -> FileInfo:  # noqa: ARG002
        return self.info

    def pieces(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:  # noqa: ARG002
        """The columns in `types`, as the plan has them, in pieces of bounded rows and bytes."""
        done = 0
        for batch in self.batches:
            yield from slices(Piece(checked(planned(batch, self.info.names, types), types), done, 0.5), cut.rows)
            done += len(batch)


def planned(batch: pa.RecordBatch, names: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Some columns of a batch, with the types of the plan."""
    order = {name: place for place, name in enumerate(names)}
    return pa.RecordBatch.from_arrays([_as_planned(batch.column(order[name]), kind) for name, kind in types.items()], list(types))


def _as_planned(cells: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Cells with the type of the plan, from what Spark hands to a task: another width of offsets, or another name of the time zone."""
    if cells.type == dtype:
        return cells
    if pa.types.is_timestamp(dtype) and pa.types.is_timestamp(cells.type):
        return cells.view(pa.int64()).view(dtype)
    return cells.cast(dtype)
