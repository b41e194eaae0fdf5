"""What is certified does not depend on the units of conditions and functionals, nor on what a cone solver leaves."""

import numpy as np
import pytest

from dpcore.minimax import BinarySearchEstimator, Model, density_at, lower_bound, modulus_hellinger, modulus_tv, truncated_moment

pytest.importorskip("clarabel")

GRID = np.linspace(-4.0, 4.0, 33)


@pytest.mark.some(2)
@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e5, 1e9])
def test_moments_in_any_unit(unit):
    plain, other = Model.moment(GRID, kappa=2.0, C=1.0), Model.moment(GRID * unit, kappa=2.0, C=unit**2)
    assert np.array(other.theta_range) / unit == pytest.approx(np.array(plain.theta_range), abs=1e-9)
    for modulus in (modulus_tv, modulus_hellinger):
        found = modulus(other, 0.1)
        assert found.value / unit == pytest.approx(modulus(plain, 0.1).value, rel=1e-6)
        assert found.value <= found.upper <= found.value * (1 + 1e-6)
    assert lower_bound(other, 1.0, n=100).value / unit**2 == pytest.approx(lower_bound(plain, 1.0, n=100).value, rel=1e-6)


@pytest.mark.some(3)
@pytest.mark.parametrize("scale", [1e-300, 1e-10, 1e10, 1e300])
def test_a_condition_may_be_multiplied(scale):
    model = Model([0.0, 1.0], A=[[0.0, scale]], b=[0.1 * scale])
    assert model.theta_range == pytest.approx((0.0, 0.1), abs=1e-12)
    assert modulus_tv(model, 1.0).p1 == pytest.approx([0.9, 0.1], abs=1e-12)


@pytest.mark.parametrize("unit", [1e-4, 1e4])
@pytest.mark.parametrize("beta", [1.5, 2.0])
def test_hoelder_classes_in_any_unit(unit, beta):
    grid = np.linspace(-1.5, 1.5, 41)
    plain, other = (
        Model.hoelder_density(grid, smoothness=beta, C=4.0, x0=0.0),
        Model.hoelder_density(grid * unit, smoothness=beta, C=4.0 * unit ** (-beta - 1), x0=0.0),
    )
    assert np.array(other.theta_range) * unit == pytest.approx(np.array(plain.theta_range), rel=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("slope", [1e-6, 1e-8])
def test_nearly_parallel_equations_leave_nothing_to_estimate(slope):
    rows = np.array([[1.0, 0.0, 0.0], [1.0, slope, 0.0]])
    bounds = rows @ [0.5, 0.2, 0.3]
    model = Model([0.0, 1.0, 0.0], np.concatenate([rows, -rows]), np.concatenate([bounds, -bounds]))
    assert lower_bound(model, 0.1, n=1).value < 1e-12


@pytest.mark.parametrize("step", [0.0951, 0.1, 0.105])
def test_tests_that_are_hard_to_tell_apart_are_certified(step):
    channel = [[0.97, 0.02, 0.01], [0.9, 0.02, 0.08], [0.15, 0.15, 0.7]]
    estimator = BinarySearchEstimator(Model([0.0, 1.0, 2.0]), channel, n=1000, step=step)
    assert estimator.estimate([150, 150, 700]) > 1.9
    assert estimator.estimate([970, 20, 10]) < 0.2


def test_extreme_exponents_and_constants_stay_in_range():
    assert truncated_moment(1.0, n=10**6, kappa=1000.0, C=1.0).bias < 1e-3
    assert truncated_moment(1.0, n=10, kappa=1000.0, C=1.0, h=0.3).bias == pytest.approx(0.0, abs=1e-300)
    assert density_at(0.0, 1.0, n=1, smoothness=16.0, C=1e300, m=3).h > 0
    assert density_at(0.0, 1.0, n=1, smoothness=16.0, C=1e-300, m=15).h > 0
