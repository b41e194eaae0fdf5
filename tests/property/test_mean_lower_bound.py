"""`mean_lower_bound`: its lemmas by exact enumeration, its formulas in other arithmetic, and what it may never exceed.

The proofs are in docs/exactness-lower-bounds.md.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.inference import mean_lower_bound
from dpcore.inference.lower_bounds import packed_blocks, traced_bound
from dpcore.mechanisms import Gaussian, Laplace

# The lemmas


def beta_integral(a, b):
    """E q^a (1 − q)^b for q uniform on [0, 1], exactly."""
    return Fraction(math.factorial(a) * math.factorial(b), math.factorial(a + b + 1))


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_the_fingerprinting_identity_is_exact(m):
    """E f(x) Σ (x_i − p) = 2 E p f(x) for p uniform on [−1, 1], x ∈ {±1}^m of mean p, and any f, in rationals: p = 2q − 1."""
    rng = np.random.default_rng(m)
    for _ in range(5):
        left = right = Fraction(0)
        for x in itertools.product((-1, 1), repeat=m):
            f, up = Fraction(int(rng.integers(-50, 50)), 7), x.count(1)
            weight, weighted = beta_integral(up, m - up), beta_integral(up + 1, m - up)
            mean_p = 2 * weighted - weight  # E p 1[x]
            left += f * (sum(x) * weight - m * mean_p)
            right += 2 * f * mean_p
        assert left == right


def response_loss(rows):
    """e^ε of a channel with exact rows."""
    return max(p / q for one in rows for other in rows for p, q in zip(one, other, strict=True))


@pytest.mark.parametrize("level", [2, 9, 81])
def test_the_square_of_a_score_is_bounded_by_the_loss(level):
    """E (B⁺)² ≤ 2ε + 2 for k-ary response of one record of two signs of mean p; B is the score along the report, of length 1."""
    points = list(itertools.product((-1, 1), repeat=2))
    for p in (Fraction(0), Fraction(1, 3), Fraction(-4, 5)):
        rows = [[Fraction(level if x == y else 1, level + 3) for y in points] for x in points]
        assert response_loss(rows) == level
        square = 0.0
        for x, row in zip(points, rows, strict=True):
            for y, share in zip(points, row, strict=True):
                along = sum((a - p) * b for a, b in zip(x, y, strict=True)) / math.sqrt(2)
                weight = math.prod((1 + a * p) / 2 for a in x) * share
                square += float(weight) * max(0.0, float(along)) ** 2
        assert square <= 2 * math.log(level) + 2


# The formulas


def exact_traced(epsilon, delta, n, d, m):
    with mpmath.workdps(60):
        e, failures = mpmath.mpf(epsilon), mpmath.mpf(0)
        if delta:
            # the mean over a binomial number of copies, term by term
            failures = mpmath.fsum(
                mpmath.binomial(n, k)
                * mpmath.mpf(m) ** -k
                * (1 - 1 / mpmath.mpf(m)) ** (n - k)
                * delta
                * mpmath.expm1(k * e)
                / mpmath.expm1(e)
                for k in range(n + 1)
            )
        t = mpmath.sqrt(2 + 2 * e * n / m + 4 * d * failures)
        top = mpmath.mpf(2) * d / 3 - t * mpmath.sqrt(mpmath.mpf(2) * d * m / (3 * (m - 1)))
        return (max(top, mpmath.mpf(0)) / (2 * mpmath.sqrt(mpmath.mpf(d) / 3) + m * t)) ** 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "d"), [(0.5, 1e-6, 24, 400), (1.0, 0.0, 30, 100), (3.0, 1e-12, 18, 900), (0.2, 1e-2, 20, 60)]
)
def test_the_traced_bound_is_the_best_over_the_numbers_of_groups(epsilon, delta, n, d):
    best = max(exact_traced(epsilon, delta, n, d, m) for m in range(2, n + 1))
    found = traced_bound(epsilon, delta, n, d)
    assert found <= best
    assert found >= float(best) * (1 - 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "s", "block"), [(0.5, 0.0, 400, 2, 1000), (1.0, 1e-9, 50, 1, 40), (0.1, 1e-5, 2000, 3, 10**6)]
)
def test_the_packed_bound_is_attained_by_its_formula(epsilon, delta, n, s, block):
    """Every value of the search is one of the formula, with the tail of the binomial law from SciPy's other function."""
    best = 0.0
    for k in range(int(math.log(block) / epsilon) + 2):
        alpha = np.minimum(1 / s, np.linspace(1e-6, 1.0, 501) * (k + 1) / n)
        lost = stats.binom.sf(k, n, alpha) + delta * math.expm1(k * epsilon) / math.expm1(epsilon) + math.exp(k * epsilon) / block
        best = max(best, float((s * alpha**2 / 2 * np.maximum(0.0, 1 - lost)).max()))
    assert 0.85 * best <= packed_blocks(epsilon, delta, n, s, block) <= best * (1 + 1e-3)


# What it may not exceed

RANDOM = np.random.default_rng(7)
SETTINGS = [
    (float(10**a), float(10**b), int(10**c), int(10**d))
    for a, b, c, d in RANDOM.uniform([-2, -12, 0.5, 0], [1, -3, 6, 4], (48, 4))
]  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("part", range(3))
def test_it_is_below_the_risk_of_every_private_estimator(part):
    """Gaussian and Laplace noise on the mean at its worst distribution (mean 0, values ±1), and the constant 0."""
    for epsilon, delta, n, d in SETTINGS[part::3]:
        bound = mean_lower_bound(epsilon, delta, n=n, d=d, radius=1.0)
        gaussian = d * (Gaussian(epsilon, delta, sensitivity=2 * math.sqrt(d)).scale / n) ** 2
        laplace = 2 * d * (Laplace(epsilon, sensitivity=2.0 * d).scale / n) ** 2
        assert bound.value <= min(d, d / n + min(gaussian, laplace))
        assert bound.value == max(bound.statistical, bound.privacy)
        s = max(1, d // 7)
        sparse = mean_lower_bound(epsilon, delta, n=n, d=d, radius=1.0, s=s)
        # ⟨x, x⟩ ≤ d, but μ has s coordinates of size at most 1: 0 has the risk s, and the noisy mean of all coordinates that above
        assert sparse.value <= min(s, d / n + min(gaussian, laplace))
        assert sparse.statistical <= min(s, d / n)


def test_without_the_term_of_its_own_error_it_would_exceed_the_risk_of_the_constant():
    """A broken twin: the fingerprint of an exact estimator, 2d/3, in place of that of one with the risk r."""
    d, n = 10_000, 2
    spread = math.sqrt(2 + 2 * 0.01 * n / 2)
    assert ((2 * d / 3 - spread * math.sqrt(4 * d / 3)) / (2 * spread)) ** 2 > d
    assert mean_lower_bound(0.01, 0.0, n=n, d=d, radius=1.0).value <= d


def test_without_the_copies_of_a_record_it_would_exceed_the_risk_of_noise():
    """A broken twin: t² = 2, as if one of m groups were as private as one record."""
    epsilon, delta, d = 8.0, 1e-3, 4000
    n = 8000
    gaussian = d * (Gaussian(epsilon, delta, sensitivity=2 * math.sqrt(d)).scale / n) ** 2
    broken = max(
        ((2 * d / 3 - math.sqrt(2 * 2 * d * m / (3 * (m - 1)))) / (2 * math.sqrt(d / 3) + m * math.sqrt(2))) ** 2 for m in (2, 5, 20)
    )
    assert broken > d / n + gaussian >= mean_lower_bound(epsilon, delta, n=n, d=d, radius=1.0).value


def test_its_orders_are_those_of_the_theorem():
    def privacy(epsilon=0.1, delta=1e-12, n=10**6, d=10**4):
        return mean_lower_bound(epsilon, delta, n=n, d=d, radius=1.0).privacy

    assert privacy(n=10**7) == pytest.approx(privacy() / 100, rel=0.02)
    assert privacy(epsilon=0.2) == pytest.approx(privacy() / 4, rel=0.1)
    assert 90 < privacy(d=10**5) / privacy() < 150
    assert 1.8 < privacy(delta=1e-24) / privacy() < 3  # towards 2 from above, as d/ln(1/δ) grows
    assert privacy(delta=0.5) == 0.0
    assert mean_lower_bound(0.1, 1e-12, n=10**6, d=10**4, radius=3.0).value == pytest.approx(
        9 * mean_lower_bound(0.1, 1e-12, n=10**6, d=10**4, radius=1.0).value
    )


def test_extremes():
    assert mean_lower_bound(700.0, 0.999, n=1, d=1, radius=2.0**400).value > 0
    assert mean_lower_bound(1e-300, 0.0, n=2**50, d=2**40, radius=2.0**-400, s=2**20).value > 0
    assert mean_lower_bound(1.0, 0.0, n=1, d=5, radius=1.0, s=5).privacy == 0.0
    assert 0 < mean_lower_bound(1e-6, 0.0, n=10, d=2, radius=1.0, s=1).privacy <= 1


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0}, {"epsilon": 701.0}, {"epsilon": math.nan}, {"delta": 1.0}, {"delta": -0.1}, {"n": 0}, {"n": 2**50 + 1}, {"d": 0},
        {"d": 2**41}, {"radius": 0.0}, {"radius": math.inf}, {"s": 0}, {"s": 11}, {"n": 2.5}, {"epsilon": "1"},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(change):
    options = {"epsilon": 1.0, "delta": 0.0, "n": 10, "d": 10, "radius": 1.0} | change
    with pytest.raises((ParameterError, ParameterTypeError), match=next(iter(change))):
        mean_lower_bound(options.pop("epsilon"), options.pop("delta"), **options)
