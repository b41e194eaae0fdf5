"""Distances, small ball probabilities and curves of consistency as functions: what they take, give and refuse; known answers."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy import integrate, stats

from dpcore import errors
from dpcore.distributions import (
    consistency,
    ks_accuracy_bound,
    ks_distance,
    ks_exponential,
    orthogonal_series,
    perturbed_histogram,
    small_ball_probability,
    smoothed_histogram,
    squared_l2_distance,
)
from dpcore.testing import KeyedRandom
from support.ids import shown
from support.kernels import KEY

BETA = stats.beta(3, 5)


def uniform_cdf(x):
    return np.clip(x, 0, 1)


def point_mass(x):
    return np.where(np.asarray(x) >= 0.5, 1.0, 0.0)


def histogram(x, bins, epsilon=1.0):
    return perturbed_histogram(x, epsilon, (0, 1), bins=bins, rng=KeyedRandom(KEY))


# KS distance


@pytest.mark.parametrize(
    ("draws", "cdf", "wanted"),
    [
        ([0.1, 0.4, 0.7], uniform_cdf, 0.3),
        ([0.5], uniform_cdf, 0.5),
        ([0.0], uniform_cdf, 1.0),
        ([0.5, 0.5], point_mass, 0.0),
        ([0.25, 0.75], point_mass, 0.5),
        ([0.75, 0.75], point_mass, 1.0),
        ([1, 2, 3, 4], [1, 2, 3, 4, 5], 0.2),
        ([-math.inf, 0.5], uniform_cdf, 0.5),
    ],
    ids=shown,
)
def test_known_distances(draws, cdf, wanted):
    assert ks_distance(draws, cdf) == pytest.approx(wanted, abs=1e-12)
    assert ks_distance(cdf, draws) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("sizes", [(1, 1), (7, 5), (100, 33), (50, 50)])
def test_two_samples_as_scipy_has_it(sizes):
    rng = np.random.default_rng(5)
    one, other = (np.round(rng.normal(size=n), 1) for n in sizes)  # with ties
    assert ks_distance(one, other) == pytest.approx(stats.ks_2samp(one, other).statistic, abs=1e-12)
    assert ks_distance(one, BETA.cdf) == pytest.approx(stats.ks_1samp(one, BETA.cdf).statistic, abs=1e-12)


def test_releases_are_compared_by_their_distribution_functions():
    x = BETA.rvs(500, random_state=1)
    draws = ks_exponential(x, 1.0, (0, 1), draws=40, bins=20)
    assert ks_distance(draws, BETA.cdf) == ks_distance(draws.draws, BETA.cdf)
    one, other = histogram(x, 20), histogram(x, 15)
    grid = np.linspace(0, 1, 200_001)
    dense = float(np.abs(one.cdf(grid) - other.cdf(grid)).max())
    assert dense <= ks_distance(one, other, points=2) + 1e-12  # at the ends of bins: exact
    assert ks_distance(one, other) == pytest.approx(dense, abs=1e-4)
    series = orthogonal_series(x, 1.0, (0, 1), terms=4)
    assert ks_distance(series, BETA.cdf) == pytest.approx(float(np.abs(series.cdf(grid) - BETA.cdf(grid)).max()), abs=1e-3)
    assert ks_distance(one, one) == 0.0


def test_bounds_carry_over_to_distances():
    x = BETA.rvs(500, random_state=1)
    moved = perturbed_histogram(10 * x - 3, 1.0, bins=20, bounds=(-3.0, 7.0), rng=KeyedRandom(KEY))
    shifted = ks_distance(moved, lambda v: BETA.cdf((v + 3) / 10))
    assert shifted == pytest.approx(ks_distance(histogram(x, 20), BETA.cdf), abs=1e-9)


@pytest.mark.long
def test_two_coordinates_against_brute_force():
    rng = np.random.default_rng(3)
    one, other = rng.random((6, 2)), rng.random((5, 2))
    axes = [np.sort(np.concatenate([one[:, i], other[:, i], [2.0]])) for i in (0, 1)]
    brute = max(abs(np.mean((one <= (a, b)).all(axis=1)) - np.mean((other <= (a, b)).all(axis=1))) for a in axes[0] for b in axes[1])
    assert ks_distance(one, other) == pytest.approx(brute, abs=1e-12)
    product = ks_distance(one, lambda p: np.clip(p, 0, 1).prod(axis=1))
    dense = np.linspace(0, 1, 301)
    points = np.stack(np.meshgrid(dense, dense), axis=-1).reshape(-1, 2)
    close = max(abs(np.mean((one <= p).all(axis=1)) - p.prod()) for p in points)
    assert close <= product <= close + 0.01
    release = smoothed_histogram(one, 5.0, (0, 1), draws=8, bins=4)
    assert ks_distance(release, other) == ks_distance(release.draws, other)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((uniform_cdf, uniform_cdf), {}, errors.ParameterTypeError, "range on which to compare"),
        (([0.1, math.nan], uniform_cdf), {}, errors.DataError, "index 1"),
        (([], uniform_cdf), {}, errors.ParameterError, "first"),
        ((0.5, uniform_cdf), {}, errors.ParameterError, "first"),
        ((["a"], uniform_cdf), {}, errors.ParameterTypeError, "first"),
        (([0.5], np.zeros((2, 3))), {}, errors.ParameterError, "coordinates, got 1 and 3"),
        (([0.5], uniform_cdf), {"points": 1}, errors.ParameterError, "points"),
        ((np.random.default_rng(1).random((4000, 2)), np.zeros((1, 2))), {}, errors.ParameterError, "2\\^22 points"),
    ],
    ids=shown,
)
def test_what_ks_distance_refuses(arguments, options, error, message):
    with pytest.raises(error, match=message):
        ks_distance(*arguments, **options)


# Squared L2 distance


def test_known_l2_distances():
    assert squared_l2_distance(BETA.pdf, lambda x: 0 * x) == pytest.approx(integrate.quad(lambda x: BETA.pdf(x) ** 2, 0, 1)[0], rel=1e-9)
    assert squared_l2_distance(lambda x: x, lambda x: 0.0, bounds=(0, 3)) == pytest.approx(9.0)
    square = squared_l2_distance(lambda p: p[:, 0] * p[:, 1], lambda p: 0.0, bounds=((0, 0), (1, 2)), pieces=4)
    assert square == pytest.approx(8 / 9)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(3, 3), (7, 90), (2, 3, 4)])
def test_l2_distances_of_histograms_with_more_axes_need_no_pieces(shape):
    one, other = (perturbed_histogram(np.random.default_rng(seed).random((900, len(shape))), 1.0, (0, 1), bins=shape) for seed in (1, 2))
    exact = float(((one.masses - other.masses) ** 2).sum() / one.cells.volume)
    assert squared_l2_distance(one, other) == pytest.approx(exact, rel=1e-9)


def test_functions_that_do_not_give_one_number_a_point_are_refused():
    plane = perturbed_histogram(np.random.default_rng(1).random((900, 2)), 1.0, (0, 1), bins=9)
    for distance in (ks_distance, squared_l2_distance):
        with pytest.raises(errors.ParameterError, match="second must give one number for each point of an array of shape"):
            distance(plane, lambda x: x)


def test_l2_distances_of_releases():
    x = BETA.rvs(500, random_state=1)
    one, other = histogram(x, 6), histogram(x, 4)
    edges = np.unique(np.concatenate([one.cells.edges(), other.cells.edges()]))
    middles = (edges[1:] + edges[:-1]) / 2
    exact = float((np.diff(edges) * (one.density(middles) - other.density(middles)) ** 2).sum())
    for pieces in (1, 7, 256):
        assert squared_l2_distance(one, other, pieces=pieces) == pytest.approx(exact, rel=1e-10)
    series = orthogonal_series(x, 1.0, (0, 1), terms=5, rng=KeyedRandom(KEY))
    near = integrate.quad(lambda v: (series.density(v) - BETA.pdf(v)) ** 2, 0, 1, limit=500)[0]
    assert squared_l2_distance(series, BETA.pdf) == pytest.approx(near, rel=1e-4)
    assert squared_l2_distance(one, one) == 0.0
    plane = perturbed_histogram(np.random.default_rng(1).random((900, 2)), 1.0, (0, 1), bins=9)
    assert squared_l2_distance(plane, lambda p: 1.0, pieces=3) == pytest.approx(9 * float(((plane.masses - 1 / 9) ** 2).sum()), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((uniform_cdf, [0.5]), {}, errors.ParameterTypeError, "second"),
        ((uniform_cdf, uniform_cdf), {"pieces": 0}, errors.ParameterError, "pieces"),
        ((uniform_cdf, uniform_cdf), {"bounds": (1, 0)}, errors.ParameterError, "bounds"),
        ((uniform_cdf, uniform_cdf), {"bounds": ([0] * 3, [1] * 3), "pieces": 21}, errors.ParameterError, "2\\^22 nodes"),
    ],
    ids=shown,
)
def test_what_l2_distance_refuses(arguments, options, error, message):
    with pytest.raises(error, match=message):
        squared_l2_distance(*arguments, **options)


def test_dimensions_must_agree():
    one, plane = histogram([0.5], 2), perturbed_histogram(np.zeros((3, 2)), 1.0, (0, 1), bins=4)
    with pytest.raises(errors.ParameterError, match="coordinates"):
        squared_l2_distance(one, plane)
    with pytest.raises(errors.ParameterError, match="coordinates"):
        ks_distance(one, plane)


# Small balls and the bound


def test_known_small_ball_probabilities():
    assert small_ball_probability(0.5, draws=1) == 0.0
    assert small_ball_probability(0.8, draws=1) == pytest.approx(0.6)
    assert small_ball_probability(1.0, draws=10) == small_ball_probability(math.inf, draws=10, bins=3) == 1.0
    assert small_ball_probability(0.1, draws=3, bins=2) == 0.0  # C_1/3 is never within 0.1 of 1/2
    assert small_ball_probability(0.0, draws=7, bins=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"draws": 0}, errors.ParameterError),
        ({"draws": 2**21}, errors.ParameterError),
        ({"radius": -0.1}, errors.ParameterError),
        ({"radius": math.nan}, errors.ParameterError),
        ({"bins": 2**23}, errors.ParameterError),
        ({"runs": 0}, errors.ParameterError),
        ({"bins": 2.5}, errors.ParameterTypeError),
    ],
    ids=shown,
)
def test_what_small_ball_probability_refuses(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        small_ball_probability(**{"draws": 4, "radius": 0.3} | changes)


def test_the_bound_of_theorem_5_3_by_hand():
    n, k, epsilon, radius, largest = 10**6, 20, 0.002, 0.3, 1.5
    first = 2 * math.exp(-n * radius**2 / 128)
    second = largest**k * math.exp(-3 * epsilon * radius * n / 16) / small_ball_probability(radius / 2, draws=k)
    assert 1e-60 < second < 0.1
    assert ks_accuracy_bound(epsilon, radius, n=n, draws=k, largest_density=largest) == pytest.approx(first + second)
    binned = ks_accuracy_bound(epsilon, radius + largest / 100, n=n, draws=k, largest_density=largest, bins=100)
    assert binned == pytest.approx(first + second * math.exp(epsilon / 2))
    assert ks_accuracy_bound(epsilon, 1e-4, n=n, draws=k, largest_density=largest) == 1.0
    assert ks_accuracy_bound(epsilon, 0.1, n=n, draws=k, largest_density=largest, bins=10) == 1.0
    with pytest.raises(errors.ParameterError, match="largest_density"):
        ks_accuracy_bound(epsilon, radius, n=n, draws=k, largest_density=0.5)


def test_the_bound_falls_to_zero_along_theorem_5_4():
    """With k = (3ε/B)^(2/3)·n^(2/3)/16 and r = 2(B/3ε)^(1/3)·n^(-1/3), and not with k ten times as large."""
    epsilon, largest = 1.0, 2.0
    rate = math.log(largest) / (3 * epsilon)

    def bound(n, factor):
        k = round(factor * rate ** (-2 / 3) * n ** (2 / 3) / 16)
        return ks_accuracy_bound(epsilon, min(1.0, 2 * (rate / n) ** (1 / 3)), n=n, draws=k, largest_density=largest)

    right = [bound(n, 1) for n in (10**6, 10**8, 10**9)]
    assert right[0] > 0.5
    assert right[1] < 0.01
    assert right[2] < 1e-4
    assert [bound(n, 10) for n in (10**7, 10**8)] == [1.0, 1.0]


# Curves


def test_a_curve_holds_every_distance():
    curve = consistency(lambda x: x, lambda n: np.full(n, 0.25), uniform_cdf, sizes=[1, 10], repeats=3)
    assert curve.sizes == (1, 10)
    assert curve.distances.shape == (2, 3)
    assert np.allclose(curve.mean, 0.75)
    assert np.allclose(curve.stderr, 0.0)
    assert curve.exceeding(0.7).tolist() == [1.0, 1.0]
    assert curve.exceeding(0.8).tolist() == [0.0, 0.0]
    assert np.all(np.isinf(consistency(lambda x: x, np.zeros, uniform_cdf, sizes=[2], repeats=1).stderr))
    for sizes, options in (([], {}), ([0], {}), ([5], {"repeats": 0})):
        with pytest.raises(errors.ParameterError, match=r"sizes|repeats"):
            consistency(lambda x: x, np.zeros, uniform_cdf, sizes=sizes, **options)


def test_simulated_balls_of_many_bins_take_little_memory():
    tracemalloc.start()
    try:
        assert 0 <= small_ball_probability(0.6, draws=1, bins=2**17, runs=200) <= 1
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_a_curve_reports_each_release_and_shows_a_table():
    seen = []
    curve = consistency(
        lambda x: x, lambda n: np.full(n, 0.25), uniform_cdf, sizes=[1, 10], repeats=3, progress=lambda *at: seen.append(at)
    )
    assert seen == [(done, 6) for done in range(1, 7)]
    assert "<td>10</td>" in curve._repr_html_()
    assert "0.75" in curve._repr_html_()
