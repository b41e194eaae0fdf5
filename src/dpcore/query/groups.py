"""The declared groups of a query: which group each row is in, over one column or several."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.query.encoders import Encoder, OfNumbers, as_numbers, between, exact_ends
from dpcore.query.grids import ExactPoints, Points, needs_steps
from dpcore.query.group_fields import PRIVATE, Combinations, combinations_of, place_of_day
from dpcore.tables.types import dates
from dpcore.tables.types.categories import declared_by
from dpcore.tables.types.timed import EPOCH
from dpcore.tables.types.values import REAL_TYPES, Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from dpcore.tables.types.categories import Categories

    Key = str | int | list[float] | None
    from dpcore.query.group_fields import GroupColumn
    from dpcore.query.query_sections import Grouped

    Array = npt.NDArray[Any]
    Codes = npt.NDArray[np.int32]


DIRECT = 1 << 22
"""Combinations of codes up to which a table says the group of each; of more, groups are searched."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One column more of the combinations that are groups: the place of each combination of the columns so far.

    A combination of a place before and a code of this column is the number place · (size + 1) + code. Rows of no group have the place
    behind the last, and the code behind the last, so that they stay there.
    """

    size: int
    wanted: npt.NDArray[np.int64]
    places: npt.NDArray[np.int32] | None

    @classmethod
    def made(cls, before: int, size: int, numbers: npt.NDArray[np.int64]) -> Combination:
        """For these combinations, in order, of so many places before."""
        most = (before + 1) * (size + 1)
        if most > DIRECT:
            return cls(size, numbers, None)
        places = np.full(most, len(numbers), np.int32)
        places[numbers] = np.arange(len(numbers), dtype=np.int32)
        return cls(size, numbers, places)

    def after(self, places: Array, codes: Array) -> Array:
        """The places of combinations of places before and codes of this column."""
        numbers = places.astype(np.int64) * (self.size + 1) + codes
        if self.places is not None:
            return self.places[numbers]
        found = np.searchsorted(self.wanted, numbers)
        missed = self.wanted[np.minimum(found, len(self.wanted) - 1)] != numbers
        return np.where(missed, len(self.wanted), found)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Those combinations of columns that are groups.

    Attributes
    ----------
    codes : ndarray of shape (groups, columns)
        The codes of each group, in the order of the groups.
    steps : tuple of Combination
        One for each column.
    order : ndarray of shape (groups + 1,)
        The group of each place of the last step.
    """

    codes: npt.NDArray[np.int64]
    steps: tuple[Combination, ...]
    order: npt.NDArray[np.int32]

    @classmethod
    def among(cls, sizes: Sequence[int], codes: npt.NDArray[np.int64]) -> Wanted:
        """Of columns of these sizes; the rows of `codes` are distinct."""
        steps, places, before = [], np.zeros(len(codes), np.int64), 1
        for size, column in zip(sizes, codes.T, strict=True):
            numbers, inverse = np.unique(places * (size + 1) + column, return_inverse=True)
            steps.append(Combination.made(before, size, numbers))
            places, before = inverse.astype(np.int64), len(numbers)
        order = np.full(len(codes) + 1, len(codes), np.int32)
        order[places] = np.arange(len(codes), dtype=np.int32)
        return cls(codes, tuple(steps), order)

    def groups(self, read: Sequence[Array]) -> Codes:
        """The group of each row."""
        places: Array = np.zeros(len(read[0]), np.int32)
        for step, codes in zip(self.steps, read, strict=True):
            places = step.after(places, codes)
        groups: Codes = self.order[places]
        return groups


@dataclass(frozen=True, slots=True)
class Grouping:
    """Declared groups of rows, over all combinations of the groups of columns, or over those that are wanted.

    Attributes
    ----------
    columns : tuple of (str, GroupCells)
        Each column, and how it is read.
    wanted : Wanted or None
        None if all combinations are groups: the last column's groups then change fastest.
    listed : bool
        Whether the job lists the columns, and documents have the keys by column.
    released : bool
        Whether their keys are not declared, but released.
    """

    columns: tuple[tuple[str, GroupCells], ...]
    wanted: Wanted | None = None
    listed: bool = True
    released: bool = False

    @property
    def size(self) -> int:
        """Number of groups."""
        return math.prod(self._sizes) if self.wanted is None else len(self.wanted.codes)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(cells.size for _, cells in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(name for name, _ in self.columns)

    def for_type(self, dtype: Callable[[str], pa.DataType | None]) -> Grouping:
        """The same groups for columns of these types."""
        return replace(self, columns=tuple((name, cells.for_type(dtype(name))) for name, cells in self.columns))

    @property
    def key_type(self) -> pa.DataType:
        """Type of what `keyed` gives."""
        return pa.int32()

    def keyed(self, batch: pa.RecordBatch) -> pa.Array:
        """The number of the group of each row, −1 for rows of none."""
        codes = self.codes(batch)
        return pa.array(np.where(codes == self.size, -1, codes).astype(np.int32))

    def codes(self, batch: pa.RecordBatch) -> Codes:
        """The group of each row, and `size` for rows of none."""
        read = [cells.read(batch.column(name)) for name, cells in self.columns]
        if self.wanted is not None:
            return self.wanted.groups(read)
        joint, outside = read[0].astype(np.int32, copy=False), read[0] == self._sizes[0]
        if len(read) == 1:
            return joint
        for codes, size in zip(read[1:], self._sizes[1:], strict=True):
            joint = joint * np.int32(size) + codes.astype(np.int32, copy=False)
            outside |= codes == size
        return np.where(outside, np.int32(self.size), joint) if outside.any() else joint

    def column_codes(self) -> npt.NDArray[np.int64]:
        """The codes of each group in each column, of shape (groups, columns)."""
        if self.wanted is not None:
            return self.wanted.codes
        return np.stack(np.unravel_index(np.arange(self.size), self._sizes), axis=1).astype(np.int64)

    def keys(self) -> list[list[Key]]:
        """For each column its key of each group."""
        columns = [cells.keys() for _, cells in self.columns]
        if len(columns) == 1 and self.wanted is None:
            return columns
        return [list(map(keys.__getitem__, column.tolist())) for keys, column in zip(columns, self.column_codes().T, strict=True)]

    def parameters(self) -> dict[str, Any]:
        """The columns and the groups, as the document has them: one list of keys, or one for each column."""
        keys, said = self.keys(), {"groups_released": True} if self.released else {}
        if not self.listed:
            return {"group_by": self.names[0], "groups": keys[0], **said}
        return {"group_by": list(self.names), "groups": dict(zip(self.names, keys, strict=True)), **said}


def grouping_of(grouped: Grouped, *, listed: bool) -> Grouping:
    """The groups that a query declares, before the types of the columns are known.

    Raises
    ------
    JobError
        If a public table of groups is none: a column is missing, a row comes twice, or there are too many.
    StorageError
        If it cannot be read.
    """
    names, declared = grouped
    if declared == PRIVATE:
        raise AssertionError(names)
    if isinstance(declared, Combinations):
        found = combinations_of(names, declared)
        columns = tuple((name, ListedGroups(categories, null)) for name, (categories, null) in zip(names, found.columns, strict=True))
        return Grouping(columns, Wanted.among([cells.size for _, cells in columns], found.codes), listed)
    if not isinstance(declared, dict):
        return Grouping(((names[0], ListedGroups(_some(declared_by(declared)))),), None, listed)
    return Grouping(tuple((name, _cells(declared[name]) if name in declared else ParentGroups()) for name in names), None, listed)


def _cells(column: GroupColumn) -> GroupCells:
    if column.cuts is not None:
        return BinGroups.between(column.cuts, null=column.null)
    if column.by is not None and column.first is not None and column.last is not None:
        return DateGroups(column.by, column.first, column.last, column.null)
    return ListedGroups(_some(declared_by(column.values, k=column.k)), column.null)


def _some(categories: Categories | None) -> Categories:
    if categories is None:
        raise AssertionError("nothing is declared")
    return categories


class GroupCells(Encoder, Protocol):
    """The interface of the ways to read a column of groups: codes 0 … size − 1, and `size` for rows in none. They lack nothing."""

    @property
    def size(self) -> int:
        """Number of groups."""

    def keys(self) -> list[Key]:
        """The groups, as the document lists them."""


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """Declared values, and after them the nulls if they are a group.

    Attributes
    ----------
    categories : Categories
        The values.
    null : bool
        Whether rows without a value are a group.
    """

    categories: Categories
    null: bool = False

    @property
    def size(self) -> int:
        """Number of groups."""
        return self.categories.k + self.null

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return self.categories.wanted

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it can hold the values."""
        return self.categories.accepts(dtype)

    def for_type(self, dtype: pa.DataType | None) -> ListedGroups:
        """With values of the column's type."""
        return replace(self, categories=self.categories.for_type(dtype))

    def read(self, cells: pa.Array) -> Array:
        """The codes."""
        codes, absent = self.categories.codes(cells)
        k = self.categories.k
        if _backend.first_outside(codes, k, 1) >= 0:
            codes = np.where((codes < 0) | (codes >= k), np.int64(self.size), codes)
        return codes if absent is None else np.where(absent, np.int64(k if self.null else self.size), codes)

    def keys(self) -> list[Key]:
        """The values; None for nulls."""
        listed: list[Key] = list(self.categories.listed())
        return [*listed, None] if self.null else listed


@dataclass(frozen=True, slots=True)
class ParentGroups:
    """Groups that a look-up says, until it is read (`nested_lookups`)."""

    size = 0
    wanted = "text or integers"

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:  # noqa: ARG002
        """Whether it can hold the groups, which are not known yet."""
        return True

    def for_type(self, dtype: pa.DataType | None) -> ParentGroups:  # noqa: ARG002
        """Return the same."""
        return self

    def read(self, cells: pa.Array) -> Array:
        """Not known yet."""
        raise AssertionError(len(cells))

    def keys(self) -> list[Key]:
        """Not known yet."""
        raise AssertionError


@dataclass(frozen=True, slots=True)
class BinGroups(OfNumbers):
    """Bins [edges[i], edges[i+1]) of numbers, the last with its right edge; numbers outside are in none.

    Attributes
    ----------
    edges : tuple of float
        Increasing.
    null : bool
        Whether rows without a number are a group, the last.
    """

    edges: tuple[float, ...]
    null: bool
    _inner: Points = field(repr=False, compare=False)
    exact: ExactPoints | None = field(default=None, repr=False, compare=False)
    ends: tuple[ExactPoints, ExactPoints] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def between(cls, edges: tuple[float, ...], *, null: bool) -> BinGroups:
        """Bins between these edges."""
        return cls(edges, null, Points(edges[1:-1]))

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.edges) - 1 + self.null

    @property
    def _bound(self) -> object:
        return self.edges[0]

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def _in_steps(self, dtype: pa.DataType) -> BinGroups:
        if not needs_steps(dtype, self.edges):
            return self
        exact = ExactPoints.of(self.edges[1:-1], dtype, counts_equal=True)
        return replace(self, exact=exact, ends=exact_ends(dtype, self.edges[0], self.edges[-1]))

    def read(self, cells: pa.Array) -> Array:
        """The number of each row's bin."""
        if self.exact is not None and self.ends is not None:
            places, absent = self.exact.places(cells)
            codes = np.where(between(cells, *self.ends), places, self.size)
            return codes if absent is None or not self.null else np.where(absent, len(self.edges) - 1, codes)
        cells = as_numbers(cells, self.sort)
        numbers = Numbers(REAL_TYPES, False, (self.edges[0], self.edges[-1]), 0).read(cells)  # noqa: FBT003
        absent = np.zeros(len(cells), np.bool_) if not cells.null_count else cells.is_null().to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "f":
            # Narrow floats would be compared in their own precision here, and in float64 where a null has widened the piece.
            numbers = numbers.astype(np.float64, copy=False)
            absent = absent | np.isnan(numbers)
        inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        codes = np.where(inside, self._inner.not_above(numbers), self.size)
        return np.where(absent, len(self.edges) - 1 if self.null else self.size, codes)

    def keys(self) -> list[Key]:
        """Both ends of each bin; None for nulls."""
        bins: list[Key] = [[low, high] for low, high in zip(self.edges[:-1], self.edges[1:], strict=True)]
        return [*bins, None] if self.null else bins


@dataclass(frozen=True)
class DateGroups:
    """Years, months or days from a first day to a last one.

    Attributes
    ----------
    by : str
        "year", "month" or "day".
    first, last : datetime.date
        Rows of other days are in no group.
    null : bool
        Whether rows without a date are a group, the last.
    """

    by: str
    first: dt.date
    last: dt.date
    null: bool = False

    @property
    def size(self) -> int:
        """Number of groups."""
        return place_of_day(self.last, self.by) - place_of_day(self.first, self.by) + 1 + self.null

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return dates.WANTED

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it can hold dates."""
        return dates.holds_days(dtype)

    def for_type(self, dtype: pa.DataType | None) -> DateGroups:  # noqa: ARG002
        """Return the same groups."""
        return self

    def read(self, cells: pa.Array) -> Array:
        """The number of each row's year, month or day."""
        first, last = (day.toordinal() - EPOCH for day in (self.first, self.last))
        days, absent = dates.days_of(cells, first, last)
        codes = self._codes[days - first]
        return codes if absent is None or not self.null else np.where(absent, np.int32(self.size - 1), codes)

    def keys(self) -> list[Key]:
        """The years, months and days as ISO 8601 writes them."""
        first, months = place_of_day(self.first, self.by), 12
        places = range(first, first + self.size - self.null)
        if self.by == "day":
            keys: list[Key] = [dt.date.fromordinal(place).isoformat() for place in places]
        elif self.by == "month":
            keys = [f"{place // months:04}-{place % months + 1:02}" for place in places]
        else:
            keys = [f"{place:04}" for place in places]
        return [*keys, None] if self.null else keys

    @cached_property
    def _codes(self) -> Array:
        """The group of each day from the first to the last, and of the day after it, which stands for all others."""
        days = np.arange(np.datetime64(self.first), np.datetime64(self.last) + np.timedelta64(1, "D"))
        places = days.astype(f"datetime64[{self.by[0].upper()}]").astype(np.int64)
        return np.append(places - places[0], self.size).astype(np.int32)
