"""Whether all Parquet files of a table have the same columns: Spark fills what a file lacks with nulls, and its rows would have no unit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

AT_ONCE = 16
"""Footers that are read at a time; most of the time is the store's."""


def check_columns(frame: DataFrame) -> None:
    """Raise `JobError` if a file of a frame has other columns than another; the driver reads the footer of each."""
    context = frame.sparkSession.sparkContext
    jvm: Any = context._jvm  # noqa: SLF001 - the columns of one file have no public name in Python
    conf = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def columns_of(name: str) -> tuple[str, ...]:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(name))
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(
            jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, conf)
        )
        try:
            schema = reader.getFileMetaData().getSchema()
            said = schema.toString()
            if said not in known:  # a call for each column, so not for each file
                known[said] = tuple(schema.getFieldName(place) for place in range(schema.getFieldCount()))
            return known[said]
        finally:
            reader.close()

    known: dict[str, tuple[str, ...]] = {}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        check_same(threads.map(columns_of, sorted(frame.inputFiles())))


def check_same(files: Iterable[tuple[str, ...]]) -> None:
    """Raise `JobError` if one of the files, each with its columns, has others than the first.

    Messages call files by their number in the order of paths, as a path may hold the values of folders.
    """
    first: frozenset[str] | None = None
    for number, names in enumerate(files, 1):
        first = frozenset(names) if first is None else first
        if first != frozenset(names):
            name = min(first.symmetric_difference(names))
            has, lacks = ("file 1", f"file {number}") if name in first else (f"file {number}", "file 1")
            raise JobError(
                f"input: {has} of the table, in the order of paths, has a column {name!r} and {lacks} has not, so its rows would have "
                "nulls there; write all files with the same columns, or read them yourself and pass the frame to dpcore.spark"
            )
