"""Mechanisms as experiments: their matrices are the laws, their ε and δ are the claims; broken twins have others."""

from __future__ import annotations

import itertools
import math
import operator

import mpmath
import numpy as np
import pytest

from dpcore import local, mechanisms, selection
from dpcore.blackwell import Experiment, from_mechanism, is_sufficient
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local import LocalDiscreteGaussian, LocalDiscreteLaplace
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE
from support.selection_laws import argmax_law, largest_log_ratio, moves, peeling_law, permute_and_flip_law, units

EPSILONS = [2.0**-20, 0.1, 1.0, 3.0, 20.0]
CHANNELS = {
    "binary": local.BinaryResponse,
    "kary": lambda e: local.KaryResponse(e, k=7),
    "unary": lambda e: local.UnaryEncoding(e, k=5),
    "rappor": lambda e: local.UnaryEncoding(e, k=5, method="symmetric"),
    "subset": lambda e: local.SubsetSelection(e, k=7),
    "hadamard": lambda e: local.HadamardResponse(e, k=6),
    "bounded": lambda e: local.BoundedMean(e, -1.0, 3.0),
    "table": lambda e: local.BinaryChannel(e, [0.3, -2.0, 2.0, 0.0]),
}


# ε and δ are what is claimed


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", CHANNELS)
def test_channels_have_the_epsilon_that_they_claim(name, epsilon):
    mechanism = CHANNELS[name](epsilon)
    experiment = from_mechanism(mechanism)
    assert abs(experiment.epsilon() - mechanism.privacy.epsilon) <= 1e-12 * max(1.0, epsilon)
    assert experiment.satisfies(epsilon)
    assert not experiment.satisfies(epsilon - 1e-11 * max(1.0, epsilon))


def test_a_callable_and_a_hash_function_have_it_too():
    callable_channel = local.BinaryChannel(1.0, np.sin, bound=1.0)
    points = [-math.pi / 2, 0.0, 0.5, math.pi / 2]
    experiment = from_mechanism(callable_channel, points)
    assert experiment.states == tuple(points)
    assert experiment.epsilon() == pytest.approx(1.0, abs=1e-12)
    hashing = local.LocalHashing(2.0, k=9)
    assert from_mechanism(hashing, seed=5 * 2**31 + 77).epsilon() == pytest.approx(2.0, abs=1e-12)
    some = from_mechanism(local.KaryResponse(1.0, k=9), [3, 5])
    assert some.states == (3, 5)
    assert some.matrix.shape == (2, 9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_clamped_discrete_laplace_has_the_epsilon_that_it_claims(epsilon, sensitivity):
    mechanism = DiscreteLaplace(epsilon, sensitivity)
    experiment = from_mechanism(mechanism, range(8), outputs=(-4, 9))
    neighbours = [(x, y) for x, y in itertools.combinations(range(8), 2) if y - x <= sensitivity]
    assert experiment.epsilon(neighbours=neighbours) == pytest.approx(epsilon, abs=1e-12)
    assert experiment.epsilon() > epsilon
    bounded = from_mechanism(LocalDiscreteLaplace(epsilon, 2, 6))
    assert bounded.states == bounded.outcomes == (2, 3, 4, 5, 6)
    assert bounded.epsilon() == pytest.approx(epsilon, abs=1e-12)
    assert from_mechanism(LocalDiscreteLaplace(epsilon, 2, 6), [-5, 2]).epsilon() == 0.0  # inputs are clamped


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-6), (4.0, 1e-9)])
def test_clamped_discrete_gaussian_has_the_delta_that_it_claims(epsilon, delta):
    mechanism = DiscreteGaussian(epsilon, delta, 1, method="exact")
    reach = math.ceil(39 * mechanism.scale)
    wide = from_mechanism(mechanism, [0, 1], outputs=(-reach, reach))
    assert wide.delta(epsilon) <= delta
    assert wide.delta(epsilon) == pytest.approx(delta, rel=1e-6)  # calibrated to the last bits, and nothing is clamped
    narrow = from_mechanism(mechanism, range(4))
    assert narrow.satisfies(epsilon, delta, neighbours=[(0, 1), (1, 2), (2, 3)])
    assert not wide.satisfies(epsilon, delta * 0.999)
    assert from_mechanism(LocalDiscreteGaussian(epsilon, delta, 0, 3)).satisfies(epsilon, delta)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (selection.exponential_mechanism, {}),
        (selection.permute_and_flip, {}),
        (selection.noisy_argmax, {}),
        (selection.noisy_argmax, {"noise": "gumbel"}),
        (selection.exponential_mechanism, {"relation": "add_remove", "monotone": True}),
        (selection.noisy_argmax, {"relation": "add_remove", "monotone": True}),
    ],
)
def test_selections_keep_their_claim(function, parameters):
    """Largest loss over the neighbours of some scores: never above ε, and near it where the neighbours pull apart."""
    rows = []
    for scores in ([0.0, 0.0, 0.0], [0.0, 1.0, 5.0], [12.0, 0.0, 0.0], [0.0, 0.0, 9.0]):
        rows += [scores, *([s + m for s, m in zip(scores, move, strict=True)] for move in moves(3, 1.0, together="monotone" in parameters))]
    experiment = from_mechanism(function, rows, epsilon=1.5, sensitivity=1.0, **parameters)
    step = len(rows) // 4
    neighbours = [(first, other) for first in range(0, len(rows), step) for other in range(first + 1, first + step)]
    loss = experiment.epsilon(neighbours=neighbours)
    assert loss <= 1.5 + 1e-12
    assert loss > 1.2


@pytest.mark.parametrize(
    ("method", "parameters", "claim"),
    [
        ("gumbel", {}, (2.0, 0.0)),
        ("peeling", {}, (2.0, 0.0)),
        ("gumbel", {"delta": 1e-3}, (2.0, 1e-3)),
        ("peeling", {"delta": 1e-3}, (2.0, 1e-3)),
    ],
)
def test_top_s_has_the_law_and_the_claim(method, parameters, claim):
    scores = [0.0, 1.0, 3.0, 3.5]
    rows = [scores, *([s + m for s, m in zip(scores, move, strict=True)] for move in moves(4, 1.0, together=False))]
    experiment = from_mechanism(selection.top_s, rows, s=2, epsilon=2.0, sensitivity=1.0, method=method, **parameters)
    assert experiment.satisfies(*claim, neighbours=[(0, i) for i in range(1, len(rows))])
    scale = selection.top_s(scores, 2.0, 1.0, s=2, method=method, **parameters).scale
    law = peeling_law("gumbel" if method == "gumbel" else "laplace", units(scores, scale), 2)
    exact = np.array([float(law[sequence]) for sequence in experiment.outcomes])
    assert experiment.matrix[0] == pytest.approx(exact, rel=1e-11)


def test_what_carries_a_channel_is_converted():
    class Found:
        channel = local.BinaryChannel(1.0, [1.0, -0.5])

    assert np.array_equal(from_mechanism(Found()).matrix, Found.channel.channel())


def differ_once(experiment):
    states = experiment.states
    return [(a, b) for a, b in itertools.combinations(range(len(states)), 2) if sum(map(operator.ne, states[a], states[b])) == 1]


def test_a_sequential_protocol_is_as_private_as_each_of_its_choices():
    """Steinberger (2019), Korollar 1.10, in its right form: if every conditional channel is ε-private, so is the whole in each record."""

    def choose(reports):
        table = local.BinaryChannel(0.7, [0.2, -1.0, 1.0])
        return local.KaryResponse(1.0, k=3) if sum(reports) % 2 else table

    experiment = from_mechanism(local.SequentialChannel(1.0, choose), [0, 1, 2], n=3)
    assert experiment.matrix.shape[0] == 27
    assert experiment.epsilon(neighbours=differ_once(experiment)) == pytest.approx(1.0, abs=1e-12)
    assert experiment.epsilon() > 2
    # the law of reports, by the definition
    first, second = local.BinaryChannel(0.7, [0.2, -1.0, 1.0]).channel(), local.KaryResponse(1.0, k=3).channel()
    state, path = experiment.states.index((2, 0, 1)), experiment.outcomes.index((True, 2, True))
    assert experiment.matrix[state, path] == pytest.approx(first[2, 1] * second[0, 2] * second[1, 1])
    numbers = from_mechanism(local.SequentialChannel(1.0, lambda r: local.BoundedMean(1.0, 0.0, 1.0)), [0.0, 0.5, 1.0], n=2)
    assert numbers.epsilon(neighbours=differ_once(numbers)) == pytest.approx(1.0, abs=1e-12)
    bits = from_mechanism(local.SequentialChannel(1.0, lambda r: local.BinaryResponse(0.5 + 0.25 * len(r))), [0, 1], n=3)
    assert bits.epsilon(neighbours=differ_once(bits)) == pytest.approx(1.0, abs=1e-12)


def test_a_table_lists_its_codes():
    table = local.BinaryChannel(1.0, [0.3, -2.0, 2.0])
    some = from_mechanism(table, [2, 1])
    assert some.states == (2, 1)
    assert np.array_equal(some.matrix, table.channel()[[2, 1]])


def test_a_broken_twin_has_more():
    for matrix, claim in [
        (local.KaryResponse(1.01, k=4).channel(), 1.0),
        (from_mechanism(DiscreteLaplace(1.0, 1), range(3)).matrix[::2], 1.0),
    ]:
        assert not Experiment(matrix).satisfies(claim)
    # half the noise
    experiment = from_mechanism(selection.permute_and_flip, [[0, 9, 0], [1, 8, 1]], epsilon=2.0, sensitivity=1.0)
    assert experiment.epsilon() > 1.0


# Matrices are the laws


@pytest.mark.parametrize(
    "scores", [[0.0], [0.0, 0.0], [1.0, 3.0], [0.0, 2.5, 2.5, -4.0], [0.0, 40.0, 39.5], [100.0, -30.0, 0.0, 7.0, 7.0, 8.25]]
)
@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace"])
def test_selections_have_the_probabilities_of_the_definition(noise, scores):
    experiment = from_mechanism(selection.noisy_argmax, [scores], epsilon=1.0, sensitivity=1.0, noise=noise)
    law = argmax_law(noise, units(scores, 2.0)) if noise != "exponential" else permute_and_flip_law(units(scores, 2.0))
    exact = np.array([float(law[r,]) for r in range(len(scores))])
    assert experiment.matrix[0] == pytest.approx(exact, rel=1e-12)


def test_a_law_of_many_scores_sums_to_one():
    from dpcore.blackwell import _laws

    scores = np.random.default_rng(1).normal(scale=5, size=(2, 60))
    for noise in ("exponential", "laplace"):
        assert _laws.argmax_rows(noise, scores, 1.0).sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-13)


def test_the_loss_of_a_selection_is_that_of_the_slow_twin():
    scores = [0.0, 1.0, 3.0]
    rows = [scores, *([s + m for s, m in zip(scores, move, strict=True)] for move in moves(3, 1.0, together=False))]
    neighbours = [(0, i) for i in range(1, len(rows))]
    for noise in ("laplace", "gumbel", "exponential"):
        ours = from_mechanism(selection.noisy_argmax, rows, epsilon=1.0, sensitivity=1.0, noise=noise).epsilon(neighbours=neighbours)
        slow = largest_log_ratio(lambda s, noise=noise: argmax_law(noise, units(s, 2.0)), scores, 1.0, together=False)
        assert ours == pytest.approx(slow, abs=1e-12)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize("scale", [0.05, 0.7, 3.0, 50.0])
def test_integer_noise_has_the_probabilities_of_the_definition(kind, scale):
    from dpcore.blackwell import _laws

    inputs, (low, high) = np.array([-3, 0, 2, 11]), (-2, 6)
    ours = _laws.integer_rows(kind, scale, inputs, low, high)
    with mpmath.workdps(40):
        t = mpmath.mpf(scale)
        reach = math.ceil(60 * scale) + 20

        def weight(z):
            return mpmath.exp(-abs(z) / t) if kind == "discrete_laplace" else mpmath.exp(-mpmath.mpf(z * z) / (2 * t * t))

        total = mpmath.fsum(weight(z) for z in range(-reach, reach + 1))
        for row, x in enumerate(inputs.tolist()):
            mass = {y: mpmath.mpf(0) for y in range(low, high + 1)}
            for z in range(-reach, reach + 1):
                mass[min(max(x + z, low), high)] += weight(z) / total
            for column, y in enumerate(range(low, high + 1)):
                assert ours[row, column] == pytest.approx(float(mass[y]), rel=1e-11, abs=1e-280)


def test_reports_follow_their_experiment():
    """χ² of reports by the kernels against the rows, and against a row that is wrong by a little."""
    from scipy import stats

    n, mechanism = 200_000, DiscreteLaplace(0.7, 1)
    experiment = from_mechanism(mechanism, range(6))
    reports = np.clip(mechanism.release(np.full(n, 2), rng=KeyedRandom(bytes(32))), 0, 5)
    counts = np.bincount(reports, minlength=6)
    assert stats.chisquare(counts, n * experiment.matrix[2]).pvalue > ERROR_RATE
    wrong = from_mechanism(DiscreteLaplace(0.75, 1), range(6)).matrix[2]
    assert stats.chisquare(counts, n * wrong).pvalue < ERROR_RATE


# What they are good for


def test_the_geometric_mechanism_is_sufficient_for_one_of_less_epsilon():
    """Ghosh, Roughgarden and Sundararajan: less noise can be made into more; the converse has a decision that tells."""
    fine, coarse = (from_mechanism(DiscreteLaplace(epsilon, 1), range(8)) for epsilon in (1.0, 0.5))
    assert is_sufficient(fine, coarse).holds
    answer = is_sufficient(coarse, fine)
    assert answer.problem.risk_P > answer.problem.risk_Q + 0.01


def test_permute_and_flip_is_not_a_garbling_of_the_exponential_mechanism():
    scores = [[0, 0, 2], [0, 2, 0], [2, 0, 0], [1, 1, 1]]
    flip, exponential = (
        from_mechanism(f, scores, epsilon=2.0, sensitivity=1.0) for f in (selection.permute_and_flip, selection.exponential_mechanism)
    )
    assert not is_sufficient(exponential, flip).holds
    loss = np.array([[2 - s for s in row] for row in scores], float)
    assert flip.bayes_risk(loss, [0.25] * 4) < exponential.bayes_risk(loss, [0.25] * 4)


# Refusals


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: from_mechanism(mechanisms.Laplace(1.0, 1.0)), ParameterTypeError, "method `channel` .* got Laplace; dpcore.audit bounds"),
        (lambda: from_mechanism(local.KaryResponse), ParameterTypeError, "got KaryResponse"),
        (lambda: from_mechanism(selection.top_s, [[1.0]], epsilon=1.0, sensitivity=1.0), ParameterTypeError, "s is required"),
        (lambda: from_mechanism(selection.top_s, [[1.0]], s=2, epsilon=1.0, sensitivity=1.0), ParameterError, r"s must be in \[1, 1\]"),
        (
            lambda: from_mechanism(selection.top_s, [[0] * 50], s=9, epsilon=1.0, sensitivity=1.0),
            ParameterError,
            "at most 65536 sequences of indices",
        ),
        (
            lambda: from_mechanism(selection.top_s, [[1.0]], s=1, epsilon=0.1, delta=0.01, sensitivity=1.0, method="oneshot_laplace"),
            ParameterError,
            "method",
        ),
        (lambda: from_mechanism(local.SequentialChannel(1.0, lambda r: r), [0, 1]), ParameterTypeError, "n is required"),
        (lambda: from_mechanism(local.SequentialChannel(1.0, lambda r: r), [[0]], n=1), ParameterError, "inputs must be a vector"),
        (
            lambda: from_mechanism(local.SequentialChannel(1.0, lambda r: local.UnaryEncoding(1.0, k=3)), [0, 1], n=1),
            ParameterTypeError,
            "bits or codes",
        ),
        (
            lambda: from_mechanism(local.SequentialChannel(1.0, lambda r: local.KaryResponse(1.0, k=3)), [0, 3], n=1),
            ParameterError,
            "inputs must be codes",
        ),
        (
            lambda: from_mechanism(local.SequentialChannel(1.0, lambda r: local.KaryResponse(1.0, k=9)), range(9), n=9),
            ParameterError,
            "entries",
        ),
        (lambda: from_mechanism(3), ParameterTypeError, "got int"),
        (lambda: from_mechanism(local.LocalHashing(1.0, k=5)), ParameterTypeError, "seed is required"),
        (
            lambda: from_mechanism(local.KaryResponse(1.0, k=5), seed=3),
            ParameterTypeError,
            "seed is not a parameter of this mechanism; its parameters are: none",
        ),
        (lambda: from_mechanism(local.KaryResponse(1.0, k=5), [5]), ParameterError, r"inputs must be in \[0, 4\], got 5"),
        (lambda: from_mechanism(local.KaryResponse(1.0, k=5), [[0]]), ParameterError, "inputs must be a vector"),
        (lambda: from_mechanism(DiscreteLaplace(1.0, 1)), ParameterTypeError, "inputs are required"),
        (lambda: from_mechanism(DiscreteLaplace(1.0, 1), [0.5]), ParameterTypeError, "inputs"),
        (lambda: from_mechanism(DiscreteLaplace(1.0, 1), range(3), outputs=(3, 2)), ParameterError, r"outputs\[1\]"),
        (lambda: from_mechanism(DiscreteLaplace(1.0, 1), range(3), outputs=(0, 2**40)), ParameterError, "entries"),
        (lambda: from_mechanism(LocalDiscreteLaplace(1.0, 0, 2**40)), ParameterError, "entries"),
        (lambda: from_mechanism(DiscreteGaussian(1e-6, 1e-12, 1), range(3)), ParameterError, "at most 16777216 integers"),
        (lambda: from_mechanism(selection.permute_and_flip, [[1.0]], epsilon=1.0), ParameterTypeError, "sensitivity is required"),
        (lambda: from_mechanism(selection.permute_and_flip, [[1.0]], epsilon=0.0, sensitivity=1.0), ParameterError, "epsilon"),
        (
            lambda: from_mechanism(selection.permute_and_flip, [1.0], epsilon=1.0, sensitivity=1.0),
            ParameterError,
            "inputs must be a matrix",
        ),
        (
            lambda: from_mechanism(selection.noisy_argmax, [[0.0, 1e4]], epsilon=1.0, sensitivity=1.0),
            ParameterError,
            "within 600 scales of the noise",
        ),
    ],
)
def test_what_has_no_matrix_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
