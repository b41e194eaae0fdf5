"""Statistics of whole units: how many there are, how many different values they have, and sums in which each has a bounded part.

They need all rows of a unit at once. Rows are put into parts by a hash of their unit (`by_unit.py`), with what the statistic needs of them,
and each part is looked at by itself: units and values are compared as they are, and counted exactly. What does not fit into memory lies on
disk meanwhile.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import StorageError
from dpcore.tables.units.by_unit import NAMELESS, PIECE_ROWS, ByUnit, Numbering
from dpcore.tables.units.scaling import LIMB_BITS, Totals, scaled
from dpcore.tables.units.units import CHOOSING_THREADS, beyond, first_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import Self

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Counts = npt.NDArray[np.int64]

GROUP, WORD = pa.field("group", pa.int32()), pa.field("word", pa.uint64())
PAIR_BITS = 32
"""Rows of a part, and so its units and values, have numbers below 2^32."""


class Gathering(Protocol):
    """What is computed from the rows of a query, once all are there."""

    @property
    def schema(self) -> pa.Schema:
        """What it needs of each row: first the column by which rows are put into parts."""

    def made(self, parts: ByUnit, spill: Path, threads: int) -> Any:
        """The statistic."""


class Gathered:
    """The rows of a query on their way into parts.

    Parameters
    ----------
    statistic : Gathering
        What is made of them.
    spill : Path
        Folder for what does not fit into memory; it is made.
    """

    def __init__(self, statistic: Gathering, spill: Path) -> None:
        self._statistic, self._spill = statistic, spill
        spill.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._parts = ByUnit(spill, statistic.schema)

    def __iadd__(self, rows: pa.RecordBatch) -> Self:
        try:
            self._parts.add(rows)
        except (OSError, pa.ArrowException):
            raise self._no_room() from None
        return self

    def made(self, threads: int) -> Any:
        """The statistic of all rows; nothing can be added afterwards."""
        try:
            with self._parts as parts:
                parts.finish()
                return self._statistic.made(parts, self._spill, min(threads, CHOOSING_THREADS))
        except (OSError, pa.ArrowException):
            raise self._no_room() from None

    def _no_room(self) -> StorageError:
        return StorageError(f"looking at whole units failed; it may need more room in {self._spill.parent.parent}")


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """How many units have a row in each group.

    Attributes
    ----------
    dtype : pyarrow.DataType
        Type in which units are compared.
    groups : int
        Number of groups.
    nameless : bool
        Whether a row that names no unit is one by itself; otherwise it counts nowhere.
    """

    kind: pa.DataType
    groups: int
    nameless: bool

    @property
    def schema(self) -> pa.Schema:
        """Unit and group."""
        return pa.schema([pa.field("unit", self.kind), GROUP])

    def made(self, parts: ByUnit, spill: Path, threads: int) -> Counts:  # noqa: ARG002
        """The counts."""
        counts = sum(_each_part(parts, threads, self._of_part), np.zeros(self.groups, np.int64))
        if self.nameless:
            for piece in parts.pieces(NAMELESS):
                counts += np.bincount(piece.column(1).to_numpy(), minlength=self.groups)
        return counts

    def _of_part(self, parts: ByUnit, part: int) -> Counts:
        pairs, numbers = np.empty(0, np.int64), Numbering()
        for piece in parts.pieces(part):
            found = numbers.of(piece.column(0)) * self.groups + piece.column(1).to_numpy()
            pairs = np.unique(np.concatenate([pairs, found]))
        return np.bincount(pairs % self.groups, minlength=self.groups)


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """How many different values rows have in each group: the rows are put into parts by their value."""

    kind: pa.DataType
    groups: int

    @property
    def schema(self) -> pa.Schema:
        """Value and group."""
        return pa.schema([pa.field("value", self.kind), GROUP])

    def made(self, parts: ByUnit, spill: Path, threads: int) -> Counts:
        """The counts."""
        return UnitCounts(self.kind, self.groups, nameless=False).made(parts, spill, threads)


@dataclass(frozen=True, slots=True)
class ChosenValueCounts:
    """How many different values units have in each group, if each takes part with at most so many pairs of a group and a value.

    Which of its pairs a unit keeps is a uniform choice: each pair has the random word of its first row, and those with the smallest words
    stay. As words do not depend on the data, the choice of one unit does not depend on any other.

    Attributes
    ----------
    unit, kind : pyarrow.DataType
        Types in which units and values are compared.
    groups : int
        Number of groups.
    most : int
        Pairs that a unit keeps.
    nameless : bool
        Whether a row that names no unit is one by itself.
    codes : int or None
        If values are codes 0 … k − 1, their number k.
    """

    unit: pa.DataType
    kind: pa.DataType
    groups: int
    most: int
    nameless: bool
    codes: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """Unit, value, group and word."""
        return pa.schema([pa.field("unit", self.unit), pa.field("value", self.kind), GROUP, WORD])

    def made(self, parts: ByUnit, spill: Path, threads: int) -> Counts:
        """The counts."""
        if self.codes is not None:
            marks = np.zeros((self.groups, self.codes), np.bool_)
            for values, groups in self.kept_values(parts, spill):
                marks[groups, values.to_numpy()] = True
            return np.asarray(marks.sum(axis=1), np.int64)
        counted = ValueCounts(self.kind, self.groups)
        with ByUnit(spill, counted.schema) as by_value:
            for values, groups in self.kept_values(parts, spill):
                by_value.add(pa.RecordBatch.from_arrays([values, pa.array(groups.astype(np.int32))], schema=counted.schema))
            by_value.finish()
            return counted.made(by_value, spill, threads)

    def kept_values(self, parts: ByUnit, spill: Path) -> Iterator[tuple[pa.Array, Array]]:
        """The values and groups that units keep."""
        for part in parts.filled():
            yield from self._kept(parts, part, spill)
        for piece in parts.pieces(NAMELESS) if self.nameless else ():
            yield piece.column(1), piece.column(2).to_numpy()

    def _kept(self, parts: ByUnit, part: int, spill: Path) -> Iterator[tuple[pa.Array, Array]]:
        """The values and groups that units of a part keep."""
        pieces = parts.pieces(part)
        first, second = next(pieces, None), next(pieces, None)
        if first is None:
            return
        if second is None:
            pairs = _Pairs(self.groups)
            pairs.add(Numbering().of(first.column(0)), *first.columns[1:])
            yield pairs.kept(self.most)
            return
        yield from self._kept_of_many(chain([first, second], pieces), spill)

    def _kept_of_many(self, pieces: Iterable[pa.RecordBatch], spill: Path) -> Iterator[tuple[pa.Array, Array]]:
        """Of more rows than one piece has: they are put into parts by value, so that what a unit cannot keep is forgotten after each."""
        units = Numbering()
        schema = pa.schema([self.schema.field("value"), pa.field("unit", pa.int64()), GROUP, WORD])
        with ByUnit(spill, schema) as by_value:
            for piece in pieces:
                numbers = pa.array(units.of(piece.column(0)))
                by_value.add(pa.RecordBatch.from_arrays([piece.column(1), numbers, *piece.columns[2:]], schema=schema))
            by_value.finish()
            kept = _Kept(self.most)
            for part in by_value.filled():
                pairs = _Pairs(self.groups)
                for piece in by_value.pieces(part):
                    pairs.add(piece.column(1).to_numpy(), piece.column(0), *piece.columns[2:])
                kept.add(pairs)
            yield from kept.pairs()


@dataclass(frozen=True, slots=True)
class ListedValues:
    """Pairs of a value and a group, each at least once: those that units keep."""

    counted: ValueCounts | ChosenValueCounts

    @property
    def schema(self) -> pa.Schema:
        """What it needs of each row."""
        return self.counted.schema

    def made(self, parts: ByUnit, spill: Path, threads: int) -> list[tuple[pa.Array, Array]]:  # noqa: ARG002
        """Values and groups."""
        if isinstance(self.counted, ChosenValueCounts):
            return [each for each in self.counted.kept_values(parts, spill) if len(each[0])]
        return [_different(piece) for part in parts.filled() for piece in parts.pieces(part)]


def _different(rows: pa.RecordBatch) -> tuple[pa.Array, Array]:
    """The different pairs among rows of values and groups."""
    values, groups = Numbering(), rows.column(1).to_numpy().astype(np.int64)
    most = int(groups.max(initial=0)) + 1
    pairs = np.unique(values.of(rows.column(0)) * most + groups)
    if values.names is None:
        raise AssertionError("a piece has rows")
    return values.names.take(pa.array(pairs // most)), pairs % most


class _Pairs:
    """The different pairs of a group and a value of each unit, with the word of the first row of each."""

    def __init__(self, groups: int) -> None:
        self._groups = groups
        self._values, self._things = Numbering(), Numbering()
        self._pairs, self.words = np.empty(0, np.int64), np.empty(0, np.uint64)

    def add(self, units: Array, values: pa.Array, groups: pa.Array, words: pa.Array) -> None:
        """Take rows, in their order."""
        things = self._things.of(pa.array(self._values.of(values) * self._groups + groups.to_numpy()))
        pairs = np.concatenate([self._pairs, units << PAIR_BITS | things])
        words = np.concatenate([self.words, words.to_numpy()])
        firsts = first_places(pairs)
        self._pairs, self.words = pairs[firsts], words[firsts]

    @property
    def units(self) -> Array:
        """The unit of each pair."""
        return np.asarray(self._pairs >> PAIR_BITS)

    @property
    def things(self) -> Array:
        """The number of the group and value of each pair."""
        return np.asarray(self._pairs & (2**PAIR_BITS - 1))

    def kept(self, most: int) -> tuple[pa.Array, Array]:
        """The different values and groups that units keep."""
        return self.of(self.things[~beyond(self.units, self.things, self.words, most)])

    def of(self, things: Array) -> tuple[pa.Array, Array]:
        """Different values and groups by their numbers."""
        if self._things.names is None or self._values.names is None:
            return pa.nulls(0), np.empty(0, np.int64)
        pairs = self._things.names.to_numpy()[np.unique(things)]
        return self._values.names.take(pa.array(pairs // self._groups)), pairs % self._groups


class _Kept:
    """Pairs that units keep of those that have been seen: a pair that is too many among some is too many among all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._units, self._words, self._places = np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64)
        self._values: list[pa.Array] = []
        self._groups = np.empty(0, np.int64)

    def add(self, pairs: _Pairs) -> None:
        """Take all pairs of some values."""
        if not len(pairs.units):
            return
        places = np.flatnonzero(~beyond(pairs.units, pairs.things, pairs.words, self._most))
        order = places[np.argsort(pairs.things[places], kind="stable")]
        things, inverse = np.unique(pairs.things[order], return_inverse=True)
        values, groups = pairs.of(things)
        numbers = inverse + len(self._groups)
        self._units = np.concatenate([self._units, pairs.units[order]])
        self._words = np.concatenate([self._words, pairs.words[order]])
        self._places = np.concatenate([self._places, numbers])
        self._values.append(values)
        self._groups = np.concatenate([self._groups, groups])
        left = ~beyond(self._units, self._places, self._words, self._most)
        self._units, self._words, self._places = self._units[left], self._words[left], self._places[left]
        self._forget()

    def _forget(self) -> None:
        """Drop values that nobody keeps, when they are most."""
        used, places = np.unique(self._places, return_inverse=True)
        if len(self._groups) > PIECE_ROWS and 2 * len(used) < len(self._groups):
            self._values = [pa.concat_arrays(self._values).take(pa.array(used))]
            self._groups, self._places = self._groups[used], places

    def pairs(self) -> Iterator[tuple[pa.Array, Array]]:
        """Values and groups that some unit keeps."""
        if self._values:
            used = np.unique(self._places)
            yield pa.concat_arrays(self._values).take(pa.array(used)), self._groups[used]


@dataclass(frozen=True, slots=True)
class BoundedSums:
    """The sum of each group, where the absolute values of a unit sum to at most so much over all of its rows and groups.

    Values are whole steps. If those of a unit sum to T > `most`, each becomes ⌊|k|·most / T⌋ with its sign, so that they sum to at most
    `most` in integers.

    Attributes
    ----------
    unit : pyarrow.DataType
        Type in which units are compared.
    groups : int
        Number of groups.
    most : int
        Steps, at most 2^50.
    nameless : bool
        Whether a row that names no unit is one by itself.
    """

    unit: pa.DataType
    groups: int
    most: int
    nameless: bool

    @property
    def schema(self) -> pa.Schema:
        """Unit, steps and group."""
        return pa.schema([pa.field("unit", self.unit), pa.field("steps", pa.int64()), GROUP])

    def made(self, parts: ByUnit, spill: Path, threads: int) -> Array:  # noqa: ARG002
        """The sums, in steps: integers of Python."""
        high, low = np.zeros(self.groups, np.int64), np.zeros(self.groups, np.int64)

        for groups, above, below in chain.from_iterable(_each_part(parts, threads, self._of_part)):
            high[groups] += above
            low[groups] += below
        for piece in parts.pieces(NAMELESS) if self.nameless else ():
            groups, above, below = _added(piece.column(1).to_numpy(), piece.column(2).to_numpy())
            high[groups] += above
            low[groups] += below
        totals: Array = (high.astype(object) << LIMB_BITS) + low
        return totals

    def _of_part(self, parts: ByUnit, part: int) -> list[tuple[Array, Array, Array]]:
        """Groups, and both words of the sum of each, of the pieces of a part."""
        numbers, totals = Numbering(), Totals()
        for piece in parts.pieces(part):
            totals.add(numbers.of(piece.column(0)), np.abs(piece.column(1).to_numpy()))
        found = []
        for piece in parts.pieces(part):
            steps = scaled(piece.column(1).to_numpy(), numbers.of(piece.column(0)), totals, self.most)
            found.append(_added(steps, piece.column(2).to_numpy()))
        return found


def _added(steps: Array, groups: Array) -> tuple[Array, Array, Array]:
    """The different groups, and both words of the sum of each."""
    different, inverse = np.unique(groups, return_inverse=True)
    high, low = np.zeros(len(different), np.int64), np.zeros(len(different), np.int64)
    np.add.at(high, inverse, steps >> LIMB_BITS)
    np.add.at(low, inverse, steps & (2**LIMB_BITS - 1))
    return different, high, low


def _each_part(parts: ByUnit, threads: int, work: Callable[[ByUnit, int], Any]) -> list[Any]:
    """What is made of each part that has rows."""
    with ThreadPoolExecutor(threads) as workers:
        return list(workers.map(lambda part: work(parts, part), parts.filled()))
