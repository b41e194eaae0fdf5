"""Estimators that choose a range or a bandwidth, and several functionals under one ε: exact laws of small cases, and bad input."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local import Aggregate
from dpcore.minimax import (
    AdaptiveDensity,
    LinearEstimator,
    SeveralFunctionals,
    TwoStageMean,
    event_probability,
    truncated_moment,
)
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))


# A range from a part of the reports


def laws(theta, C):
    """Distributions with mean θ and variance at most C: points and masses."""
    for p in (0.5, 0.9, 0.99, 0.03):
        spread = math.sqrt(C / (p * (1 - p)))
        yield np.array([theta + (1 - p) * spread, theta - p * spread]), np.array([p, 1 - p])
    yield np.array([theta]), np.array([1.0])


def exact_paths(mean: TwoStageMean, points, masses):
    """All ways through the first stage, with their probabilities and the middle that remains."""
    flip = 1 / (1 + math.exp(mean.epsilon))
    paths = [(1.0, mean.lower, mean.upper, ())]
    for _ in range(mean.tests):
        longer = []
        for probability, low, high, taken in paths:
            middle = low + (high - low) / 2
            share = flip + (1 - 2 * flip) * float(masses @ (points > middle))
            above = float(stats.binom.sf(mean.group // 2, mean.group, share))
            longer += [(probability * above, middle, high, (*taken, True)), (probability * (1 - above), low, middle, (*taken, False))]
        paths = longer
    return [(probability, low + (high - low) / 2, taken) for probability, low, high, taken in paths]


def exact_law(mean: TwoStageMean, points, masses):
    """The probability of every path and count of the second stage, with the estimate, computed here."""
    left = mean.n - mean.tests * mean.group
    z0 = mean.level * (math.exp(mean.epsilon) + 1) / (math.exp(mean.epsilon) - 1)
    counts = np.arange(left + 1)
    for probability, middle, taken in exact_paths(mean, points, masses):
        clipped = float(masses @ np.clip(points - middle, -mean.level, mean.level))
        values = np.clip(middle + z0 * (2 * counts / left - 1), mean.lower, mean.upper)
        yield probability * stats.binom.pmf(counts, left, (1 + clipped / z0) / 2), values, middle, taken


def small(**keys):
    return TwoStageMean(**{"epsilon": 2.0, "n": 300, "lower": -20.0, "upper": 20.0, "kappa": 2.0, "C": 1.0, **keys})


@pytest.mark.parametrize(
    "mean", [small(), small(tests=3, group=31), small(tests=1, group=3), small(tests=0), small(kappa=4.0, C=16.0, n=150)]
)
def test_the_exact_risk_and_the_exact_failure_are_below_their_bounds(mean):
    variance = mean.C ** (2 / mean.kappa)
    nearest = 0.0
    for theta in (-20.0, -7.3, 0.0, 0.01, 2.5, 4.99, 20.0):
        for points, masses in laws(theta, variance):
            if float(masses @ np.abs(points - theta) ** mean.kappa) > mean.C * (1 + 1e-9):
                continue
            risk = sum(float(p @ (v - theta) ** 2) for p, v, _, _ in exact_law(mean, points, masses))
            assert risk <= mean.risk_bound()
            nearest = max(nearest, risk / mean.risk_bound())
            far = sum(p for p, middle, _ in exact_paths(mean, points, masses) if abs(theta - middle) > mean.radius)
            assert far <= mean.failure + 1e-15
    assert nearest > 0.05  # no bound of another order
    if mean.tests:  # the union of T majorities, by the tail at the margin: no distribution needs all of it
        margin, flip = mean.radius - (mean.upper - mean.lower) / 2 ** (mean.tests + 1), 1 / (1 + math.exp(mean.epsilon))
        tail = min(mean.C / margin**mean.kappa, variance / (variance + margin**2))
        wrong = stats.binom.cdf(mean.group // 2, mean.group, flip + (1 - tail) * (1 - 2 * flip))
        assert mean.failure == pytest.approx(min(mean.tests * wrong, 1.0), rel=1e-6)


def test_a_radius_without_the_margin_would_fail():
    """The broken twin: the width of the range that remains, without the distance at which a majority may err."""
    mean = small(tests=4, group=31)
    bare = (mean.upper - mean.lower) / 2 ** (mean.tests + 1)
    far = max(
        sum(p for p, middle, _ in exact_paths(mean, points, masses) if abs(theta - middle) > bare)
        for theta in (0.01, 2.6, 4.99)
        for points, masses in laws(theta, 1.0)
    )
    assert far > 0.3 > mean.failure
    assert mean.radius > bare


def test_intervals_cover_exactly():
    mean = small(tests=1, group=9, n=40)
    for theta in (0.02, 3.0, -19.5):
        for points, masses in itertools.islice(laws(theta, 1.0), 2):
            covered = 0.0
            for probabilities, values, _, taken in exact_law(mean, points, masses):
                first = np.concatenate([np.zeros(0, np.bool_), *[np.full(mean.group, bit) for bit in taken]])
                for count, probability in enumerate(probabilities.tolist()):
                    if probability > 1e-6:
                        found = mean.estimate(np.concatenate([first, np.arange(len(values) - 1) < count]))
                        assert found.value == pytest.approx(values[count], abs=1e-9)
                        low, high = found.interval(0.9)
                        covered += probability * (low <= theta <= high)
            assert covered >= 0.9 - 1e-6 * len(values) * 4


def test_reports_alone_give_the_estimate_and_the_questions():
    mean = small(n=5000, lower=-1000.0, upper=1000.0)
    rng = np.random.default_rng(4)
    records = rng.normal(321.0, 1.0, 5000)
    found = mean.privatize(records, rng=KeyedRandom(KEY))
    again = mean.estimate(found.reports)
    assert again.value == found.value
    assert again.range == found.range
    assert found.range[0] < 321 < found.range[1]
    assert mean.question(np.zeros(0, np.bool_)) == 0.0 == mean.question(np.zeros(mean.group - 1, np.bool_))
    assert mean.question(np.ones(mean.group, np.bool_)) == 500.0
    assert mean.question(np.zeros(mean.group, np.bool_)) == -500.0
    second = mean.question(found.reports[: mean.tests * mean.group])
    assert isinstance(second, LinearEstimator)
    assert second.bound == mean.level
    assert second.epsilon == mean.epsilon
    assert "range found" in found._repr_html_()
    assert found.privacy.epsilon == 2.0
    assert found.n == 5000


def test_two_stages_cost_little_more_than_a_range_that_is_known():
    known = truncated_moment(1.0, n=10**6, kappa=2.0, C=1.0).risk_bound(n=10**6)
    for width in (10.0, 1e3, 1e6):
        mean = TwoStageMean(1.0, n=10**6, lower=-width, upper=width, kappa=2.0, C=1.0)
        assert known <= mean.risk_bound() <= 1.25 * known
        assert mean.risk_bound() <= mean.one_stage_risk
    few = TwoStageMean(0.01, n=100, lower=-1e3, upper=1e3, kappa=2.0, C=1.0)
    assert few.tests == 0
    assert few.risk_bound() == few.one_stage_risk
    assert few.failure == 0.0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"lower": 1.0, "upper": 1.0}, "lower must be less"),
        ({"lower": -math.inf}, "lower"),
        ({"upper": 1e200}, "upper"),
        ({"kappa": 1.0}, "kappa"),
        ({"C": 0.0}, "C must"),
        ({"C": math.nan}, "C must"),
        ({"n": 0}, "n must"),
        ({"n": 2**41}, "n must"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"tests": 2}, "group"),
        ({"tests": 2, "group": 4}, "group must be odd"),
        ({"tests": 61, "group": 1}, "tests must"),
        ({"tests": 10, "group": 31}, "must be below n"),
        ({"group": 3}, "tests must"),
    ],
)
def test_two_stages_check_their_parameters(keys, message):
    with pytest.raises((ParameterError, ParameterTypeError), match=message):
        small(**keys)


def test_two_stages_check_records_and_reports():
    mean = small()
    with pytest.raises(ParameterError, match="records must be a vector of n = 300"):
        mean.privatize(np.zeros(299))
    with pytest.raises(DataError, match="index 7") as error:
        mean.privatize(np.where(np.arange(300) == 7, np.nan, 123.456))
    assert "123" not in str(error.value)
    with pytest.raises(ParameterError, match="reports"):
        mean.estimate(np.zeros(299, np.bool_))
    with pytest.raises((ParameterError, ParameterTypeError), match="reports"):
        mean.estimate(np.zeros(300))
    with pytest.raises(ParameterError, match="reports"):
        mean.question(np.zeros(301, np.bool_))
    with pytest.raises(ParameterError, match="confidence"):
        small(tests=4, group=3).estimate(np.zeros(300, np.bool_)).interval(0.999)


@pytest.mark.parametrize("n", [1, 2, 10**12])
@pytest.mark.parametrize("epsilon", [2.0**-20, 1e-3, 700.0])
def test_two_stages_at_the_ends_of_the_ranges(n, epsilon):
    mean = TwoStageMean(epsilon, n=n, lower=-1e9, upper=1e9, kappa=1.5, C=1e-6)
    assert 0 < mean.risk_bound() <= mean.one_stage_risk
    assert math.isfinite(mean.risk_bound())


# A bandwidth from the reports


def density(**keys):
    return AdaptiveDensity(**{"x0": 0.0, "epsilon": 2.0, "n": 90, "bandwidths": [1.0, 0.5, 0.25], "beta": 0.3, **keys})


def middle_of(candidates, deviations):
    """The middle of the last intersection from the smallest bandwidth on, written once more."""
    low, high = -math.inf, math.inf
    for value, e in zip(candidates[::-1], deviations[::-1], strict=True):
        if max(low, value - 2 * e) > min(high, value + 2 * e):
            break
        low, high = max(low, value - 2 * e), min(high, value + 2 * e)
    return (low + high) / 2


def test_the_bounds_hold_for_all_candidates_within_their_deviations():
    """The deterministic half of the proof, at corners; half the factor is this test's broken twin."""
    adaptive = density(bandwidths=[1.6, 0.8, 0.4, 0.2])
    e = np.array(adaptive.deviations)
    rng, worst, nearest = np.random.default_rng(6), 0.0, 0.0
    for _ in range(2_500):
        biases = (
            np.maximum.accumulate(e[-1] * 10 ** rng.uniform(-3, 1, 4))[::-1] if rng.random() < 0.5 else e * rng.choice([0.0, 1.0, 1.001], 4)
        )
        rising = np.maximum.accumulate(biases[::-1])[::-1]
        signs, off = rng.choice([-1.0, 1.0], 4), rng.choice([-1.0, 1.0], 4)
        error = abs(middle_of(signs * biases + off * e, e))
        assert error <= adaptive.bound_for(biases)
        oracle = float((rising + e).min())
        assert error <= adaptive.oracle_factor * oracle
        worst, nearest = max(worst, error / oracle), max(nearest, error / adaptive.bound_for(biases))
    assert worst > 2.0
    assert nearest > 0.6


def test_deviations_are_exceeded_as_rarely_as_they_say():
    """Exact binomial laws; deviations at half their length are exceeded more often."""
    groups = density(n=5)  # of 1, 2 and 2 reports: all deviations are those of the smallest
    assert groups.deviations == pytest.approx([each.channel.z0 * math.sqrt(2 * math.log(6 / 0.3)) for each in groups.estimators])
    adaptive = density()
    size, z0, e = adaptive.sizes[0], adaptive.estimators[0].channel.z0, adaptive.deviations[0]
    counts = np.arange(size + 1)
    worst = half = 0.0
    for share in np.linspace(0.01, 0.99, 99):
        off = np.abs(z0 * (2 * counts / size - 1) - z0 * (2 * share - 1))
        law = stats.binom.pmf(counts, size, share)
        worst, half = max(worst, float(law @ (off > e))), max(half, float(law @ (off > e / 2)))
    assert worst <= adaptive.beta / 3 < half


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_the_exact_probability_of_a_large_error_is_at_most_beta(scale):
    """A Laplace density at its peak, whose bias no smooth class covers: all counts of all groups."""
    adaptive = density()
    truth = 1 / (2 * scale)
    shares, biases = [], []
    for each in adaptive.estimators:
        mean = integrate.quad(lambda x, each=each: each.ell(x) * stats.laplace.pdf(x, scale=scale), -8, 8, points=[0, -each.h, each.h])[0]
        shares.append((1 + mean / each.channel.z0) / 2)
        biases.append(abs(each.center + mean - truth))
    grids = [each.center + each.channel.z0 * (2 * np.arange(31) / 30 - 1) for each in adaptive.estimators]
    laws_ = [stats.binom.pmf(np.arange(31), 30, share) for share in shares]
    far, bound = 0.0, adaptive.bound_for(biases)
    for a, b, c in itertools.product(range(31), repeat=3):
        probability = laws_[0][a] * laws_[1][b] * laws_[2][c]
        if probability > 1e-7:
            far += probability * (abs(middle_of([grids[0][a], grids[1][b], grids[2][c]], adaptive.deviations) - truth) > bound)
    assert far + 31**3 * 1e-7 <= adaptive.beta
    found = adaptive.estimate(
        [Aggregate(each.channel, 30, np.array([k])) for each, k in zip(adaptive.estimators, (9, 12, 17), strict=True)]
    )
    assert found.value == pytest.approx(middle_of([grids[0][9], grids[1][12], grids[2][17]], adaptive.deviations))
    assert found.candidates == pytest.approx((grids[0][9], grids[1][12], grids[2][17]))


def test_smooth_densities_get_wide_bandwidths_and_peaks_narrow_ones():
    n = 600_000
    adaptive = density(n=n, bandwidths=[2.0**-j for j in range(6)], epsilon=4.0)
    rng = np.random.default_rng(9)
    wide = adaptive.estimate(adaptive.privatize(rng.uniform(-3, 3, n), rng=KeyedRandom(KEY)))
    narrow = adaptive.estimate(adaptive.privatize(rng.laplace(0, 0.1, n), rng=KeyedRandom(KEY)))
    assert wide.bandwidth == 1.0 > narrow.bandwidth
    assert abs(wide.value - 1 / 6) < 0.02
    assert abs(narrow.value - 5) < 1.0
    assert adaptive.error_bound(smoothness=2.0, C=0.1) < adaptive.error_bound(smoothness=0.5, C=1.0)
    assert "yes" in wide._repr_html_()
    assert wide.privacy.epsilon == 4.0


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"bandwidths": []}, "bandwidths must be between"),
        ({"bandwidths": [1.0, 1.0]}, "distinct"),
        ({"bandwidths": [1.0, 0.0]}, "bandwidths"),
        ({"bandwidths": [1.0, math.nan]}, "bandwidths"),
        ({"bandwidths": np.geomspace(1, 2, 65)}, "bandwidths must be between"),
        ({"bandwidths": "1"}, "bandwidths"),
        ({"n": 2}, "n must"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"smoothest": 0.0}, "smoothest"),
        ({"smoothest": 17.0}, "smoothest"),
        ({"m": 2}, "m must"),
        ({"x0": math.inf}, "x0"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_adaptive_densities_check_their_parameters(keys, message):
    with pytest.raises((ParameterError, ParameterTypeError), match=message):
        density(**keys)


def test_adaptive_densities_check_records_reports_and_biases():
    adaptive = density()
    with pytest.raises(ParameterError, match="records"):
        adaptive.privatize(np.zeros(89))
    with pytest.raises(DataError, match="index 0"):
        adaptive.privatize(np.full(90, np.nan))
    with pytest.raises(ParameterError, match="reports"):
        adaptive.estimate(np.zeros(89, np.bool_))
    with pytest.raises(ParameterError, match="counts of"):
        adaptive.estimate([Aggregate(each.channel, 29, np.array([3])) for each in adaptive.estimators])
    for biases in ([0.1], [0.1, -0.1, 0.1], [0.1, math.nan, 0.1]):
        with pytest.raises(ParameterError, match="biases"):
            adaptive.bound_for(biases)
    with pytest.raises(ParameterError, match="smoothness"):
        adaptive.error_bound(smoothness=2.5, C=1.0)


# Several functionals under one ε


def several(epsilon=1.0, n=60, **keys):
    tables = [[-1.0, 0.0, 1.0], [1.0, -0.5, 1.0], [0.0, 1.0, 0.0]]
    return SeveralFunctionals([LinearEstimator(table, 9.0, bound=1.0, bias=0.0) for table in tables], epsilon, n=n, **keys)


def joint_loss(parts) -> float:
    """The largest log-ratio of the joint probabilities of all reports of one record, over pairs of records."""
    rows = [part.channel.channel() for part in parts]
    joint = np.array(
        [[math.prod(row[x][bit] for row, bit in zip(rows, bits, strict=True)) for bits in np.ndindex(*[2] * len(rows))] for x in range(3)]
    )
    return float(np.log(joint[:, None] / joint[None]).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0], [1e-3, 1.0, 1.0]])
def test_all_that_a_record_reports_is_epsilon_private(epsilon, weights):
    """By the joint law of its reports. ε for each of them, as if they were about different records, is the broken twin."""
    parts = several(epsilon, split="epsilon", weights=weights).parts
    assert sum(Fraction(part.epsilon) for part in parts) <= Fraction(epsilon)
    assert joint_loss(parts) <= epsilon + 1e-12
    alone = several(epsilon, split="records", weights=weights).parts
    assert all(joint_loss([part]) <= epsilon + 1e-12 for part in alone)
    assert joint_loss(alone) > 1.5 * epsilon


def test_the_report_about_all_functionals_is_epsilon_private_too():
    """The rows of the mechanism at all values that three functionals can have together."""
    for epsilon in (0.5, 4.0):
        design = several(epsilon, split="vector")
        values = np.stack([np.array(part.ell) for part in design.parts], axis=-1)
        assert float(np.log(design.vector.channel(values)[:, None] / design.vector.channel(values)[None]).max()) <= epsilon + 1e-12


@pytest.mark.parametrize(("epsilon", "better"), [(0.1, "records"), (1.0, "records"), (4.0, "vector"), (12.0, "vector")])
def test_the_split_with_the_smallest_variance_comes_first(epsilon, better):
    chosen = several(epsilon)
    assert chosen.split == better
    sums = {split: several(epsilon, split=split).risk_bound().sum() for split in ("records", "epsilon", "vector")}
    assert sums[better] == min(sums.values()) == pytest.approx(chosen.risk_bound().sum())
    t = math.tanh(epsilon / 2)
    assert several(epsilon, split="records").risk_bound() == pytest.approx(np.full(3, 3 / (60 * t * t)))
    assert several(epsilon, split="epsilon").risk_bound() == pytest.approx(np.full(3, 1 / (60 * math.tanh(epsilon / 6) ** 2)))
    assert several(20.0, weights=[1.0, 1.0, 2.0]).split == "epsilon"


@pytest.mark.parametrize("split", ["records", "epsilon", "vector"])
def test_exact_risks_and_joint_coverage(split):
    """Records of one law on three codes: each count is binomial, by the channels, and Bonferroni's bound needs no independence."""
    design = several(3.0, n=30, split=split)
    p = np.array([0.2, 0.5, 0.3])
    missed = 0.0
    answers = [design.estimate(counted(design, count)) for count in range(max(design.sizes) + 1)]
    ends = [found.interval(0.8, joint=True) for found in answers]
    for place, size in enumerate(design.sizes):
        truth, share, z0 = law_of_sign(design, place, p)
        law = stats.binom.pmf(np.arange(size + 1), size, share)
        values = z0 * (2 * np.arange(size + 1) / size - 1)
        assert float(law @ (values - truth) ** 2) <= design.risk_bound()[place] * (1 + 1e-12)
        assert float(law @ values) == pytest.approx(truth, abs=1e-9)
        for count, probability in enumerate(law.tolist()):
            assert answers[count].value[place] == pytest.approx(values[count], abs=1e-9)
            low, high = ends[count][place]
            missed += probability * (not low <= truth <= high)
    assert missed <= 0.2
    assert sum(design.sizes) == (30 if split == "records" else 90)


def law_of_sign(design, place, p):
    """The mean of a functional, the probability of its sign +, and what a sign stands for: from the matrix of the channel."""
    table = np.array(design.parts[place].ell)
    truth = float(p @ table)
    if design.vector is None:
        return truth, float(p @ design.parts[place].channel.channel()[:, 1]), design.parts[place].channel.z0
    values = np.stack([np.array(part.ell) for part in design.parts], axis=-1)
    plus = (np.arange(8) >> place) & 1
    return truth, float(p @ (design.vector.channel(values) @ plus)), design.vector.z0


def counted(design, count):
    """Counts of all reports, the same for all functionals."""
    if design.vector is not None:
        return [Aggregate(design.vector, design.n, np.full(3, count))]
    return [Aggregate(part.channel, n, np.array([min(count, n)])) for part, n in zip(design.parts, design.sizes, strict=True)]


def test_records_are_split_in_shares_and_estimated():
    n = 300_000
    design = several(2.0, n=n, weights=[1.0, 1.0, 2.0])
    assert design.sizes == (75_000, 75_000, 150_000)
    assert design.split == "records"
    codes = np.random.default_rng(3).choice(3, n, p=[0.2, 0.5, 0.3])
    for split in ("records", "epsilon", "vector"):
        each = several(2.0, n=n, split=split)
        found = each.estimate(each.privatize(codes, rng=KeyedRandom(KEY)))
        assert np.abs(found.value - [0.1, 0.25, 0.5]).max() < 6 * found.stderr.max()
        assert found.privacy.epsilon == 2.0
        assert "functional" in found._repr_html_()
        assert (found.interval(joint=True)[:, 0] < found.interval()[:, 0]).all()
    assert several(1.0, n=10, weights=[1e-9, 1.0, 1.0]).sizes[0] == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SeveralFunctionals([], 1.0, n=10), "estimators must be between"),
        (lambda: SeveralFunctionals(["mean"], 1.0, n=10), "sequence of LinearEstimator"),
        (lambda: SeveralFunctionals(event_probability([True, False], 1.0), 1.0, n=10), "sequence of LinearEstimator"),
        (lambda: several(0.0), "epsilon"),
        (lambda: several(n=2), "n must"),
        (lambda: several(split="people"), "split must"),
        (lambda: several(split="vector", weights=[1.0, 1.0, 1.0]), "weights must be None"),
        (lambda: several(split="vector").estimate([np.zeros((59, 1), np.uint8)]), r"reports\[0\] must be 60"),
        (lambda: several(split="vector").estimate([np.zeros((60, 1), np.uint8)] * 2), "a tuple of 1"),
        (lambda: several(weights=[1.0]), "weights must be 3"),
        (lambda: several(weights=[1.0, 0.0, 1.0]), r"weights\[1\]"),
        (lambda: several(2.0**-19, split="epsilon"), "must leave at least"),
        (lambda: several().privatize(np.zeros(59, np.int64)), "records must be n = 60"),
        (lambda: several().estimate([np.zeros(60, np.bool_)]), "reports must be a list"),
        (lambda: several().estimate([np.zeros(20, np.bool_)] * 2 + [np.zeros(21, np.bool_)]), r"reports\[2\] must be 20"),
        (lambda: several().estimate([np.zeros(20)] * 3), "reports must have one of the dtypes bool"),
    ],
)
def test_several_functionals_check_their_arguments(make, message):
    with pytest.raises((ParameterError, ParameterTypeError), match=message):
        make()


def test_vectors_refuse_codes_and_numbers_that_suit_no_functional():
    design = several(split="vector")
    with pytest.raises(DataError, match="index 5"):
        design.privatize(np.where(np.arange(60) == 5, 3, 1))
    with pytest.raises(DataError):
        moments(split="vector").privatize(np.where(np.arange(60) == 5, np.nan, 0.5))
    with pytest.raises(ParameterError, match="one number for each"):
        SeveralFunctionals([LinearEstimator(lambda x: 1.0, 1.0, bound=1.0)] * 2, 1.0, n=60, split="vector").privatize(np.zeros(60))
    found = moments(split="vector").privatize(np.full(60, 0.5), rng=KeyedRandom(KEY))
    assert len(found) == 1
    assert found[0].shape == (60, 1)
    assert found[0].dtype == np.uint8


def moments(**keys):
    return SeveralFunctionals(
        [LinearEstimator(lambda x, j=j: x**j, 1.0, bound=1.0, bias=0.1, center=2.0) for j in (1, 2)], 3.0, n=60, **keys
    )


def test_centers_and_biases_are_those_of_each_functional():
    for split in ("records", "epsilon", "vector"):
        design = moments(split=split)
        found = design.estimate(design.privatize(np.full(60, 0.5), rng=KeyedRandom(KEY)))
        plain = SeveralFunctionals([LinearEstimator(each.ell, 1.0, bound=1.0) for each in design.parts], 3.0, n=60, split=split)
        bare = plain.estimate(plain.privatize(np.full(60, 0.5), rng=KeyedRandom(KEY)))
        assert found.value == pytest.approx(bare.value + 2.0)
        widened = bare.interval() + 2.0 + 0.1 * np.array([-1.0, 1.0])
        ends = found.interval()
        assert (ends[:, 0] >= widened[:, 0] - 1e-9).all()
        assert (ends[:, 1] <= widened[:, 1] + 1e-9).all()
        assert (ends[:, 1] - ends[:, 0] > bare.interval()[:, 1] - bare.interval()[:, 0]).all()
