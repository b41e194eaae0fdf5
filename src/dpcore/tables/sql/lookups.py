"""Public tables that are joined to the rows of an input by a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError, StorageError
from dpcore.tables.discovery import discover_one
from dpcore.tables.near_names import suggestion
from dpcore.tables.pieces import Cut
from dpcore.tables.sql.arrow_values import TEXTS, database_type, readable
from dpcore.tables.types.whole_arrays import one_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.tables.inputs import Inputs

MOST_ROWS = 1 << 20
"""Rows of a public table: all of it is in memory."""
KEYS = ("BIGINT", "UBIGINT", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN")
"""Types that are compared by equality."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A public table, ready to be joined.

    Attributes
    ----------
    key : str
        The column of the input, and of the public table, that says which of its rows belongs to a row.
    kind : str
        Type of the key, as in an expression.
    keys : pyarrow.Array
        The keys, each once.
    columns : dict
        What is joined, in the order of the keys.
    """

    key: str
    kind: str
    keys: pa.Array
    columns: dict[str, pa.Array]

    @property
    def row_bytes(self) -> int:
        """The most bytes of text that one row gets."""
        texts = (column for column in self.columns.values() if column.type in TEXTS)
        return sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in texts)

    def of(self, cells: pa.Array) -> dict[str, pa.Array]:
        """The columns for rows with these keys; NULL where the public table has no such key, or there is none.

        A row stays one row: each has one key, and each key one row.
        """
        places = self._places(readable(cells, self.kind))
        return {name: column.take(places) for name, column in self.columns.items()}

    def _places(self, keys: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(keys.type):
            return self._places(keys.dictionary).take(keys.indices)
        keys = keys.cast(self.keys.type) if keys.type != self.keys.type else keys
        return pc.index_in(keys, value_set=self.keys, skip_nulls=True)


def look_up(place: str, path: str, key: str, columns: list[str], kinds: Mapping[str, str | None], inputs: Inputs | None = None) -> LookUp:
    """Read a public table, and check that it can be joined.

    Parameters
    ----------
    place : str
        The section of the job, for messages.
    path : str
        A file.
    key : str
        A column of the public table and of the input.
    columns : list of str
        The columns to join.
    kinds : mapping
        Type of each column of the input, as `database_type` gives it.
    inputs : Inputs, optional
        The public table, if it is no file.

    Raises
    ------
    JobError
        If a column is missing or has no usable type, the keys are not unique, or there are too many of them.
    StorageError
        If it cannot be read.
    """
    if kinds.get(key) not in KEYS:
        if key not in kinds:
            raise JobError(f"{place}.key = {key!r} is not a column of the input.{suggestion(key, kinds)}")
        problem = "has a type in the input that cannot be a key"
        raise JobError(f"{place}.key = {key!r} {problem}; a key is an integer, a text, a date, a time or a boolean")
    kind = kinds[key] or ""
    table = _read(place, path, key, kind, inputs)
    for name in (key, *columns):
        if name not in table:
            raise JobError(f"{place}: {path} has no column {name!r}; it has {', '.join(list(table)[:30])}")
        if database_type(table[name].type) is None:
            raise JobError(f"{place}: column {name!r} of {path} has type {table[name].type}, which cannot be looked up")
    found = database_type(table[key].type)
    if found != kind:
        raise JobError(
            f"{place}.key = {key!r} is {kind} in the input and {found} in {path}; write the public table with the type of the input"
        )
    keys = readable(table[key], kind)
    if keys.null_count:
        raise JobError(f"{place}: column {key!r} of {path} has {keys.null_count} rows without a key; remove them")
    repeated = len(keys) - len(keys.unique())
    if repeated:
        raise JobError(
            f"{place}: {repeated} keys of column {key!r} of {path} are repeated; each must be there once, so that a row stays one row"
        )
    return LookUp(key, kind, keys, {name: readable(table[name], database_type(table[name].type) or "") for name in columns})


def _read(place: str, path: str, key: str, kind: str, inputs: Inputs | None) -> dict[str, pa.Array]:
    inputs = discover_one(path, f"{place}.path") if inputs is None else inputs
    table = _csv(inputs, key, kind) if inputs.format == "csv" else _typed(inputs)
    if table.num_rows > MOST_ROWS:
        raise JobError(f"{place}: {path} has {table.num_rows} rows; a public table may have {MOST_ROWS}")
    return {name: one_array(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _typed(inputs: Inputs) -> pa.Table:
    info = inputs.inspect(inputs.paths[0])
    types = info.types or {}
    pieces = [piece.batch for piece in inputs.pieces(inputs.paths[0], types, Cut(MOST_ROWS))] if types else []
    return pa.Table.from_batches(pieces, None if pieces else info.schema)


def _csv(inputs: Inputs, key: str, kind: str) -> pa.Table:
    """A CSV with the types that its cells have: it is public. Keys are text if they are text in the input."""
    options = pc_csv.ConvertOptions(column_types={key: pa.string()} if kind == "VARCHAR" else {}, strings_can_be_null=True)
    try:
        return pc_csv.read_csv(str(inputs.paths[0]), convert_options=options)
    except (OSError, pa.ArrowException):
        raise StorageError(f"{inputs.paths[0]}: cannot be read as CSV") from None
