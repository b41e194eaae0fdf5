"""Distances of distributions: every inequality of Steinberger (2019), Satz 2.4, 2.8, 2.9 and Korollar 2.10, and slow twins."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dpcore import local, minimax
from dpcore.errors import ParameterError, ParameterTypeError

CLOSE = 1e-12
"""Rounding of sums of a few terms of order 1."""
ROOT = 1e-7
"""Rounding under a square root, where the number itself is 0."""

WEIGHTS = st.one_of(st.just(0.0), st.floats(1e-3, 1.0), st.floats(-300.0, 0.0).map(lambda power: 10.0**power))


def normalised(weights):
    assume(max(weights) > 1e-3)
    masses = np.array(weights)
    return masses / masses.sum()


@st.composite
def pairs(draw, least=1, most=8):
    """Two distributions on equally many points: with zeros, with tiny masses, near each other or not."""
    size = draw(st.integers(least, most))
    p, q = (normalised(draw(st.lists(WEIGHTS, min_size=size, max_size=size))) for _ in range(2))
    share = draw(st.sampled_from([1.0, 1.0, 0.5, 1e-3, 1e-6, 0.0]))
    return p, p + share * (q - p)


@st.composite
def channels(draw, size, outcomes=None):
    """A channel with any number of outcomes, some of them impossible."""
    width = outcomes or draw(st.integers(2, 5))
    return np.stack([normalised(draw(st.lists(WEIGHTS, min_size=width, max_size=width))) for _ in range(size)])


@st.composite
def private_channels(draw, size, outcomes=None):
    """A channel all of whose outcomes are possible: Q(z|x) within a factor of some law of z, from nearly constant to far apart."""
    width = outcomes or draw(st.integers(2, 5))
    spread = draw(st.sampled_from([1e-3, 0.1, 1.0, 3.0]))
    rows = [draw(st.lists(st.floats(-spread, spread), min_size=width, max_size=width)) for _ in range(size)]
    matrix = np.exp(rows)
    return matrix / matrix.sum(axis=1, keepdims=True)


@given(pairs())
@example((np.array([1.0, 0.0]), np.array([0.0, 1.0])))
@example((np.array([0.5, 0.5]), np.array([0.5, 0.5])))
@example((np.array([1.0, 0.0]), np.array([1e-310, 1.0])))
@example((np.array([0.0, 0.0, 0.5, 0.5]), np.array([0.0, 0.0, 0.4999995, 0.5000005])))
def test_every_relation_of_satz_2_4(pair):
    p, q = pair
    kl, tv, hellinger = minimax.kl(p, q), minimax.tv(p, q), minimax.hellinger(p, q)
    affinity, testing = minimax.hellinger_affinity(p, q), minimax.testing_affinity(p, q)
    assert tv <= math.sqrt(kl / 2) + CLOSE  # (1)
    assert hellinger**2 == pytest.approx(2 * (1 - affinity), abs=CLOSE)  # (2)
    assert hellinger**2 / 2 <= tv + CLOSE  # (4)
    assert tv <= hellinger + CLOSE
    assert testing == pytest.approx(1 - tv, abs=CLOSE)  # (5)
    assert testing <= affinity + CLOSE  # (6)
    assert affinity <= math.sqrt(testing * max(2 - testing, 0.0)) + ROOT
    assert hellinger <= math.sqrt(kl) + CLOSE  # (7)


@pytest.mark.parametrize("share", [0.3, 3e-3, 4e-3, 1e-5, 1e-9, 1e-14])
def test_kl_keeps_its_digits_between_near_distributions(share):
    p = np.array([0.2, 0.3, 0.5])
    q = p + share * np.array([0.1, -0.04, -0.06])
    with mpmath.workdps(60):
        masses = [(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(p, q, strict=True)]
        exact = float(mpmath.fsum(a * mpmath.log(a / b) - a + b for a, b in masses))
    assert minimax.kl(p, q) == pytest.approx(exact, rel=1e-10)


@given(pairs(most=4), st.integers(1, 4))
def test_the_affinity_of_products_is_the_product(pair, n):
    products = [np.array([math.prod(masses) for masses in itertools.product(p, repeat=n)]) for p in pair]
    assert minimax.hellinger_affinity(*products) == pytest.approx(minimax.hellinger_affinity(*pair) ** n, abs=CLOSE)


@given(pairs())
def test_slow_twins(pair):
    p, q = pair
    both = list(zip(p.tolist(), q.tolist(), strict=True))
    assert minimax.tv(p, q) == pytest.approx(math.fsum(abs(a - b) for a, b in both) / 2, abs=CLOSE)
    # Aufgabe 2.3: the positive part, the negative part and half of the absolute values
    assert minimax.tv(p, q) == pytest.approx(math.fsum(max(a - b, 0.0) for a, b in both), abs=CLOSE)
    assert minimax.tv(p, q) == pytest.approx(max(sum(a - b for a, b in subset) for subset in subsets(both)), abs=CLOSE)
    assert minimax.hellinger_affinity(p, q) == pytest.approx(math.fsum(math.sqrt(a) * math.sqrt(b) for a, b in both), abs=CLOSE)
    assert minimax.hellinger(p, q) ** 2 == pytest.approx(math.fsum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in both), abs=CLOSE)
    if any(a > 0 and b == 0 for a, b in both):
        assert minimax.kl(p, q) == math.inf
    else:
        logarithms = math.fsum(a * (math.log(a) - math.log(b)) for a, b in both if a > 0)
        assert minimax.kl(p, q) == pytest.approx(logarithms, abs=1e-9)


def subsets(items):
    return itertools.chain.from_iterable(itertools.combinations(items, size) for size in range(len(items) + 1))


@given(pairs(most=5))
def test_testing_affinity_is_the_least_sum_of_errors_of_a_test(pair):
    p, q = pair
    least = min(p @ test + q @ (1 - test) for test in map(np.array, itertools.product([0.0, 1.0], repeat=len(p))))
    assert minimax.testing_affinity(p, q) == pytest.approx(least, abs=CLOSE)


@given(st.data())
def test_channels_contract_every_distance(data):
    p, q = data.draw(pairs(most=5))
    channel = data.draw(channels(len(p)))
    after = minimax.apply(channel, p), minimax.apply(channel, q)
    assert minimax.hellinger(*after) <= minimax.hellinger(p, q) + CLOSE  # Satz 2.8
    assert minimax.hellinger_affinity(p, q) <= minimax.hellinger_affinity(*after) + CLOSE
    assert minimax.tv(*after) <= minimax.tv(p, q) + CLOSE  # Aufgabe 2.5
    assert minimax.kl(*after) <= minimax.kl(p, q) + CLOSE
    assert minimax.testing_affinity(p, q) <= minimax.testing_affinity(*after) + CLOSE


@given(st.data())
def test_satz_2_9_private_channels_contract_the_divergences(data):
    p, q = data.draw(pairs(least=2, most=5))
    channel = data.draw(private_channels(len(p)))
    bound = minimax.contraction_bound(minimax.dp_level(channel), min(minimax.tv(p, q), 1.0), method="steinberger")
    after = minimax.apply(channel, p), minimax.apply(channel, q)
    assert minimax.kl(*after) + minimax.kl(*after[::-1]) <= bound * (1 + 1e-6) + 1e-14


@pytest.mark.parametrize(("epsilon", "share"), [(1e-4, 0.999), (1e-2, 0.97), (0.1, 0.7)])
def test_the_constant_of_satz_2_9_is_sharp_for_small_epsilon(epsilon, share):
    # Teeth for the test above: min(4, e^{2ε}) or (e^ε − 1)² any smaller would be violated by the binary response.
    channel = local.BinaryResponse(epsilon).channel()
    divergences = minimax.kl(*channel) + minimax.kl(*channel[::-1])
    of_satz = minimax.contraction_bound(epsilon, 1.0, method="steinberger")
    assert share * of_satz <= divergences <= minimax.contraction_bound(epsilon, 1.0) <= of_satz


@pytest.mark.parametrize(
    ("epsilon", "tv", "expected"),
    [(0.0, 1.0, 0.0), (math.log(2), 1.0, 4.0), (math.log(2), 0.5, 1.0), (math.log(1.5), 1.0, 0.5625), (math.log(11), 0.1, 4.0)],
)
def test_contraction_bound_known_values(epsilon, tv, expected):
    found = minimax.contraction_bound(epsilon, tv, method="steinberger")
    assert expected <= found == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(("E", "expected"), [(1.25, 0.05), (1.5, 1 / 6), (2.0, 0.5), (4.0, 3.0), (10.0, 13.5)])
def test_contraction_of_chi_squared_known_values(E, expected):
    # (E − 1)²/E up to E = 2, and 2(E − 1)²/(E + 2) beyond
    assert expected <= minimax.contraction_bound(math.log(E), 1.0) * (1 + 1e-15) == pytest.approx(expected, rel=1e-12)
    assert minimax.contraction_bound(math.log(E), 0.5) == pytest.approx(expected / 4, rel=1e-12)


def test_contraction_bound_takes_stacks_and_leaves_the_range_quietly():
    assert minimax.contraction_bound(700.0, [0.0, 1.0], method="steinberger").tolist() == [0.0, math.inf]
    assert minimax.contraction_bound(700.0, [0.0, 1.0])[1] < math.inf
    assert minimax.contraction_bound(1.0, np.ones((2, 3))).shape == (2, 3)
    with pytest.raises(ParameterError, match="method"):
        minimax.contraction_bound(1.0, 0.5, method="hellinger")


def interactive_law(masses, tree):
    """The law of the reports of a sequentially interactive channel: tree maps a history to the next record's channel."""
    law = {(): 1.0}
    for p in masses:
        law = {
            (*history, report): mass * share
            for history, mass in law.items()
            for report, share in enumerate(minimax.apply(tree[history], p).tolist())
        }
    return np.array([law[history] for history in sorted(law)])


@given(st.data())
def test_korollar_2_10_sequentially_interactive_channels(data):
    n = data.draw(st.integers(1, 3))
    size = data.draw(st.integers(2, 3))
    records = [data.draw(pairs(least=size, most=size)) for _ in range(n)]
    histories = [history for length in range(n) for history in itertools.product(range(2), repeat=length)]
    tree = {history: data.draw(private_channels(size, outcomes=2)) for history in histories}
    epsilon = max(map(minimax.dp_level, tree.values()))
    distances = [min(minimax.tv(p, q), 1.0) for p, q in records]
    bound = float(np.sum(minimax.contraction_bound(epsilon, distances, method="steinberger")))
    laws = [interactive_law([record[side] for record in records], tree) for side in (0, 1)]
    slack = 1e-6 * bound + 1e-13
    assert minimax.kl(*laws) <= bound + slack
    assert minimax.kl(*laws) + minimax.kl(*laws[::-1]) <= 2 * bound + slack
    # (2.3.5), with Pinsker's inequality
    factor = min(math.sqrt(2), math.exp(epsilon) / math.sqrt(2)) * math.expm1(epsilon)
    assert minimax.tv(*laws) <= factor * math.sqrt(sum(distance**2 for distance in distances)) * (1 + 1e-6) + 1e-13


def test_dp_level_of_every_finite_mechanism_is_its_epsilon():
    for mechanism in (
        local.BinaryResponse(0.7),
        local.KaryResponse(0.7, k=9),
        local.UnaryEncoding(0.7, k=4),
        local.SubsetSelection(0.7, k=5),
        local.HadamardResponse(0.7, k=6),
        local.BinaryChannel(0.7, [1.0, -1.0, 0.25]),
        local.BoundedMean(0.7, 0.0, 1.0),
    ):
        assert minimax.dp_level(mechanism) == pytest.approx(0.7, abs=1e-12)


def test_dp_level_extremes():
    assert minimax.dp_level([[0.25, 0.75], [0.25, 0.75]]) == 0.0
    assert minimax.dp_level([[1.0, 0.0], [1.0, 0.0]]) == 0.0
    assert minimax.dp_level([[1.0, 0.0], [0.9, 0.1]]) == math.inf
    assert minimax.dp_level([[1e-310, 1.0], [0.5, 0.5]]) == pytest.approx(math.log(0.5) - math.log(1e-310))


@given(st.data())
def test_dp_level_slow_twin(data):
    channel = data.draw(private_channels(data.draw(st.integers(1, 4))))
    ratios = (a / b for column in channel.T for a in column for b in column)
    assert minimax.dp_level(channel) == pytest.approx(math.log(max(ratios)), abs=1e-12)


@pytest.mark.parametrize("name", ["kl", "tv", "hellinger", "hellinger_affinity", "testing_affinity"])
def test_stacks_broadcast_and_agree_with_single_pairs(name):
    distance = getattr(minimax, name)
    generator = np.random.default_rng(4)
    p, q = generator.dirichlet(np.ones(5), size=(3, 1)), generator.dirichlet(np.ones(5), size=(1, 4))
    found = distance(p, q)
    assert found.shape == (3, 4)
    assert found.dtype == np.float64
    for i, j in np.ndindex(3, 4):
        single = distance(p[i, 0], q[0, j])
        assert type(single) is float
        assert single == found[i, j]
    strided = np.asfortranarray(np.repeat(p, 4, axis=1))[:, ::2]
    assert (distance(strided, q[:, ::2]) == found[:, ::2]).all()
    assert distance(np.float32([0.5, 0.5]), [1, 0]) == distance([0.5, 0.5], [1.0, 0.0])


def test_apply_takes_stacks_and_mechanisms():
    mechanism = local.KaryResponse(1.0, k=3)
    p = np.random.default_rng(5).dirichlet(np.ones(3), size=(2, 4))
    found = minimax.apply(mechanism, p)
    for index in np.ndindex(2, 4):
        slow = [sum(p[index][x] * mechanism.channel()[x, z] for x in range(3)) for z in range(3)]
        assert found[index] == pytest.approx(slow, abs=1e-15)


@pytest.mark.parametrize("name", ["kl", "tv", "hellinger", "hellinger_affinity", "testing_affinity"])
@pytest.mark.parametrize("bad", [[0.5, 0.6], [-0.1, 1.1], [math.nan, 1.0], [math.inf, 0.0], 0.5, [], [[0.5, 0.5], [0.5, 0.4]]])
def test_what_is_no_distribution_is_refused(name, bad):
    with pytest.raises(ParameterError, match=r"\bp\b"):
        getattr(minimax, name)(bad, [0.5, 0.5])
    with pytest.raises(ParameterError, match=r"\bq\b"):
        getattr(minimax, name)([0.5, 0.5], bad)


def test_refusals_name_the_parameter_and_no_mass():
    with pytest.raises(ParameterError, match=r"p must have masses that sum to 1 .* at index \(1,\)") as raised:
        minimax.tv([[0.5, 0.5], [0.123456, 0.5]], [0.5, 0.5])
    assert "0.123456" not in str(raised.value)
    with pytest.raises(ParameterError, match="the same number of masses"):
        minimax.kl([1.0], [0.5, 0.5])
    with pytest.raises(ParameterError, match="broadcast"):
        minimax.kl(np.ones((2, 1)), np.ones((3, 1)))
    with pytest.raises(ParameterTypeError, match="masked"):
        minimax.tv(np.ma.MaskedArray([0.5, 0.5]), [0.5, 0.5])
    with pytest.raises(ParameterTypeError, match="dtypes"):
        minimax.tv(["a", "b"], [0.5, 0.5])
    with pytest.raises(ParameterError, match="3 rows"):
        minimax.apply(np.eye(2), [0.2, 0.3, 0.5])
    with pytest.raises(ParameterError, match="matrix"):
        minimax.dp_level([0.5, 0.5])
    with pytest.raises(ParameterTypeError, match="seed"):
        minimax.dp_level(local.LocalHashing(1.0, k=8))
    for epsilon in (-0.1, 701.0, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            minimax.contraction_bound(epsilon, 0.5)
    for distance in (-0.1, 1.1, math.nan):
        with pytest.raises(ParameterError, match="tv"):
            minimax.contraction_bound(1.0, distance)
