"""What releases of exact moments lose: the largest log-ratio of densities, from the scales that an answer really has, in fractions.

For Laplace and discrete Laplace noise it is the sum of |change|/scale over the draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction

from dpcore.query.grids import Moments
from dpcore.query.kinds.moments import MomentEstimator


def centres_of(answer: MomentEstimator) -> list[tuple[int, ...]]:
    """Some centres, the ends of the bounds and the middle among them."""
    return list(itertools.product(*([0, each.most // 3, each.most // 2, each.most] for each in answer.steps)))


def loss_in_two(answer: MomentEstimator, one: Moments, other: Moments, centres: tuple[int, ...]) -> Fraction:
    """Of means, count and products, given the centres that the means have released."""
    total = Fraction(0)
    for place, steps in enumerate(answer.steps):
        change = 2 * (one.sums[place] - other.sums[place]) - (one.n - other.n) * steps.most
        total += abs(change) * Fraction(steps.unit) / 2 / Fraction(answer.mean_scale(steps))
    if answer.count is not None:
        total += abs(one.n - other.n) / Fraction(answer.count.scale)
    moved = (one.about(centres) - other.about(centres)) * answer.squared_step
    return total + abs(moved) / Fraction(answer.product_scale(centres))


def largest_loss(answer: MomentEstimator, one: Moments, other: Moments, centres: Iterable[tuple[int, ...]] | None = None) -> Fraction:
    """The same for the worst of some centres."""
    return max(loss_in_two(answer, one, other, each) for each in (centres_of(answer) if centres is None else centres))


def loss_in_one(answer: MomentEstimator, one: Moments, other: Moments) -> Fraction:
    """Of one release about the exact means, of equally many rows."""
    change = (one.centred() - other.centred()) * answer.squared_step
    return abs(change) / Fraction(answer._whole_noise(one.n).scale)
