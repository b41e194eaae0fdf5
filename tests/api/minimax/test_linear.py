"""Linear estimators: what they promise about bias and variance, and how they take records, reports and counts."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.minimax import (
    LinearEstimator,
    Model,
    covariance,
    density_at,
    event_probability,
    losses,
    truncated_moment,
    uniform_scale,
)
from dpcore.minimax.linear.weights import kernel
from dpcore.testing import KeyedRandom
from support.kernels import KEY

EPSILON = 1.0
T = math.tanh(EPSILON / 2)


def worth(n):
    return n * T**2


# The bandwidth


def ready_made(h=None, n=10_000):
    return {
        "moment 2": truncated_moment(EPSILON, n=n, kappa=2.0, C=3.0, h=h),
        "moment 1.5": truncated_moment(EPSILON, n=n, kappa=1.5, C=0.2, h=h),
        "bounded": truncated_moment(EPSILON, n=n, kappa=2.0, C=0.5, f=[-1.0, 0.0, 2.0], h=h),
        "covariance": covariance(EPSILON, n=n, kappa=4.0, C=1.0, h=h),
        "density 1/2": density_at(0.0, EPSILON, n=n, smoothness=0.5, C=2.0, h=h),
        "density 2": density_at(0.0, EPSILON, n=n, smoothness=2.0, C=2.0, h=h),
        "slope 2": density_at(0.0, EPSILON, n=n, smoothness=2.0, C=2.0, m=1, h=h),
        "curvature 3.5": density_at(0.0, EPSILON, n=n, smoothness=3.5, C=2.0, m=2, h=h),
    }


@pytest.mark.some(5)
@pytest.mark.parametrize("name", ready_made())
@pytest.mark.parametrize("n", [1, 20, 10_000, 10**9])
def test_automatic_bandwidth_is_the_one_with_the_least_bound(name, n):
    chosen = ready_made(n=n)[name]
    bounds = [ready_made(h=chosen.h * factor, n=n)[name].risk_bound(n=n) for factor in np.exp(np.linspace(-3, 3, 41))]
    assert chosen.risk_bound(n=n) <= min(bounds) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "order", "rate"),
    [
        ("moment 2", 1 / 4, 1 / 2),
        ("moment 1.5", 1 / 3, 1 / 3),
        ("covariance", 1 / 8, 3 / 4),
        ("density 1/2", 1 / 3, 1 / 3),
        ("density 2", 1 / 6, 2 / 3),
        ("slope 2", 1 / 6, 1 / 3),
        ("curvature 3.5", 1 / 9, 1 / 3),
    ],
)
def test_bandwidth_and_bound_have_the_orders_of_theory(name, order, rate):
    near, far = ready_made(n=10**6)[name], ready_made(n=2**10 * 10**6)[name]
    assert near.h / far.h == pytest.approx(2 ** (10 * order), rel=1e-12)
    assert near.risk_bound(n=10**6) / far.risk_bound(n=2**10 * 10**6) == pytest.approx(2 ** (10 * rate), rel=1e-12)


def test_bounded_functions_have_the_rate_of_case_a():
    risks = [truncated_moment(EPSILON, n=n, kappa=2.0, C=0.5, f=[-1.0, 0.0, 2.0]).risk_bound(n=n) * worth(n) for n in (10**5, 10**8)]
    assert risks[0] == pytest.approx(4, rel=0.01)
    assert risks[1] == pytest.approx(4, rel=1e-5)


def test_scale_of_the_problem_does_not_matter():
    one, thousand = truncated_moment(EPSILON, n=10**4, kappa=3.0, C=1.0), truncated_moment(EPSILON, n=10**4, kappa=3.0, C=1e9)
    assert thousand.bound == pytest.approx(1000 * one.bound)
    near, wide = density_at(0.0, EPSILON, n=10**4, smoothness=2.0, C=1.0), density_at(0.0, EPSILON, n=10**4, smoothness=2.0, C=1e-9)
    assert wide.h == pytest.approx(1000 * near.h)


# Bias


@given(st.floats(1.1, 6.0), st.floats(0.01, 100.0), st.floats(0.05, 20.0))
def test_bias_of_clipping_is_attained_by_two_points(kappa, C, h):
    estimator = truncated_moment(EPSILON, n=100, kappa=kappa, C=C, h=h)
    y = max(kappa / h / (kappa - 1), C ** (1 / kappa))
    mass = min(1.0, C / y**kappa)
    assert mass * y**kappa <= C * (1 + 1e-9)
    assert mass * (y - min(y, 1 / h)) == pytest.approx(estimator.bias, rel=1e-9, abs=1e-12 * y)


@pytest.mark.parametrize("C", [0.05, 0.5, 2.0, 7.0])
@pytest.mark.parametrize("level", [0.3, 1.0, 1.9])
def test_bias_of_clipping_a_table_is_the_largest_over_the_model(C, level):
    grid = np.linspace(-2, 2, 401)
    estimator = truncated_moment(EPSILON, n=100, kappa=2.5, C=C, f=grid, h=1 / level)
    found = estimator.on(Model.moment(grid, kappa=2.5, C=C), n=100).bias
    assert found <= estimator.bias + 1e-8
    assert found >= 0.995 * estimator.bias - 1e-8


def bias_of(estimator, density, truth, ends):
    def integrand(x):
        return (estimator.center + float(estimator.ell(x))) * density(x)

    h = estimator.h
    places = [end for end in sorted({*ends, -h, h, 0.0}) if -h <= end <= h]
    return sum(integrate.quad(integrand, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(places)) - truth


def test_bias_of_a_triangle_is_the_bound():
    # |p'(x) − p'(y)| ≤ 2, β = 1: one of the densities that the bound is made for.
    estimator = density_at(0.0, EPSILON, n=1000, smoothness=1.0, C=2.0, h=0.25)
    found = bias_of(estimator, lambda x: max(1 - abs(x), 0.0), 1.0, [-1, 1])
    assert -found == pytest.approx(0.125, rel=1e-9)
    assert estimator.bias == pytest.approx(0.125, rel=1e-9)


def normal_derivative(order, x):
    hermite = np.polynomial.hermite_e.HermiteE.basis(order)
    return (-1) ** order * hermite(x) * stats.norm.pdf(x)


def hoelder_constant(beta):
    x = np.linspace(-6, 6, 2401)
    values = normal_derivative(math.floor(beta), x)
    power = beta - math.floor(beta)
    if power == 0:
        return float(np.ptp(values))
    gaps = [np.abs(values[k:] - values[:-k]).max() / (k * (x[1] - x[0])) ** power for k in range(1, 1200, 3)]
    return 1.01 * max(gaps)


@pytest.mark.some(27)
@pytest.mark.parametrize(
    ("beta", "m"), [(0.5, 0), (1, 0), (1.5, 0), (2, 0), (2.5, 0), (4, 0), (2, 1), (2.5, 1), (3, 1), (3.5, 2), (4.5, 3)]
)
@pytest.mark.parametrize("centre", [0.0, 0.7, 1.9])
@pytest.mark.parametrize("h", [0.3, 1.5])
def test_bias_at_a_normal_density_is_within_the_bound(beta, m, centre, h):
    estimator = density_at(0.0, EPSILON, n=1000, smoothness=beta, C=hoelder_constant(beta), m=m, h=h)
    found = bias_of(estimator, lambda x: stats.norm.pdf(x + centre), normal_derivative(m, centre), [])
    assert abs(found) <= estimator.bias


@given(st.floats(0.1, 9.0), st.integers(0, 4))
def test_kernels_have_the_moments_of_a_derivative(beta, m):
    if m >= beta:
        return
    found = kernel(beta, m)
    for j in range(math.ceil(beta)):
        if (j + m) % 2 == 0:
            terms = [Fraction(a) / (i + j + 1) for i, a in enumerate(found.coefficients)]
            size = max(1.0, *(abs(float(term)) for term in terms))
            assert float(2 * sum(terms)) == pytest.approx(math.factorial(m) if j == m else 0.0, abs=1e-12 * size)


@pytest.mark.parametrize(("beta", "m"), [(0.5, 0), (2, 0), (2, 1), (3.7, 1), (4, 0), (4.5, 3), (8, 2)])
def test_extent_and_moment_of_kernels(beta, m):
    found, u = kernel(beta, m), (np.arange(200_000) - 99_999.5) / 100_000
    values = found(u)
    low, high = min(values.min(), 0.0), max(values.max(), 0.0)
    middle, half = found.extent
    assert middle - half <= low
    assert high <= middle + half
    assert half == pytest.approx((high - low) / 2, rel=1e-3)
    assert found.moment(beta) == pytest.approx(2 * float(np.mean(np.abs(values) * np.abs(u) ** beta)), rel=1e-6)
    assert found(np.array([-1.5, 1.01])).tolist() == [0.0, 0.0]
    assert np.array_equal(found(-u), (-1) ** m * values)


def test_windows_are_centred():
    estimator = density_at(0.5, EPSILON, n=10_000, smoothness=2.0, C=1.0)
    height = 1 / (2 * estimator.h)
    x = 0.5 + estimator.h * np.array([-1.5, -0.9, 0.0, 0.9, 1.5])
    assert estimator.ell(x) == pytest.approx(height * np.array([-0.5, 0.5, 0.5, 0.5, -0.5]))
    assert estimator.center == pytest.approx(height / 2)
    assert estimator.bound == pytest.approx(height / 2)


def test_constant_kernels_beat_legendres():
    # at β = 3, m = 1 Legendre's kernel is 3u/2: twice ∫₀¹ 3u/2·u³ = 3/5, and half the range 3/2
    sign = kernel(3.0, 1)
    assert sign.coefficients == (1.0,)
    assert sign.moment(3.0) ** 2 * sign.extent[1] ** 2 < 0.6**2 * 1.5**2


def test_uniform_scale_and_events_have_no_bias():
    cells = 40
    assert uniform_scale(EPSILON, M=3.0).on(Model.uniform_scale(3.0, cells=cells), n=100).bias < 1e-8
    table = np.array([True, False, True])
    assert event_probability(table, EPSILON).on(Model(table.astype(float)), n=100).bias < 1e-8


# Risk bounds


def test_bounds_of_the_ready_made():
    assert uniform_scale(EPSILON, M=3.0).risk_bound(n=50) == pytest.approx(9 / worth(50))
    assert event_probability([True, False], EPSILON).risk_bound(n=50) == pytest.approx(0.25 / worth(50))


@pytest.mark.parametrize("loss", [losses.absolute(), losses.huber(0.5), losses.power(1.5), losses.power(3.0), losses.squared()])
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_risk_bounds_of_other_losses_hold(loss, bias):
    n = 40
    estimator = LinearEstimator([-1.0, 1.0], EPSILON, bias=bias)
    z0, c = 1 / T, np.arange(n + 1)
    bound = estimator.risk_bound(n=n, loss=loss)
    for mean in np.linspace(-1, 1, 41):
        for shift in (-bias, bias):
            masses = stats.binom.pmf(c, n, (1 + mean * T) / 2)
            risk = masses @ loss(np.abs(z0 * (2 * c / n - 1) - mean - shift))
            assert risk <= bound * (1 + 1e-12)
    assert bound <= 10 * loss(math.hypot(bias, z0 / math.sqrt(n)))


def test_a_risk_needs_a_bias():
    with pytest.raises(ParameterError, match="bias is not known"):
        LinearEstimator([-1.0, 1.0], EPSILON).risk_bound(n=10)


# Records, reports, counts


def test_estimates_from_reports_and_from_counts_agree():
    estimator = LinearEstimator([-1.0, 0.25, 1.0], EPSILON, center=2.0, bias=0.125)
    reports = estimator.privatize(np.arange(999) % 3, rng=KeyedRandom(KEY))
    found = estimator.estimate(reports)
    count = int(reports.sum())
    assert found.value == pytest.approx(estimator.estimate_counts(count, n=999), rel=1e-14)
    assert found.value == pytest.approx(estimator.estimate_counts([[999 - count, count]], n=999)[0], rel=1e-14)
    assert found.value == pytest.approx(2 + (2 * count / 999 - 1) / T, rel=1e-12)
    plain = LinearEstimator([-1.0, 0.25, 1.0], EPSILON).estimate(reports)
    for confidence in (0.5, 0.95, 0.999):
        assert found.interval(confidence).tolist() == estimator.interval(count, confidence, n=999).tolist()
        moved = np.subtract(found.interval(confidence), plain.interval(confidence))
        assert 2 - 0.125 <= moved[0] < 2 - 0.025  # the bias, less what one side need not spend
        assert 2 + 0.025 < moved[1] <= 2 + 0.125
    assert (found.n, found.privacy) == (999, estimator.channel.privacy)
    assert found.stderr == estimator.channel.estimate(reports).stderr
    with pytest.raises(ParameterError, match="confidence must be in"):
        found.interval(0.0)
    assert estimator.estimate(estimator.channel.aggregate(reports)).value == found.value


def test_means_are_unbiased_for_the_function():
    x = np.linspace(-3, 3, 200_001)
    estimator = LinearEstimator(np.sin, 3.0, bound=1.0, center=0.5)
    estimate = estimator.estimate(estimator.privatize(np.abs(x), rng=KeyedRandom(KEY)))
    low, high = estimate.interval(1 - 1e-6)
    assert low <= 0.5 + float(np.sin(np.abs(x)).mean()) <= high


def test_records_of_several_numbers():
    estimator = covariance(8.0, n=10_000, kappa=4.0, C=1.0)
    xy = np.stack([np.tile([0.5, -0.5], 50_000), np.tile([0.75, -0.75], 50_000)], axis=1)
    estimate = estimator.estimate(estimator.privatize(xy, rng=KeyedRandom(KEY)))
    low, high = estimate.interval(1 - 1e-6)
    assert low <= 0.375 <= high
    assert estimate.value == pytest.approx(0.375, abs=0.05)
    assert estimator.privatize(xy[:6].reshape(2, 3, 2)).shape == (2, 3)
    points = xy[:4]
    assert estimator.channel.channel(estimator._records(points))[:, 1] == pytest.approx(0.5 + 0.375 / estimator.channel.z0 / 2)
    model = Model([0.375, 0.375, 0.375, 0.5], points=np.vstack([points[:3], [[1.0, 0.5]]]))
    assert estimator.on(model, n=100).weights.tolist() == pytest.approx([0.375, 0.375, 0.375, 0.5])
    with pytest.raises(ParameterError, match="records must have 2 numbers"):
        estimator.privatize(np.zeros((4, 3)))


def test_the_channel_on_a_model_is_that_of_the_points():
    grid = np.linspace(-3, 3, 13)
    estimator = truncated_moment(EPSILON, n=1000, kappa=2.0, C=1.0)
    seen = estimator.on(Model.moment(grid, kappa=2.0, C=1.0), n=1000)
    assert np.abs(seen.channel - estimator.channel.channel(grid)).max() < 1e-15
    assert seen.estimate([10, 990]).tolist() == estimator.estimate_counts([10, 990], n=1000).tolist()


def test_tables_are_clipped_to_the_bound():
    estimator = LinearEstimator([-3.0, 0.5], EPSILON, bound=1.0)
    assert estimator.ell == (-1.0, 0.5)
    assert estimator.bound == 1.0


def test_estimators_are_values():
    one, two = truncated_moment(1, n=100, kappa=2.0, C=1.0), truncated_moment(1.0, n=100, kappa=2, C=1)
    assert one == two
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != truncated_moment(1.0, n=101, kappa=2.0, C=1.0)
    assert density_at(0.0, 1.0, n=100, smoothness=2.0, C=1.0) == density_at(0.0, 1.0, n=100, smoothness=2.0, C=1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LinearEstimator(np.sin, 1.0), ParameterError, "bound is required"),
        (lambda: LinearEstimator([1.0, 2.0], 1.0, dimension=2), ParameterError, "dimension is for a function"),
        (lambda: LinearEstimator([1.0, 2.0], 1.0, bias=-1.0), ParameterError, "bias must be in"),
        (lambda: LinearEstimator([1.0, 2.0], 1.0, center=math.inf), ParameterError, "center must be in"),
        (lambda: LinearEstimator([0.0, 0.0], 1.0), ParameterError, "not all zero"),
        (lambda: truncated_moment(1.0, n=0, kappa=2.0, C=1.0), ParameterError, "n must be in"),
        (lambda: truncated_moment(0.0, n=10, kappa=2.0, C=1.0), ParameterError, "epsilon must be in"),
        (lambda: truncated_moment(1.0, n=10, kappa=1.0, C=1.0), ParameterError, "kappa must be in"),
        (lambda: truncated_moment(1.0, n=10, kappa=2.0, C=0.0), ParameterError, "C must be positive"),
        (lambda: truncated_moment(1.0, n=10, kappa=2.0, C=1.0, h=0.0), ParameterError, "h must be positive"),
        (lambda: truncated_moment(1.0, n=10, kappa=2.0, C=1.0, f=[0.0, 0.0]), ParameterError, "f must be a vector"),
        (lambda: density_at(0.0, 1.0, n=10, smoothness=17.0, C=1.0), ParameterError, "smoothness must be in"),
        (lambda: density_at(0.0, 1.0, n=10, smoothness=2.0, C=1.0, m=2), ParameterError, "m must be in"),
        (lambda: density_at(math.nan, 1.0, n=10, smoothness=2.0, C=1.0), ParameterError, "x0 must be in"),
        (lambda: uniform_scale(1.0, M=-1.0), ParameterError, "M must be positive"),
        (lambda: event_probability([1, 0], 1.0), ParameterTypeError, "event must have one of the dtypes bool"),
        (
            lambda: event_probability([True, False], 1.0).on(Model([0.0, 1.0, 2.0]), n=10).channel,
            ParameterError,
            "model must have 2 points",
        ),
        (lambda: uniform_scale(1.0, M=1.0).on(Model([0.0, 1.0]), n=10).channel, ParameterError, "model must have points"),
        (lambda: uniform_scale(1.0, M=1.0).on(Model([0.0, 1.0]), n=0), ParameterError, "n must be in"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("counts", [[11], [-1], [[4, 5]], [[-1, 11]]])
def test_counts_that_cannot_be(counts):
    with pytest.raises(DataError, match=r"counts must be in \[0, 10\] and sum to 10; those at index \(0,\) do not"):
        uniform_scale(1.0, M=1.0).estimate_counts(counts, n=10)
