"""Plans of finite channels and of linear estimators from their reports: against exact laws of few reports, and their own bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpcore.errors import ParameterError
from dpcore.local import Aggregate, BinaryResponse, FiniteChannel, KaryResponse
from dpcore.minimax import ChannelMean, Model, best_linear
from dpcore.planning import Aim, Recipe, epsilon_for, sample_size
from support.ks import vectors

ROWS = [[3, 2, 1], [2, 2, 2], [1, 2, 3]]
THREE = FiniteChannel(ROWS, values=[-3.0, 0.0, 3.0])
LAWS = [(i / 8, j / 8, 1 - (i + j) / 8) for i, j in itertools.product(range(9), repeat=2) if i + j <= 8]


def root_of_risk(n: int, law: tuple[float, ...]) -> float:
    """√E(mean of values − its mean)² over all counts of n reports."""
    masses = np.array(law) @ np.array(ROWS) / 6
    truth, found = float(masses @ THREE.values), 0.0
    for counts in vectors(n, 3):
        found += stats.multinomial.pmf(counts, n, masses) * (np.array(counts) @ THREE.values / n - truth) ** 2
    return math.sqrt(found)


def test_a_mean_meets_the_target_at_n_and_misses_it_below():
    plan = sample_size(THREE, rmse=0.7)
    assert plan.exact
    assert plan.least
    assert max(root_of_risk(plan.n, law) for law in LAWS) <= 0.7
    assert max(root_of_risk(math.floor(0.95 * plan.n), law) for law in LAWS) > 0.7
    assert not sample_size(Sample(), rmse=0.7).exact


class Sample:
    """The plan about the sample, for which the variance of the population is a bound."""

    def error_curve(self, aim):
        return THREE.error_curve(aim, target="sample")


@pytest.mark.parametrize("k", [2, 5])
def test_frequencies_are_planned_like_those_of_the_mechanism_with_these_rows(k):
    """Weighted least squares is the estimator of k-ary response, so both have the same worst variance."""
    named = KaryResponse(1.0, k=k)
    channel = FiniteChannel.at_level(named.channel(), 1.0)
    for n in (10, 10_000):
        own, other = (thing.error_curve(Aim("rmse", 1.0)).error(n, 1.0) for thing in (channel, named))
        assert own == pytest.approx(other, rel=1e-9)


def test_two_outcomes_have_intervals_of_a_known_width():
    channel = FiniteChannel([[3, 1], [1, 3]])
    plan = sample_size(channel, width=0.3)
    for n, over in ((plan.n, False), (math.floor(0.95 * plan.n), True)):
        ends = [channel.estimate(Aggregate(channel, n, np.array([c, n - c]))).interval() for c in range(n + 1)]
        assert (max(float(np.diff(each, axis=-1).max()) for each in ends) > 0.3) == over
    with pytest.raises(ParameterError, match="follow the spread of the reports, can be planned for rmse, got width"):
        sample_size(THREE, width=0.3)


def test_the_epsilon_of_a_channel_is_the_least_of_the_grid_above_its_level():
    plan = epsilon_for(THREE, n=10_000, rmse=0.1)
    assert plan.epsilon == 1.1 > THREE.epsilon > 1.09
    assert math.isinf(plan.error_at_less)
    assert sample_size(THREE, rmse=0.1).epsilon == THREE.epsilon
    with pytest.raises(ParameterError, match="is met by no epsilon"):
        epsilon_for(THREE, n=100, rmse=0.01)
    with pytest.raises(ParameterError, match="at must be None for a FiniteChannel"):
        sample_size(THREE, rmse=0.1, at=0.5)
    plain = FiniteChannel(np.eye(2, dtype=np.int64), epsilon=None)
    assert math.isinf(sample_size(plain, rmse=0.1).epsilon)
    assert sample_size(plain, rmse=0.1).n == 26
    assert sample_size(BinaryResponse(700.0), rmse=0.1).n == 26


def test_a_linear_estimator_of_a_channel():
    mean = ChannelMean(THREE, points=[-1.0, 0.0, 1.0], bias=0.1)
    plan = sample_size(mean, rmse=0.3)
    assert mean.risk_bound(n=plan.n) <= 0.09 < mean.risk_bound(n=plan.n - 2)
    with pytest.raises(ParameterError, match="bias of 0\\.1, for this channel"):
        sample_size(mean, rmse=0.09)
    with pytest.raises(ParameterError, match="can be planned for rmse, got width"):
        sample_size(mean, width=1.0)
    with pytest.raises(ParameterError, match="bias is not known"):
        sample_size(ChannelMean(THREE), rmse=0.3)


def test_the_best_linear_estimator_keeps_its_channel():
    pytest.importorskip("clarabel", reason="needs the extra `minimax`")
    model = Model.moment(np.linspace(-2.0, 2.0, 5), kappa=2.0, C=1.0)
    best = best_linear(model, 1.0, n=400, outputs=5)
    plan = sample_size(best, rmse=0.3)
    assert not plan.exact
    for p in (best.worst, np.eye(5)[2], [0.125, 0, 0.75, 0, 0.125]):
        masses, values = p @ best.channel, best.mean.values
        mean = masses @ values
        assert (best.mean.center + mean - p @ model.f) ** 2 + (masses @ values**2 - mean**2) / plan.n <= 0.09
    assert math.sqrt(best.bias**2 + best.second_moment / (plan.n - 1)) > 0.3
    curve = best.error_curve(Aim("width", 1.5))
    assert curve.error(1000, 1.0) == 2 * best.mean.on(model, n=1000).margin(0.95)
    assert curve.slow
    assert not curve.falls_in_n


@pytest.mark.long
def test_the_best_linear_estimator_is_made_anew_for_each_n():
    model, made = Model.moment(np.linspace(-2.0, 2.0, 5), kappa=2.0, C=1.0), []

    def make(n, epsilon):
        made.append(n)
        return best_linear(model, epsilon, n=n, outputs=5)

    anew = sample_size(Recipe(make, slow=True), epsilon=1.0, rmse=0.3)
    assert anew.error <= 0.3 < anew.error_at_less
    assert len(made) == len(set(made)) < 30
