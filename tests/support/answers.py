"""What an answer to a query releases about a table, in a form whose privacy loss between two tables is a maximum and a sum.

A release is one part after the other. A part is a choice among outcomes, each with its log-probability, and after each outcome numbers that
get Laplace or discrete Laplace noise: over the scale of their noise, |change| is what they lose. The loss of a part between two tables is
that of its worst outcome, and that of an answer is the sum over its parts: parts that are drawn independently, or one given the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.query.grids import OCTAVES
from dpcore.query.kinds.count import CountAnswer, PublicCountAnswer
from dpcore.query.kinds.count_distinct import UnitsAnswer, ValuesAnswer
from dpcore.query.kinds.geometric_mean import GeometricMeanAnswer
from dpcore.query.kinds.histogram import HistogramAnswer
from dpcore.query.kinds.mean import PrivateMeanAnswer, PublicMeanAnswer
from dpcore.query.kinds.moments import MomentAnswer
from dpcore.query.kinds.quantile import QuantileAnswer
from dpcore.query.kinds.rate import PublicRateAnswer, RateAnswer
from dpcore.query.kinds.sum import SumAnswer, UnitSumAnswer
from dpcore.query.kinds.synthetic import SyntheticAnswer
from dpcore.query.kinds.top import TopAnswer
from dpcore.query.private_bounds import PrivateBounds
from support.losses import centres_of

Array = npt.NDArray[Any]
FREE = 1e-12
"""The scale of a number without noise: if it changes at all, everything is lost."""
ENDS = [(OCTAVES, OCTAVES + 33), (OCTAVES - 36, OCTAVES + 36), (OCTAVES - 36, OCTAVES - 33)]
"""Bounds that may be found: [0, 1], [−8, 8] and [−8, −1]."""


@dataclass(frozen=True)
class Part:
    """A choice, and the noisy numbers after it.

    Attributes
    ----------
    logs : ndarray of shape (outcomes,)
        Log-probabilities.
    numbers : ndarray of shape (outcomes, numbers)
        Over the scales of their noise.
    """

    logs: Array
    numbers: Array


def noisy(numbers: Iterable[Any], scale: float) -> Part:
    """Numbers that get noise of one scale, without any choice; exact until they are divided."""
    scale = Fraction(scale)
    return Part(np.zeros(1), np.array([[float(Fraction(number) / scale) for number in numbers]]))


def parts_of(answer: Any, total: Any) -> list[list[Part]]:
    """The parts of an answer about a table, for each of several ways in which it may be made.

    Choices and moments are one group after the other; numbers of all groups get noise all at once.
    """
    if isinstance(answer, PrivateBounds):
        return _between_found_bounds(answer, total)
    if isinstance(answer, GeometricMeanAnswer):
        return parts_of(answer.logs, total)
    if isinstance(answer, MomentAnswer) and answer.grouping is None:
        (one,) = total.each()
        return _moments(answer, one)
    (parts,) = (parts for kinds, parts in PARTS if isinstance(answer, kinds))
    return [parts(answer, total)]


PARTS: list[tuple[Any, Callable[[Any, Any], list[Part]]]] = [
    (PublicCountAnswer, lambda _, total: [noisy([int(total[0])], FREE)]),
    (CountAnswer, lambda answer, total: [noisy(total[:-1].tolist(), answer.mechanism.scale)]),
    (HistogramAnswer, lambda answer, total: [noisy(total[:-1, :-1].ravel().tolist(), answer.mechanism.scale)]),
    (RateAnswer, lambda answer, total: _rate(answer, total[:-1, :-1])),
    ((SumAnswer, PublicMeanAnswer), lambda answer, total: [noisy(exact_sums(total), answer.mechanism.scale)]),
    (
        PrivateMeanAnswer,
        lambda answer, total: [noisy(exact_sums(total), answer.total.scale), noisy(total.counts.tolist(), answer.count.scale)],
    ),
    (MomentAnswer, lambda answer, total: [part for one in total.each() for way in _moments(answer, one) for part in way]),
    (QuantileAnswer, lambda answer, total: [part for counts in total[:-1, :-1] for part in _quantiles(answer, counts)]),
    (TopAnswer, lambda answer, total: [top(answer, counts) for counts in total[:-1, :-1]]),
    (UnitSumAnswer, lambda answer, total: [noisy([each * Fraction(answer.step) for each in total], answer.mechanism.scale)]),
    ((UnitsAnswer, ValuesAnswer), lambda answer, total: [noisy(np.ravel(total).tolist(), answer.mechanism.scale)]),
    (SyntheticAnswer, lambda answer, total: [noisy(total.all().tolist(), answer.mechanism.scale)]),
]


def exact_sums(total: Any) -> list[Fraction]:
    """The sum of each group."""
    return [each * Fraction(total.sums.grid) for each in total.sums.integers]


def _rate(answer: RateAnswer, cells: Array) -> list[Part]:
    """Matching rows and others; where the number of all rows is public, matching rows and that number."""
    if isinstance(answer, PublicRateAnswer):
        return [noisy(cells[:, 0].tolist(), answer.mechanism.scale), noisy(cells.sum(axis=1).tolist(), FREE)]
    return [noisy(cells.ravel().tolist(), answer.mechanism.scale)]


# Moments


def _moments(answer: MomentAnswer, tally: Any) -> list[list[Part]]:
    """In two releases; where the number of rows is public, and they are few, in one."""
    step = answer.squared_step
    if answer.count is None and tally.n:
        return [two_releases(answer, tally), [noisy([tally.centred() * step], answer._whole_noise(tally.n).scale)]]
    return [two_releases(answer, tally)]


def two_releases(answer: MomentAnswer, tally: Any) -> list[Part]:
    """Means, the number of rows if it is private, and products given any centres that the means may have shown."""
    found = [
        noisy([Fraction(2 * tally.sums[place] - tally.n * steps.most) * Fraction(steps.unit) / 2], answer.mean_scale(steps))
        for place, steps in enumerate(answer.steps)
    ]
    found += [] if answer.count is None else [noisy([tally.n], answer.count.scale)]
    products = [
        [float(Fraction(tally.about(centres)) * answer.squared_step / Fraction(answer.product_scale(centres)))]
        for centres in centres_of(answer)
    ]
    return [*found, Part(np.zeros(len(products)), np.array(products))]


# Choices


def softmax_logs(weights: Sequence[float]) -> Array:
    """Logarithms of probabilities that are proportional to e^weights."""
    exponents = np.asarray(weights, float)
    exponents = exponents - exponents.max()
    return np.asarray(exponents - np.log(np.exp(exponents).sum()))


def _quantiles(answer: QuantileAnswer, counts: Array) -> list[Part]:
    """One choice for each level."""
    levels = [Fraction(repr(q)) for q in answer.section.q]
    return [
        Part(softmax_logs(answer.epsilon * answer.utilities(counts, level) / (2 * sensitivity)), np.zeros((len(counts), 0)))
        for level, sensitivity in zip(levels, answer.sensitivities, strict=True)
    ]


def top(answer: TopAnswer, counts: Array) -> Part:
    """One pick after the other, and then the counts of the picked candidates."""
    scale, values = answer.trial.scale, answer.trial.value_scale
    logs, numbers = [], []
    for picks in itertools.permutations(range(len(counts)), answer.section.s):
        left, log = list(range(len(counts))), 0.0
        for pick in picks:
            log += one_pick(answer.section.method, tuple(int(counts[i]) for i in left), scale)[left.index(pick)]
            left.remove(pick)
        logs.append(log)
        numbers.append([] if values is None else [int(counts[pick]) / values for pick in picks])
    return Part(np.array(logs), np.array(numbers))


@functools.cache
def one_pick(method: str, counts: tuple[int, ...], scale: float) -> tuple[float, ...]:
    """Log-probabilities of the largest noisy count."""
    if method == "gumbel":
        return tuple(softmax_logs([count / scale for count in counts]).tolist())
    return laplace_argmax(counts, scale)


def laplace_argmax(counts: tuple[int, ...], scale: float) -> tuple[float, ...]:
    """Log-probabilities of an argmax with Laplace noise, by a sum over a fine grid: the same sum for neighbours, so good to 1e-6."""
    x = np.linspace(min(counts) - 40 * scale, max(counts) + 40 * scale, 40_001)

    def below(count: int) -> Array:
        z = (x - count) / scale
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))

    found = []
    for i, count in enumerate(counts):
        density = np.exp(-abs(x - count) / scale)
        for j, other in enumerate(counts):
            if j != i:
                density = density * below(other)
        found.append(density.sum())
    return tuple(math.log(each / sum(found)) for each in found)


# Found bounds


def between_bounds(answer: PrivateBounds) -> list[Any]:
    """The answers between bounds that may be found."""
    return [replace(answer, found=ends).inner for ends in ENDS]


def _between_found_bounds(answer: PrivateBounds, total: Any) -> list[list[Part]]:
    """The bins, and then the answer between any bounds."""
    rows, between = total
    bins = noisy(rows.tolist(), answer.bins.scale)
    return [[bins, *way] for inner, each in zip(between_bounds(answer), between, strict=True) for way in parts_of(inner, each)]


# Losses


def losses(ways: Sequence[Sequence[Sequence[Part]]], pairs: Array) -> Array:
    """The loss of the worst way between the tables of each pair, given the ways of each table."""
    worst = np.zeros(len(pairs))
    for way in zip(*ways, strict=True):
        total = np.zeros(len(pairs))
        for part in zip(*way, strict=True):
            logs, numbers = np.array([each.logs for each in part]), np.array([each.numbers for each in part])
            one, other = pairs.T
            apart = np.abs(numbers[one] - numbers[other]).sum(axis=2)
            # Either table may be the likelier one.
            total += np.max(np.abs(logs[one] - logs[other]) + apart, axis=1)
        worst = np.maximum(worst, total)
    return worst
