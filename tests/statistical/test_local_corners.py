"""Coverage of intervals where the normal law fails: few records, rare categories, all records at a bound, every ε.

Every coverage is a sum, over all counts of reports or over how many records are at which bound: no chance is in these tests. The laws are
those of the reports, from `support`, `channel` and `scale`; the intervals are those of the public way. A twin is value ± z·stderr.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from dpcore import local
from dpcore.local.estimates import frequencies
from support.kernels import Array

ROUNDING = 1e-9
"""Of sums of masses, and of limits that the truth may touch."""
RATES = (0.0, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 0.999, 1.0)
TARGETS = ("population", "sample")
targets = pytest.mark.parametrize("target", TARGETS)


def mixed_law(n: int, rates: Array, shares: Array, target: str) -> Array:
    """The law of how many of n reports have a property, whose probability is rates[i] for a share shares[i] of the records."""
    if target == "population":
        return stats.binom.pmf(np.arange(n + 1), n, float(rates @ shares))  # type: ignore[no-any-return]
    law = np.ones(1)
    for rate, share in zip(rates, shares, strict=True):
        m = round(n * share)
        law = np.convolve(law, stats.binom.pmf(np.arange(m + 1), m, rate))
    return law


def coverage(law: Array, interval: Array, truth: float) -> float:
    """The probability of the counts whose interval holds the truth."""
    reach = ROUNDING * (1 + np.abs(interval).max(axis=1))
    return float(law[(interval[:, 0] <= truth + reach) & (truth <= interval[:, 1] + reach)].sum())


def normal(found: local.Estimate, confidence: float = 0.95) -> Array:
    """The twin: value ± z·stderr."""
    half = stats.norm.isf((1 - confidence) / 2) * np.asarray(found.stderr)
    return np.stack([found.value - half, found.value + half], axis=-1)


def at_every_count(mechanism: Any, n: int, target: str) -> local.Estimate:
    """Estimates of all counts at once, as if of so many categories: what `estimate` does with the support counts of an oracle."""
    return frequencies(np.arange(n + 1), n, mechanism.support, target=target, privacy=mechanism.privacy)


def oracles(epsilon: float) -> tuple[Any, ...]:
    """Oracles whose supports are near and far from those of other categories; a Hadamard response's is a binary response's."""
    return (
        local.BinaryResponse(epsilon),
        local.KaryResponse(epsilon, k=5000),
        local.UnaryEncoding(epsilon, k=20),
        local.SubsetSelection(epsilon, k=50),
        local.LocalHashing(epsilon, k=1000),
    )


def check_frequencies(mechanism: Any, n: int, confidence: float, target: str) -> None:
    found = at_every_count(mechanism, n, target)
    interval = found.interval(confidence)
    p, q, _ = mechanism.support
    assert (interval[:, 0] <= found.value).all()
    assert (found.value <= interval[:, 1]).all()
    assert (np.diff(interval, axis=0) >= -ROUNDING).all()
    for f in sorted({round(n * f) / n for f in RATES}) if target == "sample" else RATES:
        law = mixed_law(n, np.array([p, q]), np.array([f, 1 - f]), target)
        covered = coverage(law, interval, f)
        assert covered >= confidence - ROUNDING, (mechanism, n, f, covered)


@pytest.mark.some(3)
@targets
@pytest.mark.parametrize("epsilon", [2.0**-20, 0.3, 3.0, 20.0])
def test_frequencies_are_covered_whatever_they_are(epsilon, target):
    for mechanism, n in itertools.product(oracles(epsilon)[:3], (1, 2, 10, 100, 1000)):
        check_frequencies(mechanism, n, 0.95, target)


@pytest.mark.long
@targets
@pytest.mark.parametrize("epsilon", [2.0**-20, 0.1, 0.5, 1.0, 2.0, 5.0, 8.0, 12.0, 20.0, 50.0])
def test_frequencies_are_covered_whatever_they_are_in_more_places(epsilon, target):
    for mechanism, n, confidence in itertools.product(oracles(epsilon), (1, 2, 3, 10, 47, 100, 400, 1000, 5000), (0.8, 0.95, 0.999)):
        check_frequencies(mechanism, n, confidence, target)


def test_a_rare_answer_under_little_noise():
    """BinaryResponse(20), a thousand records, one in a thousand true: the normal interval covers 64 % instead of 95 %."""
    mechanism, n, f = local.BinaryResponse(20.0), 1000, 0.001
    found = at_every_count(mechanism, n, "population")
    p, q, _ = mechanism.support
    law = mixed_law(n, np.array([p, q]), np.array([f, 1 - f]), "population")
    assert 0.95 <= coverage(law, found.interval(), f) < 0.999
    assert coverage(law, normal(found), f) < 0.65
    public = mechanism.estimate(local.Aggregate(mechanism, n, np.array([1])))
    assert public.interval().tolist() == found.interval()[1].tolist()


@targets
def test_exact_and_corrected_limits_meet(target):
    """Around a variance of 100 of the count neither jumps, and coverage stays above what is asked for."""
    mechanism = local.UnaryEncoding(1.0, k=10)
    q = mechanism.support.q
    for n in (round(60 / (q * (1 - q))), round(100 / (q * (1 - q))), round(160 / (q * (1 - q)))):
        found = at_every_count(mechanism, n, target)
        inside = (np.asarray(found.value) > 0.01) & (np.asarray(found.value) < 0.99)
        steps = np.diff(found.interval()[inside], axis=0) * n * (mechanism.support.p - q)
        assert steps.min() > -ROUNDING
        assert steps.max() < (1.5 if target == "population" else 3.0)  # the exact limits of a sample are whole records


@targets
def test_intervals_are_not_wider_than_they_must_be(target):
    """With 10,000 records, the normal width is exceeded by a few per cent only."""
    for mechanism in (local.BinaryResponse(1.0), local.UnaryEncoding(1.0, k=20), local.LocalHashing(1.0, k=1000)):
        found = at_every_count(mechanism, 10_000, target)
        inside = (np.asarray(found.value) > 0.05) & (np.asarray(found.value) < 0.95)
        ratio = np.diff(found.interval())[inside, 0] / np.diff(normal(found))[inside, 0]
        assert 1.0 < ratio.min() <= ratio.max() < 1.05


# One bit about numbers


@pytest.mark.some(6)
@targets
@pytest.mark.parametrize("epsilon", [0.5, 20.0])
@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_means_of_one_bit_are_covered(epsilon, n, target):
    bounded, table = local.BoundedMean(epsilon, -1.0, 3.0), local.BinaryChannel(epsilon, (0.5, -1.0, 1.0))
    cases = [
        (bounded, bounded.channel([-1.0, 1.0, 3.0])[:, 1], np.array([-1.0, 1.0, 3.0])),
        (table, table.channel()[:, 1], np.array([0.5, -1.0, 1.0])),
    ]
    for (mechanism, rates, worth), shares in itertools.product(cases, [(0, 0, 1), (1, 0, 0), (0, 0.999, 0.001), (0.5, 0.5, 0)]):
        parts = np.array(shares, float)
        if target == "sample":
            parts = np.rint(parts * n) / n
            parts[np.argmax(parts)] += 1 - parts.sum()
        law = mixed_law(n, rates, parts, target)
        likely = np.flatnonzero(law > 1e-13)
        each = [mechanism.estimate(local.Aggregate(mechanism, n, np.array([c])), target=target) for c in likely]
        assert coverage(law[likely], np.array([e.interval() for e in each]), float(parts @ worth)) >= 0.95 - ROUNDING


# Noise on numbers


def sum_cdf(mechanism: Any, n: int, x: Array) -> Array:
    """The distribution function of the sum of n noises, in units of the range's half-width: by inversion of characteristic functions."""
    half = (mechanism.upper - mechanism.lower) / 2
    scale = mechanism.scale / half
    if mechanism.kind == "gaussian":
        return stats.norm.cdf(x, scale=scale * math.sqrt(n))  # type: ignore[no-any-return]
    if mechanism.kind == "laplace" and n == 1:
        return stats.laplace.cdf(x, scale=scale)  # type: ignore[no-any-return]
    if mechanism.kind == "laplace":

        def at(point: float) -> float:
            value = integrate.quad(lambda t: np.sinc(t * point / scale / np.pi) * (1 + t * t) ** -n, 0, 60, limit=400)[0]
            return 0.5 + value * point / scale / math.pi

        return np.array([at(float(point)) for point in x])
    reach = math.ceil(45 * mechanism.scale) + 5
    k = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(k) / mechanism.scale) if mechanism.kind == "discrete_laplace" else np.exp(-(k**2) / (2 * mechanism.scale**2))
    law = np.ones(1)
    for _ in range(n):
        law = np.convolve(law, one / one.sum())
    cumulative = np.concatenate([[0.0], np.cumsum(law)])
    return cumulative[np.clip(np.floor(x * half + 1e-9).astype(int) + n * reach + 1, 0, len(cumulative) - 1)]


def limits_of(mechanism: Any, n: int, total: Fraction, target: str) -> Array:
    """The interval when the reports add up to this, in units of the grid about the middle of the range, and all of them are alike."""
    middle = (Fraction(mechanism.lower) + Fraction(mechanism.upper)) / 2 / Fraction(mechanism.grid)
    centred = math.floor(total + n * (middle - mechanism._centre))
    part = local.Aggregate(mechanism, n, (centred, -(-centred * centred // n)))
    return mechanism.estimate(part, target=target).interval()


def accepted(mechanism: Any, n: int, mean: float, target: str) -> tuple[float, float]:
    """Between which sums about the middle, in half-widths, the interval holds this mean: its limits rise with the sum."""
    half = (mechanism.upper - mechanism.lower) / 2
    unit = Fraction(half) / Fraction(mechanism.grid)
    far = n + 80 * n * mechanism.scale / half + 10
    ends = []
    for column in (1, 0):
        low, high = -far, far
        for _ in range(60):
            middle = (low + high) / 2
            found = limits_of(mechanism, n, Fraction(middle) * unit, target)
            holds = found[1] >= mean - ROUNDING if column else found[0] > mean + ROUNDING
            low, high = (low, middle) if holds else (middle, high)
        ends.append(high if column else low)
    return ends[0], ends[1]


def additive(epsilon: float) -> tuple[Any, ...]:
    return (
        local.LocalLaplace(epsilon, 0.0, 2.0),
        local.LocalGaussian(epsilon, 1e-5, -3.0, -1.0),
        local.LocalDiscreteLaplace(epsilon, 0, 4),
        local.LocalDiscreteGaussian(epsilon, 1e-5, 0, 4),
    )


def noisy_coverage(mechanism: Any, n: int, f: float, target: str) -> float:
    """Of the mean of records of which a share f is at the upper bound and the others at the lower one."""
    width = mechanism.upper - mechanism.lower
    low, high = accepted(mechanism, n, mechanism.lower + f * width, target)
    held = np.arange(n + 1) if target == "population" else np.array([round(n * f)])
    masses = stats.binom.pmf(held, n, f) if target == "population" else np.ones(1)
    tiny = 1e-7 if mechanism.integral else 0.0
    inside = sum_cdf(mechanism, n, high - (2 * held - n) + tiny) - sum_cdf(mechanism, n, low - (2 * held - n) - 2 * tiny)
    return float(masses @ inside)


@pytest.mark.long
@targets
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 30.0])
@pytest.mark.parametrize("kind", range(4))
def test_means_of_few_noisy_numbers_are_covered(kind, epsilon, target):
    mechanism = additive(epsilon)[kind]
    for n, f in [(1, 0.0), (2, 1.0), (2, 0.5), (10, 0.0), (10, 0.1)]:
        covered = noisy_coverage(mechanism, n, f, target)
        assert covered >= 0.95 - 1e-6, (n, f, covered)
        if target == "sample" and mechanism.kind in {"laplace", "gaussian"}:
            assert covered <= 0.95 + 1e-6


def test_one_laplace_report_is_not_normal():
    """The twin covers 93.7 % of single reports, and of two with a sample variance far less."""
    mechanism = local.LocalLaplace(1.0, 0.0, 2.0)
    half = stats.norm.isf(0.025) * math.sqrt(mechanism.noise_variance)
    assert 1 - math.exp(-half / mechanism.scale) < 0.94
    assert noisy_coverage(mechanism, 1, 0.0, "sample") == pytest.approx(0.95, abs=1e-9)


def test_a_rare_record_at_a_bound_is_not_overlooked():
    """A thousand zeros and ones under hardly any noise, one in a thousand a one: two in five samples have none or look as if."""
    mechanism = local.LocalLaplace(500.0, 0.0, 1.0)
    n, f = 1000, 0.001
    held = np.arange(12)
    masses = stats.binom.pmf(held, n, f)
    inside, twin = [], []
    for ones in held:
        reports = np.round(np.repeat([1.0, 0.0], [ones, n - ones]) / mechanism.grid) * mechanism.grid
        found = mechanism.estimate(reports)
        inside.append(found.interval()[0] <= f <= found.interval()[1])
        twin.append(abs(found.value - f) <= 1.96 * found.stderr)
    assert masses @ np.array(inside) >= 0.95
    assert masses @ np.array(twin) < 0.7
