"""The functional mechanism: its sensitivity, the law of its noise, what it minimises, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore import noise
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.inference import functional_regression
from dpcore.inference._gram import cross_products
from dpcore.inference.functional import coefficient_sensitivity
from dpcore.testing import KeyedRandom


def distance(first, second):
    """ℓ1 distance of the coefficients x_j x_l (j ≤ l) and x_j y of two records."""
    upper = np.triu_indices(len(first) - 1)
    parts = [np.append(np.outer(r[:-1], r[:-1])[upper], r[:-1] * r[-1]) for r in (first, second)]
    return float(np.abs(parts[0] - parts[1]).sum())


def clipped(record):
    x = record[:-1] / max(1.0, float(np.linalg.norm(record[:-1])))
    return np.append(x, np.clip(record[-1], -1, 1))


def searched(d, starts, rng):
    """The largest distance that a random search finds."""
    best = 0.0
    for _ in range(starts):
        pair, step = [clipped(rng.normal(size=d + 1) * 2) for _ in range(2)], 1.0
        found = distance(*pair)
        while step > 1e-3:
            other = [clipped(r + step * rng.normal(size=d + 1)) for r in pair]
            if (value := distance(*other)) > found:
                pair, found = other, value
            else:
                step *= 0.9
        best = max(best, found)
    return best


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_no_pair_of_records_moves_the_coefficients_by_more_than_the_sensitivity(d):
    found = searched(d, 12, np.random.default_rng(d))
    assert found <= coefficient_sensitivity(d)
    assert found > (0.999 if d == 1 else 0.7) * coefficient_sensitivity(d)  # so half of it, a broken twin, fails


def test_the_sensitivity_of_one_column_is_attained():
    assert distance(np.array([1.0, 1.0]), np.array([-0.5, 1.0])) == 2.25 == coefficient_sensitivity(1)


def test_each_part_of_the_sensitivity_is_attained_in_two_dimensions():
    """√(d(d + 3)/2) by unit vectors whose difference of squares is (2, 1)/√5, and 2√d by opposite responses."""
    half = math.atan2(1.0, 2.0) / 2
    x, z = np.array([math.cos(half), math.sin(half)]), np.array([-math.sin(half), math.cos(half)])
    upper = np.triu_indices(2)
    assert float(np.abs(np.outer(x, x)[upper] - np.outer(z, z)[upper]).sum()) == pytest.approx(math.sqrt(5))
    corner = np.full(2, math.sqrt(0.5))
    assert float(np.abs(2 * corner).sum()) == pytest.approx(2 * math.sqrt(2))


def test_the_noise_is_that_of_the_kernel_in_exact_sums():
    """The coefficients are those of the exact products plus keyed Laplace noise, in units of the radii."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    fit = functional_regression(x, y, 2.0, x_radius=2.0, y_radius=3.0, rng=KeyedRandom(bytes(32)))
    exact = np.array(cross_products(x, y, 2.0, 3.0).integers, dtype=float)[:-1]
    scale = coefficient_sensitivity(3) / 2.0
    noisy = exact + noise.laplace(np.zeros(9), scale * 2.0**40, rng=KeyedRandom(bytes(32)))
    upper = np.triu_indices(3)
    assert fit.quadratic[upper] == pytest.approx(noisy[:6] / 2.0**40 * 4, rel=1e-6)
    assert fit.linear == pytest.approx(noisy[6:] / 2.0**40 * 2 * 6, rel=1e-6)
    assert fit.scales == pytest.approx((scale * 4, scale * 12), rel=1e-9)
    assert np.array_equal(fit.quadratic, fit.quadratic.T)


def test_noise_has_the_scale_that_it_states():
    x, y = np.zeros((5, 4)), np.zeros(5)
    draws = [functional_regression(x, y, 1.0, x_radius=1.0, y_radius=1.0, rng=KeyedRandom(bytes([i]) * 32)) for i in range(200)]
    values = np.concatenate([fit.linear / 2 for fit in draws])
    assert np.abs(values).mean() == pytest.approx(coefficient_sensitivity(4), rel=0.2)  # E|Lap(b)| = b; 800 draws: 3.5 % each


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_with_much_data_it_is_the_minimiser_of_the_objective(loss):
    rng = np.random.default_rng(2)
    x = rng.uniform(-0.5, 0.5, (200_000, 3))
    truth = np.array([1.0, -0.5, 0.0])
    y = x @ truth + rng.normal(0, 0.1, len(x)) if loss == "squared" else rng.random(len(x)) < 1 / (1 + np.exp(-x @ truth))
    options = {"y_radius": 3.0} if loss == "squared" else {"loss": "logistic"}
    fit = functional_regression(x, y, 1.0, x_radius=math.sqrt(3) / 2, rng=KeyedRandom(bytes(32)), **options)
    centred = y if loss == "squared" else y - 0.5
    exact = (1 if loss == "squared" else 4) * np.linalg.solve(x.T @ x, x.T @ centred)
    assert fit.ridge == 0.0
    assert np.all(np.abs(fit.value - exact) < 6 * fit.stderr)
    assert np.abs(exact - truth).max() < 0.08  # the expansion moves the logistic coefficients little
    at = fit.value
    for j in range(3):
        for step in (-1e-3, 1e-3):
            assert fit.objective(at) < fit.objective(at + step * np.eye(3)[j])
    # the objective is the loss up to constants and noise
    residual = ((y - x @ truth) ** 2).sum() - (y**2).sum() if loss == "squared" else (np.log1p(np.exp(x @ truth)) - y * (x @ truth)).sum()
    constant = 0.0 if loss == "squared" else len(x) * math.log(2)
    assert fit.objective(truth) == pytest.approx(residual - constant, abs=0.02 * len(x))


def test_standard_errors_are_those_of_the_noise():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (5000, 2))
    y = x @ [0.5, -0.25] + rng.normal(0, 0.1, len(x))
    exact = np.linalg.solve(x.T @ x, x.T @ y)
    fits = [functional_regression(x, y, 1.0, x_radius=1.5, y_radius=1.5, rng=KeyedRandom(bytes([i, 1]) * 16)) for i in range(200)]
    errors = np.array([(fit.value - exact) / fit.stderr for fit in fits])
    assert 0.8 < errors.std() < 1.2
    assert np.abs(errors).max() < 8


def test_few_data_get_a_ridge_and_no_infinities():
    fit = functional_regression(np.zeros((1, 3)), np.zeros(1), 1e-6, x_radius=1.0, y_radius=1.0, rng=KeyedRandom(bytes(32)))
    assert fit.ridge > 0
    assert np.all(np.isfinite(fit.value))
    assert np.all(np.isfinite(fit.stderr))
    least = np.linalg.eigvalsh(fit.quadratic + fit.ridge * np.eye(3))[0]
    assert least == pytest.approx(4 * math.sqrt(2) * fit.scales[0], rel=1e-9)
    assert "Regression on 1 records" in fit._repr_html_()


def test_units_scale():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-1, 1, (1000, 2)), rng.uniform(-1, 1, 1000)
    one = functional_regression(x, y, 1.0, x_radius=1.0, y_radius=1.0, rng=KeyedRandom(bytes(32)))
    other = functional_regression(4 * x, 2 * y, 1.0, x_radius=4.0, y_radius=2.0, rng=KeyedRandom(bytes(32)))
    assert other.value == pytest.approx(one.value / 2)
    assert other.stderr == pytest.approx(one.stderr / 2)
    assert other.objective(other.value) == pytest.approx(4 * one.objective(one.value))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epsilon": 0.0}, ParameterError),
        ({"epsilon": math.nan}, ParameterError),
        ({"epsilon": 1e-300}, ParameterError),
        ({"x_radius": 0.0}, ParameterError),
        ({"y_radius": None}, ParameterError),
        ({"y_radius": math.inf}, ParameterError),
        ({"loss": "hinge"}, ParameterError),
        ({"x": np.zeros((3, 0))}, ParameterError),
        ({"x": np.zeros(3)}, ParameterError),
        ({"x": np.zeros((2, 2))}, ParameterError),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, ParameterError),
        ({"x": np.zeros((3, 5000))}, ParameterError),
        ({"y": np.array([0.0, math.nan, 0.0])}, DataError),
        ({"x": np.array([[0.0, 0.0], [0.0, math.nan], [0.0, 0.0]])}, DataError),
        ({"loss": "logistic", "y": np.array([0.0, 0.5, 1.0])}, DataError),
        ({"loss": "logistic", "y": np.array([0.0, math.nan, 1.0])}, DataError),
        ({"y": ["a", "b", "c"]}, ParameterTypeError),
    ],
)
def test_bad_input_is_refused(change, error):
    options = {"x": np.zeros((3, 2)), "y": np.zeros(3), "epsilon": 1.0, "x_radius": 1.0, "y_radius": 1.0} | change
    with pytest.raises(error):
        functional_regression(options.pop("x"), options.pop("y"), options.pop("epsilon"), **options)


def test_bools_are_responses_and_theta_is_checked():
    fit = functional_regression(np.ones((4, 1)), np.array([True, False, True, True]), 5.0, x_radius=1.0, loss="logistic")
    with pytest.raises(ParameterError, match="theta must have 1 numbers"):
        fit.objective([0.0, 1.0])
