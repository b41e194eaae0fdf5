"""The laws of served mechanisms through diffprivlib's own classes, against exact probabilities. Error rate 10^-6; seeded, so runs repeat.

Each law has a twin, that of a mechanism with another ε, δ or domain, or the peer's law with a mistake, which the same draws must reject.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import diffprivlib.mechanisms as peer
import numpy as np
import pytest
from scipy import special

from dpcore import accounting
from dpcore._exact.probability import logistic_complement
from dpcore.interop import diffprivlib as backend
from dpcore.interop.diffprivlib import _choices, _tables
from support.kernels import Array
from support.laws import ERROR_RATE, p_value

N, SINGLE = 200_000, 20_000
Cumulative = Callable[[Array], Array]


@pytest.fixture(autouse=True)
def served() -> Iterator[None]:
    """dpcore beneath diffprivlib."""
    with backend.install(vectorise=True):
        yield


def laplace(x: float, scale: float) -> Cumulative:
    """P(x + bW ≤ t)."""
    return lambda t: np.where(t < x, 0.5 * np.exp(np.minimum(t - x, 0) / scale), 1 - 0.5 * np.exp(np.minimum(x - t, 0) / scale))


def gaussian(x: float, scale: float) -> Cumulative:
    """P(x + σN ≤ t)."""
    return lambda t: special.ndtr((t - x) / scale)  # type: ignore[no-any-return]


def truncated(law: Cumulative, lower: float, upper: float) -> Cumulative:
    """Of a sum that is moved to the nearer bound: the masses lie on the bounds."""
    return lambda t: np.where(t >= upper, 1.0, np.where(t < lower, 0.0, law(t)))


def folded(law: Cumulative, lower: float, upper: float) -> Cumulative:
    """Of a sum that is reflected at the bounds."""
    width = upper - lower

    def cumulative(t: Array) -> Array:
        inside = np.clip(t, lower, upper) - lower
        return sum(law(lower + 2 * k * width + inside) - law(lower + 2 * k * width - inside) for k in range(-60, 61))  # type: ignore[return-value]

    return cumulative


def conditional(law: Cumulative, lower: float, upper: float) -> Cumulative:
    """Of a sum given that it lies between bounds."""
    low, high = law(np.array([lower, upper]))
    return lambda t: np.clip((law(np.clip(t, lower, upper)) - low) / (high - low), 0, 1)


def fit(draws: Array, law: Cumulative, low: float, high: float) -> float:
    """χ² over cells between and beyond two numbers. Edges have many digits, so that no multiple of a grid is one."""
    edges = np.linspace(low, high, 41) + math.pi * 1e-5 * (high - low)
    counts = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=42)
    return p_value(counts, np.diff(np.concatenate([[0.0], law(edges), [1.0]])))


def domain_scale(epsilon: float, sensitivity: float, width: float) -> float:
    """b with Δ/b + ln ΔC(b) = ε, by bisection in floats."""
    low, high = sensitivity / epsilon, 100 * sensitivity / epsilon
    for _ in range(200):
        b = (low + high) / 2
        ratio = (2 - math.exp(-sensitivity / b) - math.exp(-(width - sensitivity) / b)) / (1 - math.exp(-width / b))
        low, high = (b, high) if sensitivity / b + math.log(ratio) > epsilon else (low, b)
    return high


def noise_bound(epsilon: float, delta: float, sensitivity: float) -> float:
    """A = b ln(1 + (e^ε − 1)/2δ)."""
    return sensitivity / epsilon * math.log(1 + math.expm1(epsilon) / 2 / delta)


SHIFTED = 2.0 / (0.8 - math.log(0.9))
B = domain_scale(0.7, 1.0, 3.0)
SIGMA = accounting.analytic_gaussian_scale(0.9, 1e-3, 2.0)
A = noise_bound(0.7, 0.05, 1.0)
REAL: dict[str, tuple[type, dict[str, float], float, Cumulative, Cumulative, float, float]] = {
    "Laplace": (peer.Laplace, {"epsilon": 0.8, "sensitivity": 2.0}, 0.3, laplace(0.3, 2.5), laplace(0.3, 2.4), -8, 9),
    "Laplace with δ": (
        peer.Laplace, {"epsilon": 0.8, "delta": 0.1, "sensitivity": 2.0}, 0.3, laplace(0.3, SHIFTED), laplace(0.3, 2.5), -8, 9,
    ),
    "LaplaceTruncated": (
        peer.LaplaceTruncated, {"epsilon": 0.8, "sensitivity": 1.0, "lower": -1.0, "upper": 2.5}, 0.3,
        truncated(laplace(0.3, 1.25), -1.0, 2.5), laplace(0.3, 1.25), -1.5, 3,
    ),
    "LaplaceFolded": (
        peer.LaplaceFolded, {"epsilon": 0.8, "sensitivity": 1.0, "lower": -1.0, "upper": 1.5}, 0.3,
        folded(laplace(0.3, 1.25), -1.0, 1.5), conditional(laplace(0.3, 1.25), -1.0, 1.5), -1, 1.5,
    ),
    "Gaussian": (
        peer.Gaussian, {"epsilon": 0.9, "delta": 1e-3, "sensitivity": 2.0}, 0.3,
        gaussian(0.3, 2.0 * math.sqrt(2 * math.log(1250)) / 0.9), gaussian(0.3, SIGMA), -20, 20,
    ),
    "GaussianAnalytic": (
        peer.GaussianAnalytic, {"epsilon": 0.9, "delta": 1e-3, "sensitivity": 2.0}, 0.3,
        gaussian(0.3, SIGMA), gaussian(0.3, 1.03 * SIGMA), -15, 15,
    ),
    "LaplaceBoundedDomain": (
        peer.LaplaceBoundedDomain, {"epsilon": 0.7, "sensitivity": 1.0, "lower": -1.0, "upper": 2.0}, -0.8,
        conditional(laplace(-0.8, B), -1.0, 2.0), conditional(laplace(-0.8, 1 / 0.7), -1.0, 2.0), -1, 2,
    ),
    "LaplaceBoundedNoise": (
        peer.LaplaceBoundedNoise, {"epsilon": 0.7, "delta": 0.05, "sensitivity": 1.0}, 0.3,
        conditional(laplace(0.3, 1 / 0.7), 0.3 - A, 0.3 + A), laplace(0.3, 1 / 0.7), 0.3 - A, 0.3 + A,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_reals_have_the_exact_law(name: str) -> None:
    kind, parameters, x, law, twin, low, high = REAL[name]
    mechanism = kind(**parameters, random_state=1)
    draws = mechanism.randomise(np.full(N, x))
    assert fit(draws, law, low, high) > ERROR_RATE
    assert fit(draws, twin, low, high) < ERROR_RATE
    one_by_one = np.array([mechanism.randomise(x) for _ in range(SINGLE)])
    assert fit(one_by_one, law, low, high) > ERROR_RATE


def discrete(scale: float, x: int, reach: int) -> Array:
    """P(x + Z = z) for z from −reach to reach, P(Z = z) ∝ e^(−|z|/t); the ends have the tails."""
    z, r = np.arange(-reach, reach + 1) - x, math.exp(-1 / scale)
    law = (1 - r) / (1 + r) * r ** np.abs(z)
    law[0], law[-1] = r ** abs(z[0]) / (1 + r), r ** z[-1] / (1 + r)
    return np.asarray(law)


def discrete_gaussian(scale: float, x: int, reach: int) -> Array:
    """The same with P(Z = z) ∝ e^(−z²/2σ²)."""
    law = np.exp(-((np.arange(-reach, reach + 1) - x) ** 2) / (2 * scale**2))
    return np.asarray(law / law.sum())


def clipped(law: Array, lower: int, upper: int) -> Array:
    """Of a sum on −reach, …, reach that is moved to the nearer bound."""
    reach = len(law) // 2
    places = np.clip(np.arange(-reach, reach + 1), lower, upper) + reach
    return np.bincount(places, law, minlength=len(law))


def reflected(law: Array, low: int, high: int) -> Array:
    """Of a sum that is reflected at bounds, which are given doubled."""
    reach = len(law) // 2
    out = np.zeros(len(law))
    for z, mass in zip(range(-reach, reach + 1), law, strict=True):
        place = 2 * z
        while not low <= place <= high:
            place = 2 * low - place if place < low else 2 * high - place
        out[place // 2 + reach] += mass
    return out


REACH = 60
Z = accounting.exact_discrete_gaussian_scale(0.8, 0.01, 2)
WHOLE: dict[str, tuple[type, dict[str, Any], Array, Array]] = {
    "Geometric": (peer.Geometric, {"epsilon": 0.6, "sensitivity": 2}, discrete(2 / 0.6, 1, REACH), discrete(3.2, 1, REACH)),
    "GeometricTruncated": (
        peer.GeometricTruncated, {"epsilon": 0.6, "lower": -2, "upper": 4},
        clipped(discrete(1 / 0.6, 1, REACH), -2, 4), discrete(1 / 0.6, 1, REACH),
    ),
    "GeometricFolded": (
        peer.GeometricFolded, {"epsilon": 0.6, "lower": -2, "upper": 4},
        reflected(discrete(1 / 0.6, 1, REACH), -4, 8), clipped(discrete(1 / 0.6, 1, REACH), -2, 4),
    ),
    "GeometricFolded at halves": (
        peer.GeometricFolded, {"epsilon": 0.6, "lower": -0.5, "upper": 4.5},
        reflected(discrete(1 / 0.6, 1, REACH), -1, 9), reflected(discrete(1 / 0.6, 1, REACH), 0, 8),
    ),
    "GaussianDiscrete": (
        peer.GaussianDiscrete, {"epsilon": 0.8, "delta": 0.01, "sensitivity": 2},
        discrete_gaussian(Z, 1, REACH), discrete_gaussian(1.04 * Z, 1, REACH),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_integers_have_the_exact_law(name: str) -> None:
    kind, parameters, law, twin = WHOLE[name]
    mechanism = kind(**parameters, random_state=1)

    def counts(draws: Any) -> Array:
        return np.bincount(np.clip(draws, -REACH, REACH) + REACH, minlength=2 * REACH + 1)

    draws = counts(mechanism.randomise(np.full(N, 1)))
    assert p_value(draws, law) > ERROR_RATE
    assert p_value(draws, twin) < ERROR_RATE
    assert p_value(counts([mechanism.randomise(1) for _ in range(SINGLE)]), law) > ERROR_RATE


def normalised(weights: Any) -> Array:
    return np.asarray(weights) / np.sum(weights)


UTILITY, MEASURE = np.array([0.0, 1.0, 2.5, 1.0]), np.array([3.0, 0.5, 0.2, 1.0])


def permute_and_flip(utility: Array, scale: float) -> Array:
    """The algorithm: in random order, take r with probability e^((u_r − max u)/b), until one is taken."""
    take, law = np.exp((utility - utility.max()) / scale), np.zeros(len(utility))
    orders = list(itertools.permutations(range(len(utility))))
    for order in orders:
        left = 1.0
        for r in order:
            law[r] += left * take[r] / len(orders)
            left *= 1 - take[r]
    return law


FLIPS = permute_and_flip(UTILITY, 2.5)
PAIRS = [("a", "b", 1.0), ("a", "c", 3.0), ("b", "c", 2.0)]
CHOICES: dict[str, tuple[Any, Any, list[Any], Array, Array]] = {
    "Binary": (
        lambda seed: peer.Binary(epsilon=0.9, value0="x", value1="y", random_state=seed), "y", ["x", "y"],
        normalised([1, math.exp(0.9)]), normalised([1, math.exp(1.0)]),
    ),
    "Exponential": (
        lambda seed: peer.Exponential(epsilon=0.8, sensitivity=1, utility=UTILITY.tolist(), random_state=seed), None, [0, 1, 2, 3],
        normalised(np.exp(UTILITY / 2.5)), normalised(np.exp(UTILITY / 1.25)),
    ),
    "Exponential, monotonic": (
        lambda seed: peer.Exponential(epsilon=0.4, sensitivity=1, utility=UTILITY.tolist(), monotonic=True, random_state=seed), None,
        [0, 1, 2, 3], normalised(np.exp(UTILITY / 2.5)), normalised(np.exp(UTILITY / 5)),
    ),
    "Exponential with a measure": (
        lambda seed: peer.Exponential(
            epsilon=0.8, sensitivity=1, utility=UTILITY.tolist(), measure=MEASURE.tolist(), candidates=list("pqrs"), random_state=seed
        ), None, list("pqrs"), normalised(MEASURE * np.exp(UTILITY / 2.5)), normalised(np.exp(UTILITY / 2.5)),
    ),
    "PermuteAndFlip": (
        lambda seed: peer.PermuteAndFlip(epsilon=0.8, sensitivity=1, utility=UTILITY.tolist(), random_state=seed), None, [0, 1, 2, 3],
        FLIPS, normalised(np.exp(UTILITY / 2.5)),
    ),
    "ExponentialCategorical": (
        lambda seed: peer.ExponentialCategorical(epsilon=1.5, utility_list=PAIRS, random_state=seed), "a", ["a", "b", "c"],
        normalised(np.exp([0, -1.5 / 6, -4.5 / 6])), normalised(np.exp([0, -1.5 / 3, -4.5 / 3])),
    ),
    "ExponentialHierarchical": (
        lambda seed: peer.ExponentialHierarchical(epsilon=1.5, hierarchy=[["a", "b"], ["c", "d"]], random_state=seed), "a", list("abcd"),
        normalised(np.exp([0, -0.75, -1.5, -1.5])), normalised(np.exp([0, -0.75 / 2, -0.75, -0.75])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_choices_have_the_exact_law(name: str) -> None:
    make, value, labels, law, twin = CHOICES[name]
    mechanism = make(1)
    drawn = [mechanism.randomise(value) for _ in range(2 * SINGLE)]
    assert set(drawn) <= set(labels)
    counts = np.array([drawn.count(label) for label in labels])
    assert p_value(counts, law) > ERROR_RATE
    assert p_value(counts, twin) < ERROR_RATE


@pytest.mark.parametrize("name", ["ExponentialCategorical", "ExponentialHierarchical"])
def test_categories_without_a_table_have_the_same_law(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_choices, "_FEW", 0)
    monkeypatch.setattr(_choices, "table_of", None)
    test_choices_have_the_exact_law(name)


def test_a_table_draws_bits_until_they_decide() -> None:
    table = _tables.Table((Fraction(0), Fraction(-1), Fraction(-2)))
    total = 1 + math.exp(-1) + math.exp(-2)
    bits = [int(2**53 * share) for share in (1 / total, (1 + math.exp(-1)) / total)]

    def index(*numbers: float) -> tuple[int, int]:
        left = list(numbers)
        return table.index(lambda: left.pop(0)), len(left)

    assert index(0.0) == (0, 0)
    assert index(1 - 2.0**-53) == (2, 0)
    lows, highs = table._first
    assert lows == highs
    assert all(abs(found - expected) <= 4 for found, expected in zip(lows, bits, strict=True))
    for place, threshold in enumerate(lows):
        assert index((threshold - 1) * 2.0**-53) == (place, 0)
        assert index((threshold + 1) * 2.0**-53) == (place + 1, 0)
        assert index(threshold * 2.0**-53, 0.0) == (place, 0)  # the next 53 bits decide
        assert index(threshold * 2.0**-53, 1 - 2.0**-53) == (place + 1, 0)


def test_a_coin_draws_bits_until_they_decide() -> None:
    p = logistic_complement(1.0)
    threshold = p.floor(53)
    for numbers, expected in (([threshold - 1], True), ([threshold + 1], False), ([threshold, 0], True), ([threshold, 2**53 - 1], False)):
        left = [number * 2.0**-53 for number in numbers]
        assert _tables.coin(p, lambda left=left: left.pop(0)) is expected  # type: ignore[misc]
        assert not left


def test_categories_of_different_sums_use_the_larger_scale() -> None:
    """diffprivlib takes sums of exponentials that agree to 10^-5 for equal, and then halves the scale; only equal ones allow that."""
    nearly = [("a", "b", 1.0), ("a", "c", 1.0), ("b", "c", 1.000001)]
    mechanism = peer.ExponentialCategorical(epsilon=1.0, utility_list=nearly, random_state=1)
    drawn = [mechanism.randomise("a") for _ in range(SINGLE)]
    counts = np.array([drawn.count(label) for label in "abc"])
    assert p_value(counts, normalised(np.exp([0, -0.5, -0.5]))) > ERROR_RATE
    assert p_value(counts, normalised(np.exp([0, -1.0, -1.0]))) < ERROR_RATE
