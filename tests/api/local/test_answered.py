"""Records without an answer: the exact privacy of the pair, laws of the reports, intervals that cover, and twins that are rejected."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from dpcore import local
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local._answered import NONE, AnsweredMean, AnsweredNumbers, AnsweredShares, _two_streams
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE, binomial_p_value, p_value

KEY = bytes(range(32))


def largest_loss(rows):
    """max ln P(y|r)/P(y|r') over all pairs of rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(rows)
        return max(float(np.nanmax(logs[i] - logs[j])) for i, j in permutations(range(len(rows)), 2))


def pairs_law(noise, bits, reach=400):
    """Rows P(number, bit) of each integer of the range and, in the last row, of no answer; the numbers go `reach` beyond the bounds."""
    numbers = np.arange(noise.lower - reach, noise.upper + reach + 1)

    def law(at):
        if noise.kind == "discrete_laplace":
            r = math.exp(-1 / noise.scale)
            return (1 - r) / (1 + r) * r ** np.abs(numbers - at, dtype=np.float64)
        weights = np.exp(-((numbers - at) ** 2) / (2.0 * noise.scale**2))
        return weights / weights.sum()

    middle = noise.lower + (noise.upper - noise.lower) // 2
    yes, no = bits
    rows = [np.concatenate([law(x) * yes, law(x) * (1 - yes)]) for x in range(noise.lower, noise.upper + 1)]
    return np.stack([*rows, np.concatenate([law(middle) * no, law(middle) * (1 - no)])])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("k", [2, 5])
def test_categories_with_no_answer_attain_epsilon(epsilon, k):
    rows = AnsweredShares(local.KaryResponse(epsilon, k=k + 1)).oracle.channel()
    assert largest_loss(rows) == pytest.approx(epsilon, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
def test_one_bit_or_no_answer_attains_epsilon(epsilon):
    mechanism = AnsweredMean(epsilon, -1.0, 3.0)
    rows = mechanism.channel(np.linspace(-1.0, 3.0, 41))
    assert rows.sum(axis=1) == pytest.approx(1)
    assert largest_loss(rows) == pytest.approx(epsilon, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("width", [2, 3, 10, 17])
def test_pairs_under_laplace_noise_keep_epsilon(epsilon, width):
    mechanism = AnsweredNumbers(local.LocalDiscreteLaplace(epsilon, -3, -3 + width))
    p, q, _ = mechanism.bit.support
    loss = largest_loss(pairs_law(mechanism.noise, (p, q), reach=30))
    assert loss <= epsilon + 1e-12
    assert loss == pytest.approx(epsilon, abs=1e-9)
    # Twins: a bit with the whole ε, and one that is not randomised, spend more.
    whole = local.BinaryResponse(epsilon).support
    assert largest_loss(pairs_law(mechanism.noise, whole[:2], reach=30)) > epsilon + 0.1 * epsilon
    assert largest_loss(pairs_law(mechanism.noise, (1.0, 0.0), reach=30)) == math.inf


def delta_of(one, other, epsilon):
    """Σ max(0, P − e^ε P')."""
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("width", [2, 5, 12])
def test_pairs_under_gaussian_noise_keep_epsilon_and_delta(epsilon, delta, width):
    mechanism = AnsweredNumbers(local.LocalDiscreteGaussian(epsilon, delta, 0, width))
    assert mechanism.privacy == mechanism.noise.privacy
    p, q, _ = mechanism.bit.support
    rows = pairs_law(mechanism.noise, (p, q))
    worst = max(delta_of(rows[i], rows[j], epsilon) for i, j in permutations(range(len(rows)), 2))
    assert worst <= delta * (1 + 1e-9)
    twin = pairs_law(mechanism.noise, local.BinaryResponse(epsilon).support[:2])
    assert max(delta_of(twin[-1], row, epsilon) for row in twin[:-1]) > 2 * delta


@pytest.mark.parametrize(
    "noise", [local.LocalLaplace(1.0, -0.1, 0.7), local.LocalGaussian(2.0, 1e-6, 0.1, 0.3), local.LocalLaplace(3.0, 0.0, 1e9)]
)
def test_the_bit_of_real_numbers_has_what_the_distance_to_the_middle_leaves(noise):
    from fractions import Fraction

    mechanism = AnsweredNumbers(noise)
    middle = Fraction(mechanism.middle)
    farthest = max(Fraction(noise.upper) - middle, middle - Fraction(noise.lower))
    # The noise is calibrated for the width of the range, rounded up.
    exact = Fraction(noise.upper) - Fraction(noise.lower)
    width = max(exact, Fraction(math.nextafter(float(exact), math.inf)) if Fraction(float(exact)) < exact else Fraction(float(exact)))
    assert Fraction(mechanism.bit.epsilon) <= Fraction(noise.epsilon) * (1 - farthest / width)
    assert mechanism.bit.epsilon == pytest.approx(noise.epsilon / 2)


def test_two_integers_leave_nothing_for_the_bit():
    with pytest.raises(ParameterError, match=r"epsilon must leave .* for the bit .* lower 0 and upper 1"):
        AnsweredNumbers(local.LocalDiscreteLaplace(1.0, 0, 1))


# Laws


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_law_of_one_bit_or_no_answer(epsilon):
    mechanism, n = AnsweredMean(epsilon, 0.0, 4.0), 10**6
    points = np.array([0.0, 1.0, 4.0])
    channel = mechanism.channel(points)
    for call, (point, row) in enumerate(zip([*points, np.nan], channel, strict=True)):
        answered = np.full(n, not np.isnan(point))
        reports = mechanism.privatize((np.full(n, point), answered), rng=KeyedRandom(KEY).at(call))
        counts = np.bincount(reports, minlength=3)
        assert p_value(counts, row) > ERROR_RATE
        assert p_value(counts, np.roll(row, 1)) < ERROR_RATE  # a twin with the codes exchanged


@pytest.mark.parametrize("answered", [True, False])
def test_the_law_of_a_pair(answered):
    mechanism, n = AnsweredNumbers(local.LocalDiscreteLaplace(2.0, 0, 10)), 10**6
    reports = mechanism.privatize((np.full(n, 7), np.full(n, answered)), rng=KeyedRandom(KEY).at(3))
    p, q, _ = mechanism.bit.support
    at, rate = (7, p) if answered else (mechanism.middle, q)
    assert binomial_p_value(int(reports["answered"].sum()), n, rate) > ERROR_RATE
    assert binomial_p_value(int(reports["answered"].sum()), n, 1 - rate) < ERROR_RATE
    values, r = reports["value"] - at, math.exp(-1 / mechanism.noise.scale)
    law = (1 - r) / (1 + r) * r ** np.abs(np.arange(-60, 61, dtype=np.float64))
    law[[0, -1]] = r**60 / (1 + r)
    counts = np.bincount(np.clip(values, -60, 60) + 60, minlength=121)
    assert p_value(counts, law) > ERROR_RATE
    # The number and the bit of one record are independent.
    table = np.histogram2d(np.clip(values, -8, 8), reports["answered"], bins=[np.arange(-8.5, 9.0), [-0.5, 0.5, 1.5]])[0]
    assert stats.chi2_contingency(table).pvalue > ERROR_RATE


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.int8], ids=str)
def test_numbers_of_a_type_that_does_not_hold_the_middle_are_refused(dtype):
    """Rounded to it, the middle would be farther from a bound than the bit allows."""
    mechanism = AnsweredNumbers(local.LocalLaplace(1.0, lower=0, upper=0.1))
    with pytest.raises(ParameterTypeError, match=r"numbers must be of a type that holds 0\.05, float64 or int64, got"):
        mechanism.privatize((np.zeros(3, dtype), np.ones(3, bool)))


def test_the_number_beside_no_answer_does_not_matter():
    mechanism, numbers = AnsweredNumbers(local.LocalLaplace(1.0, 0.0, 10.0)), np.array([1.0, np.nan, 1e300, 3.0])
    answered = np.array([True, False, False, True])
    one, other = (
        mechanism.privatize((np.where(answered, numbers, filled), answered), rng=KeyedRandom(KEY).at(0)) for filled in (np.nan, 9.0)
    )
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("mechanism", [AnsweredNumbers(local.LocalLaplace(1.0, 0.0, 10.0)), AnsweredMean(1.0, 0.0, 10.0)])
def test_reports_do_not_depend_on_where_rows_are_cut(mechanism):
    numbers, answered = np.linspace(0, 10, 5000), np.arange(5000) % 7 > 0
    whole = mechanism.privatize((numbers, answered), rng=KeyedRandom(KEY).at(5))
    parts = [
        mechanism.privatize((numbers[start:stop], answered[start:stop]), rng=KeyedRandom(KEY).at(5, element=start))
        for start, stop in ((0, 1), (1, 2049), (2049, 5000))
    ]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_the_two_draws_of_a_record_read_different_words():
    one, other = _two_streams(KeyedRandom(KEY).at(5, element=9), None)
    assert (one.at.nonce, one.at.first_element) == (other.at.nonce, other.at.first_element) == (5, 9)
    assert bytes(one.at.key) != bytes(other.at.key)
    again = _two_streams(KeyedRandom(KEY).at(5, element=10), None)[1]
    assert bytes(again.at.key) == bytes(other.at.key)
    assert bytes(_two_streams(KeyedRandom(KEY).at(6, element=9), None)[1].at.key) != bytes(other.at.key)


# Estimates

ORACLES = {
    "kary": local.KaryResponse(2.0, k=4),
    "unary": local.UnaryEncoding(2.0, k=4),
    "subset": local.SubsetSelection(2.0, k=4),
    "hashing": local.LocalHashing(2.0, k=4),
    "hadamard": local.HadamardResponse(2.0, k=4),
    "projective": local.ProjectiveGeometryResponse(2.0, k=4),
}


def misses_of(mechanism, records_of, truth, n, replicates, confidence):
    """How often the intervals of estimates miss the truth: of the main numbers and of the share without an answer."""
    missed, without, found = 0, 0, []
    for place in range(replicates):
        records = records_of(np.random.default_rng(place), n)
        counted = mechanism.aggregate(mechanism.privatize(records, rng=KeyedRandom(KEY).at(place)))
        estimate, none = mechanism.estimate(counted), mechanism.unanswered(counted)
        ends = np.atleast_2d(estimate.interval(confidence))
        missed += int(((ends[:, 0] > truth["value"]) | (ends[:, 1] < truth["value"])).any(axis=0))
        low, high = none.interval(confidence)
        without += not low <= truth["none"] <= high
        found.append(np.atleast_1d(estimate.value))
    return missed, without, np.array(found)


def shares(random, n):
    return random.choice(4, n, p=[0.4, 0.2, 0.1, 0.3])


@pytest.mark.parametrize("name", ORACLES)
def test_shares_among_answers(name):
    truth = {"value": np.array([4 / 7, 2 / 7, 1 / 7]), "none": 0.3}
    mechanism, replicates = AnsweredShares(ORACLES[name]), 60
    missed, without, found = misses_of(mechanism, shares, truth, 4000, replicates, 0.99)
    limit = stats.binom.ppf(1 - 1e-6, replicates, 0.03)  # three intervals at a time
    assert missed <= limit
    assert without <= limit
    error = mechanism.estimate(mechanism.privatize(shares(np.random.default_rng(0), 4000), rng=KeyedRandom(KEY))).stderr
    assert np.abs(found.mean(axis=0) - truth["value"]).max() < 6 * np.max(error) / math.sqrt(replicates)
    assert np.allclose(found.std(axis=0), error, rtol=0.6)


@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 2), (0.5, 4), (4.0, 2)])
def test_the_error_about_given_records_is_that_of_their_reports(epsilon, k):
    """Of one sample, randomised many times: a standard error that has the sampling error too is refused at a large ε."""
    mechanism, replicates, n = AnsweredShares(local.KaryResponse(epsilon, k=k + 1)), 1500, 3000
    records, rng = np.repeat(np.arange(k + 1), n // (k + 1)), KeyedRandom(KEY)
    reports = mechanism.privatize(np.tile(records, replicates), rng=rng).reshape(replicates, n)
    found = [mechanism.estimate(each, target="sample") for each in reports]
    ratio = np.std([each.value for each in found], axis=0) / np.mean([each.stderr for each in found], axis=0)
    assert np.abs(ratio - 1).max() < 0.1  # five and a half standard errors of a standard deviation
    whole = np.mean([mechanism.estimate(each).stderr for each in reports[:20]], axis=0)
    assert epsilon < 4 or (np.std([each.value for each in found], axis=0) < 0.5 * whole).all()


NUMBERS = {
    "laplace": AnsweredNumbers(local.LocalLaplace(1.0, 0.0, 20.0)),
    "gaussian": AnsweredNumbers(local.LocalGaussian(1.0, 1e-5, 0.0, 20.0)),
    "discrete laplace": AnsweredNumbers(local.LocalDiscreteLaplace(1.0, 0, 20)),
    "discrete gaussian": AnsweredNumbers(local.LocalDiscreteGaussian(1.0, 1e-5, 0, 20)),
    "bounded mean": AnsweredMean(1.0, 0.0, 20.0),
}


def numbers_and_answers(random, n):
    answered = random.random(n) < 0.75
    return random.integers(12, 21, n), answered


@pytest.mark.parametrize("name", NUMBERS)
def test_means_among_answers(name):
    mechanism, replicates = NUMBERS[name], 60
    missed, without, found = misses_of(mechanism, numbers_and_answers, {"value": 16.0, "none": 0.25}, 20_000, replicates, 0.99)
    limit = stats.binom.ppf(1 - 1e-6, replicates, 0.01)
    assert missed <= limit
    assert without <= limit
    records = numbers_and_answers(np.random.default_rng(0), 20_000)
    estimate = mechanism.estimate(mechanism.privatize(records, rng=KeyedRandom(KEY)))
    assert abs(found.mean() - 16.0) < 6 * estimate.stderr / math.sqrt(replicates)
    assert found.std() == pytest.approx(estimate.stderr, rel=0.5)


@pytest.mark.parametrize("target", ["population", "sample"])
@pytest.mark.parametrize("answers", [0, 1, 3])
def test_hardly_anybody_answers(target, answers):
    """Intervals hold what is possible, and every number is finite."""
    n = 2000
    answered = np.arange(n) < answers
    for mechanism in (*NUMBERS.values(), *map(AnsweredShares, ORACLES.values())):
        is_shares = isinstance(mechanism, AnsweredShares)
        records = np.where(answered, 1, 3) if is_shares else (np.full(n, 18), answered)
        counted = mechanism.aggregate(mechanism.privatize(records, rng=KeyedRandom(KEY)))
        estimate = mechanism.estimate(counted, target=target)
        ends = np.atleast_2d(estimate.interval(0.999999))
        truth = np.array([0.0, 1.0, 0.0]) if is_shares else np.array([18.0])
        assert np.isfinite(estimate.value).all()
        assert np.isfinite(estimate.stderr).all()
        if answers:
            assert (ends[:, 0] <= truth).all()
            assert (truth <= ends[:, 1]).all()
        low, high = mechanism.unanswered(counted, target=target).interval(0.999999)
        assert low <= 1 - answers / n <= high


def test_with_answers_from_all_it_is_nearly_the_mechanism_without():
    noise, n = local.LocalLaplace(1.0, 0.0, 10.0), 100_000
    mechanism = AnsweredNumbers(noise)
    values = np.full(n, 5.0)
    found = mechanism.estimate(mechanism.privatize((values, np.ones(n, bool)), rng=KeyedRandom(KEY)))
    plain = noise.estimate(noise.privatize(values, rng=KeyedRandom(KEY)))
    assert found.stderr == pytest.approx(plain.stderr, rel=0.03)
    assert np.ptp(found.interval()) < 1.15 * np.ptp(plain.interval())


def test_aggregates_add_up_and_belong_to_their_mechanism():
    mechanism = AnsweredNumbers(local.LocalLaplace(1.0, 0.0, 10.0))
    reports = mechanism.privatize((np.arange(10.0), np.arange(10) > 2), rng=KeyedRandom(KEY))
    whole = mechanism.aggregate(reports)
    assert mechanism.aggregate(reports[:4]) + mechanism.aggregate(reports[4:]) == whole
    with pytest.raises(ParameterError, match="different mechanisms"):
        AnsweredNumbers(local.LocalLaplace(1.0, 0.0, 11.0)).estimate(whole)
    with pytest.raises(ParameterError, match="at least one"):
        mechanism.unanswered(replace(whole, n=0))
    assert NONE == 2
