"""A planned job of local privacy on Spark: what is read, what is done to it, and what was written."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.jobs.privatize_plan import planned_for
from dpcore.privacy import Guaranteed
from dpcore.rng import JobKey
from dpcore.spark.noise_tasks import HIDDEN, NoiseTask
from dpcore.spark.partitions import shuffled, wanted_by
from dpcore.spark.repeated_rows import check_repeats
from dpcore.spark.row_order import comes_in_order, is_determined
from dpcore.spark.snapshots import selected, with_names
from dpcore.spark.unit_tasks import MEETING, WORD, UnitTask
from dpcore.spark.workers import stamp
from dpcore.tables.checks import check_curator, check_names, type_of_unit
from dpcore.tables.pieces import FileInfo
from dpcore.tables.units.row_hash import types_of_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from dpcore.jobs.privatize_job import Job
    from dpcore.privacy import Privacy
    from dpcore.tables.randomise import NoisyColumn

FRAME = "a Spark frame"
"""Stands for the path of the input where a job names none, and in messages."""


@dataclass(frozen=True, slots=True)
class Written(Guaranteed):
    """The result of a finished write.

    Attributes
    ----------
    path : str
        The folder.
    rows, files : int or None
        Rows of the output, and the files that hold them; None where only Spark knows them.
    privacy : Privacy
        What the job guarantees each unit.
    secure : bool
        Whether the noise comes from the operating system's randomness.
    covers_attempts : bool
        Whether no value decides which row is which, so that not even an observer of discarded attempts learns anything from which of
        them share their noise.
    entry : int or None
        Number of the entry in the ledger.
    """

    path: str
    rows: int | None
    files: int | None
    privacy: Privacy
    secure: bool
    covers_attempts: bool
    entry: int | None


class NoisePlan:
    """A job that is checked for a frame.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        What is read, without noise.
    job : Job
        The job.

    Attributes
    ----------
    frame, job
        As given.
    session : pyspark.sql.SparkSession
        That of the frame.
    columns : tuple of NoisyColumn
        In the order of the job.
    types : dict
        Types of the columns that are read.
    schema : pyarrow.Schema
        Of the output.
    """

    def __init__(self, frame: DataFrame, job: Job) -> None:
        self.frame, self.job = frame, job
        self.session: SparkSession = frame.sparkSession
        found = arrow_schema(frame)
        info = FileInfo(tuple(found.names), found, None)
        self.columns: tuple[NoisyColumn, ...]
        self.columns, self.types, self.schema = planned_for(job, info, Path(FRAME))
        self._held: dict[str, pa.DataType] = {}
        if job.privacy.unit != "row":
            check_curator(job, curator=False)
            check_names(info, Path(FRAME), [job.privacy.unit])
            type_of_unit(info, Path(FRAME), job.privacy.unit, None)
            self._held = types_of_rows([info])
        unit = [] if job.privacy.unit == "row" else [job.privacy.unit]
        self._read = list(dict.fromkeys([*self.types, *unit]))
        self._named = with_names(frame, self._read)  # before anything is charged
        check_repeats(frame, is_moved=bool(unit))

    def key(self) -> JobKey:
        """A key for one run: of a job with a test key its twin."""
        if self.job.testing is None:
            return JobKey()
        from dpcore.testing import KeyedJobKey  # Only a keyed job may hold the class whose output is not private.

        return KeyedJobKey(bytes.fromhex(self.job.testing.key_hex))

    def noise(self, key: JobKey) -> NoiseTask:
        """What the workers do to the rows."""
        return NoiseTask(self.columns, self.schema, key.carried())

    def rows(self, key: JobKey) -> tuple[DataFrame, bool]:
        """The columns that the workers read, and whether no value decides which row is which; with units also which rows are hidden.

        Rows that come in the same order at every attempt are known by their places, others by their names if they have some.
        """
        privacy = self.job.privacy
        plain = selected(self.frame, self._read)
        if privacy.unit == "row" and comes_in_order(plain):
            return plain, True
        rows = plain if self._named is None else self._named
        covers = self._named is not None and is_determined(plain)
        if privacy.unit == "row":
            return rows, covers
        held = {name: kind for name, kind in self._held.items() if name in self._read}
        own = privacy.null_rows_are_units
        task = UnitTask.keyed(key, held, privacy.unit, limit=privacy.rows_per_unit, null_is_unit=own, stamp=stamp())
        return bounded(rows, task), covers


def bounded(rows: DataFrame, task: UnitTask) -> DataFrame:
    """The same rows, with those of each unit that are too many hidden, in an order that depends on no unit."""
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    def meet(batches: Any) -> Any:
        return task.met(batches)

    def choose(batches: Any) -> Any:
        return task.chosen(batches)

    before = list(rows.schema.fields)
    there = StructType([*before, StructField(MEETING, LongType())])
    count = wanted_by(rows.sparkSession) or shuffled(rows)
    met = rows.mapInArrow(meet, there).repartition(count, MEETING).sortWithinPartitions(MEETING)
    done = StructType([*before, StructField(WORD, LongType()), StructField(HIDDEN, BooleanType())])
    return met.mapInArrow(choose, done).repartition(count, WORD).sortWithinPartitions(WORD)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The types in which a frame's columns come to the workers."""
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted: dict[str, Any] = {}
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        wanted["timezone"] = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    try:
        return to_arrow_schema(frame.schema, **wanted)
    except Exception as error:
        raise JobError(
            f"frame has a column of a type that Arrow does not have ({type(error).__name__}); select the columns first"
        ) from None
