"""Counts follow their law, simulated risks the exact ones, and the worst distribution is the worst.

Error rate: a right implementation fails one test with probability 10^-6; the draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local import BinaryChannel, KaryResponse
from dpcore.minimax import (
    BinarySearchEstimator,
    LinearEstimator,
    Model,
    draw_counts,
    exact_risk,
    losses,
    simulate_risk,
    truncated_moment,
    uniform_scale,
    worst_distribution,
)
from dpcore.minimax.risk import simulation
from dpcore.minimax.risk.draws import Multinomial, binomial
from dpcore.testing import KeyedRandom
from support.kernels import KEY
from support.laws import ERROR_RATE, p_value

REPLICATES = 400_000


# Laws


@pytest.mark.parametrize(
    ("n", "q"),
    [(1, 0.3), (7, 0.5), (1000, 1e-3), (1000, 1 - 1e-9), (10**6, 0.4), (10**6, 1e-7), (10**9, 0.999), (2**40, 1e-11), (5, 5e-324)],
)
def test_tables_are_the_binomial_law(n, q):
    law = binomial(n, q)
    with np.errstate(over="ignore"):  # of the least float64, in SciPy 1.13
        reference = stats.binom.pmf(law.numbers, n, q)
    assert np.abs(law.masses - reference).sum() < 1e-9
    assert stats.binom.cdf(law.first - 1, n, q) < 2.0**-64
    assert stats.binom.sf(law.last, n, q) < 2.0**-64


@pytest.mark.parametrize(("n", "q"), [(1, 0.25), (3, 0.5), (12, 0.125)])
def test_thresholds_are_the_distribution_function(n, q):
    law = binomial(n, q)
    cumulative, total = [], 0
    for k in range(n):
        total += math.comb(n, k) * int(q * 2**10) ** k * int((1 - q) * 2**10) ** (n - k)
        cumulative.append(total)
    exact = [value * 2**64 // 2 ** (10 * n) for value in cumulative]
    assert law.first == 0
    assert max(abs(int(found) - wanted) for found, wanted in zip(law.thresholds(), exact, strict=True)) <= 2**13


def test_certain_events():
    assert draw_counts([0.0, 1.0], n=5, replicates=2).tolist() == [[0, 5], [0, 5]]
    assert draw_counts([0.0, 1.0, 0.0, 0.0], n=5, replicates=1).tolist() == [[0, 5, 0, 0]]
    assert draw_counts([1.0, 0.0, 0.0], n=5, replicates=1).tolist() == [[5, 0, 0]]


def binomial_p_value(counts, n, q):
    low, high = (int(stats.binom.ppf(tail, n, q)) for tail in (1e-9, 1 - 1e-9))
    edges = np.arange(low, high + 1)
    cells = np.bincount(np.clip(counts, low, high) - low, minlength=len(edges))
    masses = stats.binom.pmf(edges, n, q)
    masses[0] += stats.binom.cdf(low - 1, n, q)
    masses[-1] += stats.binom.sf(high, n, q)
    return p_value(cells, masses)


@pytest.mark.long
@pytest.mark.parametrize(("n", "q"), [(1, 0.3), (20, 0.05), (999, 0.5), (10**6, 0.37)])
def test_pairs_of_counts_follow_the_binomial_law(n, q):
    counts = draw_counts([1 - q, q], n=n, replicates=REPLICATES, rng=KeyedRandom(KEY))
    assert (counts.sum(axis=1) == n).all()
    assert binomial_p_value(counts[:, 1], n, q) > ERROR_RATE
    twin = draw_counts([1 - q * 1.01, q * 1.01], n=n, replicates=10 * REPLICATES, rng=KeyedRandom(KEY))
    assert binomial_p_value(twin[:, 1], n, q) < ERROR_RATE


def compositions(n, parts):
    if parts == 1:
        return [(n,)]
    return [(first, *rest) for first in range(n + 1) for rest in compositions(n - first, parts - 1)]


class WithoutSmallTrials(Multinomial):
    """A broken twin: of the trials beyond the least number, one power of two is forgotten."""

    def __init__(self, q, n):
        super().__init__(q, n)
        first, thresholds = self.steps[-1].tables[1]
        self.steps[-1].tables[1] = first, np.full_like(thresholds, 2**64 - 1)


@pytest.mark.parametrize(("q", "n"), [((0.5, 0.2, 0.3), 6), ((0.1, 0.2, 0.3, 0.4), 5), ((0.9, 0.0, 0.04, 0.06), 9)])
def test_many_counts_follow_the_multinomial_law(q, n, monkeypatch):
    rows = compositions(n, len(q))
    masses = stats.multinomial.pmf(rows, n, q)
    code = (n + 1) ** np.arange(len(q))
    order = np.argsort(np.array(rows) @ code)

    def fit():
        codes = draw_counts(q, n=n, replicates=REPLICATES, rng=KeyedRandom(KEY)) @ code
        counts = np.zeros(len(rows), np.int64)
        places, found = np.unique(codes, return_counts=True)
        counts[np.searchsorted(np.array(rows)[order] @ code, places)] = found
        assert not counts[masses[order] == 0].any()
        return p_value(counts, masses[order])

    assert fit() > ERROR_RATE
    monkeypatch.setattr("dpcore.minimax.risk.simulation.Multinomial", WithoutSmallTrials)
    assert fit() < ERROR_RATE


def test_margins_of_many_counts_at_large_n():
    q, n = np.array([0.3, 0.05, 0.25, 0.15, 0.25]), 50_000
    counts = draw_counts(q, n=n, replicates=REPLICATES, rng=KeyedRandom(KEY))
    for chosen in ([0], [1], [2], [3], [4], [1, 2], [0, 3], [2, 4], [0, 1, 3]):
        assert binomial_p_value(counts[:, chosen].sum(axis=1), n, float(q[chosen].sum())) > ERROR_RATE


def test_neither_threads_nor_the_number_of_data_sets_change_a_row():
    stream = KeyedRandom(KEY).at(3)
    for q in ([0.4, 0.6], [0.2, 0.3, 0.5]):
        few = draw_counts(q, n=1000, replicates=50, rng=stream)
        many = draw_counts(q, n=1000, replicates=300_000, rng=stream, threads=3)
        assert np.array_equal(few, many[:50])
        assert np.array_equal(many, draw_counts(q, n=1000, replicates=300_000, rng=stream, threads=1))


def test_reports_of_records_have_the_counts_that_are_drawn():
    p, n, sets = np.array([0.2, 0.5, 0.3]), 40, 50_000
    rng = KeyedRandom(KEY)
    records = draw_counts(p, n=1, replicates=n * sets, rng=rng).argmax(axis=1)
    estimator = LinearEstimator([-1.0, 0.25, 1.0], 1.0).on(Model([-1.0, 0.0, 1.0]), n=n)
    counts = estimator.linear.privatize(records.reshape(sets, n), rng=rng).sum(axis=1)
    assert binomial_p_value(counts, n, float(p @ estimator.channel[:, 1])) > ERROR_RATE
    assert binomial_p_value(counts, n, float(p @ estimator.channel[:, 1]) + 0.01) < ERROR_RATE


# Risks


def moment_estimator(n=500):
    grid = np.linspace(-4, 4, 17)
    return truncated_moment(1.0, n=n, kappa=2.0, C=1.0).on(Model.moment(grid, kappa=2.0, C=1.0), n=n)


@pytest.mark.parametrize("loss", [losses.squared(), losses.absolute(), losses.huber(0.2), losses.power(3)])
def test_simulated_risks_are_the_exact_ones(loss):
    estimator = moment_estimator()
    p = estimator.model.extreme(np.abs(estimator.model.f) + 0.1 * estimator.model.f)[1]
    found = simulate_risk(estimator, p, replicates=REPLICATES, loss=loss, rng=KeyedRandom(KEY))
    assert abs(found.value - exact_risk(estimator, p, loss=loss)) < stats.norm.isf(ERROR_RATE / 2) * found.stderr
    assert found.stderr == pytest.approx(loss(found.errors).std(ddof=1) / math.sqrt(REPLICATES))


def test_exact_risks_are_sums_over_all_counts():
    estimator = moment_estimator(60)
    p = np.full(17, 1 / 17) * 0.1
    p[8] += 0.9
    q, c = float(p @ estimator.channel[:, 1]), np.arange(61)
    errors = estimator.linear.channel.z0 * (2 * c / 60 - 1) - float(p @ estimator.model.f)
    assert exact_risk(estimator, p) == pytest.approx(float(stats.binom.pmf(c, 60, q) @ errors**2), rel=1e-12)


def test_squared_risks_are_bias_and_variance():
    estimator = moment_estimator()
    p = estimator.model.extreme(estimator.model.f)[1]
    mean, theta = float(p @ estimator.weights), float(p @ estimator.model.f)
    wanted = (mean - theta) ** 2 + (estimator.linear.channel.z0**2 - mean**2) / 500
    assert exact_risk(estimator, p) == pytest.approx(wanted, rel=1e-12)


def test_tails_are_shares_of_errors():
    found = simulate_risk(moment_estimator(), np.eye(17)[8], replicates=1000, rng=KeyedRandom(KEY))
    levels = np.array([-1.0, 0.0, 0.1, 0.3, 100.0])
    assert found.tail(levels).tolist() == [float((found.errors > level).mean()) for level in levels]
    assert found.tail(0.1) == float((found.errors > 0.1).mean())


def test_intervals_of_a_simulated_risk_are_normal_ones():
    found = simulate_risk(moment_estimator(), np.eye(17)[8], replicates=1000, rng=KeyedRandom(KEY))
    low, high = found.interval(0.99)
    assert (high - low) / 2 == pytest.approx(stats.norm.isf(0.005) * found.stderr)
    assert (high + low) / 2 == pytest.approx(found.value)
    assert "1,000" in found._repr_html_()
    with pytest.raises(ParameterError, match="confidence must be in"):
        found.interval(1.0)


def test_blocks_and_threads_do_not_change_a_simulation(monkeypatch):
    runs = []
    for block, threads in ((2**16, 1), (2**16, 3), (1000, 2), (999_999, 1)):
        monkeypatch.setattr(simulation, "BLOCK", block)
        seen = []
        found = simulate_risk(
            moment_estimator(),
            np.eye(17)[8],
            replicates=2500,
            rng=KeyedRandom(KEY),
            threads=threads,
            progress=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert seen == [(min(stop, 2500), 2500) for stop in range(block, 2500 + block, block)]
        runs.append(found.errors.tolist())
    assert runs.count(runs[0]) == len(runs)
    channel = moment_estimator().channel
    counts = draw_counts(channel[8], n=moment_estimator().n, replicates=2500, rng=KeyedRandom(KEY))
    assert runs[0] == np.sort(np.abs(moment_estimator().estimate(counts) - moment_estimator().model.f[8])).tolist()


# The worst distribution


def random_model(rng):
    rows = rng.normal(size=(2, 4))
    inside = rng.dirichlet(np.ones(4))
    return Model(rng.normal(size=4), rows, rows @ inside + 0.1)


def brute_force(estimator, model, loss):
    """The largest exact risk over mixtures of the model's extreme points, two at a time."""
    rng = np.random.default_rng(5)
    corners = np.unique(np.round([model.extreme(row)[1] for row in rng.normal(size=(60, 4))], 12), axis=0)
    corners = np.maximum(corners, 0) / np.maximum(corners, 0).sum(axis=1, keepdims=True)
    return max(
        exact_risk(estimator, (1 - s) * a + s * b, loss=loss)
        for a, b in itertools.combinations_with_replacement(corners, 2)
        for s in np.linspace(0, 1, 11)
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loss", [losses.squared(), losses.absolute()])
def test_no_mixture_of_extreme_points_is_worse(seed, loss):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    estimator = LinearEstimator(rng.normal(size=4), 1.0, center=0.2).on(model, n=30)
    p, risk = worst_distribution(estimator, loss=loss)
    assert model.contains(p)
    assert risk == pytest.approx(exact_risk(estimator, p, loss=loss), rel=1e-9)
    assert risk >= brute_force(estimator, model, loss) * (1 - 1e-6)
    assert risk <= estimator.risk_bound(loss)


def test_the_worst_of_an_unbiased_estimator_is_where_its_mean_is_at_the_centre():
    estimator = uniform_scale(1.0, M=1.0).on(Model.uniform_scale(1.0, cells=16), n=1000)
    seen = []
    p, risk = worst_distribution(estimator, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == len(seen) > 1024
    assert estimator.model.theta(p) == pytest.approx(1.0, abs=1e-3)
    assert risk == pytest.approx(estimator.risk_bound(), rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("step", [0.05, 0.3])
def test_the_worst_distribution_of_a_search(step):
    model = Model([-1.0, 0.25, 1.0], [[1.0, 0.0, 1.0]], [0.7])
    estimator = BinarySearchEstimator(model, BinaryChannel(1.0, (-1.0, 0.5, 0.75)), n=40, step=step)
    p, risk = worst_distribution(estimator)
    assert model.contains(p)
    shares = np.linspace(0, 1, 41)
    members = [(a * (1 - b), 1 - a, a * b) for a in 0.7 * shares for b in shares]
    assert risk >= max(exact_risk(estimator, member) for member in members) * (1 - 1e-3)
    assert risk <= estimator.risk_bound() * (1 + 1e-9)
    found = simulate_risk(estimator, p, replicates=REPLICATES, rng=KeyedRandom(KEY))
    assert abs(found.value - risk) < stats.norm.isf(ERROR_RATE / 2) * found.stderr


class Frequencies:
    """An estimator of more than two outcomes: the share of the last category of a randomised response."""

    def __init__(self, n):
        self.model, self.n, self.channel = Model([0.0, 0.0, 1.0]), n, KaryResponse(1.0, k=3)
        self._support = self.channel.support

    def estimate(self, counts):
        return (counts[:, 2] / self.n - self._support.q) / (self._support.p - self._support.q)


@pytest.mark.long
def test_the_worst_distribution_behind_more_outcomes():
    estimator, e = Frequencies(1000), math.e
    seen = []
    p, risk = worst_distribution(estimator, rng=KeyedRandom(KEY), progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, seen[-1][1] + 1))
    share = 1 / 2 if e / (e + 2) >= 1 / 2 else 1.0
    largest = share * (1 - share) * ((e + 2) / (e - 1)) ** 2 / 1000
    assert risk == pytest.approx(largest, rel=0.02)
    found = simulate_risk(estimator, p, replicates=REPLICATES, rng=KeyedRandom(KEY))
    assert abs(found.value - risk) < 7 * found.stderr


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: draw_counts([0.5, 0.6], n=10, replicates=1), ParameterError, "q must be probabilities that sum to 1"),
        (lambda: draw_counts([], n=10, replicates=1), ParameterError, "q must be probabilities that sum to 1"),
        (lambda: draw_counts([math.nan, 1.0], n=10, replicates=1), ParameterError, "q must be probabilities that sum to 1"),
        (lambda: draw_counts([0.5, 0.5], n=0, replicates=1), ParameterError, "n must be in"),
        (lambda: draw_counts([0.5, 0.5], n=10, replicates=0), ParameterError, "replicates must be in"),
        (lambda: draw_counts([0.5, 0.5], n=10, replicates=1, rng=np.random.default_rng()), ParameterTypeError, "rng must be"),
        (lambda: draw_counts([0.5, 0.5], n=10, replicates=1, threads=0), ParameterError, "threads must be in"),
        (lambda: simulate_risk(moment_estimator(), [0.5, 0.5]), ParameterError, "p must have 17 masses"),
        (lambda: simulate_risk(moment_estimator(), np.ones(17)), ParameterError, "p must have masses that sum to 1"),
        (lambda: simulate_risk(moment_estimator(), np.eye(17)[0], replicates=1), ParameterError, "replicates must be in"),
        (lambda: exact_risk(Frequencies(10), [1.0, 0.0, 0.0]), ParameterError, "estimator must have a channel with 2 outcomes"),
        (lambda: simulate_risk(uniform_scale(1.0, M=1.0), [0.5, 0.5]), ParameterTypeError, r"pass estimator\.on\(model, n=n\)"),
        (lambda: worst_distribution(uniform_scale(1.0, M=1.0)), ParameterTypeError, "estimator must know its model"),
        (lambda: worst_distribution(moment_estimator(), Model([0.0, 1.0])), ParameterError, "model must have 17 points"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_channel_of_one_outcome_tells_nothing():
    assert draw_counts([1.0], n=7, replicates=3).tolist() == [[7], [7], [7]]
