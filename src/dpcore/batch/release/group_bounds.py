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

from dpcore.batch.release.answers import described, integer_noise
from dpcore.batch.release.cells import OnGrid, Present, Reals
from dpcore.batch.release.found_bounds import NONE_FOUND, Bounded, rest_epsilon
from dpcore.batch.release.octaves import EDGES, FEWEST_POINTS, POINTS, WIDEST, octave_grid
from dpcore.batch.release.query_fields import MAX_CELLS
from dpcore.batch.release.query_sections import skips

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.found_bounds import Calibrating
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class BoundedEach(Bounded):
    """The answer to one of several groups between bounds of all of them; all groups are added up and released together.

    Attributes
    ----------
    groups : int
        Groups that are answered, at most.
    """

    groups: int

    @classmethod
    def made(
        cls, kind: Calibrating, section: Any, reads: tuple[tuple[str, Cells], ...], bound: Contribution, relation: Relation, groups: int
    ) -> Self:
        """Calibrate it, for so many groups."""
        bins = integer_noise(section.bounds_epsilon or 0.0, 0.0, bound.cells, relation)
        made = cls(kind, section, reads, bins, bound, relation, groups)
        made._try()
        return made

    @property
    def waits_for_bounds(self) -> bool:
        """It does."""
        return True

    def fitting(self, ends: tuple[int, int], groups: int) -> BoundedEach:  # noqa: ARG002
        """The same for so many groups between these bounds."""
        return self

    def between(self, ends: tuple[int, int]) -> Answer:
        """The answer between bounds, to one group."""
        return self._inner(*ends)

    def _inner(self, low: int, high: int) -> Answer:
        bounds = EDGES[low], EDGES[high]
        section = self.section.model_copy(update={"lower": bounds[0], "upper": bounds[1], "epsilon": rest_epsilon(self.section)})
        (name, cells), *others = self.reads
        if not isinstance(cells, Reals):
            raise AssertionError(name)  # noqa: TRY004
        return self.kind.each(section, ((name, replace(cells, bounds=bounds)), *others), self.bound, self.relation, self.groups)


@dataclass(frozen=True, slots=True)
class ChosenEach(BoundedEach):
    """The same of quantiles, which are points of a grid between the bounds; numbers are read to find these.

    Attributes
    ----------
    points : int
        Points of the grid in each power of two.
    """

    points: int = 1

    @property
    def fewest_cells(self) -> int:
        """Points of the coarsest grid."""
        return FEWEST_POINTS

    def fitting(self, ends: tuple[int, int], groups: int) -> ChosenEach:
        """The same with as many points of a grid between bounds as so many groups may have."""
        points = POINTS
        while points > 1 and len(_grid(*ends, points)) * groups > MAX_CELLS:
            points //= 2
        return replace(self, points=points)

    def _inner(self, low: int, high: int) -> Answer:
        between = {"grid": _grid(low, high, self.points), "epsilon": rest_epsilon(self.section)}
        section = self.section.model_copy(update=between)
        missing = None if isinstance(section.missing, str) else section.missing
        grid = OnGrid.of(section.grid, missing, skip=skips(section), are_floats=True)
        return self.kind.each(section, ((section.column, grid),), self.bound, self.relation, self.groups)


def numbers_of(section: Any) -> tuple[tuple[str, Cells], ...]:
    """The numbers of the column among whose points a quantile is, and where they are if other rows are skipped."""
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
        said = {**inner.declared(), **tally.each.kind.tallies(inner).release(tally.tally, rng)}
        said.pop("grid", None)
        drawn = [noise.document() for noise in inner.noise]
        return {**said, "lower": EDGES[tally.ends[0]], "upper": EDGES[tally.ends[1]], "noise": [bins, *drawn]}
