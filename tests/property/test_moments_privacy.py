"""Variances and covariances lose no more privacy than they say: all neighbours of tiny tables, in exact arithmetic, with the real scales.

The loss of a release given another table is the largest log-ratio of densities. For Laplace and discrete Laplace noise it is a sum of
|change|/scale over the draws, where the change and the scale of the second draw depend on the centres that the first one has released.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcore.query.encoders import Clamped
from dpcore.query.grids import Moments, Steps
from dpcore.query.kinds.covariance import CovarianceQuery
from dpcore.query.kinds.moments import MomentEstimator, SpreadQuery
from dpcore.query.noise import part_of
from dpcore.query.sensitivity import Contribution
from dpcore.query.statistics import Measure, MomentsOf, ReadRows
from support.losses import largest_loss, loss_in_one, loss_in_two
from support.totals import NOWHERE, total_of

EPSILON = 0.7
UNITS = [
    Contribution(1, replaced=True, n_is_public=True),
    Contribution(1, replaced=False, n_is_public=False),
    # A row that may lose its value, where others are skipped.
    Contribution(1, replaced=True, n_is_public=True).of_some_rows(),
    Contribution(2, replaced=True, n_is_public=False),
    Contribution(2, replaced=False, n_is_public=False),
]
BOUNDS = [(-1.0, 3.0), (0.0, 3.0)]


def answer_of(kind, bound, groups=0, epsilon=EPSILON, **keys):
    """An answer on x in [−1, 3], or on x and y in [0, 3]."""
    head = {"name": "m", "kind": kind, "epsilon": epsilon, **keys}
    if kind == "covariance":
        lower, upper = zip(*BOUNDS, strict=True)
        section = CovarianceQuery(columns=("x", "y"), lower=lower, upper=upper, missing=lower, **head)
        columns = tuple(zip(("x", "y"), (Clamped(each, each[0]) for each in BOUNDS), strict=True))
    else:
        section = SpreadQuery(column="x", lower=BOUNDS[0][0], upper=BOUNDS[0][1], missing=0.0, **head)
        columns = (("x", Clamped(BOUNDS[0], 0.0)),)
    relation = "replace" if bound.replaced else "add_remove"
    return MomentEstimator.calibrate(section, columns, bound, relation, groups)


def owned(bound, values):
    """Pairs of what one unit holds in two neighbouring tables."""
    if bound.n_is_public:
        return [((one,), (other,)) for one, other in itertools.combinations(values, 2)]
    own = [rows for k in range(bound.rows + 1) for rows in itertools.combinations_with_replacement(values, k)]
    return list(itertools.combinations(own, 2)) if bound.replaced else [(rows, ()) for rows in own]


def tally(answer, rows):
    """The exact sums of some rows, each a tuple of one or two numbers."""
    columns = np.array(rows, float).reshape(-1, len(answer.steps)).T
    (moments,) = total_of(Measure(answer.reads, MomentsOf(1, answer.steps)), [np.ascontiguousarray(each) for each in columns]).each()
    return moments


def values_of(kind):
    """What a row may hold: ends of the bounds, what lies inside, and beyond."""
    return [(-9, 0), (-9, 3), (3, 0), (3, 3), (0, 1)] if kind == "covariance" else [(x,) for x in (-2, -1, 0, 2, 3)]


@pytest.mark.parametrize("bound", UNITS, ids=str)
@pytest.mark.parametrize("kind", ["var", "std", "covariance"])
def test_two_releases_lose_no_more_than_epsilon(kind, bound):
    answer = answer_of(kind, bound)
    pairs = [tuple(tally(answer, rows) for rows in pair) for pair in owned(bound, values_of(kind))]
    worst = max(largest_loss(answer, *pair) for pair in pairs)
    assert worst <= Fraction(EPSILON)
    if kind != "covariance" or bound.n_is_public:
        assert float(worst) > 0.6 * EPSILON  # no needless noise: shares are for the worst of each draw
    # The broken twin: a second moment about any centre taken for one about the middle.
    assert max(largest_loss(broken(answer), *pair) for pair in pairs) > Fraction(EPSILON)


def broken(answer):
    """A twin whose second moment has a sensitivity of (U − L)²/4 wherever the centre is."""

    class Broken(MomentEstimator):
        def _product_sensitivity(self, centres):
            return super()._product_sensitivity(tuple(each.most // 2 for each in self.steps)) / (1 if len(self.steps) == 1 else 2)

    return Broken(**{name: getattr(answer, name) for name in answer.__slots__})


@pytest.mark.parametrize("kind", ["var", "covariance"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_one_release_loses_no_more_than_epsilon_and_may_lose_all(kind, rows):
    answer = answer_of(kind, UNITS[0])
    values = values_of(kind)
    worst = Fraction(0)
    for others in itertools.combinations_with_replacement(values, rows - 1):
        tallies = [tally(answer, [*others, own]) for own in values]
        worst = max(worst, *(loss_in_one(answer, one, other) for one, other in itertools.combinations(tallies, 2)))
    assert worst <= Fraction(EPSILON)
    assert rows == 1 or float(worst) > 0.999999 * EPSILON
    # The broken twin: n²·Var moved by a quarter of a squared width.
    assert rows == 1 or 4 * worst > Fraction(EPSILON)


@pytest.mark.some(2)
@pytest.mark.parametrize("bound", UNITS, ids=str)
@pytest.mark.parametrize("kind", ["var", "covariance"])
def test_groups_together_lose_no_more_than_epsilon(kind, bound):
    """Rows leave groups and enter others, and each group has other centres."""
    answer = answer_of(kind, bound, groups=2)
    values = [(group, row) for group in (0, 1) for row in ((-1, 0), (3, 3))] if kind == "covariance" else None
    values = values or [(group, (x,)) for group in (0, 1) for x in (-1, 0, 3)]

    def worst(calibrated):
        return max(
            sum(
                largest_loss(calibrated, *(tally(answer, [row for at, row in rows if at == group]) for rows in pair))
                for group in (0, 1)
            )
            for pair in owned(bound, values)
        )  # fmt: skip

    assert worst(answer) <= Fraction(EPSILON)
    # The broken twin: calibrated as if there were no groups. Under add/remove a row is in one group only, and nothing breaks.
    if bound.replaced:
        alone = answer_of(kind, bound)
        assert worst(replace(answer, means=alone.means, product=alone.product, count=alone.count)) > Fraction(EPSILON)


def neighbours_at_random(rng, rows, values):
    """Two tables of equally many rows, which differ in one of them."""
    one = rng.choice(values, (rows, 2))
    other = one.copy()
    other[rng.integers(rows)] = rng.choice(values, 2)
    return one, other


@pytest.mark.parametrize("times", [500, pytest.param(10**5, marks=pytest.mark.long)])
def test_no_random_neighbours_lose_more(times):
    rng = np.random.default_rng(41)
    values = np.array([-7.0, -1.0, -0.3, 0.0, 1.25, 2.9, 3.0, 8.0])
    answers = [answer_of(kind, UNITS[0]) for kind in ("var", "covariance")]
    for _ in range(times):
        answer = answers[rng.integers(2)]
        pair = [tally(answer, each[:, : len(answer.steps)].tolist()) for each in neighbours_at_random(rng, rng.integers(1, 9), values)]
        centres = tuple(int(rng.integers(each.most + 1)) for each in answer.steps)
        assert loss_in_one(answer, *pair) <= Fraction(EPSILON)
        assert loss_in_two(answer, *pair, centres) <= Fraction(EPSILON)


def test_shares_are_not_spent_twice():
    """Unshared ε, the broken twin, would lose more than ε with three draws of the whole."""
    for bound in UNITS:
        answer = answer_of("covariance", bound)
        parts = [2 * Fraction(answer.means.epsilon), Fraction(answer.product.epsilon)]
        parts += [] if answer.count is None else [Fraction(answer.count.epsilon)]
        assert Fraction(EPSILON) * (1 - Fraction(1, 2**50)) <= sum(parts) <= Fraction(EPSILON)
        assert answer.whole.epsilon == EPSILON


def test_parts_never_sum_to_more_than_the_whole():
    """The nearest floats, the broken twin, exceed the whole for some of these."""
    wholes = [0.1, 0.7, 1 / 3, EPSILON, *np.random.default_rng(11).random(100).tolist()]
    exceeds = 0
    for shares in ((1, 4, 5, 6), (1, 1, 1), (2, 3, 3)):
        exact = [Fraction(share, sum(shares)) for share in shares]
        for whole in wholes:
            parts = [Fraction(part_of(whole, share)) for share in exact]
            assert sum(parts) <= Fraction(whole)
            assert all(part >= Fraction(whole) * share * (1 - Fraction(1, 2**51)) for part, share in zip(parts, exact, strict=True))
            exceeds += sum(Fraction(float(Fraction(whole) * share)) for share in exact) > Fraction(whole)
    assert exceeds


# Steps


@pytest.mark.parametrize("bounds", [(0, 10), (-3, 2**31 - 3), (0.0, 0.1), (-1e-9, 5e-9), (2**62, 2**62 + 1000), (-(2**63), 2**63 - 1)])
def test_steps_are_a_function_of_the_clamped_value(bounds):
    steps = Steps.between(*bounds)
    assert 2**30 <= steps.most <= 2**31
    lower, upper = map(Fraction, bounds)
    rng = np.random.default_rng(7)
    inside = [lower, upper, lower - 1, upper + 1, *(lower + (upper - lower) * Fraction(share) for share in rng.random(200))]
    whole = all(isinstance(bound, int) for bound in bounds)
    numbers = [min(max(round(each), -(2**63)), 2**63 - 1) if whole else float(each) for each in inside]
    found = steps.of(np.array(numbers, np.int64 if whole else np.float64))
    for number, step in zip(numbers, found.tolist(), strict=True):
        exact = (min(max(Fraction(number), lower), upper) - lower) / Fraction(steps.unit)
        assert 0 <= step <= steps.most
        assert abs(step - exact) <= 1


def test_integers_are_exact_steps():
    numbers = np.array([2**62 + 7, 2**62, 2**63 - 1, 0], np.int64)
    steps = Steps.between(2**62, 2**62 + 1000)
    assert [step * steps.unit for step in steps.of(numbers).tolist()] == [7, 0, 1000, 0]
    assert [steps.place(step) - 2**62 for step in steps.of(numbers[:2]).tolist()] == [0, 0]


def test_moments_are_exact_however_they_are_added():
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2**31, (2, 5000), endpoint=True)
    steps = (Steps(0, 2**31, 1.0, 2**31, 1.0),) * 2
    statistic = MomentsOf(1, steps)
    whole, parts = statistic.zero(NOWHERE), statistic.zero(NOWHERE)
    statistic.add(whole, ReadRows(5000, [x, y]))
    for some in (slice(1), slice(1, 77), slice(77, None)):
        part = statistic.zero(NOWHERE)
        statistic.add(part, ReadRows(len(x[some]), [x[some], y[some]], np.zeros(len(x[some]), np.int32) if some.start else None))
        parts += part
    (whole,), (parts,) = whole.each(), parts.each()
    exact = Moments(5000, (sum(x.tolist()), sum(y.tolist())), sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True)))
    assert whole == parts == exact
    c, d = 12345, 2**31
    assert whole.about((c, d)) == sum((a - c) * (b - d) for a, b in zip(x.tolist(), y.tolist(), strict=True))
