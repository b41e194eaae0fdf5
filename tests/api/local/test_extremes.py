"""Channels where they are hard: any hash function, any table, a loss that is slightly too large, and 2^24 categories at any loss."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcore import _backend, local
from dpcore.testing import KeyedRandom
from support.kernels import KEY

EPSILONS = [0.01, 0.5, 1.0, 2.0, 5.0, 20.0, 50.0]
SLACK = 1e-12
PRIME = _backend.HASH_PRIME


def symmetric(epsilon, k):
    return local.UnaryEncoding(epsilon, k=k, method="symmetric")


KINDS = [local.KaryResponse, local.UnaryEncoding, symmetric, local.SubsetSelection, local.LocalHashing, local.HadamardResponse]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def log_ratio(channel):
    """max ln P(y|x)/P(y|x'), from ratios of floats: their logarithms' difference would cancel."""
    return float(np.log(channel.max(axis=0) / channel.min(axis=0)).max())


def sums_to_one(channel):
    return all(abs(math.fsum(row) - 1) <= 2.0**-52 for row in channel.tolist())


def is_private(channel, epsilon):
    """The check of every channel here: stochastic, and ε-DP up to what floats can tell."""
    return bool((channel > 0).all()) and sums_to_one(channel) and log_ratio(channel) <= epsilon + SLACK


def channel_of(mechanism):
    return mechanism.channel(1) if isinstance(mechanism, local.LocalHashing) else mechanism.channel()


# Twins that the check must reject


@each_kind
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_channel_for_a_slightly_larger_loss_is_rejected(kind, epsilon):
    assert is_private(channel_of(kind(epsilon, k=5)), epsilon)
    assert not is_private(channel_of(kind(epsilon + 1e-6, k=5)), epsilon)
    assert not is_private(channel_of(kind(epsilon + 1e-11, k=5)), epsilon)


@each_kind
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_entries_that_are_a_percent_off_are_rejected(kind, epsilon):
    channel = channel_of(kind(epsilon, k=5))
    column = int((channel.max(axis=0) / channel.min(axis=0)).argmax())  # one that tells: a Hadamard matrix's first row does not
    row = int(channel[:, column].argmin())
    moved = channel.copy()
    moved[row, column] *= 0.99
    assert not is_private(moved, epsilon)
    moved[row, int(channel[row].argmax())] += 0.01 * channel[row, column]
    assert sums_to_one(moved)
    assert not is_private(moved, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_binary_twins_are_rejected(epsilon):
    for make in (
        lambda e: local.BinaryResponse(e).channel(),
        lambda e: local.BoundedMean(e, -3.0, 1.0).channel(),
        lambda e: local.BinaryChannel(e, [3.0, -3.0, 1.0]).channel(),
    ):
        assert is_private(make(epsilon), epsilon)
        assert not is_private(make(epsilon + 1e-6), epsilon)


# Tables, points and hash functions of any kind


@given(
    st.sampled_from(EPSILONS),
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=2, max_size=8).filter(any),
)
@example(1.0, [5e-324, -5e-324, 0.0])
@example(50.0, [1e-300, 1e300, -1e300])
def test_any_table_is_private_unbiased_and_tight_if_it_reaches_both_ends(epsilon, table):
    norm = max(map(abs, table))
    if norm * (math.exp(epsilon) + 1) / math.expm1(epsilon) > 1e308:
        return
    mechanism = local.BinaryChannel(epsilon, table)
    channel = mechanism.channel()
    assert channel.shape == (len(table), 2)
    assert is_private(channel, epsilon)
    assert mechanism.norm == norm
    if {norm, -norm} <= set(table):
        assert log_ratio(channel) >= epsilon - SLACK
    if norm > 1e-290:
        mean = channel @ [-mechanism.z0, mechanism.z0]
        np.testing.assert_allclose(mean, table, rtol=0, atol=4 * 2.0**-52 * mechanism.z0)


@given(st.sampled_from(EPSILONS), st.floats(-1e6, 1e6), st.floats(1e-3, 1e9), st.lists(st.floats(allow_nan=False), min_size=1, max_size=8))
def test_any_points_of_a_bounded_mean_are_private_and_unbiased(epsilon, lower, width, points):
    upper = lower + width
    mechanism = local.BoundedMean(epsilon, lower, upper)
    channel = mechanism.channel(points)
    assert is_private(np.concatenate([channel, mechanism.channel()]), epsilon)
    exact = (np.clip(points, lower, upper) - lower) * 2 / (upper - lower) - 1
    np.testing.assert_allclose(channel @ [-mechanism.z0, mechanism.z0], exact, rtol=0, atol=1e-9 + 4 * 2.0**-52 * mechanism.z0)


@given(
    st.sampled_from([0.01, 0.5, 1.0, 2.0, 5.0]),
    st.integers(2, 40),
    st.integers(1, PRIME - 1),
    st.integers(0, PRIME - 1),
)
@example(1.0, 2, 1, PRIME - 1)
@example(1.0, 2, PRIME - 1, 0)
def test_any_hash_function_is_private_and_tight_where_it_separates(epsilon, k, a, b):
    mechanism = local.LocalHashing(epsilon, k=k)
    channel = mechanism.channel(b << 31 | a)
    assert channel.shape == (k, mechanism.g)
    assert is_private(channel, epsilon)
    hashes = [(a * v + b) % PRIME % mechanism.g for v in range(k)]
    assert np.array_equal(channel.argmax(axis=1), hashes)
    if len(set(hashes)) > 1:
        assert log_ratio(channel) >= epsilon - SLACK
    else:
        assert log_ratio(channel) == 0.0


@given(
    st.sampled_from([0.01, 0.5, 1.0, 5.0, 20.0]),
    st.integers(2, 12),
    st.sampled_from([local.KaryResponse, local.HadamardResponse, local.SubsetSelection]),
)
@settings(max_examples=60)
def test_any_number_of_categories_is_private_and_tight(epsilon, k, kind):
    channel = kind(epsilon, k=k).channel()
    assert is_private(channel, epsilon)
    assert log_ratio(channel) >= epsilon - SLACK


# Collisions


@pytest.mark.parametrize(("prime", "g"), [*itertools.product([5, 7, 31], [2, 3, 4, 5, 8])])
def test_collisions_by_listing_the_residues(prime, g):
    alike = sum(r % g == s % g for r, s in itertools.permutations(range(prime), 2))
    assert local.hashing.collision(g, prime) == Fraction(alike, prime * (prime - 1))


@pytest.mark.parametrize("g", [2, 3, 20])
def test_one_over_g_instead_of_the_collision_probability_biases(g):
    prime, k, epsilon = 31, 9, 1.0
    answers = local.KaryResponse(epsilon, k=g).channel()
    supported = np.zeros((k, k))
    for a, b in itertools.product(range(1, prime), range(prime)):
        hashes = [(a * v + b) % prime % g for v in range(k)]
        supported += answers[np.ix_(hashes, hashes)]
    supported /= prime * (prime - 1)
    p, wrong = answers[0, 0], answers[0, 1]

    def estimates(c):
        """E of the estimated frequencies, for each record's category."""
        q = c * p + (1 - c) * wrong
        return (supported - q) / (p - q)

    np.testing.assert_allclose(estimates(float(local.hashing.collision(g, prime))), np.eye(k), atol=1e-12)
    assert abs(estimates(1 / g) - np.eye(k)).max() > 1e-3


# Sizes and losses at the ends of their ranges


@pytest.mark.some(4)
@each_kind
@pytest.mark.parametrize("epsilon", [2.0**-20, 1.0, 50.0, 700.0])
@pytest.mark.parametrize("k", [2**20, pytest.param(2**24, marks=pytest.mark.long)])
def test_many_categories_overflow_nowhere(kind, k, epsilon):
    mechanism = kind(epsilon, k=k)
    x = np.array([0, 1, k // 2, k - 1, k - 1])
    with np.errstate(all="raise", under="ignore"):
        reports = mechanism.privatize(x, rng=KeyedRandom(KEY))
        counted = mechanism.aggregate(reports)
        estimate = mechanism.estimate(counted)
    for part in (estimate.value, estimate.stderr, estimate.interval()):
        assert np.isfinite(part).all()
    assert estimate.value.shape == (k,)
    assert (estimate.stderr >= 0).all()
    assert mechanism.variance() > 0
    assert math.isfinite(mechanism.variance(1.0, "population"))
    if epsilon == 700.0 and kind in (local.KaryResponse, symmetric, local.SubsetSelection):
        # a lie has probability e^-700 or e^-350 a bit: never
        np.testing.assert_allclose(estimate.value[x], [0.2, 0.2, 0.2, 0.4, 0.4], atol=1e-12)
        assert abs(estimate.value).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("epsilon", [2.0**-20, 1.0, 700.0])
def test_the_largest_kary_response_keeps_its_codes(epsilon):
    k = 2**24
    x = np.arange(k, dtype=np.int32)
    mechanism = local.KaryResponse(epsilon, k=k)
    reports = mechanism.privatize(x, rng=KeyedRandom(KEY))
    assert reports.min() >= 0
    assert reports.max() < k
    kept = np.count_nonzero(reports == x)
    assert kept == k if epsilon == 700.0 else kept < 20


def test_bits_at_the_least_and_the_largest_loss():
    x = np.arange(10_000) % 2 == 0
    sure, blind = local.BinaryResponse(700.0), local.BinaryResponse(2.0**-20)
    assert np.array_equal(sure.privatize(x, rng=KeyedRandom(KEY)), x)
    estimate = sure.estimate(sure.privatize(x))
    assert estimate.value == 0.5
    assert sure.estimate(np.ones(10, bool)).stderr < 1e-150
    assert math.isfinite(blind.estimate(blind.privatize(x)).value)
    for epsilon in (2.0**-20, 700.0):
        bounded = local.BoundedMean(epsilon, -1e300, 1e300)
        found = bounded.estimate(bounded.privatize(np.where(x, 1e300, -1e300)))
        assert math.isfinite(found.value)
        assert np.isfinite(found.interval()).all()
