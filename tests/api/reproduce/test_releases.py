"""What studies are made of: densities, errors, rejections; each check refuses a broken twin.

The studies of Wasserman & Zhou (2010) and Private inference (chapter 9), Section 9.3.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dpcore.distributions import DrawsRelease, perturbed_histogram
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import Cells
from dpcore.distributions.distances import ks_distance, squared_l2_distance
from dpcore.distributions.tuning import Tuning, smoothed_histogram_l2
from dpcore.reproduce import Setting, Slope, point_masses, private_tests, rate_curves, releases, run
from dpcore.reproduce.densities import Betas, Cosines, Cube, Linear
from dpcore.reproduce.draws import packed_signs
from dpcore.reproduce.estimates import Mean
from dpcore.reproduce.studies import distribution_tests, figure1, rates
from dpcore.testing import KeyedRandom

DENSITIES = (
    Linear(1.0),
    Linear(-2.0),
    Linear(0.0),
    Betas(((10.0, 10.0),)),
    Betas(((10.0, 3.0), (3.0, 10.0))),
    Cosines(2.0, 0.4),
    Cosines(1.5, 0.2, 16),
)
QUICK = Setting(1, quick=True)
SURE = 2.8
"""√n times a KS distance that chance exceeds with probability 3·10^-7."""


@pytest.fixture
def stream():
    return KeyedRandom(bytes(range(32)))


# Densities


@pytest.mark.parametrize("density", DENSITIES, ids=str)
def test_a_density_fits_its_distribution_function_and_its_square(density):
    cells = density.masses(7)
    by_quadrature = [integrate.quad(lambda x: float(density.pdf(np.array([x]))[0]), i / 7, (i + 1) / 7, limit=200)[0] for i in range(7)]
    assert cells == pytest.approx(by_quadrature, abs=1e-9)
    assert cells.sum() == pytest.approx(1, abs=1e-12)
    assert density.square == pytest.approx(squared_l2_distance(density.pdf, lambda x: 0 * x), abs=1e-9)
    assert density.pdf(np.linspace(0, 1, 1001)).min() >= 0


@pytest.mark.parametrize("density", DENSITIES, ids=str)
def test_errors_of_histograms_are_integrals(density, stream):
    released = perturbed_histogram(density.records(500, stream), 1.0, (0, 1), bins=6, rng=stream)
    assert float(density.squared_error(released.masses)) == pytest.approx(squared_l2_distance(released, density.pdf), rel=1e-9)
    assert density.bias(6) == pytest.approx(float(density.squared_error(density.masses(6))), abs=1e-12)


@pytest.mark.some(2)
@pytest.mark.parametrize("density", DENSITIES, ids=str)
def test_records_have_the_law_that_they_are_said_to_have(density, stream):
    n = 200_000
    records = density.records(n, stream)
    assert ((records >= 0) & (records <= 1)).all()
    assert ks_distance(records, density.cdf) * math.sqrt(n) < SURE
    other = Linear(0.05) if density == Linear(0.0) else Linear(0.0)
    assert ks_distance(records, other.cdf) * math.sqrt(n) > SURE


def test_a_cube_has_independent_coordinates():
    cube, line = Cube(Linear(1.0), 2), Linear(1.0)
    assert cube.masses(9).reshape(3, 3) == pytest.approx(np.outer(line.masses(3), line.masses(3)))
    expected = integrate.dblquad(lambda x, y: (line.pdf(x) * line.pdf(y)) ** 2, 0, 1, 0, 1)[0]
    assert cube.square == pytest.approx(expected)
    assert Cube(line, 1).bias(5) == pytest.approx(line.bias(5))


def test_the_risk_of_a_histogram_is_the_sum_over_all_data():
    density, m, n = Linear(1.5), 2, 3
    p = density.masses(m)
    total = math.fsum(
        math.prod(p[code] for code in codes) * float(density.squared_error(np.bincount(codes, minlength=m) / n))
        for codes in itertools.product(range(m), repeat=n)
    )
    assert density.histogram_risk(m, n) == pytest.approx(total)


# Errors of releases


def test_the_risk_of_a_smoothed_histogram_is_the_sum_over_all_data_and_draws():
    density, n, tuning = Linear(1.5), 3, Tuning(bins=2, draws=2, smoothing=0.25)
    p, delta = density.masses(2), Fraction(1, 4)
    total = 0.0
    for codes in itertools.product(range(2), repeat=n):
        shares = [(1 - delta) * Fraction(codes.count(j), n) + delta / 2 for j in range(2)]
        for draws in itertools.product(range(2), repeat=2):
            probability = math.prod(p[code] for code in codes) * float(math.prod(shares[j] for j in draws))
            total += probability * float(density.squared_error(np.bincount(draws, minlength=2) / 2))
    assert releases.smoothed_l2_risk(density, n, tuning) == pytest.approx(total)


def test_draws_have_that_risk_and_not_another_one(stream):
    density, n = Linear(2.0), 2000
    tuning = smoothed_histogram_l2(1.0, n=n)
    errors = releases.draws_l2(density, releases.smoothed_draws(density, n, tuning, 2000, stream), tuning.bins)
    off = [
        abs(errors.mean() - releases.smoothed_l2_risk(density, n, each)) / (errors.std() / math.sqrt(len(errors)))
        for each in (tuning, replace(tuning, smoothing=0.5 * tuning.smoothing))
    ]
    assert off[0] < 5 < off[1]


def test_perturbed_histograms_have_the_risk_of_their_noise(stream):
    density, n, m = Linear(1.0), 20_000, 30
    errors = density.squared_error(releases.perturbed(density, n, m, 0.1, 4000, stream))
    off = [
        abs(errors.mean() - releases.perturbed_l2_risk(density, n, m, epsilon)) / (errors.std() / math.sqrt(len(errors)))
        for epsilon in (0.1, 0.11)
    ]
    assert off[0] < 5 < off[1]


@pytest.mark.parametrize("slope", [0.0, 1.0, -2.0])
def test_the_distance_of_a_histogram_is_a_supremum(slope, stream):
    density, grid = Linear(slope), np.linspace(0, 1, 100_001)
    for m in (1, 3, 8):
        masses = releases.perturbed(density, 50, m, 0.5, 20, stream)
        for row, found in zip(masses, releases.histogram_ks(density, masses), strict=True):
            steps = np.concatenate([[0.0], np.cumsum(row)])
            on_grid = np.abs(density.cdf(grid) - np.interp(grid, np.arange(m + 1) / m, steps)).max()
            assert on_grid <= found + 1e-12
            assert found == pytest.approx(on_grid, abs=1e-4)


def test_distances_of_draws_are_those_of_a_release(stream):
    codes = np.array([[0, 1, 1, 3, 2], [3, 3, 3, 3, 0]])
    found = releases.draws_ks(Linear(1.0), codes, 4, stream)
    ends = Linear(1.0).cdf(np.arange(5) / 4)
    for row, distance in zip(codes, found, strict=True):
        below = np.searchsorted(np.sort(row), np.arange(5)) / 5
        # at the ends of cells it does not matter where in them the draws lie
        assert np.abs(below - ends).max() - 1e-12 <= distance <= 1


@pytest.mark.long
@pytest.mark.parametrize("terms", [3, 10])
def test_the_risk_of_a_series_is_that_of_its_coefficients(terms):
    density, n = Cosines(2.0, 0.4), 50
    j = np.arange(1, terms + 1)
    second = [integrate.quad(lambda x, i=i: 2 * math.cos(math.pi * i * x) ** 2 * float(density.pdf(np.array([x]))[0]), 0, 1)[0] for i in j]
    beta = density.coefficients
    assert beta[:2] == pytest.approx([0.4, 0.4 * 2**-2.5])
    expected = float(np.sum(second - beta[:terms] ** 2)) / n + 0.01 * terms + float(np.sum(beta[terms:] ** 2))
    assert density.series_risk(terms, n, 0.01) == pytest.approx(expected)


# Checks of slopes


def test_slopes_are_judged_by_their_standard_errors():
    full = Setting(0)
    assert rate_curves.near(Slope("p", "n", -0.44, 0.001, -0.4, None), full).holds
    assert not rate_curves.near(Slope("p", "n", -0.46, 0.001, -0.4, None), full).holds
    assert rate_curves.near(Slope("p", "n", -0.46, 0.02, -0.4, None), full).holds
    assert not rate_curves.near(Slope("p", "n", -0.44, 0.001, -0.4, -0.6), full, own=True).holds
    assert rates._at_least_as_fast(Slope("p", "n", -0.5, 0.01, -0.33)).holds
    assert not rates._at_least_as_fast(Slope("p", "n", -0.3, 0.01, -0.33)).holds


def test_a_curve_that_is_not_as_computed_is_noticed():
    curve = rate_curves.smoothed_l2(QUICK)
    assert rate_curves.as_computed(curve).holds
    assert not rate_curves.as_computed(replace(curve, own=tuple(2 * own for own in curve.own))).holds
    faster = replace(
        curve, means=tuple(Mean(mean.value * n**-0.4, mean.stderr * n**-0.4) for n, mean in zip(curve.n, curve.means, strict=True))
    )
    assert rate_curves.near(curve.slope, QUICK).holds
    assert not rate_curves.near(faster.slope, QUICK).holds


def test_the_smaller_order_of_theorem_4_4_is_told_from_what_is_measured():
    curve = rate_curves.perturbed_ks(QUICK)
    assert rates._above_the_smaller_order(curve).holds
    values = tuple(Mean(math.log(n) * n ** (-2 / 3), 1e-6) for n in curve.n)
    assert not rates._above_the_smaller_order(replace(curve, means=values)).holds


@pytest.mark.long
def test_the_sampler_that_refuses_is_told_from_one_that_runs():
    assert rates._refused(10**5).holds
    assert not rates._refused(1000).holds
    curve = rate_curves.exponential_l2(QUICK)
    assert rates._falls(curve).holds
    assert not rates._falls(replace(curve, means=curve.means[::-1])).holds


def test_nothing_that_is_released_is_near_a_point_mass():
    found = point_masses.distances(QUICK)
    assert all(float(each.min()) >= 0.5 for every in found.values() for each in every.values())
    # a release that is no private one
    inside = DrawsRelease(None, 4, Box.of((0, 1)), np.full(4, 0.3), Cells.of(2, Box.of((0, 1))))
    assert point_masses._from_point(inside, 0.3) == 0.0


# Figure 1


def test_counts_of_cells_are_those_of_records():
    density = Betas(((2.0, 3.0),))
    uniform = np.sort(np.linspace(0.001, 0.999, 60).reshape(3, 20) ** 2, axis=1)
    records = stats.beta.ppf(uniform, 2.0, 3.0)
    for m in (1, 2, 7):
        found = figure1._counts(uniform, density.cdf(np.arange(1, m) / m))
        assert found.tolist() == [np.histogram(row, m, (0, 1))[0].tolist() for row in records]


@pytest.fixture(scope="module")
def errors():
    return figure1._errors(figure1.DENSITIES[0], 1000, QUICK)


def test_what_figure_1_shows_is_noticed_where_it_is_not_so(errors):
    density = figure1.DENSITIES[0]
    weak, strong = errors.perturbed[0.1], errors.perturbed[0.01]
    assert figure1._as_computed(density, 1000, errors.original).holds
    assert not figure1._as_computed(density, 700, errors.original).holds
    assert figure1._never_better(1000, 0.1, errors.original, weak).holds
    assert not figure1._never_better(1000, 0.1, weak, errors.original).holds
    assert not figure1._never_better(1000, 0.1, errors.original, weak + 1e-9).holds  # not equal at m = 1
    turned = figure1.Errors(strong, {0.1: weak, 0.01: errors.original})
    for check in (figure1._larger_error, figure1._fewer_cells, figure1._more_sensitive):
        assert check(1000, errors).holds
        assert not check(1000, turned).holds


def test_more_cells_that_are_better_by_chance_only_are_forgiven():
    noise = np.random.default_rng(3).normal(size=(200, 3))
    columns = noise - noise.mean(axis=0) + np.array([1.0, 0.99, 2.0])
    assert 0 < figure1._gain(columns, 0) < 3
    assert figure1._gain(columns, 1) == 0
    assert figure1._gain(columns - np.array([0, 0.9, 0]), 0) > 3


def test_the_same_seed_gives_the_same_figure(monkeypatch, errors):
    monkeypatch.setenv("DPCORE_NUM_THREADS", "1")
    again = figure1._errors(figure1.DENSITIES[0], 1000, QUICK)
    assert (again.perturbed[0.01] == errors.perturbed[0.01]).all()
    other = figure1._errors(figure1.DENSITIES[0], 1000, Setting(2, quick=True))
    assert not (other.perturbed[0.01] == errors.perturbed[0.01]).all()


# Tests of distributions


def test_packed_signs_have_their_mean(stream):
    n, d = 20_000, 16
    for mean, other in ((0.0, 0.1), (0.3, 0.4)):
        bits = np.unpackbits(packed_signs(n, d, mean, stream), axis=1, bitorder="little")
        found = 2.0 * bits.mean(axis=0) - 1
        assert bits.shape == (n, d)
        error = math.sqrt((1 - mean**2) / n)
        assert np.abs(found - mean).max() < 5.5 * error < np.abs(found - other).min()
        pairs = np.corrcoef(bits.T) - np.eye(d)
        assert np.abs(pairs).max() < 6 / math.sqrt(n)


def test_noise_alone_rejects_by_its_tail():
    for gap in (-3.0, 0.0, 0.5, 20.0):
        assert private_tests.laplace_tail(gap, 2.0) == pytest.approx(stats.laplace.sf(gap, scale=2.0))
    case = private_tests.Case(16, 1.0, 4.0)
    assert case.by_noise(case.least, 0.0) <= 1 / 3 < case.by_noise(case.least - 1, 0.0)
    assert case.by_noise(case.least, case.alpha) > 2 / 3
    assert case.least < case.needed


def test_shares_of_rejections_are_those_of_the_noise(stream):
    case = private_tests.Case(16, 1.0, 4.0)
    for norm in (0.0, 0.6):
        share = private_tests.uniformity(case, case.least, norm, 400, stream)
        assert abs(share.mean.value - case.by_noise(case.least, norm)) < 5 * share.mean.stderr
    assert abs(share.mean.value - case.by_noise(case.least, 1.0)) > 5 * share.mean.stderr


def test_the_least_number_of_records_is_found(stream):
    found = private_tests.measured_least(private_tests.Case(16, 1.0, 4.0), 400, stream)
    assert abs(found.found.value - found.case.least) < 5 * found.found.stderr
    assert found.found.stderr < 0.2 * found.found.value


def test_errors_that_are_too_frequent_are_noticed():
    case, share = private_tests.Case(16, 1.0, 4.0), private_tests.Share
    good = distribution_tests._Rejections(case, 1.0, 100, [50, 100], [share(50, 100), share(30, 100)], [share(60, 100), share(70, 100)])
    assert all(check.holds for check in good.errors())
    assert [check.holds for check in replace(good, null=[share(0, 100), share(70, 100)]).errors()] == [False, True]
    assert [check.holds for check in replace(good, far=[share(99, 100), share(30, 100)]).errors()] == [True, False]


def test_signs_of_normal_numbers_have_the_means_of_theorem_9_3_1(stream):
    shift = np.array([0.3, -1.0, 0.0, 2.0])
    means = [stats.norm.sf(-m) - stats.norm.cdf(-m) for m in shift]
    assert private_tests.sign_norm(shift) == pytest.approx(math.hypot(*means))
    found = private_tests.measured_sign_norm(shift, 50_000, stream)
    assert abs(found.value - private_tests.sign_norm(shift)) < 5 * found.stderr < abs(found.value - private_tests.sign_norm(0.9 * shift))
    holds = [check.holds for check in distribution_tests._norm_checks({"a": [0.84] * len(distribution_tests.LENGTHS)}, 1.0)]
    assert holds == [True, True, True]
    small = {"a": [0.1] * len(distribution_tests.LENGTHS)}
    assert [check.holds for check in distribution_tests._norm_checks(small, 6.0)] == [False, False, True]


def test_the_lipschitz_test_rejects_as_often_as_its_noise_says(stream):
    n, d, epsilon, alpha = 3, 2, 8.0, 1.0
    sets = list(itertools.product(range(2**d), repeat=n))
    signs = np.array([[1 if code >> bit & 1 else -1 for bit in range(d)] for code in range(2**d)])
    # with the printed constants there is no loop, and C(nd) has all data sets: T with noise, twice as much for M = 2
    statistics = [int((signs[list(codes)].sum(axis=0) ** 2).sum()) - n * d for codes in sets]
    tails = [stats.laplace.sf(n * (n - 1) * alpha**2 / 4 - t, scale=4 * n * d / (epsilon / 2)) for t in statistics]
    exact = private_tests.lipschitz_exactly(sets, d, epsilon, alpha, distribution_tests.PRINTED)
    assert exact == pytest.approx(float(np.mean(tails)))
    share = private_tests.lipschitz(
        lambda rng: 2.0 * np.unpackbits(packed_signs(n, 8, 0.0, rng), axis=1)[:, :d] - 1,
        epsilon,
        alpha,
        distribution_tests.PRINTED,
        300,
        stream,
    )
    assert abs(share.mean.value - exact) < 5 * share.mean.stderr
    # a loop rejects more often
    assert private_tests.lipschitz_exactly(sets, d, epsilon, alpha, distribution_tests.SHRUNK) != pytest.approx(exact, rel=1e-3)


@pytest.mark.long
def test_full_runs_keep_their_promises():
    findings = run(["figure1", "rates", "tests"], Setting(2))
    broken = [
        check.promise for sections in findings.studies.values() for section in sections for check in section.checks if not check.holds
    ]
    assert broken == []
