"""One row for each unit, or for each of its declared keys, made of the unit's rows and of nothing else.

Rows are put together by unit, and a database makes the aggregates of `tables.sql.aggregates`. What fits into memory is one statement. Of
more, all rows of a unit lie in one of 256 parts on disk, encrypted, and each part is a statement: the database itself never has a file.
What is made has an order, in which all later passes read it.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import StorageError
from dpcore.tables.pieces import Cut, FileInfo
from dpcore.tables.pipeline import UNFINISHED, Pipeline
from dpcore.tables.rows import piece_rows_for, read_rows
from dpcore.tables.sql.derivation import Derivation
from dpcore.tables.types.whole_arrays import decoded
from dpcore.tables.units.by_unit import NAMELESS, ByUnit
from dpcore.tables.units.contributions import Reading, compared, in_background, named_again
from dpcore.tables.units.spills import Spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import duckdb

    from dpcore.tables.inputs import Inputs
    from dpcore.tables.rows import Rows
    from dpcore.tables.sql.aggregates import Aggregate
    from dpcore.tables.sql.derivation import Deriving

HELD_BYTES = 384 << 20
"""Rows of the input that lie in memory; beyond them all go to disk, in parts."""
MADE_BYTES = 128 << 20
"""The same of rows that were made."""
MADE_ROWS = 1 << 16
AGGREGATING_THREADS = 4
"""Parts that lie in memory at a time."""
UNIT, ALONE, KEY = "unit", "alone", "key"


class Keys(Protocol):
    """The declared keys of rows, by which a unit has several."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that hold the key."""

    def keyed(self, batch: pa.RecordBatch) -> pa.Array:
        """The number of the key of each row, −1 if it has none."""

    def keys(self) -> list[list[Any]]:
        """For each column its value in each key."""


@dataclass(frozen=True, slots=True)
class UnitRecipe:
    """How one row of each unit is made.

    Attributes
    ----------
    unit : str
        The column that names it.
    unit_type : pyarrow.DataType
        Its type.
    null_is_unit : bool
        Whether a row that names no unit is one of its own; otherwise it is left out.
    aggregates : dict
        What is made, by the name of its column.
    derivation : Derivation
        What is derived of each row before.
    second : Keys or None
        Second keys, by which a unit has a row for each; None: one row.
    read_types : dict
        Types of the columns that are read.
    made_types : dict
        Types of the aggregates.
    """

    unit: str
    unit_type: pa.DataType
    null_is_unit: bool
    aggregates: dict[str, Aggregate]
    derivation: Derivation
    second: Keys | None
    read_types: dict[str, pa.DataType]
    made_types: dict[str, pa.DataType] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that are made."""
        labels = [] if self.second is None else zip(self.second.names, self._labels(), strict=True)
        fields = [(self.unit, self.named_type), *((name, each.type) for name, each in labels), *self.made_types.items()]
        return pa.schema(fields)

    @property
    def words(self) -> str:
        """The making in words."""
        return f"making rows of each {self.unit!r}"

    @property
    def named_type(self) -> pa.DataType:
        """The type of units in the rows that are made: text, where the input has no types."""
        return pa.string() if pa.types.is_binary(self.unit_type) else self.unit_type

    @property
    def chosen_by(self) -> FileInfo:
        """The columns by whose values a unit chooses among its rows: its name and its second keys."""
        names = (self.unit, *(() if self.second is None else self.second.names))
        return FileInfo(names, pa.schema([self.schema.field(name) for name in names]), None)

    def _labels(self) -> list[pa.Array]:
        listed = [] if self.second is None else self.second.keys()
        return [pa.array(values) for values in listed]

    def encoded(self, rows: Rows, deriving: Deriving) -> pa.RecordBatch:
        """What the database gets of some rows."""
        derived = deriving.of(rows)
        batch, mask = derived.rows.batch, derived.passes
        units = compared(decoded(rows.batch.column(self.unit)).cast(self.unit_type))
        named = np.asarray(units.is_valid())
        columns: dict[str, pa.Array] = {UNIT: units}
        if self.null_is_unit:
            columns[ALONE] = pa.array(np.arange(rows.first, rows.first + len(batch)), mask=named)
        elif not named.all():
            mask = named if mask is None else mask & named
        if self.second is not None:
            columns[KEY] = self.second.keyed(batch)
            found = columns[KEY].to_numpy() >= 0
            mask = found if mask is None else mask & found
        cells = (each for aggregate in self.aggregates.values() for each in aggregate.encoded(batch))
        columns |= {f"a{place}": _plain(each) for place, each in enumerate(cells)}
        made = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        return made if mask is None or mask.all() else made.filter(pa.array(mask))

    @property
    def query(self) -> str:
        """The statement that makes the rows of the table `rows`."""
        by = [UNIT, *([ALONE] if self.null_is_unit else []), *([] if self.second is None else [KEY])]
        count, written = itertools.count(), []
        for aggregate in self.aggregates.values():
            places = [f"a{next(count)}" for _ in range(aggregate.width)]
            written += [each.format(*places) for each in aggregate.expressions]
        shown = [UNIT, *([] if self.second is None else [KEY]), *written]
        columns = ", ".join(f"{each} AS m{place}" for place, each in enumerate(shown))
        return f"SELECT {columns} FROM rows GROUP BY {', '.join(by)}"  # noqa: S608 - made of names that stand here

    def made(self, database: duckdb.DuckDBPyConnection, rows: Any) -> Iterator[pa.RecordBatch]:
        """The rows of all units of a table or a stream of rows."""
        database.register("rows", rows)
        try:
            # All at once: a stream of results would come from one thread.
            yield from map(self.finished, database.sql(self.query).to_arrow_table().to_batches(max_chunksize=MADE_ROWS))
        finally:
            database.unregister("rows")

    def finished(self, found: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as later passes see them, of what the database has found."""
        columns = iter(found.columns)
        made = [named_again(next(columns), self.named_type)]
        if self.second is not None:
            numbers = next(columns)
            made += [labels.take(numbers) for labels in self._labels()]
        for aggregate in self.aggregates.values():
            made.append(aggregate.finished([next(columns) for _ in aggregate.expressions]))
        return pa.RecordBatch.from_arrays(made, [self.unit, *(() if self.second is None else self.second.names), *self.aggregates])


class MadeRows:
    """Rows that were made, in an order that stays.

    Parameters
    ----------
    folder : Path
        For a file of those that do not fit into memory.

    Attributes
    ----------
    rows : int
        Their number.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: list[pa.RecordBatch | int] = []
        self._bytes = self.rows = 0
        self._spill: Spill | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        self.rows += len(batch)
        self._bytes += batch.nbytes
        if self._bytes <= MADE_BYTES:
            self._held.append(batch)
            return
        if self._spill is None:
            self._spill = Spill(self._folder, batch.schema)
        self._held.append(self._spill.write(batch))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for each in self._held:
            if isinstance(each, pa.RecordBatch):
                yield each
            elif self._spill is not None:
                yield self._spill.read(each)


def make_rows(
    source: Inputs,
    recipe: UnitRecipe,
    spill: Path,
    threads: int,
    update: Callable[[int, float], None],
    piece_rows: int | None = None,
) -> MadeRows:
    """Read all rows of a table once, and make those of its units.

    Parameters
    ----------
    source : Inputs
        What is read.
    recipe : UnitRecipe
        What is made.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that compute.
    update : callable
        Told the rows read and the fraction of the work that is done, on the calling thread.
    piece_rows : int, optional
        Rows handled at a time.

    Raises
    ------
    StorageError
        If there is no room: the rows of a single unit may be too many for medians and other aggregates that hold all values.
    """
    work = _Making(source, recipe, spill, threads, piece_rows)
    return in_background(recipe.words, work.reading, spill, update, work.made)


class _Making:
    """The pass over the rows, and the statements after it."""

    def __init__(self, source: Inputs, recipe: UnitRecipe, spill: Path, threads: int, piece_rows: int | None) -> None:
        self.reading = Reading()
        self._source, self._recipe, self._spill, self._threads = source, recipe, spill, threads
        self._most = min(piece_rows or piece_rows_for(recipe.read_types, is_counted=True), recipe.derivation.most_rows)
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._parts: ByUnit | None = None
        self._found = MadeRows(spill)

    def made(self) -> MadeRows:
        from dpcore.tables.sql.installed import duckdb

        try:
            self._read()
            if self._parts is None:
                self._make_all()
            else:
                with self._parts as parts:
                    parts.finish()
                    self._make_each(parts)
        except duckdb.Error:  # whose messages may quote values
            raise StorageError(f"{self._recipe.words} failed; the rows of one of them may be too many for the memory") from None
        return self._found

    def _read(self) -> None:
        source = read_rows(self._source, self._recipe.read_types, Cut(self._most, use_threads=self._threads > 1))
        with self._recipe.derivation.opened() as deriving:

            def encoded(rows: Rows) -> tuple[pa.RecordBatch, int, float]:
                return self._recipe.encoded(rows, deriving), rows.first + len(rows.batch), rows.done

            Pipeline(source, encoded, self._add, threads=self._threads).run(self.reading.check)

    def _add(self, found: tuple[pa.RecordBatch, int, float]) -> None:
        batch, self.reading.rows, done = found
        self.reading.done = done / 2
        if self._parts is not None:
            self._parts.add(batch)
            return
        self._held.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > HELD_BYTES:
            self._parts = ByUnit(self._spill, batch.schema)
            held, self._held = self._held, []
            held.reverse()
            while held:
                self._parts.add(held.pop())

    def _make_all(self) -> None:
        from dpcore.tables.sql.database import opened

        if not self._held:
            return
        with opened(self._threads) as database:
            for batch in self._recipe.made(database, pa.Table.from_batches(self._held)):
                self._found.add(batch)
                self.reading.check()

    def _make_each(self, parts: ByUnit) -> None:
        from dpcore.tables.sql.database import opened

        workers, asked = min(self._threads, AGGREGATING_THREADS), [*parts.filled(), NAMELESS]
        with opened() as database, ThreadPoolExecutor(workers) as pool:
            # A connection has one statement at a time, and each its own threads.
            for done, batches in enumerate(pool.map(lambda part: self._of_part(database, parts, part), asked), 1):
                for batch in batches:
                    self._found.add(batch)
                self.reading.done = min((1 + done / len(asked)) / 2, UNFINISHED)

    def _of_part(self, whole: duckdb.DuckDBPyConnection, parts: ByUnit, part: int) -> list[pa.RecordBatch]:
        self.reading.check()
        pieces = parts.pieces(part)
        with whole.cursor() as database:
            # Rows that name no unit are units of their own: no piece needs another one.
            wholes: Iterable[Iterable[pa.RecordBatch]] = ([piece] for piece in pieces) if part == NAMELESS else [pieces]
            return [made for whole in wholes for made in self._recipe.made(database, _stream(whole))]


def _stream(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    batches = iter(batches)
    first = next(batches)
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))


def _plain(cells: pa.Array) -> pa.Array:
    """Without a dictionary, and texts of one type."""
    cells = decoded(cells)
    return cells.cast(pa.string()) if pa.types.is_large_string(cells.type) else cells
