"""`quantile` and `median`: points of a declared grid, or of one between bounds that are found privately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.cells import OnGrid
from dpcore.batch.release.choices import QuantileAnswer
from dpcore.batch.release.found_bounds import BoundedQuantiles
from dpcore.batch.release.found_fields import check_points_of_groups
from dpcore.batch.release.group_bounds import BoundedTallies, ChosenEach, numbers_of
from dpcore.batch.release.group_tallies import PairTallies
from dpcore.batch.release.groups import GroupedAnswer
from dpcore.batch.release.kinds.base import StatisticKind, as_parameter
from dpcore.batch.release.octaves import FEWEST_POINTS
from dpcore.batch.release.queries import skips

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Asked, Columns
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Quantile(StatisticKind):
    """A point for each level, by the exponential mechanism."""

    names = ("quantile", "median")
    cells_are = "grid"

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
