"""Intervals of regression coefficients: coverage over the noise by quadrature for one column, and by simulation for more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from dpcore import inference
from dpcore.errors import ParameterError
from dpcore.inference._regression_limits import RegressionLimits, norm_above
from dpcore.testing import KeyedRandom
from support.kernels import KEY


def coverage_of_one(x2: float, xy: float, scales: tuple[float, float], n: int, confidence: float) -> float:
    """P(interval holds xy/x2) over A = x2 + σN and b = xy + τν: over ν by its closed form, over N by quadrature."""
    theta = xy / x2
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = weights / weights.sum()
    total = 0.0
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        gram = np.array([[x2 + scales[0] * node]])

        def side(z: float, gram=gram) -> int:
            limits = RegressionLimits(gram, np.array([xy + scales[1] * z]), scales, n, 1.0)
            low, high = limits(confidence, "sample")[0]
            return -1 if high < theta else 1 if low > theta else 0

        values = np.linspace(-7, 7, 113)
        inside = np.array([side(z) == 0 for z in values])
        total += weight * float(stats.norm.pdf(values)[inside].sum() * (values[1] - values[0]))
    return total


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.95])
@pytest.mark.parametrize(
    ("x2", "xy", "scales"),
    [
        (1e-12, -1e-12, (1e-9, 1e-9)),
        (1e12, 3e11, (1.0, 1e6)),
        (7.0, 7.0, (2.0, 2.0)),
        (7.0, 1e-6, (1e-6, 2.0)),
        (4.0, -4.0, (1.2, 0.4)),
        (1.0, 0.5, (1e-3, 1e-3)),
        (2.0, -2.0, (0.3, 0.1)),
        (3.0, 0.0, (1.0, 1.0)),
        (50.0, 49.0, (9.0, 13.0)),
        (1e-9, 1e-9, (1.0, 1.0)),
    ],
)
@pytest.mark.some(2)
def test_an_interval_of_one_coefficient_covers(x2, xy, scales, confidence):
    assert coverage_of_one(x2, xy, scales, 3, confidence) >= confidence - 0.015  # of the quadrature's step


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.95])
@pytest.mark.some(1)
def test_an_interval_covers_where_the_noise_is_in_the_matrix_alone(confidence):
    """Over the noise in X'X on a fine grid: with 50 nodes a quadrature would see only some of a small interval."""
    values, hits = np.linspace(-7, 7, 4001), []
    for z in values:
        low, high = RegressionLimits(np.array([[7.0 + 2.0 * z]]), np.array([7.0]), (2.0, 1e-9), 3, 1.0)(confidence, "sample")[0]
        hits.append(low <= 1.0 <= high)
    assert float(stats.norm.pdf(values)[hits].sum() * (values[1] - values[0])) >= confidence - 0.004


def simulated(x: np.ndarray, y: np.ndarray, scales: tuple[float, float], confidence: float, runs: int, *, claimed=None) -> float:
    plain, d = np.random.default_rng(11), x.shape[1]
    gram, cross = x.T @ x, x.T @ y
    theta, hits = np.linalg.solve(gram, cross), 0
    for _ in range(runs):
        noise = np.triu(plain.normal(size=(d, d))) * scales[0]
        noise = noise + np.triu(noise, 1).T
        limits = RegressionLimits(gram + noise, cross + scales[1] * plain.normal(size=d), claimed or scales, len(x), 1.0)
        low, high = limits(confidence, "sample").T
        hits += bool(np.all((low <= theta) & (theta <= high)))
    return hits / runs


@pytest.mark.parametrize(("d", "scales"), [(2, (6.0, 2.0)), pytest.param(3, (3.0, 9.0), marks=pytest.mark.long)])
def test_intervals_of_several_coefficients_cover_at_once(d, scales):
    plain = np.random.default_rng(d)
    x = plain.uniform(-1, 1, (600, d)) / math.sqrt(d)
    y = np.clip(x @ np.arange(1.0, d + 1) + plain.normal(0, 0.1, 600), -1, 1)
    runs = 600
    for confidence in (0.6, 0.95):
        share = simulated(x, y, scales, confidence, runs)
        assert stats.binomtest(round(share * runs), runs, confidence, alternative="less").pvalue > 1e-6
    # The broken twin forgets the noise in X'X or in X'y, whichever is larger here.
    claimed = (0.0, scales[1]) if scales[0] > scales[1] else (scales[0], 0.0)
    broken = simulated(x, y, scales, 0.6, runs, claimed=claimed)
    assert stats.binomtest(round(broken * runs), runs, 0.6, alternative="less").pvalue < 1e-4


def test_intervals_of_a_population_cover_and_those_of_the_sample_do_not():
    """Records at few points: the best linear prediction of the population is known exactly."""
    plain, n, theta = np.random.default_rng(4), 4_000, 0.5
    hits = {"sample": 0, "population": 0}
    for _ in range(100):
        x = plain.choice([-1.0, 1.0], n)
        y = np.clip(theta * x + plain.choice([-0.5, 0.5], n), -1, 1)
        limits = RegressionLimits(np.array([[x @ x + 0.5 * plain.normal()]]), np.array([x @ y + 0.5 * plain.normal()]), (0.5, 0.5), n, 1.0)
        for target in hits:
            low, high = limits(0.95, target)[0]
            hits[target] += bool(low <= theta <= high)
    assert hits["population"] == 100
    assert hits["sample"] < 40


@pytest.mark.parametrize("large", [(), pytest.param((600,), marks=pytest.mark.long)])
def test_the_norm_is_bounded_from_above(large):
    plain = np.random.default_rng(5)
    for d in (1, 2, 7, 40, *large):
        matrix = plain.normal(size=(d, d)) * 10.0 ** plain.uniform(-5, 5)
        exact = float(np.linalg.norm(matrix, 2))
        assert exact <= norm_above(matrix) <= exact * (1.12 if d <= 40 else 30)
    assert norm_above(np.zeros((3, 3))) == 0.0
    assert special.chdtri(1, 0.05) == pytest.approx(1.959963984540054**2)


def test_what_users_get():
    plain = np.random.default_rng(1)
    x = plain.uniform(-1, 1, (50_000, 2))
    y = x @ [1.0, -0.5] + plain.normal(0, 0.1, 50_000)
    fit = inference.linear_regression(x, y, 1.0, 1e-6, x_radius=1.5, y_radius=2.0, rng=KeyedRandom(KEY))
    exact = np.linalg.lstsq(x, y, rcond=None)[0]
    low, high = fit.interval(1 - 1e-6).T
    assert np.all((low <= exact) & (exact <= high))
    assert np.allclose((low + high) / 2, fit.value, rtol=1e-9)
    assert np.all(high - low < 30 * fit.stderr)
    wide = fit.interval(0.95, target="population")
    assert np.all(np.diff(wide) > np.diff(fit.interval(0.95)))
    few = inference.linear_regression(x[:20], y[:20], 0.1, 1e-6, x_radius=1.5, y_radius=2.0, rng=KeyedRandom(KEY))
    assert few.interval().tolist() == [[-math.inf, math.inf]] * 2
    with pytest.raises(ParameterError, match="target must be"):
        fit.interval(target="all")
    with pytest.raises(ParameterError, match="confidence"):
        fit.interval(1.0)
