"""`quantile` and `median`: points of a declared grid, or of one between bounds that are found privately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.release.cells import OnGrid
from dpcore.batch.release.choices import QuantileAnswer
from dpcore.batch.release.found_bounds import BoundedQuantiles
from dpcore.batch.release.found_fields import check_points_of_groups
from dpcore.batch.release.group_bounds import BoundedTallies, ChosenEach, numbers_of
from dpcore.batch.release.group_tallies import PairTallies
from dpcore.batch.release.groups import GroupedAnswer
from dpcore.batch.release.kinds.base import StatisticKind, as_parameter
from dpcore.batch.release.labels import with_unit
from dpcore.batch.release.octaves import FEWEST_POINTS
from dpcore.batch.release.query_sections import skips
from dpcore.batch.release.words import as_list, declared_parts, of_column, quantile_name, sentence_of
from dpcore.pages.numbers import counted, plain_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Asked, Columns, Entry, Line
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Quantile(StatisticKind):
    """A point for each level, by the exponential mechanism."""

    names = ("quantile", "median")
    cells_are = "grid"
    form, form_of_groups = "quantiles", "lines"
    measured = "unit_of_measure"

    def columns(self, position: int, query: Any) -> Columns:  # noqa: ARG002
        """The point at or above each number."""
        missing = None if isinstance(query.missing, str) else query.missing
        grid = OnGrid.of(query.grid, missing, skip=skips(query), are_floats=query.bounds is not None)
        return ((query.column, grid),)

    def answer(self, query: Any, asked: Asked) -> Answer:
        """Among the points of the job, or of the bounds that are found."""
        if query.bounds is None:
            return super().answer(query, asked)
        if asked.read.groups is None:
            grid: Any = asked.read.only
            return BoundedQuantiles.made(self, query, grid, asked.bound, asked.relation)
        as_parameter(check_points_of_groups, FEWEST_POINTS, asked.known_groups, found=True)
        each = ChosenEach.made(self, query, numbers_of(query), asked.bound, asked.relation, asked.groups)
        return GroupedAnswer(each, asked.read.groups, BoundedTallies(each))

    def each(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:
        """With the sensitivity of ranks."""
        grid: Any = columns[0][1]
        return QuantileAnswer.made(query, grid, bound, relation, groups)

    def tallies(self, each: QuantileAnswer) -> GroupTallies[Any]:
        """Rows of each pair of a group and a point."""
        return PairTallies(each)

    def question(self, query: Entry) -> str:
        """The levels."""
        levels, of = as_list(query.get("q"), 1), of_column(query)
        return f"Quantiles{of}" if len(levels) > 1 else f"The {quantile_name(levels[0]).replace(' %', ' % quantile')}{of}"

    def declared(self, query: Entry) -> str:
        """With the size of the grid."""
        parts = declared_parts(query)
        if isinstance(query.get("grid"), list | tuple | np.ndarray):
            parts.append(f"chosen from a grid of {counted(len(query['grid']), 'point')}")
        return sentence_of(parts)

    def lines(self, query: Entry) -> Iterator[Line]:
        """A line for each level."""
        levels, errors = as_list(query["q"], 1), as_list(query["rank_error"], 1)
        for level, point, error in zip(levels, as_list(query["value"], 1), errors, strict=True):
            yield quantile_name(level), f"{with_unit(plain_number(point), query)} ± {plain_number(float(error), 3)} rows"
