"""What an answer to a query releases about a table, in a form whose privacy loss between two tables is a maximum and a sum.

A release is one part after the other. A part is a choice among outcomes, each with its log-probability, and after each outcome numbers that
get Laplace or discrete Laplace noise: over the scale of their noise, |change| is what they lose. The loss of a part between two tables is
that of its worst outcome, and that of an answer is the sum over its parts: parts that are drawn independently, or one given the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.batch.release.answers import HistogramAnswer, PrivateMeanAnswer, PublicMeanAnswer, SumAnswer
from dpcore.batch.release.choices import QuantileAnswer, TopAnswer
from dpcore.batch.release.found_bounds import BoundedNumber, BoundedQuantiles
from dpcore.batch.release.groups import GroupedAnswer
from dpcore.batch.release.kinds.count import CountAnswer, PublicCountAnswer
from dpcore.batch.release.moments import MomentAnswer
from dpcore.batch.release.octaves import OCTAVES
from dpcore.batch.release.people import OfWholeUnits, UnitSumAnswer
from dpcore.batch.release.synthetic import SyntheticAnswer
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


def parts_of(answer: Any, tally: Any) -> list[list[Part]]:
    """The parts of an answer about a table, for each of several ways in which it may be made."""
    match answer:
        case GroupedAnswer():
            return [_of_groups(answer, tally)]
        case PublicCountAnswer():
            return [[noisy([tally], FREE)]]
        case SumAnswer() | PublicMeanAnswer():
            return [[noisy([_exact(tally)], answer.mechanism.scale)]]
        case PrivateMeanAnswer():
            return [[noisy([_exact(tally)], answer.total.scale), noisy([tally.n], answer.count.scale)]]
        case MomentAnswer():
            return _moments(answer, tally)
        case QuantileAnswer():
            return [_quantiles(answer, tally)]
        case TopAnswer():
            return [[top(answer, tally)]]
        case BoundedNumber() | BoundedQuantiles():
            return _between_found_bounds(answer, tally)
        case UnitSumAnswer():
            return [[noisy([total * Fraction(answer.step) for total in tally], answer.mechanism.scale)]]
        case CountAnswer() | HistogramAnswer() | OfWholeUnits():
            return [[noisy(np.ravel(tally).tolist(), answer.mechanism.scale)]]
        case SyntheticAnswer():
            return [[noisy(tally.all().tolist(), answer.mechanism.scale)]]
    raise AssertionError(type(answer))


def _exact(total: Any) -> Fraction:
    return Fraction(total.high) + Fraction(total.low)


# Groups


def _of_groups(answer: GroupedAnswer, tally: Any) -> list[Part]:
    """Choices and moments of one group after the other; numbers of all groups, that get noise all at once."""
    each = answer.each
    if isinstance(each, QuantileAnswer | TopAnswer | MomentAnswer):
        tallies = tally.each() if isinstance(each, MomentAnswer) else tally[:-1, :-1]
        return [part for one in tallies for way in parts_of(each, one) for part in way]
    if isinstance(each, CountAnswer):
        return [noisy(tally[:-1].tolist(), each.mechanism.scale)]
    if isinstance(each, HistogramAnswer):
        return [noisy(tally[:-1, :-1].ravel().tolist(), each.mechanism.scale)]
    sums = [total * Fraction(tally.sums.grid) for total in tally.sums.integers]
    if isinstance(each, SumAnswer):
        return [noisy(sums, each.mechanism.scale)]
    return [noisy(sums, each.total.scale), noisy(tally.counts.tolist(), each.count.scale)]


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
        [float(Fraction(tally.about(centres)) * answer.squared_step / Fraction(answer._product_scale(centres)))]
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


def _between_found_bounds(answer: BoundedNumber | BoundedQuantiles, tally: Any) -> list[list[Part]]:
    """The bins, and then the answer between any bounds."""
    numbers = isinstance(answer, BoundedNumber)
    bins = noisy(tally.rows if numbers else answer._bins(tally), answer.bins.scale)
    ways = []
    for ends in ENDS:
        between = answer.kind.of_bins(answer._inner(*ends), tally, *ends) if numbers else answer._inside(tally, ends)
        ways += [[bins, *way] for way in parts_of(answer._inner(*ends), between)]
    return ways


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
