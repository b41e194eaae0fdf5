"""Estimates on Spark: the reports of each file are counted where there is room, and the exact counts are added up."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterTypeError
from dpcore.jobs.estimate import Estimates, count, estimate_with
from dpcore.spark import settings
from dpcore.spark.session import make_session
from dpcore.spark.watching import unlogged, watched
from dpcore.spark.workers import stamp
from dpcore.tables.inputs import Inputs
from dpcore.tables.progress import shown_by
from dpcore.tables.sources import Partitioned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dpcore import local
    from dpcore.tables.progress import Shown
    from dpcore.tables.randomise import NoisyColumn

NOT_HERE = (
    "session is one of Spark Connect, whose executors need not see the files of reports; dpcore.batch.estimate and dpcore estimate "
    "read them on any machine, since reports are private already"
)


@unlogged()
def estimate(
    path: str | Path,
    *,
    confidence: float = 0.95,
    target: str = "population",
    columns: Iterable[str] | None = None,
    session: SparkSession | None = None,
    progress: Shown = None,
) -> Estimates:
    """Estimate means and shares from tables that `privatize` wrote, on Spark.

    Parameters
    ----------
    path : str or Path
        A file, a folder or a glob, on a file system that all executors see; the rows of all files are taken together.
    confidence : float, default 0.95
        Coverage of each interval, in (0, 1).
    target : {"population", "sample"}, default "population"
        Whether intervals are for the population that the rows were drawn from, or for these rows.
    columns : iterable of str, optional
        Only these.
    session : pyspark.sql.SparkSession, optional
        Default: the one that runs, or a new one on this machine.
    progress : callable or Progress, optional
        Called as `progress(done, total)`, a few times a second.

    Returns
    -------
    Estimates
        Those that `dpcore.batch.estimate` gives for the same files, to the last bit.

    Raises
    ------
    DataError
        If files have no metadata or damaged ones, hold no row, or hold a cell that is no report.
    JobError
        If files do not belong together, or a column holds no reports.
    StorageError
        If something cannot be read.

    Notes
    -----
    Guarantee: this spends nothing; results computed from private reports alone are as private as the reports.

    Cost: one pass over the columns of reports, a task for each file.

    Examples
    --------
    >>> from dpcore.spark import estimate
    >>> estimate("private").columns[0].estimate  # doctest: +SKIP
    """
    spark = make_session() if session is None else session
    if settings.is_connect(spark):
        raise ParameterTypeError(NOT_HERE)
    settings.check(spark)

    def count_there(inputs: Inputs, chosen: list[NoisyColumn]) -> tuple[list[local.Aggregate], int]:
        there = _everywhere(inputs)
        files = spark.sparkContext.parallelize(list(there.paths), len(there.paths))
        counted = files.mapPartitions(_counter(there, chosen))
        parts = watched(spark, counted.collect, progress, "counting")
        counts = [part for part, rows in parts if rows]
        return (reduce(_added, counts) if counts else []), sum(rows for _, rows in parts)

    return estimate_with(count_there, path, confidence=confidence, target=target, columns=columns)


def _everywhere(inputs: Inputs) -> Inputs:
    """The same files by names that do not depend on the folder in which an executor runs."""
    names = {name: replace(name, file=name.file.absolute()) if isinstance(name, Partitioned) else name.absolute() for name in inputs.paths}
    return replace(inputs, paths=tuple(names.values()), found={names[name]: version for name, version in inputs.found.items()})


def _counter(inputs: Inputs, chosen: list[NoisyColumn]) -> Callable[[Iterable[Path]], Iterator[Any]]:
    """What a task does with the files that it is given."""
    there = stamp()

    def counts(paths: Iterable[Path]) -> Iterator[Any]:
        with there.guarding():
            for path in paths:
                yield count(Inputs(inputs.format, (path,), inputs.found), chosen, 1, shown_by(None))

    return counts


def _added(one: list[local.Aggregate], other: list[local.Aggregate]) -> list[local.Aggregate]:
    return [first + second for first, second in zip(one, other, strict=True)]
