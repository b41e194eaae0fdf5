"""A Spark table as the input of a job: the driver knows its types, and only tasks read its rows."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.spark.snapshots import Snapshot, pinned
from dpcore.tables.inputs import Inputs
from dpcore.tables.pieces import FileInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpcore.spark.connect import Declared
    from dpcore.tables.pieces import Cut, Piece
    from dpcore.tables.sources import InputFile

NAME = "Spark DataFrame"
"""What messages and ledgers call a table that has no path."""
ZONE = "UTC"
"""Of instants: Spark has one zone for a whole session, and what a job gives must not depend on it."""
PLAIN = {
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "StringType": pa.string(),
    "VarcharType": pa.string(),
    "CharType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampType": pa.timestamp("us", ZONE),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
    "NullType": pa.null(),
}


@dataclass(frozen=True, slots=True)
class SparkInput(Inputs):
    """A Spark table as the one part of an input.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
        The table.
    info : FileInfo
        Its names and types; without types for text of a CSV.
    snapshot : Snapshot
        The files that it reads, as they are when the job is planned.
    connect : Declared or None
        What is declared of its session, which is one of Spark Connect.
    """

    frame: Any = field(repr=False)
    info: FileInfo
    snapshot: Snapshot = field(repr=False)
    connect: Declared | None = field(default=None, repr=False)

    @classmethod
    def of(cls, frame: Any, name: str = NAME, *, as_text: bool = False, connect: Declared | None = None) -> SparkInput:
        """The input of one job; `as_text` if all columns are text of a format without types."""
        schema = None if as_text else schema_of(frame)
        return cls("arrow", (Path(name),), {}, frame, FileInfo(tuple(frame.columns), schema, None), pinned(frame), connect)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (1,)

    @property
    def origin(self) -> dict[str, Any]:
        """That it is a table of Spark, the number of files that Spark reads for it, or None, and what is declared of its session."""
        declared = {} if self.connect is None else {"connect": self.connect.document()}
        return {"format": "spark", "files": len(self.snapshot.files) or None, **declared}

    def inspect(self, path: InputFile) -> FileInfo:  # noqa: ARG002
        return self.info

    def pieces(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        raise AssertionError(path, list(types), cut)


def schema_of(frame: Any) -> pa.Schema:
    """The types of a Spark table as Arrow has them, whatever the session says about zones and large types."""
    return pa.schema([pa.field(each.name, type_of(each.dataType)) for each in frame.schema.fields])


def type_of(kind: Any) -> pa.DataType:
    """The type as which cells of a type of Spark are read; a struct for one that no query takes."""
    name = type(kind).__name__
    if name == "DecimalType":
        return pa.decimal128(kind.precision, kind.scale)
    return PLAIN.get(name, pa.struct([(f"{kind.simpleString()} of Spark", pa.null())]))
