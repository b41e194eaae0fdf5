"""Whether all Parquet files of a table have the same columns: Spark fills what a file lacks with nulls, and its rows would have no unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.errors import JobError
from dpcore.spark.jvm_files import DriverFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame


def check_columns(frame: DataFrame) -> None:
    """Raise `JobError` if a file of a frame has other columns than another; the driver reads the footer of each."""
    check_same(DriverFiles(frame.sparkSession.sparkContext).columns([frame._jdf.inputFiles()]))  # noqa: SLF001 - one call for all files


def check_same(files: Iterable[tuple[int, tuple[str, ...]]]) -> None:
    """Raise `JobError` if one of the files, each with its number and its columns, has others than the first.

    Messages call files by their number in the order of paths, as a path may hold the values of folders.
    """
    first: frozenset[str] | None = None
    for number, names in files:
        first = frozenset(names) if first is None else first
        if first != frozenset(names):
            name = min(first.symmetric_difference(names))
            has, lacks = ("file 1", f"file {number}") if name in first else (f"file {number}", "file 1")
            raise JobError(
                f"input: {has} of the table, in the order of paths, has a column {name!r} and {lacks} has not, so its rows would have "
                "nulls there; write all files with the same columns, or read them yourself and pass the frame to dpcore.spark"
            )
