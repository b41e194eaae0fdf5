"""Small balls in L2 (Wasserman & Zhou, 2010): covariances against integrals, bounds against simulation and laws in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpcore import DataError, ParameterError, ParameterTypeError
from dpcore.distributions import l2_accuracy_bound, l2_exponential, l2_small_ball_probability, series_balls, series_covariance
from dpcore.distributions._cosine_distances import largest_square
from dpcore.testing import KeyedRandom
from support.densities import GRID, primitive, series
from support.kernels import KEY

DENSITIES = [(0.0,), (0.3,), (0.4, -0.2, 0.1), (0.0, 0.5), tuple(0.4 * np.arange(1.0, 20) ** -2.5)]


@pytest.mark.parametrize("beta", DENSITIES)
def test_covariances_are_integrals(beta):
    found = series_covariance(beta, terms=4)
    wave = lambda j, x: math.sqrt(2) * math.cos(math.pi * j * x)  # noqa: E731
    p = lambda x: float(series(np.array(beta), np.array(x)))  # noqa: E731
    means = [integrate.quad(lambda x, j=j: wave(j, x) * p(x), 0, 1, limit=200)[0] for j in range(1, 5)]
    for j in range(1, 5):
        for k in range(1, 5):
            product = integrate.quad(lambda x, j=j, k=k: wave(j, x) * wave(k, x) * p(x), 0, 1, limit=200)[0]
            assert found[j - 1, k - 1] == pytest.approx(product - means[j - 1] * means[k - 1], abs=1e-9)
    # a twin with the ½ of the printed line for the diagonal
    printed = 1 + 0.5 * (beta[1] if len(beta) > 1 else 0.0) / math.sqrt(2) - beta[0] ** 2
    assert (abs(printed - found[0, 0]) < 1e-9) == (len(beta) == 1)


@pytest.mark.parametrize("beta", DENSITIES)
def test_eigenvalues_are_bounded_for_all_terms(beta):
    b = np.abs(beta)
    for terms in (1, 3, 40, 100):
        values = np.linalg.eigvalsh(series_covariance(beta, terms=terms))
        assert values.min() >= -1e-12
        assert values.max() <= 1 + (b.max() + math.sqrt(2)) * b.sum() + 1e-12
        assert values.max() <= series_balls._largest_value(np.array(beta))


@pytest.mark.parametrize("beta", DENSITIES)
def test_the_largest_value_is_above_the_density_and_near_it(beta):
    found = series_balls._largest_value(np.array(beta))
    top = series(np.array(beta), np.linspace(0, 1, 20_001)).max()
    assert top <= found <= top * 1.02


@pytest.mark.parametrize("radius", [0.05, 0.3, 0.9, 1.5])
def test_one_draw_and_one_term_in_closed_form(radius):
    """|√2·cos πX − β| ≤ r is an interval of X."""
    beta = np.array([0.4])
    ends = np.arccos(np.clip((0.4 + np.array([radius, -radius])) / math.sqrt(2), -1, 1)) / math.pi
    true = float(np.diff(primitive(beta, ends))[0])
    runs = 20_000
    share = l2_small_ball_probability(radius, beta, draws=1, terms=1, runs=runs, rng=KeyedRandom(KEY))
    assert stats.binomtest(round(share * runs), runs, true).pvalue > 1e-6
    assert l2_small_ball_probability(radius, beta, draws=1, terms=1) <= true


def optimistic(radius: float, beta: np.ndarray, k: int, m: int) -> float:
    """A twin of Cantelli's bound that forgets the fourth moment, and of Markov's that forgets the bias."""
    covariance = series_covariance(beta, terms=m)
    room, mean = radius**2, float(np.trace(covariance)) / k
    above = max(0.0, room - mean)
    return above**2 / (above**2 + 1e-3 * float(np.sum(covariance**2)) / k**2) if above else 0.0


@pytest.mark.some(4)
@pytest.mark.parametrize("k", [1, 3, 20, 60])
@pytest.mark.parametrize(("beta", "terms"), [((0.0,), 1), ((0.4, -0.2, 0.1), 2), ((0.4, -0.2, 0.1), 6), ((0.0, 0.5), 1)])
def test_the_bound_is_below_what_is_simulated(beta, terms, k):
    runs, caught = 2000, 0
    b = np.array(beta)
    bias = float(np.sum(b[terms:] ** 2))
    for scale in (0.5, 1.0, 1.5, 3.0):
        radius = math.sqrt(bias + scale * float(np.trace(series_covariance(b, terms=terms))) / k)
        share = l2_small_ball_probability(radius, b, draws=k, terms=terms, runs=runs, rng=KeyedRandom(KEY))
        upper = stats.beta.ppf(1 - 1e-6, share * runs + 1, runs - share * runs) if share < 1 else 1.0
        assert l2_small_ball_probability(radius, b, draws=k, terms=terms) <= upper
        caught += optimistic(radius, b, k, terms) > upper
    assert caught


def test_the_bound_comes_near_one_for_many_draws():
    assert l2_small_ball_probability(0.2, [0.3], draws=10**4, terms=2) > 0.999
    assert l2_small_ball_probability(0.2, [0.3, 0.25], draws=10**6, terms=1) == 0.0  # the bias alone is more


def test_the_accuracy_is_the_formula_of_the_theorem():
    """Theorem 5.3 with Δ = D/n, term by term."""
    beta, n, k, m, m_k, epsilon, radius = (0.2, 0.1), 10**5, 60, 4, 2, 2.0, 0.4
    change = math.sqrt(largest_square(m)) * GRID / n
    inside = l2_small_ball_probability(radius / 2, beta, draws=k, terms=m_k)
    data = 1 - l2_small_ball_probability(radius / 16, beta, draws=n, terms=m)
    top = series(np.array(beta), np.linspace(0, 1, 10_001)).max()
    expected = data + top**k * math.exp(-3 * epsilon * radius / (16 * change)) / inside
    assert l2_accuracy_bound(epsilon, radius, beta, n=n, draws=k, terms=m, draw_terms=m_k) == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert l2_accuracy_bound(1e-6, 0.1, beta, n=1, draws=k, terms=m) == 1.0


def test_releases_keep_the_accuracy():
    """At a radius where the bound is a tenth, none of 60 releases of uniform data is beyond half of it."""
    n, k, beta = 3000, 20, np.array([0.0])
    radius = next(r for r in np.linspace(0.1, 3, 200) if l2_accuracy_bound(1.0, r, beta, n=n, draws=k, terms=2, draw_terms=1) <= 0.1)
    random = np.random.default_rng(0)
    far = [
        math.sqrt(
            float(
                np.sum(
                    l2_exponential(random.random(n), 1.0, (0, 1), draws=k, terms=2, draw_terms=1, rng=KeyedRandom(KEY)).coefficients ** 2
                )
            )
        )
        for _ in range(60)
    ]
    assert max(far) < radius / 2


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"coefficients": [2.0]}, ParameterError, "nowhere negative"),
        ({"coefficients": []}, ParameterError, "coefficients must have shape"),
        ({"coefficients": [math.nan]}, DataError, "index 0"),
        ({"coefficients": "a"}, ParameterTypeError, "coefficients must"),
        ({"radius": -1.0}, ParameterError, "radius must be"),
        ({"draws": 0}, ParameterError, "draws must be in"),
        ({"terms": 5000}, ParameterError, "terms must be in"),
        ({"runs": 0}, ParameterError, "runs must be"),
    ],
)
def test_what_is_refused(changes, error, words):
    arguments = {"radius": 0.3, "coefficients": [0.1], "draws": 10, "terms": 2} | changes
    with pytest.raises(error, match=words):
        l2_small_ball_probability(**arguments)


@pytest.mark.parametrize("changes", [{"epsilon": 0.0}, {"n": 0}, {"radius": 0.0}, {"draw_terms": 0}])
def test_what_the_accuracy_refuses(changes):
    arguments = {"epsilon": 1.0, "radius": 0.3, "coefficients": [0.1], "n": 100, "draws": 10, "terms": 2, "draw_terms": 1} | changes
    with pytest.raises(ParameterError):
        l2_accuracy_bound(**arguments)
