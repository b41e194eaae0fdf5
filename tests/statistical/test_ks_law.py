"""`ks_exponential` follows its law: χ² against enumeration at 10^6 draws, each beside a wrong law, rejected. Keyed, error rate 10^-6."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpcore._exact.sampling import Uniform
from dpcore.distributions import ks_exponential
from dpcore.distributions._choices import Uniforms
from dpcore.distributions._ks_levels import Levels, draw_counts
from dpcore.distributions.ks import permutation
from dpcore.testing import KeyedRandom
from support.kernels import KEY
from support.ks import law, score, tally
from support.laws import ERROR_RATE, p_value

N = 10**6
CASES = [((3, 0, 2), 1.0, 4), ((1, 2, 0, 5, 1), 0.7, 5), ((10, 20, 30, 0, 7), 0.08, 5), ((0, 2, 0, 0), 2.0, 3), ((9, 1), 0.5, 1)]


def fit(counts, probabilities):
    """p-value of counts of outcomes; the least likely first, so that merged bins hold little."""
    assert set(counts) <= set(probabilities)
    order = sorted(probabilities, key=probabilities.__getitem__)
    return p_value(np.array([counts.get(c, 0) for c in order]), np.array([probabilities[c] for c in order]))


@pytest.mark.long
@pytest.mark.parametrize(("data", "epsilon", "k"), CASES, ids=str)
def test_counts_follow_the_law(data, epsilon, k):
    n = N if epsilon < 0.1 else 300_000  # a small ε makes the twins alike
    counts = tally(draw_counts(np.array(data), epsilon, k, KeyedRandom(KEY), n))
    assert fit(counts, law(data, epsilon, k)) > ERROR_RATE
    assert fit(counts, law(data, 1.1 * epsilon, k)) < ERROR_RATE
    if k > 1:
        assert fit(counts, law(data, epsilon, k, rounding=math.floor)) < ERROR_RATE


@pytest.mark.long
def test_scores_of_more_bins_follow_their_law():
    """m = 12 and k = 30: too many vectors to list, but the weights of the bands give the law of the score."""
    data, epsilon, k = (9, 3, 4, 30, 2, 2, 0, 1, 7, 12, 0, 0), 0.3, 30
    levels = Levels(np.array(data), k)
    weights = [levels.band(i)._integers[-1][0] for i in range(len(levels))]
    exact = [(w - before) * math.exp(-epsilon * t / 2) for w, before, t in zip(weights, [0, *weights], levels.at.tolist(), strict=False)]
    drawn = draw_counts(np.array(data), epsilon, k, KeyedRandom(KEY), 60_000)
    scores = np.array([score(data, tuple(c)) for c in drawn[:20_000].tolist()])
    counts = np.bincount(np.searchsorted(levels.at, scores), minlength=len(levels))
    assert p_value(counts, np.array(exact) / math.fsum(exact)) > ERROR_RATE
    twin = [w * math.exp(-epsilon * t / 2) for w, t in zip(weights, levels.at.tolist(), strict=True)]  # N(t) instead of N(t) − N(t − 1)
    assert p_value(counts, np.array(twin) / math.fsum(twin)) < ERROR_RATE


@pytest.mark.long
def test_scores_at_the_size_of_the_specification_follow_their_law():
    """n = 10^4, k = m = 200: the law of the score from the tables of all its levels."""
    x = np.linspace(0, 1, 10_000) ** 2
    data, epsilon, k = np.bincount((200 * x).astype(int).clip(0, 199), minlength=200), 0.5, 200
    levels = Levels(data, k)
    at = levels.at[levels.at < 1000]  # beyond, less than 10^-12 is left
    log_weights = np.array([levels.sums.band(int(t)).log2_weight for t in at]) * math.log(2) - epsilon * at / 2
    weights = np.exp(log_weights - log_weights.max())
    before = np.append(0.0, np.exp(log_weights[:-1] - epsilon * np.diff(at) / 2 - log_weights.max()))
    exact = weights - before
    assert exact[-1] < 1e-9 * exact.sum()
    sums = np.cumsum(draw_counts(data, epsilon, k, KeyedRandom(KEY), 4_000), axis=1)
    scores = np.max(-(-np.abs(k * np.cumsum(data) - 10_000 * sums) // k), axis=1)
    counts = np.bincount(np.searchsorted(at, scores), minlength=len(at))
    assert p_value(counts, exact / exact.sum()) > ERROR_RATE
    assert p_value(counts, weights / weights.sum()) < ERROR_RATE


@pytest.mark.long
def test_draws_of_one_call_are_independent():
    data, epsilon, k = (2, 1), 1.0, 2
    probabilities = law(data, epsilon, k)
    drawn = draw_counts(np.array(data), epsilon, k, KeyedRandom(KEY), N)[:, 0]
    p = np.array([probabilities[c, k - c] for c in range(k + 1)])
    for distance in (1, 2, 128):
        blocks = drawn[: N // (2 * distance) * 2 * distance].reshape(-1, 2, distance)
        pairs = np.bincount((3 * blocks[:, 0] + blocks[:, 1]).ravel(), minlength=9)
        assert p_value(pairs, np.outer(p, p).ravel()) > ERROR_RATE
    repeated = np.where(np.arange(N // 2) % 50, drawn[1::2], drawn[::2])
    assert p_value(np.bincount(3 * drawn[::2] + repeated, minlength=9), np.outer(p, p).ravel()) < ERROR_RATE


def test_every_order_is_equally_likely():
    stream = KeyedRandom(KEY)
    orders = np.array([permutation(4, stream) for _ in range(20_000)])
    assert p_value(order_counts(orders), np.full(24, 1 / 24)) > ERROR_RATE
    orders[::10, :2].sort(axis=1)  # a twin: one in ten has its first two in order
    assert p_value(order_counts(orders), np.full(24, 1 / 24)) < ERROR_RATE


def order_counts(orders):
    places = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    return np.bincount([places[tuple(order)] for order in orders.tolist()], minlength=24)


def test_equal_words_are_ordered_by_further_bits(monkeypatch):
    """With all first 64 bits equal, the order is that of the bits after them, and still uniform."""
    monkeypatch.setattr(Uniforms, "words", lambda self, n: np.zeros(n, np.uint64))
    original = Uniforms.__getitem__
    monkeypatch.setattr(Uniforms, "__getitem__", lambda self, i: Uniform(7, 64, original(self, i)._more))
    stream = KeyedRandom(KEY)
    orders = np.array([permutation(4, stream) for _ in range(2_000)])
    assert p_value(order_counts(orders), np.full(24, 1 / 24)) > ERROR_RATE
    assert p_value(order_counts(np.sort(orders, axis=1)), np.full(24, 1 / 24)) < ERROR_RATE


@pytest.mark.long
def test_draws_of_releases_follow_the_law_of_sequences():
    """The public function: the first draw's bin, whose law is the mean of c/k, and its place inside the bin, which is uniform."""
    x, epsilon, k = np.array([0.1, 0.2, 0.9]), 2.0, 3
    stream = KeyedRandom(KEY)
    draws = np.array([ks_exponential(x, epsilon, (0, 1), draws=k, bins=3, rng=stream).draws for _ in range(2_000)])
    probabilities = law((2, 0, 1), epsilon, k)
    first = np.array([sum(p * c[i] / k for c, p in probabilities.items()) for i in range(3)])
    for position in range(k):
        assert p_value(np.bincount((3 * draws[:, position]).astype(int), minlength=3), first) > ERROR_RATE
    assert p_value(np.bincount((3 * draws[:, 0]).astype(int), minlength=3), np.full(3, 1 / 3)) < ERROR_RATE
    places = (3 * draws.ravel()) % 1
    assert p_value(np.bincount((20 * places).astype(int), minlength=20), np.full(20, 1 / 20)) > ERROR_RATE
