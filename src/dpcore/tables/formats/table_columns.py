"""The columns of a table whose files may lack some: tables with a log, and datasets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.sources import InputFile


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table, of which a file may lack some.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the table.
    values : dict
        Of each file: the values of the columns of its partition, which all of its rows have.
    """

    schema: pa.Schema
    values: dict[InputFile, dict[str, pa.Scalar]]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The columns of partitions."""
        return {name: self.schema.field(name).type for name in dict.fromkeys(name for each in self.values.values() for name in each)}

    def described(self, path: InputFile, info: FileInfo) -> FileInfo:
        """The file with the columns of the table: its own types, and those of the table for what it lacks."""
        own = info.schema
        if own is None:
            raise AssertionError("such files have types")
        names, partition = own.names, self.values[path]
        times = Counter(names)
        places: dict[str, int] = {}
        for place, name in enumerate(names):
            places.setdefault(name, place)
        there = {name: own.field(places[name]) for name in self.schema.names if name in places and name not in partition}
        # A name that a file has twice is there twice, so that the check of names refuses it.
        again = [field for name, field in there.items() for _ in range(times[name] - 1)]
        schema = pa.schema([*(there.get(each.name, each) for each in self.schema), *again], metadata=own.metadata)
        return replace(info, names=tuple(schema.names), schema=schema)

    def outside(self, path: InputFile, own: Callable[[], FileInfo]) -> set[str]:
        """The columns that are not in a file."""
        return (set(self.schema.names) - set(own().names)) | set(self.values[path])

    def column(self, path: InputFile, name: str, rows: int, dtype: pa.DataType) -> pa.Array:
        """One of those columns for some rows: the value of the partition, or null for one that the file lacks."""
        value = self.values[path].get(name)
        return pa.nulls(rows, dtype) if value is None or not value.is_valid else pa.repeat(value.cast(dtype), rows)
