"""`mean`: a noisy sum over the number of rows, which is noisy too where it is private."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up
from dpcore.query.encoders import Clamped
from dpcore.query.estimators import AT_LEAST, OneColumn, OneSum, given, reals_of
from dpcore.query.fields import Bound, NumberOrSkip
from dpcore.query.kinds.base import NumberKind
from dpcore.query.methods import KNOWN, Method
from dpcore.query.noise import described, half_width_of, integer_noise, noisy_sums, norm, real_noise, rho_of, standard_deviation
from dpcore.query.query_sections import BOUNDED_KEYS, INSTEAD, BoundedQuery
from dpcore.query.quotients import FEWER, combined_width, quotient_interval
from dpcore.query.reads import clamped
from dpcore.query.statistics import SumOf
from dpcore.sums import clamped_sum
from dpcore.tables.fields import Name

if TYPE_CHECKING:
    from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
    from dpcore.privacy import Relation
    from dpcore.query.assumed import Assumed
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import Estimator
    from dpcore.query.kinds.base import Columns
    from dpcore.query.noise import Array, Noise
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic, SumsOfGroups
    from dpcore.rng import Stream

    IntegerNoise = DiscreteLaplace | DiscreteGaussian
    RealNoise = Laplace | Gaussian


OF_ONE_OR_DATE = f"Bounds of one number or date, lower < upper. {KNOWN} Required without `bounds`."


class MeanQuery(BoundedQuery):
    """`kind = "mean"`: the mean of the clamped numbers."""

    kind: Literal["mean"]
    column: Annotated[Name, Field(description="Column of numbers, dates or times.")]
    lower: Annotated[Bound, Field(description=OF_ONE_OR_DATE)]
    upper: Annotated[Bound, Field(description=OF_ONE_OR_DATE)]
    missing: Annotated[NumberOrSkip | None, Field(description=f"{INSTEAD}, as AVG in SQL does. Required with a ledger.")] = None

    def _check_sort(self, sort: str | None) -> None:
        """Dates, times and durations have means."""


class Mean(NumberKind):
    """The mean of clamped numbers."""

    names, fields = ("mean",), (MeanQuery,)
    methods = (
        Method(
            "mean",
            "Average the numbers of a column, each clamped to [lower, upper].",
            "The noisy mean, for each group if there are groups.",
            BOUNDED_KEYS,
        ),
    )
    measured = "unit_of_measure"
    is_between_bounds = True

    def columns(self, position: int, query: MeanQuery) -> Columns:  # noqa: ARG002
        return clamped(query)

    def calibrate(self, query: MeanQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """With one draw where the number of rows is public, as it never is for groups."""
        cells: Any = columns[0][1]
        if bound.n_is_public and not groups:
            return PublicMeanEstimator.calibrate(query, cells, bound, relation)
        return PrivateMeanEstimator.calibrate(query, cells, bound, relation, groups)


@dataclass(frozen=True, slots=True)
class PublicMeanEstimator(OneSum):
    """A noisy sum over the number of rows, which is public: neighbours have equally many."""

    @classmethod
    def calibrate(cls, section: MeanQuery, cells: Clamped, bound: Contribution, relation: Relation) -> PublicMeanEstimator:
        """Calibrate it."""
        clamped_sum(np.empty(0), section.lower, section.upper)
        return cls(section, cells, real_noise(section.epsilon, section.delta, bound.total(section.lower, section.upper), relation))

    def release(self, total: SumsOfGroups, rng: Stream | None) -> dict[str, Any]:
        """The noisy mean of the whole table; of no rows there is none."""
        n = int(total.counts[0])
        if n == 0:
            return {"value": None, "stderr": None, "interval": None, "note": "the table has no rows, and so no mean"}
        value = float(np.asarray(noisy_sums(total.sums, self.mechanism, rng))[0]) / n
        width = half_width_of(self.mechanism, 1 - self.section.confidence) / n
        return {"value": value, "stderr": standard_deviation(self.mechanism) / n, "interval": [value - width, value + width]}

    def expected_error(self, rows: int | None) -> float | None:
        return standard_deviation(self.mechanism) / rows if rows else None

    def half_width(self, assumed: Assumed) -> float | None:
        return half_width_of(self.mechanism, 1 - self.section.confidence) / assumed.known("n")


@dataclass(frozen=True, slots=True)
class PrivateMeanEstimator(OneColumn):
    """A noisy sum over a noisy number of rows, each for half of ε and δ.

    The numbers are summed as their distances from the middle of [lower, upper]: the sensitivity is then half the width per row,
    wherever the bounds lie.
    """

    section: MeanQuery
    cells: Clamped
    total: RealNoise
    count: IntegerNoise
    middle: float
    half_width_of_bounds: float

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return reals_of(self.section, self.cells)

    @classmethod
    def calibrate(
        cls, section: MeanQuery, cells: Clamped, bound: Contribution, relation: Relation, groups: int = 0
    ) -> PrivateMeanEstimator:
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
        return (described(self.total), described(self.count))

    @property
    def rho(self) -> float | None:
        return fraction_up(Fraction(rho_of(self.total)) + Fraction(rho_of(self.count)))

    def parameters(self) -> dict[str, Any]:
        return given(self.section, "lower", "upper", "missing") | AT_LEAST

    @property
    def statistic(self) -> Statistic:
        """The sum of distances from the middle, and the number of rows."""
        return SumOf(self.groups, -self.half_width_of_bounds, self.half_width_of_bounds, self.middle)

    def release_each(self, total: SumsOfGroups, rng: Stream | None) -> dict[str, Any]:
        """The noisy means, clamped to the bounds, which costs nothing."""
        sums = np.asarray(noisy_sums(total.sums, self.total, rng))
        count = np.asarray(self.count.release(total.counts, rng=rng, threads=1))
        value, (low, high) = self.mean(sums, count), self.interval(sums, count)
        deviations = [standard_deviation(noise) for noise in (self.total, self.count)]
        return {
            "value": value,
            "stderr": norm(deviations[0], (value - self.middle) * deviations[1]) / np.maximum(count, 1),
            "interval": np.stack([low, high], axis=-1),
            "count": count,
        }

    def half_width(self, assumed: Assumed) -> float | None:
        r"""Of a group of n rows with the sum S of distances from the middle: (S + A)/(n + B) − S/n = (A − (S/n)·B)/(n + B).

        The numerator leaves its width, or B goes below the half-width of the count, with the error probability of the interval.
        """
        n, beta = assumed.known("n"), 1 - self.section.confidence
        fewer = float(half_width_of(self.count, 2 * FEWER * beta))
        mean = assumed.numbers.get("mean")
        far = self.half_width_of_bounds if mean is None else min(abs(mean - self.middle), self.half_width_of_bounds)
        widest = float(self.section.upper) - float(self.section.lower)
        return widest if n <= fewer else min(float(self.off(far, (1 - FEWER) * beta)) / (n - fewer), widest)

    def off(self, ratio: Any, beta: float) -> Array:
        """How far a noisy sum is from the ratio times the noisy count at most, but with probability β."""
        return combined_width(self.total, self.count, (1.0, ratio), beta)

    def mean(self, total: Any, count: Any) -> Any:
        """The quotients of noisy sums and counts."""
        return np.clip(self.middle + total / np.maximum(count, 1), self.section.lower, self.section.upper)

    def interval(self, total: Any, count: Any) -> tuple[Any, Any]:
        """Intervals of quotients, cut to the bounds."""
        beta = 1 - self.section.confidence
        ends = quotient_interval(total, count, self.half_width_of_bounds, lambda ratio: self.off(ratio, beta))
        low, high = (np.clip(self.middle + end, self.section.lower, self.section.upper) for end in ends)
        return low, high
