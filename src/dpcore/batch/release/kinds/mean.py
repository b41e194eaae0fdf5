"""`mean`: a noisy sum over the number of rows, which is noisy too where it is private."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.answers import PrivateMeanAnswer, PublicMeanAnswer
from dpcore.batch.release.group_tallies import MeanTallies
from dpcore.batch.release.kinds.base import NumberKind
from dpcore.batch.release.reads import clamped

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns
    from dpcore.batch.release.octaves import Octaves
    from dpcore.batch.release.queries import MeanQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Mean(NumberKind):
    """The mean of clamped numbers."""

    names = ("mean",)
    measured = "unit_of_measure"
    is_between_bounds = True

    def columns(self, position: int, query: MeanQuery) -> Columns:  # noqa: ARG002
        """The numbers."""
        return clamped(query)

    def each(self, query: MeanQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:
        """With one draw where the number of rows is public, as it never is for groups."""
        cells: Any = columns[0][1]
        if bound.n_is_public and not groups:
            return PublicMeanAnswer.made(query, cells, bound, relation)
        return PrivateMeanAnswer.made(query, cells, bound, relation, groups)

    def tallies(self, each: PrivateMeanAnswer) -> GroupTallies[Any]:
        """Sum and rows of each group."""
        return MeanTallies(each)

    def of_bins(self, each: PublicMeanAnswer | PrivateMeanAnswer, tally: Octaves, low: int, high: int) -> Any:
        """The sum, or that of distances from the middle."""
        return tally.total(low, high, each.middle) if isinstance(each, PrivateMeanAnswer) else tally.total(low, high)
