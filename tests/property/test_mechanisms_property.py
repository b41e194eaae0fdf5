"""Properties of calibration and accuracy over the whole range of parameters, against plain high-precision formulas."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dpcore import accounting
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.noise import default_grid

pytestmark = pytest.mark.filterwarnings("ignore:beta is the probability of missing:UserWarning")  # large ones are legal
MP = mpmath.MPContext()
MP.dps = 60


def logarithmic(low: float, high: float) -> st.SearchStrategy[float]:
    """Positive floats spread evenly over their exponents."""
    return st.floats(math.log(low), math.log(high)).map(math.exp)


EPSILONS = logarithmic(1e-10, 700.0)
DELTAS = logarithmic(1e-300, 0.999)
BETAS = st.one_of(logarithmic(1e-300, 0.5), st.floats(0.5, 1.0, exclude_max=True))
COUNTS = st.one_of(st.integers(1, 100), st.integers(1, 10**18))


def gaussian_delta(epsilon: float, scale: float, sensitivity: float) -> mpmath.mpf:
    """The textbook formula, whose cancellation 400 digits can bear."""
    context = mpmath.MPContext()
    context.dps = 400
    ratio = context.mpf(sensitivity) / context.mpf(scale)
    middle = context.mpf(epsilon) / ratio
    upper = context.erfc((middle - ratio / 2) / context.sqrt(2)) / 2
    lower = context.erfc((middle + ratio / 2) / context.sqrt(2)) / 2
    return upper - context.exp(epsilon) * lower


# Scales


@given(epsilon=logarithmic(1e-100, 1e100), sensitivity=logarithmic(1e-100, 1e100))
@example(epsilon=3.0, sensitivity=1.0)
@example(epsilon=0.1, sensitivity=1.0)
def test_laplace_scale_is_the_least_float_that_is_large_enough(epsilon, sensitivity):
    scale = Laplace(epsilon, sensitivity).scale
    exact = Fraction(sensitivity) / Fraction(epsilon)
    assert Fraction(math.nextafter(scale, 0.0)) < exact <= Fraction(scale)


@given(epsilon=logarithmic(1e-10, 1e5), sensitivity=st.integers(1, 100))
def test_discrete_laplace_scale_is_the_least_float_that_is_large_enough(epsilon, sensitivity):
    scale = DiscreteLaplace(epsilon, sensitivity).scale
    exact = sensitivity / Fraction(epsilon)
    assert Fraction(math.nextafter(scale, 0.0)) < exact <= Fraction(scale)


@given(epsilon=EPSILONS, delta=DELTAS, sensitivity=logarithmic(1e-20, 1e20))
@example(epsilon=1e-10, delta=1e-300, sensitivity=1.0)
@example(epsilon=1e-10, delta=0.999, sensitivity=1.0)
@example(epsilon=700.0, delta=1e-300, sensitivity=1.0)
@example(epsilon=700.0, delta=0.999, sensitivity=1.0)
def test_analytic_scale_is_large_enough_and_the_least(epsilon, delta, sensitivity):
    scale = accounting.analytic_gaussian_scale(epsilon, delta, sensitivity)
    assert gaussian_delta(epsilon, scale, sensitivity) <= delta
    assert gaussian_delta(epsilon, scale * (1 - 2.0**-50), sensitivity) > delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-300, 1e-300), (1e-300, 0.5), (1e308, 1e-300), (1e308, 0.999), (5.0, 1 - 2.0**-53), (5.0, 5e-324)]
)
def test_analytic_scale_at_the_ends_of_float64(epsilon, delta):
    scale = accounting.analytic_gaussian_scale(epsilon, delta, 1.0)
    assert accounting.gaussian_delta(epsilon, scale, 1.0) <= delta
    assert accounting.gaussian_delta(epsilon, scale * (1 - 2.0**-50), 1.0) > delta


@given(epsilon=logarithmic(1e-10, 1.0), delta=DELTAS)
@example(epsilon=1.0, delta=0.999)
@example(epsilon=1.0, delta=1e-300)
def test_classical_scale_is_never_below_the_formula_nor_the_analytic_one(epsilon, delta):
    scale = accounting.classical_gaussian_scale(epsilon, delta, 1.0)
    formula = MP.sqrt(2 * MP.log(MP.mpf(1.25) / delta)) / epsilon
    assert math.nextafter(scale, 0.0) <= formula <= scale
    assert scale >= accounting.analytic_gaussian_scale(epsilon, delta, 1.0)


@given(epsilon=EPSILONS, delta=DELTAS, sensitivity=logarithmic(1e-3, 1e3))
def test_zcdp_scale_meets_delta_and_little_less_does_not(epsilon, delta, sensitivity):
    scale = accounting.zcdp_discrete_gaussian_scale(epsilon, delta, sensitivity)
    rho = MP.mpf(sensitivity) ** 2 / (2 * MP.mpf(scale) ** 2)

    def bound(x: mpmath.mpf) -> mpmath.mpf:  # order α = 1 + x
        return MP.exp(x * ((1 + x) * rho - epsilon)) / x * (x / (1 + x)) ** (1 + x)

    def slope(t: mpmath.mpf) -> mpmath.mpf:
        return (2 * MP.exp(t) + 1) * rho - epsilon - MP.log1p(MP.exp(-t))

    low, high = MP.mpf(-800), MP.mpf(800)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    best = bound(MP.exp(low))
    assert best <= delta * (1 + MP.mpf(2) ** -100)
    assert best >= delta * (1 - MP.mpf(2) ** -30)


@pytest.mark.long
@given(epsilon=logarithmic(1e-6, 100.0), delta=logarithmic(1e-12, 0.9), sensitivity=st.integers(1, 20))
def test_exact_scale_is_certified_and_not_above_zcdp(epsilon, delta, sensitivity):
    scale = accounting.exact_discrete_gaussian_scale(epsilon, delta, sensitivity)
    assume(scale <= 2.0**40)
    assert accounting.discrete_gaussian_delta(epsilon, scale, sensitivity) <= delta
    assert scale <= accounting.zcdp_discrete_gaussian_scale(epsilon, delta, sensitivity)


# δ and ε


@given(epsilon=st.one_of(st.just(0.0), EPSILONS), scale=logarithmic(1e-3, 1e6), sensitivity=logarithmic(1e-3, 1e3))
def test_gaussian_delta_is_the_formula_rounded_up(epsilon, scale, sensitivity):
    delta = accounting.gaussian_delta(epsilon, scale, sensitivity)
    exact = gaussian_delta(epsilon, scale, sensitivity)
    assert exact <= delta
    assert delta <= max(float(exact) * (1 + 2.0**-50), math.nextafter(float(exact), 1.0))  # the next float, below the normal ones


@given(epsilon=EPSILONS, scale=logarithmic(1e-3, 1e6), factor=st.floats(1.0, 4.0), more=st.floats(1.0, 4.0))
def test_gaussian_delta_falls_in_scale_and_epsilon(epsilon, scale, factor, more):
    delta = accounting.gaussian_delta(epsilon, scale, 1.0)
    assert accounting.gaussian_delta(epsilon, scale * factor, 1.0) <= delta
    assert accounting.gaussian_delta(epsilon * more, scale, 1.0) <= delta
    assert accounting.gaussian_delta(epsilon, scale, factor) >= delta


@pytest.mark.long
@given(epsilon=EPSILONS, delta=logarithmic(1e-100, 0.9), sensitivity=st.floats(0.5, 2.0), smaller=st.floats(0.1, 1.0))
def test_less_privacy_needs_no_more_noise(epsilon, delta, sensitivity, smaller):
    for calibrate in (accounting.analytic_gaussian_scale, accounting.zcdp_discrete_gaussian_scale):
        scale = calibrate(epsilon * smaller, delta, sensitivity)
        assert calibrate(epsilon, delta, sensitivity) <= scale
        assert calibrate(epsilon * smaller, min(delta / smaller, 0.95), sensitivity) <= scale * (1 + 1e-12)
        assert calibrate(epsilon * smaller, delta, sensitivity * smaller) <= scale


@given(rho=st.one_of(st.just(0.0), logarithmic(1e-10, 1e3)), epsilon=st.one_of(st.just(0.0), EPSILONS), delta=DELTAS)
def test_zcdp_conversions_hold_at_every_order_and_are_inverse(rho, epsilon, delta):
    assert 0 < accounting.zcdp_delta(rho, epsilon) <= 1
    needed = accounting.zcdp_epsilon(rho, delta)
    assert needed <= rho + 2 * math.sqrt(rho * -math.log(delta)) + 1e-9
    assert accounting.zcdp_delta(rho, needed) <= delta * (1 + 1e-9)


# Accuracy, by the exact formulas


def tail(beta: float, k: int) -> mpmath.mpf:
    return -MP.expm1(MP.log1p(-MP.mpf(beta)) / k)


@given(beta=BETAS, k=COUNTS)
@example(beta=1e-300, k=10**18)
@example(beta=1 - 2.0**-53, k=1)
def test_laplace_accuracy_is_the_quantile_and_half_a_grid_step(beta, k):
    mechanism = Laplace(0.3, 2.0)
    exact = -mechanism.scale * MP.log(tail(beta, k)) + MP.mpf(default_grid(mechanism.scale)) / 2
    width = mechanism.accuracy(beta, size=k)
    assert math.nextafter(width, 0.0) <= exact <= width


@given(beta=BETAS, k=COUNTS)
@example(beta=1e-300, k=10**18)
@example(beta=1 - 2.0**-53, k=1)
def test_gaussian_accuracy_is_met_and_the_least(beta, k):
    mechanism = Gaussian(0.3, 1e-6, 2.0)
    half_step = MP.mpf(default_grid(mechanism.scale)) / 2
    p = tail(beta, k)

    def beyond(width: float) -> mpmath.mpf:
        return MP.erfc((width - half_step) / mechanism.scale / MP.sqrt(2))

    width = mechanism.accuracy(beta, size=k)
    assert beyond(width) <= p
    assert beyond(math.nextafter(width, 0.0)) > p


@given(beta=BETAS, k=COUNTS, epsilon=logarithmic(1e-9, 1e4))
@example(beta=1e-300, k=10**18, epsilon=1e-9)
@example(beta=1 - 2.0**-53, k=1, epsilon=1e4)
def test_discrete_laplace_accuracy_is_met_and_the_least(beta, k, epsilon):
    mechanism = DiscreteLaplace(epsilon, 2)
    p = tail(beta, k)

    def beyond(width: int) -> mpmath.mpf:  # P(|Z| > width)
        return 2 * MP.exp(-MP.mpf(width + 1) / mechanism.scale) / (1 + MP.exp(-1 / MP.mpf(mechanism.scale)))

    width = mechanism.accuracy(beta, size=k)
    assert beyond(width) <= p
    assert width == 0 or beyond(width - 1) > p * (1 - MP.mpf(2) ** -120)


@pytest.mark.long
@given(beta=st.floats(1e-300, 0.999), k=st.integers(1, 10**6), scale=st.floats(0.05, 6.0))
@example(beta=1e-300, k=10**6, scale=6.0)
def test_discrete_gaussian_accuracy_is_met_and_the_least(beta, k, scale):
    # A mechanism with about this scale: ρ = 1/2σ², and ε from it.
    mechanism = DiscreteGaussian(accounting.zcdp_epsilon(0.5 / scale**2, 1e-6), 1e-6, 1)
    variance = MP.mpf(mechanism.scale) ** 2
    weights = [MP.exp(-MP.mpf(z * z) / (2 * variance)) for z in range(300)]
    norm = 2 * MP.fsum(weights) - 1
    p = tail(beta, k)

    def beyond(width: int) -> mpmath.mpf:
        return 2 * MP.fsum(weights[width + 1 :]) / norm

    width = mechanism.accuracy(beta, size=k)
    assert beyond(width) <= p
    assert width == 0 or beyond(width - 1) > p


@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 0.01])
def test_wide_discrete_gaussian_is_as_accurate_as_the_continuous_one(epsilon):
    mechanism = DiscreteGaussian(epsilon, 1e-6, 1)
    for beta, k, x in [(0.05, 1, "1.9599639845400542"), (1e-300, 1, "37.06578788077213"), (1e-12, 1000, "8.0268588825345409")]:
        assert abs(MP.erfc(MP.mpf(x) / MP.sqrt(2)) / tail(beta, k) - 1) < 1e-9
        # P(|Z| > a) is P(|N| > (a + 1/2)/σ) but for O(1/σ²), and a is the least integer that will do.
        assert 0 <= mechanism.accuracy(beta, size=k) + 0.5 - mechanism.scale * MP.mpf(x) <= 1.001


@pytest.mark.long
@given(beta=BETAS, smaller=st.floats(0.01, 1.0), k=st.integers(1, 1000))
def test_accuracy_grows_with_certainty_and_with_the_number_of_answers(beta, smaller, k):
    for mechanism in (Laplace(1.0, 1.0), Gaussian(1.0, 1e-6, 1.0), DiscreteLaplace(1.0, 1), DiscreteGaussian(1.0, 1e-6, 1)):
        width = mechanism.accuracy(beta, size=k)
        assert mechanism.accuracy(beta, size=k + 1) >= width
        assert mechanism.accuracy(max(beta * smaller, 1e-300), size=k) >= width
