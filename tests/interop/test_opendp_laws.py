"""What dpcore's measurements release through OpenDP has the exact law, and a wrong measurement is found out.

Error rate: a right measurement fails one test with probability below 10^-6.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from dpcore.interop import opendp as fast
from support.kernels import Law
from support.laws import ERROR_RATE, count, integers_law, interval_masses, p_value
from support.opendp import FEATURES, array_space, atoms, dp, features, list_space, number_space, score_space

SIZE = 200_000
SCALE = 3.0
EDGES = np.concatenate([[-np.inf], np.linspace(-6, 6, 121), [np.inf]])
MAKERS = {"laplace": fast.make_laplace, "gaussian": fast.make_gaussian}
MEASURES = {"exponential": dp.max_divergence(), "gumbel": dp.zero_concentrated_divergence()}


@pytest.fixture(autouse=True)
def enabled():
    with features(*FEATURES):
        yield


def fit_of_floats(noise, released, center):
    units = (np.asarray(released, np.float64) - center) / SCALE
    counts = np.histogram(units, EDGES)[0]
    return p_value(counts, interval_masses(EDGES, noise))


def fit_of_integers(noise, released, center):
    law = Law(f"discrete_{noise}", SCALE)
    return p_value(count(np.asarray(released).astype(np.int64) - center, 60), integers_law(law, 60))


@pytest.mark.parametrize("noise", MAKERS)
@pytest.mark.parametrize("kind", ["f64", "f32"])
@pytest.mark.parametrize("as_array", [False, True])
def test_lists_of_floats(noise, kind, as_array):
    space, value = list_space(noise, kind), np.full(SIZE, 1.25, {"f64": np.float64, "f32": np.float32}[kind])
    assert fit_of_floats(noise, MAKERS[noise](*space, SCALE, as_array=as_array)(value), 1.25) > ERROR_RATE
    assert fit_of_floats(noise, MAKERS[noise](*space, 1.05 * SCALE, as_array=as_array)(value), 1.25) < ERROR_RATE


@pytest.mark.parametrize("noise", MAKERS)
@pytest.mark.parametrize("kind", ["i32", "u32", "i64", "u64"])
def test_lists_of_integers(noise, kind):
    space, center = list_space(noise, kind), 1000
    value = np.full(SIZE, center, {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}[kind])
    assert fit_of_integers(noise, MAKERS[noise](*space, SCALE)(value), center) > ERROR_RATE
    assert fit_of_integers(noise, MAKERS[noise](*space, 1.05 * SCALE)(value), center) < ERROR_RATE


@pytest.mark.parametrize("noise", MAKERS)
def test_arrays(noise):
    shape = (SIZE // 100, 100)
    floats = MAKERS[noise](*array_space(shape, noise), SCALE)(np.full(shape, -2.0))
    assert floats.shape == shape
    assert fit_of_floats(noise, floats.ravel(), -2.0) > ERROR_RATE
    integers = MAKERS[noise](*array_space(shape, noise, "i64"), SCALE)(np.full(shape, 5))
    assert fit_of_integers(noise, integers.ravel(), 5) > ERROR_RATE
    wrong = MAKERS[noise](*array_space(shape, noise, "i64"), 1.05 * SCALE)(np.full(shape, 5))
    assert fit_of_integers(noise, wrong.ravel(), 5) < ERROR_RATE


@pytest.mark.parametrize("noise", MAKERS)
def test_single_numbers(noise):
    measurement = MAKERS[noise](*number_space("i64"), SCALE)
    assert fit_of_integers(noise, [measurement(5) for _ in range(3000)], 5) > ERROR_RATE
    measurement = MAKERS[noise](*number_space(), SCALE)
    assert fit_of_floats(noise, [measurement(5.0) for _ in range(3000)], 5.0) > ERROR_RATE


@pytest.mark.parametrize("noise", MAKERS)
def test_opendp_s_own_noise_on_integers_has_the_same_law(noise):
    native = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}[noise](*list_space(noise, "i64"), SCALE)
    assert fit_of_integers(noise, native(np.full(20_000, 7)), 7) > ERROR_RATE


SCORES = [1.0, 0.0, 2.5, 2.0]


def pick_law(noise, scores, scale):
    """P(index) of one choice: softmax for Gumbel noise; for exponential noise permute-and-flip, by all orders."""
    weights = [math.exp((score - max(scores)) / scale) for score in scores]
    if noise == "gumbel":
        return [weight / sum(weights) for weight in weights]
    law = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for index in order:
            law[index] += left * weights[index] / len(orders)
            left *= 1 - weights[index]
    return law


def sequence_law(noise, scores, scale, k):
    """P(indices in their order): rounds, each without what was chosen before."""
    law = {}
    for chosen in itertools.permutations(range(len(scores)), k):
        probability, left = 1.0, list(range(len(scores)))
        for index in chosen:
            probability *= pick_law(noise, [scores[i] for i in left], scale)[left.index(index)]
            left.remove(index)
        law[chosen] = probability
    return law


def fit_of_choices(measurement, law, draws=6000, scores=SCORES):
    seen = Counter(tuple(np.atleast_1d(measurement(scores)).tolist()) for _ in range(draws))
    assert set(seen) <= set(law)
    outcomes = sorted(law, key=law.get, reverse=True)
    return p_value(np.array([seen[outcome] for outcome in outcomes]), np.array([law[outcome] for outcome in outcomes]))


@pytest.mark.parametrize("noise", MEASURES)
@pytest.mark.parametrize("negate", [False, True])
def test_noisy_max(noise, negate):
    wanted = [-score for score in SCORES] if negate else SCORES
    law = sequence_law(noise, wanted, 1.0, 1)
    assert fit_of_choices(fast.make_noisy_max(*score_space(), MEASURES[noise], 1.0, negate), law) > ERROR_RATE
    assert fit_of_choices(fast.make_noisy_max(*score_space(), MEASURES[noise], 0.7, negate), law) < ERROR_RATE
    other = {"exponential": "gumbel", "gumbel": "exponential"}[noise]
    assert fit_of_choices(fast.make_noisy_max(*score_space(), MEASURES[other], 1.0, negate), law) < ERROR_RATE


@pytest.mark.parametrize("noise", MEASURES)
def test_noisy_top_k(noise):
    law = sequence_law(noise, SCORES, 1.0, 2)
    assert fit_of_choices(fast.make_noisy_top_k(*score_space(), MEASURES[noise], 2, 1.0), law) > ERROR_RATE
    assert fit_of_choices(fast.make_noisy_top_k(*score_space(), MEASURES[noise], 2, 0.7), law) < ERROR_RATE


@pytest.mark.parametrize("noise", MEASURES)
def test_opendp_s_own_choices_have_the_same_law(noise):
    for k in (1, 2):
        law = sequence_law(noise, SCORES, 1.0, k)
        assert fit_of_choices(dp.m.make_noisy_top_k(*score_space(), MEASURES[noise], k, 1.0), law) > ERROR_RATE


def test_responses_of_bools():
    space, value = (dp.vector_domain(dp.atom_domain(T=bool)), dp.hamming_distance()), np.arange(SIZE) % 4 == 0
    for p, claimed, fits in [(0.75, 0.75, True), (0.5, 0.5, True), (0.76, 0.75, False)]:
        kept = np.asarray(fast.make_randomized_response_bool(*space, p)(value)) == value
        # by place and by record, so that answers may not depend on either
        counts = np.array([np.sum(kept[part]) for part in (value, ~value)] + [np.sum(~kept[part]) for part in (value, ~value)])
        law = np.array([claimed / 4, 3 * claimed / 4, (1 - claimed) / 4, 3 * (1 - claimed) / 4])
        assert (p_value(counts, law) > ERROR_RATE) == fits
    array = dp.numpy.arrayd_domain(shape=(SIZE,), T=bool), dp.hamming_distance()
    kept = fast.make_randomized_response_bool(*array, 0.9)(value) == value
    assert p_value(np.array([kept.sum(), SIZE - kept.sum()]), np.array([0.9, 0.1])) > ERROR_RATE
    one = fast.make_randomized_response_bool(dp.atom_domain(T=bool), dp.discrete_distance(), 0.8)
    truths = sum(one(True) for _ in range(3000))
    assert p_value(np.array([truths, 3000 - truths]), np.array([0.8, 0.2])) > ERROR_RATE


def test_responses_of_categories():
    names = ["a", "b", "c", "d"]
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.hamming_distance()
    measurement, n = fast.make_randomized_response(*space, names, 0.6), 20_000
    law = np.array([0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3])
    seen = Counter(measurement(["b"] * n))
    assert p_value(np.array([seen[name] for name in names]), law) > ERROR_RATE
    seen = Counter(fast.make_randomized_response(*space, names, 0.63)(["b"] * n))
    assert p_value(np.array([seen[name] for name in names]), law) < ERROR_RATE
    for p, value in [(0.6, "unknown"), (1.0, "unknown"), (0.25, "b")]:
        seen = Counter(fast.make_randomized_response(*space, names, p)([value] * n))
        assert p_value(np.array([seen[name] for name in names]), np.full(4, 0.25)) > ERROR_RATE
    numbers = dp.numpy.arrayd_domain(shape=(n,), T="i32"), dp.hamming_distance()
    codes = fast.make_randomized_response(*numbers, [7, 8, 9, 10], 0.6)(np.full(n, 8, np.int32))
    assert p_value(np.bincount(codes - 7, minlength=4), law) > ERROR_RATE


def test_draws_of_the_exponential_mechanism():
    space = dp.vector_domain(atoms()), dp.change_one_distance()
    records = [0.25] * 3 + [0.75]
    # One draw in one of two bins: the score is ⌈4·|F_x(1/2) − F_z(1/2)|⌉, 1 for a draw on the left and 3 for one on the right.
    left, right = math.exp(-0.5), math.exp(-1.5)
    law = np.array([left, right]) / (left + right)
    for epsilon, fits in [(1.0, True), (2.0, False)]:
        measurement = fast.make_ks_exponential(*space, epsilon, bounds=(0, 1), draws=1, bins=2)
        drawn = np.array([measurement(records)[0] for _ in range(2000)])
        assert (p_value(np.histogram(drawn, [0, 0.5, 1])[0], law) > ERROR_RATE) == fits
