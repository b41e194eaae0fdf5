"""The table that `[input]` of a job names, as Spark reads it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dpcore.errors import JobError
from dpcore.spark.failures import from_spark
from dpcore.spark.jvm_files import java_array
from dpcore.spark.parquet_columns import check_columns
from dpcore.spark.settings import is_connect
from dpcore.spark.snapshots import names_of
from dpcore.spark.table_input import SparkInput
from dpcore.spark.watching import impatient
from dpcore.tables.discovery import discover
from dpcore.tables.local_paths import SCHEME
from dpcore.tables.partitions import INTEGERS, partitioned
from dpcore.tables.sections import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from dpcore.spark.connect import Declared
    from dpcore.tables.sections import InputSection

TABLE = "table:"
"""Beginning of an input that the catalogue of the session knows by its name: `table:db.visits`."""
GLOB = re.compile(r"([\\*?\[\]{}])")
"""Characters by which Spark would take the name of a file for a pattern."""
AS_WRITTEN = {
    "header": "true",
    "inferSchema": "false",
    "quote": '"',
    "escape": '"',
    "multiLine": "true",
    "mode": "FAILFAST",
    "enforceSchema": "false",
}
"""Every cell of a CSV as its text: a record may go over lines, and a quote in text is written twice. All files have one header."""
WHOLE_CALENDAR = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
"""Dates and instants before Gregory's calendar as others read them: Spark 3 ends a job at the first in a file of others."""
INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
"""Whether Spark gives the values of folders types of its own, by which 007 and 7 are one."""
LISTED_BY_TASKS = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""Number of folders or files from which on Spark lists them by tasks."""
WHOLE = rf"\A(?:{INTEGERS})\z"
"""The texts of folders that are integers, as Java has patterns."""
ONLY_TABLES = (
    "input: the server of Spark Connect shows neither the log of a table at {path!r} nor whether its files have the same columns, and"
    " reads no file of this machine; name a table that it knows, as table:db.visits, or pass the frame that it reads to "
    "dpcore.spark.release"
)
LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}


def table_of(
    session: SparkSession, section: InputSection, declared: Mapping[str, str] | None = None, connect: Declared | None = None
) -> SparkInput:
    """Open the table that a job names; no row is read, but the first line of a CSV.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session.
    section : InputSection
        `[input]` of a job. A path without a scheme is of this machine, found as on the local engine; `table:NAME` is a table that the
        session knows; anything with a scheme is an address that Spark reads.
    declared : mapping of str to str, optional
        What the job says of columns, "text" or "integer"; see `partitioned`.
    connect : Declared, optional
        What is declared of a session of Spark Connect.

    Returns
    -------
    SparkInput
        The columns of a CSV are text.

    Raises
    ------
    JobError
        If the format is unknown, Spark does not read it, or the files belong to a table with a log.
    StorageError
        If it is not there, or Spark cannot reach it.
    """
    path = section.path
    if is_connect(session) and not path.startswith(TABLE):
        raise JobError(ONLY_TABLES.format(path=path))
    try:
        if path.startswith(TABLE):
            return SparkInput.of(session.table(path.removeprefix(TABLE).strip()), path, connect=connect)
        is_address = SCHEME.match(path) is not None and not path.startswith("file:")
        declared = declared or {}
        kind, frame = _addressed(session, path, section.format, declared) if is_address else _local(session, section, declared)
        return SparkInput.of(frame, path, as_text=kind == "csv")
    except Exception as error:
        raise from_spark(error) from None


def _local(spark: SparkSession, section: InputSection, declared: Mapping[str, str]) -> tuple[str, DataFrame]:
    """Files of this machine, the same as on the local engine: a bare path would be one of the cluster's own file system."""
    name = section.path.removeprefix("file:")
    root = f"/{name.lstrip('/')}" if section.path.startswith("file:") else name
    inputs = discover(root, section.format, declared=declared)
    if inputs.columns is not None:
        base = _escaped(Path(root))
        return inputs.format, _typed(_read(spark, inputs.format, [base], basePath=base), inputs.columns.types)
    return inputs.format, _read(spark, inputs.format, [_escaped(Path(str(path))) for path in inputs.paths])


def _addressed(spark: SparkSession, path: str, given: str | None, declared: Mapping[str, str]) -> tuple[str, DataFrame]:
    """What an address names; `s3://` is `s3a://` to Spark, unless the session has its own."""
    kind = given or SUFFIXES.get(Path(path).suffix.lower(), "parquet")
    conf = dict(spark.sparkContext.getConf().getAll())
    if path.startswith("s3://") and "spark.hadoop.fs.s3.impl" not in conf:
        path = f"s3a://{path.removeprefix('s3://')}"
    if kind in set(SUFFIXES.values()):
        _check_no_log(spark, path)
    frame = _read(spark, kind, [path])
    return kind, _typed(frame, folder_types(path, names_of(frame), declared))


def _read(spark: SparkSession, kind: str, paths: Sequence[str], **options: Any) -> DataFrame:
    if kind == "arrow":
        raise JobError("input: Spark reads no Arrow files; write the table as Parquet, or run the job on the local engine")
    if kind == "csv":
        options |= AS_WRITTEN
    elif kind == "parquet":
        options |= WHOLE_CALENDAR | {"mergeSchema": True}  # without it the columns are those of one of the files
    with impatient(spark.sparkContext):  # executors read what the files say of their columns
        with _opening(spark, is_here=paths[0].startswith("file:")):
            reader = spark.read.options(**options).format(kind)
            # What `load` does, which takes a call of Java for each path.
            frame: DataFrame = reader._df(reader._jreader.load(java_array(spark.sparkContext, paths)))  # noqa: SLF001
        if kind == "parquet":
            check_columns(frame)
    return frame


@contextlib.contextmanager
def _opening(spark: SparkSession, *, is_here: bool) -> Iterator[None]:
    """Open a table whose folders' values stay as they are written; settings go back to what they were.

    Files of this machine are listed by the driver: Spark otherwise starts a task for each, which takes longer than to look at the file.
    """
    wanted = {INFERENCE: "false"} | ({LISTED_BY_TASKS: str(2**31 - 1)} if is_here else {})
    before = {name: str(spark.conf.get(name)) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _typed(frame: DataFrame, types: Mapping[str, pa.DataType]) -> DataFrame:
    """The columns that folders hold, with the types that they have on the local engine, under which no two values become one."""
    if not types:
        return frame
    from pyspark.sql import functions as F  # noqa: N812

    columns = []
    for name in frame.columns:
        quoted = f"`{name.replace('`', '``')}`"
        column, kind = F.col(quoted), types.get(name)
        if kind == pa.int64():  # a folder that is no integer among declared ones is missing, and ends nothing
            column = F.when(column.rlike(WHOLE), F.expr(f"try_cast({quoted} AS BIGINT)"))
        elif kind == pa.date32():
            column = column.cast("date")
        columns.append(column.alias(name))
    return frame.select(*columns)


def folder_types(path: str, files: Sequence[str], declared: Mapping[str, str]) -> dict[str, pa.DataType]:
    """The columns that the folders below an address hold, with their types.

    Parameters
    ----------
    path : str
        What a job names; a pattern ends where Spark begins to look for folders.
    files : sequence of str
        The addresses of the files, as Spark lists them.
    declared : mapping of str to str
        What a job says of columns.

    Raises
    ------
    JobError
        If some files have other columns than others.
    """
    depth = len(urlsplit(path).path.strip("/").split("/")) if urlsplit(path).path.strip("/") else 0
    below = [[unquote(part) for part in urlsplit(name).path.strip("/").split("/")[depth:]] for name in files]
    _, columns = partitioned([(Path(*parts), tuple(parts[:-1]), path) for parts in below if parts], declared)
    return {} if columns is None else columns.types


def _check_no_log(spark: SparkSession, path: str) -> None:
    """Raise `JobError` for files of a table with a log: reading all of them would bring removed rows back."""
    if GLOB.search(path):
        return
    context = spark.sparkContext
    jvm: Any = context._jvm  # noqa: SLF001 - Spark has no public way to look at a file system
    for folder, kind in LOGS.items():
        place = jvm.org.apache.hadoop.fs.Path(f"{path.rstrip('/')}/{folder}")
        if place.getFileSystem(context._jsc.hadoopConfiguration()).exists(place):  # noqa: SLF001
            raise JobError(
                f"input.path = {path!r} is a table of {kind}, whose log says which files and rows still count: name it as table:NAME in a "
                "session that has the catalogue, or pass the frame that Spark reads to dpcore.spark"
            )


def _escaped(path: Path) -> str:
    """The address of a file of this machine, as Spark reads it."""
    return "file:" + GLOB.sub(r"\\\1", str(path.absolute()))
