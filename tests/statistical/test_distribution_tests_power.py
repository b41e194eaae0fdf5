"""Size and power of the private tests at the sample size they state: 500 runs a law, judged by Clopper-Pearson bounds at 10^-6."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpcore.inference import identity_test, sample_size_needed, uniformity_test
from dpcore.inference._sample_size import error_bounds, miss_bound, noisy_tail
from dpcore.inference._thresholds import thresholds
from dpcore.inference.distribution_tests import uniform_sums
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE, laplace_upper
from support.signs import concentrated_rows, spread_rows, uniform_rows

RUNS = 500
CASES = [(8, 1.0, 4.0, 0.01), (16, 0.5, 2.0, 1e-3), (104, 0.8, 1.0, 1e-6)]
"""(d, α, ε, δ)."""


def at_most(hits: int, trials: int, rate: float) -> bool:
    """Whether the probability of a hit may be that small: its lower Clopper-Pearson bound is."""
    return hits == 0 or bool(stats.beta.ppf(ERROR_RATE, hits, trials - hits + 1) <= rate)


def at_least(hits: int, trials: int, rate: float) -> bool:
    """Whether the probability of a hit may be that large."""
    return at_most(trials - hits, trials, 1 - rate)


def needed(case):
    """The sample size that is stated for a case."""
    d, alpha, epsilon, delta = case
    return sample_size_needed(epsilon, delta, d=d, alpha=alpha)


def rejections(case, n, rows, seed, runs=RUNS):
    """How often records from a generator of rows are rejected."""
    d, alpha, epsilon, delta = case
    rng = KeyedRandom(bytes([seed]) * 32)
    return sum(uniformity_test(rows(n, d, rng), epsilon, delta, alpha=alpha, columns=d, rng=rng).reject for _ in range(runs))


def spread(strength):
    return lambda n, d, rng: spread_rows(n, d, strength / d**0.5, rng)


def concentrated(strength):
    return lambda n, d, rng: concentrated_rows(n, d, strength, rng)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_size_and_power_at_the_sample_size_stated(case):
    n, alpha = needed(case), case[1]
    false = rejections(case, n, uniform_rows, 1)
    assert at_most(false, RUNS, 1 / 3)
    assert at_least(false, RUNS, 0.29)  # the bound is not far from what happens
    assert at_least(rejections(case, n, spread(alpha), 2), RUNS, 2 / 3)
    assert at_least(rejections(case, n, concentrated(alpha), 3), RUNS, 2 / 3)


def test_fewer_records_or_a_smaller_separation_are_found_out():
    case = CASES[0]
    n, alpha = needed(case), case[1]
    assert not at_most(rejections(case, n // 8, uniform_rows, 4), RUNS, 1 / 3)
    assert not at_least(rejections(case, n, spread(alpha / 4), 5), RUNS, 2 / 3)


@pytest.mark.long
@pytest.mark.parametrize("case", [(200, 0.5, 1.0, 1e-6), (1000, 4.0, 4.0, 1e-3), (8, 0.1, 1.0, 1e-6), (8, 1.0, 0.05, 0.5)], ids=str)
@pytest.mark.parametrize("share", [1, 4])
def test_size_and_power_at_larger_sample_sizes(case, share):
    n, alpha, runs = share * needed(case), case[1], 200
    assert at_most(rejections(case, n, uniform_rows, 1, runs), runs, 1 / 3)
    for strength in (1.0, 1.5, 6.0):
        if strength * alpha < 0.9 * case[0] ** 0.5:
            assert at_least(rejections(case, n, spread(strength * alpha), 2, runs), runs, 2 / 3)
    if alpha <= 1:
        assert at_least(rejections(case, n, concentrated(alpha), 3, runs), runs, 2 / 3)


def test_bounds_of_the_errors_are_kept_where_everything_is_simulated_at_once():
    """T's law and the noise by themselves, at 10^5 replicates: the bound of P(T + r > gap) holds and is not idle."""
    n, d, scale = 400, 16, 200_000.0
    random = np.random.default_rng(1)
    sums = 2 * random.binomial(n, 0.5, (100_000, d)) - n
    statistics = (sums.astype(float) ** 2).sum(axis=1) - n * d
    for gap in (5e4, 1e5, 3e5):
        true = laplace_upper((gap - statistics) / scale).mean()
        bound = noisy_tail(gap, 2.0 * n * (n - 1) * d, scale)
        assert true <= bound <= 1.35 * true


def test_variance_of_the_statistic_is_the_formula():
    n, d = 60, 5
    random = np.random.default_rng(2)
    nu = np.array([0.0, 0.1, -0.3, 0.6, 0.9])
    sums = 2 * random.binomial(n, (1 + nu) / 2, (400_000, d)) - n
    statistics = (sums.astype(float) ** 2).sum(axis=1) - n * d
    exact = (2 * n * (n - 1) * (1 - nu**4) + 4 * n * (n - 1) * (n - 2) * (nu**2 - nu**4)).sum()
    assert statistics.mean() == pytest.approx(n * (n - 1) * (nu**2).sum(), rel=0.005)
    assert statistics.var() == pytest.approx(exact, rel=0.02)
    assert exact <= 2 * n * (n - 1) * d + 4 * n * (n - 1) * (n - 2) * (nu**2).sum()


def test_uniform_replacements_have_the_law_of_signs():
    sums = np.concatenate([uniform_sums(9, 64, KeyedRandom(bytes([i]) * 32), None) for i in range(200)])
    expected = stats.binom.pmf(np.arange(10), 9, 0.5) * len(sums)
    counts = np.bincount((sums + 9) // 2, minlength=10)
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 9) > ERROR_RATE


def test_identity_of_normal_records():
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    root, mean = np.linalg.cholesky(cov), np.array([1.0, -1.0])
    random, rng = np.random.default_rng(3), KeyedRandom(bytes(32))
    n = identity_test(random.standard_normal((5, 2)), 4.0, 0.01, alpha=1.0, mean=[0, 0], cov=np.eye(2)).sample_size_needed
    shift = np.array([0.6, -0.8])  # Mahalanobis length 1

    def hits(by):
        data = (mean + (random.standard_normal((n, 2)) + by * shift) @ root.T for _ in range(RUNS))
        return sum(identity_test(x, 4.0, 0.01, alpha=1.0, mean=mean, cov=cov, rng=rng).reject for x in data)

    assert at_most(hits(0.0), RUNS, 1 / 3)
    assert at_least(hits(1.0), RUNS, 2 / 3)
    assert not at_most(hits(1.0), RUNS, 1 / 3)


@pytest.mark.parametrize("case", [(8, 1.0, 4.0, 0.01, 260), (50, 0.2, 1.0, 1e-6, 12_000), (8, 0.001, 4.0, 0.01, 4_000_000)])
def test_the_bound_of_a_miss_is_the_formula(case):
    """Where it is above 1/3; at the stated n it is the size that decides."""
    *parameters, n = case
    d, alpha, epsilon, delta = parameters
    limits = thresholds(n, d, epsilon, delta)
    gap, scale, variance = 0.75 * n * (n - 1) * alpha**2, limits.third_scale, 2 * n * (n - 1) * (d + 2 * (n - 2) * alpha**2)
    shares = [(j + 0.5) / 4000 for j in range(4000)]
    least = min(variance / (variance + (f * gap) ** 2) + 0.5 * np.exp(-(1 - f) * gap / scale) for f in shares)
    bound = miss_bound(n, d, alpha, limits)
    assert bound > 1 / 3
    assert bound == pytest.approx(least + 4 * limits.delta, rel=2e-3)


def test_both_bounds_are_met_at_the_size_and_from_there_on():
    for d, alpha, epsilon, delta in [*CASES, (1, 1.0, 4.0, 0.5), (1000, 0.1, 1.0, 1e-6), (50, 1e-3, 0.01, 1e-9)]:
        n = sample_size_needed(epsilon, delta, d=d, alpha=alpha)
        assert max(error_bounds(n, d, alpha, epsilon, delta)) <= 1 / 3 < max(error_bounds(n - 1, d, alpha, epsilon, delta))
        assert all(max(error_bounds(int(n * f), d, alpha, epsilon, delta)) <= 1 / 3 for f in (1.001, 1.1, 3, 100, 10**6))
        limits = thresholds(n, d, epsilon, delta)
        assert limits.third_scale > (2 * d) ** 0.5 * n / 10  # the noise is not small against T's deviation
