"""The error bounds of the fast tier, measured: no point may leave them, at any level, hard inputs included."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from mpmath import MPContext

from dpcore._kernels import _dispatch
from support.kernels import KEY, LEVELS, Array, at_level

U = 2.0**-53
ALPHA, BETA_LAPLACE, BETA_GAUSSIAN = 8.0, 5.0, 10.0
"""The bound of core/noise.c in units of u: alpha + beta·|sample|."""
GROUP, HALF = 128, 64
each_level = pytest.mark.parametrize("level", LEVELS)


def context() -> MPContext:
    """100 bits, in a context of its own."""
    mp = MPContext()
    mp.prec = 100
    return mp


def words_of_keystream(n: int, group: int = 0) -> Array:
    """Random words, whole groups."""
    return np.frombuffer(_dispatch.bulk_words(KEY, 0, 0, 0, group, n // GROUP), np.uint64).copy()


def hard_magnitudes() -> Array:
    """Words near the ends of the fast path and near the borders of the reduction to [√½, √2)."""
    borders = [2**50, 2**63 - 1, *(int(2.0**63 * 2.0 ** -(k + 0.5)) for k in range(13)), *(2 ** (63 - k) for k in range(1, 13))]
    near = [border + step for border in borders for step in range(-8, 9)]
    magnitudes = np.array([m for m in near if 2**50 <= m < 2**63], np.uint64)
    words = np.concatenate([magnitudes, ~magnitudes])
    return np.resize(words, -(-len(words) // GROUP) * GROUP)


def exponential_errors(words: Array) -> list[float]:
    """|error|/bound of every lane that the fast path may decide; the bits not seen count at their worst."""
    mp = context()
    out = np.empty(len(words))
    _dispatch.exponential_raw(words, out)
    signed = words.view(np.int64)
    ratios = []
    for word, e in zip(signed.tolist(), out.tolist(), strict=True):
        magnitude = word if word >= 0 else -word - 1
        if magnitude < 2**50:
            continue
        error = max(abs(mp.mpf(e) + mp.log(mp.mpf(end) / 2**63)) for end in (magnitude, magnitude + 1) if end)
        ratios.append(float(error) / (U * (ALPHA + BETA_LAPLACE * e)))
    return ratios


def normal_errors(words: Array) -> list[float]:
    """The same for Box-Muller pairs, with the first word of each pair the radius."""
    mp = context()
    out = np.empty(len(words))
    _dispatch.normal_raw(words, out)
    ratios = []
    for group in range(0, len(words), GROUP):
        for i in range(group, group + HALF):
            radius, angle = int(words[i]), int(words[i + HALF])
            if radius < 2**49 or radius > 2**64 - 2**40:
                continue
            r = mp.sqrt(-2 * mp.log((mp.mpf(radius) + mp.mpf(1) / 2) / 2**64))
            turn = 2 * mp.pi * (mp.mpf(angle) + mp.mpf(1) / 2) / 2**64
            for z, ideal in ((out[i], r * mp.cos(turn)), (out[i + HALF], r * mp.sin(turn))):
                ratios.append(float(abs(mp.mpf(float(z)) - ideal)) / (U * (ALPHA + BETA_GAUSSIAN * float(r))))
    return ratios


@each_level
def test_exponential_stays_inside_its_bound(level: str) -> None:
    with at_level(level):
        random, hard = exponential_errors(words_of_keystream(30 * 1024)), exponential_errors(hard_magnitudes())
    assert len(random) > 29_000
    assert max(random) <= 1.0
    assert max(hard) <= 1.0
    assert max(random) > 1 / 16, "a bound sixteen times too wide would make the broken twin of test_tiers pass"


@each_level
def test_normal_stays_inside_its_bound(level: str) -> None:
    radii = hard_magnitudes() << np.uint64(1)
    radii = radii[: len(radii) // HALF * HALF]
    angles = np.array([(octant << 61) + step for octant in range(8) for step in range(-4, 4)], object) % 2**64
    hard = np.concatenate([np.concatenate([chunk, np.array(angles.tolist(), np.uint64)]) for chunk in radii.reshape(-1, HALF)])
    with at_level(level):
        random, edges = normal_errors(words_of_keystream(20 * 1024)), normal_errors(hard)
    assert max(random) <= 1.0
    assert max(edges) <= 1.0
    assert max(random) > 1 / 16


@pytest.mark.long
@each_level
def test_bounds_on_many_points(level: str) -> None:
    worst_exponential = worst_normal = 0.0
    with at_level(level):
        for part in range(35):
            words = words_of_keystream(100 * 1024, 10_000 + 800 * part)
            worst_exponential = max(worst_exponential, *exponential_errors(words))
            worst_normal = max(worst_normal, *normal_errors(words))
    print(f"{level}: {worst_exponential:.3f} and {worst_normal:.3f} of the bounds on {35 * 100 * 1024} points")
    assert worst_exponential <= 1.0
    assert worst_normal <= 1.0


@pytest.mark.source_tree
def test_polynomials_have_the_error_their_comment_names() -> None:
    source = (Path(__file__).parents[2] / "src" / "_kernels" / "kernels" / "lanes.h").read_text()
    mp = context()

    def coefficients(function: str) -> list[float]:
        body = re.search(rf"double {function}\(double z\) \{{(.*?)\n\}}", source, re.DOTALL)
        assert body is not None
        pairs = re.findall(r"double p(\d)(\d) = muladd\((\S+), z, (\S+)\);", body[1])
        found = {int(high): float.fromhex(c) for _, high, c, _ in pairs} | {int(low): float.fromhex(c) for low, _, _, c in pairs}
        top = re.search(r"muladd\((-?0x\S+), z2, p45\)", body[1])
        return [found[k] for k in range(len(found))] + ([float.fromhex(top[1])] if top else [])

    def worst(function: str, ideal: object, weight: object, high: float) -> float:
        c = coefficients(function)
        grid = [mp.mpf(high) * (2 * i + 1) / 8000 for i in range(4000)]
        return float(max(abs(weight(z) * (ideal(z) - sum(mp.mpf(a) * z**k for k, a in enumerate(c)))) for z in grid))  # type: ignore[operator]

    largest = float((mp.sqrt(2) - 1) ** 2 / (mp.sqrt(2) + 1) ** 2)
    log_error = worst("atanh_tail", lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, lambda z: z * mp.sqrt(z), largest)
    sin_error = worst("sin_over_r", lambda z: mp.sin(mp.pi * mp.sqrt(z) / 2) / mp.sqrt(z), mp.sqrt, 0.25)
    cos_error = worst("cos_tail", lambda z: (mp.cos(mp.pi * mp.sqrt(z) / 2) - 1) / z, lambda z: z, 0.25)
    assert log_error <= 2.0**-59.1
    assert sin_error <= 2.0**-53.2
    assert cos_error <= 2.0**-52.1
