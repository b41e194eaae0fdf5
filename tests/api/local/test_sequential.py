"""Sequentially interactive protocols against slow twins, their laws given the past, and what `choose` sees and may return."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, local
from dpcore.testing import KeyedRandom
from support.kernels import KEY, same_bits
from support.laws import ERROR_RATE, binomial_p_value

SHAPES = {
    "normal": lambda plain, n: plain.normal(30.0, 5.0, n),
    "lognormal": lambda plain, n: plain.lognormal(3.0, 0.5, n),
    "uniform": lambda plain, n: plain.uniform(10.0, 60.0, n),
}


def keyed(nonce=0):
    return KeyedRandom(KEY).at(nonce)


def replay(mechanism, bits):
    """The guesses that the bits lead to, and the estimate, by the recursion as documented."""
    q = 1 / (1 + math.exp(mechanism.epsilon))
    p = 1 - q
    theta, path = mechanism.start, []
    for i, bit in enumerate(bits.tolist(), start=1):
        path.append(theta)
        unbiased = (bit - q) / (p - q)
        theta = min(max(theta - mechanism.step * i ** (-5 / 8) * (unbiased - mechanism.q), mechanism.lower), mechanism.upper)
    path = np.array(path)
    return path, path[len(path) // 2 :].mean() if len(path) else mechanism.start


# Quantiles


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 20_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_the_estimate_is_the_documented_recursion(epsilon, n):
    mechanism = local.SequentialQuantile(epsilon, -20.0, 100.0, q=0.3)
    x = SHAPES["normal"](np.random.default_rng(1), n)
    found = mechanism.privatize(x, rng=keyed())
    path, value = replay(mechanism, found.reports)
    assert found.reports.dtype == np.bool_
    assert found.reports.shape == (n,)
    assert found.value == pytest.approx(value, rel=1e-9)
    # the bits are the comparisons, flipped as a binary response with the same stream flips
    flips = local.BinaryResponse(epsilon).privatize(np.zeros(n, bool), rng=keyed())
    clear = abs(x - path) > 1e-6  # the twin's guesses differ in their last bits
    assert np.array_equal(found.reports[clear], ((x <= path) ^ flips)[clear])
    assert np.count_nonzero(clear) >= 0.99 * n


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_bits_given_the_past_are_randomised_responses(epsilon):
    n = 200_000
    mechanism = local.SequentialQuantile(epsilon, 0.0, 100.0, q=0.5)
    x = SHAPES["uniform"](np.random.default_rng(2), n)
    bits = mechanism.privatize(x, rng=keyed()).reports
    path, _ = replay(mechanism, bits)
    truth = x <= path
    q = local.BinaryResponse(epsilon).support.q
    for answer in (False, True):
        lies = int(np.count_nonzero(bits[truth == answer] != answer))
        asked = int(np.count_nonzero(truth == answer))
        assert binomial_p_value(lies, asked, q) > ERROR_RATE
        assert binomial_p_value(lies, asked, 1.3 * q) < ERROR_RATE
    # a lie does not depend on the one before it
    lies = bits != truth
    assert binomial_p_value(int(np.count_nonzero(lies[1:] & lies[:-1])), n - 1, q * q) > ERROR_RATE


@pytest.mark.some(34)
@pytest.mark.parametrize("start", [None, 0.0, 200.0])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("q", [0.1, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_quantile_of_many_is_found_from_anywhere(epsilon, q, shape, start):
    n = 100_000
    x = SHAPES[shape](np.random.default_rng(3), n)
    mechanism = local.SequentialQuantile(epsilon, 0.0, 200.0, q=q, start=start)
    found = mechanism.privatize(x, rng=keyed()).value
    truth = float(np.quantile(x, q))
    density = np.count_nonzero(abs(x - truth) < 0.5) / n
    asymptotic = math.sqrt(2 * (q * (1 - q) + math.exp(epsilon) / math.expm1(epsilon) ** 2) / n) / density
    # thirty times the error that is left in the end: some of the start's is there yet at ε = 1
    assert abs(found - truth) < 30 * asymptotic
    # a twin that takes the bits for unbiased ends elsewhere
    naive = local.SequentialQuantile(50.0, 0.0, 200.0, q=q, start=start).estimate(mechanism.privatize(x, rng=keyed()).reports).value
    if epsilon == 1.0 and q in (0.1, 0.9):
        assert abs(naive - truth) > abs(found - truth)


def test_the_stated_error_is_reached_with_many_records():
    q, n, surveys = 0.5, 20_000, 400
    mechanism = local.SequentialQuantile(4.0, 0.0, 20.0, q=q)
    x = np.random.default_rng(4).uniform(0.0, 20.0, (surveys, n))
    rng = KeyedRandom(KEY)
    values = np.array([mechanism.privatize(row, rng=rng).value for row in x])
    stated = math.sqrt(2 * (q * (1 - q) + math.exp(4) / math.expm1(4) ** 2) / n) * 20.0
    assert 0.85 < values.std() / stated < 1.15  # ± 4 standard errors of 400 surveys
    assert abs(values.mean() - 10.0) < 5 * stated / math.sqrt(surveys)


@pytest.mark.parametrize("n", [0, 1, 100, 12_345])
def test_bits_alone_give_the_same_estimate(n):
    mechanism = local.SequentialQuantile(0.7, -1.0, 1.0, q=0.9)
    found = mechanism.privatize(np.random.default_rng(5).normal(size=n), rng=keyed())
    again = mechanism.estimate(found.reports)
    assert again.value == found.value
    assert same_bits(again.reports, found.reports)
    twice = np.repeat(found.reports, 2)[::2]  # not contiguous
    assert mechanism.estimate(twice).value == found.value
    assert mechanism.estimate(found.reports.tolist() if n else np.zeros(0, bool)).value == found.value
    other = local.SequentialQuantile(0.7, -1.0, 1.0, q=0.8).estimate(found.reports)
    assert n < 2 or other.value != found.value


def test_numbers_of_every_kind_and_extreme_bounds():
    mechanism = local.SequentialQuantile(1.0, 0, 10, q=0.5)
    whole = np.arange(1000) % 10
    wanted = mechanism.privatize(whole.astype(float), rng=keyed())
    for given in (
        whole,
        whole.astype(np.uint8),
        whole.astype(np.float32),
        whole.tolist(),
        np.repeat(whole, 3)[::3],
        list(map(float, whole)),
    ):
        assert same_bits(mechanism.privatize(given, rng=keyed()).reports, wanted.reports)
    for threads in (1, 4):
        assert mechanism.privatize(whole, rng=keyed(), threads=threads).value == wanted.value
    assert 0 <= mechanism.privatize(np.array([np.inf, -np.inf] * 50)).value <= 10
    huge = local.SequentialQuantile(2.0**-20, -(2.0**1021), 2.0**1021, q=0.5, step=1e308)
    assert abs(huge.privatize(np.zeros(1000)).value) <= 2.0**1021
    sure = local.SequentialQuantile(700.0, 0.0, 1.0, q=0.5).privatize(np.linspace(0, 1, 10_001))
    assert math.isfinite(sure.value)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon must be in"),
        ({"q": 1.5}, ParameterError, r"q must be in \(0.0, 1.0\), got 1.5"),
        ({"q": "0.5"}, ParameterTypeError, "q must be a real number"),
        ({"lower": 5.0, "upper": 5.0}, ParameterError, "lower must be less than upper"),
        ({"step": 0.0}, ParameterError, "step must be positive"),
        ({"step": math.inf}, ParameterError, "step must be positive"),
        ({"step": math.nan}, ParameterError, "step must be positive"),
        ({"start": 11.0}, ParameterError, r"start must be in \[0.0, 10.0\], got 11.0"),
        ({"start": math.nan}, ParameterError, "start must be in"),
    ],
)
def test_parameters_of_a_quantile_are_checked(options, error, words):
    with pytest.raises(error, match=words):
        local.SequentialQuantile(**{"epsilon": 1.0, "q": 0.5, "lower": 0.0, "upper": 10.0, **options})


def test_data_of_a_quantile_are_checked():
    mechanism = local.SequentialQuantile(1.0, 0.0, 10.0, q=0.5)
    with pytest.raises(DataError, match=r"index \(2,\)") as caught:
        mechanism.privatize([7.25, 8.5, math.nan])
    assert "7.25" not in str(caught.value)
    for bad in (np.zeros((2, 2)), 3.0):
        with pytest.raises(ParameterError, match="records must be a vector"):
            mechanism.privatize(bad)
    for bad in (np.ma.masked_array([1.0], [True]), ["a"], None, np.array([1.0], object)):
        with pytest.raises(ParameterTypeError, match="records must"):
            mechanism.privatize(bad)
    for bad in (np.zeros(3), [1, 0], np.zeros(3, np.uint8)):
        with pytest.raises(ParameterTypeError, match="reports must"):
            mechanism.estimate(bad)
    with pytest.raises(ParameterError, match="reports must be a vector"):
        mechanism.estimate(np.zeros((2, 2), bool))
    with pytest.raises(ParameterError, match="threads"):
        mechanism.privatize([1.0], threads=0)
    with pytest.raises(ParameterTypeError, match="rng must be"):
        mechanism.privatize([1.0], rng=np.random.default_rng())


def test_a_quantile_is_a_value():
    mechanism = local.SequentialQuantile(1.0, 0, 10, q=0.5)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert hash(mechanism) == hash(local.SequentialQuantile(1.0, 0.0, 10.0, q=0.5, start=5.0))
    assert mechanism != local.SequentialQuantile(1.0, 0, 10, q=0.5, start=4.0)
    assert mechanism.privacy == Privacy(1.0)
    with pytest.raises(AttributeError):
        mechanism.q = 0.1


# Channels


def test_the_history_is_a_read_only_sequence_that_keeps_its_length():
    kept = []

    def choose(history):
        kept.append(history)
        return local.BinaryResponse(1.0)

    reports = local.SequentialChannel(1.0, choose).privatize([True] * 20, rng=KeyedRandom(KEY))
    for i, history in enumerate(kept):
        assert len(history) == i
        assert list(history) == reports[:i]
        assert history[1:3] == tuple(reports[:i])[1:3]
        assert not history or history[-1] is reports[i - 1]
        with pytest.raises(IndexError):
            history[i]
        with pytest.raises(TypeError):
            history[0] = True
        assert not hasattr(history, "append")


def test_reports_that_choose_was_shown_cannot_be_changed():
    def choose(history):
        for report in history:
            with pytest.raises(ValueError, match="read-only"):
                report[...] = 0
        return local.UnaryEncoding(1.0, k=9)

    reports = local.SequentialChannel(1.0, choose).privatize([1, 2, 3], rng=KeyedRandom(KEY))
    assert all(report.shape == (2,) for report in reports)


def test_every_mechanism_may_be_chosen_and_each_record_is_a_call_of_its_own():
    mechanisms = [
        local.BinaryResponse(1.0),
        local.BoundedMean(0.5, 0, 10),
        local.BinaryChannel(1.0, [0.0, 1.0, -1.0, 0.5]),
        local.LocalLaplace(1.0, 0, 5),
        local.LocalDiscreteLaplace(0.25, 0, 5),
        local.KaryResponse(1.0, k=6),
        local.UnaryEncoding(1.0, k=6),
        local.SubsetSelection(1.0, k=6),
        local.LocalHashing(1.0, k=6),
        local.HadamardResponse(1.0, k=6),
    ]
    protocol = local.SequentialChannel(1.0, lambda history: mechanisms[len(history)])
    reports = protocol.privatize([1] * len(mechanisms), rng=KeyedRandom(KEY))
    for nonce, (mechanism, report) in enumerate(zip(mechanisms, reports, strict=True)):
        assert same_bits(report, mechanism.privatize(1, rng=keyed(nonce)))
        assert protocol.channel(reports[:nonce]) is mechanism
    assert protocol.privacy == Privacy(1.0)


class Foreign(local.BinaryResponse):
    """A subclass from elsewhere: it may do anything with a record."""

    def privatize(self, x, **_):
        return x


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        (None, ParameterTypeError),
        (local.BinaryResponse, ParameterTypeError),
        (local.SequentialQuantile(1.0, 0, 1, q=0.5), ParameterTypeError),
        (local.SequentialChannel(1.0, len), ParameterTypeError),
        (Foreign(1.0), ParameterTypeError),
        (local.KaryResponse(math.nextafter(1.0, 2.0), k=3), ParameterError),
        (local.LocalLaplace(2.0, 0, 1), ParameterError),
        (local.LocalGaussian(0.1, 1e-12, 0, 1), ParameterError),
        (local.LocalDiscreteGaussian(0.1, 1e-12, 0, 1), ParameterError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_choice_that_is_not_private_enough_is_refused_wherever_it_comes(choice, error):
    looked_at = []

    def records():
        for i in range(4):
            looked_at.append(i)
            yield i % 2

    def choose(history):
        return choice if len(history) == 2 else local.BinaryResponse(1.0)

    protocol = local.SequentialChannel(1.0, choose)
    with pytest.raises(error, match="choose must return"):
        protocol.privatize(records(), rng=KeyedRandom(KEY))
    assert looked_at == [0, 1, 2]
    with pytest.raises(error, match="choose must return"):
        protocol.channel([True, False])


def test_what_choose_raises_comes_through_and_records_must_be_single():
    def fail(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        local.SequentialChannel(1.0, fail).privatize([1])
    protocol = local.SequentialChannel(1.0, lambda _: local.BinaryResponse(1.0))
    assert protocol.privatize([]) == []
    for bad in ([True, [True, False]], [True, np.zeros(3, bool)], np.zeros((2, 2), bool)):
        with pytest.raises(DataError, match=r"index [01] is an array"):
            protocol.privatize(bad)
    for bad in (True, np.array(True), None):
        with pytest.raises(ParameterTypeError, match="records must be a sequence"):
            protocol.privatize(bad)
    with pytest.raises(DataError):
        protocol.privatize([0, 5])
    with pytest.raises(ParameterTypeError, match="rng must be"):
        protocol.privatize([1], rng=np.random.default_rng())
