"""Divergences, distances in several dimensions, and informative releases: known answers, slow twins, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dpcore import ParameterError, ParameterTypeError
from dpcore.distributions import Consistency, consistency, distances, kl_divergence, ks_distance, perturbed_histogram, squared_l2_distance
from dpcore.testing import KeyedRandom
from support.kernels import KEY

# Kullback-Leibler


def test_divergence_of_two_betas():
    one, other = stats.beta(4, 5), stats.beta(3, 3)
    expected = integrate.quad(lambda x: one.pdf(x) * (one.logpdf(x) - other.logpdf(x)), 0, 1)[0]
    assert kl_divergence(one.pdf, other.pdf) == pytest.approx(expected, rel=1e-6)
    assert kl_divergence(other.pdf, one.pdf) != pytest.approx(expected, rel=0.01)  # a twin with the arguments exchanged
    assert kl_divergence(one.pdf, one.pdf) == 0.0


def test_divergence_of_histograms_is_a_sum_and_less_than_chi_square():
    x = stats.beta(2, 4).rvs(3000, random_state=1)
    one, other = (perturbed_histogram(x, 1.0, (0, 1), bins=m, rng=KeyedRandom(KEY)) for m in (4, 8))
    p, q = np.repeat(one.masses / 2, 2), other.masses
    assert (q > 0).all()
    assert kl_divergence(one, other) == pytest.approx(float(np.sum(p * np.log(p / q))), abs=1e-12)
    assert 0 < kl_divergence(one, other) <= np.sum((p - q) ** 2 / q)
    assert squared_l2_distance(one, other) == pytest.approx(8 * np.sum((p - q) ** 2))


def test_an_empty_cell_is_infinitely_far():
    released = perturbed_histogram(np.full(10**6, 0.1), 1.0, (0, 1), bins=64, rng=KeyedRandom(KEY))
    assert (released.masses == 0).any()
    assert kl_divergence(lambda x: np.ones(len(x)), released) == math.inf
    assert kl_divergence(released, lambda x: np.ones(len(x))) == pytest.approx(math.log(64), abs=1e-3)
    with pytest.raises(ParameterError, match="first must be a density"):
        kl_divergence(lambda x: x - 0.5, released)


# KS distance in several dimensions


def slow_ks(rows: np.ndarray, cdf) -> float:
    """Every corner of the grid, and every one just before it, one row at a time."""
    axes = [np.append(np.unique(column), np.inf) for column in rows.T]
    worst = 0.0
    for shift in (0, 1):
        for point in itertools.product(*axes):
            at = np.array([np.nextafter(x, -np.inf) if shift else x for x in point])
            worst = max(worst, abs(np.mean((rows <= at).all(axis=1)) - float(cdf(at[None])[0])))
    return worst


@pytest.mark.parametrize(("k", "r"), [(1, 2), (2, 2), (7, 2), (15, 2), (5, 3), (2, 4)])
def test_rows_are_counted_as_one_by_one(k, r):
    random = np.random.default_rng(k)
    rows = np.round(random.random((k, r)), 1)  # with ties, also on one axis alone
    cdf = lambda x: np.clip(x, 0, 1).prod(axis=1)  # noqa: E731
    found = ks_distance(rows, cdf)
    assert found == pytest.approx(slow_ks(rows, cdf), abs=1e-12)
    other = np.round(random.random((k + 3, r)), 1)
    both = np.concatenate([rows, other])
    expected = max(abs(np.mean((rows <= x).all(axis=1)) - np.mean((other <= x).all(axis=1))) for x in itertools.product(*both.T))
    assert ks_distance(rows, other) == pytest.approx(expected, abs=1e-12)
    axes = [np.append(np.unique(column), np.inf) for column in rows.T]
    slow = np.array([np.mean((rows <= np.array(x)).all(axis=1)) for x in itertools.product(*axes)])
    assert distances._on_grid(rows, axes) == pytest.approx(slow, abs=1e-12)
    assert distances._on_grid(rows + 1e-9, axes) != pytest.approx(slow, abs=1e-12)  # a twin that counts a row from the next point on


def test_a_thousand_draws_in_the_plane_are_near_the_uniform_law():
    z = np.random.default_rng(0).random((1000, 2))
    found = ks_distance(z, lambda x: np.clip(x, 0, 1).prod(axis=1))
    assert 0.01 < found < 0.1


# Consistency and informative releases


def binomial(i: int, n: int, share: Fraction) -> Fraction:
    """P(B ≤ i) for B ~ Bin(n, share)."""
    return sum((math.comb(n, j) * share**j * (1 - share) ** (n - j) for j in range(min(i, n) + 1)), Fraction(0))


@pytest.mark.parametrize(
    ("repeats", "beta", "confidence"), [(1, 0.5, 0.9), (10, 0.1, 0.95), (40, 0.1, 0.95), (100, 0.05, 0.99), (30, 0.5, 0.5)]
)
def test_intervals_of_quantiles_cover_by_enumeration(repeats, beta, confidence):
    """The ranks of the ends, read off from distances that are their own ranks; a rank nearer would not cover."""
    found = Consistency((10,), np.arange(1.0, repeats + 1)[None]).informative([1.0], beta=beta, confidence=confidence)
    low, high = found.intervals[0]
    tail, share = Fraction(1 - confidence) / 2, 1 - Fraction(beta)
    assert binomial(int(low) - 1, repeats, share) <= tail
    assert binomial(int(low), repeats, share) > tail
    at = repeats + 1 if math.isinf(high) else int(high)
    assert 1 - binomial(at - 1, repeats, share) <= tail
    assert 1 - binomial(at - 2, repeats, share) > tail
    assert low <= found.factors[0] <= high


def test_a_rate_that_is_too_fast_is_noticed():
    random = np.random.default_rng(0)
    curve = Consistency((100, 10_000), np.array([[0.1], [0.01]]) * (1 + random.random((2, 50))))
    assert not curve.informative([0.1, 0.01]).grows
    assert not curve.informative([0.1, 0.1]).grows
    assert curve.informative([0.1, 0.005]).grows
    assert not Consistency((10_000, 100), curve.distances[::-1]).informative([0.01, 0.1]).grows
    assert "distance / rate" in curve.informative([0.1, 0.01])._repr_html_()


def test_three_distances_of_one_mechanism():
    def mechanism(x):
        return perturbed_histogram(x, 1.0, (0, 1), bins=4, rng=KeyedRandom(KEY))

    draw = lambda n: np.linspace(0, 1, n)  # noqa: E731
    ones = lambda x: np.ones(len(x))  # noqa: E731
    sizes = [100, 10_000]
    ks = consistency(mechanism, draw, lambda x: np.clip(x, 0, 1), sizes=sizes, repeats=2)
    l2 = consistency(mechanism, draw, sizes=sizes, repeats=2, distance="l2", density=ones)
    kl = consistency(mechanism, draw, sizes=sizes, repeats=2, distance="kl", density=ones)
    assert (ks.distance, l2.distance, kl.distance) == ("ks", "l2", "kl")
    assert "Kullback-Leibler" in kl._repr_html_()
    masses = mechanism(draw(10_000)).masses
    assert l2.distances[1, 0] == pytest.approx(4 * np.sum((masses - 0.25) ** 2), rel=1e-6)
    assert kl.distances[1, 0] == pytest.approx(-0.25 * np.sum(np.log(4 * masses)), rel=1e-6)
    assert kl.distances[1, 0] == pytest.approx(l2.distances[1, 0] / 2, rel=0.05)  # ½∫(p − q)²/p nearby


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"distance": "tv"}, ParameterError),
        ({"distance": "l2"}, ParameterError),
        ({"distance": "kl", "cdf": np.sin, "density": np.cos}, ParameterError),
        ({"density": np.cos}, ParameterError),
        ({"distance": 3}, ParameterTypeError),
    ],
)
def test_what_consistency_refuses(changes, error):
    arguments = {"mechanism": np.sort, "draw": np.ones, "sizes": [3]} | changes
    with pytest.raises(error):
        consistency(**arguments)


@pytest.mark.parametrize(
    ("rates", "options"),
    [([1.0], {}), ([1.0, 0.0], {}), ([1.0, math.nan], {}), ([1.0, 1.0], {"beta": 1.0}), ([1.0, 1.0], {"confidence": 0.0})],
)
def test_what_informative_refuses(rates, options):
    with pytest.raises(ParameterError):
        Consistency((10, 100), np.ones((2, 5))).informative(rates, **options)
