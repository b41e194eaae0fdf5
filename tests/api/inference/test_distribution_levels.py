"""Tests of distributions at a level: p-values that are too small no more often than they say, and the records that the level needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from dpcore import ParameterError
from dpcore.inference import identity_test, uniformity_test
from dpcore.inference._sample_size import critical_value, error_bounds, least_sample_size, p_value_bound
from dpcore.inference._thresholds import thresholds
from dpcore.inference.distribution_tests import sample_size_needed
from dpcore.testing import KeyedRandom
from support.kernels import KEY

BUDGET = (2.0, 1e-3)
ERROR_RATE = 1e-6


def signs(n, d, mean, seed):
    """Records of independent signs, whose first column has this mean."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 2, (n, d)).astype(bool)
    rows[:, 0] = random.random(n) < (1 + mean) / 2
    return rows


@pytest.mark.parametrize("level", [0.01, 0.05])
def test_a_test_rejects_exactly_where_its_p_value_is_at_most_the_level(level):
    n, d = sample_size_needed(*BUDGET, d=8, alpha=0.8, level=level), 8
    for mean in (0.0, 0.8):
        found = uniformity_test(signs(n, d, mean, 3), *BUDGET, alpha=0.8, level=level, rng=KeyedRandom(KEY))
        assert found.reject == (found.p_value <= level) == (mean > 0)
        assert found.sample_size_needed == n


def test_p_values_are_those_of_the_statistic_and_fall_with_it():
    n, d, limits = 3000, 8, thresholds(3000, 8, *BUDGET)
    places = np.linspace(-1.0, 40.0, 200) * limits.third_scale
    values = np.array([p_value_bound(place, n, d, limits) for place in places])
    assert values[0] == 1.0
    assert (np.diff(values) <= 1e-15).all()
    assert p_value_bound(math.inf, n, d, limits) == pytest.approx(5 * limits.delta)
    # never below the probability that the noise alone gives: half an exponential
    assert (values >= 0.5 * np.exp(-np.maximum(places, 0.0) / limits.third_scale) * (places > 0)).all()


@pytest.mark.parametrize("level", [0.01, 0.2])
def test_critical_values(level):
    n, d, limits = 3000, 8, thresholds(3000, 8, *BUDGET)
    limit = critical_value(n, d, limits, level)
    assert p_value_bound(limit, n, d, limits) <= level < p_value_bound(limit * (1 - 1e-6), n, d, limits)
    assert critical_value(n, d, limits, 1e-4) is None  # the first steps alone fail more often


def test_the_size_is_at_most_the_level():
    """Under uniformity, 400 keyed runs: and half the p-value would be too small to be one."""
    n, d, level, runs = 2500, 4, 0.2, 400
    outcomes = [
        uniformity_test(signs(n, d, 0.0, run), *BUDGET, alpha=0.5, level=level, rng=KeyedRandom(KEY).at(run)) for run in range(runs)
    ]
    rejected = sum(each.reject for each in outcomes)
    assert beta.ppf(ERROR_RATE, max(rejected, 1e-9), runs - rejected + 1) <= level
    smaller = sum(each.p_value / 3 <= level for each in outcomes)  # the twin divides its p-value by three
    assert beta.ppf(ERROR_RATE, smaller, runs - smaller + 1) > level


def test_smaller_levels_need_more_records():
    needed = [sample_size_needed(*BUDGET, d=16, alpha=0.5, level=level) for level in (0.3, 0.05, 0.01)]
    assert needed == sorted(needed)
    assert len(set(needed)) == 3
    for level, n in zip((0.3, 0.05, 0.01), needed, strict=True):
        assert error_bounds(n, 16, 0.5, *BUDGET, level)[1] <= 1 / 3
        assert error_bounds(n - 1, 16, 0.5, *BUDGET, level)[1] > 1 / 3
    # at the document's level its own limit is not needed: fewer records are enough
    assert least_sample_size(16, 0.5, *BUDGET, 1 / 3) < least_sample_size(16, 0.5, *BUDGET)


def test_the_default_is_the_documents_rule():
    rows = signs(20_000, 8, 0.9, 1)
    by_rule = uniformity_test(rows, *BUDGET, alpha=0.8, rng=KeyedRandom(KEY))
    by_level = uniformity_test(rows, *BUDGET, alpha=0.8, level=0.05, rng=KeyedRandom(KEY))
    assert (by_rule.statistic, by_rule.p_value) == (by_level.statistic, by_level.p_value)
    assert by_rule.sample_size_needed == sample_size_needed(*BUDGET, d=8, alpha=0.8)


def test_identity_at_a_level():
    random = np.random.default_rng(2)
    x = random.normal(size=(20_000, 3))
    for shift, reject in ((0.0, False), (1.5, True)):
        found = identity_test(x + shift, *BUDGET, alpha=1.0, mean=np.zeros(3), cov=np.eye(3), level=0.05, rng=KeyedRandom(KEY))
        assert found.reject == reject == (found.p_value <= 0.05)


@pytest.mark.parametrize("level", [0.0, 1e-3, 1.0, 2.0, math.nan])
def test_levels_that_cannot_be_had(level):
    with pytest.raises(ParameterError, match="level must be in"):
        uniformity_test(signs(100, 4, 0.0, 1), *BUDGET, alpha=1.0, level=level)
