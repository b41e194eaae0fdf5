"""The theorems of Mechanisms as experiments (2014) on experiments with small rational entries, by enumeration of events and rules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpcore.blackwell import Experiment, is_sufficient, max_power
from support.experiments import check_answer, error_points, rational_rows

WEIGHTS = st.integers(0, 12)
EPSILONS = st.one_of(st.just(0.0), st.floats(0.0, 3.0))
DELTAS = st.one_of(st.just(0.0), st.floats(0.0, 1.0))
STATES, OUTCOMES = st.integers(2, 4), st.integers(1, 5)
MARGIN = 1e-9
"""Where a property turns on an equality that float64 cannot decide, it is not asked."""


@st.composite
def stochastic(draw, rows, columns):
    """A matrix of so many rows and columns with entries that are small fractions, zeros among them."""
    lists = draw(st.lists(st.lists(WEIGHTS, min_size=columns, max_size=columns).filter(any), min_size=rows, max_size=rows))
    return rational_rows(lists)


@st.composite
def experiments(draw, states=STATES, outcomes=OUTCOMES):
    return Experiment(draw(stochastic(draw(states), draw(outcomes))))


def slack(points, epsilon, delta):
    """By how much P_FA + e^ε P_MD and its mirror image exceed 1 − δ, at the worst point."""
    p_md, p_fa = points.T
    c = math.exp(epsilon)
    return float(np.minimum(p_fa + c * p_md, c * p_fa + p_md).min() - (1 - delta))


@given(experiments(), EPSILONS, DELTAS)
def test_theorem_2_privacy_is_a_bound_on_the_errors_of_every_test(experiment, epsilon, delta):
    worst = min(
        slack(error_points(experiment.matrix, i, j), epsilon, delta) for i, j in itertools.permutations(range(len(experiment.matrix)), 2)
    )
    assume(abs(worst) > MARGIN)
    assert experiment.satisfies(epsilon, delta) == (worst > 0)


@given(experiments(), EPSILONS, DELTAS)
def test_theorem_3_privacy_is_a_region_that_holds_the_testing_regions(experiment, epsilon, delta):
    pairs = itertools.permutations(range(len(experiment.matrix)), 2)
    worst = min(slack(experiment.power_region(i, j).vertices, epsilon, delta) for i, j in pairs)
    assume(abs(worst) > MARGIN)
    assert experiment.satisfies(epsilon, delta) == (worst > 0)


@given(experiments(), EPSILONS)
def test_the_profile_is_the_distance_of_the_region_from_the_corner(experiment, epsilon):
    """δ(ε) = 1 − min (P_FA + e^ε P_MD) over all tests: a value of the support function."""
    c = math.exp(epsilon)
    pairs = itertools.permutations(range(len(experiment.matrix)), 2)
    by_support = 1 + max(experiment.power_region(i, j).support([-c, -1.0]) for i, j in pairs)
    assert abs(experiment.delta(epsilon) - by_support) < 1e-12


@given(experiments(), EPSILONS, st.floats(0.0, 1.0))
def test_no_test_has_more_power_than_the_bound(experiment, epsilon, level):
    delta = experiment.delta(epsilon)
    for i, j in itertools.permutations(range(len(experiment.matrix)), 2):
        p_md, p_fa = error_points(experiment.matrix, i, j).T
        allowed = p_fa <= level
        assert (1 - p_md[allowed] <= max_power(level, epsilon, min(1.0, delta)) + 1e-12).all()


@given(experiments(), DELTAS)
def test_epsilon_is_the_least_that_satisfies(experiment, delta):
    epsilon = experiment.epsilon(delta)
    assert experiment.satisfies(epsilon, delta) == math.isfinite(epsilon)
    if epsilon > 1e-6:
        assert not experiment.satisfies(min(epsilon, 1e6) - 1e-9, delta)


def test_a_tiny_delta_is_nearly_none():
    """1/17 is rounded: a sum that should be 0 at the largest ratio is not, and must not decide."""
    experiment = Experiment([[0.1, 0.1, 0.0, 0.1, 0.7], [1 / 17, 4 / 17, 0.0, 1 / 17, 11 / 17]])
    for delta in (1e-300, 1e-17, 1e-13):
        assert experiment.epsilon(delta) == pytest.approx(experiment.epsilon(), abs=1e-11)
        assert experiment.satisfies(experiment.epsilon(delta), delta)


@st.composite
def garblings(draw, states=STATES):
    """An experiment, a channel, and what comes out."""
    P = draw(experiments(states))
    channel = draw(stochastic(P.matrix.shape[1], draw(st.integers(1, 4))))
    return P, channel, P.garble(channel)


@given(garblings(), EPSILONS)
def test_post_processing_only_loses(made, epsilon):
    P, _, Q = made
    assert Q.delta(epsilon) <= P.delta(epsilon) + 1e-14
    assert Q.epsilon() <= P.epsilon() + 1e-12
    for i, j in itertools.permutations(range(len(P.matrix)), 2):
        assert P.power_region(i, j).contains(Q.power_region(i, j).vertices).all()


@pytest.mark.long
@settings(max_examples=60)
@given(garblings(), st.data())
def test_theorem_1_a_garbling_is_no_better_in_any_decision(made, data):
    P, _, Q = made
    n = len(P.matrix)
    loss = np.array(data.draw(st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=n, max_size=n)))
    prior = data.draw(stochastic(1, n))[0]
    assert P.bayes_risk(loss, prior) <= Q.bayes_risk(loss, prior) + 1e-14
    directions = np.eye(n)
    assert (Q.risk_region(loss.T).support(directions) <= P.risk_region(loss.T).support(directions) + 1e-13).all()
    assert is_sufficient(P, Q).holds


@pytest.mark.long
@settings(max_examples=60)
@given(st.integers(2, 4), st.data())
def test_theorem_1_either_there_is_a_channel_or_a_decision_tells(n, data):
    P, Q = (data.draw(experiments(st.just(n))) for _ in range(2))
    check_answer(P, Q, is_sufficient(P, Q))


@pytest.mark.long
@settings(max_examples=80)
@given(st.data())
def test_theorem_4_for_two_states_the_ordered_region_decides(data):
    P, Q = (data.draw(experiments(st.just(2))) for _ in range(2))
    inside = P.power_region(0, 1).contains(Q.power_region(0, 1).vertices, tolerance=0.0)
    near = P.power_region(0, 1).contains(Q.power_region(0, 1).vertices, tolerance=1e-7)
    assume(inside.all() or not near.all())  # not where a corner lies on the border
    assert is_sufficient(P, Q).holds == bool(inside.all())


@pytest.mark.long
@settings(max_examples=60)
@given(garblings(), st.data())
def test_lemma_1_holds_forwards(made, data):
    P, channel, Q = made
    distributions = data.draw(stochastic(data.draw(st.integers(1, 4)), len(P.matrix)))
    P_D, Q_D = P.under(distributions), Q.under(distributions)
    assert np.abs(P_D.matrix @ channel - Q_D.matrix).max() < 1e-12
    assert is_sufficient(P_D, Q_D).holds


@pytest.mark.long
@settings(max_examples=60)
@given(st.integers(2, 3), st.data())
def test_lemma_1_holds_backwards_with_full_column_rank(n, data):
    P, Q = (data.draw(experiments(st.just(n))) for _ in range(2))
    distributions = data.draw(stochastic(data.draw(st.integers(n, 4)), n))
    assume(np.linalg.svd(distributions, compute_uv=False)[-1] > 0.05)
    answer = is_sufficient(P, Q)
    assume(answer.holds or answer.deficiency > 1e-6)
    assert is_sufficient(P.under(distributions), Q.under(distributions)).holds == answer.holds


@given(experiments(st.just(2), st.integers(1, 3)), st.integers(1, 3), EPSILONS, EPSILONS)
def test_products_compose(experiment, k, epsilon, other):
    product = experiment.product(k)
    assert abs(product.epsilon() - k * experiment.epsilon()) < 1e-9 or math.isinf(experiment.epsilon())
    # basic composition of (ε, δ(ε)) and (ε', δ(ε'))
    if k == 2:
        assert product.delta(epsilon + other) <= experiment.delta(epsilon) + experiment.delta(other) + 1e-13
    assert abs(product.delta(epsilon) - experiment.product(k, ordered=False).delta(epsilon)) < 1e-12
