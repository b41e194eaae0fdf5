"""Intervals of noisy sums over noisy counts: widths against enumerated laws, and how often intervals hold the ratio."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.query.quotients import combined_width, quotient_interval
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE, binomial_p_value

WEIGHTS = [(1.0, 0.0), (1.0, 1e-9), (1.0, 0.3), (0.5, 0.5), (1.0, 1.0), (0.2, 0.8), (1.0, 7.0)]
BETAS = [0.9, 0.05, 1e-4]
WHOLE = {"laplace": lambda epsilon: DiscreteLaplace(epsilon, 1), "gaussian": lambda epsilon: DiscreteGaussian(epsilon, 1e-6, 1)}
REAL = {"laplace": Laplace, "gaussian": lambda epsilon, reach: Gaussian(epsilon, 1e-6, reach)}
IDEAL = {"laplace": stats.laplace, "gaussian": stats.norm}


def masses(law, scale):
    """The law of whole noise as far as it matters, from its definition."""
    most = int((45 if law == "laplace" else 10) * scale + 10)
    k = np.arange(-most, most + 1)
    weights = np.exp(-np.abs(k) / scale) if law == "laplace" else np.exp(-(k**2) / (2 * scale**2))
    return k, weights / weights.sum()


def beyond(law, one, other, weights, real, width):
    """P(|v·A − w·B| > width) by a sum over the whole noise, of both or of the second."""
    (v, w), (k, mass) = weights, masses(law, other)
    ideal = IDEAL[law](scale=v * one) if real else None
    if ideal is not None:
        return float(mass @ (ideal.sf(width - w * k) + ideal.cdf(-width - w * k)))
    j, firsts = masses(law, one)
    return float(firsts @ (np.abs(v * j[:, None] - w * k[None, :]) > width * (1 + 1e-12)) @ mass)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("real", [True, False], ids=["real", "whole"])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [20.0, 4.0, 0.9, 0.4])
@pytest.mark.parametrize("reach", [0.01, 5.0, 1e4])
def test_the_width_is_exceeded_no_more_often_than_it_says(law, epsilon, reach, real, beta):
    second = WHOLE[law](epsilon)
    first = REAL[law](epsilon, reach) if real else WHOLE[law](epsilon * (1 if reach < 1 else 0.7))
    one, other = first.scale, second.scale
    for weights in WEIGHTS:
        missed = beyond(law, one, other, weights, real, float(combined_width(first, second, weights, beta)))
        assert missed <= beta * (1 + 1e-6), weights
        if real and weights[1] * 60 <= weights[0] * one:  # a row is little beside the noise of the sum
            assert missed >= 0.75 * beta, weights


def test_widths_do_not_fall_with_the_ratio():
    far = np.linspace(0, 0.5, 501)
    for law in ("laplace", "gaussian"):
        for epsilon in (20.0, 1.0, 0.003):
            whole, real = WHOLE[law](epsilon), REAL[law](epsilon, 7.0)
            for beta in BETAS[1:]:
                assert (np.diff(combined_width(real, whole, (1.0, 20 * far), beta)) >= -1e-9).all()
                assert (np.diff(combined_width(whole, whole, (0.5 + far, 0.5 - far), beta)) >= -1e-12).all()


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("ratio", [0.0, 1.5, -4.0, 5.0])
@pytest.mark.parametrize("rows", [1, 4, 40, 4000])
def test_intervals_hold_the_ratio_as_often_as_they_say(law, ratio, rows):
    """Down to noise that is larger than the number of rows; with many rows hardly more often."""
    real, whole, rng, draws = REAL[law](0.3, 5.0), WHOLE[law](0.3), KeyedRandom(b"intervals of quotients, in tests"), 20_000
    sums = np.asarray(real.release(np.full(draws, float(rows * ratio)), rng=rng))
    counts = np.asarray(whole.release(np.full(draws, rows), rng=rng))
    low, high = quotient_interval(sums, counts, 5.0, lambda far: combined_width(real, whole, (1.0, far), 0.1))
    assert (low <= high).all()
    hits = int(((low <= ratio) & (ratio <= high)).sum())
    assert stats.beta.isf(ERROR_RATE, hits + 1, max(draws - hits, 1)) >= 0.9
    if rows == 4000:
        assert binomial_p_value(hits, draws, 0.93) < ERROR_RATE
        halves = (sums / counts - low).clip(max=(high - sums / counts)) / 2
        inside = int((np.abs(sums / counts - ratio) <= halves).sum())
        assert stats.beta.isf(ERROR_RATE, inside + 1, draws - inside) < 0.9  # made half as long, they do not


def test_a_count_below_one_leaves_everything_possible():
    low, high = quotient_interval(np.array([3.0, -3.0, 1e9]), np.array([0, -7, -1]), 2.0, lambda far: 1.0 + far)
    assert low.tolist() == [-2.0] * 3
    assert high.tolist() == [2.0] * 3


def test_rates_that_are_noisier_than_their_rows_are_between_0_and_1():
    """Numbers far beyond the possible, as noise makes them, in both directions."""
    whole = DiscreteLaplace(0.1, 1)
    match, other = np.meshgrid(np.arange(-60, 61, 3), np.arange(-60, 61, 3))
    low, high = quotient_interval(
        (match - other).ravel() / 2, (match + other).ravel(), 0.5, lambda far: combined_width(whole, whole, (0.5 + far, 0.5 - far), 0.1)
    )
    assert (low >= -0.5).all()
    assert (low <= high).all()
    assert (high <= 0.5).all()
    nobody = (match + other).ravel() < 1
    assert set(low[nobody]) == {-0.5}
    assert set(high[nobody]) == {0.5}
