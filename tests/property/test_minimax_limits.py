"""Bounds in order on many random models: lower bounds, certified risks, and risks measured at the worst distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from dpcore.minimax import Model, best_linear, best_values, lower_bound, optimal_channel, simulate_risk
from dpcore.testing import KeyedRandom

MANY = 300


def random_model(generator: np.random.Generator) -> tuple[Model, list[np.ndarray] | None]:
    """A hull with its vertices, a polytope, or a moment model."""
    size, kind = int(generator.integers(2, 13)), int(generator.integers(3))
    f = generator.normal(size=size) * 10.0 ** generator.integers(-3, 4)
    if kind == 0:
        vertices = generator.dirichlet(np.full(size, 0.3), size=int(generator.integers(2, 7)))
        return Model.hull(f, vertices), list(vertices)
    if kind == 1:
        inside = generator.dirichlet(np.ones(size))
        conditions = generator.normal(size=(int(generator.integers(1, 5)), size))
        return Model(f, conditions, conditions @ inside + generator.uniform(0.01, 0.5, size=len(conditions))), None
    grid = np.sort(generator.normal(size=size + 3) * 4)
    kappa = float(generator.uniform(1.1, 4.0))
    return Model.moment(grid, kappa=kappa, C=float((np.abs(grid) ** kappa).min() + generator.uniform(0.1, 3.0))), None


def largest(of: Model, direction: np.ndarray) -> float:
    """The largest value of a functional over a model, by SciPy alone."""
    region = of.region
    free = [(None, None) if free else (0, None) for free in region.free]
    unit = float(np.abs(direction).max()) or 1.0  # SciPy's tolerances are absolute
    gains = region.image.T @ (direction / unit)
    below = region.below if region.below.shape[0] else None
    found = linprog(
        -gains, A_ub=below, b_ub=region.at_most if below is not None else None, A_eq=region.equal, b_eq=region.equal_to, bounds=free
    )
    return -float(found.fun) * unit


def check(seed: int) -> None:
    generator = np.random.default_rng(seed)
    of, vertices = random_model(generator)
    if np.ptp([of.theta_range]) <= 1e-9 * np.abs(of.f).max():
        return
    epsilon, n = float(generator.choice([1e-3, 0.2, 1.0, 2.5, 6.0])), int(generator.choice([1, 7, 300, 10**5]))
    lower = lower_bound(of, epsilon, n=n)
    ways = [lower_bound(of, epsilon, n=n, method=method).value for method in ("lecam", "van_trees", "steinberger")]
    assert max(ways) <= lower.value * (1 + 1e-9)
    assert lower.verify(of) <= 1e-8
    estimators = [best_linear(of, epsilon, n=n, outputs=9), best_values(of, optimal_channel(of, epsilon, n=n), n=n)]
    for estimator in estimators:
        rows, values, center = estimator.channel, estimator.mean.values, estimator.mean.center
        risk = estimator.risk_bound()
        assert lower.value <= risk * (1 + 1e-9)
        # The bias and the second moment by another solver.
        errors = rows @ values + center - of.f
        bias = max(largest(of, errors), largest(of, -errors))
        assert estimator.bias == pytest.approx(bias, rel=1e-6, abs=1e-9 * np.abs(values).max())
        assert risk <= (bias**2 + largest(of, rows @ values**2) / n) * (1 + 1e-6)
        measured = simulate_risk(estimator, estimator.worst, replicates=20_000, rng=KeyedRandom(seed.to_bytes(32, "big")))
        assert measured.value - 5.5 * measured.stderr <= risk * (1 + 1e-12)  # a constant estimate has no standard error
        assert risk <= measured.value + 5.5 * measured.stderr + 1e-5 * risk
        assert lower.value <= measured.value + 5.5 * measured.stderr + 1e-5 * risk
        if vertices is not None:
            exact = max(_error(of, p, rows, values, center, n) for p in vertices)
            assert exact <= risk * (1 + 1e-9)
    certificate = estimators[0].certificate
    assert certificate.everywhere <= certificate.on_outputs * (1 + 1e-9) <= certificate.objective * (1 + 2e-9)


def _error(of, p, rows, values, center, n) -> float:
    mean = float(p @ rows @ values)
    return (mean + center - of.theta(p)) ** 2 + (float(p @ rows @ values**2) - mean**2) / n


@pytest.mark.parametrize("seed", range(2))
def test_bounds_are_in_order_on_random_models(seed):
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_bounds_are_in_order_on_300_random_models(part):
    for seed in range(part * MANY // 10, (part + 1) * MANY // 10):
        check(1_000 + seed)


def test_a_bound_that_is_a_tenth_too_large_is_seen():
    # Teeth: for a proportion with many reports the two bounds nearly meet, and a tenth more would cross.
    of, n = Model([0.0, 1.0]), 10**8
    estimator = best_linear(of, 1.0, n=n, outputs=3)
    lower = lower_bound(of, 1.0, n=n).value
    assert lower <= estimator.risk_bound() < 1.1 * lower
    assert math.isfinite(estimator.certificate.ratio)
