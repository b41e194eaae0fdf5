"""Values of expressions for the rows of a batch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.errors import StorageError
from dpcore.tables.sql.arrow_values import computed, readable
from dpcore.tables.sql.database import connected
from dpcore.tables.sql.installed import duckdb
from dpcore.tables.sql.program import ROWS
from dpcore.tables.types.whole_arrays import one_array

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import numpy.typing as npt

    from dpcore.tables.sql.program import Program


OF_VALUES: tuple[type[Exception], ...] = (duckdb.DataError, duckdb.NotSupportedError, duckdb.ProgrammingError)
"""What the database raises about values; all else is about the machine."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a program gives for some rows.

    Attributes
    ----------
    columns : dict of str to pyarrow.Array
        Derived columns.
    conditions : dict of str to ndarray of bool
        Where conditions are true: neither false nor NULL.
    """

    columns: dict[str, pa.Array]
    conditions: dict[str, npt.NDArray[np.bool_]]


class _Cells:
    """The rows that a connection reads as the table `ROWS`, which it knows by this object: other rows need no other table."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_schema__(self) -> Any:
        return self.batch.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch]).__arrow_c_stream__(requested_schema)


class _Connection:
    """A connection of one thread."""

    def __init__(self) -> None:
        self.cursor = connected()
        self._cells: _Cells | None = None

    def see(self, batch: pa.RecordBatch) -> None:
        """Make some rows the table."""
        if self._cells is not None and self._cells.batch.schema == batch.schema:
            self._cells.batch = batch
            return
        if self._cells is not None:
            self.cursor.unregister(ROWS)
        self._cells = _Cells(batch)
        self.cursor.register(ROWS, self._cells)

    def close(self) -> None:
        if self._cells is not None:
            self.cursor.unregister(ROWS)
        self.cursor.close()

    def forget(self) -> None:
        """Keep no rows."""
        if self._cells is not None:
            self._cells.batch = self._cells.batch.slice(0, 0)


class Evaluation:
    """Connections that run a program, for as many threads as call it. They are closed at the end of a `with` block.

    Parameters
    ----------
    program : Program
        What to compute.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._own = threading.local()
        self._connections: list[_Connection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._own = threading.local()
        while self._connections:
            self._connections.pop().close()

    def of(self, batch: pa.RecordBatch) -> Values:
        """What the program gives for each row.

        Raises
        ------
        StorageError
            If there is no memory. No value can raise.
        """
        program = self._program
        columns = {place: readable(batch.column(name), kind) for name, (place, kind) in program.reads.items()}
        # A table without columns has no rows.
        cells = pa.RecordBatch.from_arrays(list(columns.values()), list(columns)) if columns else _as_many_as(batch)
        try:
            connection = self._connection()
            found = self._found(connection, cells)
            connection.forget()
        except duckdb.Error:
            raise StorageError("the database could not evaluate the expressions of the job; there may be too little memory") from None
        return found

    def _found(self, connection: _Connection, cells: pa.RecordBatch) -> Values:
        """The values of some rows. A row at which the database raises, which no known value does, has NULL in all of them."""
        rows = len(cells)
        connection.see(cells)
        try:
            return self._truths(connection, rows) if not self._program.types else self._columns(connection, rows)
        except OF_VALUES:
            if not rows:
                raise
        if rows == 1:
            return _nothing_of(self._found(connection, cells.slice(0, 0)))
        half = rows // 2
        return _joined(self._found(connection, cells.slice(0, half)), self._found(connection, cells.slice(half)))

    def _truths(self, connection: _Connection, rows: int) -> Values:
        """The values of a program of conditions."""
        found = list(connection.cursor.execute(self._program.query).fetchnumpy().values())
        truths = zip(self._program.conditions, found, strict=True)
        return Values({}, {key: _checked(np.ma.filled(each, False), rows) for key, each in truths})  # noqa: FBT003

    def _columns(self, connection: _Connection, rows: int) -> Values:
        program = self._program
        found = connection.cursor.sql(program.query).to_arrow_table(max(rows, 1))
        values = [one_array(column) for column in found.columns]
        kinds, count = program.types, len(program.types)
        conditions = {key: _true(each, rows) for key, each in zip(program.conditions, values[count:], strict=True)}
        derived = zip(kinds, values[:count], strict=True)
        return Values({key: computed(each, kinds[key]) for key, each in derived}, conditions)

    def _connection(self) -> _Connection:
        if not hasattr(self._own, "connection"):
            self._own.connection = _Connection()
            self._connections.append(self._own.connection)
        connection: _Connection = self._own.connection
        return connection


def _nothing_of(empty: Values) -> Values:
    """One row of NULL, with the types of the values of no row."""
    return Values(
        {name: pa.nulls(1, each.type) for name, each in empty.columns.items()}, {key: np.zeros(1, bool) for key in empty.conditions}
    )


def _joined(first: Values, second: Values) -> Values:
    return Values(
        {name: pa.concat_arrays([column, second.columns[name]]) for name, column in first.columns.items()},
        {key: np.concatenate([truths, second.conditions[key]]) for key, truths in first.conditions.items()},
    )


def _true(values: pa.Array, rows: int) -> npt.NDArray[np.bool_]:
    filled = pc.fill_null(values, False) if values.null_count else values  # noqa: FBT003
    return _checked(filled.to_numpy(zero_copy_only=False), rows)


def _checked(values: npt.NDArray[np.bool_], rows: int) -> npt.NDArray[np.bool_]:
    if values.shape != (rows,) or values.dtype != np.bool_:
        raise AssertionError(f"{values.shape} values for {rows} rows")
    return values


def _as_many_as(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(len(batch))], ["nothing"])
