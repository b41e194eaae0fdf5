"""p-values of private tests: P(p ≤ t) ≤ t under the hypothesis, by enumeration of data and the closed form of the noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpcore import ParameterError, Privacy, inference
from dpcore.inference import MeanEstimate, _tails, lipschitz_uniformity_test
from dpcore.inference._lipschitz import DOCUMENT, States, steps
from dpcore.inference._sample_size import noisy_tail, p_value_bound, uniform_tail
from dpcore.inference._thresholds import thresholds
from dpcore.testing import KeyedRandom
from support.kernels import KEY

SMALL = (1e-3, 0.1, 0.1)
"""Constants with which the loop of the algorithm runs on data that can be enumerated."""


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "constants"), [(2, 1, 1.0, DOCUMENT), (3, 2, 0.1, DOCUMENT), (3, 2, 3.0, SMALL), (4, 2, 20.0, SMALL)]
)
def test_the_p_value_of_the_lipschitz_test_is_exact(n, d, epsilon, constants):
    """For each step, the t at which its p-value is u: the probability of all outcomes with p ≤ u, by a double sum, is u up to rounding."""
    comparisons, states = steps(n, d, epsilon, 0.5, constants), States(n, d)
    size = 1 << n * d
    hats = []  # of every data set, by the definition: a minimum over all others
    codes = [[s >> j * d & ((1 << d) - 1) for j in range(n)] for s in range(size)]
    apart = np.array([[sum(a != b for a, b in zip(x, y, strict=True)) for y in codes] for x in codes])
    for step in comparisons:
        inside = states.reaches <= step.width
        hats.append(np.where(inside, states.statistics + 4 * step.width * apart, np.inf).min(axis=1) if inside.any() else np.zeros(size))
    assert constants == DOCUMENT or len(comparisons) > 1
    for u in (0.01, 0.3, 0.9):
        reached, total = np.full(size, 1 / size), 0.0
        for made, (step, hat) in enumerate(zip(comparisons, hats, strict=True), 1):
            tail = stats.laplace(scale=step.scale).sf
            least = 1e6  # no statistic of this step has such a p-value if earlier steps reject more often
            if states.p_value(comparisons[:made], least) < u:
                least = optimize.brentq(lambda t, made=made, u=u: states.p_value(comparisons[:made], t) - u, -1e6, 1e6)
            last = made == len(comparisons)
            total += float(reached @ tail((least if last else max(least, step.limit)) - hat))
            reached = reached * (1 - tail(step.limit - hat))
        assert total <= u * (1 + 1e-6)
        if len(comparisons) == 1:
            assert total >= u * (1 - 1e-6)


def test_the_outcome_has_this_p_value():
    signs = np.array([[1, -1], [-1, 1], [1, 1]])
    for constants in (DOCUMENT, SMALL):
        found = lipschitz_uniformity_test(signs, 2.0, alpha=0.5, constants=constants, rng=KeyedRandom(KEY))
        comparisons = steps(3, 2, 2.0, 0.5, constants)
        values = [States(3, 2).p_value(comparisons[:made], found.statistic) for made in range(1, len(comparisons) + 1)]
        assert found.p_value in values


def test_a_p_value_of_the_noise_alone_is_too_small():
    """The broken twin: as if the data's own T were 0. T of uniform data is large with some probability."""
    comparisons, states = steps(3, 2, 20.0, 0.5, DOCUMENT), States(3, 2)
    scale, u = comparisons[0].scale, 1e-3
    least = stats.laplace.isf(u, scale=scale)
    assert float(np.mean(stats.laplace.sf(least - states.statistics, scale=scale))) > 1.05 * u
    at = optimize.brentq(lambda t: states.p_value(comparisons, t) - u, 0, 1e6)
    assert float(np.mean(stats.laplace.sf(at - states.statistics, scale=scale))) <= u


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 2), (5, 2), (12, 1)])
def test_the_tail_of_uniform_signs_and_noise(n, d):
    """P(T + r ≥ gap) by enumeration of the sums of d columns."""
    ones = np.arange(n + 1)
    squares, weights = (2 * ones - n) ** 2 - n, stats.binom.pmf(ones, n, 0.5)
    for scale in (4.5 * n, 30.0 * n, 1e6):
        for gap in (0.0, 1.0, 10.0 * n, 20 * scale):
            exact = sum(
                math.prod(p) * float(stats.laplace.sf(gap - sum(t), scale=scale))
                for t, p in zip(itertools.product(squares, repeat=d), itertools.product(weights, repeat=d), strict=True)
            )
            assert exact <= uniform_tail(gap, n, d, scale)
        assert exact >= 0.7 * uniform_tail(gap, n, d, scale)


def test_the_p_value_of_the_uniformity_test_is_nearly_that_of_the_noise():
    n, d = 20_000, 16
    limits = thresholds(n, d, 2.0, 1e-9)
    for digits in (2.0, 5.0, 12.0):
        place = digits * limits.third_scale
        found = p_value_bound(place, n, d, limits)
        assert found == pytest.approx(5 * limits.delta + 0.5 * math.exp(-digits), rel=0.01)
        assert found <= 5 * limits.delta + noisy_tail(place - limits.grid, 2.0 * n * (n - 1) * d, limits.third_scale)


# Means


def estimate(kind: str, value: float, scale: float, n: int, radius: float = 1.0) -> MeanEstimate:
    return MeanEstimate(value, Privacy(1.0), scale / n, scale / n, radius, kind, scale, n)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.1, 1.0, 2e3])
@pytest.mark.parametrize("n", [1, 2, 3, 50])
@pytest.mark.some(8)
def test_p_values_and_intervals_of_means_are_two_sides_of_one_thing(n, scale, kind):
    found = estimate(kind, 0.25, scale, n)
    law = stats.laplace(scale=scale) if kind == "laplace" else stats.norm(scale=scale)
    for confidence, target in itertools.product((0.5, 0.95, 1 - 1e-9), ("sample", "population")):
        low, high = found.interval(confidence, target=target)
        level = 1 - confidence
        for end, inwards in ((low, 1), (high, -1)):
            assert found.p_value(end - inwards * 1e-6 * (high - low), target=target) <= level * (1 + 1e-4)
            assert found.p_value(end + inwards * 1e-3 * (high - low), target=target) > level
        # coverage, exactly: records at ±1, each with one half
        ones = np.arange(n + 1)
        moved = (2 * ones - n) if target == "population" else np.zeros(1)
        weights = stats.binom.pmf(ones, n, 0.5) if target == "population" else np.ones(1)
        half = (high - low) / 2 * n
        assert float(weights @ (law.cdf(half - moved) - law.cdf(-half - moved))) >= confidence - 1e-12


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 2, 12])
@pytest.mark.some(12)
def test_p_values_of_means_are_valid_under_the_hypothesis(n, share, scale, kind):
    """P(p ≤ t) ≤ t: records at −1 and 1, whose sum has a binomial law, and noise of a known law, for p that falls with the distance."""
    law = stats.laplace(scale=scale) if kind == "laplace" else stats.norm(scale=scale)
    ones = np.arange(n + 1)
    weights, sums = stats.binom.pmf(ones, n, share), 2.0 * ones - n
    for target, t in itertools.product(("sample", "population"), (0.9, 0.3, 0.05, 1e-9)):

        def value_at(apart, target=target):
            return estimate(kind, apart / n, scale, n).p_value(0.0, target=target)

        low, high = 0.0, 1e4 * (scale + n)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if value_at(middle) <= t else (middle, high)
        moved = np.zeros(n + 1) if target == "sample" else sums - n * (2 * share - 1)
        assert float(weights @ (law.sf(high - moved) + law.cdf(-high - moved))) <= t * (1 + 1e-6)


def test_a_p_value_of_the_sample_is_not_one_of_the_population():
    """The broken twin: with 50 fair records and little noise it rejects far too often."""
    n, scale = 50, 1.0
    ones = np.arange(n + 1)
    low = scale * math.log(1 / 0.05)
    assert estimate("laplace", low * 1.001 / n, scale, n).p_value(0.0) <= 0.05
    moved = 2.0 * ones - n
    law = stats.laplace(scale=scale)
    assert float(stats.binom.pmf(ones, n, 0.5) @ (law.sf(low - moved) + law.cdf(-low - moved))) > 0.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("unit", [2.0**-900, 1e-200, 1e200, 2.0**900])
def test_p_values_do_not_depend_on_the_unit(kind, unit):
    """Squares of such numbers leave the range of float64."""
    plain, moved = estimate(kind, 0.9, 0.5, 10), estimate(kind, 0.9 * unit, 0.5 * unit, 10, unit)
    for target in ("sample", "population"):
        for null in (0.0, 0.5, -0.2):
            assert moved.p_value(null * unit, target=target) == pytest.approx(plain.p_value(null, target=target), rel=1e-6)
    few_noise = estimate(kind, 0.5, 1e-200, 10)
    assert few_noise.p_value(0.0, target="population") == pytest.approx(2 * math.exp(-1.25), rel=1e-3) or kind == "laplace"
    for null in (1.7e308, -1.7e308):
        for target in ("sample", "population"):
            assert 0 < estimate(kind, 1e308, 1.0, 10).p_value(null, target=target) < 1e-300
            low, high = few_noise.interval(target=target)
            assert low < 0.5 < high


def test_p_values_of_a_population_are_the_least_over_all_slopes():
    """The choice of the slope by the chords of a convex function, against a minimum over all of them; in little memory."""
    t = np.concatenate([[0.0], np.geomspace(1e-9, 1e12, 250)])
    for n, radius in itertools.product((1, 100, 2**40), (1e-9, 1.0, 350.0)):
        growth = n * (_tails._SLOPES * radius) ** 2 / 2 - np.log1p(-(_tails._SLOPES**2))
        least = (growth - np.multiply.outer(t, _tails._SLOPES)).min(axis=-1)
        found = _tails._least_exponent(t, n, radius)
        assert np.all(found >= least)
        assert np.allclose(found, least, rtol=1e-6, atol=1e-9)
    many = MeanEstimate(np.linspace(-1, 1, 200_000), Privacy(1.0), 0.1, 0.1, 1.0, "laplace", 1.0, 10)
    assert many.p_value(0.0, target="population").shape == (200_000,)


def test_an_interval_of_the_noise_does_not_cover_a_population():
    """The broken twin of a population's interval is the sample's."""
    n, scale = 50, 1.0
    half = float(np.diff(estimate("laplace", 0.0, scale, n).interval(0.95))[0]) / 2 * n
    ones = np.arange(n + 1)
    moved, weights = 2 * ones - n, stats.binom.pmf(ones, n, 0.5)
    assert float(weights @ (stats.laplace.cdf(half - moved) - stats.laplace.cdf(-half - moved))) < 0.6


def test_p_values_of_vectors_and_bad_input():
    found = inference.mean(np.full((1000, 3), 0.5), 1.0, 1e-6, 1.0, rng=KeyedRandom(KEY))
    assert found.p_value([0.0, 0.5, 1.0]).shape == (3,)
    assert found.p_value(0.0).shape == (3,)
    assert isinstance(inference.mean(np.full(100, 0.5), 1.0, 0.0, 1.0).p_value(0.5, target="population"), float)
    for null in ([0.0, 1.0], [[0.0, 0.0, 0.0]], math.nan, math.inf):
        with pytest.raises(ParameterError, match="null must be finite"):
            found.p_value(null)
    with pytest.raises(ParameterError, match="target must be"):
        found.interval(target="people")
