"""The table that a job's `[input]` names, as Spark reads it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dpcore.batch.jobfile.sections import SUFFIXES
from dpcore.errors import JobError
from dpcore.spark.failures import from_spark
from dpcore.spark.table_input import SparkInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dpcore.batch.jobfile.sections import InputSection

AS_WRITTEN = {"header": "true", "inferSchema": "false", "quote": '"', "escape": '"', "multiLine": "true", "mode": "FAILFAST"}
"""Every cell of a CSV as its text: a record may go over lines, and a quote in text is written twice."""


def table_of(session: SparkSession, section: InputSection) -> SparkInput:
    """Open the table that a job names; no row is read, but the first line of a CSV.

    Raises
    ------
    JobError
        If Spark does not read its format.
    StorageError
        If it is not there, or Spark cannot reach it.
    """
    path = section.path
    found = section.format or SUFFIXES.get(PurePosixPath(path).suffix.lower(), "parquet")
    if found == "arrow":
        raise JobError(f"input.path = {path!r}: Spark reads no Arrow IPC files; write the table as Parquet")
    try:
        if found == "csv":
            return SparkInput.of(session.read.options(**AS_WRITTEN).csv(path), path, as_text=True)
        return SparkInput.of(session.read.parquet(path), path)
    except Exception as error:
        raise from_spark(error) from None
