r"""`var`, `std` and `covariance`: second moments of clamped numbers.

Numbers are clamped and become whole steps (`steps.py`), so Σk, Σl and Σkl are integers without rounding error. Two ways lead from there
to an answer; which one is taken follows from public parameters alone.

In two releases: noisy means come first, and the nearest steps c, d to them are the centres. Then Σ(k − c)(l − d) gets noise. It is computed
from the same sums, without a second pass, and each of its terms lies in an interval that the centres and the bounds determine, which are
both known when its noise is calibrated: for a variance [0, R²], R = max(c, most − c), between a quarter and all of the squared width. The
answer differs from that of the true means by (mean − c)(mean' − d) only, a product of two small errors. By adaptive composition the
parts of ε and δ, each rounded down, sum to no more than the query's: the second release is private given any outcome of the first one.
Where the number of rows is private a noisy count is a further part.

In one release, if the number n of rows is public and n·ε < 200, where that product of errors would not be small: n·Σkl − Σk·Σl, which is
n² times the covariance, has a sensitivity of (n − 1)·w·w' for the widths w and w' of the bounds (`sensitivity.py`).

Everything after the noise looks at noisy numbers alone and costs nothing: quotients, the correction n/(n − ddof), the square root of
`std`, and clamping to what the bounds allow, [0, w²/4] for a variance of all rows.

Two releases are made for all groups at once, of which the whole table is one. The integers of a group stay exact: those beyond 64 bits are
Python's, in arrays of objects.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up
from dpcore.mechanisms import Gaussian
from dpcore.query.encoders import Clamped
from dpcore.query.estimators import AT_LEAST, Estimator, given
from dpcore.query.grids import Steps
from dpcore.query.kinds.base import NumberKind
from dpcore.query.methods import Method
from dpcore.query.noise import (
    LAWS,
    Draw,
    Noise,
    described,
    half_width_of,
    integer_noise,
    multiple_above,
    noisy_integer,
    noisy_integers,
    norm,
    part_of,
    real_noise,
    rho_of,
    scale_deviation,
    standard_deviation,
    unit_width,
)
from dpcore.query.query_sections import BOUNDED_KEYS, BoundedQuery
from dpcore.query.reads import clamped
from dpcore.query.sensitivity import Sensitivity
from dpcore.query.statistics import MomentsOf

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.assumed import Assumed
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import IntegerNoise, RealNoise
    from dpcore.query.grids import Moments
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.query_sections import QuerySection
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Exact, MomentsOfGroups, Statistic
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


ENOUGH = 200
"""n·ε from which two releases are more accurate: their first-order error is 1.9 to 7.5 quarter widths squared over n·ε, their
second-order one about 290 over (n·ε)², and that of one release is 5.7."""
PUBLIC_SHARES = Fraction(0), Fraction(1, 4), Fraction(3, 4)
"""Parts of ε and δ for the count, all means and the product where the number of rows is public."""
PRIVATE_SHARES = Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)
MISS_SHARES = 0.3, 0.1, 0.6
"""Parts of the error probability of an interval in the same order; a public count leaves its part to the product."""
EXACT_BITS = 100
"""Integers of so many bits are exactly a pair of float64 numbers."""
TWO = "two releases: noisy means, then products of distances from them"
ONE = "one release of the second moment about the exact means"
AT_A_TIME = 1 << 16
"""Groups whose integers are Python's at a time."""
DIVISOR = "The divisor is n − ddof. Default: 1."
KEYS = (*BOUNDED_KEYS[:-1], "ddof", BOUNDED_KEYS[-1])


class SpreadQuery(BoundedQuery):
    """`kind = "var"` and `"std"`: the variance of the clamped numbers, or its root; of a sample, or with `ddof = 0` of the rows."""

    kind: Literal["var", "std"]
    ddof: Annotated[Literal[0, 1], Field(description=DIVISOR)] = 1
    ends_with_product: ClassVar[bool] = True

    @property
    def is_root(self) -> bool:
        """Whether the root of the variance is wanted."""
        return self.kind == "std"

    @property
    def powers(self) -> tuple[int, ...]:
        return (1,) if self.is_root else (2,)


def _method(name: str, noun: str) -> Method:
    does = f"Compute the {noun} of the numbers of a column, each clamped to [lower, upper]."
    return Method(name, does, f"The noisy {noun}, for each group if there are groups.", KEYS)


class Spread(NumberKind):
    """A variance."""

    names: ClassVar[tuple[str, ...]] = ("var",)
    fields: ClassVar[tuple[type[QuerySection], ...]] = (SpreadQuery,)
    methods: ClassVar[tuple[Method, ...]] = (_method("var", "variance"),)
    noun: ClassVar[str] = "variance"

    def columns(self, position: int, query: SpreadQuery) -> Columns:  # noqa: ARG002
        return clamped(query)

    def calibrate(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        return MomentEstimator.calibrate(query, columns, bound, relation, groups)

    def subject(self, query: Entry) -> str:
        return f"{self.noun} of {self._columns(query)}"

    def question(self, query: Entry) -> str:
        over = "n" if query.get("ddof") == 0 else "n − 1"
        return f"The {self.noun} of {self._columns(query)}, divided by {over}"

    def _columns(self, query: Entry) -> str:
        return str(query["column"])


class Deviation(Spread):
    """The root of a variance."""

    names, fields, methods = ("std",), (SpreadQuery,), (_method("std", "standard deviation"),)
    measured = "unit_of_measure"
    noun = "standard deviation"


@dataclass(frozen=True, slots=True)
class MomentEstimator(Estimator):
    """The variance or standard deviation of one column, or the covariance of two.

    `means` is the noise of each mean, for numbers in [−1, 1] · half a width; `product` and `whole` are for a sensitivity of 1.
    """

    section: Any
    reads: tuple[tuple[str, Encoder], ...]
    steps: tuple[Steps, ...]
    bound: Contribution
    is_grouped: bool
    means: RealNoise
    product: RealNoise
    whole: RealNoise
    count: IntegerNoise | None

    @classmethod
    def calibrate(
        cls,
        section: Any,
        columns: tuple[tuple[str, Encoder], ...],
        bound: Contribution,
        relation: Relation,
        groups: int = 0,
    ) -> MomentEstimator:
        """Calibrate all its noise, for one of so many groups if there are any."""
        epsilon, delta, public = section.epsilon, section.delta, bound.n_is_public and not groups
        counting, first, second = PUBLIC_SHARES if public else PRIVATE_SHARES
        steps = tuple(Steps.between(*cells.bounds) for _, cells in columns if isinstance(cells, Clamped))
        each = first / len(steps)
        one = Sensitivity(1.0, 1.0, alone=True)
        signed = -1.0 if len(steps) > 1 else 0.0
        calibrate = cls(
            section,
            columns,
            steps,
            bound,
            groups > 0,
            real_noise(part_of(epsilon, each), part_of(delta, each), (bound.totals if groups else bound.total)(-1.0, 1.0), relation),
            real_noise(part_of(epsilon, second), part_of(delta, second), bound.totals(signed, 1.0) if groups else one, relation),
            real_noise(epsilon, delta, one, relation),
            None
            if public
            else integer_noise(part_of(epsilon, counting), part_of(delta, counting), bound.cells if groups else bound.count, relation),
        )
        calibrate._try_scales()
        return calibrate

    def _try_scales(self) -> None:
        """Draw noise of the smallest and the largest scale that can be needed: what is refused must be refused before anything is spent."""
        for steps in self.steps:
            noisy_integer(0, Fraction(1), self.means, self.mean_scale(steps), None)
        middle = tuple(steps.most // 2 for steps in self.steps)
        for centres in (middle, (0,) * len(self.steps)):
            noisy_integer(0, Fraction(1), self.product, self.product_scale(centres), None)
        noisy_integer(0, Fraction(1), self.whole, self._whole_noise(self.fewest).scale, None)

    @property
    def fewest(self) -> int:
        """Rows from which there are two releases, if their number is public."""
        return math.ceil(ENOUGH / Fraction(self.section.epsilon))

    @property
    def way(self) -> str:
        """How the answer is made, in words."""
        return TWO if self.count is not None else f"{TWO}; of fewer than {self.fewest:,} rows {ONE}"

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        return (("spread", self.way),)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise of two releases, that of the product at its largest."""
        drawn = [self.mean_noise(steps) for steps in self.steps]
        drawn += [] if self.count is None else [described(self.count)]
        return (*drawn, self.product_noise((0,) * len(self.steps)))

    @property
    def rho(self) -> float | None:
        """ρ of all draws, of the way that needs more."""
        two = len(self.steps) * Fraction(rho_of(self.means)) + Fraction(rho_of(self.product))
        if self.count is None:
            return fraction_up(max(two, Fraction(rho_of(self.whole))))
        return fraction_up(two + Fraction(rho_of(self.count)))

    def parameters(self) -> dict[str, Any]:
        """The bounds, the divisor, and how the answer is made."""
        names = {} if len(self.steps) == 1 else given(self.section, "columns")
        return {**names, **given(self.section, "lower", "upper", "missing", "ddof"), "method": self.way, **AT_LEAST}

    def half_width(self, assumed: Assumed) -> float | None:
        """Half of the interval that n rows of these moments have without noise; without a mean, where it is the widest."""
        return max(_Expected(self, assumed, part).half_width() for part in (0.0, 0.5, 1.0))

    @property
    def statistic(self) -> Statistic:
        """The exact sums of steps and of their products."""
        return MomentsOf(self.groups, self.steps)

    def release(self, total: MomentsOfGroups, rng: Stream | None) -> dict[str, Any]:
        """The noisy moments; of too few rows, if their number is public, there is none."""
        if self.count is not None:
            return Estimator.release(self, total, rng)
        (one,), ddof = total.each(), self.section.ddof
        if one.n <= ddof:
            return {"value": None, "stderr": None, "interval": None, "note": f"there are fewer than {ddof + 1} rows, and so no answer"}
        return self._in_one(one, rng) if one.n < self.fewest else Estimator.release(self, total, rng)

    def release_each(self, total: MomentsOfGroups, rng: Stream | None) -> dict[str, list[Any]]:
        """In two releases. A draw is one of as many elements as there are groups, of which some are answered at a time."""
        draws = [Draw(rng) for _ in range(len(self.steps) + (self.count is not None) + 1)]
        found: dict[str, list[Any]] = {}
        for start in range(0, total.groups, AT_A_TIME):
            exact = total.exact(start, min(start + AT_A_TIME, total.groups))
            for key, values in _TwoReleases(self, exact, [draw.at(start) for draw in draws]).document().items():
                found.setdefault(key, []).extend(values)
        return found

    # One release

    def _in_one(self, total: Moments, rng: Stream | None) -> dict[str, Any]:
        n = total.n
        # Integers of very many rows are rounded down to multiples of a power of two, of which the sensitivity is then one as well.
        coarse = 1 << max(0, 2 * (max(steps.most.bit_length() for steps in self.steps) + n.bit_length()) - EXACT_BITS)
        noise = self._whole_noise(n, coarse)
        noisy = noisy_integer(total.centred(), self.squared_step, self.whole, noise.scale, rng, coarse) / n**2
        deviation = scale_deviation(self.whole, noise.scale) / n**2
        width = noise.scale * unit_width(noise.law, 1 - self.section.confidence) / n**2 + self._rounding
        rows, value, off, low, high = (np.array([each]) for each in (n, noisy, deviation, noisy - width, noisy + width))
        said = self.scaled(value, off, low, high, (rows, rows), rows)
        return {**{key: values[0] for key, values in said.items()}, "releases": 1, "noise": [noise.document()]}

    def _whole_noise(self, n: int, coarse: int = 1) -> Noise:
        moved = max(n - 1, 1) * self.steps[0].most * self.steps[-1].most
        sensitivity = multiple_above(moved, coarse) * self.squared_step
        return Noise(LAWS[type(self.whole)], fraction_up(sensitivity), fraction_up(Fraction(self.whole.scale) * sensitivity))

    # Two releases

    def _terms(self, centres: tuple[int, ...]) -> tuple[int, int]:
        """The least and the largest (k − c)(l − d), in squared steps."""
        (c, most), (d, other) = ((centre, steps.most) for centre, steps in zip((centres[0], centres[-1]), self.both, strict=True))
        if len(centres) == 1:
            return 0, max(c, most - c) ** 2
        return -max(c * (other - d), (most - c) * d), max(c * d, (most - c) * (other - d))

    @property
    def both(self) -> tuple[Steps, Steps]:
        """The steps of both factors."""
        return self.steps[0], self.steps[-1]

    def _product_sensitivity(self, centres: tuple[int, ...]) -> Fraction:
        """By what the noise for a sensitivity of 1 is multiplied."""
        low, high = self._terms(centres)
        moved = Fraction(max(-low, high)) if self.is_grouped else Fraction(self.bound.total(low, high).l1)
        return moved * self.squared_step

    def product_scale(self, centres: tuple[int, ...]) -> float:
        """The scale of a noisy product about centres."""
        return fraction_up(Fraction(self.product.scale) * self._product_sensitivity(centres))

    def product_noise(self, centres: tuple[int, ...]) -> Noise:
        """The noise of a product about centres."""
        moved = Fraction(self.product.sensitivity) * self._product_sensitivity(centres)
        return Noise(LAWS[type(self.product)], fraction_up(moved), self.product_scale(centres))

    def mean_scale(self, steps: Steps) -> float:
        """The scale of one noisy sum."""
        return fraction_up(Fraction(self.means.scale) * self._farthest(steps))

    def mean_noise(self, steps: Steps) -> Noise:
        """The noise of one sum."""
        sensitivity = fraction_up(Fraction(self.means.sensitivity) * self._farthest(steps))
        return Noise(LAWS[type(self.means)], sensitivity, self.mean_scale(steps))

    def _farthest(self, steps: Steps) -> Fraction:
        return steps.most * Fraction(steps.unit) / 2

    def mean_width(self, steps: Steps, beta: float) -> float:
        """Half-width of one noisy sum."""
        return self.mean_scale(steps) * unit_width(LAWS[type(self.means)], beta * MISS_SHARES[1] / len(self.steps))

    def product_unit_width(self, beta: float) -> float:
        """Half-width of a noisy product over its scale; a public count leaves its part of the error probability to the product."""
        return unit_width(LAWS[type(self.product)], beta * (MISS_SHARES[2] + (MISS_SHARES[0] if self.count is None else 0.0)))

    # What is made of noisy numbers

    @property
    def squared_step(self) -> Fraction:
        """One step of products."""
        return Fraction(self.steps[0].unit) * Fraction(self.steps[-1].unit)

    @property
    def _rounding(self) -> float:
        """By how much rounding to steps moves the moment at most."""
        one, other = self.both
        return one.off * other.width + other.off * one.width

    @property
    def largest(self) -> float:
        """The largest second moment about the mean that the bounds allow."""
        one, other = self.both
        return (one.width + one.unit) * (other.width + other.unit) / 4

    def second_order(self, deviations: list[Any]) -> Any:
        """Standard deviation of the product of the errors of two means, or of the square of one, whose fourth moment is known."""
        if len(deviations) > 1:
            return deviations[0] * deviations[1]
        return math.sqrt(2.0 if isinstance(self.means, Gaussian) else 5.0) * deviations[0] ** 2

    def widened(self, ends: tuple[Any, Any], widths: list[Any]) -> tuple[Any, Any]:
        """The interval of the moment about the true means, from that about centres that are so near to them."""
        miss = widths[0] * widths[-1]
        return ends[0] - miss - self._rounding, ends[1] + (miss if len(widths) > 1 else 0.0) + self._rounding

    def scaled(
        self, value: Array, deviation: Array, low: Array, high: Array, counts: tuple[Array, Array], rows: Array
    ) -> dict[str, list[Any]]:
        """Divide by n − ddof instead of n, clamp to what is possible, and take the root for a standard deviation."""
        factor, fewest, most = (_factors(each, self.section.ddof) for each in (rows, *counts))
        largest = self.largest * (factor if self.count is None else _factors(np.zeros(1), self.section.ddof))
        least = 0.0 if len(self.steps) == 1 else -largest
        low, high = low * np.where(low > 0, most, fewest), high * np.where(high > 0, fewest, most)
        value, low, high = (np.clip(each, least, largest) for each in (value * factor, low, high))
        deviation = deviation * factor
        if self.section.is_root:
            deviation = (np.sqrt(value + deviation) - np.sqrt(np.maximum(value - deviation, 0.0))) / 2
            value, low, high = map(np.sqrt, (value, low, high))
        return {"value": value.tolist(), "stderr": deviation.tolist(), "interval": np.stack([low, high], axis=-1).tolist()}


class _TwoReleases:
    """The answers to some groups."""

    def __init__(self, estimator: MomentEstimator, exact: Exact, draws: Sequence[Stream]) -> None:
        self.estimator, self.beta = estimator, 1 - estimator.section.confidence
        sums, rest = draws[: len(estimator.steps)], draws[len(estimator.steps) :]
        drawn = [self._noisy_sums(place, exact, rng) for place, rng in enumerate(sums)]
        self.n = exact.counts if estimator.count is None else estimator.count.release(exact.counts, rng=rest[0], threads=1)
        self.rows = np.maximum(self.n, 1)
        self._know(drawn)
        self.products = self._noisy_products(exact, rest[-1])

    def _know(self, drawn: list[Array]) -> None:
        """What follows from noisy sums."""
        estimator = self.estimator
        self.centres = [steps.nearest(total / self.rows) for steps, total in zip(estimator.steps, drawn, strict=True)]
        off = 0.0 if estimator.count is None else half_width_of(estimator.count, self.beta * MISS_SHARES[0])
        self.ends = np.maximum(self.n - off, 1), np.maximum(self.n + off, 1)
        self.misses = [self._miss(place, total) for place, total in enumerate(drawn)]
        self.scales = self._product_scales()

    def _noisy_sums(self, place: int, exact: Exact, rng: Stream) -> Array:
        steps = self.estimator.steps[place]
        totals = 2 * exact.sums[place] - exact.counts.astype(object) * steps.most
        return noisy_integers(totals, Fraction(steps.unit) / 2, self.estimator.means, self.estimator.mean_scale(steps), rng)

    def _product_scales(self) -> Array:
        """The scale of each product: of groups rounded up, by at most one unit in the last place more than `product_scale`."""
        estimator = self.estimator
        if not estimator.is_grouped:
            return np.array([estimator.product_scale(tuple(int(centres[0]) for centres in self.centres))])
        (c, most), (d, other) = (
            (centres, steps.most) for centres, steps in zip((self.centres[0], self.centres[-1]), estimator.both, strict=True)
        )
        if len(estimator.steps) == 1:
            moved = np.maximum(c, most - c) ** 2
        else:
            moved = np.maximum.reduce([c * (other - d), (most - c) * d, c * d, (most - c) * (other - d)])
        rounded = moved.astype(np.float64)  # all at most 2^62
        rounded = np.where(rounded.astype(np.int64) < moved, np.nextafter(rounded, math.inf), rounded)
        scales: Array = np.nextafter(rounded * estimator.product.scale, math.inf) * float(estimator.squared_step)
        return scales

    def _noisy_products(self, exact: Exact, rng: Stream) -> Array:
        """Σ(k − c)² or Σ(k − c)(l − d)."""
        c, d = self.centres[0].astype(object), self.centres[-1].astype(object)
        totals = exact.products - d * exact.sums[0] - c * exact.sums[-1] + exact.counts.astype(object) * c * d
        return noisy_integers(totals, self.estimator.squared_step, self.estimator.product, self.scales, rng)

    def _miss(self, place: int, total: Array) -> Array:
        """How far the true mean is from the centre at most."""
        steps, estimator = self.estimator.steps[place], self.estimator
        width = estimator.mean_width(steps, self.beta)
        ends = [(total + sign * width) / count + steps.width / 2 for sign in (-1, 1) for count in self.ends]
        low, high = np.maximum(np.minimum.reduce(ends), 0.0), np.minimum(np.maximum.reduce(ends), steps.width)
        at = self.centres[place] * steps.unit
        miss: Array = np.minimum(np.maximum(np.maximum(at - low, high - at), 0.0) + steps.unit / 2, steps.width)
        return miss

    def document(self) -> dict[str, list[Any]]:
        """For each key of an answer the list over groups."""
        estimator, rows, alone = self.estimator, self.rows, len(self.estimator.steps) == 1
        counting = 0.0 if estimator.count is None else standard_deviation(estimator.count)
        deviations = [
            norm(scale_deviation(estimator.means, estimator.mean_scale(steps)), (centres - steps.most / 2) * steps.unit * counting) / rows
            for steps, centres in zip(estimator.steps, self.centres, strict=True)
        ]
        value = self.products / rows - (deviations[0] * deviations[0] if alone else 0.0)
        value = np.clip(value, -estimator.largest, estimator.largest)
        second = estimator.second_order(deviations)
        deviation = norm(scale_deviation(estimator.product, self.scales) / rows, value * counting / rows, second)
        width = self.scales * estimator.product_unit_width(self.beta)
        corners = [total / count for total in (self.products - width, self.products + width) for count in self.ends]
        low, high = estimator.widened((np.minimum.reduce(corners), np.maximum.reduce(corners)), self.misses)
        said = {**estimator.scaled(value, deviation, low, high, self.ends, rows), "releases": [2] * len(rows)}
        places = [steps.places(centres) for steps, centres in zip(estimator.steps, self.centres, strict=True)]
        said["centre"] = places[0] if alone else [list(pair) for pair in zip(*places, strict=True)]
        if not estimator.is_grouped:  # noise that differs between groups is that of the plan
            said["noise"] = [[noise.document() for noise in self._drawn()]]
        return said if estimator.count is None else said | {"count": self.n.tolist()}

    def _drawn(self) -> list[Noise]:
        """The noise of the answer to the whole table."""
        estimator = self.estimator
        counted = [] if estimator.count is None else [described(estimator.count)]
        return [
            *map(estimator.mean_noise, estimator.steps),
            *counted,
            estimator.product_noise(tuple(int(centres[0]) for centres in self.centres)),
        ]


class _Expected(_TwoReleases):
    """The answer to rows with assumed moments, if no noise is drawn; a mean that is not assumed is some part of the way between bounds."""

    def __init__(self, estimator: MomentEstimator, assumed: Assumed, part: float) -> None:
        self.estimator, self.beta = estimator, 1 - estimator.section.confidence
        self.n = self.rows = np.array([assumed.known("n")])
        mean = assumed.numbers.get("mean")
        parts = [part if mean is None else min(max((mean - each.lower) / each.width, 0.0), 1.0) for each in estimator.steps]
        self._know([self.rows * (part - 0.5) * each.width for part, each in zip(parts, estimator.steps, strict=True)])
        self.products = self.rows * min(assumed.known("variance"), estimator.largest)

    def half_width(self) -> float:
        return float(np.ptp(self.document()["interval"][0])) / 2


def _factors(counts: Array, ddof: int) -> Array:
    """n/(n − ddof), of the fewest rows that have an answer where there are fewer."""
    n = np.maximum(counts, ddof + 1)
    factors: Array = n / (n - ddof)
    return factors
