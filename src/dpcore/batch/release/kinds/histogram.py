"""`histogram`: rows in each declared category or bin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.answers import Answer, HistogramAnswer
from dpcore.batch.release.group_tallies import PairTallies
from dpcore.batch.release.kinds.base import StatisticKind
from dpcore.batch.release.reads import celled, check_stand_ins

if TYPE_CHECKING:
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns
    from dpcore.batch.release.queries import HistogramQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Histogram(StatisticKind):
    """Rows in each cell, with discrete noise for all of them together."""

    names = ("histogram",)
    cells_are = "categories or bins"

    def columns(self, position: int, query: HistogramQuery) -> Columns:
        """The cells of the column."""
        return ((query.column, celled(position, query, query)),)

    def each(self, query: HistogramQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:  # noqa: ARG002
        """With the sensitivity of all cells of all groups: those of groups are cells too."""
        cells: Any = columns[0][1]
        check_stand_ins(query, cells, skips=True)
        return HistogramAnswer.made(query, cells, bound, relation)

    def tallies(self, each: HistogramAnswer) -> GroupTallies[Any]:
        """Rows of each pair of a group and a cell."""
        return PairTallies(each)
