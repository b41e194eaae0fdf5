"""Private covariance matrices: the sensitivity of the integers that are released, the law of the noise, intervals, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, accounting
from dpcore.inference import covariance
from dpcore.inference._gram import RADIUS, cross_products
from dpcore.testing import KeyedRandom

EPSILON, DELTA = 0.8, 1e-6


def rng(start=0):
    return KeyedRandom(bytes([start]) * 32)


def released(records, radius=1.0, center=None):
    """The exact integers that get noise, but for the number of records."""
    products = cross_products(np.asarray(records, np.float64), np.ones(len(records)), radius, 1.0, center=center)
    return [Fraction(each) for each in products.integers][:-1]


def scales_of(estimate):
    """Deviations of the noise in each product and in sums, in the units of the integers."""
    n, radius, unit = estimate.n, estimate.radius, RADIUS**2
    return (estimate.stderr * n / radius**2 * unit)[np.triu_indices(len(estimate.mean))], estimate.mean_stderr * n / radius * unit


def distance(one, other, d, scales):
    """How far apart two data sets are in units of the noise: the ℓ2 norm of what differs, each part over its deviation."""
    split = d * (d + 1) // 2
    moved = [float(a - b) for a, b in zip(released(one), released(other), strict=True)]
    return math.hypot(
        *(part / scale for part, scale in zip(moved[:split], scales[0], strict=True)), *(part / scales[1] for part in moved[split:])
    )


def worst_pair(d):
    """Two unit vectors at the angle at which the bound is attained: v'w = −1/4."""
    v, w = np.zeros(d), np.zeros(d)
    v[0], w[0], w[1] = 1.0, -0.25, math.sqrt(1 - 1 / 16)
    return v, w


def budget(estimate):
    """The most that neighbours may be apart, for the (ε, δ) that is claimed: by the exact δ of a Gaussian of deviation 1."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if accounting.gaussian_delta(EPSILON, 1.0, middle) <= DELTA else (low, middle)
    return low


@pytest.mark.parametrize("d", [2, 3, 7])
def test_neighbours_are_within_the_budget_and_the_worst_ones_use_it(d):
    plain = np.random.default_rng(d)
    base = plain.normal(size=(5, d))
    estimate = covariance(base, EPSILON, DELTA, 1.0, rng=rng())
    most, scales = budget(estimate), scales_of(estimate)
    pairs = [tuple(plain.normal(size=(2, d)) * plain.choice([0.1, 1.0, 50.0])) for _ in range(300)]
    v, w = worst_pair(d)
    pairs += [(v, w), (v, -v), (v, np.zeros(d)), (1e300 * w, 1e-300 * v), (np.full(d, np.inf), np.full(d, -np.inf))]
    apart = [distance([*base, a], [*base, b], d, scales) for a, b in pairs]
    assert max(apart) <= most
    assert apart[300] >= most * (1 - 1e-4)  # rounding keeps a clipped row a little shorter than the radius


def test_a_noise_for_products_alone_would_not_do():
    """The broken twin: the scales of two releases that do not share a budget."""
    v, w = worst_pair(2)
    unit = accounting.analytic_gaussian_scale(EPSILON, DELTA, 1.0) * RADIUS**2
    estimate = covariance([v, w], EPSILON, DELTA, 1.0, rng=rng())
    assert distance([v], [w], 2, ([math.sqrt(2) * unit] * 3, 2 * unit)) > budget(estimate)


def test_the_noise_has_its_law():
    x = np.random.default_rng(2).normal(0, 0.4, (400, 3))
    exact = covariance(x, 1e6, 0.5, 3.0, rng=rng())
    draws = [covariance(x, EPSILON, DELTA, 3.0, rng=rng(1 + i % 250).at(i)) for i in range(800)]
    means = np.array([(one.mean - exact.mean) / one.mean_stderr for one in draws])
    seconds = np.array([(one.raw + np.outer(one.centred_mean, one.centred_mean)) for one in draws])
    products = (seconds - exact.raw - np.outer(exact.mean, exact.mean)) / draws[0].stderr
    for sample in (means, products[:, *np.triu_indices(3)]):
        assert stats.kstest(sample.ravel(), "norm").pvalue > 1e-6
        assert stats.kstest(sample.ravel() * 1.25, "norm").pvalue < 1e-6  # a fifth less noise is found
    assert np.abs(np.corrcoef(np.column_stack([means, products[:, *np.triu_indices(3)]]).T) - np.eye(9)).max() < 0.2


def test_what_is_released_is_the_covariance_of_the_clipped_records():
    plain = np.random.default_rng(5)
    x = plain.normal(1.0, 1.0, (3000, 4))
    x[:5] *= 1e6
    for center in (0.0, 1.0, [1.0, 1.0, 0.5, 2.0]):
        away = x - center
        clipped = away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True) / 2.5, 1.0)
        estimate = covariance(x, 1e7, 0.5, 2.5, center=center, rng=rng())
        assert np.abs(estimate.mean - clipped.mean(axis=0) - center).max() < 1e-4
        assert np.abs(estimate.value - np.cov(clipped.T, bias=True)).max() < 1e-4
        assert np.array_equal(estimate.value, estimate.value.T)


def test_fields_units_and_types():
    x = np.random.default_rng(3).normal(size=(500, 2))
    estimate = covariance(x, EPSILON, DELTA, 2.0, rng=rng())
    assert (estimate.privacy, estimate.n, estimate.radius) == (Privacy(EPSILON, DELTA), 500, 2.0)
    scaled = covariance(x * 2.0**100, EPSILON, DELTA, 2.0**101, rng=rng())
    assert np.array_equal(scaled.value, estimate.value * 2.0**200)
    assert np.array_equal(scaled.mean, estimate.mean * 2.0**100)
    for other in (np.asfortranarray(x), x.tolist(), x[::-1][::-1]):
        assert np.array_equal(covariance(other, EPSILON, DELTA, 2.0, rng=rng(), threads=2).value, estimate.value)
    unit = accounting.analytic_gaussian_scale(EPSILON, DELTA, 1.0)
    expected = 1.25 * 4 / 500 * unit * np.array([[math.sqrt(2), 1], [1, math.sqrt(2)]])
    assert estimate.stderr == pytest.approx(expected)
    assert estimate.mean_stderr == pytest.approx(2.5 * 2 / 500 * unit)
    assert "Mean and covariance of 500 records" in estimate._repr_html_()


def test_eigenvalues_are_not_negative():
    few = covariance(np.zeros((3, 6)), 0.1, 1e-9, 1.0, rng=rng())
    assert np.linalg.eigvalsh(few.raw)[0] < 0
    assert np.linalg.eigvalsh(few.value)[0] > -1e-9 * np.linalg.eigvalsh(few.value)[-1]


def test_intervals_cover():
    x = np.random.default_rng(6).uniform(-1, 1, (200, 3)) / math.sqrt(3)
    exact = np.cov(x.T, bias=True)
    hits = np.zeros((3, 3))
    for i in range(300):
        low, high = np.moveaxis(covariance(x, 0.5, 1e-4, 1.0, rng=rng(i % 250).at(i)).interval(0.9), -1, 0)
        hits += (low <= exact) & (exact <= high)
    assert (hits / 300 > 0.9 - 5 * math.sqrt(0.09 / 300)).all()
    assert (hits / 300 < 1).any()  # they are not endless
    with pytest.raises(ParameterError, match="confidence"):
        covariance(x, 0.5, 1e-4, 1.0).interval(1.0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 0.0}, ParameterError, "epsilon"),
        ({"delta": 0.0}, ParameterError, "delta"),
        ({"delta": 1.0}, ParameterError, "delta"),
        ({"radius": 0.0}, ParameterError, "radius"),
        ({"radius": 2.0**401}, ParameterError, "radius"),
        ({"center": [0.0]}, ParameterError, r"center must be a number or have shape \(2,\)"),
        ({"center": math.nan}, ParameterError, "center must be finite"),
        ({"center": "mean"}, ParameterTypeError, "center"),
        ({"records": np.zeros(3)}, ParameterError, "records must have shape"),
        ({"records": np.zeros((2, 5000))}, ParameterError, "at most 4096 columns"),
        ({"records": [[0.0, 1.0], [math.nan, 0.0]]}, DataError, r"records must not hold NaN; the number at index \(1, 0\)"),
        ({"epsilon": 1e-300, "delta": 1e-300}, ParameterError, "noise scale"),
        ({"threads": 0}, ParameterError, "threads"),
        ({"rng": np.random.default_rng()}, ParameterTypeError, "rng"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, message):
    arguments = {"records": [[0.0, 1.0], [1.0, 0.0]], "epsilon": 1.0, "delta": 1e-6, "radius": 1.0} | change
    with pytest.raises(error, match=message):
        covariance(arguments.pop("records"), **arguments)


def test_what_numpy_raises_does_not_depend_on_records():
    wild = np.array([[5e-324, 1e308], [np.inf, -1e308]])
    with np.errstate(all="raise"):
        for rows in (np.ones((2, 2)), wild):
            covariance(rows, 1.0, 1e-6, 2.0**-300, center=[-1e308, 0.5])
