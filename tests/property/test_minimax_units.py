"""Units, origins, the order of points and points that are split change nothing but the rounding of what comes out."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp

from dpcore.local import BinaryChannel
from dpcore.minimax import (
    BinarySearchEstimator,
    LinearEstimator,
    Model,
    exact_risk,
    lower_bound,
    modulus_hellinger,
    modulus_tv,
    optimal_channel,
    upper_bound,
    worst_distribution,
)
from dpcore.minimax.programs.frames import STANDARD
from dpcore.minimax.programs.linear_programs import InfeasibleError, LinearProgram

pytest.importorskip("clarabel")

F = np.array([-0.75, 0.0, 0.5, 0.25, 1.0])
A, B = np.array([[1.0, 0.0, 0.25, 0.0, 1.0], [0.0, -1.0, 0.0, -0.5, 0.0]]), np.array([0.6, -0.1])
PHI = (-1.0, -0.2, 0.4, 0.1, 1.0)
UNITS = (1e-300, 2.0**-40, 1e-13, 3.0, 1e200, 1e300)
K3 = np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.2, 0.5, 0.3], [0.3, 0.5, 0.2], [0.1, 0.2, 0.7]])


def numbers(f, a=A, b=B, phi=PHI, channel=K3, unit=1.0):
    """Everything that depends linearly on the unit of θ, and everything that does not."""
    model = Model(f, a, b)
    binary = BinarySearchEstimator(model, BinaryChannel(1.0, phi), n=2000, step="tuned", loss="absolute")
    finite = BinarySearchEstimator(model, channel, n=500, step=0.2 * unit, loss="absolute")
    optimal = optimal_channel(model, 1.0, n=1000)
    tv, hellinger = modulus_tv(model, 0.1), modulus_hellinger(model, 0.1)
    differences = [
        np.ptp(model.theta_range),
        *(value for modulus in (tv, hellinger) for value in (modulus.value, modulus.upper)),
        lower_bound(model, 1.0, n=1000, loss="absolute").value,
        upper_bound(model, 1.0, n=10**6, loss="absolute").value,
        optimal.certificate.modulus,
        optimal.certificate.attained,
        binary.step,
        binary.risk_bound(),
        finite.step,
        finite.risk_bound(),
        *np.diff(binary.estimate(np.array([0, 700, 1400, 2000]))),
        *np.diff(finite.estimate(np.array([[500, 0, 0], [100, 300, 100], [0, 0, 500]]))),
    ]
    plain = [binary.N, finite.N, *(binary.error_bound(i) for i in range(3)), *(finite.error_bound(i) for i in range(3))]
    return np.array(differences), np.array(plain), np.array(model.theta_range)


@functools.cache
def plain_numbers():
    return numbers(F)


def assert_same(found, unit=1.0, tolerance=5e-6):
    differences, plain, ends = plain_numbers()
    assert found[0] / unit == pytest.approx(differences, rel=tolerance)
    assert found[1] == pytest.approx(plain, rel=tolerance, abs=1e-12)
    assert found[2] / unit == pytest.approx(ends, abs=tolerance)


@pytest.mark.long
@pytest.mark.parametrize("unit", [pytest.param(unit, marks=pytest.mark.long if unit in {3.0, 1e200, 2.0**-40} else ()) for unit in UNITS])
def test_the_unit_of_the_functional_does_not_matter(unit):
    assert_same(numbers(F * unit, unit=unit), unit)


@pytest.mark.long
@pytest.mark.parametrize("origin", [1.7e9, -(2.0**40)])
def test_the_origin_of_the_functional_does_not_matter(origin):
    """Differences of estimates lose what float64 leaves of numbers this large; bounds lose nothing."""
    found, (differences, plain, _) = numbers(F + origin), plain_numbers()
    assert found[0][1:13] == pytest.approx(differences[1:13], rel=5e-6)
    assert found[1] == pytest.approx(plain, rel=1e-6, abs=1e-12)
    assert found[0][[0, *range(13, len(differences))]] == pytest.approx(
        differences[[0, *range(13, len(differences))]], abs=4 * np.spacing(abs(origin))
    )


def test_a_turned_functional():
    """Of −θ the moduli and bounds are the same."""
    for modulus in (modulus_tv, modulus_hellinger):
        assert modulus(Model(-F, A, B), 0.1).value == pytest.approx(modulus(Model(F, A, B), 0.1).value, rel=1e-6)


@pytest.mark.long
def test_the_order_of_the_points_does_not_matter():
    order = np.array([3, 0, 4, 1, 2])
    assert_same(numbers(F[order], A[:, order], B, tuple(np.array(PHI)[order]), K3[order]))


@pytest.mark.long
def test_points_may_be_split():
    """Two points in place of one, alike in every condition and in the channel."""
    twice = np.array([0, 1, 2, 3, 4, 4, 2])
    assert_same(numbers(F[twice], A[:, twice], B, tuple(np.array(PHI)[twice]), K3[twice]))


@pytest.mark.long
@pytest.mark.parametrize("huge", [1e12, pytest.param(1e300, marks=pytest.mark.long), pytest.param(-1e308, marks=pytest.mark.long)])
def test_a_functional_may_be_anything_where_no_mass_is_allowed(huge):
    rows = np.column_stack([np.vstack([A, np.zeros(5)]), [0.0, 0.0, 1.0]])
    bounds = np.append(B, 0.0)
    found = numbers(np.append(F, huge), rows, bounds, (*PHI, 1.0), np.vstack([K3, K3[-1]]))
    assert_same(found)
    assert not Model(np.append(F, huge), rows, bounds).possible[-1]


def test_a_point_that_others_leave_no_mass():
    """All of the mass is on the first points: no row says so of the last one alone."""
    model = Model([0.0, 1.0, 1e12], [[-1.0, -1.0, 0.0]], [-1.0])
    assert model.theta_range == pytest.approx((0.0, 1.0), abs=1e-9)
    assert modulus_tv(model, 0.25).value == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("unit", [1e-13, 2.0**60])
def test_linear_estimators_on_models_in_any_unit(unit):
    linear = [LinearEstimator(scale * F, 1.0).on(Model(scale * F, A, B), n=1000) for scale in (1.0, unit)]
    assert linear[1].risk_bound("absolute") / unit == pytest.approx(linear[0].risk_bound("absolute"), rel=1e-9)
    worst = [worst_distribution(each, loss="absolute") for each in linear]
    assert worst[1].risk / unit == pytest.approx(worst[0].risk, rel=1e-6)
    assert exact_risk(linear[1], [0.2] * 5, loss="absolute") / unit == pytest.approx(exact_risk(linear[0], [0.2] * 5, loss="absolute"))


def hulls(seed):
    """Mixtures with masses far below 1e-9, or that differ by so little, in every place where that can matter."""
    generator = np.random.default_rng(seed)
    points, count = int(generator.integers(4, 30)), int(generator.integers(2, 12))
    f, plain = generator.normal(size=points), generator.dirichlet(np.ones(points), size=count)
    tiny = 1e-10 * generator.random((count, points))
    last = np.where(np.arange(points) == points - 1, 1.0, 0.0)
    small = np.hstack([np.ones((count, 1)), tiny[:, 1:]])
    return {
        "one mass": (f, np.where(np.arange(points) == points // 2, tiny, plain)),
        "every other mass": (f, plain * np.where(np.arange(points) % 2, 1.0, 1e-10)),
        "sparse masses": (f, generator.dirichlet(np.full(points, 0.05), size=count)),
        "masses of all sizes": (f, np.exp(-30 * generator.random((count, points)))),
        "powers": (f, plain**12),
        "neighbours": (f, plain[:1] * (1 + 1e-10 * generator.normal(size=plain.shape))),
        "all masses but one": (f, small),
        "the functional": (last, small),
    }


@pytest.mark.some(10)
@pytest.mark.parametrize("kind", hulls(0))
@pytest.mark.parametrize("seed", [1, 4, 23, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(30, 60))])
def test_hulls_with_tiny_masses_have_a_certificate(kind, seed):
    """At 10^8 records distances are 2e-4, of which HiGHS's tolerance of 1e-10 is more than the 1e-6 that a certificate leaves."""
    f, vertices = hulls(seed)[kind]
    found = optimal_channel(Model.hull(f, vertices / vertices.sum(axis=1, keepdims=True)), 1.0, n=10**8)
    assert found.certificate.holds
    assert found.certificate.ratio > 1 - 1e-9


def test_coefficients_that_the_solver_drops_count():
    """x + 1e-12·y ≤ 2 where y is 1e12."""
    rows, most, cost = sp.csr_array([[1.0, 1e-12], [0.0, 1e-6]]), np.array([2.0, 1e6]), np.array([-1.0, -1e-11])
    program = LinearProgram(cost, rows, most, sp.csr_array((0, 2)), np.zeros(0), np.zeros(2))
    point, duals = program.refined()
    assert point == pytest.approx([1.0, 1e12], rel=1e-9)
    assert duals == pytest.approx(np.linalg.solve(rows.toarray().T, -cost), rel=1e-9)
    assert program.solved()[0][0] == 2.0  # the twin


def test_what_the_tolerance_of_the_solver_leaves_is_found():
    """Right-hand sides of the size of its tolerance: every digit of the solution is below it."""
    rows, most, cost = sp.csr_array([[1.0, 1e-3], [1e-3, 1.0]]), np.array([1e-10, 2e-10]), np.array([-1.0, -1.0])
    point, duals = LinearProgram(cost, rows, most, sp.csr_array((0, 2)), np.zeros(0), np.zeros(2)).refined()
    assert point == pytest.approx(np.linalg.solve(rows.toarray(), most), rel=1e-5, abs=0)
    assert duals == pytest.approx(np.linalg.solve(rows.toarray().T, -cost), rel=1e-9)


def test_programmes_without_a_solution_stay_so_when_they_are_refined():
    nothing = LinearProgram(np.ones(1), sp.csr_array([[1.0]]), np.array([-1.0]), sp.csr_array((0, 1)), np.zeros(0), np.zeros(1))
    with pytest.raises(InfeasibleError):
        nothing.refined()


def test_one_estimate_of_a_small_functional_is_within_its_range():
    estimator = BinarySearchEstimator(Model([0.0, 5e-14, 1e-13]), BinaryChannel(1.0, (-1.0, 0.0, 1.0)), n=1, step=1.0)
    assert 0.0 <= estimator.estimate(np.array([0]))[0] <= 1e-13


def test_members_and_weak_duality_hold_in_the_models_own_units():
    """Whatever the solver did: the members give the value, and no two members of a sample differ by more than the bound."""
    generator = np.random.default_rng(5)
    f = 1e6 + 1e-3 * F
    model = Model(f, A, B)
    found = modulus_tv(model, 0.1)
    assert (f - f[0]) @ (found.p1 - found.p0) == pytest.approx(found.value, rel=1e-9)
    assert model.contains(found.p0)
    assert model.contains(found.p1)
    for p, q in generator.dirichlet(np.ones(5), size=(2000, 2)):
        if (A @ p <= B).all() and (A @ q <= B).all() and np.abs(p - q).sum() / 2 <= 0.1:
            assert (f - f[0]) @ (p - q) <= found.upper


@pytest.mark.long
def test_the_twin_that_solves_in_the_models_own_units(monkeypatch):
    """Without the standard form, f = 1.7e9 + (0, ½, 1) gives a risk bound a thousand times too large, or none."""
    own = property(lambda self: (STANDARD, self))
    monkeypatch.setattr(Model, "_standard", own)
    model = Model(1.7e9 + np.array([0.0, 0.5, 1.0]))
    bound = BinarySearchEstimator(model, BinaryChannel(1.0, (-1.0, 0.0, 1.0)), n=10_000, step="tuned").risk_bound()
    assert bound > 100 * 1.2e-4
    monkeypatch.undo()
    model = Model(1.7e9 + np.array([0.0, 0.5, 1.0]))
    bound = BinarySearchEstimator(model, BinaryChannel(1.0, (-1.0, 0.0, 1.0)), n=10_000, step="tuned").risk_bound()
    assert bound == pytest.approx(1.2132e-4, rel=1e-3)
