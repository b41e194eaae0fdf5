"""How often the binary search of tests errs, beside its certified bounds, at the worst distributions that a search finds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpcore.local import BinaryChannel, KaryResponse
from dpcore.minimax import BinarySearchEstimator, Model, draw_counts, losses, simulate_risk
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE
from support.searches import pmf

KEY = bytes(range(32))
REPLICATES = 100_000
SEARCHED = 2000
GRID = np.linspace(-3.0, 3.0, 25)


def exceeds(errors: int, bound: float) -> bool:
    """Whether so many of the replicates are impossible, at the error rate, for an event of at most this probability."""
    return bool(stats.binom.sf(errors - 1, REPLICATES, min(bound, 1.0)) < ERROR_RATE)


@cache
def binary(n: int, step: float) -> BinarySearchEstimator:
    channel = BinaryChannel(1.5, np.clip(GRID, -1.5, 1.5))
    return BinarySearchEstimator(Model.moment(GRID, kappa=2.0, C=1.0), channel, n=n, step=step)


def exact_tail(estimator: BinarySearchEstimator, p: np.ndarray, index: int) -> float:
    estimates = estimator.estimate(np.arange(estimator.n + 1))
    far = np.abs(estimates - p @ estimator.model.f) > (index + 1) * estimator.step * (1 + 1e-9)
    return float(pmf(estimator.n, float(p @ estimator.matrix[:, 1]))[far].sum())


def worst_of_two_outcomes(estimator: BinarySearchEstimator, index: int) -> np.ndarray:
    """The member of the polygon's boundary, near the ends of cells above all, with the largest exact probability of an error."""
    search, polygon = estimator._search, estimator._search.polygon  # in the units of the model's standard form
    ends = search.theta_range[0] + search.step * np.arange(estimator.N + 1)
    thetas = np.concatenate([ends - 1e-6, ends + 1e-6, np.linspace(*search.theta_range, 60)])
    members = [polygon.member(theta, top=top) for theta in thetas for top in (False, True)]
    return max(members, key=lambda p: exact_tail(estimator, p, index))


@pytest.mark.long
@pytest.mark.parametrize(("n", "step"), [(400, 0.15), (2000, 0.2), (60, 0.4)])
def test_errors_behind_a_binary_channel_are_as_frequent_as_the_bound_at_worst(n, step):
    estimator, tight = binary(n, step), 0
    for index in range(estimator.N):
        p, bound = worst_of_two_outcomes(estimator, index), estimator.error_bound(index)
        counts = draw_counts(p @ estimator.matrix, n=n, replicates=REPLICATES, rng=KeyedRandom(KEY))
        errors = int((np.abs(estimator.estimate(counts) - p @ estimator.model.f) > (index + 1) * step * (1 + 1e-9)).sum())
        assert not exceeds(errors, bound)
        assert exact_tail(estimator, p, index) <= bound
        if bound > 1e-3:
            assert exact_tail(estimator, p, index) >= 0.999 * bound
            assert exceeds(errors, 0.5 * bound)  # a bound that is too low by half is seen to be wrong
            tight += 1
    assert tight >= 2


def test_a_wrong_threshold_is_noticed():
    """The broken twin decides everything some counts too late."""
    estimator = binary(400, 0.15)
    p = worst_of_two_outcomes(estimator, 1)
    counts = draw_counts(p @ estimator.matrix, n=400, replicates=REPLICATES, rng=KeyedRandom(KEY))
    theta = p @ estimator.model.f
    late = [estimator.estimate(np.clip(counts[:, 1] + shift, 0, 400)) for shift in (-12, 12)]
    assert any(exceeds(int((np.abs(found - theta) > 2 * 0.15).sum()), estimator.error_bound(1)) for found in late)


@pytest.mark.long
@pytest.mark.parametrize("loss", ["absolute", "squared", losses.huber(0.1)])
def test_the_worst_risk_behind_a_binary_channel_is_the_bound(loss):
    estimator, chosen = binary(400, 0.15), losses.as_loss(loss)
    polygon = estimator._search.polygon
    estimates = estimator.estimate(np.arange(401))
    thetas = np.linspace(*estimator._search.theta_range, 400)
    members = [polygon.member(theta, top=top) for theta in thetas for top in (False, True)]
    risks = [pmf(400, float(p @ estimator.matrix[:, 1])) @ chosen(np.abs(estimates - p @ GRID)) for p in members]
    bound = estimator.risk_bound(loss)
    assert 0.985 * bound <= max(risks) <= bound
    measured = simulate_risk(estimator, members[int(np.argmax(risks))], replicates=REPLICATES, loss=loss, rng=KeyedRandom(KEY))
    assert abs(measured.value - max(risks)) <= 5 * measured.stderr


# Eight outcomes


def three_questions() -> np.ndarray:
    """The bits of a code, each answered at random: 8 outcomes, 1.5-private in all."""
    one = BinaryChannel(0.5, [-1.0, 1.0]).channel()
    return np.kron(np.kron(one, one), one)


@cache
def eight(kind: str) -> BinarySearchEstimator:
    if kind == "k-ary":
        return BinarySearchEstimator(Model(np.arange(8.0)), KaryResponse(1.5, k=8), n=3000, step=1.2)
    model = Model.moment(np.arange(8.0) - 3.5, kappa=2.0, C=4.0)
    return BinarySearchEstimator(model, three_questions(), n=4000, step=0.5)


def candidates(model: Model) -> np.ndarray:
    """Extreme members in many directions, and mixtures of two."""
    rng = np.random.default_rng(7)
    extremes = np.array([model.extreme(d)[1] for d in (model.f, -model.f, *rng.normal(size=(14, model.size)))]).clip(0)
    pairs = rng.integers(0, len(extremes), (60, 2))
    shares = rng.random((60, 1))
    found = np.concatenate([extremes, shares * extremes[pairs[:, 0]] + (1 - shares) * extremes[pairs[:, 1]]])
    return found / found.sum(axis=1, keepdims=True)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["k-ary", "three questions"])
def test_errors_behind_eight_outcomes_stay_below_the_bound(kind):
    pytest.importorskip("clarabel")
    estimator = eight(kind)
    assert estimator.matrix.shape == (8, 8)
    step, members, rng = estimator.step, candidates(estimator.model), KeyedRandom(KEY)
    sizes = []
    for p in members:
        counts = draw_counts(p @ estimator.matrix, n=estimator.n, replicates=SEARCHED, rng=rng)
        sizes.append(np.abs(estimator.estimate(counts) - p @ estimator.model.f))
    informative = 0
    for index in range(estimator.N):
        worst = max(range(len(members)), key=lambda i: ((sizes[i] > (index + 1) * step).sum(), sizes[i].mean()))
        p, bound = members[worst], estimator.error_bound(index)
        counts = draw_counts(p @ estimator.matrix, n=estimator.n, replicates=REPLICATES, rng=rng)
        found, limit = estimator.estimate(counts) - p @ estimator.model.f, (index + 1) * step * (1 + 1e-9)
        assert not exceeds(int((np.abs(found) > limit).sum()), bound)
        informative += 0 < bound < 0.5
        # The broken twin moves every estimate by some steps.
        assert bound > 0.1 or any(exceeds(int((np.abs(found + shift) > limit).sum()), bound) for shift in (-limit, limit))
    assert informative >= 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["k-ary", "three questions"])
def test_risks_behind_eight_outcomes_stay_below_the_bound(kind):
    pytest.importorskip("clarabel")
    estimator = eight(kind)
    rng = KeyedRandom(KEY)
    for p in candidates(estimator.model)[:20]:
        measured = simulate_risk(estimator, p, replicates=SEARCHED, rng=rng)
        assert measured.value - 5 * measured.stderr <= estimator.risk_bound()
