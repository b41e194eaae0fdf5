"""What a worker does where Spark itself writes: rows in, and rows with noise out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore.spark.noise_tasks import typed
from dpcore.spark.workers import partition_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from dpcore.spark.noise_tasks import NoiseTask
    from dpcore.spark.workers import Stamp


@dataclass(frozen=True)
class RowsTask:
    """A partition's work.

    Attributes
    ----------
    noise : NoiseTask
        What is done to the rows.
    types : dict
        Types of the columns that are read, as the job was planned for them.
    stamp : Stamp
        The driver's dpcore.
    """

    noise: NoiseTask
    types: dict[str, pa.DataType]
    stamp: Stamp

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work as an attempt that Spark has started; no message quotes a cell."""
        with self.stamp.guarding():
            yield from self.noise.noised(typed(batches, self.types), partition_number())
