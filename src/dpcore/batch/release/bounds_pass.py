"""The pass over the rows that finds the bounds of queries for groups: it counts the numbers of all groups together in bins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.release.answers import Answer, there
from dpcore.batch.release.group_bounds import BoundedTallies
from dpcore.batch.release.octaves import EDGES, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.grouping import Grouping
    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.release.private_grouping import PrivateGrouping
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class BinsOfGroups(Answer):
    """Rows of all groups together in each bin, as an answer that is never released itself."""

    section: Any
    reads: tuple[tuple[str, Cells], ...]
    grouping: Grouping | PrivateGrouping | None

    @property
    def keyed_by(self) -> Grouping | PrivateGrouping | None:
        """The groups."""
        return self.grouping

    def tally(self, rows: int, read: list[Array]) -> Array:
        """Count the numbers of rows that are in some group; there is nothing to count for other queries."""
        if self.grouping is None or not rows:
            return np.zeros(0 if self.grouping is None else len(EDGES) - 1, np.int64)
        *read, codes = read
        numbers, *masks = read
        return rows_of(there([numbers, *masks, codes < self.grouping.size])[0])


def counting(plan: ReleasePlan) -> ReleasePlan:
    """The plan of the pass that counts the numbers in bins."""

    def bins_of(answer: Any) -> Any:
        if answer.waits_for_bounds:
            return BinsOfGroups(answer.section, answer.each.reads, answer.grouping)
        return BinsOfGroups(answer.section, (), None)

    return replace(plan, answers=tuple(map(bins_of, plan.answers)))


def with_bounds(plan: ReleasePlan, bins: Sequence[Array], stream: Callable[[int], Stream | None]) -> ReleasePlan:
    """The plan between bounds that are released now, given the rows in each bin.

    Parameters
    ----------
    plan : ReleasePlan
        The job; the keys of its groups are known.
    bins : sequence of ndarray
        What the pass of `counting` found for each query.
    stream : callable
        The stream of a query by its place.
    """

    def between(place: int, answer: Any) -> Any:
        if not answer.waits_for_bounds:
            return answer
        ends = answer.each.ends(bins[place], stream(place))
        if ends is None:
            return replace(answer, each=replace(answer.each, reads=()), tallies=BoundedTallies(answer.each))
        each = answer.each.fitting(ends, answer.grouping.size)
        inner = each.between(ends)
        return replace(answer, each=replace(each, reads=inner.reads), tallies=BoundedTallies(each, ends, each.kind.tallies(inner)))

    return replace(plan, answers=tuple(between(place, answer) for place, answer in enumerate(plan.answers)))
