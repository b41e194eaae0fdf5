"""Orthogonal series: the cut density against slow twins, what a release gives, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, _backend, distributions
from dpcore.distributions._cosine_density import CosineDensity, sign_changes, taylor_polynomials
from dpcore.distributions._cosine_distances import largest_change
from dpcore.distributions.series import SeriesRelease, series_scale
from dpcore.testing import KeyedRandom
from support.densities import colleague_roots, primitive, series, slow_cdf
from support.kernels import KEY

SIZES = (1, 2, 3, 7, 40, 150)
each_case = pytest.mark.parametrize(("m", "size"), list(itertools.product(SIZES, (0.02, 1.0, 30.0))))


def drawn(m: int, size: float) -> np.ndarray:
    """Coefficients that fall like those of a rough density, plus noise."""
    return np.random.default_rng(m).laplace(size=m) * size / np.sqrt(np.arange(1, m + 1))


def changes_of_sign(density: CosineDensity) -> np.ndarray:
    """Where positive segments begin and end inside (0, 1)."""
    return density.breaks[1:-1][density.positive[1:] != density.positive[:-1]]


@each_case
def test_the_density_is_the_positive_part_of_the_series(m, size):
    coefficients, x = drawn(m, size), np.random.default_rng(0).random(3000)
    density, direct = CosineDensity(coefficients), series(coefficients, x)
    assert np.abs(density.density(x) * density.mass - np.maximum(direct, 0)).max() < 1e-14 * m * np.abs(coefficients).sum() + 1e-14


@each_case
def test_roots_are_those_of_the_colleague_matrix(m, size):
    coefficients = drawn(m, size)
    found, expected = changes_of_sign(CosineDensity(coefficients)), colleague_roots(coefficients)
    assert len(found) == len(expected)
    assert len(found) == 0 or np.abs(found - expected).max() < 1e-9


@pytest.mark.some(5)
@each_case
def test_the_distribution_function_is_a_sum_of_sines_between_the_roots(m, size):
    coefficients = drawn(m, size)
    density, x = CosineDensity(coefficients), np.concatenate([np.random.default_rng(1).random(2000), [0.0, 1.0]])
    assert np.abs(density.cdf(x) - slow_cdf(coefficients, colleague_roots(coefficients), x)).max() < 1e-12
    # a twin without the cut: its distribution function is the bare sum
    bare = np.abs(density.cdf(x) - primitive(coefficients, x)).max()
    assert (bare < 1e-12) == (density.mass < 1 + 1e-9)


@pytest.mark.some(7)
@each_case
def test_quantiles_invert_the_distribution_function(m, size):
    density, p = CosineDensity(drawn(m, size)), np.append(np.random.default_rng(2).random(40_000), [0.0, 1 - 2.0**-53])
    x = density.quantile(p)
    assert np.abs(density.cdf(x) - p).max() < 1e-14
    assert (density.density(x[:-2]) > 0).all()  # no draw where the series is cut
    assert x.min() >= 0
    assert x.max() <= 1
    assert np.array_equal(np.argsort(x[np.argsort(p)], kind="stable"), np.arange(len(p)))


@pytest.mark.parametrize("m", [1000, 3000])
def test_thousands_of_terms(m):
    coefficients = drawn(m, 1.0)
    density = CosineDensity(coefficients)
    ends = changes_of_sign(density)
    assert len(ends) > m / 6
    near = np.abs(series(coefficients, ends)) / np.abs(coefficients).sum()
    assert near.max() < 1e-12
    # every sign at scattered points is the one that the segments say
    x = np.sort(np.random.default_rng(m).random(5000))
    signs = np.concatenate([series(coefficients, part) for part in np.array_split(x, 10)]) > 0
    assert np.array_equal(signs, density.positive[np.searchsorted(density.breaks, x) - 1])
    assert np.abs(density.cdf(density.quantile(x)) - x).max() < 1e-13


def squared_minus(a: float, t: float) -> np.ndarray:
    """Coefficients of ((cos πx − a)² − t), scaled to mean 1: it is negative between cos πx = a ± √t only."""
    mean = 0.5 + a * a - t
    return np.array([-2 * a, 0.5]) / (mean * math.sqrt(2))


@pytest.mark.parametrize("t", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("a", [0.0, 0.3, -0.77])
def test_narrow_dips_below_zero_are_found(a, t):
    ends = changes_of_sign(CosineDensity(squared_minus(a, t)))
    expected = np.sort(np.arccos([a - math.sqrt(t), a + math.sqrt(t)]) / np.pi)
    assert ends == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("coefficients", [squared_minus(0.3, 0.0), [math.sqrt(0.5)], [0.0, 0.0, math.sqrt(0.5)], [0.0], [-math.sqrt(0.5)]])
def test_a_series_that_touches_zero_keeps_its_mass(coefficients):
    density = CosineDensity(np.array(coefficients))
    assert density.mass == pytest.approx(1.0, abs=1e-14)
    p = np.random.default_rng(3).random(10_000)
    assert np.abs(density.cdf(density.quantile(p)) - p).max() < 1e-14


def test_coefficients_of_any_size():
    for size in (1e-300, 1e16, 1e280):
        density = CosineDensity(np.array([size, -size, size / 3]))
        assert np.isfinite(density.mass)
        p = np.random.default_rng(4).random(1000)
        assert np.abs(density.cdf(density.quantile(p)) - p).max() < 1e-13


def test_polynomials_of_too_low_a_degree_would_be_seen():
    """The bound on what Taylor's polynomials leave out is not a slack one: three degrees less are visible."""
    coefficients = drawn(40, 1.0)
    taylor = taylor_polynomials(coefficients)
    n = len(taylor)
    x = (np.arange(n) + 1.0) / n  # right ends
    full, cut = taylor.sum(axis=1), taylor[:, :-3].sum(axis=1)
    direct = series(coefficients, x)
    assert np.abs(full - direct).max() < 1e-12
    assert np.abs(cut - direct).max() > 1e-12


def test_no_roots_and_no_cells():
    cells, places = sign_changes(taylor_polynomials(np.zeros(3)))
    assert len(cells) == len(places) == 0


# Releases


def released(**changes) -> SeriesRelease:
    """A release of a Beta sample, in years."""
    x = np.random.default_rng(5).beta(10, 10, 500) * 100
    arguments = {"records": x, "epsilon": 2.0, "terms": 4, "bounds": (0, 100), "rng": KeyedRandom(KEY)} | changes
    return distributions.orthogonal_series(**arguments)


def test_a_release_is_in_the_units_of_its_bounds():
    found = released(bounds=(-20, 180))
    assert (found.privacy, found.n, found.dimension) == (Privacy(2.0), 500, 1)
    unit = SeriesRelease(found.privacy, found.n, distributions.Box.of((0, 1)), found.coefficients)
    x = np.linspace(-20, 180, 777).reshape(7, 111)
    assert found.density(x) == pytest.approx(unit.density((x + 20) / 200) / 200)
    assert found.cdf(x) == pytest.approx(unit.cdf((x + 20) / 200))
    assert found.density([-20.1, 180.1]).tolist() == [0.0, 0.0]
    assert found.cdf([-1e9, 180.1]).tolist() == [0.0, 1.0]
    assert isinstance(found.density(50), float)
    one, other = found.sample(1000, rng=KeyedRandom(KEY)), unit.sample(1000, rng=KeyedRandom(KEY))
    assert one == pytest.approx(-20 + 200 * other)
    assert found.sample(0).shape == (0,)
    with pytest.raises(ParameterError, match="threads"):
        found.sample(5, threads=0)


def test_records_do_not_depend_on_threads():
    found = released()
    records = found.sample(30_001, rng=KeyedRandom(KEY), threads=1)
    assert np.array_equal(records, found.sample(30_001, rng=KeyedRandom(KEY), threads=3))


def test_a_release_is_near_the_data_where_noise_is_small():
    x = np.random.default_rng(6).beta(10, 10, 200_000)
    found = released(records=x, bounds=(0, 1), terms=8, epsilon=10.0, draws=1000)
    assert found.coefficients == pytest.approx(math.sqrt(2) * np.cos(np.pi * x[:, None] * np.arange(1, 9)).mean(axis=0), abs=1e-3)
    assert found.cdf(0.5) == pytest.approx(0.5, abs=5e-3)
    assert found.draws.shape == (1000,)
    assert not found.draws.flags.writeable
    assert not found.coefficients.flags.writeable


def test_blocks_and_orders_of_records_change_nothing(monkeypatch):
    from dpcore.distributions import series as module

    x = np.random.default_rng(7).random(1000)
    whole = released(records=x, bounds=(0, 1)).coefficients
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert np.array_equal(released(records=x[::-1], bounds=(0, 1)).coefficients, whole)


def test_sums_beyond_float64_stay_exact():
    from dpcore.distributions.series import _pairs

    totals = (2**93 + 12345, -(2**80) - 1, 7, 0, -(2**93) + 2**40 + 1)
    high, low = _pairs(totals)
    assert tuple(int(h * 2**40) + int(r * 2**40) for h, r in zip(high.tolist(), low.tolist(), strict=True)) == totals
    assert low[0] != 0


def test_records_outside_are_clamped_and_integers_enter():
    a = released(records=[-5, 3, 700], bounds=(0, 100)).coefficients
    b = released(records=np.array([0.0, 3.0, 100.0]), bounds=(0, 100)).coefficients
    c = released(records=np.array([[-np.inf], [3.0], [np.inf]]), bounds=(0, 100)).coefficients
    assert np.array_equal(a, b)
    assert np.array_equal(a, c)


def test_the_scale_is_rounded_up():
    from fractions import Fraction

    for epsilon, terms in itertools.product((0.1, 1.0, 3.7), (1, 3, 1000, 65536)):
        scale = series_scale(epsilon, terms)
        exact = largest_change(terms) * Fraction(_backend.COSINE_GRID) / Fraction(epsilon)
        assert exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": 0.0}, ParameterError, "epsilon must be positive"),
        ({"epsilon": 1e-300}, ParameterError, "epsilon must give a noise scale"),
        ({"terms": 0}, ParameterError, "terms must be in"),
        ({"terms": 2**16 + 1}, ParameterError, "terms must be in"),
        ({"terms": 2.0}, ParameterTypeError, "terms must be an integer"),
        ({"draws": 0}, ParameterError, "draws must be in"),
        ({"threads": 0}, ParameterError, "threads must be in"),
        ({"records": np.zeros((5, 2))}, ParameterError, "records must have one coordinate for a cosine series"),
        ({"records": np.zeros(0)}, ParameterError, "records must hold at least one record"),
        ({"bounds": (1, 0)}, ParameterError, "bounds must have low"),
        ({"records": [0.5, math.nan]}, DataError, "index 1 is NaN"),
        ({"rng": np.random.default_rng(0)}, ParameterTypeError, "rng must be None"),
    ],
)
def test_what_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        released(**changes)
