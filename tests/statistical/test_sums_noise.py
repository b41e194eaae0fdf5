"""Noise is added to the exact sum: its law where a float64 of the sum would lose it, and the same bits from every tier and route."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore import noise
from dpcore._backend.words import KernelWords
from dpcore._exact.handover import real
from dpcore._exact.pending import Pending
from dpcore.sums import ExactSum, clipped_sum
from dpcore.testing import KeyedRandom
from support.kernels import ACCURATE, EXACT, KEY, LEVELS, Law, at_level, at_tier
from support.laws import ERROR_RATE, count, p_value, steps_law

KINDS = ("laplace", "gaussian")


def rng():
    return KeyedRandom(KEY).at(0)


def sums_with_low_parts(columns: int, doublings: int, radius: float = 1.0) -> ExactSum:
    """Sums with up to 53 + doublings bits: the same awkward rows, merged with themselves."""
    x = np.random.default_rng(5).uniform(-radius, radius, (3, columns))
    total = clipped_sum(x, radius)
    for _ in range(doublings):
        total = total + total + clipped_sum(x, radius)
    return total


@pytest.mark.some(11)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("doublings", [0, 5, 20, 45])
@pytest.mark.parametrize("scale", [2.0**-20, 0.7, 2.0**30, 1.99 * 2.0**40])
def test_every_tier_and_level_gives_the_same_bits(kind, doublings, scale):
    total = sums_with_low_parts(1500, doublings)
    assert doublings < 5 or np.count_nonzero(total.low) > 1000
    expected = total.noisy(kind, scale, rng=rng())
    for level in LEVELS:
        with at_level(level):
            assert np.array_equal(total.noisy(kind, scale, rng=rng(), threads=3), expected)
    with at_tier(ACCURATE):
        assert np.array_equal(total.noisy(kind, scale, rng=rng()), expected)
    few = ExactSum(total.high[:200], total.low[:200], total.grid, total.n, total.lower, total.upper)
    with at_tier(EXACT):
        assert np.array_equal(few.noisy(kind, scale, rng=rng()), expected[:200])


@pytest.mark.parametrize("kind", KINDS)
def test_finest_steps_in_every_tier(kind):
    """Scales far below and far above the sum's own grid, one for each column."""
    total = sums_with_low_parts(600, 30)
    scales = 2.0 ** np.random.default_rng(6).uniform(-60, 60, 600)
    expected = total.noisy(kind, scales, rng=rng())
    with at_tier(ACCURATE):
        assert np.array_equal(total.noisy(kind, scales, rng=rng()), expected)
    with at_tier(EXACT):
        assert np.array_equal(total.noisy(kind, scales, rng=rng()), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.5, 1e6, 2.0**45])
def test_integer_sums_get_the_noise_of_int64(kind, scale):
    """Two routes to one number: an int64 enters the kernels as two other floats than its sum does."""
    values = np.random.default_rng(7).integers(-(2**62), 2**62, 5000)
    high = values.astype(np.float64)
    low = (values - high.astype(np.int64)).astype(np.float64)
    assert np.count_nonzero(low) > 4000
    total = ExactSum(high, low, 1.0, 2**20, -(2.0**50), 2.0**50)
    assert total.integers == tuple(values.tolist())
    assert np.array_equal(total.noisy(kind, scale, rng=rng()), getattr(noise, kind)(values, scale, rng=rng()))


@pytest.mark.parametrize("kind", KINDS)
def test_one_sum_gets_the_noise_of_the_first_of_many(kind):
    total = sums_with_low_parts(3, 20)
    first = ExactSum(float(total.high[0]), float(total.low[0]), total.grid, total.n, total.lower, total.upper)
    assert first.noisy(kind, 3.0, rng=rng()) == total.noisy(kind, 3.0, rng=rng())[0]
    with at_tier(EXACT):
        assert first.noisy(kind, 3.0, rng=rng()) == total.noisy(kind, 3.0, rng=rng())[0]


def test_rounding_of_a_release_is_that_of_the_exact_sum():
    """`round_release` of the fraction, with the words read one by one: nothing of the fast path is used."""
    total, scale, grid = sums_with_low_parts(40, 25), 1.5, 2.0**-25
    words = KernelWords(KEY, 0, 0)
    pairs = list(zip(total.high, total.low, strict=True))
    expected = [real("laplace", words, Pending(i, i, *pair, 0, 0), scale, grid) for i, pair in enumerate(pairs)]
    assert total.noisy("laplace", scale, rng=rng()).tolist() == expected
    assert all(Fraction(h) + Fraction(v) == k * Fraction(total.grid) for (h, v), k in zip(pairs, total.integers, strict=True))


@pytest.mark.parametrize(("kind", "scale"), [("laplace", 40.0), ("gaussian", 60.0)])
def test_law_of_the_noise_on_a_sum_beyond_float64(kind, scale):
    """At 1.5·2^60 floats lie 256 apart: which of them is released tells of the low part, 77.25, that a float64 sum would have lost."""
    n, low = 200_000, 77.25
    middle = 1.5 * 2.0**60
    total = ExactSum(np.full(n, middle), np.full(n, low), 0.25, 2**20, -(2.0**48), 2.0**48)
    expected = steps_law(Law(kind, scale, 256.0), low, 4)
    steps = (total.noisy(kind, scale, rng=rng()) - middle) / 256
    assert p_value(count(steps, 4), expected) > ERROR_RATE
    float_sum = (getattr(noise, kind)(total.high, scale, rng=rng()) - middle) / 256
    assert p_value(count(float_sum, 4), expected) < ERROR_RATE
