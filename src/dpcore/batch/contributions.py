"""The bound on how many rows one privacy unit owns: checked before anything is written, or kept by dropping rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.batch.csv_input import NULLS
from dpcore.batch.errors import StorageError
from dpcore.batch.pieces import Cut
from dpcore.batch.pipeline import POLL_SECONDS
from dpcore.batch.rows import Rows
from dpcore.errors import DataError, DpcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from dpcore.batch.plan import Plan
    from dpcore.batch.release_plan import ReleasePlan

Answer = TypeVar("Answer")
MEMORY = "256MB"
"""What the count of rows per unit may hold before it spills to disk."""
COUNTING_THREADS = 2
"""Each thread of the count needs a share of `MEMORY`; with more of them the shares are too small to spill from."""
PIECE_ROWS = 1 << 16

# Units are counted by a 64-bit hash first: states of a fixed, small size spill well. Units that share a hash are counted together,
# so no hash over the limit means no unit over the limit; otherwise the few rows behind the first such hashes are counted exactly.
COUNT_HASHES = """
create temp table suspects as
select h from (select min(row) as first, h from (select hash(unit) as h, row from units) group by h having count(*) > {limit})
order by first limit 1000
"""
FIRST_ROW_OVER = """
select min(first) from (
    select min(row) as first from units where hash(unit) in (select h from suspects) group by unit having count(*) > {limit}
)
"""


@dataclass(slots=True)
class Reading:
    """State of a pass over the unit column, kept outside the database: its own messages may quote values."""

    starts: list[int]
    rows: int = 0
    done: float = 0.0
    failure: BaseException | None = None

    def rewind(self) -> None:
        """Begin another pass."""
        self.starts.clear()
        self.rows, self.done = 0, 0.0


def check_contributions(plan: Plan, spill: Path, threads: int, update: Callable[[int, float], None]) -> None:
    """Read the unit column once and refuse a table in which some unit has more rows than declared.

    `privatize` keeps every row, so it cannot drop the excess; it charges ε for the declared number of rows instead, and that
    number must hold. Whether the table is refused depends on the data: it is a check of a declaration, not a release.

    Parameters
    ----------
    plan : Plan
        Names the unit.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that count.
    update : callable
        Told the rows read and the fraction of the input they are, on the calling thread.

    Raises
    ------
    DataError
        If some unit has more rows, or a row has no unit; names the row, never the unit.
    """
    privacy = plan.job.privacy
    reading = Reading([])
    row = in_database(plan, reading, spill, threads, update, _first_row_over)
    if row is not None:
        raise DataError(
            f"{_place(plan, reading, row)}: the {privacy.unit!r} of this row has more than "
            f"max_rows_per_unit = {privacy.rows_per_unit} rows; nothing was written"
        )


def in_database(
    plan: Plan | ReleasePlan,
    reading: Reading,
    spill: Path,
    threads: int,
    update: Callable[[int, float], None],
    work: Callable[[duckdb.DuckDBPyConnection, Any, Reading], Answer],
) -> Answer:
    """Let a database that spills into a folder do some work on a thread of its own.

    Parameters
    ----------
    plan : Plan or ReleasePlan
        Passed on to `work`.
    reading : Reading
        Passed on to `work`.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that count.
    update : callable
        Told the rows read and the fraction of the input they are, on the calling thread.
    work : callable
        What to do with the database.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "temp_directory": str(spill),
        "threads": min(threads, COUNTING_THREADS),
        "preserve_insertion_order": False,
    }
    # It will hold the units' own names, and lies where results are published. The database would make it for everybody to read.
    spill.mkdir(mode=0o700, exist_ok=True)
    with duckdb.connect(":memory:", config=settings) as database, ThreadPoolExecutor(1) as worker:
        # Its own bar would be drawn on standard output.
        database.execute("set enable_progress_bar = false").fetchall()
        counting = worker.submit(work, database, plan, reading)
        try:
            while not wait([counting], POLL_SECONDS).done:
                update(reading.rows, reading.done)
            return counting.result()
        except duckdb.Error:
            if reading.failure is not None:
                raise reading.failure from None
            raise StorageError(f"counting rows per {plan.job.privacy.unit!r} failed; it may need more room in {spill.parent}") from None
        except BaseException:
            database.interrupt()
            raise


def _first_row_over(database: duckdb.DuckDBPyConnection, plan: Plan, reading: Reading) -> int | None:
    """Position of the first row of a unit over the limit, or None."""

    def answer(query: str) -> list[tuple[int | None]]:
        reading.rewind()
        database.register("units", pa.RecordBatchReader.from_batches(schema, unit_batches(plan, reading, schema)))
        return database.execute(query.format(limit=plan.job.privacy.rows_per_unit)).fetchall()

    schema = pa.schema([("unit", plan.unit_type), ("row", pa.int64())])
    answer(COUNT_HASHES)
    if not database.execute("select h from suspects").fetchall():
        return None
    (found,) = answer(FIRST_ROW_OVER)
    return found[0]


def unit_batches(
    plan: Plan | ReleasePlan,
    reading: Reading,
    schema: pa.Schema,
    more: Callable[[Rows], list[pa.Array]] | None = None,
    columns: Mapping[str, pa.DataType] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The unit column beside the position of each row, and what `more` makes of rows that have `columns` as well."""
    name, types = plan.job.privacy.unit, {**(columns or {}), plan.job.privacy.unit: plan.unit_type}
    all_bytes, bytes_done = max(sum(plan.inputs.sizes), 1), 0
    try:
        for path, size in zip(plan.inputs.paths, plan.inputs.sizes, strict=True):
            start = reading.rows
            reading.starts.append(start)
            for piece in plan.inputs.pieces(path, types, Cut(PIECE_ROWS, use_threads=False)):
                units = piece.batch.column(name).cast(plan.unit_type)
                missing = _without_unit(units, textual=plan.inputs.format == "csv")
                if missing is not None:
                    row = piece.row + missing
                    raise DataError(f"{path}: row {row} (counted from 0), column {name!r}: null, so the row belongs to no unit")
                first = start + piece.row
                positions = pa.array(np.arange(first, first + len(units)))
                others = [] if more is None else more(Rows(piece, path, first, 0.0))
                yield pa.RecordBatch.from_arrays([units, positions, *others], schema=schema)
                reading.rows = start + piece.row + len(units)
                reading.done = (bytes_done + piece.done * size) / all_bytes
            bytes_done += size
    except DpcoreError as error:
        reading.failure = error
        raise


def _without_unit(units: pa.Array, *, textual: bool) -> int | None:
    """The first row without a unit: rows of many people must not pass for those of one, whose quota they would share."""
    absent = units.is_null()
    if textual:
        absent = pc.or_(absent, pc.is_in(units, value_set=pa.array(NULLS, units.type)))
    first: int = absent.index(pa.scalar(value=True)).as_py()
    return None if first < 0 else first


def _place(plan: Plan, reading: Reading, row: int) -> str:
    index = max(index for index, start in enumerate(reading.starts) if start <= row)
    return f"{plan.inputs.paths[index]}: row {row - reading.starts[index]} (counted from 0)"
