"""Contribution bounding: at most so many rows and groups of each privacy unit take part, and which ones is a uniform choice.

Every row gets a random 64-bit word from dpcore's own source; the rows of a unit with the smallest words stay. The words do
not depend on the data, so the rows that one unit keeps do not depend on any other unit: two tables that differ in one unit differ, after
this step, in the rows of that unit alone, at most so many of them. Groups are chosen before rows, each by a further word, that of the
unit's first row in it: groups with many and with few rows are equally likely. (Two equal words, one pair in 2^64, are ordered by their
position.) One pass puts rows into parts by a hash of their unit; a part fits into memory, and only its units with too many rows are sorted.
One bit for each row remains.

Under a test key or a committed one a release takes words that follow from what rows hold (`row_hash.py`), so that the order of rows
decides nothing.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from dpcore.errors import DataError, StorageError, reason
from dpcore.tables.units.by_unit import NAMELESS, ByUnit, Numbering
from dpcore.tables.units.contributions import Reading, compared_type, in_background, place_of, unit_batches
from dpcore.tables.units.row_random_bits import GROUP_NONCE, ROW_NONCE, RowWords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.rng import Numbered
    from dpcore.tables.rows import Rows
    from dpcore.tables.units.contributions import Planned
    from dpcore.tables.units.row_random_bits import ByValue, RowValues

CHOOSING_THREADS = 4
"""Parts of the rows that lie in memory at a time."""
WRITTEN_BYTES = 1 << 20
MOST_GROUPS = 1 << 31
"""Numbers of groups are below this."""
CHANGED = "the input changed while it was read: the pass that chose rows and the one that adds them up must see the same rows"


class Groups(Protocol):
    """Groups of rows, declared or not."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that say which group a row is in."""

    @property
    def key_type(self) -> pa.DataType:
        """Type of what `keyed` gives: int32 or binary."""

    def keyed(self, batch: pa.RecordBatch) -> pa.Array:
        """The number of each row's group, −1 if it is in none; or its key as bytes, null if it is in none. No cell can be refused."""


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
        self._lock = threading.Lock()

    def drop(self, rows: npt.NDArray[np.int64]) -> None:
        """Exclude rows, each at most once."""
        bits = np.left_shift(1, rows & 7).astype(np.uint8)
        with self._lock:
            np.bitwise_or.at(self._bits, rows >> 3, bits)
            self.dropped += len(rows)

    def drop_over(self, rows: npt.NDArray[np.int64]) -> None:
        """Exclude rows that their units have too many of."""
        if len(rows):
            self.drop(rows)
            with self._lock:
                self.first_over = min(int(rows.min()), self.rows if self.first_over is None else self.first_over)

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
    key: Numbered | None,
    spill: Path,
    threads: int,
    update: Callable[[int, float], None],
    *,
    grouping: Groups | None = None,
    refuse: bool = False,
    by_value: ByValue | None = None,
) -> Kept:
    """Read the unit column once, and choose the rows of each unit that take part.

    Parameters
    ----------
    plan : Planned
        Names the unit and its bounds, and the treatment of rows that name none.
    key : Numbered or None
        None is the secure source.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that choose.
    update : callable
        Told the rows read and the fraction of the work that is done, on the calling thread.
    grouping : Groups, optional
        The groups of which each unit takes part in `max_groups_per_unit` only.
    refuse : bool, default False
        Whether a unit with too many rows is an error.
    by_value : ByValue, optional
        How rows are chosen by what they hold, and not by where they lie; its columns are read for it.

    Raises
    ------
    DataError
        If it is, and there is one; names the first row that is too many, never the unit.
    StorageError
        If there is no room.
    """
    choice = _Choice(plan, key, spill, grouping=grouping, refuse=refuse, by_value=by_value)
    kept = in_background(choosing_words(plan), choice.reading, spill, update, lambda: choice.made(min(threads, CHOOSING_THREADS)))
    if refuse and kept.first_over is not None:
        raise DataError(
            f"{place_of(choice.reading, kept.first_over)}: the {plan.job.privacy.unit!r} of this row has max_rows_per_unit = "
            f"{plan.job.privacy.rows_per_unit} rows before it; nothing was written"
        )
    return kept


def choosing_words(plan: Planned) -> str:
    """The choice in words."""
    return f"choosing rows per {plan.job.privacy.unit!r}"


class _Choice:
    """A pass over the units of a plan, and a choice among the rows of each part of them."""

    def __init__(
        self, plan: Planned, key: Numbered | None, spill: Path, *, grouping: Groups | None, refuse: bool, by_value: ByValue | None
    ) -> None:
        self.reading = Reading()
        self._plan, self._spill, self._grouping, self._refuse = plan, spill, grouping, refuse
        self._privacy = plan.job.privacy
        self._words, self._further = RowWords(key, ROW_NONCE), RowWords(key, GROUP_NONCE)
        self._read = {} if by_value is None else by_value.types
        self._values = None if by_value is None else by_value.rows(self._privacy.unit)
        self._most_rows = plan.job.privacy.rows_per_unit
        self._most_groups = getattr(plan.job.privacy, "max_groups_per_unit", None) or self._most_rows
        fields = [("unit", compared_type(plan.unit_type)), ("row", pa.int64()), ("word", pa.uint64())]
        fields += [] if grouping is None else [("group", grouping.key_type), ("group word", pa.uint64())]
        self._schema = pa.schema(fields + ([] if self._values is None else [("marks", pa.uint64())]))

    def made(self, threads: int) -> Kept:
        """Read all rows, and choose."""
        names = () if self._grouping is None else self._grouping.names
        columns = self._read | {name: self._plan.read_types[name] for name in names if name in self._plan.read_types}
        with ByUnit(self._spill, self._schema) as parts:
            for batch in unit_batches(self._plan, self.reading, self._schema, self._drawn, columns):
                parts.add(batch)
            parts.finish()
            kept = Kept(self._spill / "kept", self.reading.rows)
            if not self._privacy.null_rows_are_units:
                for piece in parts.pieces(NAMELESS):
                    kept.drop(piece.column(1).to_numpy())
            filled = parts.filled()
            with ThreadPoolExecutor(threads) as workers:
                found = [workers.submit(self._chosen, parts, part, kept) for part in filled]
                for done, each in enumerate(found, 1):
                    each.result()
                    self.reading.done = (1 + done / len(filled)) / 2
        return kept

    def _drawn(self, rows: Rows) -> list[pa.Array]:
        """The columns beside the unit: position and word of each row, its group, and the word of that, if the row is the first in it."""
        positions = np.arange(rows.first, rows.first + len(rows.batch))
        groups = None if self._grouping is None else self._grouping.keyed(rows.batch)
        if self._values is not None:
            hashes, marks = self._values.of(rows.batch)
            of_groups = [] if groups is None else [groups, pa.array(self._values.of_groups(rows.batch, groups))]
            return [pa.array(positions), pa.array(hashes), *of_groups, pa.array(marks)]
        # Who refuses does not draw: the rows that are too many are those that come last.
        words = pa.array(positions.astype(np.uint64)) if self._refuse else self._words.of(rows)
        return [pa.array(positions), words, *([] if groups is None else [groups, self._further.of(rows)])]

    def _chosen(self, parts: ByUnit, part: int, kept: Kept) -> None:
        """Drop the rows of a part that do not take part."""
        pieces = _Numbered(parts, part)
        rows = self._within_groups(pieces, kept)
        before: tuple[list[npt.NDArray[Any]], npt.NDArray[np.bool_]] | None = None
        for columns in rows if self._values is None else self._with_words(rows, self._values):
            if before is not None:
                # A row that is too many among some of its unit's is too many among all.
                columns = [np.concatenate([one[~before[1]], other]) for one, other in zip(before[0], columns, strict=True)]  # noqa: PLW2901
            over = beyond(columns[0], columns[1], columns[2], self._most_rows)
            kept.drop_over(columns[1][over])
            before = columns, over

    def _within_groups(self, pieces: _Numbered, kept: Kept) -> Iterator[list[npt.NDArray[Any]]]:
        """Unit, row and word of the rows of a part, and further columns, without those in groups in which their unit takes no part."""
        refused = None if self._grouping is None else self._refused(pieces)
        for columns in pieces:
            self.reading.check()
            if refused is None or not len(refused):
                yield columns
                continue
            out = np.isin(self._pairs(columns[0], columns[3]), refused)
            kept.drop_over(columns[1][out])
            yield [column[~out] for column in columns]

    def _with_words(self, pieces: Iterator[list[npt.NDArray[Any]]], values: RowValues) -> Iterator[list[npt.NDArray[Any]]]:
        """Unit, row and word of rows of which there are hashes: all rows with equal hashes come at once, so that they can be numbered."""
        first, second = next(pieces, None), next(pieces, None)
        if first is None:
            return
        if second is None:
            over = np.bincount(first[0])[first[0]] > self._most_rows
            unit, row, hashes, *_, marks = (column[over] for column in first)
            yield [unit, row, values.words(unit, hashes, marks, row)]
            return
        schema = pa.schema([("hash", pa.int64()), ("unit", pa.int64()), ("row", pa.int64()), ("marks", pa.uint64())])
        with ByUnit(self._spill, schema) as parts:
            for unit, row, hashes, *_, marks in chain([first, second], pieces):
                parts.add(pa.RecordBatch.from_arrays(list(map(pa.array, (hashes.view(np.int64), unit, row, marks))), schema=schema))
            parts.finish()
            for each in parts.filled():
                found = pa.Table.from_batches(parts.pieces(each), schema)
                hashes, unit, row, marks = (column.to_numpy() for column in found.columns)
                yield [unit, row, values.words(unit, hashes.view(np.uint64), marks, row)]

    def _pairs(self, unit: npt.NDArray[np.int64], group: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """One number for a unit and a group of it."""
        return np.where(group < 0, -1, unit * MOST_GROUPS + group)

    def _refused(self, pieces: _Numbered) -> npt.NDArray[np.int64]:
        """Pairs of units and groups beyond the groups in which the unit takes part, by the word of its first row in each."""
        pairs, words = np.empty(0, np.int64), np.empty(0, np.uint64)
        for unit, _, _, group, word, *_ in pieces:
            self.reading.check()
            # A row of no group (-1) is in none that could be too many, nor can few rows be in many groups.
            some = group >= 0
            if pieces.only is not None:
                some &= np.bincount(unit)[unit] > self._most_groups
            pairs = np.concatenate([pairs, self._pairs(unit[some], group[some])])
            words = np.concatenate([words, word[some]])
            firsts = first_places(pairs)
            pairs, words = pairs[firsts], words[firsts]
        return pairs[beyond(pairs // MOST_GROUPS, pairs % MOST_GROUPS, words, self._most_groups)]


class _Numbered:
    """The pieces of a part: columns of numbers, in which units, and groups that have keys, are numbered from 0, alike in all pieces.

    Attributes
    ----------
    more : bool
        Whether pieces come after the present one.
    only : list of ndarray or None
        The piece, once it has been read, if there is one only.
    """

    def __init__(self, parts: ByUnit, part: int) -> None:
        self._parts, self._part = parts, part
        self._names = defaultdict[int, Numbering](Numbering)
        self.more = False
        self.only: list[npt.NDArray[Any]] | None = None

    def __iter__(self) -> Iterator[list[npt.NDArray[Any]]]:
        if self.only is not None:
            yield self.only
            return
        pieces = self._parts.pieces(self._part)
        piece, following = next(pieces, None), next(pieces, None)
        single = following is None
        while piece is not None:
            self.more = following is not None
            columns = [self._numbers(place, column) for place, column in enumerate(piece.columns)]
            if single:
                self.only = columns
            yield columns
            piece, following = following, next(pieces, None)

    def _numbers(self, place: int, column: pa.Array) -> npt.NDArray[Any]:
        """Units, and keys of groups, as numbers; −1 for no group."""
        if place and not pa.types.is_binary(column.type):
            numbers: npt.NDArray[Any] = column.to_numpy()
            return numbers
        if not column.null_count:
            return self._names[place].of(column)
        numbers = np.full(len(column), -1, np.int64)
        there = column.is_valid().to_numpy(zero_copy_only=False)
        numbers[there] = self._names[place].of(column.drop_null())
        return numbers


def first_places(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each value stands first."""
    codes = pa.array(values).dictionary_encode().indices.to_numpy()
    return np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1) > 0)


def beyond(units: npt.NDArray[np.int64], places: npt.NDArray[np.int64], words: npt.NDArray[np.uint64], limit: int) -> npt.NDArray[np.bool_]:
    """True for each thing that is not among the `limit` of its unit with the smallest words; of equal words the smaller place is first."""
    found = np.zeros(len(units), np.bool_)
    counts = np.bincount(units)
    over = counts > limit
    if not over.any():
        return found
    chosen = np.flatnonzero(over[units])
    units, places, words = units[chosen], places[chosen], words[chosen]
    order = _order(units, places, words, len(counts))
    counts[~over] = 0
    starts = np.cumsum(counts) - counts
    found[chosen[order[np.arange(len(order)) - starts[units[order]] >= limit]]] = True
    return found


def _order(
    units: npt.NDArray[np.int64], places: npt.NDArray[np.int64], words: npt.NDArray[np.uint64], n_units: int
) -> npt.NDArray[np.int64]:
    """Order by unit, word and place."""
    # One key of 64 bits is sorted several times as fast as three columns; what it leaves out decides among few.
    bits = np.uint64(max(n_units - 1, 1).bit_length())
    keys = units.astype(np.uint64) << (np.uint64(64) - bits) | words >> bits
    order = np.argsort(keys)
    keys = keys[order]
    return np.lexsort((places, words, units)) if (keys[1:] == keys[:-1]).any() else order
