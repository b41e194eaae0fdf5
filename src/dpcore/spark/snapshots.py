"""The files that a frame reads, pinned: which version of each the job began with, and names of their rows that no value decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore.errors import StorageError
from dpcore.spark.failures import from_spark
from dpcore.spark.jvm_files import DriverFiles
from dpcore.spark.noise_tasks import FILE, INDEX
from dpcore.spark.row_order import each_of
from dpcore.spark.settings import is_connect
from dpcore.spark.watching import unlogged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

METADATA = "_metadata"
"""The hidden column in which Spark says where a row comes from."""
NAMES = {
    FILE: f"xxhash64({METADATA}.file_path, {METADATA}.file_size, {METADATA}.file_modification_time)",
    INDEX: f"{METADATA}.row_index",
}
"""The version of a file, as a number, and the position of a row in it. Two files may share a number: see `dpcore.spark.noise_keys`."""
ROW_BY_ROW = ("Project", "Filter", "SubqueryAlias", "View", "Sort", "Repartition", "RepartitionByExpression", "GlobalLimit", "LocalLimit")
"""Steps of Spark whose rows are rows of what is below them, each once, and in whose columns no other row counts."""
CACHED = "InMemoryRelation"
"""What a plan has in the place of tables whose rows Spark keeps."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a frame, each with its size and the time of its last change.

    Attributes
    ----------
    files : dict
        Size and time by path; empty if the frame reads no files, or none that Spark can list.
    """

    files: dict[str, tuple[int, int]]

    def check(self, frame: DataFrame, *, is_shown: bool = False) -> None:
        """Raise `StorageError` if a file has changed or is gone; `is_shown` if readers see the output already."""
        try:
            now = pinned(frame).files
        except StorageError:
            now = {}
        if now != self.files:
            raise StorageError(
                "the input changed while it was read: a file of it has another size or time than when the job began, or is gone; "
                + ("the output was shown before that was seen" if is_shown else "nothing was published")
            )


def pinned(frame: DataFrame) -> Snapshot:
    """The files of a frame as they are now.

    Raises
    ------
    StorageError
        If one is gone, or Spark cannot say which there are.
    """
    if is_connect(frame):
        return Snapshot(_files_by_server(frame))
    arrays = _files_of(frame)
    try:
        return Snapshot(DriverFiles(frame.sparkSession.sparkContext).sizes(arrays))
    except Exception:
        raise StorageError("a file of the input is gone, or cannot be inspected") from None


def _files_by_server(frame: DataFrame) -> dict[str, tuple[int, int]]:
    """The files of a frame of Spark Connect."""
    from dpcore.spark.connect import files_of

    try:
        with unlogged():
            return files_of(frame)
    except Exception as error:
        failed = from_spark(error)
    raise failed from None


def names_of(frame: DataFrame) -> list[str]:
    """The addresses of the files of a frame, in order."""
    return DriverFiles(frame.sparkSession.sparkContext).names(_files_of(frame))


def _files_of(frame: DataFrame) -> list[Any]:
    """Arrays of Java with the files of a frame; Spark computes the rows of small tables in memory to find them, and may fail at a cell."""
    try:
        with unlogged():
            return [frame._jdf.inputFiles(), *_files_behind_caches(frame)]  # noqa: SLF001 - pyspark's own way takes a call for each file
    except Exception as error:
        failed = from_spark(error)
    raise failed from None


def _files_behind_caches(frame: DataFrame) -> list[Any]:
    """The files of tables of which Spark has the rows in its memory, which it does not name: a lost executor reads them again."""
    query: Any = frame._jdf.queryExecution()  # noqa: SLF001 - plans have no public form in Python
    if not any(leaf.nodeName() == CACHED for leaf in each_of(query.withCachedData().collectLeaves())):
        return []
    relations = (leaf.relation() for leaf in each_of(query.analyzed().collectLeaves()) if leaf.nodeName() == "LogicalRelation")
    return [each.location().inputFiles() for each in relations if each.getClass().getSimpleName() == "HadoopFsRelation"]


def keeps_rows(frame: DataFrame) -> bool:
    """Whether each row of a frame is one row of a file: a name would be that of many rows behind a join, or where a row becomes several."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form in Python
    while plan.children().size():
        if plan.children().size() > 1 or plan.nodeName() not in ROW_BY_ROW:
            return False
        plan = plan.children().apply(0)
    return True


def selected(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Select columns by their places: to a session, names that differ by case may be one name."""
    return _placed(frame).select(*_wanted(frame, columns))


def with_names(frame: DataFrame, columns: Sequence[str]) -> DataFrame | None:
    """Select columns, with the file and the position of each row.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        What is read.
    columns : sequence of str
        The columns of the job.

    Returns
    -------
    DataFrame or None
        None if the source does not know where its rows come from, or a row is not one of a file.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    if is_connect(frame) or METADATA in frame.columns or not keeps_rows(frame):  # a server shows no plan
        return None
    names = [functions.expr(text).alias(name) for name, text in NAMES.items()]
    try:
        with unlogged():
            return _placed(frame).select(*_wanted(frame, columns), *names)
    except PySparkException:  # the source has no such column
        return None


def _placed(frame: DataFrame) -> DataFrame:
    return frame.toDF(*(f"_{place}" for place in range(len(frame.columns))))


def _wanted(frame: DataFrame, columns: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions

    return [functions.col(f"_{frame.columns.index(name)}").alias(name) for name in columns]
