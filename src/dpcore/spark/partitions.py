"""How many tasks take part: as many as the size of the input asks for, and no more than the driver can follow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcore.errors import JobError
from dpcore.spark.settings import is_connect
from dpcore.spark.watching import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, SparkSession

SHUFFLED, UNSET = "spark.sql.shuffle.partitions", "200"
"""Spark's setting of partitions behind a shuffle, and its value where nobody has set it, which knows no size."""
MOST_SHUFFLED = 20_000
"""Partitions behind a shuffle: of 10⁵ tasks each of so many has a piece of 18 kB where a row has 36 bytes, and smaller ones are slow."""
DIRECT_BYTES = 64 << 20
"""Statistics of all tasks that take at most so many bytes together go to the driver as they are; more are merged by tasks first."""
MOVED_BYTES = 1 << 42
"""The most that the statistics of all tasks may take together, zeros included."""
MOST_TASKS = 1 << 20
"""No driver follows so many tasks."""
MERGED_BYTES = 4 << 30
"""What one task should merge at most."""
MOST_MERGING = 2_000
"""Tasks that merge: each that sends remembers one number for each of them, on the driver."""


def partitions_of(frame: DataFrame, files: Collection[tuple[int, int]] = ()) -> int:
    """Partitions of a frame. Spark looks at rows to find those of a sorted one, so this is an action like others.

    A server of Spark Connect does not tell: there it is how many a table of these files, sizes and times, should have.
    """
    if is_connect(frame):
        from dpcore.spark.connect import partitions_for

        return partitions_for(frame.sparkSession, files)
    plan = frame._jdf.queryExecution()  # noqa: SLF001 - pyspark's own way starts workers
    return watched(frame.sparkSession, lambda: max(int(plan.toRdd().getNumPartitions()), 1))


def wanted_by(session: SparkSession) -> int | None:
    """Partitions behind a shuffle that somebody has set; None if nobody has."""
    wanted = str(session.conf.get(SHUFFLED))
    return None if wanted == UNSET else int(wanted)


def shuffled(frame: DataFrame, files: Collection[tuple[int, int]] = ()) -> int:
    """Partitions of the rows of a frame behind a shuffle: as many as it has, since those follow from the bytes of its files."""
    return min(partitions_of(frame, files), MOST_SHUFFLED)


def most_tasks(size: int) -> int:
    """How many tasks may each have statistics of so many bytes."""
    return max(MOVED_BYTES // max(size, 1), 1)


def check_moved(size: int, count: Callable[[], int]) -> None:
    """Raise `JobError` if the statistics of tasks, of so many bytes each, take too much together; `count` says how many tasks there are."""
    if size <= MOVED_BYTES // MOST_TASKS:
        return
    tasks = count()
    if tasks > most_tasks(size):
        raise JobError(
            f"the statistics of all queries take {size >> 20} MiB, and {tasks} tasks have them: more than {MOVED_BYTES >> 40} TiB together "
            f"would move between tasks. Let at most {most_tasks(size)} tasks have the rows of all units ({SHUFFLED}), declare fewer groups "
            "or cells, or ask fewer queries in one job"
        )


def merging(size: int, ranges: int, tasks: int) -> list[tuple[int, int]]:
    """How tasks merge the statistics of others before the driver does.

    Parameters
    ----------
    size, ranges : int
        Bytes of the statistics of a task, and their ranges.
    tasks : int
        How many tasks have them.

    Returns
    -------
    list of (int, int)
        For each step, how many tasks merge, and how many share a range: with few ranges, more tasks than ranges do. Empty if the driver
        takes the statistics as they are.
    """
    if size * tasks <= DIRECT_BYTES:
        return []
    tasks_that_merge = max(math.isqrt(tasks) + 1, min(-(-size * tasks // MERGED_BYTES), MOST_MERGING))
    spread = max(tasks_that_merge // ranges, 1)
    last = (min(tasks_that_merge, ranges), 1)
    return [last] if spread == 1 else [(ranges * spread, spread), last]
