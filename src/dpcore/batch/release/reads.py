"""How each kind of query reads its columns, before and after their types are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcore.batch.jobfile.times import Timed, timed
from dpcore.batch.release.cells import Binned, Declared, Held, OfNumbers, OnGrid, Present, Reals, Within
from dpcore.batch.release.group_fields import PRIVATE
from dpcore.batch.release.grouping import Grouping, grouping_of
from dpcore.batch.release.people_cells import DifferentCells, UnitCells
from dpcore.batch.release.private_grouping import PrivateGrouping
from dpcore.batch.release.queries import (
    BoundedQuery,
    CellsSection,
    CountDistinctQuery,
    CountQuery,
    CovarianceQuery,
    GridQuery,
    HistogramQuery,
    SyntheticQuery,
    TopQuery,
    is_about_units,
    skips,
)
from dpcore.batch.release.query_fields import MAX_CELLS
from dpcore.batch.tables.categories import declared_by
from dpcore.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.group_cells import GroupCells
    from dpcore.batch.release.queries import Query
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


def read_of(position: int, query: Query, unit: str = "row") -> Read:
    """How a query reads its columns, and that of its groups, as far as the job says; one about whole units reads the unit first."""
    units: tuple[tuple[str, Cells], ...] = ((unit, UnitCells()),) if unit != "row" and is_about_units(query) else ()
    return Read((*units, *_cells(position, query)), _groups(query))


def _cells(position: int, query: Query) -> tuple[tuple[str, Cells], ...]:
    """The columns of a query, and how it reads them, before their types are known."""
    if isinstance(query, SyntheticQuery):
        return tuple((column.name, _celled(position, query, column)) for column in query.columns)
    if isinstance(query, CovarianceQuery):
        missing = query.missing if isinstance(query.missing, tuple) else (None, None)
        bounds = zip(query.columns, query.lower, query.upper, missing, strict=True)
        return _reals(query, ((name, Reals((lower, upper), stand_in)) for name, lower, upper, stand_in in bounds))
    if isinstance(query, BoundedQuery):
        stand_in = None if isinstance(query.missing, str) else query.missing
        return _reals(query, [(query.column, Reals((query.lower, query.upper), stand_in, are_floats=query.bounds is not None))])
    return () if query.column is None else ((query.column, _declared(position, query)),)


def _reals(query: Query, columns: Iterable[tuple[str, Reals]]) -> tuple[tuple[str, Cells], ...]:
    """Numbers; if rows without one are skipped, followed by where they are."""
    listed = list(columns)
    if not skips(query):
        return tuple(listed)
    filled = [(name, replace(reals, missing=reals.bounds[0])) for name, reals in listed]
    return (*filled, *((name, Present(reals)) for name, reals in filled))


def _celled(position: int, query: Query, section: CellsSection) -> Declared | Binned:
    """Declared categories or bins."""
    if section.cuts is not None:
        skip = skips(section)
        missing = None if skip else timed(section.missing) or section.missing
        return Binned.between(section.cuts, None if missing is None else float(missing), skip=skip)
    categories = _listed(position, query, declared_by(section.categories, section.categories_file, section.k))
    return Declared(categories, section.missing, section.unknown)


def _declared(position: int, query: Query) -> Cells:
    """Return how a query reads its single column."""
    match query:
        case CountQuery(missing="skip"):
            return Held()
        case CountQuery(categories=None):
            return Within(_end(query.lower), _end(query.upper))
        case CountQuery():
            return Declared(_some(declared_by(query.categories)), skip=True)
        case HistogramQuery():
            return _celled(position, query, query)
        case GridQuery():
            missing = None if isinstance(query.missing, str) else query.missing
            return OnGrid.of(query.grid, missing, skip=skips(query), are_floats=query.bounds is not None)
        case CountDistinctQuery():
            if (declared := declared_by(query.categories, query.categories_file, query.k)) is None:
                return DifferentCells()
            return Declared(_listed(position, query, declared), skip=True)
        case TopQuery():
            categories = _listed(position, query, declared_by(query.candidates, query.candidates_file, query.k))
            if query.s > categories.k:
                raise JobError(
                    f"query[{position}] ({query.name!r}): s must be at most the number of candidates, {categories.k}, got {query.s}"
                )
            return Declared(categories, skip=True)
    raise AssertionError(query.kind)


def _end(bound: float | None) -> float:
    """A bound of a count: a date or time as it is, any number as a float."""
    return bound if isinstance(bound, Timed) else float(bound or 0.0)


def _groups(query: Query) -> Grouping | PrivateGrouping | None:
    """The groups of a query, if it has some."""
    if query.grouping is None:
        return None
    listed = not isinstance(getattr(query, "group_by", None), str)
    names, groups = query.grouping
    return PrivateGrouping.by(names, listed=listed) if groups == PRIVATE else grouping_of(query.grouping, listed=listed)


def _some(categories: Categories | None) -> Categories:
    if categories is None:
        raise AssertionError("nothing is declared")
    return categories


def _listed(position: int, query: Query, categories: Categories | None) -> Categories:
    listed = _some(categories)
    if listed.k > MAX_CELLS:
        raise JobError(f"query[{position}] ({query.name!r}): there are {listed.k} categories, and at most {MAX_CELLS} are allowed")
    return listed
