"""Intervals of every local mechanism through its public methods, and the law of its aggregates: what `test_local_estimates.py` relies on.

Most replicates draw aggregates from the law that follows from the channel; `test_aggregates_of_whole_surveys_have_that_law` ties it to
`privatize`. Thresholds: one-sided Clopper-Pearson bounds at 10^-6; the draws are keyed or seeded, so a run repeats its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import local
from dpcore.testing import KeyedRandom
from support.kernels import KEY, Array
from support.laws import ERROR_RATE, mean_p_value, p_value

COVERAGE_REPLICATES, VARIANCE_REPLICATES = 10_000, 60_000
K = 8
F = np.array([0.1, 0.3, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02])
ORACLES = (
    local.KaryResponse(1.0, k=K),
    local.UnaryEncoding(1.0, k=K),
    local.UnaryEncoding(1.0, k=K, method="symmetric"),
    local.SubsetSelection(1.0, k=K),
    local.LocalHashing(1.0, k=K),
    local.HadamardResponse(1.0, k=K),
)
TABLE = (0.5, -2.0, 1.0, 0.0)
ONE_BIT = (local.BinaryResponse(1.0), local.BoundedMean(1.0, 0.0, 10.0), local.BinaryChannel(1.0, TABLE))
ADDITIVE = (
    local.LocalLaplace(1.0, 0.0, 10.0),
    local.LocalGaussian(1.0, 1e-6, 0.0, 10.0),
    local.LocalDiscreteLaplace(1.0, 0, 10),
    local.LocalDiscreteGaussian(1.0, 1e-6, 0, 10),
)
NUMBERS = np.array([0, 1, 1, 2, 3, 7, 10, 10])
targets = pytest.mark.parametrize("target", ["population", "sample"])


def at_least(hits: int, trials: int, rate: float) -> bool:
    """Whether the probability of a hit may be that large: its upper Clopper-Pearson bound is."""
    return hits == trials or bool(stats.beta.isf(ERROR_RATE, hits + 1, trials - hits) >= rate)


def at_most(hits: int, trials: int, rate: float) -> bool:
    """Whether the probability of a hit may be that small."""
    return hits == 0 or bool(stats.beta.ppf(ERROR_RATE, hits, trials - hits + 1) <= rate)


def covers(hits: int, trials: int, *, conservative: bool = False) -> bool:
    """Whether a coverage is 95 ± 1 %, beyond which nothing is held against a conservative interval."""
    return at_least(hits, trials, 0.94) and (conservative or at_most(hits, trials, 0.96))


def assert_covered(value: Array, interval: Array, truth: float, *, conservative: bool = False) -> None:
    """The interval covers, and a twin that is a fifth too short is rejected."""
    inside = int(np.count_nonzero((interval[:, 0] <= truth) & (truth <= interval[:, 1])))
    assert covers(inside, len(value), conservative=conservative)
    half = 0.8 * (interval[:, 1] - interval[:, 0]) / 2
    assert not covers(int(np.count_nonzero(abs(value - truth) <= half)), len(value), conservative=conservative)


def counted(mechanism: Any, records: Array, n: int, replicates: int, target: str) -> Array:
    """Counts that aggregates of many surveys have, of mechanisms whose reports are listed by `channel`.

    `records` are relative frequencies of the channel's inputs: of the population, or of the one sample of all surveys.
    """
    plain, channel = np.random.default_rng(7), mechanism.channel()
    if target == "population":
        return plain.multinomial(n, records @ channel, replicates)
    return sum(plain.multinomial(round(n * f), row, replicates) for f, row in zip(records, channel, strict=True))  # type: ignore[return-value]


def estimates(mechanism: Any, counts: Array, n: int, target: str) -> tuple[Array, Array]:
    """Values and intervals of surveys, each by the public way."""
    found = [mechanism.estimate(local.Aggregate(mechanism, n, row), target=target) for row in counts]
    return np.array([each.value for each in found]), np.array([each.interval() for each in found])


# Oracles


@pytest.mark.long
@targets
def test_intervals_of_all_categories_cover_at_once_in_a_kary_response(target):
    mechanism, n = ORACLES[0], 60_000  # n f (1 - f) >= 1000 for the rarest
    counts = counted(mechanism, F, n, COVERAGE_REPLICATES, target)
    value, interval = estimates(mechanism, counts, n, target)
    for v in range(K):
        assert_covered(value[:, v], interval[:, v], F[v])
        assert mean_p_value(value[:, v], F[v], mechanism.variance(F[v], target) / n) > ERROR_RATE
        assert mean_p_value(value[:, v] + 1e-3, F[v], mechanism.variance(F[v], target) / n) < ERROR_RATE
    assert abs(value.sum(axis=1) - 1).max() < 1e-9


@pytest.mark.long
@targets
def test_intervals_of_a_hadamard_response_cover(target):
    mechanism, n = local.HadamardResponse(1.0, k=K), 60_000
    counts = counted(mechanism, F, n, COVERAGE_REPLICATES, target)
    sums = counts[:, 1::2] - counts[:, ::2]
    value, interval = estimates(mechanism, sums, n, target)
    for v in range(K):
        assert_covered(value[:, v], interval[:, v], F[v])


@pytest.mark.long
@targets
def test_the_variance_of_a_hadamard_response_is_the_formulas(target):
    mechanism, n = local.HadamardResponse(3.0, k=K), 60_000
    counts = counted(mechanism, F, n, VARIANCE_REPLICATES, target)
    signs = np.array([[(-1) ** (row & v).bit_count() for v in range(K)] for row in range(mechanism.rows)])
    p, q, _ = mechanism.support
    value = ((n + (counts[:, 1::2] - counts[:, ::2]) @ signs) / 2 / n - q) / (p - q)
    assert value[5] == pytest.approx(estimates(mechanism, (counts[:, 1::2] - counts[:, ::2])[5:6], n, target)[0][0], rel=1e-9)
    other = "population" if target == "sample" else "sample"
    for v in range(K):
        found = value[:, v].var()
        assert abs(found / (mechanism.variance(F[v], target) / n) - 1) < 0.03
        if v in (1, 2):
            assert abs(found / (mechanism.variance(F[v], other) / n) - 1) > 0.03
        assert mean_p_value(value[:, v], F[v], mechanism.variance(F[v], target) / n) > ERROR_RATE


def binary_convolution(holders: int, others: int, p: float, q: float) -> Array:
    """The law of Bin(holders, p) + Bin(others, q)."""
    one, other = (stats.binom.pmf(np.arange(m + 1), m, rate) for m, rate in ((holders, p), (others, q)))
    return np.convolve(one, other)


def support_counts(mechanism: Any, part: Any) -> Array:
    """Support counts of a survey of n reports, whatever the mechanism counts."""
    p, q, _ = mechanism.support
    found = mechanism.estimate(part)
    return np.rint(found.n * (q + (p - q) * np.atleast_1d(found.value))).astype(np.int64)


@pytest.mark.some(2)
@targets
@pytest.mark.parametrize("mechanism", [local.BinaryResponse(1.0), *ORACLES], ids=repr)
def test_aggregates_of_whole_surveys_have_that_law(mechanism, target):
    """Through privatize: the support counts of two categories in 4,000 surveys of 200."""
    n, surveys = 200, 4000
    plain = np.random.default_rng(11)
    binary = isinstance(mechanism, local.BinaryResponse)
    f = np.array([0.7, 0.3]) if binary else F
    sample = np.repeat(np.arange(len(f)), np.rint(n * f).astype(int))
    x = plain.choice(len(f), n * surveys, p=f) if target == "population" else np.tile(sample, surveys)
    reports = mechanism.privatize(x.astype(bool) if binary else x, rng=KeyedRandom(KEY))
    counts = np.array([support_counts(mechanism, part) for part in np.split(reports, surveys)])
    p, q, _ = mechanism.support

    def law(p: float, q: float, v: int) -> Array:
        if target == "population":
            return stats.binom.pmf(np.arange(n + 1), n, f[v] * p + (1 - f[v]) * q)  # type: ignore[no-any-return]
        return binary_convolution(round(n * f[v]), n - round(n * f[v]), p, q)

    for column, v in enumerate([1] if binary else range(K)):
        seen = np.bincount(counts[:, column], minlength=n + 1)
        assert p_value(seen, law(p, q, v)) > ERROR_RATE
        assert p_value(seen, law(p, 1.1 * q, v)) < ERROR_RATE


@pytest.mark.long
@targets
@pytest.mark.parametrize("mechanism", [local.BinaryResponse(1.0), *ORACLES], ids=repr)
def test_intervals_of_whole_surveys_cover(mechanism, target):
    """Through privatize, aggregate and estimate: 20,000 surveys."""
    n, surveys, at_once, v = 12_000, COVERAGE_REPLICATES, 100, 0  # n f (1 - f) = 1080
    binary = isinstance(mechanism, local.BinaryResponse)
    f = np.array([1 - F[v], F[v]]) if binary else F
    sample, plain, rng = np.repeat(np.arange(len(f)), np.rint(n * f).astype(int)), np.random.default_rng(13), KeyedRandom(KEY)
    value, interval = [], []
    for _ in range(surveys // at_once):
        x = plain.choice(len(f), n * at_once, p=f) if target == "population" else np.tile(sample, at_once)
        reports = mechanism.privatize(x.astype(bool) if binary else x, rng=rng)
        for part in np.split(reports, at_once):
            found = mechanism.estimate(part, target=target)
            value.append(found.value if binary else found.value[v])
            interval.append(found.interval() if binary else found.interval()[v])
    assert_covered(np.array(value), np.array(interval), F[v])
    assert mean_p_value(np.array(value), F[v], mechanism.variance(F[v], target) / n) > ERROR_RATE


# One bit


def inputs(mechanism: Any) -> tuple[Array, Array, Array]:
    """Records, their relative frequencies, and what each counts for."""
    if isinstance(mechanism, local.BoundedMean):
        values, times = np.unique(NUMBERS, return_counts=True)
        return values.astype(np.float64), times / len(NUMBERS), values.astype(np.float64)
    if isinstance(mechanism, local.BinaryChannel):
        return np.arange(4), np.array([0.5, 0.25, 0.125, 0.125]), np.array(TABLE)
    return np.array([False, True]), np.array([0.7, 0.3]), np.array([0.0, 1.0])


def ones_of_surveys(mechanism: Any, n: int, replicates: int, target: str) -> tuple[Array, float]:
    """How many reports are True in each survey, and the mean to be estimated."""
    records, f, worth = inputs(mechanism)
    channel = mechanism.channel(records) if isinstance(mechanism, local.BoundedMean) else mechanism.channel()
    plain = np.random.default_rng(17)
    if target == "population":
        return plain.binomial(n, f @ channel[:, 1], replicates), float(f @ worth)
    return sum(plain.binomial(round(n * each), p, replicates) for each, p in zip(f, channel[:, 1], strict=True)), float(f @ worth)  # type: ignore[return-value]


@pytest.mark.long
@targets
@pytest.mark.parametrize("mechanism", ONE_BIT, ids=repr)
def test_intervals_of_one_bit_cover(mechanism, target):
    n = 8000
    ones, truth = ones_of_surveys(mechanism, n, COVERAGE_REPLICATES, target)
    value, interval = estimates(mechanism, ones[:, None], n, target)
    # the variance of a sample's mean depends on the records themselves: the interval takes what it is at most
    conservative = target == "sample" and not isinstance(mechanism, local.BinaryResponse)
    assert_covered(value, interval, truth, conservative=conservative)


@targets
@pytest.mark.parametrize("mechanism", ONE_BIT, ids=repr)
def test_the_variance_of_one_bit_is_the_formulas(mechanism, target):
    n = 8000
    ones, truth = ones_of_surveys(mechanism, n, VARIANCE_REPLICATES, target)
    low, high = (mechanism.estimate(local.Aggregate(mechanism, n, np.array([m]))).value for m in (0, n))
    value = low + (high - low) * ones / n
    assert value[3] == pytest.approx(mechanism.estimate(local.Aggregate(mechanism, n, ones[3:4])).value, rel=1e-9, abs=1e-12)
    _, f, worth = inputs(mechanism)
    if isinstance(mechanism, local.BinaryResponse):
        variance = mechanism.variance(0.3, target)
    else:
        # z0² − E T², and the spread of the records where they are drawn
        variance = mechanism.variance(truth) - (float(f @ worth**2) - truth**2 if target == "sample" else 0.0)
    assert abs(value.var() / (variance / n) - 1) < 0.03
    assert mean_p_value(value, truth, variance / n) > ERROR_RATE
    # twins: 5 % of the variance, and a hundredth of the distance between the two values of a report
    assert abs(value.var() / (1.05 * variance / n) - 1) > 0.03
    assert mean_p_value(value + 0.01 * (high - low), truth, variance / n) < ERROR_RATE


@pytest.mark.parametrize("mechanism", ONE_BIT, ids=repr)
def test_ones_of_whole_surveys_have_that_law(mechanism):
    n, surveys = 200, 5000
    records, f, _ = inputs(mechanism)
    sample = np.repeat(records, np.rint(n * f).astype(int))
    reports = mechanism.privatize(np.tile(sample, surveys), rng=KeyedRandom(KEY)).reshape(surveys, n)
    ones = [int(mechanism.aggregate(part).counts[0]) for part in reports]
    channel = mechanism.channel(records) if isinstance(mechanism, local.BoundedMean) else mechanism.channel()

    def law(tilt: float) -> Array:
        whole = np.ones(1)
        for each, p in zip(f, channel[:, 1], strict=True):
            m = round(n * each)
            whole = np.convolve(whole, stats.binom.pmf(np.arange(m + 1), m, tilt * p))
        return whole

    seen = np.bincount(ones, minlength=n + 1)
    assert p_value(seen, law(1.0)) > ERROR_RATE
    assert p_value(seen, law(0.98)) < ERROR_RATE


# Noise on numbers


def surveys_of_numbers(mechanism: Any, n: int, surveys: int, target: str) -> Array:
    """Reports of many surveys, one a row."""
    plain = np.random.default_rng(19)
    x = plain.choice(NUMBERS, (surveys, n)) if target == "population" else np.broadcast_to(np.resize(NUMBERS, n), (surveys, n))
    return mechanism.privatize(x if mechanism.integral else x.astype(np.float64), rng=KeyedRandom(KEY))  # type: ignore[no-any-return]


@pytest.mark.long
@targets
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_intervals_of_noisy_means_cover(mechanism, target):
    n = 400
    found = [mechanism.estimate(part, target=target) for part in surveys_of_numbers(mechanism, n, COVERAGE_REPLICATES, target)]
    value, interval = np.array([each.value for each in found]), np.array([each.interval() for each in found])
    assert_covered(value, interval, float(NUMBERS.mean()))


@pytest.mark.some(4)
@targets
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_the_variance_of_noisy_means_is_the_formulas(mechanism, target):
    n, truth = 80, float(NUMBERS.mean())
    value = surveys_of_numbers(mechanism, n, VARIANCE_REPLICATES, target).mean(axis=1)
    variance = (mechanism.noise_variance + (float(NUMBERS.var()) if target == "population" else 0.0)) / n
    assert abs(value.var() / variance - 1) < 0.03
    assert mean_p_value(value, truth, variance) > ERROR_RATE
    # twins: Laplace noise's scale taken for its standard deviation, and one clamped to a narrower range
    assert abs(value.var() / (1.07 * variance) - 1) > 0.03
    assert mean_p_value(value, float(np.clip(NUMBERS, 0, 9).mean()), variance) < ERROR_RATE
