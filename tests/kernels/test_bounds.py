"""The fast path's error bound, measured: every unit sample is within α + β·size of the number that its words stand for.

The bits that the fast path does not see count as error: the reference has them at their middle, and half of their weight is added.
u = 2^-53. Printed with `pytest -rP`: the largest error seen, in u and as a fraction of the bound.
"""

from __future__ import annotations

import re
from pathlib import Path

import mpmath
import numpy as np
import pytest

from dpcore._kernels import _dispatch
from support.kernels import LEVELS, Array, at_level
from support.reference import exponential_reference, normal_reference, on_all_cores

U = 2.0**-53
ALPHA, BETA_LAPLACE, BETA_GAUSSIAN = 8 * U, 5 * U, 10 * U  # core/noise.c; a test below reads them there
GROUP, HALF = 128, 64
POINTS, MANY = 10 * 1024, 10**7 // GROUP * GROUP + GROUP
TOO_SMALL = 1 / 16


# Words


def spread_words(n: int, seed: int) -> Array:
    """Half uniform; half of them near powers of two times 1 or √½, at both ends, where reductions change their branch."""
    plain = np.random.default_rng(seed)
    words = plain.integers(0, 2**64, n, dtype=np.uint64)
    edge = n // 2
    exponents = plain.integers(0, 64, edge).astype(np.uint64)
    near = np.where(plain.random(edge) < 0.5, np.uint64(1) << exponents, np.uint64(0xB504F333F9DE6484) >> exponents)
    jitter = plain.integers(0, 2**64, edge, dtype=np.uint64) >> np.minimum(plain.integers(0, 64, edge), 63).astype(np.uint64)
    near = np.where(plain.random(edge) < 0.5, near + jitter, near - jitter)
    words[:edge] = np.where(plain.random(edge) < 0.5, near, ~near)
    plain.shuffle(words)
    return words


def magnitudes(words: Array) -> Array:
    """|X|·2^63 without its fraction."""
    return np.where(words >> np.uint64(63) == 1, ~words, words)


def normal_words(n: int, seed: int = 2) -> Array:
    """Rows (word of U, word of V)."""
    return np.stack([spread_words(n, seed), spread_words(n, seed + 1)], axis=1)


# Errors


def exponential_errors(words: Array, reference: Array) -> tuple[Array, Array]:
    """Errors and bounds of what the fast path decides itself, at the level in use; it decides wherever |X| > 2^-13."""
    measured = np.empty(len(words))
    _dispatch.exponential_raw(words, measured)
    size = magnitudes(words).astype(np.float64)
    decided = ~np.isnan(measured)
    assert np.all(decided[size > 2.0**50])
    error = np.abs((measured - reference[:, 0]) - reference[:, 1]) + 0.5000001 / np.maximum(size, 0.5)
    return error[decided], (ALPHA + BETA_LAPLACE * reference[:, 0])[decided]


def normal_errors(pairs: Array, reference: Array) -> tuple[Array, Array]:
    """Errors and bounds of both members of what the fast path decides itself, where U ≥ 2^-15 and 1 − U > 2^-24 at least."""
    groups = pairs.reshape(-1, HALF, 2).transpose(0, 2, 1).copy()  # in a group: 64 words of U, then 64 of V
    measured = np.empty(groups.size)
    _dispatch.normal_raw(groups.reshape(-1), measured)
    members = measured.reshape(-1, 2, HALF).transpose(1, 0, 2).reshape(2, -1)
    radius = reference[:, 0]
    u = (pairs[:, 0].astype(np.float64) + 0.5) * 2.0**-64
    unseen = 1.01 * 2.0**-65 * (1 / (u * radius) + 2 * np.pi * radius)  # |dR/dU| = 1/(U·R), |d/dV| = 2πR
    errors = [np.abs((members[k] - reference[:, 1 + 2 * k]) - reference[:, 2 + 2 * k]) + unseen for k in (0, 1)]
    decided = ~np.isnan(members)
    assert np.array_equal(*decided)
    assert np.all(decided[0, (pairs[:, 0] >= 2**49) & (pairs[:, 0] < 2**64 - 2**40)])
    return np.maximum(*errors)[decided[0]], (ALPHA + BETA_GAUSSIAN * radius)[decided[0]]


def check(name: str, errors: Array, bounds: Array) -> None:
    """All errors are within their bounds, and a bound divided by sixteen would not hold."""
    worst = int(np.argmax(errors / bounds))
    print(f"{name}: largest error {errors.max() / U:.3f} u, at most {errors[worst] / bounds[worst]:.3f} of the bound, {len(errors)} points")
    assert np.all(errors <= bounds)
    assert np.any(errors > TOO_SMALL * bounds)


@pytest.fixture(scope="module")
def exponential_points() -> tuple[Array, Array]:
    words = spread_words(POINTS, 1)
    return words, exponential_reference(words)


@pytest.fixture(scope="module")
def normal_points() -> tuple[Array, Array]:
    words = normal_words(POINTS)
    return words, normal_reference(words)


@pytest.mark.parametrize("level", LEVELS)
def test_exponential_is_within_its_bound(level: str, exponential_points: tuple[Array, Array]) -> None:
    with at_level(level):
        check(f"exponential, {level}", *exponential_errors(*exponential_points))


@pytest.mark.parametrize("level", LEVELS)
def test_normal_is_within_its_bound(level: str, normal_points: tuple[Array, Array]) -> None:
    with at_level(level):
        check(f"normal, {level}", *normal_errors(*normal_points))


@pytest.mark.long
def test_exponential_is_within_its_bound_on_ten_million_points() -> None:
    words = spread_words(MANY, 11)
    reference = on_all_cores(exponential_reference, words)
    for level in LEVELS:
        with at_level(level):
            check(f"exponential, {level}", *exponential_errors(words, reference))


@pytest.mark.long
def test_normal_is_within_its_bound_on_ten_million_points() -> None:
    words = normal_words(MANY, 12)
    reference = on_all_cores(normal_reference, words)
    for level in LEVELS:
        with at_level(level):
            check(f"normal, {level}", *normal_errors(words, reference))


def test_raw_samples_refuse_what_is_no_whole_group() -> None:
    for raw in (_dispatch.exponential_raw, _dispatch.normal_raw):
        raw(np.empty(0, np.uint64), np.empty(0))
        for n, m in ((GROUP, HALF), (HALF, HALF), (GROUP, 2 * GROUP)):
            with pytest.raises(ValueError, match="multiple of the group"):
                raw(np.zeros(n, np.uint64), np.zeros(m))


# The constants in the sources

HEX = re.compile(r"-?0x1(?:\.[0-9a-f]+)?p[+-]\d+")
mp = mpmath.MPContext()
mp.prec = 200


def function_body(source: str, name: str) -> str:
    """Text of one C function."""
    start = source.index(f" {name}(")
    return source[start : source.index("\n}", start)]


def coefficients(source: str, name: str) -> list[float]:
    """Coefficients in rising order: each line of the sources has a pair c[2k+1], c[2k]; a last single one stands alone."""
    found = [float.fromhex(text) for text in HEX.findall(function_body(source, name))]
    pairs, rest = found[: len(found) // 2 * 2], found[len(found) // 2 * 2 :]
    return [c for k in range(0, len(pairs), 2) for c in (pairs[k + 1], pairs[k])] + rest


def polynomial(coefficients: list[float], z: mpmath.mpf) -> mpmath.mpf:
    """Horner's scheme; mpmath's own function takes the coefficients in an order that depends on its version."""
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * z + c
    return total


def largest_error(name: str, coefficients: list[float]) -> mpmath.mpf:
    """Largest weighted difference between the polynomial and its function on a dense grid that has both ends."""
    functions = {
        "atanh_tail": (lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, lambda z: mp.sqrt(z) * z),
        "sin_over_r": (lambda z: mp.sin(mp.pi * mp.sqrt(z) / 2) / mp.sqrt(z), mp.sqrt),
        "cos_tail": (lambda z: (mp.cos(mp.pi * mp.sqrt(z) / 2) - 1) / z, lambda z: z),
    }
    function, weight = functions[name]
    high = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 if name == "atanh_tail" else mp.mpf(1) / 4
    points = [high * (k + 1) / 3000 for k in range(3000)]
    return max(abs(weight(z) * (function(z) - polynomial(coefficients, z))) for z in points)


@pytest.mark.long
@pytest.mark.source_tree
def test_polynomials_have_the_errors_that_are_written_beside_them(repository: Path) -> None:
    source = (repository / "src" / "_kernels" / "kernels" / "lanes.h").read_text(encoding="utf-8")
    stated = dict.fromkeys(("atanh_tail", "sin_over_r", "cos_tail"), 0.0)
    texts = re.findall(r"weighted errors? (2\^-\d+\.\d+(?: and 2\^-\d+\.\d+)?)", source)
    exponents = [float(e) for text in texts for e in re.findall(r"2\^(-\d+\.\d+)", text)]
    for name, exponent in zip(stated, exponents, strict=True):
        table = coefficients(source, name)
        error = float(mp.log(largest_error(name, table), 2))
        print(f"{name}: 2^{error:.2f}, stated 2^{exponent}")
        assert error <= exponent + 0.1
        wrong = [*table[:-1], table[-1] * (1 + 2.0**-10)]
        assert float(mp.log(largest_error(name, wrong), 2)) > error


@pytest.mark.source_tree
def test_constants_are_those_of_the_kernels(repository: Path) -> None:
    source = (repository / "src" / "_kernels" / "core" / "noise.c").read_text(encoding="utf-8")
    values = {name: int(factor) * U for name, factor in re.findall(r"(ALPHA|BETA_LAPLACE|BETA_GAUSSIAN) = (\d+) \* 0x1p-53", source)}
    assert values == {"ALPHA": ALPHA, "BETA_LAPLACE": BETA_LAPLACE, "BETA_GAUSSIAN": BETA_GAUSSIAN}
