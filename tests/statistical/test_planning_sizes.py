"""At the n that is planned the error meets the target; at 0.95·n it does not. Exact laws where they are finite, runs elsewhere."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpcore import inference
from dpcore.frames import PrivateTable
from dpcore.inference import AdaptiveQueries, sample_size_needed
from dpcore.local import (
    Aggregate,
    BinaryChannel,
    BinaryResponse,
    BoundedMean,
    HadamardResponse,
    KaryResponse,
    LocalDiscreteLaplace,
    LocalGaussian,
    LocalHashing,
    LocalLaplace,
    SubsetSelection,
    UnaryEncoding,
    VectorMean,
)
from dpcore.minimax import LinearEstimator, Model, exact_risk, truncated_moment
from dpcore.planning import AdaptiveAnswers, Aim, BinarySearch, Mean, Recipe, UniformityTest, epsilon_for, sample_size
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))


def root_mean_square(n: int, share: float, slope: float, offset: float, truth: float) -> float:
    """√E(slope·C/n + offset − truth)² for C ~ Bin(n, share), summed over its law."""
    counts = np.arange(n + 1)
    return math.sqrt(float(stats.binom.pmf(counts, n, share) @ (slope * counts / n + offset - truth) ** 2))


# Local mechanisms: the law of a count, from the channel matrix


def worst_of_two(mechanism, n: int, frequencies: np.ndarray) -> float:
    """The largest error of the first category over distributions on two categories, from the matrix of the channel and an estimate."""
    matrix = mechanism.channel()
    estimate = [mechanism.estimate(Aggregate(mechanism, n, counts)).value for counts in ends(mechanism, n)]
    low, high = (float(np.atleast_1d(value)[0]) for value in estimate)
    supports = supported(mechanism)
    return max(
        root_mean_square(n, float((f * matrix[0] + (1 - f) * matrix[1]) @ supports), high - low, low, f) for f in frequencies.tolist()
    )


def ends(mechanism, n: int) -> list[np.ndarray]:
    size = 1 if isinstance(mechanism, BinaryResponse) else mechanism.k
    return [np.zeros(size, np.int64), np.full(size, n, np.int64)]


def supported(mechanism) -> np.ndarray:
    """Which columns of the channel count for the first category."""
    if isinstance(mechanism, BinaryResponse):
        return np.array([1.0, 0.0]) if mechanism.channel()[0, 0] > 0.5 else np.array([0.0, 1.0])
    outputs = mechanism.channel().shape[1]
    return np.arange(outputs) == 0 if outputs == mechanism.k else np.arange(outputs) % 2 == 1


@pytest.mark.some(4)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("make", [lambda e: KaryResponse(e, k=2), lambda e: KaryResponse(e, k=7), lambda e: UnaryEncoding(e, k=6)])
def test_frequencies_meet_the_target_at_n_and_miss_it_below(make, epsilon):
    mechanism = make(epsilon)
    frequencies = np.linspace(0, 1, 41)
    plan = sample_size(mechanism, rmse=0.1)
    assert worst_of_two(mechanism, plan.n, frequencies) <= 0.1 * (1 + 1e-9)
    assert plan.exact
    assert worst_of_two(mechanism, math.floor(0.95 * plan.n), frequencies) > 0.1
    found = epsilon_for(mechanism, n=plan.n, rmse=0.1)
    assert 0.97 * epsilon <= found.epsilon <= epsilon


@pytest.mark.parametrize("at", [0.0, 0.02, 0.5, 1.0])
def test_a_frequency_that_is_assumed_has_its_own_size(at):
    mechanism = BinaryResponse(1.0)
    flip = 1 / (1 + math.e)
    share, slope = flip + at * (1 - 2 * flip), 1 / (1 - 2 * flip)
    plan = sample_size(mechanism, rmse=0.03, at=at)
    assert root_mean_square(plan.n, share, slope, -flip * slope, at) <= 0.03 * (1 + 1e-9)
    assert root_mean_square(math.floor(0.95 * plan.n), share, slope, -flip * slope, at) > 0.03


@pytest.mark.parametrize("mean", [None, 0.0, 3.0, -5.0])
def test_one_bit_means_meet_the_target_at_n_and_miss_it_below(mean):
    reach = 5.0 * (math.e + 1) / (math.e - 1)
    worst = 0.0 if mean is None else mean
    for mechanism in (BoundedMean(1.0, -5.0, 5.0), BinaryChannel(1.0, [-5.0, 1.0, 5.0])):
        plan = sample_size(mechanism, rmse=0.4, at=mean)
        share = (1 + worst / reach) / 2
        assert root_mean_square(plan.n, share, 2 * reach, -reach, worst) <= 0.4 * (1 + 1e-9)
        assert root_mean_square(math.floor(0.95 * plan.n), share, 2 * reach, -reach, worst) > 0.4


REPLICATES = 10_000


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("mechanism", "records"),
    [
        (LocalLaplace(1.0, 0.0, 1.0), [0.0, 1.0]),
        (LocalGaussian(1.0, 1e-6, 0.0, 1.0), [0.0, 1.0]),
        (LocalDiscreteLaplace(0.7, 0, 3), [0, 3]),
        (HadamardResponse(1.0, k=5), [0, 1]),
        (LocalHashing(1.0, k=5), [0, 1]),
        (SubsetSelection(1.0, k=5), [0, 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reports_that_are_drawn_meet_the_target_at_n_and_miss_it_below(mechanism, records):
    """Records at the two ends, half of each or at the worst frequency: the variance of a report's contribution is measured."""
    oracle = hasattr(mechanism, "k")
    curve = mechanism.error_curve(Aim("rmse", 1.0))
    unit = curve.error(1, mechanism.epsilon)
    share = _worst_share(mechanism) if oracle else 0.5
    rng = np.random.default_rng(5)
    drawn = np.where(rng.random(REPLICATES) < share, records[0], records[1])
    reports = mechanism.privatize(drawn, rng=KeyedRandom(KEY))
    single = np.array([_contribution(mechanism, report) for report in _blocks(reports, REPLICATES)])
    # mean of blocks of one report: its variance is that of a user, over records that are drawn anew
    squares = (single - (share if oracle else (records[0] + records[1]) / 2)) ** 2
    variance, spread = float(squares.mean()), float(squares.std()) / math.sqrt(REPLICATES)
    plan = sample_size(mechanism, rmse=unit / 20)
    assert plan.n in (400, 401)
    assert variance / plan.n <= (unit / 20) ** 2 + 5 * spread / plan.n
    assert spread / variance < 0.04
    assert (variance + 5 * spread) / math.floor(0.95 * plan.n) > (unit / 20) ** 2
    assert abs(variance - unit**2) < 5 * spread + 1e-9 * variance


def _worst_share(mechanism) -> float:
    p, q, miss = mechanism.support
    rise = (p * miss - q * (1 - q)) / (p - q) ** 2
    return min(max((1 + rise) / 2, 0.0), 1.0)


def _blocks(reports, size):
    return (reports[i : i + 1] for i in range(size))


def _contribution(mechanism, report) -> float:
    value = mechanism.estimate(mechanism.aggregate(report), target="sample").value
    return float(np.atleast_1d(value)[0])


# Intervals


@pytest.mark.parametrize("mechanism", [BinaryResponse(1.0), BinaryResponse(4.0), KaryResponse(2.0, k=5)], ids=str)
@pytest.mark.parametrize("width", [0.5, 0.2])
def test_intervals_of_all_counts_are_as_narrow_as_planned(mechanism, width):
    plan = sample_size(mechanism, width=width)
    assert widest_of_all(mechanism, plan.n) <= width
    assert widest_of_all(mechanism, math.floor(0.95 * plan.n)) > width


def widest_of_all(mechanism, n: int, confidence: float = 0.95) -> float:
    """The widest interval over all counts, one after the other."""
    if isinstance(mechanism, BinaryResponse | BoundedMean | BinaryChannel):
        ends = np.array([mechanism.estimate(Aggregate(mechanism, n, np.array([c]))).interval(confidence) for c in range(n + 1)])
        return float((ends[:, 1] - ends[:, 0]).max())
    counts = np.arange(n + 1)
    widths = []
    for start in range(0, n + 1, mechanism.k):
        part = np.resize(counts[start : start + mechanism.k], mechanism.k)
        ends = mechanism.estimate(Aggregate(mechanism, n, part)).interval(confidence)
        widths.append(float((ends[:, 1] - ends[:, 0]).max()))
    return max(widths)


# Linear estimators


def test_a_linear_estimator_meets_the_target_at_n_for_the_worst_distribution():
    """At the distribution of the largest bias and at n, the exact error is below the target and near it; at 0.95·n the bound is above."""
    make = lambda n, epsilon: truncated_moment(epsilon, n=n, kappa=2.0, C=1.0)  # noqa: E731
    plan = sample_size(Recipe(make), epsilon=1.0, rmse=0.2)
    found = make(plan.n, 1.0)
    level, z0 = found.bound, found.channel.z0
    worst = 0.0
    for y in np.linspace(1.0, 4 * level, 100):  # mass 1/y² at y, the rest at 0
        mass = 1 / y**2
        clipped, truth = mass * min(y, level), mass * y
        worst = max(worst, root_mean_square(plan.n, (1 + clipped / z0) / 2, 2 * z0, -z0, truth))
    assert 0.97 * 0.2 < worst <= 0.2
    less = make(math.floor(0.95 * plan.n), 1.0)
    assert math.sqrt(less.risk_bound(n=math.floor(0.95 * plan.n))) > 0.2
    fixed = sample_size(found, rmse=0.25)
    assert found.risk_bound(n=fixed.n) <= 0.25**2 < found.risk_bound(n=fixed.n - 1)
    model = Model.moment(np.linspace(-6.0, 6.0, 25), kappa=2.0, C=1.0)
    assert sample_size(found, rmse=0.25, model=model).n <= sample_size(found.on(model, n=5), rmse=0.25).n <= fixed.n


def test_intervals_of_a_linear_estimator_are_as_narrow_as_planned():
    found = truncated_moment(1.0, n=3000, kappa=2.0, C=1.0)
    plan = sample_size(found, width=3.0, confidence=0.9)
    ends = np.array([found.estimate(Aggregate(found.channel, plan.n, np.array([c]))).interval(0.9) for c in range(plan.n + 1)])
    assert (ends[:, 1] - ends[:, 0]).max() <= 3.0
    assert found.error_curve(Aim("width", 3.0, 0.9)).error(math.floor(0.95 * plan.n), 1.0) > 3.0
    certain = LinearEstimator([-1.0, 1.0], 1.0, bias=0.0)
    exact = sample_size(certain, width=0.7)
    for n, wide in ((exact.n, False), (math.floor(0.95 * exact.n), True)):
        ends = np.array([certain.estimate(Aggregate(certain.channel, n, np.array([c]))).interval() for c in range(n + 1)])
        assert ((ends[:, 1] - ends[:, 0]).max() > 0.7) == wide


# Models


@pytest.mark.long
def test_a_binary_search_meets_the_target_at_n_for_every_distribution_that_is_tried():
    model = Model.moment(np.linspace(-4.0, 4.0, 9), kappa=2.0, C=1.0)
    design = BinarySearch(model)
    plan = sample_size(design, epsilon=1.0, rmse=0.3)
    estimator = design.estimator(plan.n, 1.0)
    assert math.sqrt(estimator.risk_bound("squared")) <= 0.3 < plan.error_at_less
    rng = np.random.default_rng(3)
    for _ in range(200):
        p = rng.dirichlet(np.full(9, 0.3))
        p = p if p @ model.f**2 <= 1 else (p + (p @ model.f**2 - 1) * np.eye(9)[4]) / (p @ model.f**2)
        if p @ model.f**2 <= 1:
            assert exact_risk(estimator, p) <= 0.09
    below = design.estimator(math.floor(0.95 * plan.n), 1.0)
    assert math.sqrt(below.risk_bound("squared")) > 0.3 or plan.n < 40
    width = sample_size(design, epsilon=1.0, width=1.5)
    assert 2 * design.estimator(width.n, 1.0).margin(0.95) <= 1.5


# Means


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("d", [1, 4])
def test_a_mean_meets_the_targets_at_n_and_misses_them_below(delta, d):
    """The scale of the noise and the ends of the interval are those of real releases of n records."""
    design = Mean(radius=3.0, delta=delta, d=d)
    plans = {"rmse": sample_size(design, epsilon=0.8, rmse=0.1), "width": sample_size(design, epsilon=0.8, width=0.4)}

    def release(n):
        return inference.mean(np.ones((n, d)), 0.8, delta, 3.0, rng=KeyedRandom(KEY))

    assert release(plans["rmse"].n).stderr <= 0.1 < release(math.floor(0.95 * plans["rmse"].n)).stderr
    for n, wide in ((plans["width"].n, False), (math.floor(0.95 * plans["width"].n), True)):
        ends = release(n).interval(0.95)
        assert ((ends[:, 1] - ends[:, 0]).max() > 0.4) == wide


def test_a_mean_about_the_population_adds_sampling():
    design = Mean(radius="sqrt_log_n", sigma=0.5, delta=1e-6, about="population")
    plan = sample_size(design, epsilon=0.3, rmse=0.05)
    for n, over in ((plan.n, False), (math.floor(0.95 * plan.n), True)):
        found = inference.mean(np.zeros(n), 0.3, 1e-6, "sqrt_log_n", sigma=0.5, rng=KeyedRandom(KEY))
        assert (found.population_stderr > 0.05) == over
    for delta in (0.0, 1e-6):
        wide = sample_size(Mean(radius=2.0, delta=delta, about="population"), epsilon=0.5, width=0.5)
        for n, over in ((wide.n, False), (math.floor(0.95 * wide.n), True)):
            low, high = inference.mean(np.zeros(n), 0.5, delta, 2.0, rng=KeyedRandom(KEY)).interval(target="population")
            assert (high - low > 0.5) == over


# Tests of distributions


def test_power_of_two_thirds_is_the_size_that_the_test_names():
    for alpha, epsilon in ((0.5, 1.0), (1.0, 2.0), (2.0, 0.3)):
        for level in (None, 0.05):
            plan = sample_size(UniformityTest(alpha, d=60, delta=1e-6, level=level), epsilon=epsilon, power=2 / 3)
            assert abs(plan.n - sample_size_needed(epsilon, 1e-6, d=60, alpha=alpha, level=level)) <= 1
    identity = UniformityTest.of_identity(1.0, d=5, delta=1e-6)
    assert identity.alpha == inference.sign_separation(1.0)


@pytest.mark.long
def test_a_planned_test_has_its_power_and_size():
    """300 runs each at a mean of the separation; a miss or a false alarm is at most as frequent as planned, at an error rate of 10^-6."""
    d, alpha, level = 20, 1.5, 0.05
    plan = sample_size(UniformityTest(alpha, d=d, delta=1e-3, level=level), epsilon=2.0, power=0.9)
    rng = np.random.default_rng(8)
    stream = KeyedRandom(KEY)
    nu = np.full(d, alpha / math.sqrt(d))
    alarms = misses = 0
    for _ in range(300):
        uniform = rng.random((plan.n, d)) < 0.5
        shifted = rng.random((plan.n, d)) < (1 + nu) / 2
        alarms += inference.uniformity_test(uniform, 2.0, 1e-3, alpha=alpha, level=level, rng=stream).reject
        misses += not inference.uniformity_test(shifted, 2.0, 1e-3, alpha=alpha, level=level, rng=stream).reject
    assert stats.binom.sf(alarms - 1, 300, level) > 1e-6
    assert stats.binom.sf(misses - 1, 300, 0.1) > 1e-6


# Adaptive queries


def test_answers_about_the_records_meet_the_targets():
    design = AdaptiveAnswers(50, delta=1e-6, about="records")
    plan = sample_size(design, epsilon=0.5, width=0.2)
    for n, over in ((plan.n, False), (math.floor(0.95 * plan.n), True)):
        assert (2 * AdaptiveQueries(np.zeros(n), 0.5, 1e-6, uses=50).empirical_accuracy(0.05) > 0.2) == over
    exact = sample_size(design, epsilon=0.5, rmse=0.02)
    for n, over in ((exact.n, False), (math.floor(0.95 * exact.n), True)):
        assert (AdaptiveQueries(np.zeros(n), 0.5, 1e-6, uses=50).stderr > 0.02) == over


def test_answers_about_the_population_meet_the_targets_and_follow_the_root_of_k():
    sizes = {}
    for uses in (100, 10_000, 1_000_000):
        plan = sample_size(AdaptiveAnswers(uses), width=0.2)
        sizes[uses] = plan.n
        delta = plan.details["δ"]
        scale = math.sqrt(8 * uses * math.log(1 / delta)) / (plan.epsilon * plan.n)
        accuracy = scale * (1 + math.log(2 * uses / (scale * 0.05))) + math.tanh(plan.epsilon / 4) + 2 * delta / 0.05
        assert accuracy <= 0.1
        assert plan.error == pytest.approx(2 * accuracy, rel=1e-6)
        assert plan.details["n·α²/√k"] == pytest.approx(plan.n * 0.01 / math.sqrt(uses), rel=1e-3)
        assert plan.details["n with separate records"] == uses * math.ceil(math.log(2 * uses / 0.05) / 0.02)
    assert 10 < sizes[10_000] / sizes[100] < 15
    assert 10 < sizes[1_000_000] / sizes[10_000] < 15
    assert sizes[100] > 41_500
    assert sizes[1_000_000] < 876_000_000 / 30


def test_an_analyst_who_overfits_stays_within_the_planned_accuracy():
    """200 queries on fair signs: those that lean to one side in the sample are put together, as in the lecture."""
    uses = 200
    plan = sample_size(AdaptiveAnswers(uses), width=0.3)
    rng = np.random.default_rng(2)
    signs = rng.random((plan.n, 12)) < 0.5
    queries = AdaptiveQueries(signs, plan.epsilon, plan.details["δ"], uses=uses, rng=KeyedRandom(KEY))
    leaning = np.array([queries.answer(lambda x, j=j: x[:, j]) > 0.5 for j in range(12)])
    worst = 0.0
    for _ in range(uses - 12):
        chosen = rng.random(12) < 0.7
        answer = queries.answer(lambda x, c=chosen: (x[:, c] == leaning[c]).mean(axis=1) if c.any() else np.full(len(x), 0.5))
        worst = max(worst, abs(answer - 0.5))
    assert worst <= 0.15


# Releases


def test_a_release_is_as_exact_as_planned():
    rng = np.random.default_rng(1)
    schema = PrivateTable(pd.DataFrame({"cost": [1.0]}))
    plan = schema.sample_size("mean", "cost", half_width=8.0, lower=0, upper=500, epsilon=0.5)
    for n, over in ((plan.n, False), (math.floor(0.95 * plan.n), True)):
        table = PrivateTable(pd.DataFrame({"cost": rng.uniform(0, 500, n)}), max_epsilon=1.0)
        low, high = np.ravel(table.mean("cost", lower=0, upper=500, epsilon=0.5).interval)[:2]
        assert (high - low > 16.0) == over
    assert Fraction(plan.error) <= 16 < Fraction(plan.error_at_less)


# Vectors


@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_vectors_meet_the_target_at_n_and_miss_it_below(method):
    """Exact laws: the number of reports about a coordinate, and of its sign +, for means in the middle and at a bound."""
    mechanism = VectorMean(1.5, -1.0, 1.0, d=3, method=method)
    plan = sample_size(mechanism, rmse=0.1)

    def risk(n, mean):
        if method == "hypercube":
            plus = (np.arange(8) >> 0) & 1
            corners = mechanism.channel()
            share = float((1 + mean) / 2 * (corners[7] @ plus) + (1 - mean) / 2 * (corners[0] @ plus))
            return root_mean_square(n, share, 2 * mechanism.z0, -mechanism.z0, mean)
        sizes = np.arange(1, n + 1)
        share = (1 + mean / mechanism.z0) / 2
        within = (2 * mechanism.z0) ** 2 * share * (1 - share) / sizes
        masses = stats.binom.pmf(np.arange(n + 1), n, 1 / 3)
        return math.sqrt(float(masses[1:] @ within) + masses[0] * mean**2)

    assert max(risk(plan.n, mean) for mean in (0.0, 0.5, 1.0)) <= 0.1 * (1 + 1e-9)
    assert max(risk(math.floor(0.95 * plan.n), mean) for mean in (0.0, 0.5, 1.0)) > 0.1
    if method == "hypercube":
        wide = sample_size(mechanism, width=1.0)
        ends = mechanism.estimate(Aggregate(mechanism, wide.n, np.full(3, wide.n // 2))).interval()
        assert 0.97 < (ends[:, 1] - ends[:, 0]).max() <= 1.0
    else:
        tiny = sample_size(VectorMean(1.5, -1.0, 1.0, d=3), rmse=5.0)
        assert risk(tiny.n, 1.0) <= 5.0
