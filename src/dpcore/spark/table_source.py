"""Spark frames for `PrivateTable`: each question is a job whose rows Spark reads; only what is released, or public, comes to the driver."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.spark.connect import check_declared
from dpcore.spark.settings import is_connect
from dpcore.spark.table_input import NAME, SparkInput
from dpcore.spark.watching import unlogged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcore.frames.source import FrameSource
    from dpcore.query.plan import ReleasePlan
    from dpcore.tables.pieces import FileInfo


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A DataFrame of Spark.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
        The frame.
    name : str
        For messages.
    connect : Declared or None
        What is declared of a session of Spark Connect.
    """

    frame: Any = field(repr=False)
    name: str = NAME
    connect: Any = None

    @property
    def is_snapshot(self) -> bool:
        """False: Spark may read its rows again."""
        return False

    @unlogged()
    def native(self, answer: pa.Table) -> object:
        """An answer as a frame of the same session."""
        session = self.frame.sparkSession
        try:
            return session.createDataFrame(answer)
        except TypeError:  # before Spark 4
            return session.createDataFrame(answer.to_pylist(), _schema_of(answer))

    @unlogged()
    def input(self) -> SparkInput:
        """The input of one run."""
        return SparkInput.of(self.frame, self.name, connect=self.connect)

    @unlogged()
    def answers(self, plan: ReleasePlan) -> dict[str, Any]:
        """Charge and run a plan on Spark."""
        from dpcore.spark.running import answered_by_spark

        return answered_by_spark(plan, self.frame.sparkSession, connect=self.connect)

    def info(self) -> FileInfo:
        """The schema; no row is read."""
        return self.input().info

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a public table, all of which come to the driver."""
        yield from self._collected(names).to_batches(max_chunksize=rows)

    @unlogged()
    def _collected(self, names: Sequence[str]) -> pa.Table:
        places = [self.frame.columns.index(name) for name in names]
        chosen = self.frame.toDF(*map(str, range(len(self.frame.columns)))).select(*(f"`{place}`" for place in places))
        types = self.info().types or {}
        columns = list(zip(*chosen.collect(), strict=True)) or [() for _ in names]
        return pa.table({name: pa.array(column, types[name]) for name, column in zip(names, columns, strict=True)})

    def evaluated(self, names: Sequence[str]) -> FrameSource:  # noqa: ARG002
        """The same."""
        return self


def adapted(frame: object, connect: object = None) -> SparkSource:
    """The source of a frame of pyspark; see `checked_frame`. `connect` is what is declared of its session."""
    checked = checked_frame(frame)
    if connect is not None:
        if not is_connect(checked):
            raise ParameterError("connect is for frames of Spark Connect; the driver of this one is this process")
        check_declared(connect)
    return SparkSource(checked, connect=connect)


def checked_frame(frame: Any, name: str = "frame") -> Any:
    """A DataFrame of Spark; `name` is what messages call it.

    Raises
    ------
    ParameterTypeError
        If it is one of pandas on Spark, or none.
    ParameterError
        If it is a stream.
    """
    module, kind = type(frame).__module__, type(frame).__name__
    if module.startswith("pyspark.pandas"):
        raise ParameterTypeError(f"{name} must be a DataFrame of Spark, got one of pandas on Spark; use frame.to_spark()")
    if kind != "DataFrame" or not module.startswith("pyspark.sql"):
        raise ParameterTypeError(f"{name} must be a pyspark.sql.DataFrame, got {kind}")
    if frame.isStreaming:
        raise ParameterError(f"{name} is a stream, of which no release ever has all rows; write it to a table, and release that")
    return frame


def _schema_of(answer: pa.Table) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(answer.schema)
