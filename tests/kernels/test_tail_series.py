"""Tails of normal laws in fixed point, beside mpmath: the enclosures hold, and are as narrow as their precision."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpcore._exact import sampling, tails
from dpcore._exact.intervals import Interval, exactly

PRECISIONS = (64, 192, 256)


def enclosed(found: Interval, exact: mp.mpf, bits: int) -> None:
    low, high = (mp.mpf(end.numerator) / end.denominator for end in (exactly(found.low), exactly(found.high)))
    assert low <= exact <= high
    assert high - low <= abs(exact) * mp.mpf(2) ** -bits


def points() -> list[float]:
    generator = np.random.default_rng(7)
    some = [0.0, 1e-300, -1e-30, 4.0, 8.0, -8.0, 8.000001, 15.999, 16.0, 37.5, 1e3, -20.0]
    return some + (generator.normal(size=12) * 6).tolist() + (10.0 ** generator.uniform(-12, 6, size=8)).tolist()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_mills_ratios_hold_the_exact_value(precision):
    for x in points():
        found = tails.mills_ratio(Interval.of(x, precision))
        with mp.workprec(4 * precision + 3 * int(min(x * x, 4000)) + 200):
            z = mp.mpf(x)
            exact = mp.exp(z * z / 2) * mp.erfc(z / mp.sqrt(2)) * mp.sqrt(mp.pi / 2) if x < 100 else None
            if exact is None:  # the continued fraction, from both sides
                assert 1 / (z + 1 / z) <= mp.mpf(exactly(found.high).numerator) / exactly(found.high).denominator
                assert mp.mpf(exactly(found.low).numerator) / exactly(found.low).denominator <= 1 / z
                continue
            lost = min(int(max(x, 0.0) ** 2 * 0.75) + 12, 45)  # bits, of a difference near the border and of a fraction that is cut off
            enclosed(found, exact, precision - lost)


def test_a_wide_argument_gives_an_enclosure_of_all_values():
    found = tails.mills_ratio(Interval.of(1.0, 192).hull(Interval.of(1.5, 192)))
    for x in (1.0, 1.25, 1.5):
        with mp.workprec(400):
            exact = mp.exp(mp.mpf(x) ** 2 / 2) * mp.erfc(mp.mpf(x) / mp.sqrt(2)) * mp.sqrt(mp.pi / 2)
            assert mp.mpf(exactly(found.low).numerator) / exactly(found.low).denominator <= exact
            assert exact <= mp.mpf(exactly(found.high).numerator) / exactly(found.high).denominator


@pytest.mark.parametrize("scale", [0.05, 0.7, 1.0, 3.3, 7.999])
def test_thresholds_hold_the_exact_probabilities(scale):
    found = sampling.gaussian_thresholds(scale, 160)
    with mp.workprec(500):
        variance = mp.mpf(Fraction(scale).numerator) ** 2 / mp.mpf(Fraction(scale).denominator) ** 2
        weights = [mp.exp(-mp.mpf(z * z) / (2 * variance)) for z in range(400)]
        total = weights[0] + 2 * mp.fsum(weights[1:])
        for k in range(len(found)):
            enclosed(found[k], (weights[0] + 2 * mp.fsum(weights[1 : k + 1])) / total, 155)


@pytest.mark.parametrize("scale", [8.0, 10.0, 333.25, 2.0**40])
def test_acceptance_terms_hold_the_exact_moments(scale):
    with mp.workprec(400):
        s = mp.mpf(scale)

        def moment(j):
            return mp.quad(lambda u: (2 * u) ** (2 * j) * mp.exp(-u * u / (2 * s * s)), [0, mp.mpf(1) / 2]) / (2 * s) ** (2 * j)

        for j, found in enumerate(sampling.acceptance_terms(scale, 128, 6)):
            enclosed(found, moment(j) / moment(0) / mp.factorial(2 * j), 118)


@pytest.mark.parametrize(("m", "scale"), [(0, 0.5), (3, 0.5), (0, 10.0), (40, 10.0), (1000, 20.0)])
def test_sums_of_tails_hold_the_exact_ones(m, scale):
    found = tails.discrete_tail_ratio(m, scale, 192)
    with mp.workprec(600):
        exact = mp.fsum(mp.exp(-mp.mpf(j * j + 2 * j * m) / (2 * mp.mpf(scale) ** 2)) for j in range(1200))
        enclosed(found, exact, 180)


@pytest.mark.parametrize("x", [-8.0, -1.0, 0.0, 2.5, 7.999, 8.0, 8.001, 40.0])
def test_starts_in_floats_are_near(x):
    with mp.workprec(200):
        exact = mp.exp(mp.mpf(x) ** 2 / 2) * mp.erfc(mp.mpf(x) / mp.sqrt(2)) * mp.sqrt(mp.pi / 2)
    assert tails.mills_in_floats(x) == pytest.approx(float(exact), rel=1e-12)
