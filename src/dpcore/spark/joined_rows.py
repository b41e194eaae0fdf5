"""Tables that are joined on Spark: rows of all of them, and those of a unit in one partition, where its task joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError
from dpcore.spark.settings import functions_of, is_connect
from dpcore.spark.table_input import SparkInput
from dpcore.tables.pieces import FileInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from dpcore.query.plan import ReleasePlan
    from dpcore.tables.units.unit_joins import UnitJoin

MEETING, TABLE = "meeting", "table"
"""Columns beside those of the tables, whose names are numbers: where the rows of a unit meet, and which table a row is of."""


def joined_infos(plan: ReleasePlan) -> tuple[FileInfo, ...]:
    """The columns that are read of each table that is joined."""
    return tuple(_info_of(join) for join in plan.joins)


def joined_tables(plan: ReleasePlan) -> list[SparkInput]:
    """The tables that are joined."""
    tables = [join.source for join in plan.joins]
    if not all(isinstance(table, SparkInput) for table in tables):
        raise AssertionError([type(table) for table in tables])
    return [table for table in tables if isinstance(table, SparkInput)]


def check_is_one_session(session: object, tables: Sequence[SparkInput]) -> None:
    """Raise `ParameterError` if a table that is joined is one of another server of Spark Connect, or of another driver."""
    for table in tables:
        other = table.frame.sparkSession
        # Sessions of one driver share its tables; those of a server do not.
        if is_connect(other) != is_connect(session) or (is_connect(other) and other.session_id != getattr(session, "session_id", None)):
            raise ParameterError("both tables must be of one session, because one of Spark Connect reads no frame of another")


def _info_of(join: UnitJoin) -> FileInfo:
    info, needed = join.source.inspect(join.source.paths[0]), join.recipe.read_types
    names = tuple(name for name in info.names if name in needed)
    return FileInfo(names, None if info.types is None else pa.schema([(name, info.types[name]) for name in names]), None)


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows of a table and of those that are joined to it.

    Attributes
    ----------
    joins : sequence of UnitJoin
        The other tables.
    infos : sequence of FileInfo
        Their columns.
    salt : int
        Of the hash by which units meet: nobody can choose names that fall into one partition.
    """

    joins: Sequence[UnitJoin]
    infos: Sequence[FileInfo]
    salt: int

    def beside(self, frame: DataFrame, unit: str, columns: Sequence[str], unnamed: Column) -> DataFrame:
        """Rows of all tables, each with the place where it meets the others of its unit.

        Parameters
        ----------
        frame : pyspark.sql.DataFrame
            The table.
        unit : str
            Its column of units.
        columns : sequence of str
            The columns that tasks get.
        unnamed : pyspark.sql.Column
            Where a row goes that names no unit.
        """
        F = functions_of(frame)
        units = F.col(f"`{unit}`")
        where = F.when(units.isNull(), unnamed).otherwise(self._place(F, units, self.joins[0].unit_type))
        found = frame.select(*(f"`{each}`" for each in columns), where.alias(MEETING), F.lit(0).alias(TABLE))
        for number, (join, info) in enumerate(zip(self.joins, self.infos, strict=True), 1):
            source: Any = join.source
            every = source.info.names
            whole = source.frame.toDF(*map(str, range(len(every))))
            own = F.col(f"`{every.index(join.recipe.unit)}`")
            cells = (F.col(f"`{every.index(name)}`").alias(f"{number}_{place}") for place, name in enumerate(info.names))
            rows = whole.where(own.isNotNull()).select(
                *cells, self._place(F, own, join.unit_type).alias(MEETING), F.lit(number).alias(TABLE)
            )
            found = found.unionByName(rows, allowMissingColumns=True)
        return found

    def order(self, columns: Sequence[str]) -> list[str]:
        """The columns of tasks, in their order."""
        others = [f"{number}_{place}" for number, info in enumerate(self.infos, 1) for place in range(len(info.names))]
        return [*(f"`{name}`" for name in (*columns, *others)), TABLE]

    def _place(self, functions: Any, units: Column, dtype: pa.DataType) -> Column:
        """Where rows of a unit meet: of integers of any width, and of texts, the same."""
        kind = "bigint" if pa.types.is_integer(dtype) else None if pa.types.is_temporal(dtype) else "string"
        place: Column = functions.xxhash64(functions.lit(self.salt), units if kind is None else units.cast(kind))
        return place
