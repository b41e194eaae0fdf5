"""Moments of many groups: exact sums as 128-bit integers, and the arithmetic of `MomentAnswer` on arrays, with one draw for all groups.

The integers of a group stay exact: those beyond 64 bits are Python's, in arrays of objects. What follows the noise is that of
`MomentAnswer` with a private number of rows, element by element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpcore import _backend
from dpcore.batch.release.answers import half_width_of, standard_deviation, there
from dpcore.batch.release.draws import Draw
from dpcore.batch.release.moments import MISS_SHARES, MomentAnswer, scale_deviation
from dpcore.batch.release.steps import MOST_STEPS, STEP_BITS, Moments, parts_of
from dpcore.mechanisms import Gaussian
from dpcore.sums import ExactSum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from dpcore.batch.release.answers import RealNoise
    from dpcore.batch.release.steps import Steps
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    Codes = npt.NDArray[np.int32]

AT_A_TIME = 1 << 16
"""Groups whose integers are Python's at a time."""


class MomentsOfGroups:
    """Exact sums of each group's steps, and of both halves of their products.

    Parameters
    ----------
    groups : int
        How many.
    parts : int
        Sums of each.
    """

    __slots__ = ("totals",)

    def __init__(self, groups: int, parts: int) -> None:
        self.totals = [np.zeros((groups, 3), np.int64) for _ in range(parts)]

    def __iadd__(self, other: Self) -> Self:
        for mine, others in zip(self.totals, other.totals, strict=True):
            _backend.merge_grouped_sums(mine, others)
        return self

    @property
    def groups(self) -> int:
        """Number of groups; rows of none are added behind the last."""
        return len(self.totals[0]) - 1

    def exact(self, start: int, stop: int) -> Exact:
        """The sums of some groups."""
        *sums, high, low = (_whole(total[start:stop]) for total in self.totals)
        return Exact(self.totals[0][start:stop, 2], sums, (high << STEP_BITS) + low)

    def each(self) -> Iterator[Moments]:
        """The moments of the groups, one after the other."""
        exact = self.exact(0, self.groups)
        for n, product, *sums in zip(exact.counts.tolist(), exact.products, *exact.sums, strict=True):
            yield Moments(n, tuple(sums), product)


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact moments of some groups: rows, Σk or Σk and Σl, and Σk² or Σkl; all but the first are integers of Python."""

    counts: npt.NDArray[np.int64]
    sums: list[Array]
    products: Array


def _whole(words: Array) -> Array:
    """The integers whose two words, the lower one first, are rows of an array."""
    low, high = words[:, 0].copy().view(np.uint64).astype(object), words[:, 1].astype(object)
    whole: Array = (high << 64) + low
    return whole


@dataclass(frozen=True, slots=True)
class MomentTallies:
    """The sums of each group's steps, and of both halves of their products."""

    answer: MomentAnswer

    def nothing(self, groups: int) -> MomentsOfGroups:
        """No rows."""
        return MomentsOfGroups(groups + 1, len(self.answer.steps) + 2)

    def add(self, tally: MomentsOfGroups, codes: Codes, read: list[Array]) -> None:
        """Add steps and products."""
        size = len(self.answer.steps)
        *read, codes = there([*read[:size], codes, *read[size:]], size + 1)
        columns = [steps.of(each) for steps, each in zip(self.answer.steps, read, strict=True)]
        for totals, part in zip(tally.totals, parts_of(columns), strict=True):
            # Integers of at most 31 bits are whole steps of a grid of 1.
            _backend.add_grouped_sums(totals, part.astype(np.float64), codes, 0.0, MOST_STEPS, 1.0)

    def release(self, tally: MomentsOfGroups, rng: Stream | None) -> dict[str, Any]:
        """The noisy moments: a draw is one of as many elements as there are groups, of which some are answered at a time."""
        draws = [Draw(rng) for _ in range(len(self.answer.steps) + 2)]
        found: dict[str, list[Any]] = {}
        for start in range(0, tally.groups, AT_A_TIME):
            exact = tally.exact(start, min(start + AT_A_TIME, tally.groups))
            for key, values in _Released(self.answer, exact, [draw.at(start) for draw in draws]).document().items():
                found.setdefault(key, []).extend(values)
        return found


class _Released:
    """The answers to some groups."""

    def __init__(self, answer: MomentAnswer, exact: Exact, draws: Sequence[Stream]) -> None:
        if answer.count is None:
            raise AssertionError("the numbers of rows of groups are private")
        self.answer, self.beta, self.counting = answer, 1 - answer.section.confidence, answer.count
        *first, counting, last = draws
        drawn = [self._noisy_sums(place, exact, rng) for place, rng in enumerate(first)]
        self.n = self.counting.release(exact.counts, rng=counting, threads=1)
        self.rows = np.maximum(self.n, 1)
        self.centres = [_centres(steps, total / self.rows) for steps, total in zip(answer.steps, drawn, strict=True)]
        off = half_width_of(self.counting, self.beta * MISS_SHARES[0])
        self.ends = np.maximum(self.n - off, 1), np.maximum(self.n + off, 1)
        self.misses = [self._miss(place, total) for place, total in enumerate(drawn)]
        self.scales = self._product_scales()
        self.products = self._noisy_products(exact, last)

    def _noisy_sums(self, place: int, exact: Exact, rng: Stream) -> Array:
        """Σ(x − middle), as twice as many half steps."""
        steps = self.answer.steps[place]
        totals = 2 * exact.sums[place] - exact.counts.astype(object) * steps.most
        return _noisy(totals, Fraction(steps.unit) / 2, self.answer.means, self.answer.mean_scale(steps), rng)

    def _product_scales(self) -> Array:
        """The scale of each group's product, rounded up: at most one more unit in the last place than `MomentAnswer` has."""
        answer = self.answer
        (c, most), (d, other) = (
            (centres, steps.most) for centres, steps in zip((self.centres[0], self.centres[-1]), answer.both, strict=True)
        )
        if len(answer.steps) == 1:
            moved = np.maximum(c, most - c) ** 2
        else:
            moved = np.maximum.reduce([c * (other - d), (most - c) * d, c * d, (most - c) * (other - d)])
        rounded = moved.astype(np.float64)  # all at most 2^62
        rounded = np.where(rounded.astype(np.int64) < moved, np.nextafter(rounded, math.inf), rounded)
        scales: Array = np.nextafter(rounded * answer.product.scale, math.inf) * float(answer.squared_step)
        return scales

    def _noisy_products(self, exact: Exact, rng: Stream) -> Array:
        """Σ(k − c)² or Σ(k − c)(l − d)."""
        c, d = self.centres[0].astype(object), self.centres[-1].astype(object)
        totals = exact.products - d * exact.sums[0] - c * exact.sums[-1] + exact.counts.astype(object) * c * d
        return _noisy(totals, self.answer.squared_step, self.answer.product, self.scales, rng)

    def _miss(self, place: int, total: Array) -> Array:
        """How far the true mean is from the centre at most."""
        steps, answer = self.answer.steps[place], self.answer
        width = answer.mean_width(steps, self.beta)
        ends = [(total + sign * width) / count + steps.width / 2 for sign in (-1, 1) for count in self.ends]
        low, high = np.maximum(np.minimum.reduce(ends), 0.0), np.minimum(np.maximum.reduce(ends), steps.width)
        at = self.centres[place] * steps.unit
        miss: Array = np.minimum(np.maximum(np.maximum(at - low, high - at), 0.0) + steps.unit / 2, steps.width)
        return miss

    def document(self) -> dict[str, Any]:
        """For each key of an answer the list over groups."""
        answer, rows, alone = self.answer, self.rows, len(self.answer.steps) == 1
        counting = standard_deviation(self.counting)
        deviations = [
            np.hypot(scale_deviation(answer.means, answer.mean_scale(steps)), (centres - steps.most / 2) * steps.unit * counting) / rows
            for steps, centres in zip(answer.steps, self.centres, strict=True)
        ]
        value = self.products / rows - (deviations[0] ** 2 if alone else 0.0)
        value = np.clip(value, -answer.largest, answer.largest)
        second = answer.second_order(deviations)
        deviation = np.hypot(np.hypot(scale_deviation(answer.product, self.scales) / rows, value * counting / rows), second)
        width = self.scales * answer.product_unit_width(self.beta * MISS_SHARES[2])
        corners = [total / count for total in (self.products - width, self.products + width) for count in self.ends]
        low, high = answer.widened((np.minimum.reduce(corners), np.maximum.reduce(corners)), self.misses)
        places = [_places(steps, centres) for steps, centres in zip(answer.steps, self.centres, strict=True)]
        return {
            **self._scaled(value, deviation, low, high),
            "releases": [2] * len(rows),
            "centre": places[0] if alone else [list(pair) for pair in zip(*places, strict=True)],
            "count": self.n.tolist(),
        }

    def _scaled(self, value: Array, deviation: Array, low: Array, high: Array) -> dict[str, Any]:
        """Divide by n − ddof instead of n, clamp to what is possible, and take the root for a standard deviation."""
        answer = self.answer
        factor, fewest, most = (_factors(each, answer.section.ddof) for each in (self.rows, *self.ends))
        largest = answer.largest * float(_factors(np.zeros(1), answer.section.ddof)[0])
        least = 0.0 if len(answer.steps) == 1 else -largest
        low, high = low * np.where(low > 0, most, fewest), high * np.where(high > 0, fewest, most)
        value, low, high = (np.clip(each, least, largest) for each in (value * factor, low, high))
        deviation = deviation * factor
        if answer.section.is_root:
            deviation = (np.sqrt(value + deviation) - np.sqrt(np.maximum(value - deviation, 0.0))) / 2
            value, low, high = map(np.sqrt, (value, low, high))
        return {"value": value.tolist(), "stderr": deviation.tolist(), "interval": np.stack([low, high], axis=-1).tolist()}


def _noisy(totals: Array, step: Fraction, noise: RealNoise, scale: float | Array, rng: Stream) -> Array:
    """Exact numbers totals·step plus noise of this law and scale, correctly rounded; the step is a power of two."""
    high, low = _pairs(totals)
    size = float(step)
    sums = ExactSum(high * size, low * size, size, 1, 0.0, 0.0)
    return np.asarray(sums.noisy("gaussian" if isinstance(noise, Gaussian) else "laplace", scale, rng=rng, threads=1))


def _pairs(totals: Array) -> tuple[Array, Array]:
    """Integers as exact sums of two floats."""
    listed = totals.tolist()
    high = [float(total) for total in listed]
    rest = [total - int(most) for total, most in zip(listed, high, strict=True)]
    low = [float(each) for each in rest]
    if any(int(each) != exact for each, exact in zip(low, rest, strict=True)):
        raise AssertionError("a pair of floats does not hold the sum")
    return np.array(high), np.array(low)


def _centres(steps: Steps, distances: Array) -> Array:
    """The steps nearest to noisy means that are so far from the middle of the bounds."""
    near = np.rint(np.clip(steps.most / 2 + distances / steps.unit, 0.0, float(steps.most)))
    return np.minimum(near.astype(np.int64), steps.most)


def _places(steps: Steps, centres: Array) -> list[float]:
    """The numbers that steps stand for."""
    if Fraction(float(steps.lower)) == Fraction(steps.lower):
        places: list[float] = (float(steps.lower) + centres * steps.unit).tolist()  # one rounding, of the sum of two floats
        return places
    return [steps.place(centre) for centre in centres.tolist()]


def _factors(counts: Array, ddof: int) -> Array:
    """n/(n − ddof), of the fewest rows that have an answer where there are fewer."""
    n = np.maximum(counts, ddof + 1)
    factors: Array = n / (n - ddof)
    return factors
