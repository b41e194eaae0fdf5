"""The functions that Spark calls in its tasks, batch after batch of Arrow; what they compute is in `part_tasks`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.spark.part_totals import merged
from dpcore.spark.workers import partition_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpcore.spark.part_tasks import PartJob
    from dpcore.spark.workers import Stamp

AT_A_TIME = 1 << 18
"""Rows that are handed back to Spark at a time."""
PIECES = 256
"""The same of ranges of statistics, which have up to 12 KiB each."""


def added_up(stamp: Stamp, job: PartJob, spread: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The statistics of the rows of a task; nothing of none. Each range goes to one of so many that merge it, by the number of the task."""
    with stamp.guarding():
        rows = _some(batches)
        if rows is not None:
            own = partition_number() % spread
            yield from _sent((place * spread + own, piece) for place, piece in job.added_up(rows).pieces())


def merged_parts(stamp: Stamp, spread: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Statistics of several tasks, merged."""
    with stamp.guarding():
        yield from _sent(merged((place // spread, piece) for batch in batches for place, piece in pieces_of(batch)).pieces())


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


def pieces_of(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """Numbers of ranges, and what parts have sent of each."""
    return zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _sent(pieces: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    left = iter(pieces)
    while some := list(itertools.islice(left, PIECES)):
        places, parts = zip(*some, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(places, pa.int32()), pa.array(parts, pa.binary())], ["place", "part"])
