"""What the sections about the lemmas of Private inference (chapter 9) are made of; each check refuses a broken twin."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.reproduce import Setting
from dpcore.reproduce.best_tests import least_error
from dpcore.reproduce.studies import lemmas, sample_sizes
from dpcore.reproduce.studies.lemmas import distance, largest_tail, left_over, peeled, product_law
from dpcore.reproduce.studies.lower_bounds import _mean, _response_scores, _tail, counterexample, transferred


def test_peeling_takes_the_noisy_largest_of_what_is_left():
    values, noises = np.array([1.0, -3.0, 2.0, 0.0]), np.array([[0.0, 0, 0, 0], [5.0, 0, 0, 0], [0.0, 0, 0, 0]])
    assert peeled(values, noises) == [1, 0, 2]


def slow_left_over(values, noises, c):
    taken = peeled(values, noises)
    rest = [j for j in range(len(values)) if j not in taken]
    extra = 4 * (1 + 1 / c) * sum(max(abs(w) for w in row) ** 2 for row in noises)
    return max(
        sum(values[j] ** 2 for j in two) - (1 + c) * sum(values[j] ** 2 for j in one) - extra
        for k in range(1, len(taken) + 1)
        for one in itertools.combinations(taken, k)
        for two in itertools.combinations(rest, k)
    )


@pytest.mark.parametrize("c", [0.3, 1.0, 4.0])
def test_the_worst_sets_are_found(c):
    rng = np.random.default_rng(1)
    for _ in range(20):
        values, noises = rng.normal(size=7), rng.laplace(size=(3, 7)) * 0.4
        assert left_over(values, noises, c) == pytest.approx(slow_left_over(values, noises, c))


def test_the_bound_is_sharp_and_one_noise_for_all_rounds_would_break_it():
    values, noises = lemmas.sharp()
    assert peeled(values, noises) == [0]
    assert left_over(values, noises, 1.0) == 0.0 < left_over(values, noises, 1.0, factor=3.999)


def test_tails_of_the_maximum_are_exact():
    for k, level in ((2, 1.5), (10, 2.0), (64, 1.1)):
        p = Fraction(k**-level)
        assert largest_tail(k, level) == pytest.approx(float(1 - (1 - p) ** k), rel=1e-12)
    assert largest_tail(1, 2.0) == 1.0


def test_products_are_enumerated():
    law = product_law(np.array([0.5, -0.2]))
    assert sorted(law) == pytest.approx(sorted([0.75 * 0.4, 0.75 * 0.6, 0.25 * 0.4, 0.25 * 0.6]))
    assert distance(np.array([0.5]), np.array([-0.2])) == pytest.approx(0.7)
    assert distance(np.ones(5), np.zeros(5)) == pytest.approx(2 * (1 - 2.0**-5))


def test_the_constant_of_the_lower_bound_is_the_proofs():
    assert lemmas.LEAST <= math.cos(1) * (2 / math.pi) / math.tan(1) < lemmas.LEAST + 0.001
    assert lemmas.upper_constant(1.0) == pytest.approx(math.sqrt(2))


# Theorem 9.3.3


def test_the_best_test_of_one_sign_is_private_and_the_best():
    """A random answer and the sign itself are the best with one record; with much privacy, nothing is better than a guess."""
    assert least_error(1, 1.0, math.log(3), 0.0) == pytest.approx(0.5)
    assert least_error(3, 1.0, 20.0, 0.0) == pytest.approx(0.2)
    assert least_error(40, 0.3, 1e-6, 0.0) == pytest.approx(0.5, abs=1e-4)
    errors = [least_error(20, 0.5, epsilon, 0.0) for epsilon in (0.2, 0.5, 1.0, 2.0)]
    assert errors == sorted(errors, reverse=True)
    assert least_error(20, 0.5, 0.5, 0.0) > least_error(20, 0.5, 0.5, 0.01)


def test_a_lower_bound_of_records_that_is_too_large_is_noticed(monkeypatch):
    claim = "one coordinate: the best test needs at least as many as the bound, of either kind of privacy"

    def holds() -> bool:
        return next(check for check in sample_sizes._below(Setting(1, quick=True)).checks if check.claim == claim).holds

    assert holds()
    true = sample_sizes.sample_size_lower_bound
    monkeypatch.setattr(sample_sizes, "sample_size_lower_bound", lambda *a, **k: 2 * true(*a, **k))
    assert not holds()


# Lemma A.5


def test_both_sides_of_the_lemma_are_exact():
    inside = {Fraction(3): Fraction(1, 2), Fraction(-1): Fraction(1, 2)}
    assert _mean(inside) == 1
    assert _tail(inside, Fraction(2)) == Fraction(1, 2)
    own, others = _response_scores(3, 2)
    assert own == {Fraction(2): Fraction(9, 16), Fraction(0): Fraction(3, 8), Fraction(-2): Fraction(1, 16)}
    assert others == {Fraction(2): Fraction(1, 4), Fraction(0): Fraction(1, 2), Fraction(-2): Fraction(1, 4)}


def test_the_counterexample_is_close_and_refutes_the_printed_form_only():
    inside, outside, delta, limit = counterexample(200)
    gap = sum(max(Fraction(0), inside.get(v, Fraction(0)) - outside.get(v, Fraction(0))) for v in {*inside, *outside})
    assert gap == delta == Fraction(1, 100)
    assert (
        transferred(inside, outside, 1e-3, delta, limit, printed=True)
        < 0
        <= transferred(inside, outside, 1e-3, delta, limit, printed=False)
    )
    assert transferred(*counterexample(1)[:2], 1e-3, *counterexample(1)[2:], printed=True) >= 0


def test_the_corrected_lemma_holds_for_random_close_laws():
    """Laws with exact ε and δ, made from one another; T from small to beyond every value."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        values = [Fraction(int(v)) for v in rng.integers(-30, 30, 6)]
        weights = [Fraction(int(w)) for w in rng.integers(1, 20, 6)]
        tilted = [w * (2 if rng.random() < 0.5 else 1) for w in weights]
        outside, inside = {}, {}
        for v, w, t in zip(values, weights, tilted, strict=True):
            outside[v] = outside.get(v, Fraction(0)) + w / sum(weights)
            inside[v] = inside.get(v, Fraction(0)) + t / sum(tilted)
        epsilon = math.log(max(max(inside[v] / outside[v], outside[v] / inside[v]) for v in outside))
        delta = Fraction(int(rng.integers(0, 3)), 10)
        moved = Fraction(int(rng.integers(-200, 200)))
        inside = {v: p * (1 - delta) for v, p in inside.items()}
        inside[moved] = inside.get(moved, Fraction(0)) + delta
        for limit in (Fraction(0), Fraction(5), Fraction(50), Fraction(300)):
            assert transferred(inside, outside, epsilon, delta, limit, printed=False) >= -1e-9


# Lemma A.2


@pytest.mark.parametrize(("k", "epsilon"), [(1, 0.5), (9, 0.3), (40, 0.1), (100, 1.0)])
def test_sums_of_bounded_losses_keep_their_tail(k, epsilon):
    """P(Σ C > kβ + zα√k) ≤ e^(−z²/2) for k binary responses: α = ε, β = ε·tanh(ε/2), the binomial law exactly."""
    from scipy import stats

    counts, right = np.arange(k + 1), 1 / (1 + math.exp(-epsilon))
    losses, law = (2 * counts - k) * epsilon, stats.binom.pmf(counts, k, right)
    beyond = 0.0
    for z in np.linspace(0.05, 4.0, 80):
        tail = float(law[losses > k * epsilon * math.tanh(epsilon / 2) + z * epsilon * math.sqrt(k)].sum())
        assert tail <= math.exp(-(z**2) / 2)
        beyond = max(beyond, tail / math.exp(-(z**2) * 2))
    if k > 1:
        assert beyond > 1  # a broken twin: twice the exponent does not hold
