"""Exact statistics of rows, one for each group: what a pass over a table adds up, in one thread or in many, on one machine or on several.

A table without groups is one group that all rows are in. A statistic is exact: a count, or a sum of integers. So totals of parts of a table
are added with `+=` to the total of all rows, whichever rows each part has. A total is an array of integers, or has two lists of arrays:
`wide`, whose rows are a sum of 128 bits in two words and a number of rows, and `narrow`, of integers of 64 bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.query.grids import CACHED, LOG_BINS, MOST_STEPS, STEP_BITS, Moments, parts_of, rows_of
from dpcore.sums import ExactSum, clamped_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.query.encoders import Encoder
    from dpcore.query.grids import Steps
    from dpcore.query.groups import Grouping
    from dpcore.query.reads import PrivateGrouping

    Array = npt.NDArray[Any]
    Codes = npt.NDArray[np.int32]
    Counts = npt.NDArray[np.int64]

WIDTH = 3
"""Words of a wide row: the lower and the upper one of a sum, and a number of rows."""


@dataclass(frozen=True, slots=True)
class ReadRows:
    """What a query reads of some rows.

    Attributes
    ----------
    n : int
        How many rows.
    columns : list of ndarray
        What each of its `reads` read of them.
    codes : ndarray of int32 or None
        The group of each row, one behind the last for a row of none; None without groups.
    words : ndarray of uint64 or None
        A random word for each row, if the statistic draws them.
    """

    n: int
    columns: list[Array]
    codes: Codes | None = None
    words: Array | None = None

    def each(self, change: Callable[[Array], Array], n: int) -> ReadRows:
        """The same rows, or so many of them, with each array changed."""
        codes, words = (None if each is None else change(each) for each in (self.codes, self.words))
        return ReadRows(n, [change(each) for each in self.columns], codes, words)

    def held(self, count: int = 1) -> ReadRows:
        """With so many columns, without the rows where one of the masks that follow them is false."""
        columns, masks = self.columns[:count], self.columns[count:]
        rows = ReadRows(self.n, columns, self.codes, self.words)
        if not masks:
            return rows
        kept = np.logical_and.reduce(masks)
        return rows if kept.all() else rows.each(lambda values: values[kept], int(np.count_nonzero(kept)))


class Statistic(ABC):
    """An exact statistic of rows.

    Attributes
    ----------
    in_order : bool
        Whether rows are added in their order by one thread; otherwise each thread has a total of its own.
    of_all_rows : bool
        Whether rows count that their unit does not keep.
    draws_words : bool
        Whether units choose among their rows by random words.
    listed : Statistic or None
        What parts of a table list where only all of them together can count: pairs of an array of values and one of their groups.
    """

    __slots__ = ()
    in_order: ClassVar[bool] = False

    @property
    def of_all_rows(self) -> bool:
        """Whether rows count that their unit does not keep."""
        return False

    @property
    def draws_words(self) -> bool:
        """Whether units choose among their rows by random words."""
        return False

    @property
    def listed(self) -> Statistic | None:
        """What parts of a table list, where only all of them together can count."""
        return None

    @abstractmethod
    def zero(self, spill: Path) -> Any:
        """The total of no rows; `spill` is a folder for what does not fit into memory."""

    def select(self, rows: ReadRows) -> Any:
        """What is added of some rows: computed by any thread."""
        return rows

    @abstractmethod
    def add(self, total: Any, selected: Any) -> None:
        """Add rows to a total, in place."""

    def finish(self, total: Any, threads: int) -> Any:  # noqa: ARG002
        """The statistic of all rows that were added."""
        return total

    def used(self, total: Any) -> int | None:  # noqa: ARG002
        """Rows in groups that a total counts, without those that are left out for what they hold; None if it does not tell."""
        return None

    def united(self, total: Any, places: npt.NDArray[np.int64], groups: int) -> Any:
        """The total of coarser groups, so many, given the one of each group: of counts, with those of rows in no group behind the last."""
        united = np.zeros((groups + 1, *total.shape[1:]), total.dtype)
        np.add.at(united, np.append(places, groups), total)
        return united


@dataclass(frozen=True, slots=True)
class Measure:
    """What a pass computes for a query.

    Attributes
    ----------
    reads : tuple of (str, Cells)
        The columns that it needs, and how each is read.
    statistic : Statistic
        What is computed of them.
    grouping : Grouping or PrivateGrouping or None
        The groups of rows.
    """

    reads: tuple[tuple[str, Encoder], ...]
    statistic: Statistic
    grouping: Grouping | PrivateGrouping | None = None

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        return [*(name for name, _ in self.reads), *(() if self.grouping is None else self.grouping.names)]


@dataclass(frozen=True, slots=True)
class CellsOf(Statistic):
    """Rows of each group in each of so many cells; those of no cell are behind the last, and those of no group in a row of their own."""

    groups: int
    cells: int

    def zero(self, spill: Path) -> Counts:  # noqa: ARG002
        return np.zeros((self.groups + 1, self.cells + 1), np.int64)

    def add(self, total: Counts, selected: ReadRows) -> None:
        (cells,), codes = selected.columns, selected.codes
        if codes is None:
            total[0] += _backend.code_counts(cells, self.cells + 1, threads=1)
        else:
            _backend.add_code_counts(total.reshape(-1), codes * np.int32(total.shape[1]) + cells.astype(np.int32, copy=False))

    def used(self, total: Counts) -> int:
        return int(total[:-1, :-1].sum())


class SumsOfGroups:
    """An exact sum for each group, and its number of rows: 128-bit integers in units of a grid, and behind the last the rows of no group.

    Parameters
    ----------
    groups : int
        How many.
    lower, upper : float
        Bounds to which each value is clamped.
    """

    __slots__ = ("_bounds", "_empty", "totals")
    narrow = ()

    def __init__(self, groups: int, lower: float, upper: float) -> None:
        self._bounds, self._empty = (lower, upper), clamped_sum(np.empty(0), lower, upper)
        self.totals = np.zeros((groups + 1, WIDTH), np.int64)

    def add(self, values: Array, codes: Codes | None) -> None:
        """Add values to the sums of their groups, or all of them to the first."""
        if codes is None:
            total = clamped_sum(values, *self._bounds, threads=1)
            add_whole(self.totals[0], total.integers, total.n)
        else:
            one = self._empty
            _backend.add_grouped_sums(self.totals, values.astype(np.float64, copy=False), codes, one.lower, one.upper, one.grid)

    def __iadd__(self, other: SumsOfGroups) -> Self:
        _backend.merge_grouped_sums(self.totals, other.totals)
        return self

    @property
    def wide(self) -> list[Counts]:
        """What it is made of."""
        return [self.totals]

    @property
    def counts(self) -> Counts:
        """Rows of each group."""
        return np.ascontiguousarray(self.totals[:-1, 2])

    @property
    def sums(self) -> ExactSum:
        """The sum of each group."""
        one, (high, low) = self._empty, _backend.grouped_pairs(self.totals[:-1], self._empty.grid)
        return ExactSum(high, low, one.grid, int(self.totals[:-1, 2].max(initial=0)), one.lower, one.upper)


def add_whole(total: Counts, integer: Any, rows: int) -> None:
    """Add an integer of 128 bits, and a number of rows, to a row of sums: low and high word, and rows."""
    whole = (int(total[1]) << 64) + (int(total[0]) % 2**64) + integer
    low = whole % 2**64
    total[:] = low - 2**64 if low >= 2**63 else low, whole >> 64, int(total[2]) + rows


@dataclass(frozen=True, slots=True)
class SumOf(Statistic):
    """The sum of each group's numbers, clamped to bounds, as distances from an origin; and its number of rows."""

    groups: int
    lower: float
    upper: float
    origin: float | None = None

    def zero(self, spill: Path) -> SumsOfGroups:  # noqa: ARG002
        return SumsOfGroups(self.groups, self.lower, self.upper)

    def add(self, total: SumsOfGroups, selected: ReadRows) -> None:
        rows = selected.held()
        total.add(self._distances(rows.columns[0]), rows.codes)

    def used(self, total: SumsOfGroups) -> int:
        return int(total.counts.sum())

    def united(self, total: SumsOfGroups, places: npt.NDArray[np.int64], groups: int) -> SumsOfGroups:
        united = SumsOfGroups(groups, self.lower, self.upper)
        for place, (low, high, rows) in zip([*places.tolist(), groups], total.totals.tolist(), strict=True):
            add_whole(united.totals[place], (high << 64) + low % 2**64, rows)
        return united

    def _distances(self, values: Array) -> Array:
        if self.origin is None:
            return values
        with np.errstate(over="ignore"):
            distances: Array = values.astype(np.float64) - self.origin
        return distances


@dataclass(frozen=True, slots=True)
class LogBinsOf(Statistic):
    """How many numbers lie in each power of two, in all of so many groups together."""

    groups: int

    def zero(self, spill: Path) -> Counts:  # noqa: ARG002
        return np.zeros(LOG_BINS, np.int64)

    def add(self, total: Counts, selected: ReadRows) -> None:
        """Count numbers of rows that are in some group."""
        rows = selected.held()
        (numbers,), codes = rows.columns, rows.codes
        total += rows_of(numbers if codes is None else numbers[codes < self.groups])


class MomentsOfGroups:
    """Exact sums of each group's steps, and of both halves of their products; behind the last those of the rows of no group.

    Parameters
    ----------
    groups : int
        How many.
    parts : int
        Sums of each.
    """

    __slots__ = ("totals",)
    narrow = ()

    def __init__(self, groups: int, parts: int) -> None:
        self.totals = [np.zeros((groups + 1, WIDTH), np.int64) for _ in range(parts)]

    def __iadd__(self, other: Self) -> Self:
        for mine, others in zip(self.totals, other.totals, strict=True):
            _backend.merge_grouped_sums(mine, others)
        return self

    @property
    def wide(self) -> list[Counts]:
        """What it is made of."""
        return self.totals

    @property
    def groups(self) -> int:
        """Number of groups; rows of none are added behind the last."""
        return len(self.totals[0]) - 1

    def exact(self, start: int, stop: int) -> Exact:
        """The sums of some groups."""
        *sums, high, low = (wholes(total[start:stop]) for total in self.totals)
        return Exact(self.totals[0][start:stop, 2], sums, (high << STEP_BITS) + low)

    def each(self) -> Iterator[Moments]:
        """The moments of the groups, one after the other."""
        exact = self.exact(0, self.groups)
        for n, product, *sums in zip(exact.counts.tolist(), exact.products, *exact.sums, strict=True):
            yield Moments(n, tuple(sums), product)


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact moments of some groups: rows, Σk or Σk and Σl, and Σk² or Σkl; all but the first are integers of Python."""

    counts: npt.NDArray[np.int64]
    sums: list[Array]
    products: Array


def wholes(words: Array) -> Array:
    """The integers whose two words, the lower one first, are rows of an array."""
    low, high = words[:, 0].copy().view(np.uint64).astype(object), words[:, 1].astype(object)
    whole: Array = (high << 64) + low
    return whole


def words_of(integers: Array) -> Counts:
    """The words of integers of Python, as rows of sums have them; see `wholes`."""
    words = np.zeros((len(integers), WIDTH), np.int64)
    some = np.flatnonzero(integers)
    words[some, 0] = (integers[some] % 2**64).astype(np.uint64).view(np.int64)
    words[some, 1] = (integers[some] >> 64).astype(np.int64)
    return words


@dataclass(frozen=True, slots=True)
class MomentsOf(Statistic):
    """The sums of each group's steps, and of both halves of their products."""

    groups: int
    steps: tuple[Steps, ...]

    def zero(self, spill: Path) -> MomentsOfGroups:  # noqa: ARG002
        return MomentsOfGroups(self.groups, len(self.steps) + 2)

    def add(self, total: MomentsOfGroups, selected: ReadRows) -> None:
        rows = selected.held(len(self.steps))
        if rows.codes is None:
            self._add_all(total, rows.columns)
            return
        columns = [steps.of(each) for steps, each in zip(self.steps, rows.columns, strict=True)]
        for totals, part in zip(total.totals, parts_of(columns), strict=True):
            # Integers of at most 31 bits are whole steps of a grid of 1.
            _backend.add_grouped_sums(totals, part.astype(np.float64), rows.codes, 0.0, MOST_STEPS, 1.0)

    def used(self, total: MomentsOfGroups) -> int:
        return int(total.totals[0][:-1, 2].sum())

    def _add_all(self, total: MomentsOfGroups, columns: list[Array]) -> None:
        """Add all rows to the first group, in blocks that stay in the cache."""
        sums = [0] * len(total.totals)
        for start in range(0, len(columns[0]), CACHED):
            block = [steps.of(numbers[start : start + CACHED]) for steps, numbers in zip(self.steps, columns, strict=True)]
            sums = [known + int(part.sum()) for known, part in zip(sums, parts_of(block), strict=True)]
        for totals, part in zip(total.totals, sums, strict=True):
            add_whole(totals[0], part, len(columns[0]))
