"""Small ball probabilities, and Wasserman & Zhou (2010), Theorems 3.2 and 5.3, judged at error rate 10^-6; keyed, so runs repeat."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpcore.distributions import (
    consistency,
    ks_accuracy_bound,
    ks_distance,
    ks_exponential,
    perturbed_histogram,
    small_ball_probability,
    smoothed_histogram,
)
from dpcore.testing import KeyedRandom
from support.kernels import KEY
from support.ks import vectors, ways
from support.laws import ERROR_RATE, binomial_p_value

BETA = stats.beta(2, 2)
SIZES = (100, 1000, 10_000)


@pytest.mark.parametrize(("k", "m"), [(1, 3), (4, 4), (5, 2), (6, 5), (9, 3)])
def test_balls_of_bins_by_enumeration(k, m):
    for radius in (0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9):
        exact = 0
        for drawn in vectors(k, m):
            sums = np.cumsum(drawn)
            exact += ways(drawn) * all(abs(int(c) * m - (i + 1) * k) <= radius * k * m + 1e-9 for i, c in enumerate(sums))
        assert small_ball_probability(radius, draws=k, bins=m) == pytest.approx(exact / m**k, rel=1e-12, abs=0)


@pytest.mark.long
@pytest.mark.parametrize("bins", [None, 3, 10])
def test_simulated_balls_agree_with_computed_ones(bins):
    runs = 200_000
    for k, radius in ((1, 0.7), (10, 0.25), (40, 0.15)):
        exact = small_ball_probability(radius, draws=k, bins=bins)
        share = small_ball_probability(radius, draws=k, bins=bins, runs=runs, rng=KeyedRandom(KEY))
        assert binomial_p_value(round(share * runs), runs, exact) > ERROR_RATE
        wrong = small_ball_probability(radius, draws=k + 1, bins=bins) if k > 1 else 0.9 * exact
        assert binomial_p_value(round(share * runs), runs, wrong) < ERROR_RATE


def test_many_bins_are_the_line():
    for k, radius in ((5, 0.3), (30, 0.12)):
        line = small_ball_probability(radius, draws=k)
        few, many = (small_ball_probability(radius, draws=k, bins=m) for m in (50, 20_000))
        assert few > many >= line
        assert many - line < 0.002


def released(mechanism):
    stream = KeyedRandom(KEY)
    return {
        "ks": lambda x: ks_exponential(
            x, 1.0, (0, 1), draws=3 * math.ceil(len(x) ** (1 / 2)), bins=math.ceil(2 * len(x) ** 0.5), rng=stream
        ),
        "smoothed": lambda x: smoothed_histogram(
            x, 1.0, (0, 1), draws=math.ceil(len(x) ** 0.5), bins=math.ceil(len(x) ** 0.25), rng=stream
        ),
        "perturbed": lambda x: perturbed_histogram(x, 1.0, (0, 1), bins=math.ceil(len(x) ** 0.4), rng=stream),
    }[mechanism]


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["ks", "smoothed", "perturbed"])
def test_theorem_3_2_and_its_absence_elsewhere(mechanism):
    """At a point mass distances stay above δ = 0.1 however many records there are; from a density they fall towards 0."""
    rng = np.random.default_rng(7)
    at_a_point = consistency(
        released(mechanism), lambda n: np.full(n, 0.3), lambda x: np.where(np.asarray(x) >= 0.3, 1.0, 0.0), sizes=SIZES, repeats=15
    )
    assert np.all(at_a_point.exceeding(0.1) > 0.5)
    assert at_a_point.mean[-1] > 0.3
    elsewhere = consistency(released(mechanism), lambda n: BETA.rvs(n, random_state=rng), BETA.cdf, sizes=SIZES, repeats=15)
    assert np.all(np.diff(elsewhere.mean) < 0)
    assert elsewhere.mean[-1] < 0.1
    assert elsewhere.exceeding(0.3)[-1] == 0.0


@pytest.mark.long
def test_theorem_5_3_bounds_what_releases_do():
    """Beta(2, 2), sup p = 3/2: the share of releases beyond r is not above the bound; below the tenth of r it is."""
    n, k, epsilon, radius, bins, runs = 20_000, 12, 0.02, 0.6, 60, 150
    bound = ks_accuracy_bound(epsilon, radius, n=n, draws=k, largest_density=1.5, bins=bins)
    assert bound < 0.2
    stream, rng = KeyedRandom(KEY), np.random.default_rng(11)
    distances = np.array(
        [
            ks_distance(ks_exponential(BETA.rvs(n, random_state=rng), epsilon, (0, 1), draws=k, bins=bins, rng=stream), BETA.cdf)
            for _ in range(runs)
        ]
    )

    def is_above(share):
        return share > 0 and stats.beta.ppf(ERROR_RATE, share, runs - share + 1) > bound

    assert not is_above(int((distances > radius).sum()))
    assert is_above(int((distances > radius / 10).sum()))
