"""How a query reads its columns, before and after their types are known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError, ParameterError
from dpcore.query.encoders import Bins, Categorical, Clamped, OfNumbers, Present
from dpcore.query.fields import MAX_CELLS, SKIP
from dpcore.query.group_fields import MAX_GROUPS, PRIVATE
from dpcore.query.groups import Grouping, Wanted, grouping_of
from dpcore.query.query_sections import skips
from dpcore.tables.mistakes import Mistake, MistakesError
from dpcore.tables.types.categories import declared_by
from dpcore.tables.types.keys import KeyColumn, encoded, parts_of
from dpcore.tables.types.timed import timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from dpcore.query.encoders import Encoder
    from dpcore.query.groups import GroupCells
    from dpcore.query.query_sections import BoundedQuery, CellsSection, QuerySection
    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.types.categories import Categories
    from dpcore.tables.types.keys import Key

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """The released keys of one column, as the groups that they are from then on.

    Attributes
    ----------
    column : KeyColumn
        The column.
    parts : pyarrow.Array
        Its released values as bytes, in order.
    numbers : ndarray of uint64
        The same as numbers, if the column is no text.
    """

    column: KeyColumn
    parts: pa.Array
    numbers: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, column: KeyColumn, parts: pa.Array) -> KeyGroups:
        """The groups of these values."""
        return cls(column, parts, np.empty(0, np.uint64) if column.is_text else column.numbers_of(parts))

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.parts)

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return self.column.wanted

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it can hold keys."""
        return self.column.accepts(dtype)

    def for_type(self, dtype: pa.DataType | None) -> KeyGroups:  # noqa: ARG002
        """Return the same groups: they were found in columns of this type."""
        return self

    def read(self, cells: pa.Array) -> Array:
        """The code of each row."""
        if not self.column.is_text:
            return self._found(*self.column.numbers(cells))
        found: Array = pc.fill_null(pc.index_in(self.column.encoded(cells), value_set=self.parts, skip_nulls=True), self.size).to_numpy()
        return found

    def _found(self, numbers: npt.NDArray[np.uint64], absent: npt.NDArray[np.bool_]) -> Array:
        """The places of numbers, which a search finds sooner than a hash table that is made for each piece."""
        places = np.searchsorted(self.numbers, numbers)
        known = np.append(self.numbers, np.uint64(0))[places] == numbers
        return np.where(known & ~absent & (places < self.size), places, self.size)

    def keys(self) -> list[Key | list[float] | None]:
        """The values."""
        return [self.column.value(part) for part in self.parts.to_pylist()]


@dataclass(frozen=True, slots=True)
class PrivateGrouping:
    """Groups by columns whose keys are not known before a selection.

    Attributes
    ----------
    columns : tuple of (str, KeyColumn)
        Each column, and how its cells are keys.
    listed : bool
        Whether the job lists the columns, and documents have the keys by column.
    """

    columns: tuple[tuple[str, KeyColumn], ...]
    listed: bool

    @classmethod
    def by(cls, names: Sequence[str], *, listed: bool) -> PrivateGrouping:
        """Before the types of the columns are known."""
        return cls(tuple((name, KeyColumn(name)) for name in names), listed)

    @property
    def size(self) -> int:
        """The largest number of groups that is ever released: noise must be enough for it."""
        return MAX_GROUPS

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(name for name, _ in self.columns)

    @property
    def key_type(self) -> pa.DataType:
        """Type of what says which group a row is in."""
        return pa.binary()

    def for_type(self, dtype: Callable[[str], pa.DataType | None]) -> PrivateGrouping:
        """The same groups for columns of these types."""
        return replace(self, columns=tuple((name, column.for_type(dtype(name))) for name, column in self.columns))

    def keyed(self, batch: pa.RecordBatch) -> pa.Array:
        """The key of each row, as bytes; null in no group."""
        return encoded([column for _, column in self.columns], [batch.column(name) for name in self.names])

    def codes(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Not known yet: answers have the groups of `released` when rows are added up."""
        raise AssertionError(self.names, len(batch))

    def parameters(self) -> dict[str, Any]:
        """What the document has before the keys are known."""
        return {"group_by": list(self.names) if self.listed else self.names[0], "groups": "private"}

    def released(self, keys: Sequence[bytes]) -> Grouping:
        """The groups of these keys, which are in order."""
        columns = [column for _, column in self.columns]
        parts = [parts_of(columns, key) for key in keys]
        found = [pa.array(sorted({each[place] for each in parts}), pa.binary()) for place in range(len(columns))]
        made = tuple((column.name, KeyGroups.of(column, values)) for column, values in zip(columns, found, strict=True))
        if len(columns) == 1:
            return Grouping(made, None, self.listed, released=True)
        columns_of_parts = (pa.array([each[place] for each in parts], pa.binary()) for place in range(len(columns)))
        codes = [pc.index_in(part, value_set=values) for part, values in zip(columns_of_parts, found, strict=True)]
        wanted = Wanted.among([len(values) for values in found], np.stack(codes, axis=1).astype(np.int64))
        return Grouping(made, wanted, self.listed, released=True)


@dataclass(frozen=True, slots=True)
class Read:
    """The way in which a query reads its columns, and the column of its groups."""

    cells: tuple[tuple[str, Encoder], ...]
    groups: Grouping | PrivateGrouping | None

    def columns(self) -> list[tuple[str, Encoder | GroupCells | KeyColumn]]:
        """The columns that are read, by name."""
        return [*self.cells, *(() if self.groups is None else self.groups.columns)]

    @property
    def only(self) -> Encoder | None:
        """The way in which the single column of a query is read, if it has one."""
        return self.cells[0][1] if self.cells else None

    def for_type(self, info: FileInfo, derived: Mapping[str, pa.DataType]) -> Read:
        """Return the same for the types of a file, and of derived columns."""

        def kind(name: str) -> pa.DataType | None:
            return derived.get(name, None if info.types is None or name in derived else info.types[name])

        cells = tuple((name, _fitted(name, each, kind(name))) for name, each in self.cells)
        return Read(cells, None if self.groups is None else self.groups.for_type(kind))


def _fitted(name: str, cells: Encoder, dtype: pa.DataType | None) -> Encoder:
    """Cells for a column of this type; what is wrong with numbers names the column."""
    try:
        return cells.for_type(dtype)
    except JobError as error:
        raise JobError(f"column {name!r}: {error}" if isinstance(cells, OfNumbers) else str(error)) from None


def reals(query: QuerySection, columns: Iterable[tuple[str, Clamped]]) -> tuple[tuple[str, Encoder], ...]:
    """Numbers; if rows without one are skipped, followed by where they are."""
    asked = list(columns)
    if not skips(query):
        return tuple(asked)
    filled = [(name, replace(cells, missing=cells.bounds[0])) for name, cells in asked]
    return (*filled, *((name, Present(cells)) for name, cells in filled))


def celled(position: int, query: QuerySection, section: CellsSection) -> Categorical | Bins:
    """Declared categories or bins."""
    if section.cuts is not None:
        skip = skips(section)
        missing = None if skip else timed(section.missing) or section.missing
        return Bins.between(section.cuts, None if missing is None else float(missing), skip=skip)
    categories = listed(position, query, declared_by(section.categories, section.categories_file, section.k))
    return Categorical(categories, section.missing, section.unknown)


def clamped(query: BoundedQuery) -> tuple[tuple[str, Encoder], ...]:
    """The numbers of a column between bounds."""
    stand_in = None if isinstance(query.missing, str) else query.missing
    return reals(query, [(query.column, Clamped((query.lower, query.upper), stand_in, are_floats=query.bounds is not None))])


def check_stand_ins(section: CellsSection, cells: Bins | Categorical, *, skips: bool) -> None:
    """Check the replacements in a file of categories, which was not read when the job was; `skips` if rows may be left out."""
    for key in ("missing", "unknown"):
        value = getattr(section, key)
        if value == SKIP and skips:
            continue
        if isinstance(cells, Categorical) and value is not None and cells.categories.code(value) is None:
            raise ParameterError(f"{section.whose_cells}{key} must be one of the categories, got {value!r}")


def groups_of(query: QuerySection) -> Grouping | PrivateGrouping | None:
    """The groups of a query, if it has some."""
    if query.grouping is None:
        return None
    are_listed = not isinstance(getattr(query, "group_by", None), str)
    names, groups = query.grouping
    return PrivateGrouping.by(names, listed=are_listed) if groups == PRIVATE else grouping_of(query.grouping, listed=are_listed)


def listed(position: int, query: QuerySection, categories: Categories | None) -> Categories:
    """The declared categories, if they are not too many."""
    if categories is None:
        raise AssertionError("nothing is declared")
    if categories.k > MAX_CELLS:
        text = f"there are {categories.k} categories, and at most {MAX_CELLS} are allowed"
        raise MistakesError(Mistake(("query", position), text, about=f" ({query.name!r})"))
    return categories
