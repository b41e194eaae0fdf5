"""Contribution bounding: at most so many rows and groups of each privacy unit take part, and which ones is a uniform choice.

Every row gets a random 64-bit word from dpcore's own source; of a unit's rows those with the smallest words stay. The words know
nothing of the data, so the rows that one unit keeps do not depend on any other unit: two tables that differ in one unit differ, after
this step, in the rows of that unit alone, at most so many of them. Groups are chosen before rows, each by a further word, that of the
unit's first row in it: however many rows a group has, it is as likely as another. (Two equal words, one pair in 2^64, are told apart
by their order.) A database does the sorting, and spills to disk what does not fit into its memory; one bit for each row remains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore.batch.contributions import Reading, in_database, unit_batches
from dpcore.batch.errors import StorageError, reason
from dpcore.batch.release_cells import read_column
from dpcore.rng import SecureRandom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duckdb
    import numpy.typing as npt

    from dpcore.batch.release_cells import Declared
    from dpcore.batch.release_plan import ReleasePlan
    from dpcore.batch.rows import Rows
    from dpcore.rng import Stream
    from dpcore.testing import KeyedRandom

ROW_NONCE, GROUP_NONCE = 2**32 - 1, 2**32 - 2
"""Nonces of the words of a keyed job: beyond those of all queries."""
ROWS_OVER = """
select row from (select row, row_number() over (partition by unit order by word, row) as place from units) where place > {rows}
"""
# A row of no declared group (-1) is in none that could be too many; its unit's groups come first when they are numbered.
GROUPS_OVER = """
with drawn as (select unit, row, word, grp, first_value(grpword) over (partition by unit, grp order by row) as grpword from units),
numbered as (select unit, row, word, grp < 0 or dense_rank() over (partition by unit order by grp < 0, grpword, grp) <= {groups} as stays
             from drawn),
placed as (select row, stays, row_number() over (partition by unit order by not stays, word, row) as place from numbered)
select row from placed where not stays or place > {rows}
"""
FETCHED_ROWS = 1 << 16
WRITTEN_BYTES = 1 << 20
CHANGED = "the input changed while it was read: the pass that chose rows and the one that adds them up must see the same rows"


class Kept:
    """Which rows take part: one bit for each row, in a file that is mapped into memory.

    Parameters
    ----------
    path : Path
        Of the file, in a folder that goes when the job ends.
    rows : int
        Rows of the input.

    Attributes
    ----------
    rows : int
        Rows that were chosen from.
    dropped : int
        Rows that do not take part.
    """

    def __init__(self, path: Path, rows: int) -> None:
        self.rows = rows
        size = max((rows + 7) // 8, 1)
        try:
            # Written out: a mapped page for which the disk has no room kills the process.
            with path.open("wb") as file:
                for start in range(0, size, WRITTEN_BYTES):
                    file.write(bytes(min(WRITTEN_BYTES, size - start)))
            self._bits = np.memmap(path, np.uint8, "r+", shape=size)
        except OSError as error:
            raise StorageError(f"cannot write which rows take part into {path.parent}{reason(error)}") from None
        self.dropped = 0

    def drop(self, rows: npt.NDArray[np.int64]) -> None:
        """Exclude rows, each at most once."""
        np.bitwise_or.at(self._bits, rows >> 3, np.left_shift(1, rows & 7).astype(np.uint8))
        self.dropped += len(rows)

    def mask(self, first: int, rows: int) -> npt.NDArray[np.bool_]:
        """True for each of some consecutive rows that takes part."""
        if first + rows > self.rows:
            raise StorageError(CHANGED)  # of the new rows nobody has looked at the unit
        whole = np.unpackbits(self._bits[first >> 3 : (first + rows + 7) >> 3], bitorder="little")
        kept: npt.NDArray[np.bool_] = whole[first & 7 :][:rows] == 0
        return kept


def choose_rows(plan: ReleasePlan, key: KeyedRandom | None, spill: Path, threads: int, update: Callable[[int, float], None]) -> Kept:
    """Read the unit column once, and choose the rows of each unit that take part.

    Parameters
    ----------
    plan : ReleasePlan
        Names the unit and its bounds.
    key : KeyedRandom or None
        None is the secure source.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that sort.
    update : callable
        Told the rows read and the fraction of the input they are, on the calling thread.

    Raises
    ------
    DataError
        If a row has no unit; names the row.
    StorageError
        If there is no room.
    """
    words = _Words(key, ROW_NONCE)
    grouping = plan.grouping if plan.job.privacy.max_groups_per_unit is not None else None

    def choose(database: duckdb.DuckDBPyConnection, plan: ReleasePlan, reading: Reading) -> Kept:
        fields = [("unit", plan.unit_type), ("row", pa.int64()), ("word", pa.uint64())]
        privacy = plan.job.privacy
        if grouping is None:
            batches = unit_batches(plan, reading, schema := pa.schema(fields), lambda rows: [words.of(rows)])
        else:
            schema = pa.schema([*fields, ("grp", pa.int32()), ("grpword", pa.uint64())])
            further = _Words(key, GROUP_NONCE)
            columns = {grouping[0]: plan.read_types[grouping[0]]}
            batches = unit_batches(
                plan, reading, schema, lambda rows: [words.of(rows), _groups(rows, *grouping), further.of(rows)], columns
            )
        database.register("units", pa.RecordBatchReader.from_batches(schema, batches))
        query = ROWS_OVER if grouping is None else GROUPS_OVER
        found = database.sql(query.format(rows=privacy.rows_per_unit, groups=privacy.max_groups_per_unit))
        return _collected(found, spill, reading)

    return in_database(plan, Reading([]), spill, threads, update, choose)


class _Words:
    """A random word for each row, by its position in the input, so that it does not matter how rows are cut."""

    def __init__(self, key: KeyedRandom | None, nonce: int) -> None:
        source: Stream = SecureRandom() if key is None else key.at(nonce)
        self._position, self._secure = source.position(), source.secure

    def of(self, rows: Rows) -> pa.Array:
        position = self._position._replace(first_element=rows.first)
        return pa.array(_backend.uniform_words(position, len(rows.piece.batch), secure=self._secure))


def _groups(rows: Rows, column: str, groups: Declared) -> pa.Array:
    """The number of each row's group; −1 if it is in none."""
    codes = read_column(rows, column, groups)
    return pa.array(np.where(codes == groups.size, -1, codes).astype(np.int32))


def _collected(found: Any, spill: Path, reading: Reading) -> Kept:
    # Nothing comes before all rows have been read, so their number is known then.
    batches = iter(found.to_arrow_reader(FETCHED_ROWS))
    first = next(batches, None)
    spill.mkdir(parents=True, exist_ok=True)
    kept = Kept(spill / "kept", reading.rows)
    while first is not None:
        kept.drop(first.column(0).to_numpy())
        first = next(batches, None)
    return kept
