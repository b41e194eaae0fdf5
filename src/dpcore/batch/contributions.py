"""The bound on how many rows one privacy unit owns, checked before anything is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from dpcore.batch.errors import StorageError
from dpcore.batch.pieces import Cut
from dpcore.errors import DataError, DpcoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dpcore.batch.plan import Plan

MEMORY = "256MB"
"""What the count of rows per unit may hold before it spills to disk."""
PIECE_ROWS = 1 << 16
FIRST_ROW_OVER = "select min(first) from (select min(row) as first from units group by unit having count(*) > {limit})"


@dataclass(slots=True)
class _Reading:
    """State of one pass over the unit column, kept outside the database: its own messages may quote values."""

    starts: list[int]
    failure: BaseException | None = None


def check_contributions(plan: Plan, spill: Path, threads: int) -> None:
    """Read the unit column once and refuse a table in which some unit has more rows than declared.

    `privatize` keeps every row, so it cannot drop the excess; it charges ε for the declared number of rows instead, and that
    number must hold. Whether the table is refused depends on the data: it is a check of a declaration, not a release.

    Parameters
    ----------
    plan : Plan
        Names the unit; with unit "row" nothing is read.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that count.

    Raises
    ------
    DataError
        If some unit has more rows, or a row has no unit; names the row, never the unit.
    """
    privacy = plan.job.privacy
    if privacy.unit == "row":
        return
    reading = _Reading([])
    row = _first_row_over(plan, reading, privacy.rows_per_unit, spill, threads)
    if row is not None:
        raise DataError(
            f"{_place(plan, reading, row)}: the {privacy.unit!r} of this row has more than "
            f"max_rows_per_unit = {privacy.rows_per_unit} rows; nothing was written"
        )


def _first_row_over(plan: Plan, reading: _Reading, limit: int, spill: Path, threads: int) -> int | None:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "temp_directory": str(spill),
        "threads": threads,
        "preserve_insertion_order": False,
    }
    found: tuple[int | None]
    with duckdb.connect(":memory:", config=settings) as database, ThreadPoolExecutor(1) as worker:
        schema = pa.schema([("unit", plan.unit_type), ("row", pa.int64())])
        database.register("units", pa.RecordBatchReader.from_batches(schema, _units(plan, reading, schema)))
        counting = worker.submit(lambda: database.execute(FIRST_ROW_OVER.format(limit=limit)).fetchall())
        try:
            (found,) = counting.result()
        except duckdb.Error:
            if reading.failure is not None:
                raise reading.failure from None
            raise StorageError(f"counting rows per {plan.job.privacy.unit!r} failed; it may need more room in {spill.parent}") from None
        except BaseException:
            database.interrupt()
            raise
    return found[0]


def _units(plan: Plan, reading: _Reading, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The unit column beside the position of each row."""
    name, done = plan.job.privacy.unit, 0
    try:
        for path in plan.inputs.paths:
            reading.starts.append(done)
            types = {name: plan.unit_type}
            rows = 0
            for piece in plan.inputs.reader.pieces(path, types, Cut(PIECE_ROWS, use_threads=False)):
                units = piece.batch.column(name)
                if units.null_count:
                    missing = piece.row + units.is_null().index(pa.scalar(value=True)).as_py()
                    raise DataError(f"{path}: row {missing} (counted from 0), column {name!r}: null, so the row belongs to no unit")
                positions = pa.array(np.arange(done + piece.row, done + piece.row + len(units)))
                yield pa.RecordBatch.from_arrays([units.cast(plan.unit_type), positions], schema=schema)
                rows = piece.row + len(units)
            done += rows
    except DpcoreError as error:
        reading.failure = error
        raise


def _place(plan: Plan, reading: _Reading, row: int) -> str:
    index = max(index for index, start in enumerate(reading.starts) if start <= row)
    return f"{plan.inputs.paths[index]}: row {row - reading.starts[index]} (counted from 0)"
