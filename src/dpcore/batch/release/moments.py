r"""Variances, standard deviations and covariances, from exact second moments.

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
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcore._exact.intervals import fraction_up
from dpcore._spread import half_width
from dpcore.batch.release.answers import (
    AT_LEAST,
    LAWS,
    Answer,
    Noise,
    described,
    given,
    half_width_of,
    integer_noise,
    laplace_deviation,
    real_noise,
    rho_of,
    standard_deviation,
    there,
)
from dpcore.batch.release.cells import Reals
from dpcore.batch.release.sensitivity import Sensitivity
from dpcore.batch.release.steps import CACHED, Moments, Steps
from dpcore.mechanisms import Gaussian
from dpcore.sums import ExactSum

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release.answers import IntegerNoise, RealNoise
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.queries import CovarianceQuery, SpreadQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation
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


def part_of(total: float, share: Fraction) -> float:
    """A part of ε or δ, rounded down, so that parts do not sum to more than the whole."""
    exact = Fraction(total) * share
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)


def coarse_for(largest: int) -> int:
    """The power of two down to whose multiples sums of terms of at most this size are rounded: 1 up to 63 bits.

    Rounding down is monotone and commutes with multiples: sums that are at most s apart are at most ⌈s/coarse⌉·coarse apart afterwards.
    """
    return 1 << max(0, largest.bit_length() - 63)


def multiple_above(number: Fraction | int, coarse: int) -> int:
    """The least multiple of `coarse` that is not below a number."""
    return math.ceil(Fraction(number) / coarse) * coarse


def noisy_integer(total: int, step: Fraction, noise: RealNoise, scale: float, rng: Stream | None, coarse: int = 1) -> float:
    """The exact number total·step, rounded down to `coarse` steps, plus noise of this law and scale, correctly rounded."""
    exact = total // coarse * coarse * step
    high = float(exact)
    low = float(exact - Fraction(high))
    if Fraction(high) + Fraction(low) != exact:
        raise AssertionError("a pair of floats does not hold the sum")
    pair = ExactSum(high, low, float(step), 1, 0.0, 0.0)
    return float(pair.noisy("gaussian" if isinstance(noise, Gaussian) else "laplace", scale, rng=rng, threads=1))


@functools.lru_cache(maxsize=256)
def _unit_width(law: str, beta: float) -> float:
    """Half-width for noise of scale 1; times b a bound for scale b, whose grid is no coarser in proportion."""
    return half_width("gaussian" if law == "gaussian" else "laplace", 1.0, 1 - beta) * (1 + 2.0**-20)


@dataclass(frozen=True, slots=True)
class _Product:
    """A noisy Σ(k − c)(l − d) or n·Σkl − Σk·Σl, with the scale that it had."""

    value: float
    noise: Noise
    width: float
    deviation: float


@dataclass(frozen=True, slots=True)
class MomentAnswer(Answer):
    """The variance or standard deviation of one column, or the covariance of two.

    Attributes
    ----------
    section : SpreadQuery or CovarianceQuery
        The query.
    reads : tuple of (str, Cells)
        The columns, one or two, and how they are read.
    steps : tuple of Steps
        Those of each column.
    bound : Contribution
        Of one unit.
    groups : int
        Groups that are answered; 0 without groups.
    means : RealNoise
        Of each mean, for numbers in [−1, 1] · half a width.
    product : RealNoise
        Of the product, for terms whose sensitivity is 1.
    whole : RealNoise
        Of one release, for a sensitivity of 1.
    count : IntegerNoise or None
        Of a private number of rows.
    """

    section: SpreadQuery | CovarianceQuery
    reads: tuple[tuple[str, Cells], ...]
    steps: tuple[Steps, ...]
    bound: Contribution
    groups: int
    means: RealNoise
    product: RealNoise
    whole: RealNoise
    count: IntegerNoise | None

    @classmethod
    def made(
        cls,
        section: SpreadQuery | CovarianceQuery,
        columns: tuple[tuple[str, Cells], ...],
        bound: Contribution,
        relation: Relation,
        groups: int = 0,
    ) -> MomentAnswer:
        """Calibrate all its noise, for one of so many groups if there are any."""
        epsilon, delta, public = section.epsilon, section.delta, bound.n_is_public and not groups
        counting, first, second = PUBLIC_SHARES if public else PRIVATE_SHARES
        steps = tuple(Steps.between(*cells.bounds) for _, cells in columns if isinstance(cells, Reals))
        each = first / len(steps)
        one = Sensitivity(1.0, 1.0, alone=True)
        signed = -1.0 if len(steps) > 1 else 0.0
        made = cls(
            section,
            columns,
            steps,
            bound,
            groups,
            real_noise(part_of(epsilon, each), part_of(delta, each), (bound.totals if groups else bound.total)(-1.0, 1.0), relation),
            real_noise(part_of(epsilon, second), part_of(delta, second), bound.totals(signed, 1.0) if groups else one, relation),
            real_noise(epsilon, delta, one, relation),
            None
            if public
            else integer_noise(part_of(epsilon, counting), part_of(delta, counting), bound.cells if groups else bound.count, relation),
        )
        made._try_scales()
        return made

    def with_steps(self, steps: tuple[Steps, ...]) -> MomentAnswer:
        """The same for other steps between the same bounds."""
        return replace(self, steps=steps)

    def _try_scales(self) -> None:
        """Draw noise of the smallest and the largest scale that can be needed: what is refused must be refused before anything is spent."""
        for steps in self.steps:
            noisy_integer(0, Fraction(1), self.means, self.mean_scale(steps), None)
        middle = tuple(steps.most // 2 for steps in self.steps)
        for centres in (middle, (0,) * len(self.steps)):
            noisy_integer(0, Fraction(1), self.product, self._product_scale(centres), None)
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
        """How the answer is made."""
        return (("spread", self.way),)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise of two releases, that of the product at its largest."""
        drawn = [self._mean_noise(steps) for steps in self.steps]
        drawn += [] if self.count is None else [described(self.count)]
        return (*drawn, self._product_noise((0,) * len(self.steps)))

    @property
    def rho(self) -> float | None:
        """ρ of all draws, of the way that needs more."""
        two = len(self.steps) * Fraction(rho_of(self.means)) + Fraction(rho_of(self.product))
        if self.count is None:
            return fraction_up(max(two, Fraction(rho_of(self.whole))))
        return fraction_up(two + Fraction(rho_of(self.count)))

    def declared(self) -> dict[str, Any]:
        """The bounds, the divisor, and how the answer is made."""
        names = {} if len(self.steps) == 1 else given(self.section, "columns")
        return {**names, **given(self.section, "lower", "upper", "missing", "ddof"), "method": self.way, **AT_LEAST}

    def tally(self, rows: int, read: list[Array]) -> Moments:  # noqa: ARG002
        """The exact sums of steps and of their products, in blocks that stay in the cache."""
        columns = there(read, len(self.steps))
        total = Moments(0, (0,) * len(self.steps), 0)
        for start in range(0, len(columns[0]), CACHED):
            block = [steps.of(numbers[start : start + CACHED]) for steps, numbers in zip(self.steps, columns, strict=True)]
            total += Moments.of(block)
        return total

    def release(self, tally: Moments, rng: Stream | None) -> dict[str, Any]:
        """The noisy moment; of too few rows there is none."""
        n, ddof = tally.n, self.section.ddof
        if self.count is not None:
            return self._of_private(tally, rng)
        if n <= ddof:
            return {"value": None, "stderr": None, "interval": None, "note": f"there are fewer than {ddof + 1} rows, and so no answer"}
        return self._in_one(tally, rng) if n < self.fewest else self._in_two(tally, rng)

    # One release

    def _in_one(self, tally: Moments, rng: Stream | None) -> dict[str, Any]:
        """About the exact means, where the number of rows is public."""
        n, step = tally.n, self.squared_step
        # Integers of very many rows are rounded down to multiples of a power of two, of which the sensitivity is then one as well.
        coarse = 1 << max(0, 2 * (max(steps.most.bit_length() for steps in self.steps) + n.bit_length()) - EXACT_BITS)
        noise = self._whole_noise(n, coarse)
        noisy = noisy_integer(tally.centred(), step, self.whole, noise.scale, rng, coarse) / n**2
        deviation = scale_deviation(self.whole, noise.scale) / n**2
        width = noise.scale * _unit_width(noise.law, 1 - self.section.confidence) / n**2 + self._rounding
        answer = self._answer(noisy, deviation, (noisy - width, noisy + width), (n, n))
        return answer | {"releases": 1, "noise": [noise.document()]}

    def _whole_noise(self, n: int, coarse: int = 1) -> Noise:
        moved = max(n - 1, 1) * self.steps[0].most * self.steps[-1].most
        sensitivity = multiple_above(moved, coarse) * self.squared_step
        return Noise(LAWS[type(self.whole)], fraction_up(sensitivity), fraction_up(Fraction(self.whole.scale) * sensitivity))

    # Two releases

    def _in_two(self, tally: Moments, rng: Stream | None) -> dict[str, Any]:
        """About noisy means, where the number of rows is public."""
        n, beta = tally.n, 1 - self.section.confidence
        drawn = [self._noisy_sum(tally, place, rng) for place in range(len(self.steps))]
        centres = tuple(self._centre(place, total / n) for place, total in enumerate(drawn))
        product = self._noisy_product(tally, centres, beta * (MISS_SHARES[0] + MISS_SHARES[2]), rng)
        widths = [self.mean_width(steps, beta) / n + steps.unit / 2 for steps in self.steps]
        deviations = [scale_deviation(self.means, self.mean_scale(steps)) / n for steps in self.steps]
        value = (product.value - (n * deviations[0] ** 2 if len(self.steps) == 1 else 0.0)) / n
        deviation = math.hypot(product.deviation / n, self.second_order(deviations))
        ends = (product.value - product.width) / n, (product.value + product.width) / n
        return self._answer(value, deviation, self.widened(ends, widths), (n, n)) | self._said(centres, product, [])

    def _of_private(self, tally: Moments, rng: Stream | None) -> dict[str, Any]:
        """About noisy means, over a noisy number of rows."""
        if self.count is None:
            raise AssertionError("the number of rows is public")
        beta = 1 - self.section.confidence
        drawn = [self._noisy_sum(tally, place, rng) for place in range(len(self.steps))]
        n = int(self.count.release(tally.n, rng=rng, threads=1))
        rows = max(n, 1)
        centres = tuple(self._centre(place, total / rows) for place, total in enumerate(drawn))
        product = self._noisy_product(tally, centres, beta * MISS_SHARES[2], rng)
        off = half_width_of(self.count, beta * MISS_SHARES[0])
        counts = max(n - off, 1), max(n + off, 1)
        widths = [self._mean_miss(place, total, counts, centres[place], beta) for place, total in enumerate(drawn)]
        counting = standard_deviation(self.count)
        deviations = [
            math.hypot(scale_deviation(self.means, self.mean_scale(steps)), (centre - steps.most / 2) * steps.unit * counting) / rows
            for steps, centre in zip(self.steps, centres, strict=True)
        ]
        value = product.value / rows - (deviations[0] ** 2 if len(self.steps) == 1 else 0.0)
        value = min(max(value, -self.largest), self.largest)
        deviation = math.hypot(product.deviation / rows, value * counting / rows, self.second_order(deviations))
        sums = product.value - product.width, product.value + product.width
        corners = [total / count for total in sums for count in counts]
        ends = self.widened((min(corners), max(corners)), widths)
        return self._answer(value, deviation, ends, counts, rows) | self._said(centres, product, [described(self.count)]) | {"count": n}

    def _said(self, centres: tuple[int, ...], product: _Product, counted: list[Noise]) -> dict[str, Any]:
        """What a document holds about two releases; noise that differs between groups is that of the plan."""
        places = [steps.place(centre) for steps, centre in zip(self.steps, centres, strict=True)]
        said: dict[str, Any] = {"releases": 2, "centre": places if len(places) > 1 else places[0]}
        if not self.groups:
            drawn = [*map(self._mean_noise, self.steps), *counted, product.noise]
            said["noise"] = [noise.document() for noise in drawn]
        return said

    def _noisy_sum(self, tally: Moments, place: int, rng: Stream | None) -> float:
        """Σ(x − middle), as twice as many half steps."""
        steps = self.steps[place]
        total = 2 * tally.sums[place] - tally.n * steps.most
        return noisy_integer(total, Fraction(steps.unit) / 2, self.means, self.mean_scale(steps), rng, coarse_for(steps.most))

    def _centre(self, place: int, distance: float) -> int:
        """The step nearest to a noisy mean that is so far from the middle of the bounds."""
        steps = self.steps[place]
        return min(round(min(max(steps.most / 2 + distance / steps.unit, 0.0), float(steps.most))), steps.most)

    def _noisy_product(self, tally: Moments, centres: tuple[int, ...], beta: float, rng: Stream | None) -> _Product:
        noise = self._product_noise(centres)
        coarse = coarse_for(max(map(abs, self._terms(centres))))
        value = noisy_integer(tally.about(centres), self.squared_step, self.product, noise.scale, rng, coarse)
        return _Product(value, noise, noise.scale * _unit_width(noise.law, beta), scale_deviation(self.product, noise.scale))

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
        moved = Fraction(max(-low, high)) if self.groups else Fraction(self.bound.total(low, high).l1)
        return multiple_above(moved, coarse_for(max(-low, high))) * self.squared_step

    def _product_scale(self, centres: tuple[int, ...]) -> float:
        return fraction_up(Fraction(self.product.scale) * self._product_sensitivity(centres))

    def _product_noise(self, centres: tuple[int, ...]) -> Noise:
        moved = Fraction(self.product.sensitivity) * self._product_sensitivity(centres)
        return Noise(LAWS[type(self.product)], fraction_up(moved), self._product_scale(centres))

    def mean_scale(self, steps: Steps) -> float:
        """The scale of one noisy sum."""
        return fraction_up(Fraction(self.means.scale) * self._farthest(steps))

    def _mean_noise(self, steps: Steps) -> Noise:
        sensitivity = fraction_up(Fraction(self.means.sensitivity) * self._farthest(steps))
        return Noise(LAWS[type(self.means)], sensitivity, self.mean_scale(steps))

    def _farthest(self, steps: Steps) -> Fraction:
        """Half a width, the largest distance from the middle."""
        return multiple_above(steps.most, coarse_for(steps.most)) * Fraction(steps.unit) / 2

    def mean_width(self, steps: Steps, beta: float) -> float:
        """Half-width of one noisy sum."""
        return self.mean_scale(steps) * _unit_width(LAWS[type(self.means)], beta * MISS_SHARES[1] / len(self.steps))

    def product_unit_width(self, beta: float) -> float:
        """Half-width of a noisy product over its scale."""
        return _unit_width(LAWS[type(self.product)], beta)

    def _mean_miss(self, place: int, total: float, counts: tuple[float, float], centre: int, beta: float) -> float:
        """How far the true mean is from the centre at most, with a private number of rows."""
        steps = self.steps[place]
        width = self.mean_width(steps, beta)
        ends = [(total + sign * width) / count + steps.width / 2 for sign in (-1, 1) for count in counts]
        low, high = max(min(ends), 0.0), min(max(ends), steps.width)
        return min(max(centre * steps.unit - low, high - centre * steps.unit, 0.0) + steps.unit / 2, steps.width)

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

    def _answer(
        self, value: float, deviation: float, ends: tuple[float, float], counts: tuple[float, float], rows: float | None = None
    ) -> dict[str, Any]:
        """Divide by n − ddof instead of n, clamp to what is possible, and take the root for a standard deviation."""
        factor = self._factor(counts[0] if rows is None else rows)
        fewest, most = map(self._factor, counts)
        largest = self.largest * (factor if rows is None else self._factor(0))
        least = 0.0 if len(self.steps) == 1 else -largest
        low, high = ends[0] * (most if ends[0] > 0 else fewest), ends[1] * (fewest if ends[1] > 0 else most)
        value, low, high = (min(max(each, least), largest) for each in (value * factor, low, high))
        deviation *= factor
        if self.section.is_root:
            deviation = (math.sqrt(value + deviation) - math.sqrt(max(value - deviation, 0.0))) / 2
            value, low, high = map(math.sqrt, (value, low, high))
        return {"value": value, "stderr": deviation, "interval": [low, high]}

    def _factor(self, count: float) -> float:
        """n/(n − ddof), of the fewest rows that have an answer where there are fewer."""
        ddof = self.section.ddof
        return max(count, ddof + 1) / (max(count, ddof + 1) - ddof)


def scale_deviation(noise: RealNoise, scale: Any) -> Any:
    """Standard deviation of noise of this law at another scale."""
    return scale if isinstance(noise, Gaussian) else laplace_deviation(scale)
