"""Frames that are Arrow already, or become it through its C stream: pyarrow, polars, DuckDB, and everything with `__arrow_c_stream__`."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.tables.pieces import FileInfo
from dpcore.tables.types.whole_arrays import texts_of_views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcore.frames.source import FrameSource

VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types whose values lie in several buffers, and those as which they are read."""


def no_type() -> pa.DataType:
    """The type of a column that Arrow has no type for, which no query takes."""
    return pa.struct([("no type of Arrow", pa.null())])


def read_type(dtype: pa.DataType) -> pa.DataType:
    """The type as which a column of this type is read."""
    if pa.types.is_dictionary(dtype) and dtype.value_type in VIEWS:
        return pa.dictionary(dtype.index_type, VIEWS[dtype.value_type], ordered=dtype.ordered)
    return VIEWS.get(dtype, dtype)


def read_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with those types, without metadata."""
    return pa.schema([(field.name, read_type(field.type)) for field in schema])


def read_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with the types of `read_schema`; only what has another type is copied."""
    return pa.RecordBatch.from_arrays(list(map(read_array, batch.columns)), schema=read_schema(batch.schema))


def read_array(cells: pa.Array) -> pa.Array:
    """The same cells with the type of `read_type`."""
    kind = read_type(cells.type)
    if cells.type == kind:
        return cells
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(cells.indices, read_array(cells.dictionary), ordered=kind.ordered, safe=False)
    cells.view(pa.binary_view()).validate(full=True)  # before it is followed to where it points
    return texts_of_views(cells) if kind == pa.large_string() else cells.cast(kind)


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """A table in memory whose buffers are read as they are.

    Attributes
    ----------
    table : pyarrow.Table
        The table.
    name : str
        Of the frame that it comes from, for messages.
    native : {"arrow", "pandas", "polars", "duckdb"}
        The library in whose frames results come back.
    is_snapshot : bool
        Whether nobody else can change its rows.
    """

    table: pa.Table = field(repr=False)
    name: str
    native: str = "arrow"
    is_snapshot: bool = False

    def info(self) -> FileInfo:
        """The schema; no row is read."""
        return FileInfo(tuple(self.table.schema.names), read_schema(self.table.schema), self.table.num_rows)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        for batch in self.table.select(list(names)).to_batches(max_chunksize=rows):
            yield read_batch(batch)

    def evaluated(self, names: Sequence[str]) -> FrameSource:  # noqa: ARG002
        """Return self; the rows lie in memory."""
        return self


@dataclass(frozen=True, slots=True)
class PolarsSource:
    """A DataFrame of polars: its columns are immutable, and this is a snapshot of it.

    Attributes
    ----------
    frame : polars.DataFrame
        The frame.
    name : str
        For messages.
    """

    frame: Any = field(repr=False)
    name: str = "polars DataFrame"
    native: str = "polars"
    is_snapshot: bool = True

    def info(self) -> FileInfo:
        """The schema; no row is read."""
        return FileInfo(tuple(self.frame.columns), schema_of_polars(self.frame.clear()), self.frame.height)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        yield from ArrowSource(pa.table(self.frame.select(by_names(names))), self.name).batches(names, rows)

    def evaluated(self, names: Sequence[str]) -> FrameSource:  # noqa: ARG002
        """Return self; the rows lie in memory."""
        return self


def schema_of_polars(empty: Any) -> pa.Schema:
    """The types of a frame without rows. Columns of objects, of which polars gives the addresses, are of the type of no query."""
    try:
        has_objects = any(map(_is_of_objects, empty.dtypes))
        return read_schema(pa.table(empty).schema) if not has_objects else _type_by_type(empty)
    except Exception:  # polars has no common base of what it raises
        return _type_by_type(empty)


def by_names(names: Sequence[str]) -> list[str]:
    """Escape names that polars would take for patterns, such as "*"."""
    return [f"^{re.escape(name)}$" if name == "*" or (name.startswith("^") and name.endswith("$")) else name for name in names]


def _type_by_type(empty: Any) -> pa.Schema:
    return pa.schema([(name, _type_of_polars(empty.select(by_names([name])))) for name in empty.columns])


def _type_of_polars(empty: Any) -> pa.DataType:
    try:
        return no_type() if _is_of_objects(empty.dtypes[0]) else read_type(pa.table(empty).schema.types[0])
    except Exception:
        return no_type()


def _is_of_objects(dtype: Any) -> bool:
    import polars as pl

    return bool(dtype == pl.Object)


@dataclass(frozen=True, slots=True)
class LazySource:
    """A LazyFrame of polars. The columns that a job reads are collected once for each job, after it was charged.

    Attributes
    ----------
    frame : polars.LazyFrame
        The frame.
    name : str
        For messages.
    """

    frame: Any = field(repr=False)
    name: str = "polars LazyFrame"
    native: str = "polars"
    is_snapshot: bool = True

    def info(self) -> FileInfo:
        """The schema, which polars infers without reading a row."""
        import polars as pl

        schema = self.frame.collect_schema()
        return FileInfo(tuple(schema.names()), schema_of_polars(pl.DataFrame(schema=schema)), None)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        yield from self.evaluated(names).batches(names, rows)

    def evaluated(self, names: Sequence[str]) -> FrameSource:
        """These columns in memory."""
        return PolarsSource(self.frame.select(by_names(names)).collect(), self.name)


@dataclass(frozen=True, slots=True)
class RelationSource:
    """A relation of DuckDB. Where a job passes over it twice, the columns that it reads are held in memory.

    Attributes
    ----------
    relation : duckdb.DuckDBPyRelation
        The relation.
    name : str
        For messages.
    """

    relation: Any = field(repr=False)
    name: str = "DuckDB relation"
    native: str = "duckdb"
    is_snapshot: bool = True

    def info(self) -> FileInfo:
        """The schema; DuckDB reads no row for it."""
        from dpcore._relations import table_of

        schema = table_of(self.relation.limit(0)).schema
        return FileInfo(tuple(schema.names), read_schema(schema), None)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        from dpcore._relations import chosen

        for batch in _reader_of(chosen(self.relation, names), rows):
            yield read_batch(batch)

    def evaluated(self, names: Sequence[str]) -> FrameSource:
        """These columns in memory."""
        from dpcore._relations import chosen, table_of

        return ArrowSource(table_of(chosen(self.relation, names)), self.name, "duckdb", is_snapshot=True)


def _reader_of(relation: Any, rows: int) -> pa.RecordBatchReader:
    return (getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch)(rows)


@dataclass(frozen=True, slots=True)
class IbisSource:
    """A table expression of Ibis. The columns that a job reads are evaluated once for each job, after it was charged.

    Attributes
    ----------
    table : ibis.Table
        The expression.
    name : str
        For messages.
    """

    table: Any = field(repr=False)
    name: str = "Ibis table"
    native: str = "arrow"
    is_snapshot: bool = True

    def info(self) -> FileInfo:
        """The schema, which Ibis knows without reading a row."""
        return FileInfo(tuple(self.table.columns), read_schema(self.table.schema().to_pyarrow()), None)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        yield from self.evaluated(names).batches(names, rows)

    def evaluated(self, names: Sequence[str]) -> FrameSource:
        """These columns in memory, through Ibis' Arrow stream."""
        stream = pa.RecordBatchReader.from_stream(self.table.select(list(names)))
        return ArrowSource(stream.read_all(), self.name, is_snapshot=True)
