"""How each kind of query reads its columns, before and after their types are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcore.batch.release.cells import Binned, Declared, OnGrid, Reals, Within
from dpcore.batch.release.queries import (
    BoundedQuery,
    CellsSection,
    CountQuery,
    CovarianceQuery,
    GridQuery,
    HistogramQuery,
    SyntheticQuery,
    TopQuery,
)
from dpcore.batch.release.query_fields import MAX_CELLS
from dpcore.batch.tables.categories import declared_by
from dpcore.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.queries import Query
    from dpcore.batch.tables.categories import Categories
    from dpcore.batch.tables.pieces import FileInfo


@dataclass(frozen=True, slots=True)
class Read:
    """The way in which a query reads its columns, and the column of its groups."""

    cells: tuple[tuple[str, Cells], ...]
    groups: Declared | None

    def columns(self, query: Query) -> list[tuple[str, Cells]]:
        """The columns that are read, by name."""
        grouped = [] if query.grouping is None or self.groups is None else [(query.grouping[0], self.groups)]
        return [*self.cells, *grouped]

    @property
    def only(self) -> Cells | None:
        """The way in which the single column of a query is read, if it has one."""
        return self.cells[0][1] if self.cells else None

    def fitted(self, query: Query, info: FileInfo) -> Read:
        """Return the same for the types of a file."""

        def kind(name: str) -> pa.DataType | None:
            return None if info.types is None else info.types[name]

        cells = tuple((name, each.fitted(kind(name))) for name, each in self.cells)
        groups = None if self.groups is None or query.grouping is None else self.groups.fitted(kind(query.grouping[0]))
        return Read(cells, groups)


def read_of(position: int, query: Query) -> Read:
    """How a query reads its columns, and that of its groups, as far as the job says."""
    return Read(_cells(position, query), _groups(query))


def _cells(position: int, query: Query) -> tuple[tuple[str, Cells], ...]:
    """The columns of a query, and how it reads them, before their types are known."""
    if isinstance(query, SyntheticQuery):
        return tuple((column.name, _celled(position, query, column)) for column in query.columns)
    if isinstance(query, CovarianceQuery):
        missing = query.missing or (None, None)
        bounds = zip(query.columns, query.lower, query.upper, missing, strict=True)
        return tuple((name, Reals((lower, upper), stand_in)) for name, lower, upper, stand_in in bounds)
    return () if query.column is None else ((query.column, _declared(position, query)),)


def _celled(position: int, query: Query, section: CellsSection) -> Declared | Binned:
    """Declared categories or bins."""
    if section.cuts is not None:
        return Binned.between(section.cuts, None if section.missing is None else float(section.missing))
    categories = _listed(position, query, declared_by(section.categories, section.categories_file, section.k))
    return Declared(categories, section.missing, section.unknown)


def _declared(position: int, query: Query) -> Cells:
    """Return how a query reads its single column."""
    match query:
        case CountQuery(categories=None):
            return Within(float(query.lower or 0.0), float(query.upper or 0.0))
        case CountQuery():
            return Declared(_some(declared_by(query.categories)), skip=True)
        case HistogramQuery():
            return _celled(position, query, query)
        case GridQuery():
            return OnGrid.of(query.grid, query.missing)
        case TopQuery():
            categories = _listed(position, query, declared_by(query.candidates, query.candidates_file, query.k))
            if query.s > categories.k:
                raise JobError(
                    f"query[{position}] ({query.name!r}): s must be at most the number of candidates, {categories.k}, got {query.s}"
                )
            return Declared(categories, skip=True)
        case BoundedQuery():
            return Reals((query.lower, query.upper), query.missing)
    raise AssertionError(query.kind)


def _groups(query: Query) -> Declared | None:
    """The groups of a query, if it has some."""
    return None if query.grouping is None else Declared(_some(declared_by(query.grouping[1])), skip=True)


def _some(categories: Categories | None) -> Categories:
    if categories is None:
        raise AssertionError("nothing is declared")
    return categories


def _listed(position: int, query: Query, categories: Categories | None) -> Categories:
    listed = _some(categories)
    if listed.k > MAX_CELLS:
        raise JobError(f"query[{position}] ({query.name!r}): there are {listed.k} categories, and at most {MAX_CELLS} are allowed")
    return listed
