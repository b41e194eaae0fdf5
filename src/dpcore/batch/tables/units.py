"""Contribution bounding: at most so many rows and groups of each privacy unit take part, and which ones is a uniform choice.

Every row gets a random 64-bit word from dpcore's own source; the rows of a unit with the smallest words stay. The words do
not depend on the data, so the rows that one unit keeps do not depend on any other unit: two tables that differ in one unit differ, after
this step, in the rows of that unit alone, at most so many of them. Groups are chosen before rows, each by a further word, that of the
unit's first row in it: groups with many and with few rows are equally likely. (Two equal words, one pair in 2^64, are ordered by their
position.) A database does the work, and spills to disk what does not fit into its memory; one bit for each row remains. A first pass counts
what each unit has. A second one draws words and sorts, for the rows of units that have too much; for most tables these are few or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore import _backend
from dpcore.batch.tables.contributions import Reading, compared_type, in_database, place_of, unit_batches
from dpcore.errors import DataError, StorageError, reason
from dpcore.rng import SecureRandom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duckdb
    import numpy.typing as npt

    from dpcore.batch.tables.contributions import Planned
    from dpcore.batch.tables.rows import Rows
    from dpcore.rng import Stream
    from dpcore.testing import KeyedRandom

ROW_NONCE, GROUP_NONCE = 2**32 - 1, 2**32 - 2
"""Nonces of the words of a keyed job: beyond those of all queries."""
OVER = "create temp table over as select unit, count(*) as n from units group by unit having {nameless}count(*) > {rows}"
OVER_IN_GROUPS = """
create temp table over as select unit, sum(n) as n from (select unit, grp, count(*) as n from units group by unit, grp)
group by unit having {nameless}(sum(n) > {rows} or count(*) filter (where grp >= 0) > {groups})
"""
# Which rows one unit keeps does not depend on another, so the rows of all others can be left out. A null equals a null here.
SOURCES = {True: "units semi join over on units.unit is not distinct from over.unit", False: "units"}
# Rows come sorted by unit, and are numbered as they pass by: a sort spills whatever the rows are, a window needs all rows of a unit at
# once, and one unit may own most of them.
BY_UNIT = "select unit, row, true as stays from {source} order by unit, {choice}row"
DRAWN = "create temp table drawn as select * from {source}"
# The groups of a unit are few. A row of no declared group (-1) is in none that could be too many.
CHOSEN_GROUPS = """
create temp table chosen as select unit, grp from (
    select unit, grp, row_number() over (partition by unit order by grpword, grp) as place from (
        select unit, grp, arg_min(grpword, row) as grpword from drawn where grp >= 0 and unit is not null group by unit, grp
    )
) where place <= {groups}
"""
# A step at a time, since those that run together share the memory.
PLACED = """
create temp table placed as select drawn.unit, row, word, drawn.grp < 0 or chosen.grp is not null as stays
from drawn left join chosen on drawn.unit = chosen.unit and drawn.grp = chosen.grp;
drop table drawn;
drop table chosen;
"""
BY_UNIT_AND_GROUP = "select unit, row, stays from placed order by unit, not stays, word, row"
FETCHED_ROWS = 1 << 16
WRITTEN_BYTES = 1 << 20
CHANGED = "the input changed while it was read: the pass that chose rows and the one that adds them up must see the same rows"


class Groups(Protocol):
    """Declared groups of rows."""

    @property
    def size(self) -> int:
        """Number of groups."""

    def read(self, cells: pa.Array) -> npt.NDArray[Any]:
        """The number of the group of each row; `size` if it is in none."""


class Kept:
    """The rows that take part: one bit for each row, in a file that is mapped into memory.

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
    first_over : int or None
        The first row that its unit has too many of.
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
        self.first_over: int | None = None

    def drop(self, rows: npt.NDArray[np.int64]) -> None:
        """Exclude rows, each at most once."""
        np.bitwise_or.at(self._bits, rows >> 3, np.left_shift(1, rows & 7).astype(np.uint8))
        self.dropped += len(rows)

    def saw_over(self, rows: npt.NDArray[np.int64]) -> None:
        """Note rows that their units have too many of."""
        if len(rows):
            first = int(rows.min())
            self.first_over = first if self.first_over is None else min(first, self.first_over)

    def mask(self, first: int, rows: int) -> npt.NDArray[np.bool_]:
        """True for each of some consecutive rows that takes part."""
        if first + rows > self.rows:
            raise StorageError(CHANGED)  # the units of the new rows were not counted
        whole = np.unpackbits(self._bits[first >> 3 : (first + rows + 7) >> 3], bitorder="little")
        kept: npt.NDArray[np.bool_] = whole[first & 7 :][:rows] == 0
        return kept

    def dropped_among(self, first: int, rows: int) -> npt.NDArray[np.bool_] | None:
        """True for each of some consecutive rows that does not take part; None if all do."""
        mask = self.mask(first, rows)
        return None if mask.all() else ~mask


def choose_rows(
    plan: Planned,
    key: KeyedRandom | None,
    spill: Path,
    threads: int,
    update: Callable[[int, float], None],
    *,
    grouping: tuple[str, Groups] | None = None,
    refuse: bool = False,
) -> Kept:
    """Read the unit column once, and choose the rows of each unit that take part.

    Parameters
    ----------
    plan : Planned
        Names the unit and its bounds, and the treatment of rows that name none.
    key : KeyedRandom or None
        None is the secure source.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that sort.
    update : callable
        Told the rows read and the fraction of the input they are, on the calling thread.
    grouping : tuple, optional
        A column and the groups of which each unit takes part in `max_groups_per_unit` only.
    refuse : bool, default False
        Whether a unit with too many rows is an error.

    Raises
    ------
    DataError
        If it is, and there is one; names the first row that is too many, never the unit.
    StorageError
        If there is no room.
    """
    choice = _Choice(plan, key, spill, grouping=grouping, refuse=refuse)
    return in_database(plan, choice.reading, spill, threads, update, choice.made)


class _Choice:
    """The passes over the units of a plan, in a database."""

    def __init__(self, plan: Planned, key: KeyedRandom | None, spill: Path, *, grouping: tuple[str, Groups] | None, refuse: bool) -> None:
        self.reading = Reading()
        self._plan, self._spill, self._grouping, self._refuse = plan, spill, grouping, refuse
        self._privacy = plan.job.privacy
        self._words, self._further = _Words(key, ROW_NONCE), _Words(key, GROUP_NONCE)
        self._source = SOURCES[False]
        self._most_groups = getattr(plan.job.privacy, "max_groups_per_unit", None) or plan.job.privacy.rows_per_unit

    def made(self, database: duckdb.DuckDBPyConnection, plan: Planned, reading: Reading) -> Kept:
        """Count, and choose the rows of those that have too many."""
        if self._count(database) == 0:
            return self._kept()
        kept = self._collected(self._of_groups(database) if self._grouping else self._of_rows(database))
        if self._refuse and kept.first_over is not None:
            raise DataError(
                f"{place_of(reading, kept.first_over)}: the {plan.job.privacy.unit!r} of this row has max_rows_per_unit = "
                f"{plan.job.privacy.rows_per_unit} rows before it; nothing was written"
            )
        return kept

    def _count(self, database: duckdb.DuckDBPyConnection) -> int:
        """List the units that have too many rows or groups, and the null if rows that name no unit are dropped; return how many."""
        self._read(database, [], lambda _: [])
        said = {"rows": self._privacy.rows_per_unit, "groups": self._most_groups}
        nameless = "unit is not null and " if self._privacy.null_rows_are_units else "unit is null or "
        database.execute((OVER_IN_GROUPS if self._grouping else OVER).format(nameless=nameless, **said))
        found, rows = database.execute("select count(*), coalesce(sum(n), 0) from over").fetchall()[0]
        # Where most rows remain, looking each of them up costs more than sorting the others.
        self._source = SOURCES[int(rows) * 2 < self.reading.rows]
        return int(found)

    def _of_rows(self, database: duckdb.DuckDBPyConnection) -> Any:
        self._read(database, [("row", pa.int64()), ("word", pa.uint64())], lambda rows: [_positions(rows), self._words.of(rows)])
        return database.sql(BY_UNIT.format(source=self._source, choice="" if self._refuse else "word, "))

    def _of_groups(self, database: duckdb.DuckDBPyConnection) -> Any:
        fields = [("grpword", pa.uint64()), ("row", pa.int64()), ("word", pa.uint64())]
        self._read(database, fields, lambda rows: [self._further.of(rows), _positions(rows), self._words.of(rows)])
        database.execute(DRAWN.format(source=self._source))
        database.execute(CHOSEN_GROUPS.format(groups=self._most_groups))
        database.execute(PLACED)
        return database.sql(BY_UNIT_AND_GROUP)

    def _read(self, database: duckdb.DuckDBPyConnection, fields: list[Any], more: Callable[[Rows], list[pa.Array]]) -> None:
        """Let the database read each row's unit, its group if there are groups, and what `more` makes of rows."""
        unit = ("unit", compared_type(self._plan.unit_type))
        if self._grouping is None:
            schema, columns, made = pa.schema([unit, *fields]), {}, more
        else:
            column, groups = self._grouping
            schema, columns = pa.schema([unit, ("grp", pa.int32()), *fields]), {column: self._plan.read_types[column]}

            def made(rows: Rows) -> list[pa.Array]:
                return [_groups(rows, column, groups), *more(rows)]

        batches = unit_batches(self._plan, self.reading, schema, made, columns)
        database.register("units", pa.RecordBatchReader.from_batches(schema, batches))

    def _kept(self) -> Kept:
        self._spill.mkdir(parents=True, exist_ok=True)
        return Kept(self._spill / "kept", self.reading.rows)

    def _collected(self, found: Any) -> Kept:
        """Number the rows of each unit as they come, and drop those beyond the limit."""
        # Nothing comes before all rows have been read, so their number is known then.
        batches = iter(found.to_arrow_reader(FETCHED_ROWS))
        first = next(batches, None)
        kept, places = self._kept(), _Places()
        while first is not None:
            unit, row, stays = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in first.columns)
            over = (places.of(unit) >= self._privacy.rows_per_unit) | ~stays.to_numpy(zero_copy_only=False)
            nameless = unit.is_null().to_numpy(zero_copy_only=False)
            kept.drop(row.to_numpy()[np.where(nameless, not self._privacy.null_rows_are_units, over)])
            kept.saw_over(row.to_numpy()[over & ~nameless])
            first = next(batches, None)
        return kept


def _positions(rows: Rows) -> pa.Array:
    return pa.array(np.arange(rows.first, rows.first + len(rows.batch)))


class _Words:
    """A random word for each row, by its position in the input, so that it does not matter how rows are cut."""

    def __init__(self, key: KeyedRandom | None, nonce: int) -> None:
        source: Stream = SecureRandom() if key is None else key.at(nonce)
        self._position = source.position()

    def of(self, rows: Rows) -> pa.Array:
        position = self._position._replace(first_element=rows.first)
        return pa.array(_backend.uniform_words(position, len(rows.batch)))


def _groups(rows: Rows, column: str, groups: Groups) -> pa.Array:
    """The number of each row's group; −1 if it is in none. No cell can be refused."""
    codes = groups.read(rows.batch.column(column))
    return pa.array(np.where(codes == groups.size, -1, codes).astype(np.int32))


class _Places:
    """The place of each row among those of its unit, which follow each other."""

    def __init__(self) -> None:
        self._last: Any = None
        self._before = 0

    def of(self, units: pa.Array) -> npt.NDArray[np.int64]:
        if len(units) == 0:
            return np.empty(0, np.int64)
        begins = np.empty(len(units), np.bool_)
        begins[0] = self._last is None or not self._last.equals(units[0])
        begins[1:] = pc.fill_null(pc.not_equal(units[1:], units[:-1]), True).to_numpy(zero_copy_only=False)  # noqa: FBT003
        rows = np.arange(len(units))
        start = np.maximum.accumulate(np.where(begins, rows, -self._before))
        places: npt.NDArray[np.int64] = rows - start
        self._last, self._before = units[-1], int(places[-1]) + 1
        return places
