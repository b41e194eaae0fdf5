"""Guarantees of the discrete mechanisms computed from their laws, and accuracy against what is released.

The exact part sums the laws in 60 digits, by their definitions. The drawn part compares a fraction of misses with its promise at an error
rate of 10^-6 on each side, and has twins that must be rejected.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpcore import accounting, noise
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.testing import KeyedRandom

MP = mpmath.MPContext()
MP.dps = 60
ERROR_RATE = 1e-6


# Exact


def discrete_laplace_law(scale, z):
    r = MP.exp(-1 / MP.mpf(scale))
    return (1 - r) / (1 + r) * r ** abs(z)


@pytest.mark.some(4)
@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 3.0, 17.0])
def test_log_ratio_of_discrete_laplace_is_epsilon_and_not_more(epsilon, sensitivity):
    scale = DiscreteLaplace(epsilon, sensitivity).scale

    def worst(scale):
        return max(
            abs(MP.log(discrete_laplace_law(scale, z) / discrete_laplace_law(scale, z - shift)))
            for z in range(-50, 51)
            for shift in range(1, sensitivity + 1)
        )

    slack = MP.mpf(10) ** -45
    assert worst(scale) <= epsilon * (1 + slack)
    assert worst(scale) >= epsilon * (1 - 1e-12)
    assert worst(np.nextafter(scale, 0.0) * (1 - 2.0**-52)) > epsilon * (1 + slack)


def discrete_gaussian_loss(epsilon, scale, shift):
    """Σ_z (p(z) − e^ε p(z−Δ))_+ by its definition, over all z with a weight above 10^-400."""
    variance = MP.mpf(scale) ** 2
    width = int(43 * scale) + abs(shift) + 2
    weights = {z: MP.exp(-MP.mpf(z * z) / (2 * variance)) for z in range(-width - abs(shift), width + abs(shift) + 1)}
    gain = MP.exp(MP.mpf(epsilon))
    positive = (max(MP.mpf(0), weights[z] - gain * weights[z - shift]) for z in range(-width, width + 1))
    return MP.fsum(positive) / MP.fsum(weights.values())


@pytest.mark.some(25)
@pytest.mark.parametrize("shift", [1, 4])
@pytest.mark.parametrize("scale", [0.05, 0.3, 0.5, 0.52, 0.56, 1.0, 3.7, 33.0, 90.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 2.0, 9.0])
def test_discrete_gaussian_delta_is_the_sum_rounded_up(epsilon, scale, shift):
    delta = accounting.discrete_gaussian_delta(epsilon, scale, shift)
    exact = discrete_gaussian_loss(epsilon, scale, shift)
    assert exact <= delta
    assert delta <= max(float(exact) * (1 + 2.0**-45), 5e-324)
    for smaller in range(1, shift):  # the sensitivity itself is the worst shift, in either direction
        assert discrete_gaussian_loss(epsilon, scale, smaller) <= exact
    assert abs(discrete_gaussian_loss(epsilon, scale, -shift) - exact) < MP.mpf(10) ** -50


@pytest.mark.parametrize("method", ["exact", "zcdp"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [(2.0, 0.11, 1), (2.0, 0.105, 1), (1.0, 1e-6, 1), (0.3, 1e-12, 2), (10.0, 1e-7, 1), (60.0, 1e-5, 3)],
)
def test_discrete_gaussian_keeps_its_delta(method, epsilon, delta, sensitivity):
    mechanism = DiscreteGaussian(epsilon, delta, sensitivity, method=method)
    assert discrete_gaussian_loss(epsilon, mechanism.scale, sensitivity) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 0.11), (2.0, 0.13), (4.0, 0.05), (10.0, 1e-3)])
def test_exact_calibration_finds_the_first_scale_and_not_one_behind_the_hump(epsilon, delta):
    scale = DiscreteGaussian(epsilon, delta, 1, method="exact").scale
    below = np.linspace(scale / 2, scale * 0.999, 60)
    assert all(discrete_gaussian_loss(epsilon, s, 1) > delta for s in below)


def test_rounding_the_scale_of_a_discrete_gaussian_up_would_break_it():
    scale = DiscreteGaussian(2.0, 0.105, 1, method="exact").scale
    assert discrete_gaussian_loss(2.0, scale, 1) <= 0.105
    assert discrete_gaussian_loss(2.0, scale * 1.05, 1) > 0.105


@pytest.mark.parametrize(("epsilon", "scale"), [(1e-3, 5000.0), (0.5, 2.0**20), (1e-9, 2.0**30)])
def test_wide_discrete_gaussian_has_the_continuous_ones_delta(epsilon, scale):
    # Two ways to the same number: Euler-Maclaurin for the sum, Mills ratios for the integral; the law of the sum is within O(1/σ²).
    shift = max(1, round(epsilon * scale**2 / (3 * scale)))
    sum_delta = accounting.discrete_gaussian_delta(epsilon, scale, shift)
    assert sum_delta == pytest.approx(accounting.gaussian_delta(epsilon, scale, shift), rel=1e-6, abs=0.0)


# Drawn

SAMPLES = 200_000
KEY = bytes(range(1, 33))
MECHANISMS = [
    Laplace(0.7, 3.0),
    Gaussian(0.7, 1e-6, 3.0),
    DiscreteLaplace(0.05, 3),
    DiscreteGaussian(0.2, 1e-6, 3),
    DiscreteGaussian(0.2, 1e-6, 3, method="exact"),
]


def miss_interval(misses, n):
    """Clopper-Pearson interval of the miss probability."""
    low = stats.beta.ppf(ERROR_RATE, misses, n - misses + 1) if misses else 0.0
    return low, stats.beta.isf(ERROR_RATE, misses + 1, n - misses)


def draw(mechanism):
    """Released zeros: noise alone. One answer at a time is what `exact` stands for, so its noise is drawn for many at once here."""
    if getattr(mechanism, "method", None) == "exact":
        return noise.discrete_gaussian(np.zeros(SAMPLES, dtype=np.int64), mechanism.scale, rng=KeyedRandom(KEY))
    return mechanism.release(np.zeros(SAMPLES, dtype=np.int64), rng=KeyedRandom(KEY))


@pytest.mark.parametrize("k", [1, 20])
@pytest.mark.parametrize("beta", [0.05, 0.3])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_accuracy_is_kept_and_not_wasted(mechanism, beta, k):
    largest = np.abs(draw(mechanism)).reshape(-1, k).max(axis=1)
    width = mechanism.accuracy(beta, size=k)
    low, _ = miss_interval(int(np.count_nonzero(largest > width)), largest.size)
    assert low <= beta
    narrower = width - 1 if isinstance(width, int) else width * 0.9
    low, _ = miss_interval(int(np.count_nonzero(largest > narrower * 0.97)), largest.size)
    assert low > beta  # a width that is some percent too small is rejected by the same test


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_released_noise_has_the_mechanisms_spread(mechanism):
    released = draw(mechanism).astype(np.float64)
    scale = mechanism.scale
    if isinstance(mechanism, (Laplace, DiscreteLaplace)):
        r = np.exp(-1 / scale)
        variance, kurtosis = (2 * scale**2, 6.0) if isinstance(mechanism, Laplace) else (2 * r / (1 - r) ** 2, 6.5)
    else:
        variance, kurtosis = scale**2, 3.0
    error = variance * np.sqrt((kurtosis - 1) / SAMPLES)
    critical = stats.norm.isf(ERROR_RATE)
    assert abs(np.mean(released**2) - variance) < critical * error
    assert abs(np.mean((1.05 * released) ** 2) - variance) > critical * error  # a scale 5 % too large is rejected
    assert abs(np.mean(released)) < critical * np.sqrt(variance / SAMPLES)
