"""`FiniteChannel`: exact rows and levels, what is refused, mixtures that restore a level, estimates, and their variances and intervals.

Tables and reports bit by bit: `tests/kernels/test_channel_tables.py`; the law of reports: `tests/statistical/test_finite_channel_law.py`.
"""

from __future__ import annotations

import itertools
import math
import pickle
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcore import Privacy
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local import Aggregate, BinaryResponse, FiniteChannel, KaryResponse, SequentialChannel
from dpcore.testing import KeyedRandom
from support.channels import EPSILONS, EXTREME, MP, exact_exp
from support.kernels import same_bits

MATRIX = [[3, 2, 1], [2, 2, 2], [1, 2, 3]]
CHANNEL = FiniteChannel(MATRIX, values=[-3.0, 0.0, 3.0])
CODES = np.random.default_rng(3).integers(0, 3, 20_000)


def keyed():
    return KeyedRandom(bytes(range(32)))


def random_rows(inputs, outcomes, epsilon, seed=0):
    """Float rows within a factor e^ε of each other, up to rounding: a third of the outcomes of each are the likely ones."""
    plain = np.random.default_rng(seed)
    likely = np.argsort(plain.random((inputs, outcomes)), axis=1) < max(1, outcomes // 3)
    rows = np.where(likely, 1.0, math.exp(-epsilon))
    return rows / rows.sum(axis=1, keepdims=True)


def worst_ratio(channel):
    """The largest ratio in rationals, entry by entry."""
    rows = channel.rows.tolist()
    found = Fraction(1)
    for column in zip(*rows, strict=True):
        for most, least in itertools.product(column, column):
            if most:
                found = max(found, Fraction(most, least))
    return found


# Exact rows and levels


def test_rows_are_integers_over_one_sum_in_lowest_terms():
    assert (CHANNEL.rows.tolist(), CHANNEL.denominator) == (MATRIX, 6)
    for same in (np.array(MATRIX) * 10, [[Fraction(w, 6) for w in row] for row in MATRIX], [[w * 3**90 for w in row] for row in MATRIX]):
        channel = FiniteChannel(same, values=[-3.0, 0.0, 3.0])
        assert channel == CHANNEL
        assert hash(channel) == hash(CHANNEL)
        assert channel.rows.dtype == np.int64
    assert FiniteChannel([[0.5, 0.5], [0.25, 0.75]]) == FiniteChannel([[2, 2], [1, 3]])
    assert FiniteChannel([[2, 2], [1, 3]]) != FiniteChannel([[2, 2], [3, 1]])
    assert not CHANNEL.rows.flags.writeable


@pytest.mark.parametrize("epsilon", [*EPSILONS, *EXTREME])
def test_the_level_is_the_logarithm_of_the_largest_ratio_rounded_up(epsilon):
    for rows in (KaryResponse(epsilon, k=5).channel(), random_rows(6, 9, min(epsilon, 300.0))):
        channel = FiniteChannel(rows)
        ratio = worst_ratio(channel)
        logarithm = MP.log(MP.mpf(ratio.numerator) / ratio.denominator)
        assert logarithm <= MP.mpf(channel.epsilon)
        assert MP.mpf(math.nextafter(channel.epsilon, 0.0)) < logarithm
        assert channel.privacy == Privacy(channel.epsilon)
        assert [sum(row) for row in channel.rows.tolist()] == [channel.denominator] * channel.inputs
        # each entry keeps 31 bits, most of them all 53
        np.testing.assert_allclose(channel.channel(), rows, rtol=2.0**-30)


def test_rows_that_miss_one_by_rounding_are_spread_and_zeros_stay():
    rows = np.array([[1e-9, 0.0, 0.3, 0.7 - 1e-9], [2e-9, 0.0, 0.5, 0.5]]) * (1 + 2e-9)
    channel = FiniteChannel(rows, epsilon=None)
    exact = [[Fraction(w, channel.denominator) for w in row] for row in channel.rows.tolist()]
    assert [sum(row) for row in exact] == [1, 1]
    assert [row[1] for row in exact] == [0, 0]
    for row, given in zip(exact, rows.tolist(), strict=True):
        total = sum(map(Fraction, given))
        for p, q in zip(row, given, strict=True):
            assert abs(p - Fraction(q) / total) <= Fraction(4, 2**62) + p / 2**50


def test_a_claimed_level_is_compared_exactly():
    ratio = Fraction(2**61 + 1, 2**61)  # closer to 1 than a float can tell
    rows = [[2**61 + 1, 2**61], [2**61, 2**61 + 1]]
    level = FiniteChannel(rows).epsilon
    assert MP.mpf(level) >= MP.log(MP.mpf(ratio.numerator) / ratio.denominator)
    assert FiniteChannel(rows, epsilon=level).epsilon == level
    with pytest.raises(ParameterError, match="at least"):
        FiniteChannel(rows, epsilon=math.nextafter(level, 0.0))
    assert FiniteChannel(rows, epsilon=1.5).epsilon == 1.5
    assert FiniteChannel([[1, 2], [1, 2]], epsilon=0).epsilon == 0.0
    with pytest.raises(ParameterError, match="at least"):
        FiniteChannel(rows, epsilon=0)


def test_an_infinite_level_needs_a_word():
    rows = [[2, 0], [1, 1]]
    with pytest.raises(ParameterError, match="excludes an outcome"):
        FiniteChannel(rows)
    with pytest.raises(ParameterError, match="at least inf"):
        FiniteChannel(rows, epsilon=700)
    channel = FiniteChannel(rows, epsilon=None)
    assert channel.privacy == Privacy(math.inf)
    assert FiniteChannel(MATRIX, epsilon=None).epsilon == CHANNEL.epsilon
    assert FiniteChannel([[2, 1, 0], [1, 2, 0]]).epsilon < 0.7  # an outcome that nobody has


# Mixtures that restore a level


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.01, 1.0, 5.0, 30.0, 700.0])
def test_a_level_lost_by_rounding_is_restored_by_a_tiny_share(epsilon):
    for rows in (KaryResponse(epsilon, k=5).channel(), random_rows(6, 9, min(epsilon, 300.0), seed=4)):
        channel = FiniteChannel.at_level(rows, epsilon)
        ratio = worst_ratio(channel)
        assert MP.mpf(ratio.numerator) / ratio.denominator <= exact_exp(epsilon)
        assert channel.epsilon == epsilon
        assert channel.mixed <= 1e-8 / min(epsilon, 1.0)
        np.testing.assert_allclose(channel.channel(), rows, rtol=1e-8, atol=channel.mixed)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_share_is_the_least_that_does(epsilon):
    """For the identity on k inputs it is known: (1 − λ) + λ/k = E·λ/k. A hundredth of a percent less is not enough."""
    k, factor = 7, math.exp(epsilon)
    channel = FiniteChannel.at_level(np.eye(k, dtype=int), epsilon)
    expected = 1 / (1 + (factor - 1) / k)
    assert channel.mixed == pytest.approx(expected, rel=1e-12)
    less = Fraction(channel.mixed) * Fraction(9999, 10000)
    rows = [[(1 - less) * (x == z) + less / k for z in range(k)] for x in range(k)]
    with pytest.raises(ParameterError, match="at least"):
        FiniteChannel(rows, epsilon=epsilon)
    # it is the k-ary response
    np.testing.assert_allclose(channel.channel(), KaryResponse(epsilon, k=k).channel(), rtol=1e-9)


def test_rows_that_keep_the_level_are_not_touched():
    channel = FiniteChannel.at_level(MATRIX, 1.2)
    assert channel.mixed == 0.0
    assert channel == FiniteChannel(MATRIX, epsilon=1.2)


def test_the_law_that_is_mixed_in_can_be_named():
    channel = FiniteChannel.at_level([[1, 0, 0], [0, 1, 0]], 1.0, toward=[1, 1, 2])
    assert channel.channel()[0, 2] == channel.channel()[1, 2] == pytest.approx(channel.mixed / 2)
    with pytest.raises(ParameterError, match="toward must be larger for outcome 1"):
        FiniteChannel.at_level([[1, 0], [0, 1]], 1.0, toward=[1, 0])
    for bad in ([1.0], [[0.5, 0.5]], [0.5, 0.6], [-1, 2], [0, 0], [None, 1], ["a", "b"], [[1], [1, 2]], [True, False], "ab"):
        with pytest.raises((ParameterError, ParameterTypeError), match="toward must be"):
            FiniteChannel.at_level([[1, 0], [0, 1]], 1.0, toward=bad)


# Reports


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_reports_are_small_codes_of_the_shape_of_the_records(dtype):
    reports = CHANNEL.privatize(CODES.reshape(100, 200).astype(dtype), rng=keyed())
    assert (reports.shape, reports.dtype) == ((100, 200), np.uint8)
    assert np.array_equal(reports.reshape(-1), CHANNEL.privatize(CODES, rng=keyed()))
    wide = FiniteChannel(np.ones((3, 257), int))
    assert wide.privatize(CODES, rng=keyed()).dtype == np.uint16
    assert type(CHANNEL.privatize(1, rng=keyed())) is int


@pytest.mark.parametrize("bad", [-1, 3, 10**6])
def test_a_code_outside_the_inputs_is_refused_or_replaced(bad):
    codes = np.array([2, 0, bad, 1])
    out = np.full(4, 77, np.uint8)
    with pytest.raises(DataError, match=r"codes in \[0, 2\].*the one at index \(2,\) is not"):
        CHANNEL.privatize(codes, out=out)
    assert (out == 77).all()
    replaced = replace(CHANNEL, unknown=1).privatize(codes, rng=keyed())
    assert same_bits(replaced, CHANNEL.privatize(np.array([2, 0, 1, 1]), rng=keyed()))


def test_labels():
    channel = FiniteChannel.from_categories(MATRIX, ["low", "mid", "high"], values=[-3, 0, 3], unknown="mid")
    reports = channel.privatize(["high", "low", "elsewhere"] * 1000, rng=keyed())
    assert same_bits(reports, CHANNEL.privatize(np.array([2, 0, 1] * 1000), rng=keyed()))
    frequencies = FiniteChannel.from_categories([[3, 1], [1, 3]], ["a", "b"])
    assert frequencies.estimate(frequencies.privatize(["a"] * 100)).categories == ("a", "b")


def test_a_channel_survives_copies_and_takes_part_in_a_sequential_one():
    for copy in (pickle.loads(pickle.dumps(CHANNEL)), deepcopy(CHANNEL), replace(CHANNEL)):
        assert copy == CHANNEL
        assert same_bits(copy.privatize(CODES, rng=keyed()), CHANNEL.privatize(CODES, rng=keyed()))
    mixed = FiniteChannel.at_level(np.eye(3), 1.0)
    assert pickle.loads(pickle.dumps(mixed)) == mixed
    open_ = FiniteChannel(np.eye(3), epsilon=None)
    assert pickle.loads(pickle.dumps(open_)) == open_
    assert len(SequentialChannel(1.1, lambda reports: CHANNEL if reports else BinaryResponse(1.0)).privatize([1, 2, 0])) == 3


# Estimates


def test_the_mean_of_values_and_its_exact_variance():
    law = np.array([0.2, 0.3, 0.5])
    mean, square = ((law @ MATRIX / 6) @ np.array([-3.0, 0.0, 3.0]) ** power for power in (1, 2))
    assert CHANNEL.variance(law) == pytest.approx(square - mean * mean, rel=1e-12)
    # over all laws: a grid knows nothing of hulls
    values = np.array([1.0, -2.0, 0.5, 7.0])
    for seed in range(8):
        rows = random_rows(5, 4, 3.0, seed=seed)
        channel = FiniteChannel(rows, values=values)
        laws = np.random.default_rng(seed).dirichlet(np.full(5, 0.3), 300)
        most = max((p @ channel.channel() @ values**2) - (p @ channel.channel() @ values) ** 2 for p in laws)
        assert most <= channel.variance() * (1 + 1e-12)
        assert most >= channel.variance() * 0.9
    counted = Aggregate(CHANNEL, 100, np.array([20, 30, 50]))
    found = CHANNEL.estimate(counted)
    assert found.value == pytest.approx(0.9)
    assert found.stderr == pytest.approx(math.sqrt((20 * 3.9**2 + 30 * 0.9**2 + 50 * 2.1**2) / 99 / 100))
    assert found.interval()[0] < 0.9 < found.interval()[1]


def test_few_reports_that_agree_are_not_certain():
    found = CHANNEL.estimate(Aggregate(CHANNEL, 5, np.array([5, 0, 0])))
    assert found.stderr >= math.sqrt(5.0 / 5)  # no record makes a report vary less than by 5
    low, high = found.interval()
    assert low <= -3.0
    assert high > -1.0


@pytest.mark.parametrize("k", [2, 6])
def test_frequencies_are_those_of_the_k_ary_response(k):
    kary, reports = KaryResponse(1.5, k=k), np.repeat(np.arange(k), np.arange(k) * 300 + 200)
    channel = FiniteChannel(kary.channel())
    mine, theirs = channel.estimate(reports), kary.estimate(reports)
    np.testing.assert_allclose(mine.value, theirs.value, atol=1e-12)
    np.testing.assert_allclose(mine.stderr, theirs.stderr, rtol=0.02)
    np.testing.assert_allclose(mine.interval(), theirs.interval(), atol=0.05 * float(theirs.stderr.max()))


def test_frequencies_of_a_wide_channel_are_unbiased():
    rows = random_rows(4, 9, 2.0, seed=8)
    channel = FiniteChannel(rows)
    law = np.array([0.1, 0.2, 0.3, 0.4])
    counts = np.rint(law @ channel.channel() * 10**12).astype(np.int64)
    found = channel.estimate(Aggregate(channel, int(counts.sum()), counts))
    np.testing.assert_allclose(found.value, law, atol=1e-9)


def test_inputs_that_reports_do_not_tell_apart_have_no_frequencies():
    for rows in ([[1, 2], [1, 2]], MATRIX, [[2, 2], [1, 3], [3, 1]]):
        channel = FiniteChannel(rows)
        with pytest.raises(ParameterError, match="values must be given"):
            channel.estimate(channel.privatize([0, 1]))
    with pytest.raises(ParameterError, match="values must be given"):
        FiniteChannel([[1, 3], [3, 1]]).variance()


def coverage(channel, law, n, confidence):
    """The exact probability that the interval holds the mean, over all counts of three outcomes."""
    outcomes, values = law @ channel.channel(), np.array(channel.values)
    truth, covered = float(outcomes @ values), 0.0
    logs = np.log(outcomes)
    for a in range(n + 1):
        for b in range(n + 1 - a):
            counts = np.array([a, b, n - a - b])
            low, high = channel.estimate(Aggregate(channel, n, counts)).interval(confidence)
            if low <= truth <= high:
                covered += math.exp(math.lgamma(n + 1) - sum(math.lgamma(c + 1) for c in counts) + counts @ logs)
    return covered


@pytest.mark.some(2)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 6, 20])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_intervals_cover_by_enumeration(epsilon, n, confidence):
    rows = FiniteChannel.at_level(np.eye(3), epsilon).rows
    for values in ((-1.0, 0.0, 1.0), (0.0, 0.01, 5.0)):
        channel = FiniteChannel(rows, values=values)
        for law in (np.array([1.0, 0.0, 0.0]), np.array([0.1, 0.85, 0.05])):
            found = coverage(channel, law, n, confidence)
            assert found >= confidence - 1e-9  # the rounding of the sum
    # a twin whose intervals end at one standard error misses
    found = coverage(channel, law, n, 0.01)
    assert found < confidence or confidence == 0.5


# Bad input


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ([], ParameterError, "matrix"),
        ([1.0], ParameterError, "matrix"),
        ([[]], ParameterError, "matrix"),
        ([[[1.0]]], ParameterError, "matrix"),
        ([[0.5, 0.5], [1.0]], ParameterTypeError, "rows"),
        ([[0.5, 0.4]], ParameterError, "sum to 1"),
        ([[0.5, math.nan]], ParameterError, r"≥ 0.*index \(0, 1\)"),
        ([[math.inf, 0.5]], ParameterError, "sum to 1"),
        ([[1e308, 1e308]], ParameterError, "sum to 1"),
        ([[1.5, -0.5]], ParameterError, r"≥ 0.*index \(0, 1\)"),
        ([[2, -1]], ParameterError, r"≥ 0.*index \(0, 1\)"),
        ([[0, 0]], ParameterError, "same positive sum"),
        ([[1, 2], [1, 1]], ParameterError, "row 1 differs"),
        ([[Fraction(1, 2), 0.5]], ParameterTypeError, "got float among fractions at position 1"),
        ([[Fraction(1, 2), True]], ParameterTypeError, "got bool"),
        ([[Fraction(1, 2), Fraction(-1, 2)]], ParameterError, "≥ 0"),
        ([["a", "b"]], ParameterTypeError, "rows"),
        ([[True, False]], ParameterTypeError, "rows"),
        (None, ParameterTypeError, "rows"),
        (np.ma.array([[0.5, 0.5]]), ParameterTypeError, "masked"),
        ([[Fraction(1, 2**5000), 1 - Fraction(1, 2**5000)]], ParameterError, "common denominator"),
        (np.ones((1, 2**16 + 1), int), ParameterError, "at most"),
        (np.ones((2**9 + 1, 2**16), np.uint8), ParameterError, "at most 512 inputs"),
    ],
)
def test_rows_that_are_no_channel_are_refused(rows, error, words):
    with pytest.raises(error, match=words):
        FiniteChannel(rows)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"epsilon": -1.0}, ParameterError, "epsilon must be in"),
        ({"epsilon": math.inf}, ParameterError, "epsilon must be in"),
        ({"epsilon": math.nan}, ParameterError, "epsilon must be in"),
        ({"epsilon": "none"}, ParameterError, "epsilon must be one of 'exact'"),
        ({"epsilon": True}, ParameterTypeError, "epsilon must be a real number"),
        ({"values": [1.0]}, ParameterError, r"values must be 3 numbers.*got shape \(1,\)"),
        ({"values": [1.0, math.nan, 0.0]}, ParameterError, "values must be 3 numbers.*got nan"),
        ({"values": [1.0, 1e160, 0.0]}, ParameterError, "values must be 3 numbers.*got 1e\\+160"),
        ({"unknown": 3}, ParameterError, "unknown"),
        ({"categories": ["a", "b"]}, ParameterError, "categories must be k = 3"),
    ],
)
def test_options_out_of_range_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        FiniteChannel(MATRIX, **options)


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ([1.0, 0.0], r"got shape \(2,\)"),
        ([1.5, -0.5, 0.0], "≥ 0, got -0.5"),
        ([1.0, math.nan, 0.0], "got nan"),
        ([0.5, 0.4, 0.0], "got 0.9"),
    ],
)
def test_laws_that_are_none_are_refused(law, words):
    with pytest.raises(ParameterError, match=f"law must.*{words}"):
        CHANNEL.variance(law)


def test_levels_out_of_range_of_mixing_are_refused():
    for bad in (0.0, 2.0**-21, 701.0, math.nan):
        with pytest.raises(ParameterError, match="epsilon must be in"):
            FiniteChannel.at_level(MATRIX, bad)


def test_reports_that_are_no_outcomes_are_refused():
    with pytest.raises(DataError, match="index 1 is not"):
        CHANNEL.aggregate([0, 3, 1])
    with pytest.raises(ParameterTypeError):
        CHANNEL.aggregate([0.0, 1.0])
    with pytest.raises(ParameterError, match="at least one"):
        CHANNEL.estimate(np.zeros(0, int))
    with pytest.raises(ParameterError, match="different mechanisms"):
        CHANNEL.estimate(FiniteChannel(MATRIX).aggregate([0, 1]))
    one, two = CHANNEL.aggregate([0, 1]), CHANNEL.aggregate([2])
    assert (one + two) == CHANNEL.aggregate([0, 1, 2])


def test_a_constant_and_a_tiny_channel():
    constant = FiniteChannel(np.ones((5, 1), int), values=[2.5])
    assert constant.epsilon == 0.0
    assert constant.privatize([0, 4]).tolist() == [0, 0]
    found = constant.estimate([0, 0])
    assert (found.value, found.stderr, found.interval().tolist()) == (2.5, 0.0, [2.5, 2.5])
    huge = FiniteChannel(MATRIX, values=[-1e150, 0.0, 1e150])
    assert huge.estimate([0, 1, 2, 2]).value == pytest.approx(2.5e149)
    assert np.isfinite(huge.estimate([0, 1, 2, 2]).interval()).all()
    assert repr(CHANNEL).startswith("FiniteChannel(3 × 3 rows, epsilon=1.098")
