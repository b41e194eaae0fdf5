"""The law of the noise against exact probabilities, on one CPU level; the other levels follow by bit identity.

Every check has an error rate of 10^-6 and twins with a small fault that it must reject: a scale that is 1 % too large, a zero that is
counted from one side only (or from both, where the law counts it once), a sign that is drawn for nine values in ten.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.kernels import AES_LEVELS, Array, Law, at_level
from support.laws import (
    ERROR_RATE,
    binomial_p_value,
    count,
    gaussian_upper,
    integers_law,
    laplace_upper,
    mean_p_value,
    p_value,
    steps_law,
)

N = 10**7
REACH = 600
GRID_LAWS = (
    Law("laplace", 0.7, 1.0),
    Law("laplace", 3.3, 0.25),
    Law("laplace", 40.0, 1.0),
    Law("gaussian", 0.7, 1.0),
    Law("gaussian", 3.3, 0.25),
    Law("gaussian", 40.0, 1.0),
)
DISCRETE_LAWS = tuple(Law(kind, scale) for kind in ("discrete_laplace", "discrete_gaussian") for scale in (0.3, 1.0, 3.0, 7.9, 8.5, 20.0))
LAWS = GRID_LAWS + DISCRETE_LAWS
OFFSET = 0.3
each_law = pytest.mark.parametrize("law", LAWS, ids=str)


def steps(law: Law, scale: float | None = None, *, secure: bool = False) -> Array:
    """Draws in units of the grid, added to `OFFSET` where the law is a real one; `scale` replaces the law's own."""
    values = law.zeros(N) if law.discrete else np.full(N, OFFSET)
    drawn: Array = law.add(values, scale=law.scale if scale is None else scale, out=values, secure=secure)
    return drawn / law.grid if law.grid else drawn


def fit(law: Law, drawn: Array) -> float:
    """p-value of the draws under the exact law."""
    exact = integers_law(law, REACH) if law.discrete else steps_law(law, OFFSET, REACH)
    return p_value(count(drawn, REACH), exact)


@pytest.mark.some(6)
@each_law
def test_every_outcome_has_its_probability(law: Law) -> None:
    assert fit(law, steps(law)) > ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("level", AES_LEVELS[:1])  # where no level has AES, pytest reports an empty set as skipped
@each_law
def test_every_outcome_has_its_probability_under_aes(law: Law, level: str) -> None:
    with at_level(level):
        drawn = steps(law, secure=True)
        assert fit(law, drawn) > ERROR_RATE
        assert fit(law, steps(law, law.scale * 1.01, secure=True)) <= ERROR_RATE
    assert not np.array_equal(drawn, steps(law))


@pytest.mark.some(3)
@each_law
def test_a_scale_one_percent_too_large_is_rejected(law: Law) -> None:
    assert fit(law, steps(law, law.scale * 1.01)) <= ERROR_RATE


@pytest.mark.some(2)
@each_law
def test_a_zero_from_one_side_is_rejected(law: Law) -> None:
    drawn = steps(law)
    zeros = np.flatnonzero(drawn == 0)
    drawn[zeros[::2]] = 1  # as if only one sign of a zero magnitude were kept
    assert fit(law, drawn) <= ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("law", [law for law in DISCRETE_LAWS if law.kind == "discrete_laplace"], ids=str)
def test_a_zero_from_both_sides_is_rejected(law: Law) -> None:
    plain = np.random.default_rng(8)
    magnitude = plain.geometric(-math.expm1(-1 / law.scale), N) - 1
    assert fit(law, np.where(plain.random(N) < 0.5, magnitude, -magnitude)) <= ERROR_RATE


@pytest.mark.some(2)
@each_law
def test_a_bias_of_the_sign_is_rejected(law: Law) -> None:
    drawn = steps(law)
    drawn[::10] = np.abs(drawn[::10])
    assert fit(law, drawn) <= ERROR_RATE


# Moments of the real laws on their default grid, whose step is far below the resolution of these tests

MOMENTS = {"laplace": (1.0, 2.0, 24.0, 720.0, 40320.0), "gaussian": (math.sqrt(2 / math.pi), 1.0, 3.0, 15.0, 105.0)}
"""E|W|, and E W² to E W⁸."""


def moment_p_values(kind: str, w: Array) -> list[float]:
    """Sign, mean, E|W|, variance, E W³ and E W⁴, each by its own normal limit."""
    absolute, second, fourth, sixth, eighth = MOMENTS[kind]
    square = w * w
    return [
        binomial_p_value(int(np.count_nonzero(w > 0)), len(w), 0.5),
        mean_p_value(w, 0.0, second),
        mean_p_value(np.abs(w), absolute, second - absolute**2),
        mean_p_value(square, second, fourth - second**2),
        mean_p_value(square * w, 0.0, sixth),
        mean_p_value(square * square, fourth, eighth - fourth**2),
    ]


@pytest.mark.some(2)
@pytest.mark.parametrize("scale", [1.0, 2.0**-900, 1.9 * 2.0**959])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_moments(kind: str, scale: float) -> None:
    assert min(moment_p_values(kind, Law(kind, scale).draw(N, 7) / scale)) > ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_wrong_moments_are_rejected(kind: str) -> None:
    w = Law(kind, 1.0).draw(N, 7)
    assert min(moment_p_values(kind, w * 1.01)) <= ERROR_RATE
    assert min(moment_p_values(kind, w + 0.01)) <= ERROR_RATE
    assert min(moment_p_values(kind, np.concatenate([w[:-10000], np.abs(w[-10000:])]) + 0.0005)) <= ERROR_RATE
    assert min(moment_p_values(kind, np.clip(w, -3, 3))) <= ERROR_RATE


@pytest.mark.long
def test_neighbours_are_independent() -> None:
    """Members of a pair, neighbours, and neighbours in the keystream's transposed rows: products of both signs and magnitudes."""
    for kind in ("laplace", "gaussian"):
        w = Law(kind, 1.0).draw(N, 0)
        second = MOMENTS[kind][1]
        centred = w * w - second
        spread = MOMENTS[kind][2] - second**2
        for lag in (1, 8, 16, 64, 128, 512):
            assert mean_p_value(w[lag:] * w[:-lag], 0.0, second**2) > ERROR_RATE
            assert mean_p_value(centred[lag:] * centred[:-lag], 0.0, spread**2) > ERROR_RATE
        twin = w.copy()
        twin[64:] += 0.01 * w[:-64]
        assert mean_p_value(twin[64:] * twin[:-64], 0.0, second**2) <= ERROR_RATE


# Tails


def tail_counts(law: Law, n: int, at: tuple[float, ...]) -> list[int]:
    """How many of n draws lie at or beyond ±t·scale, for each t."""
    found, piece = [0] * len(at), 1 << 22
    buffer = np.zeros(piece)
    for start in range(0, n, piece):
        buffer[:] = 0.0
        magnitude = np.abs(law.add(buffer, start, out=buffer), out=buffer)
        far = magnitude[magnitude >= min(at) * law.scale]
        found = [seen + int(np.count_nonzero(far >= t * law.scale)) for seen, t in zip(found, at, strict=True)]
    return found


def check_tails(kind: str, at: tuple[float, ...], n: int) -> None:
    upper = laplace_upper if kind == "laplace" else gaussian_upper
    n = -(-n // (1 << 22)) << 22
    for t, found in zip(at, tail_counts(Law(kind, 1.0), n, at), strict=True):
        expected = 2 * float(upper(np.array(t)))
        assert binomial_p_value(found, n, expected) > ERROR_RATE, t
        # A twin: a tail that is three times as heavy, or cut off, would be noticed at each of these points.
        if n * expected >= 15:
            assert binomial_p_value(3 * found, n, expected) <= ERROR_RATE, t
            assert binomial_p_value(0, n, expected) <= ERROR_RATE, t


@pytest.mark.long
def test_tails() -> None:
    check_tails("laplace", (3, 6, 8, 10, 12, 14), 5 * 10**7)
    check_tails("gaussian", (2, 3, 4, 4.5, 5, 5.3), 5 * 10**7)


@pytest.mark.long
def test_tails_beyond_twenty_scales() -> None:
    check_tails("laplace", (12, 14, 16, 18, 20), 10**10)  # 20 scales: 21 draws are expected
    check_tails("gaussian", (5, 5.5, 6, 6.2), 10**10)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_tails_of_discrete_laws(kind: str) -> None:
    law = Law(f"discrete_{kind}", 20.0)
    magnitude = np.abs(law.draw(N))
    exact = integers_law(law, 2000)
    for t in range(20, 200 if kind == "laplace" else 100, 20):
        expected = float(exact[: 2000 - t + 1].sum() * 2)
        assert binomial_p_value(int(np.count_nonzero(magnitude >= t)), N, expected) > ERROR_RATE
        assert binomial_p_value(int(np.count_nonzero(magnitude >= t - 1)), N, expected) <= ERROR_RATE or expected * N < 5000
