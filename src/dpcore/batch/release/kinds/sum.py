"""`sum`: the exact sum of clamped numbers, of rows or with a bound for each unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.answers import SumAnswer
from dpcore.batch.release.group_tallies import SumTallies
from dpcore.batch.release.kinds.base import NumberKind
from dpcore.batch.release.people import UnitSumAnswer, Whole
from dpcore.batch.release.reads import clamped

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Asked, Columns
    from dpcore.batch.release.queries import SumQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Sum(NumberKind):
    """The sum, with real noise."""

    names = ("sum",)
    measured = "unit_of_measure"

    def columns(self, position: int, query: SumQuery) -> Columns:  # noqa: ARG002
        """The numbers."""
        return clamped(query)

    def answer(self, query: SumQuery, asked: Asked) -> Answer:
        """Of rows, or of units with a bounded part each."""
        if not query.is_about_units:
            return super().answer(query, asked)
        whole, (cells, *_) = Whole.of(asked.job, asked.read)
        numbers: Any = cells
        return UnitSumAnswer.made(query, numbers, whole, asked.bound, asked.relation)

    def each(self, query: SumQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:
        """With the sensitivity of one sum, or of sums for groups."""
        cells: Any = columns[0][1]
        return SumAnswer.made(query, cells, bound, relation, groups)

    def tallies(self, each: SumAnswer) -> GroupTallies[Any]:
        """The sum of each group."""
        return SumTallies(each)
