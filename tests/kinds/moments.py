"""`var` and `std`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dpcore.query.kinds.moments import MomentEstimator
from kinds.tables import CLAMPED, FOUND, LIST, NUMBERS, THERE, Oracle, X
from support.losses import centres_of
from support.parts import Part, noisy

EXAMPLES = {
    "variance": {"kind": "var", **NUMBERS},
    "deviation": {"kind": "std", **NUMBERS},
    "found variance": {"kind": "var", **FOUND},
}
ORACLES = {
    "variances": Oracle(
        {"kind": "var", "ddof": 0, **X, **LIST},
        f"SELECT region, var_pop({CLAMPED}) FROM t WHERE {THERE} GROUP BY 1",
        epsilon=3.6e6,
        near=2e-2,
        of_no_rows=None,
    )
}
LAWS = dict.fromkeys(("var", "std"), "test_moments_law.py::test_the_second_release_has_noise_for_its_centres")


def ways(answer: MomentEstimator, total: Any) -> list[list[Part]]:
    """One group after the other."""
    if answer.grouping is None:
        (one,) = total.each()
        return of_one_table(answer, one)
    return [[part for one in total.each() for way in of_one_table(answer, one) for part in way]]


WAYS = {MomentEstimator: ways}


def of_one_table(answer: MomentEstimator, tally: Any) -> list[list[Part]]:
    """In two releases; where the number of rows is public, and they are few, in one."""
    step = answer.squared_step
    if answer.count is None and tally.n:
        return [two_releases(answer, tally), [noisy([tally.centred() * step], answer._whole_noise(tally.n).scale)]]
    return [two_releases(answer, tally)]


def two_releases(answer: MomentEstimator, tally: Any) -> list[Part]:
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
