"""One class for each kind of query: it computes an exact statistic over the rows, and a private answer from it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpcore import _backend, accounting
from dpcore._exact.intervals import fraction_up
from dpcore.batch.release.cells import Binned, Declared, Present, Reals
from dpcore.batch.release.query_fields import SKIP
from dpcore.local._mean_intervals import noise_variance
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.sums import ExactSum, clamped_sum

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    import numpy.typing as npt

    from dpcore.batch.jobfile.fields import Section
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.queries import HistogramQuery, MeanQuery, SumQuery
    from dpcore.batch.release.sensitivity import Contribution, Sensitivity
    from dpcore.batch.release.table import Table, TableColumn
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    IntegerNoise = DiscreteLaplace | DiscreteGaussian
    RealNoise = Laplace | Gaussian

LAWS = {
    DiscreteLaplace: "discrete_laplace",
    DiscreteGaussian: "discrete_gaussian",
    Laplace: "laplace",
    Gaussian: "gaussian",
}


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one draw in a plan: its law, its sensitivity and its scale."""

    law: str
    sensitivity: float
    scale: float

    def document(self) -> dict[str, Any]:
        """Return the noise as JSON holds it."""
        return {"law": self.law, "sensitivity": self.sensitivity, "scale": self.scale}


AT_LEAST = {"coverage": "at least"}
"""In the document of an answer whose interval holds the true value more often than its confidence says."""


class Answer:
    """Base: a query with its noise, ready to run.

    Attributes
    ----------
    section : Query
        The query of the job.
    waits_for_keys : bool
        Whether the answer is found by a pass that counts the units of keys.
    counts_values : bool
        Whether the statistic is how many different values there are, which parts of a table cannot count apart.
    """

    __slots__ = ()
    section: Any
    waits_for_keys: ClassVar[bool] = False
    counts_values: ClassVar[bool] = False

    if TYPE_CHECKING:  # what each has, as a field, a property or a method

        @property
        def reads(self) -> tuple[tuple[str, Cells], ...]:
            """The columns that it needs, and how each is read."""

        def tally(self, rows: int, read: list[Array]) -> Any:
            """The exact statistic of some rows, given what `reads` read; the tallies of parts of a table are added with +."""

        def release(self, tally: Any, rng: Stream | None) -> dict[str, Any]:
            """A private answer: the keys of the document except name, kind and budget."""

    @property
    def keyed_by(self) -> Any:
        """The groups that it is for, if there are some."""
        return None

    @property
    def waits_for_bounds(self) -> bool:
        """Whether a pass that counts numbers in bins comes before the rows are added up."""
        return False

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise that it draws."""
        return ()

    @property
    def rho(self) -> float | None:
        """ρ of zero-concentrated privacy of the answer, rounded up; None if none is known."""
        return None

    @property
    def fewest_cells(self) -> int:
        """Cells that the answer to one group has at least."""
        return 1

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """What follows from public parameters about how it is made: a word for what, and how."""
        return ()

    @property
    def table(self) -> tuple[TableColumn, ...] | None:
        """The columns of a table that it writes beside the answer."""
        return None

    def declared(self) -> dict[str, Any]:
        """The declared values, for the document."""
        return {}

    def of_groups(self, grouping: Any) -> Self:  # noqa: ARG002
        """The same for groups whose keys are known now."""
        return self

    def released_with_table(self, tally: Any, rng: Stream | None, write: Callable[[Table], None]) -> dict[str, Any]:  # noqa: ARG002
        """As `release`, of an answer that writes a table."""
        return self.release(tally, rng)

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard error of the answer's noise for a table of so many rows, if it is known."""
        return None


def standard_deviation(noise: IntegerNoise | RealNoise) -> float:
    """Standard deviation; for real noise not from a variance, which may leave the range of float64."""
    match noise:
        case Laplace():
            return laplace_deviation(noise.scale)
        case Gaussian():
            return noise.scale
        case _:
            return math.sqrt(noise_variance(LAWS[type(noise)], noise.scale))


def laplace_deviation(scale: float) -> float:
    """Standard deviation √2·b of Laplace noise of scale b."""
    return math.sqrt(2) * scale


@functools.lru_cache(maxsize=1024)
def half_width_of(noise: IntegerNoise | RealNoise, beta: float) -> float:
    """Half width of the interval with error probability β; cached, since all groups need the same."""
    return noise.accuracy(beta)


def described(noise: IntegerNoise | RealNoise) -> Noise:
    """Describe noise for a plan."""
    return Noise(LAWS[type(noise)], noise.sensitivity, noise.scale)


def rho_of(noise: IntegerNoise | RealNoise) -> float:
    """Return ρ of zero-concentrated privacy of the noise, rounded up."""
    match noise:
        case Laplace():
            return accounting.rho_laplace(noise.epsilon)
        case DiscreteLaplace():
            return accounting.rho_pure(noise.epsilon)
        case _:
            return accounting.rho_gaussian(noise.scale, noise.sensitivity)


def given(section: Section, *keys: str) -> dict[str, Any]:
    """Return those of the keys that the job sets."""
    found = {key: getattr(section, key) for key in keys}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items() if value is not None}


def interval_around(value: float, width: float) -> list[float]:
    """The ends of an interval of this half-width."""
    return [value - width, value + width]


def around(values: Array, noise: IntegerNoise | RealNoise, confidence: float) -> dict[str, Any]:
    """Noisy numbers of groups with their intervals, as the document has them."""
    width = half_width_of(noise, 1 - confidence)
    interval = np.stack([values - width, values + width], axis=-1)
    return {"value": values.tolist(), "stderr": [standard_deviation(noise)] * len(values), "interval": interval.tolist()}


def integer_noise(epsilon: float, delta: float, sensitivity: Sensitivity, relation: Relation) -> IntegerNoise:
    """Noise of a count, or of several."""
    if delta == 0:
        return DiscreteLaplace(epsilon, int(sensitivity.l1), relation=relation)
    if sensitivity.alone:
        return DiscreteGaussian(epsilon, delta, int(sensitivity.l1), method="exact", relation=relation)
    return DiscreteGaussian(epsilon, delta, sensitivity.l2, relation=relation)


def real_noise(epsilon: float, delta: float, sensitivity: Sensitivity, relation: Relation) -> RealNoise:
    """Noise of a sum, or of several."""
    if delta == 0:
        return Laplace(epsilon, sensitivity.l1, relation=relation)
    return Gaussian(epsilon, delta, sensitivity.l2, relation=relation)


def noisy_sums(total: ExactSum, noise: RealNoise, rng: Stream | None) -> float | Array:
    """Exact sums with noise, one or one for each column."""
    return total.noisy("laplace" if isinstance(noise, Laplace) else "gaussian", noise.scale, rng=rng, threads=1)


def reals_of(section: SumQuery | MeanQuery, cells: Reals) -> tuple[tuple[str, Cells], ...]:
    """The column of numbers, and where they are if other rows are skipped."""
    column = (section.column, cells)
    return (column, (section.column, Present(cells))) if section.missing == SKIP else (column,)


def there(read: list[Array], count: int = 1) -> list[Array]:
    """So many columns of numbers, without the rows where one of the masks that follow them is false."""
    columns, masks = read[:count], read[count:]
    if not masks:
        return columns
    kept = np.logical_and.reduce(masks)
    return columns if kept.all() else [each[kept] for each in columns]


class OneColumn(Answer):
    """Base of the answers that read one column."""

    __slots__ = ()
    cells: Any

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The column of the query."""
        return ((self.section.column, self.cells),)


class OneDraw(Answer):
    """Base of the answers with one draw of noise, on a number or on each of several."""

    __slots__ = ()
    mechanism: IntegerNoise | RealNoise

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise of the draw."""
        return (described(self.mechanism),)

    @property
    def rho(self) -> float | None:
        """ρ of its draw."""
        return rho_of(self.mechanism)

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard deviation of the noise of one number."""
        return standard_deviation(self.mechanism)


@dataclass(frozen=True, slots=True)
class HistogramAnswer(OneColumn, OneDraw):
    """Rows in each cell, with discrete noise for the ℓ1 or ℓ2 sensitivity of all cells together."""

    section: HistogramQuery
    cells: Binned | Declared
    mechanism: IntegerNoise

    @property
    def fewest_cells(self) -> int:
        """All of them."""
        return self.cells.size

    @classmethod
    def made(cls, section: HistogramQuery, cells: Binned | Declared, bound: Contribution, relation: Relation) -> HistogramAnswer:
        """Calibrate it."""
        return cls(section, cells, integer_noise(section.epsilon, section.delta, bound.cells, relation))

    def declared(self) -> dict[str, Any]:
        """The cells, and the values that replace others."""
        if isinstance(self.cells, Binned):
            return {"edges": list(self.cells.edges), **given(self.section, "missing")}
        return {"categories": self.cells.categories.listed(), **given(self.section, "missing", "unknown")}

    def tally(self, rows: int, read: list[Array]) -> Array:  # noqa: ARG002
        """Rows in each cell; the code that follows is that of rows that are skipped."""
        return _backend.code_counts(read[0], self.cells.size + 1, threads=1)[:-1]

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """The noisy numbers; intervals are pointwise."""
        value = self.mechanism.release(tally, rng=rng, threads=1)
        width = half_width_of(self.mechanism, 1 - self.section.confidence)
        interval = np.stack([value - width, value + width], axis=-1)
        return {"value": value.tolist(), "stderr": standard_deviation(self.mechanism), "interval": interval.tolist()}

    def release_of_groups(self, counts: Array, rng: Stream | None) -> dict[str, Any]:
        """The noisy numbers of each group, a list for each."""
        return around(self.mechanism.release(counts, rng=rng, threads=1), self.mechanism, self.section.confidence)


@dataclass(frozen=True, slots=True)
class _OneSum(OneColumn, OneDraw):
    """Base of the answers with one draw of noise on one exact sum of clamped numbers."""

    section: SumQuery | MeanQuery
    cells: Reals
    mechanism: RealNoise

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The column of the query."""
        return reals_of(self.section, self.cells)

    def declared(self) -> dict[str, Any]:
        """The bounds."""
        return given(self.section, "lower", "upper", "missing")

    def tally(self, rows: int, read: list[Array]) -> ExactSum:  # noqa: ARG002
        """The sum, with its number of rows."""
        return clamped_sum(there(read)[0], self.section.lower, self.section.upper, threads=1)


@dataclass(frozen=True, slots=True)
class SumAnswer(_OneSum):
    """The exact sum of clamped numbers, with real noise."""

    @classmethod
    def made(cls, section: SumQuery, cells: Reals, bound: Contribution, relation: Relation, groups: int = 0) -> SumAnswer:
        """Calibrate it, for one of so many groups if there are any."""
        clamped_sum(np.empty(0), section.lower, section.upper)
        sensitivity = (bound.totals if groups else bound.total)(section.lower, section.upper)
        return cls(section, cells, real_noise(section.epsilon, section.delta, sensitivity, relation))

    def release(self, tally: ExactSum, rng: Stream | None) -> dict[str, Any]:
        """The noisy sum."""
        value = float(noisy_sums(tally, self.mechanism, rng))
        width = half_width_of(self.mechanism, 1 - self.section.confidence)
        return {"value": value, "stderr": standard_deviation(self.mechanism), "interval": interval_around(value, width)}


@dataclass(frozen=True, slots=True)
class PublicMeanAnswer(_OneSum):
    """A noisy sum over the number of rows, which is public: neighbours have equally many."""

    @classmethod
    def made(cls, section: MeanQuery, cells: Reals, bound: Contribution, relation: Relation) -> PublicMeanAnswer:
        """Calibrate it."""
        clamped_sum(np.empty(0), section.lower, section.upper)
        return cls(section, cells, real_noise(section.epsilon, section.delta, bound.total(section.lower, section.upper), relation))

    def release(self, tally: ExactSum, rng: Stream | None) -> dict[str, Any]:
        """The noisy mean; of no rows there is none."""
        n = tally.n
        if n == 0:
            return {"value": None, "stderr": None, "interval": None, "note": "the table has no rows, and so no mean"}
        value = float(noisy_sums(tally, self.mechanism, rng)) / n
        width = half_width_of(self.mechanism, 1 - self.section.confidence) / n
        return {"value": value, "stderr": standard_deviation(self.mechanism) / n, "interval": interval_around(value, width)}

    def expected_error(self, rows: int | None) -> float | None:
        """Standard deviation of the noise."""
        return standard_deviation(self.mechanism) / rows if rows else None


@dataclass(frozen=True, slots=True)
class PrivateMeanAnswer(OneColumn):
    """A noisy sum over a noisy number of rows, each for half of ε and δ.

    The numbers are summed as their distances from the middle of [lower, upper]: the sensitivity is then half the width per row,
    wherever the bounds lie.
    """

    section: MeanQuery
    cells: Reals
    total: RealNoise
    count: IntegerNoise
    middle: float
    half_width: float

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The column of the query."""
        return reals_of(self.section, self.cells)

    @classmethod
    def made(cls, section: MeanQuery, cells: Reals, bound: Contribution, relation: Relation, groups: int = 0) -> PrivateMeanAnswer:
        """Calibrate both, for one of so many groups if there are any."""
        middle = section.lower / 2 + section.upper / 2
        half_width = fraction_up(max(Fraction(section.upper) - Fraction(middle), Fraction(middle) - Fraction(section.lower)))
        clamped_sum(np.empty(0), -half_width, half_width)
        epsilon, delta = section.epsilon / 2, section.delta / 2
        total = real_noise(epsilon, delta, (bound.totals if groups else bound.total)(-half_width, half_width), relation)
        count = integer_noise(epsilon, delta, bound.cells if groups else bound.count, relation)
        return cls(section, cells, total, count, middle, half_width)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise that it draws."""
        return (described(self.total), described(self.count))

    @property
    def rho(self) -> float | None:
        """ρ of both draws."""
        return fraction_up(Fraction(rho_of(self.total)) + Fraction(rho_of(self.count)))

    def declared(self) -> dict[str, Any]:
        """The bounds."""
        return given(self.section, "lower", "upper", "missing") | AT_LEAST

    def tally(self, rows: int, read: list[Array]) -> ExactSum:  # noqa: ARG002
        """The sum of distances from the middle."""
        return clamped_sum(self.distances(there(read)[0]), -self.half_width, self.half_width, threads=1)

    def distances(self, values: Array) -> Array:
        """How far values are from the middle."""
        with np.errstate(over="ignore"):
            distances: Array = values.astype(np.float64) - self.middle
        return distances

    def release(self, tally: ExactSum, rng: Stream | None) -> dict[str, Any]:
        """The noisy mean, clamped to the bounds, which costs nothing."""
        total, count = float(noisy_sums(tally, self.total, rng)), int(self.count.release(tally.n, rng=rng, threads=1))
        value = float(self.mean(total, count))
        low, high = self.interval(total, count)
        return {
            "value": value,
            "stderr": math.hypot(standard_deviation(self.total), (value - self.middle) * standard_deviation(self.count)) / max(count, 1),
            "interval": [float(low), float(high)],
            "count": count,
        }

    def mean(self, total: Any, count: Any) -> Any:
        """The quotients of noisy sums and counts."""
        return np.clip(self.middle + total / np.maximum(count, 1), self.section.lower, self.section.upper)

    def interval(self, total: Any, count: Any) -> tuple[Any, Any]:
        """Intervals of quotients: sum and count get half of the error probability each, and the quotient is monotone in both."""
        beta = (1 - self.section.confidence) / 2
        sums, counts = (float(half_width_of(noise, beta)) for noise in (self.total, self.count))
        corners = [self.mean(total + a, count + b) for a in (-sums, sums) for b in (-counts, counts)]
        return np.minimum.reduce(corners), np.maximum.reduce(corners)
