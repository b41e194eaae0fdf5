r"""Statistics for each group between bounds that are found privately for all groups together.

A pass over the rows counts the numbers of each power of two (`octaves.py`), of all rows that are in some group; the counts are released
once and give one pair of bounds (`found_bounds.py`). A second pass adds up the numbers of each group between these bounds, as if the job
had declared them. Two releases, adaptively composed:

1. A row is in one bin or, if it is in no group, in none. So the counts are a histogram, whose sensitivity does not depend on the number of
   groups or of groups that a unit touches: it is released with the noise for ε_b = `bounds_epsilon` that it has without groups.
2. Given any bounds, the answers to all groups are those with declared bounds, for the rest of ε, and δ, and have their sensitivity.

The parts of ε sum to no more than the query's. If no bin passes, there is no second release. A grid for quantiles between the bounds has
up to 64 points in each power of two, and fewer where all groups together would have too many: this follows from the bounds and from the
number of groups, which are public then.

Nothing else of the first pass is kept. If somebody writes to a table in memory between the passes, each release is about the table that
its pass has read; neighbours differ by one unit in both, so the guarantee holds for the pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from dpcore.batch.release.answers import PrivateMeanAnswer, SumAnswer, described, integer_noise
from dpcore.batch.release.cells import OnGrid, Present, Reals
from dpcore.batch.release.choices import QuantileAnswer
from dpcore.batch.release.found_bounds import NONE_FOUND, Bounded, rest_epsilon
from dpcore.batch.release.group_tallies import tallies_of
from dpcore.batch.release.groups import GroupedAnswer
from dpcore.batch.release.moments import MomentAnswer
from dpcore.batch.release.octaves import EDGES, POINTS, WIDEST, octave_grid
from dpcore.batch.release.queries import GridQuery, SpreadQuery, SumQuery, skips
from dpcore.batch.release.query_fields import MAX_CELLS

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.grouping import Grouping
    from dpcore.batch.release.private_grouping import PrivateGrouping
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class BoundedEach(Bounded):
    """The answer to one of several groups between bounds of all of them.

    Attributes
    ----------
    groups : int
        Groups that are answered, at most.
    points : int
        Points of a quantile's grid in each power of two.
    """

    groups: int
    points: int = 1

    @classmethod
    def made(cls, section: Any, reads: tuple[tuple[str, Cells], ...], bound: Contribution, relation: Relation, groups: int) -> BoundedEach:
        """Calibrate it, for so many groups."""
        bins = integer_noise(section.bounds_epsilon or 0.0, 0.0, bound.cells, relation)
        made = cls(section, _numbers(section, reads), bins, bound, relation, groups)
        made._try()
        return made

    def tally(self, rows: int, read: list[Array]) -> Any:
        """Not known: groups are added up together."""
        raise AssertionError(self.section.name, rows, len(read))

    def release(self, tally: Any, rng: Stream | None) -> dict[str, Any]:
        """Not known: groups are released together."""
        raise AssertionError(self.section.name, type(tally), rng is None)

    def with_points(self, ends: tuple[int, int], groups: int) -> BoundedEach:
        """The same with as many points of a grid between bounds as so many groups may have."""
        points = POINTS
        while points > 1 and len(_grid(*ends, points)) * groups > MAX_CELLS:
            points //= 2
        return replace(self, points=points)

    def between(self, ends: tuple[int, int]) -> Answer:
        """The answer between bounds, to one group."""
        return self._inner(*ends)

    def _inner(self, low: int, high: int) -> Answer:
        bounds, is_chosen = (EDGES[low], EDGES[high]), isinstance(self.section, GridQuery)
        between = {"grid": _grid(low, high, self.points)} if is_chosen else dict(zip(("lower", "upper"), bounds, strict=True))
        section = self.section.model_copy(update={**between, "epsilon": rest_epsilon(self.section)})
        if is_chosen:
            missing = None if isinstance(section.missing, str) else section.missing
            grid = OnGrid.of(section.grid, missing, skip=skips(section), are_floats=True)
            return QuantileAnswer.made(section, grid, self.bound, self.relation, self.groups)
        (name, cells), *others = self.reads
        if not isinstance(cells, Reals):
            raise AssertionError(name)  # noqa: TRY004
        reals = replace(cells, bounds=bounds)
        if isinstance(section, SpreadQuery):
            return MomentAnswer.made(section, ((name, reals), *others), self.bound, self.relation, self.groups)
        made = SumAnswer.made if isinstance(section, SumQuery) else PrivateMeanAnswer.made
        return made(section, reals, self.bound, self.relation, self.groups)


def _numbers(section: Any, reads: tuple[tuple[str, Cells], ...]) -> tuple[tuple[str, Cells], ...]:
    """The numbers of a column, and where they are if other rows are skipped: also those among whose points a quantile is."""
    if not isinstance(section, GridQuery):
        return reads
    reals = Reals(WIDEST, WIDEST[0] if isinstance(section.missing, str) else section.missing, are_floats=True)
    numbers = ((section.column, reals),)
    return (*numbers, (section.column, Present(reals))) if skips(section) else numbers


def _grid(low: int, high: int, points: int) -> tuple[float, ...]:
    """The points between two ends of bins."""
    return tuple(point for point in octave_grid(points) if EDGES[low] <= point <= EDGES[high])


@dataclass(slots=True)
class Between:
    """Released bounds, and the statistics of all groups between them.

    Attributes
    ----------
    each : BoundedEach
        The answer to one group.
    ends : tuple of int or None
        Places of the bounds among the ends of bins; None if no bin passed.
    groups : int
        Number of groups.
    tally : object
        The statistics.
    """

    each: BoundedEach
    ends: tuple[int, int] | None
    groups: int
    tally: Any

    def __iadd__(self, other: Between) -> Self:
        if self.ends is not None:
            self.tally += other.tally
        return self


@dataclass(frozen=True, slots=True)
class BoundedTallies:
    """The statistics of all groups between bounds, once these are known."""

    each: BoundedEach
    ends: tuple[int, int] | None = None
    inner: GroupTallies[Any] | None = None

    def nothing(self, groups: int) -> Between:
        """The statistics of no rows."""
        return Between(self.each, self.ends, groups, None if self.inner is None else self.inner.nothing(groups))

    def add(self, tally: Between, codes: Array, read: list[Array]) -> None:
        """Add rows in place."""
        if self.inner is not None:
            self.inner.add(tally.tally, codes, read)

    def release(self, tally: Between, rng: Stream | None) -> dict[str, Any]:
        """The answers to all groups, and the bounds; these were drawn first."""
        bins = described(tally.each.bins).document()
        if tally.ends is None:
            nothing = {key: [None] * tally.groups for key in ("value", "stderr", "interval")}
            return {**nothing, "note": [NONE_FOUND] * tally.groups, "noise": [bins]}
        if rng is not None:
            rng.position()
        inner = tally.each.between(tally.ends)
        said = {**inner.declared(), **tallies_of(inner).release(tally.tally, rng)}
        said.pop("grid", None)
        drawn = [noise.document() for noise in inner.noise]
        return {**said, "lower": EDGES[tally.ends[0]], "upper": EDGES[tally.ends[1]], "noise": [bins, *drawn]}


def finds_bounds(answer: object) -> bool:
    """Whether an answer is about groups whose bounds are found before it."""
    return isinstance(answer, GroupedAnswer) and isinstance(answer.each, BoundedEach)


def bounded(each: BoundedEach, grouping: Grouping | PrivateGrouping) -> GroupedAnswer:
    """The answers to these groups, whose bounds are not known yet."""
    return GroupedAnswer(each, grouping, BoundedTallies(each))
