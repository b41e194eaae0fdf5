"""How a query reads its columns, before and after their types are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcore.batch.jobfile.times import timed
from dpcore.batch.release.cells import Binned, Declared, OfNumbers, Present, Reals
from dpcore.batch.release.group_fields import PRIVATE
from dpcore.batch.release.grouping import Grouping, grouping_of
from dpcore.batch.release.private_grouping import PrivateGrouping
from dpcore.batch.release.query_fields import MAX_CELLS, SKIP
from dpcore.batch.release.query_sections import skips
from dpcore.batch.tables.categories import declared_by
from dpcore.errors import JobError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.group_cells import GroupCells
    from dpcore.batch.release.query_sections import BoundedQuery, CellsSection, QuerySection
    from dpcore.batch.tables.categories import Categories
    from dpcore.batch.tables.keys import KeyColumn
    from dpcore.batch.tables.pieces import FileInfo


@dataclass(frozen=True, slots=True)
class Read:
    """The way in which a query reads its columns, and the column of its groups."""

    cells: tuple[tuple[str, Cells], ...]
    groups: Grouping | PrivateGrouping | None

    def columns(self) -> list[tuple[str, Cells | GroupCells | KeyColumn]]:
        """The columns that are read, by name."""
        return [*self.cells, *(() if self.groups is None else self.groups.columns)]

    @property
    def only(self) -> Cells | None:
        """The way in which the single column of a query is read, if it has one."""
        return self.cells[0][1] if self.cells else None

    def fitted(self, info: FileInfo, derived: Mapping[str, pa.DataType]) -> Read:
        """Return the same for the types of a file, and of derived columns."""

        def kind(name: str) -> pa.DataType | None:
            return derived.get(name, None if info.types is None or name in derived else info.types[name])

        cells = tuple((name, _fitted(name, each, kind(name))) for name, each in self.cells)
        return Read(cells, None if self.groups is None else self.groups.fitted(kind))


def _fitted(name: str, cells: Cells, kind: pa.DataType | None) -> Cells:
    """Cells for a column of this type; what is wrong with numbers names the column."""
    try:
        return cells.fitted(kind)
    except JobError as error:
        raise JobError(f"column {name!r}: {error}" if isinstance(cells, OfNumbers) else str(error)) from None


def reals(query: QuerySection, columns: Iterable[tuple[str, Reals]]) -> tuple[tuple[str, Cells], ...]:
    """Numbers; if rows without one are skipped, followed by where they are."""
    asked = list(columns)
    if not skips(query):
        return tuple(asked)
    filled = [(name, replace(cells, missing=cells.bounds[0])) for name, cells in asked]
    return (*filled, *((name, Present(cells)) for name, cells in filled))


def celled(position: int, query: QuerySection, section: CellsSection) -> Declared | Binned:
    """Declared categories or bins."""
    if section.cuts is not None:
        skip = skips(section)
        missing = None if skip else timed(section.missing) or section.missing
        return Binned.between(section.cuts, None if missing is None else float(missing), skip=skip)
    categories = listed(position, query, declared_by(section.categories, section.categories_file, section.k))
    return Declared(categories, section.missing, section.unknown)


def clamped(query: BoundedQuery) -> tuple[tuple[str, Cells], ...]:
    """The numbers of a column between bounds."""
    stand_in = None if isinstance(query.missing, str) else query.missing
    return reals(query, [(query.column, Reals((query.lower, query.upper), stand_in, are_floats=query.bounds is not None))])


def check_stand_ins(section: CellsSection, cells: Binned | Declared, *, skips: bool) -> None:
    """Check the replacements in a file of categories, which was not read when the job was; `skips` if rows may be left out."""
    for key in ("missing", "unknown"):
        value = getattr(section, key)
        if value == SKIP and skips:
            continue
        if isinstance(cells, Declared) and value is not None and cells.categories.code(value) is None:
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
        raise JobError(f"query[{position}] ({query.name!r}): there are {categories.k} categories, and at most {MAX_CELLS} are allowed")
    return categories
