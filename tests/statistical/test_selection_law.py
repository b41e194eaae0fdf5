"""Selection follows its law: χ² against exact probabilities. Error rate 10^-6; keyed, so runs repeat. Its audits are in `test_audit.py`.

Every check has a twin with half the noise that it must reject. Argmaxes are drawn a million at a time as rounds of one call, which is how
`exponential_mechanism(draws=…)` draws; sequences call by call.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import _backend, selection
from dpcore.rng import StreamPosition
from dpcore.testing import KeyedRandom
from support.kernels import AES_LEVELS, KEY, Array, at_level
from support.laws import ERROR_RATE, p_value
from support.selection_laws import Law, argmax_law, one_shot_law, peeling_law, units

N = 10**6
FEWER = 40_000
PUBLIC = 9_000
"""Draws by calls of public functions, which check their parameters each time."""
ROUND = 512
KINDS = ("laplace", "gumbel", "exponential")
SCORES = ((0.0, 1.0), (0.0, 0.0, 3.0), (1.0, 0.0, 2.0, 2.0), (0.0, 0.5, 1.0, 1.5, 2.0), (3.0, -1.0, 0.0, 2.9, 1.0, 2.0))
each_kind = pytest.mark.parametrize("kind", KINDS)


def opened(
    kind: str, scores: Any, scale: float, keep: int = 1, nonce: int = 0, first: int = 0, *, secure: bool = False
) -> _backend.Selection:
    position = StreamPosition(KEY, nonce, first, secure)
    return _backend.Selection(kind, np.asarray(scores, np.float64), scale, keep, position, threads=None)


def fit(counts: dict[Any, int], law: Law) -> float:
    """p-value of counts of outcomes; the least likely outcomes first, so that merged bins hold little."""
    assert set(counts) <= set(law)
    order = sorted(law, key=lambda outcome: law[outcome])
    return p_value(np.array([counts.get(outcome, 0) for outcome in order]), np.array([float(law[outcome]) for outcome in order]))


def tally(winners: Array) -> dict[Any, int]:
    return {(int(i),): int(n) for i, n in enumerate(np.bincount(winners)) if n}


@pytest.mark.long
@pytest.mark.parametrize("scores", SCORES, ids=str)
@each_kind
def test_the_largest_noisy_score_follows_its_law(kind, scores):
    counts, u = tally(opened(kind, scores, 1.5).winners(N)), units(scores, 1.5)
    assert fit(counts, argmax_law(kind, u)) > ERROR_RATE
    assert fit(counts, argmax_law(kind, units(scores, 0.75))) < ERROR_RATE
    for other in KINDS:
        if other != kind and len(scores) > 3:
            assert fit(counts, argmax_law(other, u)) < ERROR_RATE


@pytest.mark.long
@each_kind
def test_equal_scores_are_equally_likely(kind):
    counts = opened(kind, np.full(6, 1e300), 2.0).winners(N)
    assert p_value(np.bincount(counts, minlength=6), np.full(6, 1 / 6)) > ERROR_RATE
    assert p_value(np.bincount(counts // 2 * 2, minlength=6), np.full(6, 1 / 6)) < ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("level", AES_LEVELS[-1:])
@each_kind
def test_the_secure_cipher_follows_the_same_law(kind, level):
    with at_level(level):
        counts = tally(opened(kind, SCORES[-1], 1.0, secure=True).winners(N))
    assert fit(counts, argmax_law(kind, units(SCORES[-1], 1.0))) > ERROR_RATE


@each_kind
def test_winners_among_many_scores_follow_the_law_of_groups(kind):
    """Three scores, each four hundred times over: which score wins, and where it stands in the array."""
    scores = np.repeat([0.0, 1.0, 2.0], 400)
    winners = opened(kind, scores, 1.0).winners(FEWER)
    places = np.bincount(winners % 400 // 8, minlength=50)
    assert p_value(places, np.full(50, 1 / 50)) > ERROR_RATE
    if kind == "gumbel":
        weights = np.exp([0.0, 1.0, 2.0])
        assert p_value(np.bincount(winners // 400, minlength=3), weights / weights.sum()) > ERROR_RATE
        assert p_value(np.bincount(winners // 400, minlength=3), weights**1.05 / (weights**1.05).sum()) < ERROR_RATE


@pytest.mark.long
def test_rounds_are_independent():
    winners = opened("gumbel", SCORES[3], 1.5).winners(N)
    p = np.array([float(x) for x in argmax_law("gumbel", units(SCORES[3], 1.5)).values()])
    for distance in (1, 2, 64):
        blocks = winners[: N // (2 * distance) * 2 * distance].reshape(-1, 2, distance)
        pairs = np.bincount((5 * blocks[:, 0] + blocks[:, 1]).ravel(), minlength=25)
        assert p_value(pairs, np.outer(p, p).ravel()) > ERROR_RATE
    repeated = np.where(np.arange(N // 2) % 50, winners[1::2], winners[::2])  # a twin: one round in fifty repeats the one before
    assert p_value(np.bincount(5 * winners[::2] + repeated, minlength=25), np.outer(p, p).ravel()) < ERROR_RATE


# Sequences


def one_shot(kind: str, scores: Any, scale: float, s: int, n: int) -> dict[Any, int]:
    call = opened(kind, scores, scale, s)
    return Counter(tuple(call.largest(t).tolist()) for t in range(n))


def peeled(kind: str, scores: Any, scale: float, s: int, n: int, nonce: int = 1) -> dict[Any, int]:
    return Counter(tuple(opened(kind, scores, scale, 1, nonce, t * s * ROUND).peel(s).tolist()) for t in range(n))


SEQUENCES = {
    "top-gumbel": ("gumbel", one_shot, one_shot_law),
    "top-laplace": ("laplace", one_shot, one_shot_law),
    "peeled-laplace": ("laplace", peeled, peeling_law),
    "peeled-gumbel": ("gumbel", peeled, peeling_law),
}
each_sequence = pytest.mark.parametrize(("kind", "draw", "law"), SEQUENCES.values(), ids=SEQUENCES)


def check_sequences(kind, draw, law, scores, s, n):
    counts = draw(kind, scores, 1.5, s, n)
    assert fit(counts, law(kind, units(scores, 1.5), s)) > ERROR_RATE
    assert fit(counts, law(kind, units(scores, 0.75), s)) < ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize(("scores", "s"), [(SCORES[2], 2), (SCORES[2], 4)])
@each_sequence
def test_sequences_follow_their_law(kind, draw, law, scores, s):
    check_sequences(kind, draw, law, scores, s, FEWER)


@pytest.mark.long
@pytest.mark.parametrize(("scores", "s"), [(SCORES[0], 1), (SCORES[1], 2), (SCORES[2], 3), (SCORES[3], 2), (SCORES[3], 3)])
@each_sequence
def test_a_million_sequences_follow_their_law(kind, draw, law, scores, s):
    check_sequences(kind, draw, law, scores, s, N)


@pytest.mark.long
@each_kind
def test_six_scores_selected_twice(kind):
    counts = one_shot(kind, SCORES[4], 1.5, 2, N)
    assert fit(counts, one_shot_law(kind, units(SCORES[4], 1.5), 2)) > ERROR_RATE
    assert fit(counts, one_shot_law(kind, units(SCORES[4], 1.6), 2)) < ERROR_RATE


@pytest.mark.long
def test_one_shot_gumbel_and_peeling_the_exponential_mechanism_are_one_law():
    scores, s = SCORES[3], 3
    samples = one_shot("gumbel", scores, 1.5, s, FEWER), peeled("gumbel", scores, 1.5, s, FEWER, nonce=7)
    other = peeled("laplace", scores, 1.5, s, FEWER, nonce=8)
    outcomes = list(itertools.permutations(range(5), s))

    def homogeneity(a: dict[Any, int], b: dict[Any, int]) -> float:
        table = np.array([[sample.get(outcome, 0) for outcome in outcomes] for sample in (a, b)])
        return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)

    assert homogeneity(*samples) > ERROR_RATE
    assert homogeneity(samples[0], other) < ERROR_RATE


# The public functions have the scale that ε asks for


def argmaxes(kind: str, scores: Any, epsilon: float, sensitivity: float, n: int, nonce: int) -> Array:
    """Winners of n public calls."""
    keyed = KeyedRandom(KEY)
    streams = (keyed.at(nonce, t * ROUND) for t in range(n))
    return np.array([selection.noisy_argmax(scores, epsilon, sensitivity, noise=kind, rng=rng) for rng in streams])


@pytest.mark.some(3)
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1.0), (0.8, 2.0)])
@each_kind
def test_public_argmax_has_the_documented_law(kind, epsilon, sensitivity):
    scores = np.array(SCORES[3]) * 2
    counts = tally(argmaxes(kind, scores, epsilon, sensitivity, PUBLIC, 3))
    assert fit(counts, argmax_law(kind, units(scores, 2 * sensitivity / epsilon))) > ERROR_RATE
    assert fit(counts, argmax_law(kind, units(scores, sensitivity / epsilon))) < ERROR_RATE


@pytest.mark.long
def test_the_exponential_mechanism_has_the_documented_law():
    scores, epsilon, sensitivity = np.array(SCORES[3]), 1.0, 0.5
    counts = tally(selection.exponential_mechanism(scores, N * epsilon, sensitivity, draws=N, rng=KeyedRandom(KEY)))
    weights = np.exp(epsilon * scores / (2 * sensitivity))
    assert fit(counts, {(i,): w / weights.sum() for i, w in enumerate(weights)}) > ERROR_RATE
    weights = weights**2
    assert fit(counts, {(i,): w / weights.sum() for i, w in enumerate(weights)}) < ERROR_RATE
    together = selection.exponential_mechanism(
        scores, N * epsilon, sensitivity, draws=N, relation="add_remove", monotone=True, rng=KeyedRandom(KEY)
    )
    assert fit(tally(together), {(i,): w / weights.sum() for i, w in enumerate(weights)}) > ERROR_RATE


def test_top_s_has_the_documented_law():
    scores, s, epsilon = np.array(SCORES[2]), 2, 2.0
    keyed, n = KeyedRandom(KEY), PUBLIC
    chosen = Counter(tuple(selection.top_s(scores, epsilon, 1.0, s=s, rng=keyed.at(5, t * ROUND)).indices.tolist()) for t in range(n))
    assert fit(chosen, peeling_law("gumbel", units(scores, 2.0), s)) > ERROR_RATE
    assert fit(chosen, peeling_law("gumbel", units(scores, 1.0), s)) < ERROR_RATE
    chosen = Counter(
        tuple(selection.top_s(scores, epsilon, 1.0, s=s, method="peeling", scale=2.0, rng=keyed.at(6, 2 * t * ROUND)).indices.tolist())
        for t in range(n)
    )
    assert fit(chosen, peeling_law("laplace", units(scores, 2.0), s)) > ERROR_RATE
    assert fit(chosen, peeling_law("laplace", units(scores, 1.0), s)) < ERROR_RATE
