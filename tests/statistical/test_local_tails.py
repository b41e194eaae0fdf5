"""How often each limit of a noisy mean misses, at high confidences and where one formula takes over from another.

Records are at the two bounds, so that a sum over their number and an integral over the noise give the probability of a miss without chance.
The sample variance of the reports is its mean given the records; at these n the noise moves it by less than anything here shows. The
twin is the interval of before: value ± z·stderr from 1,000 squared widths on, and a normal score interval below.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import local
from dpcore._spread import noise_variance
from dpcore.local._mean_intervals import mean_margins

Margins = Callable[[float, float], tuple[float, float]]
"""Takes the sum of the reports about the middle of the range and their sample variance, both in widths of the range."""

CONFIDENCES = (0.5, 0.8, 0.95, 0.99, 0.999, 1 - 1e-6, 1 - 1e-9)
UNIT = 2.0**20
"""Width of the range in units of the grid, so that integers and reals differ little."""


def margins(kind: str, scale: float, n: int, tail: float) -> Margins:
    """What the module does, for noise of this scale in widths."""

    def at(total: float, squares: float) -> tuple[float, float]:
        found = mean_margins(kind, scale * UNIT, n, tail, total=total * UNIT, half=UNIT / 2, squares=squares * UNIT**2)  # type: ignore[arg-type]
        return found[0] / UNIT, found[1] / UNIT

    return at


def twin(scale: float, n: int, tail: float) -> Margins:
    z, noise = float(stats.norm.isf(tail)), scale * scale

    def score(total: float, side: int) -> float:
        x, u, most = (total + side / 2) / n, z * z / n, noise + 0.25
        inner = u * (most - x * x) + u * u * most
        mean = (x + side * math.sqrt(max(inner, 0.0))) / (1 + u)
        if side * x >= 0.5 or not (inner >= 0 and abs(mean) <= 0.5):
            return 0.5 / n + math.sqrt(u * noise)
        return side * (mean - total / n)

    def at(total: float, squares: float) -> tuple[float, float]:
        margin = z * math.sqrt(squares / n)
        return (margin, margin) if n >= 500 and n * squares >= 1000 else (score(total, -1), score(total, 1))

    return at


def misses(margins: Margins, variance: float, n: int, f: float, tail: float) -> tuple[float, float]:
    """How often the limits below and above miss the mean f, in units of `tail`. A miss in the noise is one beyond a threshold of it."""
    counts = (
        np.arange(n + 1)
        if n < 2000
        else np.arange(*np.clip(n * f + np.array([-1, 1]) * (12 * math.sqrt(n * f) + 60), 0, n + 1).astype(int))
    )
    masses, spread, found = stats.binom.pmf(counts, n, f), math.sqrt(n * variance), []
    for side in (0, 1):

        def missed(count: int, noise: float, side: int = side) -> bool:
            total = count - n / 2 + noise
            squares = variance + count * (n - count) / (n * max(n - 1, 1))
            margin = margins(total, squares)[side]
            return total / n - margin > f - 0.5 if side == 0 else total / n + margin < f - 0.5

        sums = 0.0
        for count, mass in zip(counts.tolist(), masses.tolist(), strict=True):
            if mass < 1e-7 * tail:
                continue
            low, high = -9 * spread, 9 * spread
            if missed(count, low) == missed(count, high):
                sums += mass * missed(count, low)
                continue
            for _ in range(16):
                middle = (low + high) / 2
                low, high = (low, middle) if missed(count, middle) == missed(count, high) else (middle, high)
            sums += mass * float(stats.norm.cdf((high if side == 1 else -low) / spread))
        found.append(sums / tail)
    return found[0], found[1]


def of_gaussian(n: int, f: float, scale: float, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    return misses(margins("gaussian", scale, n, tail), scale * scale, n, f, tail)


# At the switch


@pytest.mark.long
@pytest.mark.parametrize(("confidence", "before"), [(0.999, 1.4), (1 - 1e-9, 7.0)])
def test_rare_records_at_a_bound_among_a_million(confidence, before):
    """LocalLaplace(700), one in 833 records is a one: the limit above missed 1.46 and 7.6 times as often as allowed."""
    mechanism, n, f, tail = local.LocalLaplace(700.0, 0.0, 1.0), 10**6, 0.0012, (1 - confidence) / 2
    grid, unit = mechanism.grid, round(1 / mechanism.grid)

    def public(total: float, squares: float) -> tuple[float, float]:
        steps = round(total * unit)
        part = local.Aggregate(mechanism, n, (steps, round(squares * unit * unit * (n - 1)) + steps * steps // n))
        low, high = mechanism.estimate(part).interval(confidence)
        value = 0.5 + steps * grid / n
        return value - low, high - value

    noise = 2 / 700**2
    assert max(misses(public, noise, n, f, tail)) <= 1.0
    assert misses(twin(math.sqrt(noise), n, tail), noise, n, f, tail)[1] > before


@pytest.mark.long
@pytest.mark.parametrize("kind", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_every_law_of_noise_shares_the_limits(kind):
    """On both sides of 1,000 squared widths, and of the skewness that is corrected; noise as wide as 0.002 of the range."""
    n, scale = 10**6, 0.0015
    variance = noise_variance(kind, scale * UNIT) / UNIT**2
    for confidence, f in itertools.product((0.999, 1 - 1e-9), (0.00098, 0.00104)):
        tail = (1 - confidence) / 2
        assert max(misses(margins(kind, scale, n, tail), variance, n, f, tail)) <= 1.0


@pytest.mark.long
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_limits_miss_as_rarely_as_stated(confidence):
    for n, f, scale in itertools.product((1, 5, 100, 3000), (0.004, 0.1, 0.5), (0.01, 0.4)):
        assert max(of_gaussian(n, f, scale, confidence)) <= 1 + 1e-9, (n, f, scale)


@pytest.mark.long
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_limits_miss_as_rarely_as_stated_in_more_places(confidence):
    for n, f, scale in itertools.product(
        (1, 2, 5, 20, 100, 600, 3000, 30_000), (0.0005, 0.004, 0.03, 0.1, 0.3, 0.5), (0.01, 0.1, 0.4, 1.5)
    ):
        assert max(of_gaussian(n, f, scale, confidence)) <= 1 + 1e-9, (n, f, scale)


def test_the_twin_misses_far_too_often_where_records_are_few():
    """A normal score limit of 600 records, of which 2.4 are ones: more than 3,000 times what is allowed."""
    tail = 5e-10
    assert misses(twin(0.01, 600, tail), 1e-4, 600, 0.004, tail)[0] > 3000
    assert misses(twin(0.01, 300, 0.025), 1e-4, 300, 0.01, 0.025)[0] > 1.05


# Beside what is known


@pytest.mark.parametrize("confidence", [0.95, 1 - 1e-9])
def test_without_noise_no_limit_lies_inside_that_of_clopper_and_pearson(confidence):
    """Where rare ones decide; and of none among n records the limit above is the exact one, 1 − tail^(1/n)."""
    n, tail = 1000, (1 - confidence) / 2
    at = margins("gaussian", 1e-9, n, tail)
    for count in (0, 1, 2, 5, 9):
        below, above = at(count - n / 2, count / n)
        low = stats.beta.ppf(tail, count, n - count + 1) if count else 0.0
        high = stats.beta.isf(tail, count + 1, n - count)
        assert count / n - below <= low + 1e-15
        assert high <= count / n + above <= 1.5 * high
    assert at(-n / 2, 0.0)[1] == pytest.approx(1 - tail ** (1 / n), rel=1e-3)


@pytest.mark.parametrize("n", [500, 2000])
def test_of_noise_alone_the_limits_are_those_of_student(n):
    for confidence in CONFIDENCES:
        tail, squares = (1 - confidence) / 2, 4.0
        below, above = margins("gaussian", 2.0, n, tail)(0.0, squares)
        student = float(stats.t.isf(tail, n - 1)) * math.sqrt(squares / n)
        assert student <= min(below, above) <= max(below, above) <= 1.02 * student + 1 / n


@pytest.mark.parametrize(("n", "most"), [(1000, 1.02), (10_000, 1.02), (100_000, 1.006)])
def test_the_corrections_cost_little_in_ordinary_surveys(n, most):
    """Beside value ± z·stderr, where that is used: from n = 1,000 on at ε = 1, and from 10,000 on at ε ≤ 8."""
    for epsilon, spread, confidence in itertools.product((1.0, 2.0, 4.0, 8.0), (0.08, 0.25), (0.95, 0.999)):
        variance = 2 / epsilon**2
        squares, tail = variance + spread, (1 - confidence) / 2
        if n * squares >= 1000:
            below, above = margins("laplace", 1 / epsilon, n, tail)(0.0, squares)
            assert 1.0 <= (below + above) / (2 * stats.norm.isf(tail) * math.sqrt(squares / n)) <= most


def test_sums_beyond_all_bounds_give_limits_beyond_them() -> None:
    """Reports may come from anyone."""
    for total, squares in ((1e300, math.inf), (-1e300, 1e300), (math.inf, math.inf)):
        found: Any = margins("laplace", 0.5, 1000, 0.025)(total, squares)
        assert min(found) > 0
        assert not any(map(math.isnan, found))
