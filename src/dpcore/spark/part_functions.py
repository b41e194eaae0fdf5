"""The functions that Spark calls in its tasks, batch after batch of Arrow; what they compute is in `part_tasks`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.spark.part_tasks import merged
from dpcore.spark.workers import partition_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpcore.spark.part_tasks import PartJob, PartOfTotals
    from dpcore.spark.workers import Stamp

AT_A_TIME = 1 << 18
"""Rows that are handed back to Spark at a time."""


def added_up(stamp: Stamp, job: PartJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The statistics of the rows of a task; nothing of none."""
    with stamp.guarding():
        rows = _some(batches)
        if rows is not None:
            yield _packed(job.added_up(rows))


def merged_parts(stamp: Stamp, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Statistics of several tasks, in one."""
    with stamp.guarding():
        total = merged(part.as_py() for batch in batches for part in batch.column(1))
        if total is not None:
            yield _packed(total)


def counted(stamp: Stamp, job: PartJob, place: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The keys of the rows of a task, with their numbers of units."""
    with stamp.guarding():
        rows = _some(batches)
        if rows is not None:
            yield from job.counted(place, rows)


def listed(stamp: Stamp, job: PartJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The different values of the rows of a task."""
    with stamp.guarding():
        rows = _some(batches)
        for batch in () if rows is None else job.listed(rows):
            for start in range(0, len(batch), AT_A_TIME):
                yield batch.slice(start, AT_A_TIME)


def filtered(stamp: Stamp, job: PartJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that the condition of the job lets through, as Spark has them: the others need not be moved."""
    with stamp.guarding():
        yield from job.filtered(batches)


def _some(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch] | None:
    """The batches; None if there is no row."""
    first = next((batch for batch in batches if len(batch)), None)
    return None if first is None else itertools.chain([first], batches)


def _packed(part: PartOfTotals) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([partition_number()], pa.int32()), pa.array([part.packed()], pa.binary())], ["place", "part"]
    )
