"""The channel matrices of the local randomisers: stochastic, private and exact.

Probabilities are compared with their definitions in 400 digits. Each property has a twin that must break it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpcore import _backend, errors
from dpcore.local import BinaryChannel, BinaryResponse, BoundedMean, HadamardResponse, KaryResponse, LocalHashing, SubsetSelection
from dpcore.local._parameters import MAX_CHANNEL_ENTRIES, check_channel_size
from support.channels import (
    EPSILONS,
    EXTREME,
    HASHED,
    MP,
    ORACLES,
    SLACK,
    assert_stochastic,
    channel_of,
    each,
    exact_exp,
    log_ratio,
    nearest,
    optimal,
    seed_of,
    symmetric,
)

# Privacy


@pytest.mark.parametrize("epsilon", EPSILONS)
@each(ORACLES + HASHED)
def test_channel_is_stochastic_and_spends_epsilon_and_no_more(kind, k, epsilon):
    mechanism = kind(epsilon, k=k)
    channel = channel_of(mechanism)
    assert_stochastic(channel)
    assert channel.shape[0] == k
    assert abs(log_ratio(channel) - epsilon) <= SLACK
    assert mechanism.privacy.epsilon == epsilon
    assert mechanism.privacy.delta == 0.0


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_binary_channels_are_stochastic_and_spend_epsilon_and_no_more(epsilon):
    for channel in (
        BinaryResponse(epsilon).channel(),
        BoundedMean(epsilon, -1.0, 3.0).channel(),
        BoundedMean(epsilon, -1.0, 3.0).channel([-math.inf, -0.5, 0.1, 3.0]),
        BinaryChannel(epsilon, [0.0, 0.3, -2.0, 2.0]).channel(),
    ):
        assert_stochastic(channel)
        assert abs(log_ratio(channel) - epsilon) <= SLACK
    # what does not reach both bounds spends less
    assert log_ratio(BoundedMean(epsilon, -1.0, 3.0).channel([0.0, 3.0])) < epsilon - 1e-4
    assert log_ratio(BinaryChannel(epsilon, [0.0, 1.0]).channel()) < epsilon - 1e-4


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_probability_off_by_a_percent_breaks_the_bound(epsilon):
    def kary(q, k=5):
        channel = np.full((k, k), q)
        np.fill_diagonal(channel, 1 - (k - 1) * q)
        return channel

    q = KaryResponse(epsilon, k=5).support.q
    assert abs(log_ratio(kary(q)) - epsilon) <= max(SLACK, 1e-15 * math.exp(min(epsilon, 1.0)))
    assert log_ratio(kary(0.99 * q)) > epsilon + SLACK
    assert abs(log_ratio(kary(1.01 * q)) - epsilon) > SLACK


def test_the_whole_epsilon_on_each_bit_of_a_symmetric_encoding_breaks_the_bound():
    # p = e^ε/(1 + e^ε) for every bit, as if only one of them told about the record
    right, wrong = symmetric(1.0, 4), symmetric(2.0, 4)
    assert wrong.support.p == pytest.approx(BinaryResponse(1.0).support.p, rel=1e-15)
    assert log_ratio(right.channel()) <= 1.0 + SLACK
    assert log_ratio(wrong.channel()) > 1.0 + SLACK


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_hashing_is_private_under_every_seed_and_spends_less_where_inputs_collide(epsilon):
    mechanism = LocalHashing(epsilon, k=2)
    ratios = {seed: log_ratio(mechanism.channel(seed)) for seed in (seed_of(a, b) for a in (1, 2, 7, 2**31 - 2) for b in range(5))}
    assert all(ratio == 0.0 or abs(ratio - epsilon) <= SLACK for ratio in ratios.values())
    assert {ratio == 0.0 for ratio in ratios.values()} == {True, False}


# Exactness


def kary_law(epsilon, k):
    E = exact_exp(epsilon)
    return lambda x, y: (E if x == y else 1) / (E + k - 1), range(k)


def unary_law(variant):
    def law(epsilon, k):
        root = MP.sqrt(exact_exp(epsilon))
        p = MP.mpf(1) / 2 if variant == "optimal" else root / (1 + root)
        q = 1 / (root**2 + 1) if variant == "optimal" else 1 / (root + 1)

        def probability(x, y):
            chances = [(p if v == x else q) if y >> v & 1 else 1 - (p if v == x else q) for v in range(k)]
            return MP.fprod(chances)

        return probability, range(2**k)

    return law


def subset_law(epsilon, k):
    E, w = exact_exp(epsilon), SubsetSelection(epsilon, k=k).w
    p = w * E / (w * E + k - w)

    def probability(x, members):
        return p / math.comb(k - 1, w - 1) if x in members else (1 - p) / math.comb(k - 1, w)

    return probability, list(itertools.combinations(range(k), w))


def hadamard_law(epsilon, k):
    E, K = exact_exp(epsilon), 2 ** math.ceil(math.log2(k))

    def probability(x, report):
        row, bit = report
        sign = (-1) ** (row & x).bit_count()
        return (E if (sign == 1) == bit else 1) / (E + 1) / K

    return probability, [(row, bit) for row in range(K) for bit in (False, True)]


LAWS = {KaryResponse: kary_law, optimal: unary_law("optimal"), symmetric: unary_law("symmetric"), SubsetSelection: subset_law}
LAWS |= {HadamardResponse: hadamard_law}


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0, 50.0])
@each([(kind, k) for kind, k in ORACLES if k <= 9])
def test_every_entry_is_the_float_nearest_to_its_definition(kind, k, epsilon):
    probability, outputs = LAWS[kind](epsilon, k)
    expected = np.array([[nearest(probability(x, y)) for y in outputs] for x in range(k)])
    np.testing.assert_array_equal(kind(epsilon, k=k).channel(), expected)


@pytest.mark.parametrize("epsilon", EXTREME)
@each([(KaryResponse, 5), (SubsetSelection, 5), (HadamardResponse, 5), (optimal, 2)])
def test_entries_are_exact_at_the_ends_of_the_range(kind, k, epsilon):
    # an encoding of more bits has outputs that are rarer than any float64 at ε = 700
    probability, outputs = LAWS[kind](epsilon, k)
    expected = np.array([[nearest(probability(x, y)) for y in outputs] for x in range(k)])
    np.testing.assert_array_equal(kind(epsilon, k=k).channel(), expected)


@pytest.mark.parametrize("epsilon", EPSILONS + EXTREME)
def test_binary_entries_are_the_floats_nearest_to_their_definitions(epsilon):
    E = exact_exp(epsilon)
    p, q = nearest(E / (E + 1)), nearest(1 / (E + 1))
    np.testing.assert_array_equal(BinaryResponse(epsilon).channel(), [[p, q], [q, p]])
    np.testing.assert_array_equal(BoundedMean(epsilon, 0.0, 10.0).channel([-1.0, 5.0, 11.0]), [[p, q], [0.5, 0.5], [q, p]])
    tilt = [MP.mpf(v) / 2 * (E - 1) / (E + 1) for v in (0.3, -2.0)]
    expected = [[nearest((1 - t) / 2), nearest((1 + t) / 2)] for t in tilt]
    np.testing.assert_array_equal(BinaryChannel(epsilon, [0.3, -2.0]).channel(), expected)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_hashing_answers_the_hash_as_a_kary_response_does(epsilon):
    mechanism, prime = LocalHashing(epsilon, k=50), 2**31 - 1
    assert prime == _backend.HASH_PRIME
    answers = KaryResponse(epsilon, k=mechanism.g).channel()
    for a, b in ((1, 0), (1, prime - 1), (prime - 1, 0), (123_456_789, 987_654_321), (2**30, 2**30)):
        hashes = [(a * v + b) % prime % mechanism.g for v in range(50)]
        np.testing.assert_array_equal(mechanism.channel(seed_of(a, b)), answers[hashes])


# Refusals


def test_largest_channels_are_refused_by_size():
    check_channel_size(2**13, 2**13)
    with pytest.raises(errors.ParameterError, match=f"8193 × 8192 entries.*{MAX_CHANNEL_ENTRIES}"):
        check_channel_size(2**13 + 1, 2**13)
    for mechanism, size in (
        (KaryResponse(1.0, k=2**13 + 1), "8193 × 8193"),
        (HadamardResponse(1.0, k=2**12 + 1), "4097 × 16384"),
        (KaryResponse(700.0, k=2**24), "16777216 × 16777216"),
    ):
        with pytest.raises(errors.ParameterError, match=size):
            mechanism.channel()
    with pytest.raises(errors.ParameterError, match="16777216 × 22028"):
        LocalHashing(10.0, k=2**24).channel(seed_of(1, 0))


def test_channels_are_enumerated_up_to_4096_outputs():
    assert optimal(1.0, 12).channel().shape == (12, 4096)
    assert SubsetSelection(0.01, k=14).channel().shape == (14, math.comb(14, 7))
    assert SubsetSelection(20.0, k=4096).channel().shape == (4096, 4096)
    for mechanism in (optimal(1.0, 13), symmetric(1.0, 2**24), SubsetSelection(0.01, k=15), SubsetSelection(20.0, k=4097)):
        with pytest.raises(errors.ParameterError, match=r"k .*2\*\*12"):
            mechanism.channel()
    # binomial coefficients of these have thousands and millions of digits
    for k in (4096, 100_000, 2**24):
        with pytest.raises(errors.ParameterError, match=f"k = {k} and w = "):
            SubsetSelection(1.0, k=k).channel()


@pytest.mark.parametrize("seed", [seed_of(0, 1), seed_of(2**31 - 1, 0), seed_of(1, 2**31 - 1), -1, 2**62, 2**64])
def test_seeds_outside_the_family_are_refused(seed):
    with pytest.raises(errors.ParameterError, match="seed"):
        LocalHashing(1.0, k=4).channel(seed)


@pytest.mark.parametrize("seed", [1.0, True, "1"])
def test_seeds_that_are_no_integers_are_refused(seed):
    with pytest.raises(errors.ParameterTypeError, match="seed"):
        LocalHashing(1.0, k=4).channel(seed)
