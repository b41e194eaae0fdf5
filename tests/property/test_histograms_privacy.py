"""The privacy of released histograms from exact probabilities: all data sets of n ≤ 4 records in m ≤ 4 cells, all neighbours, all outcomes.

Ratios are rational numbers. Each check has a twin with a little less smoothing, prior or noise, which breaks the bound.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore import ParameterError, accounting, noise
from dpcore.distributions import least_prior, least_smoothing
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import Cells
from dpcore.distributions._thresholds import exp_at_least, growth_below
from dpcore.distributions.dirichlet import _check_prior
from dpcore.distributions.smoothed import _check_smoothing
from support.histograms import (
    data_sets,
    dirichlet_law,
    dirichlet_law_of_the_code,
    largest_log_ratio,
    neighbours,
    sequences,
    smoothed_cells,
    smoothed_law_of_the_code,
)
from support.kernels import Law
from support.laws import steps_law

SLACK = 1e-12
EPSILONS = (0.1, 1.0, 3.7)
SIZES = [(n, m) for n in range(1, 5) for m in range(1, 5)]
each_size = pytest.mark.parametrize(("n", "m"), SIZES)


def smoothed_loss(n, m, k, delta):
    return largest_log_ratio(lambda counts: smoothed_law_of_the_code(counts, k, delta, ascending=True), n, m)


def dirichlet_loss(n, m, k, prior):
    return largest_log_ratio(lambda counts: dirichlet_law(counts, k, prior, ascending=True), n, m)


@pytest.mark.some(37)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@each_size
def test_smoothed_histograms_are_private_and_no_more_than_that(n, m, k, epsilon):
    delta = least_smoothing(epsilon, draws=k, bins=m, n=n)
    loss = smoothed_loss(n, m, k, delta)
    assert loss <= epsilon + SLACK
    if m > 1:
        assert loss >= epsilon - SLACK
        assert smoothed_loss(n, m, k, 0.99 * delta) > epsilon + SLACK


@pytest.mark.some(17)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@each_size
def test_dirichlet_histograms_are_private_and_no_more_than_that(n, m, k, epsilon):
    prior = least_prior(epsilon, draws=k)
    loss = dirichlet_loss(n, m, k, [prior] * m)
    assert loss <= epsilon + SLACK
    if m > 1:
        assert loss >= epsilon - SLACK
        # a single cell with less is enough to break it
        assert dirichlet_loss(n, m, k, [0.99 * prior, *[2 * prior] * (m - 1)]) > epsilon + SLACK


@pytest.mark.some(2)
@pytest.mark.parametrize(("n", "m"), [(1, 2), (3, 2), (2, 3), (4, 4)])
def test_the_code_draws_the_laws_of_the_formulas(n, m):
    prior = [0.75 + 3.1 * j for j in range(m)]
    for counts in data_sets(n, m):
        for k in (1, 3) if m > 3 else (1, 2, 3, 4):
            assert smoothed_law_of_the_code(counts, k, 0.3) == sequences(smoothed_cells(counts, 0.3), k)
            assert dirichlet_law_of_the_code(counts, k, 0.7) == dirichlet_law(counts, k, [0.7] * m)
            assert dirichlet_law_of_the_code(counts, k, np.array(prior)) == dirichlet_law(counts, k, prior)
            assert sum(dirichlet_law(counts, k, prior).values()) == 1
            assert dirichlet_law_of_the_code(counts, k, np.array(prior)) != dirichlet_law(counts, k, [1.001 * prior[0], *prior[1:]])


def points(m):
    """One point in each of m cells of [0, 1]."""
    return (np.arange(m) + 0.5) / m


@each_size
def test_perturbed_histograms_are_private_and_no_more_than_that(n, m):
    cells = Cells.of(m, Box.of((0, 1)))
    moved = {0}
    for codes in itertools.product(range(m), repeat=n):
        x = points(m)[list(codes)]
        counts = cells.counts(x)
        for i, other in itertools.product(range(n), range(m)):
            y = x.copy()
            y[i] = points(m)[other]
            moved.add(int(np.abs(cells.counts(y) - counts).sum()))
    assert moved == ({0} if m == 1 else {0, 2})
    for epsilon in EPSILONS:
        scale = accounting.laplace_scale(epsilon, 2.0)
        assert 2 / Fraction(scale) <= Fraction(epsilon)
        assert 2 / Fraction(math.nextafter(scale, 0)) > Fraction(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("n", "m"), [(1, 2), (4, 2), (2, 3), (2, 4)])
def test_discrete_noise_by_enumeration_of_noisy_counts(n, m, epsilon):
    """ln P(z | C) = −Σ|z_j − C_j|/t + const for z on a window that holds the worst."""
    scale = accounting.laplace_scale(epsilon, 2.0)
    window = np.array(list(itertools.product(range(-1, n + 2), repeat=m)))

    def largest(scale: float) -> float:
        pairs = ((np.array(counts), np.array(other)) for counts in data_sets(n, m) for other in neighbours(counts))
        return max(float((np.abs(window - b).sum(axis=1) - np.abs(window - a).sum(axis=1)).max()) / scale for a, b in pairs)

    assert epsilon - SLACK <= largest(scale) <= epsilon + SLACK
    assert largest(accounting.laplace_scale(epsilon, 1.0)) > epsilon + SLACK


@pytest.mark.parametrize("epsilon", [1.0, 3.7])
def test_released_laplace_counts_by_their_exact_probabilities(epsilon):
    """Two counts move by 1 each; each released multiple of the grid has a probability in closed form."""
    scale = accounting.laplace_scale(epsilon, 2.0)
    coarse = 2.0 ** (math.frexp(scale)[1] - 6)  # the law is that of every grid; a coarse one has few enough steps to add up
    reach = int(40 * scale / coarse)

    def largest(scale: float) -> float:
        at_zero, at_one = (steps_law(Law("laplace", scale, coarse), float(value), reach) for value in (0, 1))
        return 2 * float(np.abs(np.log(at_zero / at_one)).max())

    assert epsilon - SLACK <= largest(scale) <= epsilon + SLACK
    assert largest(scale / 2) > epsilon + SLACK
    assert noise.default_grid(scale) <= coarse


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 0.1, 1.0, 30.0, 1000.0, 1e300])
@pytest.mark.parametrize(("k", "m", "n"), [(1, 1, 1), (1, 2, 1), (7, 10, 100), (10**6, 2**22, 10**8), (2**40, 2, 3)])
def test_the_least_parameters_pass_their_own_check_and_one_unit_less_does_not(epsilon, k, m, n):
    delta, prior = least_smoothing(epsilon, draws=k, bins=m, n=n), least_prior(epsilon, draws=k)
    assert _check_smoothing(delta, epsilon, k, m, n) == delta == _check_smoothing(None, epsilon, k, m, n)
    if delta > 5e-324:
        with pytest.raises(ParameterError, match="smoothing must be in"):
            _check_smoothing(math.nextafter(delta, 0), epsilon, k, m, n)
    if prior > 2.0**900:
        with pytest.raises(ParameterError, match="epsilon must give a prior"):
            _check_prior(None, epsilon, k, m)
        return
    assert _check_prior(prior, epsilon, k, m) == prior == _check_prior(None, epsilon, k, m)
    if prior > 2.0**-1022:
        with pytest.raises(ParameterError, match="prior must be at least"):
            _check_prior(math.nextafter(prior, 0), epsilon, k, m)


def test_comparisons_with_exponentials():
    for x in (Fraction(1, 10**30), Fraction(1, 3), Fraction(1), Fraction(700)):
        low = growth_below(x)
        assert exp_at_least(x, 1 + low)
        assert not exp_at_least(x, 1 + low * (1 + Fraction(1, 2**70)))
        assert float(low) == pytest.approx(math.expm1(x), rel=1e-15)
    assert exp_at_least(Fraction(10**300), Fraction(2) ** 1100)
    assert not exp_at_least(Fraction(700), Fraction(2) ** 1100)
