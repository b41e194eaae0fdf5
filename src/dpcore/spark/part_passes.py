"""The passes over a Spark table: tasks find exact partial statistics, Spark moves rows, and the driver puts the parts together.

All that crosses the network or is spilled is moved by Spark itself, in DataFrames, which encrypt it where the session says so: no shuffle
and no aggregation is one of Python's.
"""

from __future__ import annotations

import functools
import itertools
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from dpcore._backend import default_threads
from dpcore.errors import JobError, StorageError
from dpcore.query.backend import PrivateGrouping
from dpcore.rng import JobKey, StreamPosition
from dpcore.spark import part_functions
from dpcore.spark.connect import check_again
from dpcore.spark.joined_rows import MEETING, JoinedRows, joined_infos
from dpcore.spark.part_tasks import PartJob, counts_of, listing, together
from dpcore.spark.part_totals import merged
from dpcore.spark.partitions import DIRECT_BYTES, MOST_TASKS, check_moved, merging, most_tasks, partitions_of, shuffled, wanted_by
from dpcore.spark.settings import functions_of, is_connect
from dpcore.spark.snapshots import NAMES, with_names
from dpcore.spark.watching import watched
from dpcore.spark.workers import stamp
from dpcore.tables.pieces import FileInfo
from dpcore.tables.units.row_hash import hash_key, types_of_rows
from dpcore.tables.units.row_random_bits import ByValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from dpcore.query.backend import Estimator, Measure
    from dpcore.query.plan import ReleasePlan
    from dpcore.spark.part_totals import PartOfTotals
    from dpcore.spark.table_input import SparkInput
    from dpcore.tables.progress import Progress

Found = TypeVar("Found")
PART = "place int, part binary"
"""A range of statistics, and what a task has in it. They move by the range and the number of the task, so that a second attempt sends its
part where the first did."""
VALUES = "place int, part int, value binary"
MOST_BYTES = 512 << 20
"""The statistics of all queries together, which one task and the driver must hold."""
KEYS_AT_A_TIME = 1 << 16
ALONE = (1, 1)
"""One task merges what all others send."""
TWICE = "Spark gave a part of its result twice, and nothing shows which of both is whole; nothing was published"
CHANGED = "the table changed between two passes over it, so the result would mix two tables; try again when nothing writes to it"


class SparkPasses:
    """The passes over a Spark table.

    Parameters
    ----------
    table : SparkInput
        The table.
    progress : Progress
        Shows them.
    joined : sequence of SparkInput, default ()
        The tables that are joined to it.
    """

    def __init__(self, table: SparkInput, progress: Progress, joined: Sequence[SparkInput] = ()) -> None:
        self._table, self._progress, self._joined = table, progress, joined
        self._spark = table.frame.sparkSession
        self._salt = secrets.randbits(63)
        self._chosen_by: ByValue | None = None
        self._rows: int | None = None

    @property
    def threads(self) -> int:
        """Threads that draw noise."""
        return default_threads()

    def check_sizes(self, plan: ReleasePlan) -> None:
        """Raise `JobError` if the statistics of queries whose groups are declared are too large, of one task or of all: before a charge."""
        known = [None if _waits(estimator) else estimator.measure for estimator in plan.estimators]
        job = PartJob.of(plan, together(known), self._info(_columns(plan, _names_of(known))), joined_infos(plan))
        size = job.added_up([]).size
        _check_size(size)
        if job.holds_rows:  # where tasks hold no rows, too many partitions are given to fewer tasks instead
            check_moved(size, lambda: self._partitions(self._prepared(plan, together(known), _names_of(known))[1]))

    def make_rows(self, plan: ReleasePlan) -> ReleasePlan:
        """The same: the task that has all rows of a unit makes what its queries are about, in each pass alike."""
        return plan

    def choose_rows(self, plan: ReleasePlan) -> None:
        """Nothing here: the task that has all rows of a unit chooses among them, in each pass alike."""

    def add_up(self, plan: ReleasePlan, measures: Sequence[Measure | None], stage: str) -> tuple[list[Any], int]:
        """Let tasks add up their rows, and add up what they found."""
        job, frame = self._prepared(plan, together(measures), _names_of(measures))
        total = self._total(job, frame, stage)
        different = self._different(plan, measures)
        if self._rows not in {None, total.rows}:
            raise StorageError(CHANGED)
        self._rows = total.rows
        return [different.get(place, each) for place, each in enumerate(total.totals)], total.rows

    def count_units(self, plan: ReleasePlan, place: int, work: Callable[[Iterable[pa.RecordBatch]], Found]) -> Found:
        """Let tasks count the units of their keys, and Spark add up the counts of each key, in the order of keys."""
        F = functions_of(self._spark)
        estimator: Any = plan.estimators[place]
        job, frame = self._prepared(plan, [], estimator.private.names)
        counted = frame.mapInArrow(functools.partial(part_functions.counted, stamp(), job, place), "key binary, n long")
        count = self._shuffled(frame)
        counted = counted.repartition(count, "key").groupBy("key").agg(F.sum("n").alias("n"))
        counted = counted.repartitionByRange(count, "key").sortWithinPartitions("key")
        stage = f"counting {plan.job.privacy.unit!r} per {', '.join(map(repr, estimator.private.names))}"
        return self._run(lambda: work(_batches(counted.toLocalIterator())), stage)

    def _run(self, action: Callable[[], Found], stage: str) -> Found:
        """Run an action of Spark; its result counts if files of the table and settings of the session are still those of the plan."""
        check_again(self._spark)
        try:
            found = watched(self._spark, action, self._progress, stage)
        finally:
            for table in (self._table, *self._joined):
                table.snapshot.check(table.frame)
        check_again(self._spark)
        return found

    def _choice(self, plan: ReleasePlan) -> ByValue | None:
        """How units choose: in each pass, and in each attempt at a task, alike. Rows that are equal in what a job reads are one to it."""
        if plan.unit_type is None or plan.by_value is not None:
            return plan.by_value
        if self._chosen_by is None:
            with JobKey() as key:
                secret = hash_key(StreamPosition(key.derived("choice of rows", []), 0, 0, secure=True))
            info = self._info(_columns(plan, [])) if plan.recipe is None else plan.recipe.chosen_by
            self._chosen_by = ByValue(secret, types_of_rows([info]))
        return self._chosen_by

    def _info(self, needed: set[str]) -> FileInfo:
        """Some columns of the table, in their order."""
        info = self._table.info
        names = tuple(name for name in info.names if name in needed)
        return FileInfo(names, None if info.types is None else pa.schema([(name, info.types[name]) for name in names]), None)

    def _prepared(self, plan: ReleasePlan, measures: Sequence[Measure | None], names: Iterable[str]) -> tuple[PartJob, DataFrame]:
        """What tasks need of the plan, and the rows that they get: the columns of these names, and all rows of a unit in one task."""
        every = self._table.info.names
        info = self._info(_columns(plan, names) or set(list(plan.read_types)[:1]))
        places = {name: every.index(name) for name in info.names}
        job = PartJob.of(replace(plan, by_value=self._choice(plan)), measures, info, joined_infos(plan))
        # By place: two columns may have one name, or names that Spark takes for one.
        whole = self._table.frame.toDF(*map(str, range(len(every))))
        columns = [*map(str, places.values())]
        if plan.unit_type is None:
            return job, whole.select(
                *(
                    _column(functions_of(whole), place, each)
                    for place, each in zip(columns, info.schema or [None] * len(columns), strict=True)
                )
            )
        frame = whole.select(*(f"`{place}`" for place in columns))
        unit = str(places[plan.job.privacy.unit])
        if plan.job.privacy.null_rows_are_units:
            named = with_names(whole, columns)
            frame = frame if named is None else named
        else:
            frame = frame.where(f"`{unit}` IS NOT NULL")  # they take part in nothing
        if plan.joins:
            joined = JoinedRows(plan.joins, job.joined, self._salt)
            frame = joined.beside(frame, unit, columns, self._alone(frame))
            return job, frame.repartition(self._shuffled(frame), MEETING).select(*joined.order(columns))
        if (plan.job.where if plan.recipe is None else plan.recipe.derivation.where) is not None:
            frame = frame.mapInArrow(functools.partial(part_functions.filtered, stamp(), job), frame.schema)
        return job, self._by(frame, unit).select(*(f"`{place}`" for place in columns))

    def _by(self, frame: DataFrame, column: str) -> DataFrame:
        """The rows, those with one value of a column in one partition; one without a value goes where its name puts it, if it has one.

        The hash has a salt that is new for each run, so that nobody can choose names that fall into one partition.
        """
        F = functions_of(self._spark)
        unit = F.col(f"`{column}`")
        return frame.repartition(
            self._shuffled(frame), F.when(unit.isNull(), self._alone(frame)).otherwise(F.xxhash64(F.lit(self._salt), unit))
        )

    def _alone(self, frame: DataFrame) -> Column:
        """Where a row goes that names no unit."""
        F = functions_of(self._spark)
        own = [name for name in NAMES if name in frame.columns] or frame.columns
        return F.xxhash64(F.lit(self._salt), *(F.col(f"`{name}`") for name in own))

    def _shuffled(self, frame: DataFrame) -> int:
        """Partitions of a shuffle: as many as follow from the input, or as many as the session wants if somebody has set more."""
        return max(shuffled(frame, self._files), wanted_by(self._spark) or 0)

    def _partitions(self, frame: DataFrame) -> int:
        """Partitions of the rows that tasks get."""
        return self._shuffled(frame) if is_connect(frame) else partitions_of(frame)

    @property
    def _files(self) -> list[tuple[int, int]]:
        """Sizes and times of all files; none if those of a table are not known."""
        tables = [each.snapshot.files for each in (self._table, *self._joined)]
        return [file for files in tables for file in files.values()] if all(tables) else []

    def _total(self, job: PartJob, frame: DataFrame, stage: str) -> PartOfTotals:
        nothing = job.added_up([])
        size, count = nothing.size, self._partitions(frame)
        _check_size(size)
        # A server of Spark Connect does not tell how many there are, and fewer stay as they are.
        if (count > most_tasks(size) or is_connect(frame)) and not job.holds_rows:
            count = min(most_tasks(size), count)
            frame = frame.coalesce(min(most_tasks(size), MOST_TASKS))
        steps = merging(size, nothing.ranges, count)
        if is_connect(frame):
            steps = steps or [ALONE]
        spread = steps[0][1] if steps else 1
        parts = frame.mapInArrow(functools.partial(part_functions.added_up, stamp(), job, spread), PART)
        for tasks, shared in steps:
            parts = parts.repartition(tasks, "place").mapInArrow(functools.partial(part_functions.merged_parts, stamp(), shared), PART)
        read = _once if steps else iter
        return nothing.filled(self._run(lambda: merged(read(_rows(parts, size))), stage))

    def _different(self, plan: ReleasePlan, measures: Sequence[Measure | None]) -> dict[int, Any]:
        """How many different values the rows have, for queries that count them: each is counted once, whichever tasks have it."""
        F = functions_of(self._spark)
        listed = listing(measures)
        if not any(listed):
            return {}
        job, frame = self._prepared(plan, listed, _names_of(listed))
        values = frame.mapInArrow(functools.partial(part_functions.listed, stamp(), job), VALUES)
        values = values.repartition(self._shuffled(frame), *values.columns).distinct()
        counted = values.groupBy("place", "part").agg(F.count(F.lit(1)).alias("n"))
        columns = [section.column for section, each in zip(plan.job.query, listed, strict=True) if each is not None]
        stage = f"counting different values of {', '.join(dict.fromkeys(map(repr, columns)))}"
        found = self._run(counted.collect, stage)
        return counts_of(((row[0], row[1], row[2]) for row in found), listed)


def _names_of(measures: Iterable[Measure | None]) -> list[str]:
    return [name for measure in measures if measure is not None for name in measure.names]


def _column(functions: Any, place: str, field: pa.Field | None) -> Any:
    """A column by its place; one of a type that no query takes is there to count rows, and Arrow need not have its type."""
    if field is None or not pa.types.is_struct(field.type):
        return functions.col(f"`{place}`")
    return functions.struct(*(functions.lit(None).alias(each.name) for each in field.type)).alias(place)


def moves_rows(plan: ReleasePlan) -> bool:
    """Whether tasks hand rows or cells of rows to others: those of a unit, or values that are counted once."""
    return plan.unit_type is not None or any(listing([estimator.measure for estimator in plan.estimators]))


def _rows(parts: DataFrame, size: int) -> Iterable[tuple[int, bytes]]:
    """The merged ranges; of many bytes those of one partition at a time, so that the driver's Java does not hold all of them."""
    return ((row[0], row[1]) for row in (parts.collect() if size <= DIRECT_BYTES else parts.toLocalIterator()))


def _once(ranges: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The same ranges, which behind a merging step come once each; a result that is read twice would count all units twice."""
    seen: set[int] = set()
    for place, piece in ranges:
        if place in seen:
            raise StorageError(TWICE)
        seen.add(place)
        yield place, piece


def _waits(estimator: Estimator) -> bool:
    """Whether the size of a statistic depends on keys or bounds that another pass finds."""
    return estimator.waits_for_keys or isinstance(estimator.grouping, PrivateGrouping) or estimator.measure_of_bins is not None


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise JobError(
            f"the statistics of all queries take {size >> 20} MiB, and at most {MOST_BYTES >> 20} MiB fit through one task and the "
            "driver; ask fewer queries in one job, or declare fewer groups or cells"
        )


def _columns(plan: ReleasePlan, names: Iterable[str]) -> set[str]:
    """The columns that a pass needs; units choose by all columns that a job reads, and under a test key by all that there are."""
    if plan.recipe is not None:
        return {*plan.recipe.read_types}
    needed = {*names}
    if plan.derivations is not None:
        needed |= {*plan.derivations.choosing.reads, *plan.derivations.adding.reads}
    if plan.unit_type is not None:
        needed |= {plan.job.privacy.unit, *plan.read_types, *(() if plan.by_value is None else plan.by_value.types)}
    return needed


def _batches(rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Keys and counts, so many at a time, each key once and in their order."""
    last: list[bytes] = []
    while some := list(itertools.islice(rows, KEYS_AT_A_TIME)):
        keys = [bytes(row[0]) for row in some]
        if any(second <= first for first, second in itertools.pairwise([*last, *keys])):
            raise StorageError(TWICE)
        last = keys[-1:]
        yield pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), pa.array([row[1] for row in some], pa.int64())], ["key", "n"])
