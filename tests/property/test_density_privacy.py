"""Privacy of series and of exponential mechanisms by enumeration: every pair of neighbours on small grids, and what the document prints.

Wasserman & Zhou (2010), Section 6 (scale of the noise), Eq. 17 and Lemma 6.1 (exponent and Δ), Section 5.2 (the mean): each printed form
must fail the check that ours passes.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore import _backend
from dpcore._exact.intervals import Interval
from dpcore._exact.sampling import Uniform
from dpcore.distributions._cosine_distances import largest_change, largest_square
from dpcore.distributions._rejection import Trials, _first
from dpcore.distributions._series_distance import SeriesDistance
from dpcore.distributions.series import LARGEST_COSINE, series_scale
from support.densities import GRID, LARGEST, cosines, data_sets, largest_loss, log_laws, neighbours, table

SLACK = 1e-12
POINTS = (0.0, 0.25, 0.5, 0.75, 1.0)

# Section 6: noise on the coefficients


def worst_change(terms: int, points: int = 1201) -> Fraction:
    """The largest ℓ1 change of the m sums as one record moves between points of a grid, in units of the grid of cosines."""
    rows = _backend.rounded_cosines(np.linspace(0, 1, points), terms)
    return Fraction(max(int(np.abs(rows - row).sum(axis=1).max()) for row in rows))


def largest_noise_loss(terms: int, scale: float) -> float:
    """ln of the ratio of densities of Laplace noise at the worst pair: |a − v| − |b − v| is |a − b| for v beyond both."""
    return float(worst_change(terms) * Fraction(GRID) / Fraction(scale))


@pytest.mark.some(3)
@pytest.mark.parametrize("terms", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.3])
def test_noise_on_coefficients_is_private(terms, epsilon):
    loss = largest_noise_loss(terms, series_scale(epsilon, terms))
    assert loss <= epsilon + SLACK
    assert loss > epsilon * (1 - 1e-3)  # attained, but for the grid of records
    below = largest_noise_loss(terms, 0.99 * series_scale(epsilon, terms))
    assert below > epsilon + SLACK  # a twin one per cent below the supremum


SUPREMA = {1: 2.83, 2: 4.42, 3: 6.10, 4: 7.81, 6: 11.23, 10: 18.10}


@pytest.mark.some(3)
@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5, 6, 10, 33])
def test_no_two_records_are_further_apart_than_the_suprema(terms):
    """Every pair of a grid, and random pairs: the largest distances are from 0, and no more than a millionth below the bounds."""
    random = np.random.default_rng(terms)
    rows = _backend.rounded_cosines(np.concatenate([np.linspace(0, 1, 601), random.random(200)]), terms)
    most, square = largest_change(terms), largest_square(terms)
    for row in rows:
        apart = np.abs(rows - row)
        assert int(apart.sum(axis=1).max()) <= most
        assert max(sum(int(unit) ** 2 for unit in each) for each in apart[(apart.astype(float) ** 2).sum(axis=1).argsort()[-3:]]) <= square
    fine = np.abs(_backend.rounded_cosines(np.linspace(0, 1, 60_001), terms) - rows[0]).astype(float)
    assert fine.sum(axis=1).max() > most * (1 - 1e-6)
    assert (fine**2).sum(axis=1).max() > square * (1 - 1e-6)
    assert most * GRID == pytest.approx(SUPREMA.get(terms, most * GRID), abs=0.005)


def test_the_suprema_for_many_terms():
    """1 + 0.2172 of the lowest value of a sum of cosines, and the distance from 0 to 1 for an even number of terms."""
    for terms in (1000, 65536):
        assert largest_change(terms) * GRID == pytest.approx(math.sqrt(2) * 1.21723 * (terms + 0.5), rel=1e-3)
        assert math.sqrt(largest_square(terms)) * GRID == pytest.approx(2 * math.sqrt(terms), rel=1e-3)


@pytest.mark.parametrize(("terms", "factor"), [(1, 2.00), (2, 1.56), (3, 1.44)])
def test_the_printed_scale_of_the_series_is_not(terms, factor):
    """Scale c₀m/(nε) on coefficients is c₀m/ε on sums."""
    printed = largest_noise_loss(terms, math.sqrt(2) * terms / 1.0)
    assert printed == pytest.approx(factor, abs=0.005)
    assert printed > 1 + SLACK


def test_the_printed_scale_fails_for_every_number_of_terms():
    losses = [largest_noise_loss(terms, math.sqrt(2) * terms) for terms in (5, 10, 30)]
    assert min(losses) > 1.2


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_sums_of_neighbours_differ_by_no_more_than_the_bound(n):
    terms, sets = 3, data_sets(POINTS, n)
    sums = [tuple(_backend.cosine_sums(np.array(records), terms, threads=1)) for records in sets]
    change = max(sum(abs(a - b) for a, b in zip(sums[i], sums[j], strict=True)) for i, j in neighbours(sets))
    assert change == worst_change(terms, 5)
    assert change <= largest_change(terms)


@pytest.mark.parametrize("terms", [1, 7, 64])
def test_sums_of_random_neighbours_on_any_number_of_threads(terms):
    random = np.random.default_rng(terms)
    for n in (1, 50, 70_000):
        x = np.where(random.random(n) < 0.2, random.choice([0.0, 1.0, 5e-324, 1 - 2.0**-53], n), random.random(n))
        sums = _backend.cosine_sums(x, terms, threads=1)
        assert sums == _backend.cosine_sums(x[::-1], terms, threads=3)
        other = x.copy()
        other[random.integers(n)] = random.choice([0.0, 1.0, random.random()])
        moved = _backend.cosine_sums(other, terms, threads=2)
        assert max(abs(a - b) for a, b in zip(sums, moved, strict=True)) <= 2 * LARGEST


# Eq. 15 to 17: the exponential mechanism with the distance of series


def distance(records, terms: int, k: int, terms_k: int, epsilon: float) -> SeriesDistance:
    """The exponent of a data set."""
    return SeriesDistance(_backend.cosine_sums(np.array(records), terms, threads=1), len(records), k, terms_k, epsilon)


def exponents(sets, candidates, terms: int, terms_k: int, epsilon: float) -> np.ndarray:
    """E of every data set and candidate, from the exact rational squares."""
    k = len(candidates[0])
    sums = [cosines(candidate, terms_k).sum(axis=0) for candidate in candidates]
    each = [distance(records, terms, k, terms_k, epsilon) for records in sets]
    return table(lambda own, other: math.sqrt(own.square(other)), each, sums)


def printed_factor(n: int, terms: int, exact: bool) -> float:
    """Eq. 17's exponent over ours: 2 with the exact Δ = 2c₀√m/n, less with the larger one that is printed, 2c₀²m/n."""
    return 2.0 if exact else 2 * (2 * math.sqrt(2 * terms) / n) / (2 * 2 * terms / n)


@pytest.mark.some(18)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize(("terms", "terms_k", "k"), [(1, 1, 1), (1, 1, 2), (2, 2, 2), (3, 3, 1), (3, 1, 2), (1, 3, 2)])
def test_every_neighbour_of_the_l2_mechanism(n, terms, terms_k, k):
    sets = data_sets(POINTS, n)
    pairs = neighbours(sets)
    candidates = list(itertools.product(np.arange(6) / 6, repeat=k))
    for epsilon in (0.3, 2.0):
        found = exponents(sets, candidates, terms, terms_k, epsilon)
        left, right = np.array(pairs).T
        assert np.abs(found[left] - found[right]).max() <= epsilon / 2 + SLACK  # ξ moves by Δ at most
        assert largest_loss(log_laws(found), pairs) <= epsilon + SLACK


def test_the_sensitivity_of_the_distance_is_attained():
    """All records at 0, one moves to 1: the coefficient moves by 2c/n, straight away from a candidate at 0."""
    for n in (1, 2, 4):
        found = exponents([(0.0,) * n, (0.0,) * (n - 1) + (1.0,)], [(0.0,)], 1, 1, 1.0)
        assert found[1, 0] - found[0, 0] == pytest.approx(0.5, abs=1e-15)


def worst_case(terms: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Exponents of two neighbours of 100 records, and weights of candidates of 12 draws at 0 or ½, with c draws at 0: binomial.

    All but one of 4,096 candidates are beyond the coefficient that moves: the normaliser takes one half of the loss, c = 12 the other.
    """
    n, k = 100, 12
    sets = [(0.0,) * n, (0.0,) * (n - 1) + (1.0,)]
    candidates = [(0.0,) * c + (0.5,) * (k - c) for c in range(k + 1)]
    weights = np.array([math.comb(k, c) for c in range(k + 1)], float)
    return exponents(sets, candidates, terms, terms, epsilon), weights


def test_the_printed_exponent_loses_twice_epsilon():
    epsilon = 0.05
    found, weights = worst_case(1, epsilon)
    ours = largest_loss(log_laws(found, weights), [(0, 1), (1, 0)])
    printed = largest_loss(log_laws(printed_factor(100, 1, exact=True) * found, weights), [(0, 1), (1, 0)])
    assert 0.99 * epsilon < ours <= epsilon + SLACK
    assert printed > 1.99 * epsilon


def test_the_printed_exponent_with_the_printed_sensitivity_fails_at_one_term_only():
    epsilon = 0.05
    found, weights = worst_case(1, epsilon)
    printed = largest_loss(log_laws(printed_factor(100, 1, exact=False) * found, weights), [(0, 1), (1, 0)])
    assert printed == pytest.approx(1.41 * epsilon, rel=0.01)
    # from two terms on the printed Δ is so large that it makes up for the missing 2
    for n, terms in itertools.product((1, 2, 3), (2, 3)):
        sets, candidates = data_sets(POINTS, n), list(itertools.product(np.arange(6) / 6, repeat=2))
        found = printed_factor(n, terms, exact=False) * exponents(sets, candidates, terms, terms, 1.0)
        assert largest_loss(log_laws(found), neighbours(sets)) <= 1.0 + SLACK


@pytest.mark.parametrize(("terms", "terms_k", "k"), [(1, 1, 1), (3, 2, 5), (2, 9, 1), (40, 40, 3)])
def test_float_exponents_keep_their_bound(terms, terms_k, k):
    random = np.random.default_rng(terms)
    for n, epsilon in ((3, 1.0), (1000, 0.05)):
        own = distance(random.random(n) ** 4, terms, k, terms_k, epsilon)
        sums = _backend.rounded_cosines(random.random(300 * k), terms_k).reshape(300, k, terms_k).sum(axis=1)
        fast = own.exponents(sums)
        for index in range(300):
            square = own.square(sums[index])
            slow = Fraction(math.isqrt(int(square * 2**200)), 2**100)
            assert abs(Fraction(float(fast[index])) - slow) <= own.error()
        assert own.error() < 1e-12


@pytest.mark.parametrize(("terms", "terms_k", "k"), [(1, 1, 1), (2, 2, 1), (2, 1, 2), (1, 4, 2)])
def test_the_bound_of_the_number_of_trials_covers_every_data_set(terms, terms_k, k):
    """1/P(accept) ≤ exp(bound), the mean over uniform candidates by the midpoint rule; and the bound is not idle."""
    epsilon, n = 3.0, 4
    candidates = list(itertools.product((np.arange(48 if k == 1 else 16) + 0.5) / (48 if k == 1 else 16), repeat=k))
    sets = data_sets((0.0, 0.3, 1.0), n)
    trials = 1 / np.exp(-exponents(sets, candidates, terms, terms_k, epsilon)).mean(axis=1)
    bound = math.exp(epsilon * n * distance(sets[0], terms, k, terms_k, epsilon).mean_rate())
    assert trials.max() <= bound * 1.001  # the rule's own error
    assert trials.max() > bound / 15


def test_uniform_candidates_have_coefficients_of_mean_0_and_variance_1():
    """What the bound of the number of trials takes for granted, over all multiples of 2^-13."""
    rows = _backend.rounded_cosines(np.arange(2**13) / 2**13, 64).astype(float) * GRID
    assert (rows * rows).mean(axis=0).max() <= 1 + 1e-12
    assert np.abs(rows.mean(axis=0)).max() < 2.0**-12


# Section 5.2: the mean


def mean_scores(sets, candidates) -> np.ndarray:
    """ξ = ‖x̄ − z‖² exactly, one row for each data set; records and candidates are tuples of r fractions."""

    def score(records, z):
        n = len(records)
        return sum((Fraction(sum(record[a] for record in records), n) - z[a]) ** 2 for a in range(len(z)))

    return np.array([[score(records, z) for z in candidates] for records in sets], object)


@pytest.mark.some(2)
@pytest.mark.parametrize(("n", "r"), [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (3, 2)])
def test_the_mean(n, r):
    steps = 4 if r == 1 else 2
    records = [tuple(Fraction(i, steps) for i in index) for index in itertools.product(range(steps + 1), repeat=r)]
    candidates = [tuple(Fraction(i, 6) for i in index) for index in itertools.product(range(7), repeat=r)]
    sets = data_sets(records, n)
    pairs, scores = neighbours(sets), mean_scores(sets, candidates)
    left, right = np.array(pairs).T
    sensitivity = r * (Fraction(2, n) - Fraction(1, n * n))
    assert np.abs(scores[left] - scores[right]).max() == sensitivity
    assert n == 1 or sensitivity > Fraction(r, n)  # the printed bound r/n
    for epsilon in (0.5, 1.0, 2.0):
        rate = epsilon / (2 * float(sensitivity))
        assert largest_loss(log_laws(rate * scores.astype(float)), pairs) <= epsilon + SLACK
    # as printed, exp(−n‖x̄ − z‖²/(2ε)): the less the ε, the more it tells
    printed = [largest_loss(log_laws(n / (2 * epsilon) * scores.astype(float)), pairs) / epsilon for epsilon in (0.1, 0.5)]
    assert min(printed) > 1 + SLACK
    assert printed[0] > printed[1]


def test_the_constant_is_the_one_of_the_rounded_cosines():
    assert Fraction(LARGEST_COSINE) ** 2 < 2
    assert np.abs(_backend.rounded_cosines(np.linspace(0, 1, 4097), 64)).max() == LARGEST


@pytest.mark.parametrize("wrong", [-1e-6, 1e-6])
def test_exponents_with_an_error_do_not_decide(wrong):
    """Float exponents off by their whole bound: a number between the two thresholds is decided by the exact one."""
    uniform = math.exp(-0.5) * (1 - wrong / 2)

    class Stated:
        def words(self, n):
            return np.full(n, int(uniform * 2.0**64), np.uint64)

        def __getitem__(self, index):
            return Uniform(int(uniform * 2.0**64), 64, lambda chunk: [0] * 8)

    trials = Trials(np.zeros((3, 1)), np.full(3, 0.5 + wrong), 1e-6, lambda index: lambda precision: Interval.of(0.5, precision))
    assert _first(trials, Stated()) == (0 if wrong > 0 else None)
