"""From a query of a job to its answer: the sensitivity of its kind, and noise that is calibrated to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.batch.release.answers import (
    CountAnswer,
    HistogramAnswer,
    PrivateMeanAnswer,
    PublicCountAnswer,
    PublicMeanAnswer,
    SumAnswer,
)
from dpcore.batch.release.cells import Binned, Declared, Held, OnGrid, Reals, Within
from dpcore.batch.release.choices import QuantileAnswer, TopAnswer
from dpcore.batch.release.found_bounds import BoundedNumber, BoundedQuantiles
from dpcore.batch.release.found_fields import check_points_of_groups
from dpcore.batch.release.group_bounds import BoundedEach, bounded
from dpcore.batch.release.groups import GroupedAnswer
from dpcore.batch.release.moments import MomentAnswer
from dpcore.batch.release.octaves import FEWEST_POINTS
from dpcore.batch.release.people import UnitsAnswer, UnitSumAnswer, ValuesAnswer, Whole
from dpcore.batch.release.people_cells import DifferentCells, UnitCells
from dpcore.batch.release.private_grouping import PrivateGrouping
from dpcore.batch.release.private_groups import KeysAnswer
from dpcore.batch.release.queries import (
    BoundedQuery,
    CountDistinctQuery,
    CountQuery,
    CovarianceQuery,
    GridQuery,
    GroupsQuery,
    HistogramQuery,
    MeanQuery,
    SpreadQuery,
    SumQuery,
    SyntheticColumn,
    SyntheticQuery,
    TopQuery,
    is_about_units,
    skips,
)
from dpcore.batch.release.query_fields import SKIP, check_cells_of_groups
from dpcore.batch.release.sensitivity import contribution
from dpcore.batch.release.stepped import in_steps
from dpcore.batch.release.synthetic import SyntheticAnswer
from dpcore.batch.release.table import TableColumn
from dpcore.errors import JobError, ParameterError, ParameterTypeError
from dpcore.pages.printable import check_no_formula

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.job import ReleaseJob
    from dpcore.batch.release.queries import CellsSection, Query
    from dpcore.batch.release.reads import Read
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


def calibrated(position: int, job: ReleaseJob, read: Read, integers: Mapping[str, bool]) -> Answer:
    """The answer to a query, with its noise; `integers` says which columns hold integers. What it refuses costs nothing."""
    query = job.query[position]
    try:
        return _synthetic(job, query, read, integers) if isinstance(query, SyntheticQuery) else _answer(job, query, read)
    except JobError:
        raise
    except (ParameterError, ParameterTypeError) as error:
        raise JobError(f"query[{position}] ({query.name!r}, {query.kind}): {error}") from None


def _answer(job: ReleaseJob, query: Query, read: Read) -> Answer:
    query = in_steps(query, *_bounds(read))
    bound, size = contribution(job, query), 0 if read.groups is None else read.groups.size
    if isinstance(query, GroupsQuery) and isinstance(read.groups, PrivateGrouping):
        return KeysAnswer.made(query, read.groups, bound, job.privacy.relation)
    if isinstance(query, BoundedQuery | CovarianceQuery) and skips(query):
        bound = bound.of_some_rows()
    if is_about_units(query):
        return _of_whole_units(job, query, read, bound)
    if isinstance(query, BoundedQuery | GridQuery) and query.bounds is not None:
        return _between_found_bounds(query, read, bound, job.privacy.relation, size)
    if isinstance(query, SpreadQuery | CovarianceQuery):
        answer: Answer = MomentAnswer.made(query, read.cells, bound, job.privacy.relation, size)
    else:
        answer = _for_each(job, query, read.only, bound, size)
    if read.groups is None:
        return answer
    _check_cells(answer, 1 if isinstance(read.groups, PrivateGrouping) else size)
    return GroupedAnswer.made(answer, read.groups)


def _bounds(read: Read) -> tuple[list[tuple[float, float]], list[float | None]]:
    """The bounds of the columns of numbers, and what stands for their nulls."""
    reals = [cells for _, cells in read.cells if isinstance(cells, Reals)]
    return [each.bounds for each in reals], [each.missing for each in reals]


def _check_cells(answer: Answer, groups: int) -> None:
    """Raise `ParameterError` if all groups together have too many cells, which a file can have declared."""
    parts = {HistogramAnswer: "categories or bins", QuantileAnswer: "grid", TopAnswer: "candidates"}
    if isinstance(answer, HistogramAnswer | QuantileAnswer | TopAnswer):
        try:
            check_cells_of_groups(parts[type(answer)], answer.cells.size, groups)
        except ValueError as error:
            raise ParameterError(str(error)) from None


def _between_found_bounds(query: BoundedQuery | GridQuery, read: Read, bound: Contribution, relation: Relation, size: int) -> Answer:
    """The answer between bounds that are found privately, one pair for all of so many groups if there are any."""
    if read.groups is not None:
        if isinstance(query, GridQuery):
            _check_points(1 if isinstance(read.groups, PrivateGrouping) else size)
        return bounded(BoundedEach.made(query, read.cells, bound, relation, size), read.groups)
    if isinstance(query, SumQuery | MeanQuery | SpreadQuery):
        return BoundedNumber.made(query, read.cells, bound, relation)
    if isinstance(query, GridQuery) and isinstance(read.only, OnGrid):
        return BoundedQuantiles.made(query, read.only, bound, relation)
    raise AssertionError(query.kind)


def _check_points(groups: int) -> None:
    """Raise `ParameterError` if no grid between found bounds is coarse enough for the groups of a file."""
    try:
        check_points_of_groups(FEWEST_POINTS, groups, found=True)
    except ValueError as error:
        raise ParameterError(str(error)) from None


def _of_whole_units(job: ReleaseJob, query: Query, read: Read, bound: Contribution) -> Answer:
    """The answer to a query that looks at all rows of a unit together."""
    relation = job.privacy.relation
    units = [cells for _, cells in read.cells if isinstance(cells, UnitCells)]
    whole = Whole(job.privacy.unit, units[0] if units else None, job.privacy.null_rows_are_units, read.groups)
    match query, read.cells[len(units) :]:
        case CountDistinctQuery(), ():
            return UnitsAnswer.made(query, whole, bound, relation)
        case CountDistinctQuery(), ((_, Declared() | DifferentCells() as cells),):
            return ValuesAnswer.made(query, cells, whole, bound, relation)
        case SumQuery(), ((_, Reals() as cells), *_):
            return UnitSumAnswer.made(query, cells, whole, bound, relation)
    raise AssertionError(query.kind)


def _for_each(job: ReleaseJob, query: Query, read: Cells | None, bound: Contribution, size: int) -> Answer:
    """The answer to the whole table, or to each of so many groups."""
    relation = job.privacy.relation
    match query, read:
        case CountQuery(), None if bound.n_is_public and not size:
            return PublicCountAnswer(query)
        case CountQuery(), (None | Within() | Declared() | Held()) as cells:
            return CountAnswer.made(query, cells, bound, relation, size)
        case HistogramQuery(), (Binned() | Declared()) as cells:
            _check_stand_ins(query, cells)
            return HistogramAnswer.made(query, cells, bound, relation)
        case SumQuery(), Reals() as cells:
            return SumAnswer.made(query, cells, bound, relation, size)
        case MeanQuery(), Reals() as cells if bound.n_is_public and not size:
            return PublicMeanAnswer.made(query, cells, bound, relation)
        case MeanQuery(), Reals() as cells:
            return PrivateMeanAnswer.made(query, cells, bound, relation, size)
        case GridQuery(), OnGrid() as cells:
            return QuantileAnswer.made(query, cells, bound, relation, size)
        case TopQuery(), Declared() as cells:
            return TopAnswer.made(query, cells, bound, relation, size)
    raise AssertionError(query.kind)


def _synthetic(job: ReleaseJob, query: SyntheticQuery, read: Read, integers: Mapping[str, bool]) -> SyntheticAnswer:
    """A table of all its columns."""
    columns = []
    for section, (name, cells) in zip(query.columns, read.cells, strict=True):
        if not isinstance(cells, Binned | Declared):
            raise AssertionError(name)  # noqa: TRY004
        _check_stand_ins(section, cells)
        whole = isinstance(cells, Binned) and (integers.get(name, False) if section.integers is None else section.integers)
        if whole:
            _check_integers(section)
        columns.append(TableColumn(name, cells, whole))
        if Path(query.output).suffix.lower() == ".csv":
            check_no_formula("the name of a column of the table", [name])
            if isinstance(cells, Declared) and cells.categories.are_text:
                check_no_formula(f"a category of column {name!r}", map(str, cells.categories.listed()))
    return SyntheticAnswer.made(query, tuple(columns), contribution(job, query), job.privacy.relation)


def _check_integers(section: SyntheticColumn) -> None:
    """Raise `ParameterError` if a bin of a column of integers has none."""
    try:
        section.check_integers()
    except ValueError as error:
        raise ParameterError(f"column {section.name!r}: {error}") from None


def _check_stand_ins(query: CellsSection, cells: Binned | Declared) -> None:
    """Check the replacements in a file of categories, which was not read when the job was."""
    for key in ("missing", "unknown"):
        value = getattr(query, key)
        if value == SKIP and isinstance(query, HistogramQuery):
            continue
        if isinstance(cells, Declared) and value is not None and cells.categories.code(value) is None:
            whose = f"column {query.name!r}: " if isinstance(query, SyntheticColumn) else ""
            raise ParameterError(f"{whose}{key} must be one of the categories, got {value!r}")
