r"""Statistics between bounds that are found privately: `bounds = "private"`.

One pass counts and adds up the numbers of each power of two (`octaves.py`). Then there are two releases, adaptively composed:

1. The counts of all 194 bins get discrete Laplace noise for ε_b = `bounds_epsilon` and the sensitivity of a histogram. A bin passes if
   its noisy count is above the half-width T that all 194 noises stay within with probability 1 − 10^-6: no empty bin passes, and each
   bin with more than 2T rows does, but for that probability. The lower end of the lowest bin that passes and the upper end of the
   highest one are the bounds.
2. Given any bounds, the sum, mean, variance or quantile of the numbers clamped to them is released with the rest of ε, and δ, exactly
   as if the job had declared these bounds. What it needs follows from the sums of the bins, without error; so it is a function of the
   table with the sensitivity of declared bounds, whatever the table is.

The parts of ε, the second one rounded down, sum to no more than the query's. If no bin passes, there is no second release, and no
answer; that too is a function of the first release alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dpcore import _backend
from dpcore._exact.intervals import fraction_up
from dpcore.batch.release.answers import (
    Answer,
    described,
    half_width_of,
    integer_noise,
    rho_of,
    there,
)
from dpcore.batch.release.cells import OnGrid, Reals
from dpcore.batch.release.moments import part_of
from dpcore.batch.release.octaves import EDGES, Octaves, rounded_bounds
from dpcore.batch.release.steps import STEP_BITS, Steps

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release.answers import IntegerNoise, Noise
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.queries import GridQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]

EMPTY_PASSES = 1e-6
"""Probability that any noise of a bin exceeds the threshold."""
NONE_FOUND = "no power of two has enough rows beyond the noise to show where the numbers lie, so there are no bounds and no answer"
"""The note on an answer without bounds."""


class Calibrating(Protocol):
    """What found bounds ask of a kind of query."""

    def each(self, query: Any, columns: tuple[tuple[str, Cells], ...], bound: Contribution, relation: Relation, groups: int) -> Answer:
        """The answer between declared bounds, to the whole table or to one of so many groups."""

    def tallies(self, each: Any) -> GroupTallies[Any]:
        """The statistics that it needs of each group."""


class OfNumbers(Calibrating, Protocol):
    """The same of a statistic of numbers, which follows from sums of bins."""

    has_squares: ClassVar[bool]

    def in_bins(self, each: Any, low: int, high: int) -> Answer:
        """The answer between two ends of bins, for what `of_bins` finds."""

    def of_bins(self, each: Any, tally: Octaves, low: int, high: int) -> Any:
        """The exact statistic of an answer between two ends of bins."""


@dataclass(frozen=True, slots=True)
class Bounded(Answer, ABC):
    """Base: the noisy counts of the bins, and what every answer with found bounds says."""

    kind: Calibrating
    section: Any
    reads: tuple[tuple[str, Cells], ...]
    bins: IntegerNoise
    bound: Contribution
    relation: Relation

    @property
    def threshold(self) -> int:
        """A bin passes if its noisy count is above it."""
        return math.floor(half_width_of(self.bins, EMPTY_PASSES / (len(EDGES) - 1)))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """That of the bins; the scale of what follows depends on the bounds."""
        return (described(self.bins),)

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """How bounds are found, and what is said of the answer between them."""
        found = (
            f"found from powers of two with more than {self.threshold:,} rows after noise of scale {self.bins.scale:.4g}, "
            f"for {self.section.bounds_epsilon!r} of ε"
        )
        return (("bounds", found), *self.widest.ways)

    def declared(self) -> dict[str, Any]:
        """What the job says, and what follows from it."""
        said = {**self.widest.declared(), "lower": None, "upper": None}
        said.pop("grid", None)  # thousands of points
        return {**said, "bounds": {"epsilon": self.section.bounds_epsilon, "threshold": self.threshold}}

    @property
    def rho(self) -> float | None:
        """ρ of the bins and of what follows, which does not depend on the bounds but for the rounding of a scale."""
        rest = self.widest.rho
        return None if rest is None else fraction_up(Fraction(rho_of(self.bins)) + Fraction(rest) * (1 + Fraction(1, 2**40)))

    def ends(self, rows: list[int] | Array, rng: Stream | None) -> tuple[int, int] | None:
        """Places of the released bounds among the ends of bins, given the rows in each; None if no bin passes."""
        noisy = self.bins.release(np.asarray(rows, np.int64), rng=rng, threads=1)
        passed = np.flatnonzero(noisy > self.threshold)
        return (int(passed[0]), int(passed[-1]) + 1) if len(passed) else None

    def _released(self, ends: tuple[int, int] | None, tally: Any, rng: Stream | None) -> dict[str, Any]:
        """The answer between the bounds."""
        if ends is None:
            return {"value": None, "stderr": None, "interval": None, "note": NONE_FOUND}
        inner = self._inner(*ends)
        said = inner.release(tally, rng)
        drawn = said.get("noise", [noise.document() for noise in inner.noise])
        bounds = {"lower": EDGES[ends[0]], "upper": EDGES[ends[1]]}
        return {**inner.declared(), **bounds, **said, "noise": [described(self.bins).document(), *drawn]}

    @property
    def widest(self) -> Answer:
        """The answer between the widest bounds."""
        return self._inner(0, len(EDGES) - 1)

    @abstractmethod
    def _inner(self, low: int, high: int) -> Answer:
        """The answer between two ends of bins."""

    def _try(self) -> None:
        """Calibrate it between the widest and the narrowest bounds: what is refused must be refused before anything is spent."""
        middle = len(EDGES) // 2
        for ends in ((0, len(EDGES) - 1), (middle, middle + 1)):
            self._inner(*ends)


@dataclass(frozen=True, slots=True)
class BoundedNumber(Bounded):
    """A sum, a mean, a variance or a standard deviation between found bounds."""

    kind: OfNumbers

    @classmethod
    def made(
        cls, kind: OfNumbers, section: Any, reads: tuple[tuple[str, Cells], ...], bound: Contribution, relation: Relation
    ) -> BoundedNumber:
        """Calibrate it."""
        made = cls(kind, section, reads, integer_noise(section.bounds_epsilon or 0.0, 0.0, bound.cells, relation), bound, relation)
        made._try()
        return made

    def tally(self, rows: int, read: list[Array]) -> Octaves:  # noqa: ARG002
        """Counts and sums of the bins."""
        return Octaves.of(there(read)[0], squares=self.kind.has_squares)

    def release(self, tally: Octaves, rng: Stream | None) -> dict[str, Any]:
        """Bounds, and the answer between them."""
        ends = self.ends(tally.rows, rng)
        return self._released(ends, None if ends is None else self.kind.of_bins(self._inner(*ends), tally, *ends), rng)

    def _inner(self, low: int, high: int) -> Answer:
        section = rest_of(self.section, low, high)
        name, cells = self.reads[0]
        reals = Reals((section.lower, section.upper), cells.missing if isinstance(cells, Reals) else None)
        return self.kind.in_bins(self.kind.each(section, ((name, reals),), self.bound, self.relation, 0), low, high)


@dataclass(frozen=True, slots=True)
class BoundedQuantiles(Bounded):
    """Quantiles among the points of the powers of two between found bounds."""

    grid: tuple[float, ...]

    @classmethod
    def made(cls, kind: Calibrating, section: GridQuery, cells: OnGrid, bound: Contribution, relation: Relation) -> BoundedQuantiles:
        """Calibrate it."""
        bins = integer_noise(section.bounds_epsilon or 0.0, 0.0, bound.cells, relation)
        made = cls(kind, section, ((section.column, cells),), bins, bound, relation, cells.grid)
        made._try()
        return made

    def tally(self, rows: int, read: list[Array]) -> Array:  # noqa: ARG002
        """Rows at each point of the grid."""
        return _backend.code_counts(read[0], len(self.grid) + 1, threads=1)[:-1]

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """Bounds, and the quantiles between them."""
        ends = self.ends(self._bins(tally), rng)
        if ends is None:
            return self._released(None, None, rng) | {"rank_error": None}
        said = self._released(ends, self._inside(tally, ends), rng)
        said.pop("grid")
        return said

    def _bins(self, tally: Array) -> list[int]:
        """Rows in each bin, which here has its upper end; the first one has its lower end as well."""
        sums: list[int] = np.diff(np.cumsum(tally)[self._places]).tolist()
        return [sums[0] + int(tally[0]), *sums[1:]]

    def _inside(self, tally: Array, ends: tuple[int, int]) -> Array:
        """Rows at each point between bounds; those beyond count at the bounds."""
        first, last = (int(self._places[end]) for end in ends)
        inside = tally[first : last + 1].copy()
        inside[0], inside[-1] = tally[: first + 1].sum(), tally[last:].sum()
        return inside

    @property
    def _places(self) -> Array:
        """Places of the ends of bins among the points."""
        return np.searchsorted(np.array(self.grid), np.array(EDGES))

    def _inner(self, low: int, high: int) -> Answer:
        section = self.section.model_copy(update={"epsilon": rest_epsilon(self.section)})
        places = self._places
        cells = OnGrid.of(self.grid[places[low] : places[high] + 1], None)
        return self.kind.each(section, ((section.column, cells),), self.bound, self.relation, 0)


def rest_epsilon(section: Any) -> float:
    """The ε that bounds leave, rounded down."""
    return part_of(section.epsilon, 1 - Fraction(section.bounds_epsilon) / Fraction(section.epsilon))


def rest_of(section: Any, low: int, high: int) -> Any:
    """The query between two ends of bins, for the rest of ε."""
    lower, upper = rounded_bounds(low, high)
    return section.model_copy(update={"lower": lower, "upper": upper, "epsilon": rest_epsilon(section)})


def octave_steps(low: int, high: int) -> Steps:
    """The steps in which `Octaves.moments` counts."""
    lower, upper = Fraction(EDGES[low]), Fraction(EDGES[high])
    unit = Octaves.of(np.empty(0), squares=True).moments(low, high)[1]
    off = max(abs(EDGES[low]), abs(EDGES[high])) * 2.0**-STEP_BITS
    return Steps(EDGES[low], EDGES[high], float(unit), int((upper - lower) / unit), off)
