r"""Statistics between bounds that are found privately: `bounds = "private"`, for a query of any kind that has bounds.

A pass over the rows counts the numbers of each power of two (`log_bins.py`), of all rows that are in some group. A second pass adds up the
numbers between the bounds that these counts show, as if the job had declared them. Two releases, adaptively composed:

1. The counts of all 194 bins get discrete Laplace noise for ε_b = `bounds_epsilon` and the sensitivity of a histogram: a row is in one bin
   or, if it is in no group, in none, however many groups there are. A bin passes if its noisy count is above the half-width T that all 194
   noises stay within with probability 1 − 10^-6: no empty bin passes, and each bin with more than 2T rows does, but for that probability.
   The lower end of the lowest bin that passes and the upper end of the highest one are the bounds.
2. Given any bounds, the answer is released with the rest of ε, and δ, exactly as if the job had declared these bounds.

The parts of ε, the second one rounded down, sum to no more than the query's. If no bin passes, there is no second release, and no answer;
that too is a function of the first release alone. What a kind takes between the bounds, such as a grid for quantiles, follows from the
bounds and the number of groups, which are public then.

Nothing else of the first pass is kept. If somebody writes to a table in memory between the passes, each release is about the table that its
pass has read; neighbours differ by one unit in both, so the guarantee holds for the pair.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up
from dpcore.query.estimators import Estimator
from dpcore.query.fields import MAX_CELLS
from dpcore.query.grids import EDGES, LOG_BINS
from dpcore.query.noise import described, half_width_of, integer_noise, part_of, rho_of
from dpcore.query.statistics import LogBinsOf, Measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import IntegerNoise
    from dpcore.query.noise import Noise
    from dpcore.query.sensitivity import Contribution
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    Columns = tuple[tuple[str, Encoder], ...]


EMPTY_PASSES = 1e-6
"""Probability that any noise of a bin exceeds the threshold."""
NUMBERS = ("value", "stderr", "interval")
"""What an answer to a group consists of, which is unknown where no bounds are found."""
NONE_FOUND = "no power of two has enough rows beyond the noise to show where the numbers lie, so there are no bounds and no answer"
"""The note on an answer without bounds."""


class Calibrating(Protocol):
    """What found bounds ask of a kind of query."""

    numbers_of_answer: ClassVar[tuple[str, ...]]

    def calibrate(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """The answer between declared bounds, to the whole table or to one of so many groups."""

    def numbers(self, query: Any, columns: Columns) -> Columns:
        """How the numbers are read among which bounds are found."""

    def between(self, query: Any, columns: Columns, low: int, high: int, groups: int) -> tuple[Any, Columns]:
        """The query between two ends of bins, for so many groups at most, and how it reads its columns."""


@dataclass(frozen=True, slots=True)
class PrivateBounds(Estimator):
    """A query between bounds that are found.

    Attributes
    ----------
    kind : Calibrating
        The kind of the query.
    section : Query
        The query.
    columns : tuple of (str, Cells)
        How it reads its columns where nothing is known of their bounds.
    bins : IntegerNoise
        The noise of the bins.
    bound : Contribution
        Of one unit.
    relation : str
        Which tables are neighbours.
    answered : int
        Groups that are answered, at most; 0 without groups.
    found : tuple of int or None
        Places of the released bounds among the ends of bins; empty if no bin passed, and None before they are released.
    """

    kind: Calibrating
    section: Any
    columns: Columns
    bins: IntegerNoise
    bound: Contribution
    relation: Relation
    answered: int
    found: tuple[int, ...] | None = None

    @classmethod
    def calibrate(cls, kind: Calibrating, section: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Self:
        """Calibrate it; it is tried between the widest and the narrowest bounds, as what is refused must be refused before it costs."""
        calibrate = cls(kind, section, columns, integer_noise(section.bounds_epsilon, 0.0, bound.cells, relation), bound, relation, groups)
        middle = LOG_BINS // 2
        for ends in ((0, LOG_BINS), (middle, middle + 1)):
            calibrate.between(*ends)
        return calibrate

    @property
    def measure_of_bins(self) -> Measure | None:
        """The rows in each bin, as long as the bounds are not released."""
        if self.found is not None:
            return None
        return Measure(self.kind.numbers(self.section, self.columns), LogBinsOf(self.groups), self.grouping)

    @property
    def measure(self) -> Measure | None:
        """That of the answer between the bounds; nothing without bounds."""
        return self.inner.measure if self.found else None

    @property
    def inner(self) -> Estimator:
        """The answer between the bounds, or the widest ones as long as they are not known."""
        return self.between(*(self.found or (0, LOG_BINS)))

    def between(self, low: int, high: int) -> Estimator:
        """The answer between two ends of bins."""
        section = self.section.model_copy(update={"epsilon": rest_epsilon(self.section)})
        most = MAX_CELLS if self.found is None else self.groups
        section, columns = self.kind.between(section, self.columns, low, high, most)
        return replace(self.kind.calibrate(section, columns, self.bound, self.relation, self.answered), grouping=self.grouping)

    @property
    def threshold(self) -> int:
        """A bin passes if its noisy count is above it."""
        return math.floor(half_width_of(self.bins, EMPTY_PASSES / LOG_BINS))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """That of the bins; the scale of what follows depends on the bounds."""
        return (described(self.bins),)

    @property
    def fewest_cells(self) -> int:
        return self.inner.fewest_cells

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """How bounds are found, and what is said of the answer between them."""
        found = (
            f"found from powers of two with more than {self.threshold:,} rows after noise of scale {self.bins.scale:.4g}, "
            f"for {self.section.bounds_epsilon!r} of ε"
        )
        return (("bounds", found), *self.inner.ways)

    def parameters(self) -> dict[str, Any]:
        """What the job says, and what follows from it."""
        said = {**self.inner.parameters(), "lower": None, "upper": None}
        said.pop("grid", None)  # thousands of points
        return {**said, "bounds": {"epsilon": self.section.bounds_epsilon, "threshold": self.threshold}}

    @property
    def rho(self) -> float | None:
        """ρ of the bins and of what follows, which does not depend on the bounds but for the rounding of a scale."""
        rest = self.inner.rho
        return None if rest is None else fraction_up(Fraction(rho_of(self.bins)) + Fraction(rest) * (1 + Fraction(1, 2**40)))

    def ends(self, rows: Array, rng: Stream | None) -> tuple[int, ...]:
        """Places of the bounds among the ends of bins, released given the rows in each; none if no bin passes."""
        noisy = self.bins.release(np.asarray(rows, np.int64), rng=rng, threads=1)
        passed = np.flatnonzero(noisy > self.threshold)
        return (int(passed[0]), int(passed[-1]) + 1) if len(passed) else ()

    def release(self, total: Any, rng: Stream | None) -> dict[str, Any]:
        """The answer, and the bounds; these were drawn first."""
        bins = described(self.bins).document()
        if not self.found:
            if self.grouping is None:
                return {**dict.fromkeys(self.kind.numbers_of_answer), "note": NONE_FOUND, "noise": [bins]}
            return {**{key: [None] * self.groups for key in NUMBERS}, "note": [NONE_FOUND] * self.groups, "noise": [bins]}
        if rng is not None:
            rng.position()
        inner, (low, high) = self.inner, self.found
        said = {**inner.parameters(), **inner.release(total, rng)}
        said.pop("grid", None)
        drawn = said.get("noise", [noise.document() for noise in inner.noise])
        return {**said, "lower": EDGES[low], "upper": EDGES[high], "noise": [bins, *drawn]}


def with_bounds(estimators: Sequence[Estimator], bins: Sequence[Array], stream: Callable[[int], Stream | None]) -> tuple[Estimator, ...]:
    """The answers between bounds that are released now, given the rows in each bin.

    Parameters
    ----------
    estimators : sequence of Estimator
        Those of a job; the keys of its groups are known.
    bins : sequence of ndarray
        What the pass over `measure_of_bins` found for each query.
    stream : callable
        The stream of a query by its place.
    """

    def known(place: int, estimator: Any) -> Any:
        return replace(estimator, found=estimator.ends(bins[place], stream(place))) if estimator.measure_of_bins is not None else estimator

    return tuple(known(place, estimator) for place, estimator in enumerate(estimators))


def rest_epsilon(section: Any) -> float:
    """The ε that bounds leave, rounded down."""
    return part_of(section.epsilon, 1 - Fraction(section.bounds_epsilon) / Fraction(section.epsilon))
