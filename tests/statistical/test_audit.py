"""Audits find what is broken and pass what is ours. Error rate 10^-6 each; keyed, so runs repeat.

`support/broken.py` holds the broken mechanisms. Ours must not only pass: where a pair of inputs attains ε, the audit must come close to it,
or its silence would mean nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import Privacy, inference, local, mechanisms, minimax, noise, selection
from dpcore.audit import AuditResult, audit, repeat
from dpcore.audit._events import CAUTION, Feature, Partition, best_candidate
from dpcore.audit.lower_bound import loss_bound
from dpcore.blackwell import Experiment
from dpcore.testing import KeyedRandom
from support.broken import BROKEN, generator, winners
from support.kernels import KEY, Array

ERROR_RATE = 1e-6
N = 300_000
CALLS = 5_000
"""Runs of functions that are called once for each."""


def keyed_audit(mechanism: Any, x0: Any, x1: Any, **options: Any) -> AuditResult:
    return audit(mechanism, x0, x1, confidence=1 - ERROR_RATE, rng=KeyedRandom(KEY), **options)


# What is broken


@pytest.mark.some(2)
@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_an_audit_catches_what_is_broken(broken):
    found = keyed_audit(broken.run, broken.x0, broken.x1, privacy=broken.privacy, runs=broken.n)
    assert found.refuted is True
    assert found.epsilon_lower > broken.at_least > broken.privacy.epsilon


# What is ours


def half(x: Array) -> Array:
    return x / 2


def choose(reports: Any) -> Any:
    return local.KaryResponse(1.0, k=3) if reports and reports[-1] else local.BinaryResponse(1.0)


def packed(x: bool, size: int, rng: Any) -> Array:
    bits = np.packbits(np.full(size, x), bitorder="little")
    return np.unpackbits(local.BinaryResponse(1.0).privatize_packed(bits, n=size, rng=rng), bitorder="little")[:size]


def unary(epsilon: float, variant: str) -> local.UnaryEncoding:
    return local.UnaryEncoding(epsilon, k=10, method=variant)  # type: ignore[arg-type]


NOISE = {
    "Laplace": (mechanisms.Laplace(1.0, 1.0), 0.0, 1.0, 0.95),
    "Laplace, small ε": (mechanisms.Laplace(0.1, 3.0), 1 / 3, 3 + 1 / 3, 0.05),
    "Laplace, large ε": (mechanisms.Laplace(4.0, 0.7), -0.2, 0.5, 3.8),
    "Laplace, vector": (mechanisms.Laplace(1.0, 2.0), [0.0, 0.0], [1.0, -1.0], 0.9),
    "Laplace, many answers": (mechanisms.Laplace(1.0, 1.0), np.zeros((5, 20)), np.full((5, 20), 0.01), 0.0),
    "Gaussian": (mechanisms.Gaussian(1.0, 1e-2, 1.0), 0.0, 1.0, 0.8),
    "Gaussian, classical": (mechanisms.Gaussian(1.0, 1e-2, 1.0, method="classical"), 0.1, 1.1, 0.4),
    "Gaussian, vector": (mechanisms.Gaussian(2.0, 1e-3, 1.0), [0.0, 0.0], [0.6, 0.8], 1.0),
    "discrete Laplace": (mechanisms.DiscreteLaplace(1.0, 1), 7, 8, 0.95),
    "discrete Laplace, wide": (mechanisms.DiscreteLaplace(1.0, 10**6), 0, 10**6, 0.95),
    "discrete Laplace, vector": (mechanisms.DiscreteLaplace(1.0, 2), [0, 0], [1, 1], 0.9),
    "discrete Gaussian": (mechanisms.DiscreteGaussian(1.0, 1e-2, 1), 3, 4, 0.3),
    "discrete Gaussian, exact": (mechanisms.DiscreteGaussian(1.0, 1e-2, 1, method="exact"), 3, 4, 0.8),
}
LOCAL = {
    "binary": (local.BinaryResponse(1.0), False, True, 0.95),
    "binary, large ε": (local.BinaryResponse(6.0), False, True, 5.5),
    "bounded mean": (local.BoundedMean(1.0, -1.0, 3.0), -1.0, 3.0, 0.95),
    "bounded mean, clamped": (local.BoundedMean(1.0, -1.0, 3.0, missing=0.0), math.nan, 1e300, 0.2),
    "channel of a table": (local.BinaryChannel(1.0, [0.0, 1.0, -1.0]), 1, 2, 0.95),
    "channel of a function": (local.BinaryChannel(1.0, half, bound=1.0), -2.0, 9.0, 0.95),
    "channel of a truncated moment": (minimax.truncated_moment(1.0, n=1000, kappa=2.0, C=1.0).channel, -50.0, 50.0, 0.95),
    "Laplace": (local.LocalLaplace(1.0, 0.0, 1 / 3), 0.0, 5.0, 0.95),
    "Gaussian": (local.LocalGaussian(1.0, 1e-2, 0.0, 0.1), 0.0, 0.1, 0.8),
    "discrete Laplace": (local.LocalDiscreteLaplace(1.0, 0, 20), -5, 20, 0.95),
    "discrete Gaussian": (local.LocalDiscreteGaussian(1.0, 1e-2, 0, 2), 0, 2, 0.8),
    "k-ary": (local.KaryResponse(1.0, k=5), 0, 3, 0.9),
    "k-ary, many": (local.KaryResponse(2.0, k=5000), 17, 4000, 0.0),
    "unary, optimal": (unary(1.0, "optimal"), 1, 9, 0.9),
    "unary, symmetric": (unary(1.0, "symmetric"), 1, 9, 0.9),
    "unary, wide": (local.UnaryEncoding(1.0, k=500), 1, 499, 0.9),
    "subset": (local.SubsetSelection(1.0, k=10), 0, 7, 0.9),
    "hashing": (local.LocalHashing(1.0, k=1000), 3, 991, 0.9),
    "hashing, unknown": (local.LocalHashing(1.0, k=1000, unknown=4), 3, 10**9, 0.9),
    "Hadamard": (local.HadamardResponse(1.0, k=100), 3, 88, 0.9),
}


def check(mechanism: Any, x0: Any, x1: Any, at_least: float, **options: Any) -> None:
    found = keyed_audit(mechanism, x0, x1, **options)
    assert found.refuted is False, found
    assert found.epsilon_lower >= at_least, found


@pytest.mark.some(4)
@pytest.mark.parametrize(("mechanism", "x0", "x1", "at_least"), NOISE.values(), ids=NOISE)
def test_noise_passes(mechanism, x0, x1, at_least):
    n = N if np.size(x0) < 10 else N // 50
    check(mechanism, x0, x1, at_least, runs=n)


@pytest.mark.some(14)
@pytest.mark.parametrize(("mechanism", "x0", "x1", "at_least"), LOCAL.values(), ids=LOCAL)
def test_local_mechanisms_pass(mechanism, x0, x1, at_least):
    check(mechanism, x0, x1, at_least, runs=N)


def test_packed_bits_pass():
    check(packed, False, True, 0.95, runs=N, privacy=Privacy(1.0))


@pytest.mark.long
def test_sequential_mechanisms_pass():
    check(local.SequentialChannel(1.0, choose), [0, 1, 1], [1, 1, 1], 0.6, runs=CALLS)
    check(local.SequentialQuantile(1.0, 0.0, 1.0, q=0.5), [0.2, 0.9, 0.3], [0.2, 0.1, 0.3], 0.6, runs=2 * CALLS)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_on_the_finest_grid_passes(kind):
    delta = 0.0 if kind == "laplace" else 1e-2

    def run(x: float, size: int, rng: Any) -> Array:
        return getattr(noise, kind)(np.full(size, x), 1.0 if kind == "laplace" else scale, grid=2.0**-38, rng=rng)

    scale = mechanisms.Gaussian(1.0, 1e-2, 1.0).scale
    check(run, 0.0, 1.0, 0.8, privacy=Privacy(1.0, delta), runs=N)


BEFORE, AFTER = (0.0, 2.0, 2.0, 2.0), (1.0, 1.0, 1.0, 1.0)
"""Neighbours at sensitivity 1: index 0 gains on all others."""


def argmax(kind: str) -> Any:
    return lambda scores, rng: selection.noisy_argmax(scores, 1.0, 1.0, noise=kind, rng=rng)


def top(**options: Any) -> Any:
    def run(scores: Any, rng: Any) -> Array:
        epsilon = options.get("epsilon", 1.0)
        chosen = selection.top_s(scores, epsilon, 1.0, s=2, rng=rng, **{k: v for k, v in options.items() if k != "epsilon"})
        return chosen.indices if chosen.values is None else np.concatenate([chosen.indices, chosen.values])

    return run


SELECTION = {
    "argmax, Laplace": (argmax("laplace"), Privacy(1.0), 0.3),
    "argmax, Gumbel": (argmax("gumbel"), Privacy(1.0), 0.3),
    "argmax, exponential": (argmax("exponential"), Privacy(1.0), 0.3),
    "permute and flip": (lambda scores, rng: selection.permute_and_flip(scores, 1.0, 1.0, rng=rng), Privacy(1.0), 0.3),
    "top-s, Gumbel": (top(), Privacy(1.0), 0.05),
    "top-s, values": (top(values=True), Privacy(1.0), 0.0),
    "top-s, peeling": (top(method="peeling", delta=1e-2), Privacy(1.0, 1e-2), 0.0),
    "top-s, one shot": (top(method="oneshot_laplace", delta=1e-2, epsilon=0.1), Privacy(0.1, 1e-2), 0.0),
}


@pytest.mark.some(2)
@pytest.mark.parametrize(("run", "privacy", "at_least"), SELECTION.values(), ids=SELECTION)
def test_selection_passes(run, privacy, at_least):
    check(repeat(run), BEFORE, AFTER, at_least, privacy=privacy, runs=CALLS)


@pytest.mark.long
def test_the_exponential_mechanism_passes():
    def run(scores: Any, size: int, rng: Any) -> Array:
        return selection.exponential_mechanism(scores, size * 1.0, 1.0, draws=size, rng=rng)

    check(run, BEFORE, AFTER, 0.7, privacy=Privacy(1.0), runs=N)


@pytest.mark.long
def test_monotone_scores_under_replacement_are_refused_because_audits_find_them_out():
    def run(scores: Any, size: int, rng: Any) -> Array:
        return winners(scores, 1.0, size, rng)

    assert keyed_audit(run, (0.0, 8.0), (1.0, 7.0), privacy=Privacy(1.0), runs=600_000).refuted is True
    with pytest.raises(ValueError, match="monotone"):
        selection.noisy_argmax((0.0, 8.0), 1.0, 1.0, monotone=True)


RECORDS = np.linspace(-1.0, 1.0, 12).reshape(6, 2)
"""Six records of two numbers; the neighbour's first one lies at the other corner."""
NEIGHBOUR = np.concatenate([[[1.0, 1.0]], RECORDS[1:]])


def regression(data: Array, rng: Any) -> Array:
    fitted = inference.linear_regression(data, data[:, 0] / 2, 1.0, 1e-2, x_radius=1.5, y_radius=1.0, rng=rng)
    return np.asarray(fitted.value)


def answers(data: Array, rng: Any) -> float:
    return inference.AdaptiveQueries(data, 0.9, 1e-2, uses=1, rng=rng).answer(lambda x: (x[:, 0] + 1) / 2)


def best(data: Array, rng: Any) -> int:
    asked = inference.AdaptiveQueries(data, 0.9, 1e-2, uses=1, rng=rng)
    return asked.best_of([lambda x: (x[:, 0] + 1) / 2, lambda x: (1 - x[:, 0]) / 2], 1.0)


INFERENCE = {
    "mean": (lambda data, rng: inference.mean(data[:, 0], 1.0, 0.0, 1.0, rng=rng).value, Privacy(1.0), 0.4),
    "mean, Gaussian": (lambda data, rng: inference.mean(data[:, 0], 1.0, 1e-2, 1.0, rng=rng).value, Privacy(1.0, 1e-2), 0.1),
    "mean, vector": (lambda data, rng: inference.mean(data, 1.0, 0.0, 1.0, rng=rng).value, Privacy(1.0), 0.1),
    "sparse mean": (lambda data, rng: inference.sparse_mean(data, 1.0, 1e-2, 1.0, s=1, rng=rng).value.toarray(), Privacy(1.0, 1e-2), 0.0),
    "regression": (regression, Privacy(1.0, 1e-2), 0.0),
    "adaptive query": (answers, Privacy(0.9, 1e-2), 0.0),
    "best query": (best, Privacy(1.0), 0.0),
}


@pytest.mark.long
@pytest.mark.parametrize(("run", "privacy", "at_least"), INFERENCE.values(), ids=INFERENCE)
def test_inference_passes(run, privacy, at_least):
    check(repeat(run), RECORDS, NEIGHBOUR, at_least, privacy=privacy, runs=CALLS)


@pytest.mark.long
def test_half_the_noise_of_a_mean_is_caught():
    """The twin of the audits of functions called once a run."""
    run = repeat(lambda data, rng: inference.mean(data[:, 0], 2.0, 0.0, 1.0, rng=rng).value)
    assert keyed_audit(run, RECORDS, NEIGHBOUR, privacy=Privacy(1.0), runs=CALLS).refuted is True


# Beside exact losses


def two_rows(plain: np.random.Generator) -> Array:
    """Two random laws on up to twelve outcomes, some of which only one of them has."""
    weights = plain.exponential(size=(2, int(plain.integers(2, 13)))) ** 2
    weights[plain.random(weights.shape) < 0.1] = 0.0
    weights[:, 0] += 0.05
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("delta", [0.0, 0.02, 0.2])
def test_bounds_are_below_the_exact_loss_and_near_it(delta):
    plain, shares = np.random.default_rng(3), []

    def run(row: Array, size: int, rng: Any) -> Array:
        return np.searchsorted(np.cumsum(row)[:-1], generator(rng).random(size), side="right")

    for _ in range(15):
        rows = two_rows(plain)
        exact = Experiment(rows).epsilon(delta)
        found = keyed_audit(run, *rows, delta=delta, runs=100_000)
        assert found.epsilon_lower <= exact
        if 0.5 < exact < 5:
            shares.append(found.epsilon_lower / exact)
    assert np.mean(shares) > 0.8


# Rare events


def rare_branch(probability: float, other: float) -> Any:
    """Randomised response at ε = 1 with a third answer, of these probabilities on the inputs 0 and 1."""

    def run(x: int, size: int, rng: Any) -> Array:
        plain = generator(rng)
        answers = np.where(plain.random(size) < math.e / (1 + math.e), x, 1 - x)
        return np.where(plain.random(size) < (other if x else probability), 2, answers)

    return run


@pytest.mark.long
@pytest.mark.parametrize(("probability", "confidence"), [(1e-3, 0.95), (3e-3, 1 - ERROR_RATE)])
def test_a_rare_event_that_the_counts_can_refute_is_chosen(probability, confidence):
    """At 10^5 runs. Of 50,000 counted runs it occurs in 50, which prove ln(33/5.3) = 1.8; the 25,000 that judge it could prove 0.7 only."""
    keyed, runs = KeyedRandom(KEY), 40
    run = rare_branch(probability, 0.0)
    refuted = sum(audit(run, 0, 1, privacy=Privacy(1.0), runs=100_000, confidence=confidence, rng=keyed).refuted for _ in range(runs))
    assert stats.beta.ppf(ERROR_RATE, refuted, runs - refuted + 1) > 0.7  # the power is at least 0.7, with an error rate of 10^-6


def test_a_rare_event_that_the_claim_allows_refutes_nothing():
    keyed, runs = KeyedRandom(KEY), 100
    run = rare_branch(1e-3, 1e-3 / math.e)
    alarms = sum(audit(run, 0, 1, privacy=Privacy(1.0), runs=20_000, rng=keyed).refuted for _ in range(runs))
    assert stats.binomtest(alarms, runs, 0.05, alternative="greater").pvalue > ERROR_RATE


# The statement holds with the stated probability


def test_false_alarms_are_as_rare_as_stated():
    """At confidence ½ of a mechanism that attains ε, no more than half of the audits may claim more than ε."""
    runs, keyed = 600, KeyedRandom(KEY)
    alarms = sum(audit(local.KaryResponse(1.0, k=50), 0, 1, runs=4_000, confidence=0.5, rng=keyed).refuted for _ in range(runs))
    assert stats.binomtest(alarms, runs, 0.5, alternative="greater").pvalue > ERROR_RATE


def chosen_and_counted(keyed: KeyedRandom, *, halves: bool) -> float:
    """A bound from two samples of one distribution over 2,000 codes, with events chosen on the runs that count or on others."""
    codes = local.KaryResponse(2.0**-20, k=2000)
    feature, partition = Feature("code", lambda block: block), Partition(np.arange(2000))
    drawn = [partition.codes(codes.privatize(np.zeros(4_000, np.int64), rng=keyed)) for _ in range(4)]
    tables = np.array([np.bincount(cells, minlength=partition.cells) for cells in drawn]).reshape(2, 2, -1)
    event = best_candidate(feature, partition, tables[0], tables[0], 4_000, 0.0, CAUTION)
    hits = tables[1 if halves else 0][:, event.member].sum(axis=1)
    return loss_bound(int(hits[event.likelier]), int(hits[1 - event.likelier]), 4_000, 0.0, 0.025)


def test_events_chosen_on_the_runs_that_count_would_give_false_alarms():
    keyed, runs = KeyedRandom(KEY), 40
    honest = sum(chosen_and_counted(keyed, halves=True) > 1e-5 for _ in range(runs))
    assert stats.binomtest(honest, runs, 0.05, alternative="greater").pvalue > ERROR_RATE
    assert all(chosen_and_counted(keyed, halves=False) > 0.1 for _ in range(runs))


# Long


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [mechanisms.Laplace(1.0, 1.0), mechanisms.Gaussian(1.0, 1e-4, 1.0)], ids=["Laplace", "Gaussian"])
def test_a_hundred_million_runs_pass(mechanism):
    found = keyed_audit(mechanism, 0.0, 1.0, runs=10**8)
    assert found.refuted is False
    assert found.epsilon_lower > (0.995 if isinstance(mechanism, mechanisms.Laplace) else 0.93)


@pytest.mark.long
def test_ten_million_runs_of_coins_pass():
    for mechanism in (local.BinaryResponse(1.0), local.KaryResponse(1.0, k=5), local.BoundedMean(1.0, 0.0, 1.0)):
        inputs = (False, True) if isinstance(mechanism, local.BinaryResponse) else (0, 1)
        check(mechanism, *inputs, 0.99, runs=10**7)


@pytest.mark.long
def test_many_picks_pass():
    check(repeat(top()), (0.0, 0.0, 2.0, 2.0, 2.0, 2.0), (1.0,) * 6, 0.5, privacy=Privacy(1.0), runs=60_000)
