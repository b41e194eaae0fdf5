"""Constant work against a twin in Python's integers that reads the same words, and its laws against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcore import _backend
from dpcore._backend import KernelWords
from dpcore._exact import digits as laws
from support.kernels import KEY, LEVELS, at_level, same_bits

CONSTANT, PLANES, GROUP = 13, 256, 128
ONE = 1 << 127
FINE_BITS = 80
MP = mpmath.MPContext()
MP.dps = 60


def position(element: int = 0, nonce: int = 0) -> tuple[bytes, int, int, bool]:
    return KEY, nonce, element, False


def added(kind: str, values: Any, scale: float, *, grid: float | None = None, element: int = 0, **options: Any) -> Any:
    options = {"out": None, "threads": 1, "bounds": None, **options}
    return _backend.constant_noise(kind, np.asarray(values), scale, grid, lambda: position(element), **options)


def drawn(law: list[laws.Digit], elements: range) -> list[int]:
    """Sums of digits, from the words by their addresses."""
    words = KernelWords(KEY, 0, 0)
    sums = []
    for element in elements:
        group, lane = divmod(element, GROUP)
        total = 0
        for d, (weight, thresholds, is_signed) in enumerate(law):
            high, low = (words.group(CONSTANT, group * PLANES + 2 * d + half)[lane] for half in range(2))
            magnitude = (high & (1 << 63) - 1) << 64 | low
            digit = sum(magnitude >= threshold for threshold in thresholds)
            total += weight * (-digit if is_signed and high >> 63 else digit)
        sums.append(total)
    return sums


def rounded(kind: str, value: Fraction, noise: int, scale: float, grid: float) -> float:
    """What is released of a value: the multiple of the grid nearest to value + noise on the fine grid, as a float."""
    bits = FINE_BITS - math.floor(math.log2(scale / grid))
    whole = math.floor(value / Fraction(grid) + Fraction(1, 2))
    part = value / Fraction(grid) - whole
    steps = whole + math.floor(Fraction(round(part * 2**bits) + noise, 1 << bits) + Fraction(1, 2))
    try:
        return float(steps * Fraction(grid)) + 0.0
    except OverflowError:
        return math.copysign(np.finfo(np.float64).max, steps)


VALUES = [0.0, -0.3, 1.5, 1e-9, -7.25e8, 2.0**52 + 1, -(2.0**60), 1e300, -1.7976931348623157e308, 5e-324, 2.0**-1022, 3e-30]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1.0, 3.7e-5, 1e9, 2.0**-900, 2.0**900, 1.9999999])
def test_reals_are_rounded_as_fractions_are(kind, scale):
    values = [v * s for v in VALUES for s in (1.0, scale) if abs(v * s) < math.inf]
    grid = _backend.default_grid(scale)
    found = added(kind, np.array(values), scale)
    law = laws.laplace if kind == "laplace" else laws.gaussian
    bits = FINE_BITS - math.floor(math.log2(scale / grid))
    noise = drawn(law(math.ldexp(scale / grid, bits)), range(len(values)))
    expected = [rounded(kind, Fraction(v), z, scale, grid) for v, z in zip(values, noise, strict=True)]
    assert found.tolist() == expected


@pytest.mark.parametrize("steps", [2.0**18, 3.3e8, 2.0**40])
def test_int64_enters_exactly(steps):
    values = [2**62 + 1, -(2**63), 2**63 - 1, 2**53 + 1, -3, 0]
    grid = 2.0**-10
    found = added("laplace", np.array(values), steps * grid, grid=grid)
    bits = FINE_BITS - math.floor(math.log2(steps))
    noise = drawn(laws.laplace(math.ldexp(steps, bits)), range(len(values)))
    assert found.tolist() == [rounded("laplace", Fraction(v), z, steps * grid, grid) for v, z in zip(values, noise, strict=True)]


@pytest.mark.parametrize(
    ("kind", "scale"),
    [(kind, scale) for kind in ("discrete_laplace", "discrete_gaussian") for scale in (0.3, 1.0, 15.9, 16.0, 300.5, 1e7, 2.0**40)],
)
def test_integers_are_sums_of_digits(kind, scale):
    values = np.array([0, 5, -(2**63), 2**63 - 1, 2**40] * 30)
    law = (laws.laplace if kind == "discrete_laplace" else laws.gaussian)(scale)
    expected = [min(max(v + z, -(2**63)), 2**63 - 1) for v, z in zip(values.tolist(), drawn(law, range(150)), strict=True)]
    assert added(kind, values, scale).tolist() == expected


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_one_answer(kind, level, monkeypatch):
    whole = kind.startswith("discrete")
    values = np.arange(1500) * (1 if whole else 0.37)
    with at_level("baseline"):
        expected = added(kind, values, 20.5)
    monkeypatch.setattr(_backend.threads, "CHUNK", 256 * 97)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    with at_level(level):
        assert same_bits(added(kind, values, 20.5, threads=3), expected)
        assert same_bits(added(kind, values[100:900], 20.5, element=100), expected[100:900])
        assert same_bits(added(kind, np.repeat(values, 2)[::2], 20.5), expected)
        target = values.copy()
        added(kind, target, 20.5, out=target)
        assert same_bits(target, expected)


def test_scales_of_an_array_have_positions_of_their_own():
    calls = iter(range(5))
    found = _backend.constant_noise(
        "laplace", np.zeros(6), np.array([1.0, 2.0, 1.0, 4.0, 2.0, 1.0]), None, lambda: position(nonce=next(calls)), out=None, threads=1,
        bounds=None,
    )  # fmt: skip
    words = [
        _backend.constant_noise("laplace", np.zeros(n), s, None, lambda c=c: position(nonce=c), out=None, threads=1, bounds=None)
        for c, (s, n) in enumerate([(1.0, 3), (2.0, 2), (4.0, 1)])
    ]
    assert found[[0, 2, 5]].tolist() == words[0].tolist()
    assert found[[1, 4, 3]].tolist() == [*words[1].tolist(), *words[2].tolist()]


# The laws


def convolved(law: list[laws.Digit]) -> dict[int, int]:
    """The law of the sum, in units of 2^−(128·digits); exact."""
    total = {0: 1}
    for weight, thresholds, is_signed in law:
        masses = [b - a for a, b in pairwise([0, *thresholds, ONE])]
        digit = [(k, 2 * mass if k == 0 or not is_signed else mass) for k, mass in enumerate(masses)]
        signed = digit + [(-k, mass) for k, mass in digit if k and is_signed]
        following: dict[int, int] = {}
        for z, mass in total.items():
            for k, share in signed:
                following[z + weight * k] = following.get(z + weight * k, 0) + mass * share
        total = following
    return total


def distance(law: list[laws.Digit], exact: Any) -> Any:
    """Total variation between the law of the sum and that with weights exact(z)."""
    masses, unit = convolved(law), MP.mpf(2) ** (-128 * len(law))
    weights = {z: exact(z) for z in range(min(masses), max(masses) + 1)}
    total = MP.fsum(weights.values())
    return MP.fsum(abs(masses.get(z, 0) * unit - w / total) for z, w in weights.items()) / 2


@pytest.mark.parametrize("scale", [0.02, 0.3, 1.0, 2.7, 5.0])
def test_bits_make_the_discrete_laplace_law(scale):
    assert distance(laws.laplace(scale), lambda z: MP.exp(-abs(z) / MP.mpf(scale))) < MP.mpf(2) ** -105


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.9, 15.99, 16.0, 17.3, 33.0, 70.0])
def test_digits_make_the_discrete_gaussian_law(scale):
    variance = 2 * MP.mpf(scale) ** 2
    assert distance(laws.gaussian(scale), lambda z: MP.exp(-z * z / variance)) < MP.mpf(2) ** -90


def test_a_weight_too_large_for_the_digits_below_is_rejected():
    """Twice the last weight: the digits below no longer fill its gaps."""
    low, (weight, thresholds, is_signed) = laws.gaussian(33.0)
    broken = [low, (3 * weight, thresholds, is_signed)]
    mean = sum(z * z * m for z, m in convolved(broken).items()) / 2 ** (128 * 2)
    assert distance(broken, lambda z: MP.exp(-z * z / (2 * MP.mpf(mean)))) > MP.mpf(2) ** -40


@pytest.mark.parametrize("scale", [16.0, 100.0, 1e5, 2.0**40, 2.0**80, 1.3 * 2.0**80, 2.0**81 * (1 - 2.0**-53)])
def test_variances_add_up_and_gaps_are_filled(scale):
    variance = Fraction(0)
    for weight, thresholds, _ in laws.gaussian(scale)[:-1]:
        if weight > 1:
            following = variance + weight**2 * laws.BASE_VARIANCE
            assert variance * laws.BASE_VARIANCE >= laws.TAU_SQUARED * following
        variance += weight**2 * laws.BASE_VARIANCE
        assert thresholds == laws.gaussian(8.0)[0][1]
    weight, thresholds, _ = laws.gaussian(scale)[-1]
    rest = Fraction(scale) ** 2 - variance
    assert variance * rest >= laws.TAU_SQUARED * weight**2 * Fraction(scale) ** 2
    s = MP.sqrt(MP.mpf(rest.numerator) / rest.denominator) / weight
    total = MP.nsum(lambda z: MP.exp(-z * z / (2 * s * s)), [-300, 300])
    assert abs(MP.mpf(thresholds[0]) / ONE - 1 / total) < MP.mpf(2) ** -120
    assert 1 < len(thresholds) < 512


def test_planes_of_groups_do_not_meet():
    most = max(len(laws.laplace(2.0**90 * 1.99)), len(laws.gaussian(2.0**81)), len(laws.geometric(2.0**91)))
    assert 2 * most <= PLANES
    assert max(sum(w for w, _, _ in law) for law in (laws.laplace(2.0**91), laws.gaussian(2.0**81))) < 2**110


# Choices and bits


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize("scale", [1.0, 3e-7, 1e12])
def test_the_largest_key_is_found(noise, scale):
    scores = np.array([0.3, -2.0, 1e300, 1e300 * (1 - 2.0**-53), 5e-324, 0.0] * 40) if scale > 1 else np.linspace(-3, 1, 300) * scale
    scale_bits = math.frexp(scale)[1] - 1 - 90
    grid = math.ldexp(1.0, scale_bits)
    law = laws.laplace if noise == "laplace" else laws.geometric
    keys = drawn(law(scale / grid), range(scores.size))
    top, cap = max(map(Fraction, scores.tolist())), Fraction(grid) * 2**102
    steps = [z - round(min(top - Fraction(s), cap) / Fraction(grid)) for z, s in zip(keys, scores.tolist(), strict=True)]
    assert _backend.constant_choice(noise, scores, scale, position()) == steps.index(max(steps))


def test_the_largest_key_of_int64_is_found():
    scores = np.array([2**62, 2**62 + 3, 2**62 + 1, -(2**63), 2**62 + 5])
    keys = drawn(laws.laplace(2.0**90), range(5))
    steps = [z + int(s) * 2**90 for z, s in zip(keys, scores.tolist(), strict=True)]
    assert _backend.constant_choice("laplace", scores, 1.0, position()) == steps.index(max(steps))


def test_bits_have_the_probability_of_theirs():
    from dpcore._exact.probability import complement, logistic_complement

    flip = logistic_complement(1.0)
    bits = (np.arange(500) % 3 == 0).astype(np.uint8)
    found = _backend.constant_bits(flip, complement(flip), bits, position(), threads=1)
    words = KernelWords(KEY, 0, 0)
    expected = []
    for i, bit in enumerate(bits.tolist()):
        high, low = (words.group(CONSTANT, i // GROUP * PLANES + half)[i % GROUP] for half in range(2))
        uniform = (high & (1 << 63) - 1) << 64 | low
        expected.append(int(uniform >= ONE - (complement(flip) if bit else flip).floor(127)))
    assert found.tolist() == expected
