"""Values of expressions for the rows of a batch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from dpcore.batch.expressions.arrow_values import readable
from dpcore.batch.expressions.database import opened
from dpcore.batch.expressions.program import ROWS
from dpcore.errors import StorageError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from dpcore.batch.expressions.program import Program

CALENDAR = ("DATE", "TIMESTAMP")
"""Types whose values may have left the calendar on the way."""


class Evaluation:
    """A database that runs a program, for as many threads as call it. It is closed at the end of a `with` block.

    Parameters
    ----------
    program : Program
        What to compute.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._database = opened()
        self._own = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._own = threading.local()
        self._database.close()

    def of(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """What the program gives for each row: derived columns, and conditions as 1 and 0.

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
            cursor = self._cursor()
            cursor.register(ROWS, cells)
            found = cursor.sql(program.query).to_arrow_table(max(len(batch), 1))
            cursor.unregister(ROWS)
        except duckdb.Error:
            raise StorageError("the database could not evaluate the expressions of the job; there may be too little memory") from None
        if found.num_rows != len(batch):
            raise AssertionError(f"{found.num_rows} values for {len(batch)} rows")
        values = {key: _whole(column) for key, column in zip(program.gives, found.columns, strict=True)}
        return {key: readable(each, program.types[key]) if program.types.get(key) in CALENDAR else each for key, each in values.items()}

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        if not hasattr(self._own, "cursor"):
            self._own.cursor = self._database.cursor()
        cursor: duckdb.DuckDBPyConnection = self._own.cursor
        return cursor


def _as_many_as(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(len(batch))], ["nothing"])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], column.type)
