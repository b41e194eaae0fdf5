"""Estimates are unbiased, their variance is what the formula says, and their intervals cover: over many replicates of whole surveys.

The law of an aggregate follows from the channel (test_local_law.py shows that reports follow it), so most replicates draw aggregates; some
go through `privatize` and tie the two together. Thresholds: one-sided Clopper-Pearson bounds at 10^-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import local
from dpcore.testing import KeyedRandom
from support.kernels import KEY, Array
from support.laws import ERROR_RATE, mean_p_value

COVERAGE_REPLICATES, VARIANCE_REPLICATES = 20_000, 60_000
ORACLES = (
    local.BinaryResponse(1.0),
    local.KaryResponse(2.0, k=8),
    local.UnaryEncoding(1.0, k=30),
    local.UnaryEncoding(1.0, k=30, method="symmetric"),
    local.SubsetSelection(1.0, k=30),
    local.LocalHashing(1.0, k=30),
)
each = pytest.mark.parametrize("mechanism", ORACLES, ids=repr)


def random() -> np.random.Generator:
    return np.random.default_rng(99)


def supports(mechanism: Any, f: float, n: int, replicates: int, target: str) -> Array:
    """Support counts of one category of frequency f in many surveys of n records."""
    p, q, _ = mechanism.support
    plain = random()  # one generator: two of the same seed would tie the reports to the holders
    holders = plain.binomial(n, f, replicates) if target == "population" else np.full(replicates, round(n * f))
    return plain.binomial(holders, p) + plain.binomial(n - holders, q)


def estimate(mechanism: Any, counts: Array, n: int, target: str) -> local.Estimate:
    """Estimates of all surveys at once: each count as one category's."""
    from dpcore.local.estimates import frequencies

    return frequencies(counts, n, mechanism.support, target=target, privacy=mechanism.privacy)


def surely_outside(hits: int, trials: int, low: float, high: float) -> bool:
    """Whether the rate is outside [low, high] beyond doubt."""
    upper = stats.beta.ppf(1 - ERROR_RATE, hits + 1, max(trials - hits, 1e-9))
    lower = stats.beta.ppf(ERROR_RATE, max(hits, 1e-9), trials - hits + 1)
    return bool(upper < low or lower > high)


@each
@pytest.mark.parametrize("target", ["population", "sample"])
@pytest.mark.parametrize("f", [0.05, 0.4])
def test_intervals_cover(mechanism, target, f):
    n = 25_000  # n f (1 - f) >= 1000
    found = estimate(mechanism, supports(mechanism, f, n, COVERAGE_REPLICATES, target), n, target)
    hits = int(((found.interval()[:, 0] <= f) & (f <= found.interval()[:, 1])).sum())
    assert not surely_outside(hits, COVERAGE_REPLICATES, 0.94, 0.96)
    # a twin whose interval is a tenth too short
    half = 0.9 * (found.interval()[:, 1] - found.value)
    assert surely_outside(int((abs(found.value - f) <= half).sum()), COVERAGE_REPLICATES, 0.94, 0.96)


@each
@pytest.mark.parametrize("target", ["population", "sample"])
def test_variance_and_mean_are_the_formulas(mechanism, target):
    n, f = 25_000, 0.3
    value = np.asarray(estimate(mechanism, supports(mechanism, f, n, VARIANCE_REPLICATES, target), n, target).value)
    variance = mechanism.variance(f, target) / n
    assert abs(value.var() / variance - 1) < 0.03
    assert mean_p_value(value, f, variance) > ERROR_RATE
    # a twin with the other target's variance, and one that is a hundredth off
    other = "sample" if target == "population" else "population"
    assert abs(value.var() / (mechanism.variance(f, other) / n) - 1) > 0.03
    assert mean_p_value(value * 1.01, f, variance) < ERROR_RATE


@pytest.mark.some(3)
@pytest.mark.parametrize("mechanism", [*ORACLES[1:], local.HadamardResponse(1.0, k=30)], ids=repr)
def test_whole_surveys(mechanism):
    """Through privatize and aggregate: standard scores of all categories in 300 surveys."""
    n, surveys, rng = 2000, 300, KeyedRandom(KEY)
    x = np.minimum(random().geometric(0.3, n) - 1, mechanism.k - 1)
    truth = np.bincount(x, minlength=mechanism.k) / n
    reports = mechanism.privatize(np.tile(x, surveys), rng=rng)
    scores = []
    for part in np.split(reports, surveys):
        found = mechanism.estimate(part, target="sample")
        deviation = np.sqrt([mechanism.variance(f, "sample") / n for f in truth])
        scores.append((found.value - truth) / deviation)
    table = np.array(scores)
    for column in table.T:
        assert mean_p_value(column, 0.0, 1.0) > ERROR_RATE
        assert stats.chi2.sf((column**2).sum(), surveys) > ERROR_RATE
        assert stats.chi2.cdf((column**2).sum(), surveys) > ERROR_RATE
    # a twin that forgets to correct for q
    assert mean_p_value(table[:, -1] + 1.0, 0.0, 1.0) < ERROR_RATE


MEANS = (
    local.BoundedMean(1.0, 0.0, 10.0),
    local.LocalLaplace(1.0, 0.0, 10.0),
    local.LocalGaussian(1.0, 1e-6, 0.0, 10.0),
    local.LocalDiscreteLaplace(1.0, 0, 10),
    local.LocalDiscreteGaussian(1.0, 1e-6, 0, 10),
)


@pytest.mark.some(2)
@pytest.mark.parametrize("mechanism", MEANS, ids=repr)
def test_means_cover(mechanism):
    n, surveys, rng = 1000, 1500, KeyedRandom(KEY)
    population = np.array([0, 1, 1, 2, 3, 7, 10])
    x = random().choice(population, n * surveys)
    reports = mechanism.privatize(x if "Discrete" in repr(mechanism) else x.astype(np.float64), rng=rng)
    found = [mechanism.estimate(part) for part in np.split(reports, surveys)]
    value = np.array([each.value for each in found])
    hits = sum(each.interval()[0] <= population.mean() <= each.interval()[1] for each in found)
    assert not surely_outside(int(hits), surveys, 0.94, 0.96)
    assert mean_p_value(value, population.mean(), value.var()) > ERROR_RATE
    short = sum(abs(each.value - population.mean()) <= 0.7 * (each.interval()[1] - each.value) for each in found)
    assert surely_outside(int(short), surveys, 0.94, 0.96)


def test_the_phi_channel_is_unbiased():
    phi = np.array([0.5, -2.0, 1.0, 0.0])
    mechanism = local.BinaryChannel(0.7, phi)
    x = random().integers(0, 4, 2_000_000)
    found = mechanism.estimate(mechanism.privatize(x, rng=KeyedRandom(KEY)))
    assert found.interval(1 - ERROR_RATE)[0] <= phi[x].mean() <= found.interval(1 - ERROR_RATE)[1]
    assert not found.interval(1 - ERROR_RATE)[0] <= phi[x].mean() + 0.1 <= found.interval(1 - ERROR_RATE)[1]
    function = local.BinaryChannel(0.7, np.sin, bound=1.0)
    v = random().normal(0.5, 1.0, 2_000_000)
    found = function.estimate(function.privatize(v, rng=KeyedRandom(KEY)))
    assert found.interval(1 - ERROR_RATE)[0] <= np.sin(v).mean() <= found.interval(1 - ERROR_RATE)[1]
