"""How a row's cell says which group of its column the row is in. No cell can end a job: what is in no group has a code of its own."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore.batch.jobfile.times import EPOCH
from dpcore.batch.release.cells import Cells, OfNumbers, as_numbers, between, exact_ends
from dpcore.batch.release.group_fields import place_of_day
from dpcore.batch.release.points import ExactPoints, Points, needs_steps
from dpcore.batch.tables import dates
from dpcore.batch.tables.values import REAL_TYPES, Numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.tables.categories import Categories

    Array = npt.NDArray[Any]
    Key = str | int | list[float] | None


class GroupCells(Cells, Protocol):
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

    def lacks(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether it can hold the values."""
        return self.categories.accepts(kind)

    def fitted(self, kind: pa.DataType | None) -> ListedGroups:
        """With values of the column's type."""
        return replace(self, categories=self.categories.fitted(kind))

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

    def lacks(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def _in_steps(self, kind: pa.DataType) -> BinGroups:
        if not needs_steps(kind, self.edges):
            return self
        exact = ExactPoints.of(self.edges[1:-1], kind, counts_equal=True)
        return replace(self, exact=exact, ends=exact_ends(kind, self.edges[0], self.edges[-1]))

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

    def lacks(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether it can hold dates."""
        return dates.holds_days(kind)

    def fitted(self, kind: pa.DataType | None) -> DateGroups:  # noqa: ARG002
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
        begin = np.datetime64(self.first)
        days = np.arange(begin, begin + (self.last - self.first).days + 1)
        places = days.astype(f"datetime64[{self.by[0].upper()}]").astype(np.int64)
        return np.append(places - places[0], self.size).astype(np.int32)
