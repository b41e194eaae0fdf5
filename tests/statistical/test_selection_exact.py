"""The privacy of selection from exact probabilities, not from samples: every outcome, every neighbour of the grid {−Δ, 0, Δ}^d.

For the largest of scores plus noise the corners of that grid are the worst neighbours: P(r) rises with the score of r and falls with the
others. Each check has a twin with half the noise, which breaks the bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import pytest

from support.selection_laws import (
    DIGITS,
    Law,
    argmax_law,
    expected_score,
    gumbel_order,
    largest_log_ratio,
    moves,
    one_shot_law,
    peeling_law,
    permute_and_flip_law,
    units,
)

SLACK = 1e-12
KINDS = ("laplace", "gumbel", "exponential")
SCORES = (
    (0.0, 8.0),
    (0.0, 0.0),
    (0.0, 2.0, 30.0),
    (1.0, 1.0, -1.0),
    (0.0, 1.0, 3.0, 3.0),
    (0.0, 0.5, 1.0, 1.5, 2.0),
    (0.0, 0.0, 0.0, 0.0, 25.0),
)


@pytest.fixture(autouse=True)
def digits():
    """Sums of exact probabilities keep their digits."""
    with mpmath.workdps(DIGITS):
        yield


each_kind = pytest.mark.parametrize("kind", KINDS)


def argmax_at(kind: str, scale: float | Fraction) -> Callable[[Sequence[float]], Law]:
    """The law of an argmax as a function of the scores."""
    return lambda scores: argmax_law(kind, units(scores, scale))


def peeling_at(kind: str, scale: float | Fraction) -> Callable[[Sequence[float]], Law]:
    """The law of two rounds as a function of the scores."""
    return lambda scores: peeling_law(kind, units(scores, scale), 2)


@pytest.mark.parametrize("scores", SCORES, ids=str)
@each_kind
def test_laws_are_laws(kind, scores):
    for law in (argmax_law(kind, units(scores, 1.3)), peeling_law(kind, units(scores, 1.3), 2)):
        assert all(p > 0 for p in law.values())
        assert abs(mpmath.fsum(law.values()) - 1) < 1e-50


@pytest.mark.parametrize("scores", SCORES, ids=str)
def test_exponential_noise_is_permute_and_flip(scores):
    u = units(scores, 0.7)
    algorithm, noise = permute_and_flip_law(u), argmax_law("exponential", u)
    assert max(abs(algorithm[r] - noise[r]) for r in algorithm) < 1e-40
    # a twin with Gumbel noise
    other = argmax_law("gumbel", u)
    assert max(abs(algorithm[r] / other[r] - 1) for r in algorithm) > 1e-3 or len(set(scores)) == 1


@pytest.mark.some(2)
@pytest.mark.parametrize("scores", [s for s in SCORES if len(s) > 2], ids=str)
def test_one_gumbel_draw_is_peeling_of_the_exponential_mechanism(scores):
    u = units(scores, 2.0)
    assert abs(gumbel_order(u) - peeling_law("gumbel", u, 2)[0, 1]) < 1e-20
    # with Laplace noise one draw and two rounds differ
    assert abs(one_shot_law("laplace", u, 2)[0, 1] / peeling_law("laplace", u, 2)[0, 1] - 1) > 1e-3


@pytest.mark.parametrize("s", [1, 2, 3])
@pytest.mark.parametrize("scores", SCORES[3:], ids=str)
def test_one_shot_sequences_are_a_law_and_contain_the_argmax(scores, s):
    u = units(scores, 1.0)
    law = one_shot_law("laplace", u, min(s, len(scores)))
    assert abs(mpmath.fsum(law.values()) - 1) < 1e-45
    first = argmax_law("laplace", u)
    for r in range(len(scores)):
        assert abs(mpmath.fsum(p for chosen, p in law.items() if chosen[0] == r) - first[r,]) < 1e-45


@pytest.mark.some(5)
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.3, 1.0), (2.0, 0.5)])
@pytest.mark.parametrize("scores", SCORES, ids=str)
@each_kind
def test_argmax_loses_at_most_epsilon(kind, scores, epsilon, sensitivity):
    needed = 2 * Fraction(sensitivity) / Fraction(epsilon)
    assert largest_log_ratio(argmax_at(kind, needed), scores, sensitivity, together=False) <= epsilon + SLACK
    halved = largest_log_ratio(argmax_at(kind, needed / 2), scores, sensitivity, together=False)
    assert halved > 1.05 * epsilon


@pytest.mark.some(2)
@pytest.mark.parametrize("scores", SCORES, ids=str)
@each_kind
def test_half_the_noise_is_enough_for_scores_that_move_together(kind, scores):
    for epsilon in (0.5, 4.0):
        scale = 1 / Fraction(epsilon)
        assert largest_log_ratio(argmax_at(kind, scale), scores, 1.0, together=True) <= epsilon + SLACK
        assert largest_log_ratio(argmax_at(kind, scale / 2), scores, 1.0, together=True) > epsilon + SLACK or len(scores) == 1


def test_the_counterexample_to_monotone_under_replacement():
    """Laplace(Δ/ε) at ε = 1: (0, 8) → (1, 7) loses 1.78; with the scale 2Δ/ε it is below 1."""
    before, after = ((0.0, 8.0), (1.0, 7.0))
    loss = {
        scale: float(mpmath.log(argmax_law("laplace", units(after, scale))[0,] / argmax_law("laplace", units(before, scale))[0,]))
        for scale in (1.0, 2.0)
    }
    assert abs(loss[1.0] - 1.78) < 0.005
    assert loss[2.0] < 1


@pytest.mark.parametrize("kind", ["gumbel", "laplace"])
@pytest.mark.parametrize("scores", [s for s in SCORES if 2 < len(s) < 5], ids=str)
def test_sequences_of_two_rounds_lose_at_most_both(kind, scores):
    epsilon, each = 1.0, 0.5
    assert largest_log_ratio(peeling_at(kind, 2 / Fraction(each)), scores, 1.0, together=False) <= epsilon + SLACK
    assert largest_log_ratio(peeling_at(kind, 1 / Fraction(each)), scores, 1.0, together=False) > 1.05 * epsilon


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    """The least δ for which P(A) ≤ e^ε Q(A) + δ for all A."""
    return float(mpmath.fsum(max(mpmath.mpf(0), x - mpmath.exp(epsilon) * q[a]) for a, x in p.items()))


@pytest.mark.long
@pytest.mark.parametrize("scores", [(0.0, 0.0, 0.0), (0.0, 1.0, 2.0), (0.0, 0.0, 9.0, 9.0), (0.0, 1.0, 2.0, 30.0)], ids=str)
def test_one_shot_laplace_keeps_its_delta(scores):
    epsilon, delta, s = 0.19, 0.04, 2
    scale = 8 * math.sqrt(s * math.log(len(scores) / delta)) / epsilon
    here = one_shot_law("laplace", units(scores, scale), s)
    spent = too_little = 0.0
    for move in moves(len(scores), 1.0, together=False):
        there = [x + m for x, m in zip(scores, move, strict=True)]
        spent = max(spent, hockey_stick(here, one_shot_law("laplace", units(there, scale), s), epsilon))
        thin = [one_shot_law("laplace", units(x, scale / 40), s) for x in (scores, there)]
        too_little = max(too_little, hockey_stick(*thin, epsilon))
    assert spent <= delta
    assert too_little > delta


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism(epsilon):
    scale = 2 / Fraction(epsilon)
    for scores in [*SCORES, *itertools.product((0.0, 1.0, 4.0), repeat=3)]:
        u = units(scores, scale)
        better, worse = expected_score(argmax_law("exponential", u), scores), expected_score(argmax_law("gumbel", u), scores)
        assert better >= worse - mpmath.mpf(10) ** -50
        if len(set(scores)) > 1:
            assert better > worse


def test_the_printed_scale_of_peeling_holds_up_to_a_certain_epsilon():
    """Private inference (chapter 9), Algorithm 9.2.2, and its erratum.

    ρ = 5ε²/(24 ln(1/δ)), within (ε, δ) for ε ≤ 0.418 ln(1/δ) and not far beyond.
    """
    for s, delta in itertools.product((1, 10, 1000), (1e-3, 1e-6, 1e-12)):
        log_delta = math.log(1 / delta)
        for share, holds in ((0.1, True), (0.418, True), (0.42, False), (3.0, False)):
            epsilon = share * log_delta
            b = 2 * math.sqrt(3 * s * log_delta) / epsilon
            rho = s * (2 / b) ** 2 / 2 + s * (1 / b) ** 2 / 2
            assert math.isclose(rho, 5 * epsilon**2 / (24 * log_delta), rel_tol=1e-12)
            assert (rho + 2 * math.sqrt(rho * log_delta) <= epsilon) == holds
