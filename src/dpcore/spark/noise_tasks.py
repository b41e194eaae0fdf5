"""What a worker does with the rows of one partition: cut them into batches of a fixed length, and noise each under the key of the batch."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.jobs.privatize import privatize_rows
from dpcore.spark.noise_keys import BatchNoise, Identity, mechanism_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from dpcore.rng import CarriedKey
    from dpcore.tables.randomise import NoisyColumn

BATCH_ROWS = 1 << 14
"""Rows that share a key. The number is fixed: how Arrow's batches are cut depends on the bytes of the rows."""
FILE, INDEX, HIDDEN = "__dpcore_file", "__dpcore_index", "__dpcore_hidden"
"""Columns beside those of the job: which file and which row of it a row is, and whether its cells count as missing."""


@dataclass(frozen=True)
class NoiseTask:
    """What every partition needs to know. It is pickled with the key, and goes where the rows go.

    Attributes
    ----------
    columns : tuple of NoisyColumn
        In the order of the job.
    schema : pyarrow.Schema
        Of the output.
    key : CarriedKey
        Of the job.
    batch_rows : int
        Rows that share a key.
    """

    columns: tuple[NoisyColumn, ...]
    schema: pa.Schema
    key: CarriedKey
    batch_rows: int = BATCH_ROWS

    @cached_property
    def mechanisms(self) -> list[list[bytes]]:
        """The parameters of each column, written down once."""
        return [mechanism_parts(position, column) for position, column in enumerate(self.columns)]

    def noised(self, batches: Iterable[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        """Noise the rows of a partition.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            The rows, cut in any way: the columns of the job, and beside them what names a row.
        partition : int
            The number of the partition.

        Yields
        ------
        pyarrow.RecordBatch
            Of `schema`; of `batch_rows` rows each, but for the last.

        Raises
        ------
        CellError
            If a cell is missing or unknown and its column declares nothing for it.
        """
        first = 0
        for batch in cut(batches, self.batch_rows):
            yield self._noised(batch, partition, first)
            first += len(batch)

    def _noised(self, batch: pa.RecordBatch, partition: int, first: int) -> pa.RecordBatch:
        names = batch.schema.names
        files, indices = (_numbers(batch, name) if FILE in names else None for name in (FILE, INDEX))
        hidden = batch.column(HIDDEN).to_numpy(zero_copy_only=False) if HIDDEN in names else None
        identity = Identity(partition, first, len(batch), files, indices)
        cells = [batch.column(column.name) for column in self.columns]
        streams = BatchNoise(self.key, cells, self.mechanisms, identity, hidden)
        return privatize_rows(self.columns, self.schema, batch, streams, first, hidden)


def typed(batches: Iterable[pa.RecordBatch], types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the types that the job was planned for: Spark chooses between the sizes of text by a setting."""
    for batch in batches:
        names, before = batch.schema.names, batch.schema.types
        kinds = [types.get(name, kind) for name, kind in zip(names, before, strict=True)]
        if kinds == before:
            yield batch
            continue
        arrays = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names)


def cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of this length; only the last may be shorter, and none is empty."""
    pending: list[pa.RecordBatch] = []
    waiting = 0
    for batch in batches:
        start = 0
        while len(batch) - start:
            part = batch.slice(start, rows - waiting)
            pending.append(part)
            start, waiting = start + len(part), waiting + len(part)
            if waiting == rows:
                yield _joined(pending)
                pending, waiting = [], 0
    if pending:
        yield _joined(pending)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    arrays = [pa.concat_arrays([part.column(place) for part in parts]) for place in range(len(parts[0].schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=parts[0].schema)


def _numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
