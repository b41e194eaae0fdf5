"""The declared groups of a query: which group each row is in, over one column or several."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.batch.release.group_cells import BinGroups, DateGroups, GroupCells, ListedGroups
from dpcore.batch.release.group_fields import MAX_GROUPS, PRIVATE, Combinations, GroupColumn
from dpcore.batch.release.group_tables import combinations_of
from dpcore.batch.tables.categories import declared_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from dpcore.batch.release.group_cells import Key
    from dpcore.batch.release.query_sections import Grouped
    from dpcore.batch.tables.categories import Categories

    Array = npt.NDArray[Any]
    Codes = npt.NDArray[np.int32]

DIRECT = 1 << 22
"""Combinations of codes up to which a table says the group of each; of more, groups are searched."""


@dataclass(frozen=True, slots=True)
class Step:
    """One column more of the combinations that are groups: the place of each combination of the columns so far.

    A combination of a place before and a code of this column is the number place · (size + 1) + code. Rows of no group have the place
    behind the last, and the code behind the last, so that they stay there.
    """

    size: int
    wanted: npt.NDArray[np.int64]
    places: npt.NDArray[np.int32] | None

    @classmethod
    def made(cls, before: int, size: int, numbers: npt.NDArray[np.int64]) -> Step:
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
    steps : tuple of Step
        One for each column.
    order : ndarray of shape (groups + 1,)
        The group of each place of the last step.
    """

    codes: npt.NDArray[np.int64]
    steps: tuple[Step, ...]
    order: npt.NDArray[np.int32]

    @classmethod
    def among(cls, sizes: Sequence[int], codes: npt.NDArray[np.int64]) -> Wanted:
        """Of columns of these sizes; the rows of `codes` are distinct."""
        steps, places, before = [], np.zeros(len(codes), np.int64), 1
        for size, column in zip(sizes, codes.T, strict=True):
            numbers, inverse = np.unique(places * (size + 1) + column, return_inverse=True)
            steps.append(Step.made(before, size, numbers))
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

    def fitted(self, kind: Callable[[str], pa.DataType | None]) -> Grouping:
        """The same groups for columns of these types."""
        return replace(self, columns=tuple((name, cells.fitted(kind(name))) for name, cells in self.columns))

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

    def keys(self) -> list[list[Key]]:
        """For each column its key of each group."""
        columns = [cells.keys() for _, cells in self.columns]
        codes = np.unravel_index(np.arange(self.size), self._sizes) if self.wanted is None else tuple(self.wanted.codes.T)
        return [[keys[code] for code in column.tolist()] for keys, column in zip(columns, codes, strict=True)]

    def declared(self) -> dict[str, Any]:
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
    return Grouping(tuple((name, _cells(declared[name])) for name in names), None, listed)


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


__all__ = ["MAX_GROUPS", "Grouping", "Wanted", "grouping_of"]
