"""Selection against slow twins in exact arithmetic: every method, edges of blocks, close and extreme scores, every form of array."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore import _backend
from dpcore._backend.words import KernelWords
from dpcore.errors import ParameterError
from dpcore.rng import StreamPosition
from support.kernels import AES_LEVELS, KEY, LEVELS, Array, at_level
from support.selection import KINDS, Twin, tied_score
from support.selection_calls import BY_KIND, METHODS, SEVERAL, Method, SecureStream, random_scores

each_method = pytest.mark.parametrize("method", METHODS, ids=str)
each_kind = pytest.mark.parametrize("method", BY_KIND, ids=str)
each_of_several = pytest.mark.parametrize("method", SEVERAL, ids=str)
HUGE = np.finfo(np.float64).max


def same(method: Method, scores: Array, s: int = 1, scale: float = 1.0, **options: Any) -> bool:
    found, expected = method.compare(scores, s, scale, **options)
    return bool(found == expected)


@pytest.mark.some(30)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025, 4095, 4097, 10_000])
@each_method
def test_sizes_around_the_edges_of_blocks(method, d):
    for spread in (0.0, 1.0, 30.0):
        assert same(method, random_scores(d, spread=spread), min(d, 3))


@pytest.mark.some(3)
@pytest.mark.parametrize("s", [1, 2, 5, 50, 299, 300])
@each_of_several
def test_how_many_are_selected(method, s):
    assert same(method, random_scores(300), s)
    assert same(method, np.zeros(300), s)


@pytest.mark.parametrize("d", [2, 9])
@each_of_several
def test_all_of_them(method, d):
    assert same(method, random_scores(d), d)


EXTREMES: dict[str, tuple[Array, float]] = {
    "sorted": (np.sort(random_scores(2000, spread=5.0)), 1.0),
    "sorted downwards": (np.sort(random_scores(2000, spread=5.0))[::-1], 1.0),
    "separated": (np.arange(1500.0) * 1000, 1.0),
    "one far above": (np.where(np.arange(1500) == 777, 1e9, 0.0), 1.0),
    "one far below": (np.where(np.arange(700) == 77, -HUGE, 0.0), 1.0),
    "most at the bottom": (np.where(np.arange(700) % 100 == 77, 0.0, -HUGE), 1.0),
    "equal and huge": (np.full(900, 1e300), 1.0),
    "equal, huge and negative": (np.full(900, -HUGE), 1e-3),
    "neighbours at 1e300": (np.where(np.arange(900) % 3 == 1, np.nextafter(1e300, np.inf), 1e300), 1.0),
    "both ends": (np.where(np.arange(600) % 2 == 1, HUGE, -HUGE), 2.0**900),
    "huge noise": (random_scores(900) * 1e290, 2.0**950),
    "denormal": (np.arange(900) * 5e-324, 2.0**-950),
    "denormal and even": (np.where(np.arange(900) % 7 == 1, 5e-324, 0.0), 1.0),
    "small noise": (random_scores(900) * 1e-287, 2.0**-950),
    "noise below the spacing": (1e6 + np.arange(900) % 3 * 2.0**-33, 2.0**-40),
    "zeros of both signs": (np.where(np.arange(900) % 2 == 1, -0.0, 0.0), 1.0),
    "int64 beyond 2^53": (2**62 + np.arange(900) % 5, 2.0),
    "int64, one unit": (2**63 - 1 - np.arange(900) % 2, 0.25),
    "int64, both ends": (np.where(np.arange(900) % 400 == 7, 2**63 - 1, -(2**63)), 2.0**61),
    "int64, spread over many of float64's steps": (2**62 + np.random.default_rng(6).integers(-3000, 3000, 900), 500.0),
    "int64, spread over a few steps": (-(2**54) + np.random.default_rng(7).integers(-30, 30, 900), 3.0),
    "int64, negative": (-(2**63) + np.arange(900) % 4, 1.0),
    "int8": (np.arange(900).astype(np.int8), 10.0),
    "uint32": ((np.arange(900) * 4_000_037 % 2**32).astype(np.uint32), 1e7),
    "uint8": ((np.arange(900) % 256).astype(np.uint8), 3.0),
    "float32": (random_scores(900).astype(np.float32), 0.3),
    "float16": (random_scores(900).astype(np.float16), 0.3),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("name", EXTREMES)
@each_method
def test_extreme_scores(method, name):
    scores, scale = EXTREMES[name]
    assert same(method, scores, 4, float(scale))


def forms(scores: Array) -> dict[str, Array]:
    """The same scores in other places of memory."""
    wide = np.zeros(3 * len(scores), scores.dtype)
    wide[1::3] = scores
    record = np.zeros(len(scores), [("gap", "i1"), ("value", scores.dtype)])
    record["value"] = scores
    read_only = scores.copy()
    read_only.flags.writeable = False
    matrix = np.zeros((len(scores), 5), scores.dtype, order="C")
    matrix[:, 2] = scores
    return {
        "steps": wide[1::3],
        "reversed": scores[::-1].copy()[::-1],
        "unaligned": record["value"],
        "read-only": read_only,
        "column": matrix[:, 2],
        "list": scores.tolist() if scores.dtype == np.float64 else scores,
    }


@pytest.mark.some(17)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint32", "uint16", "uint8"])
@each_method
def test_every_dtype_in_every_form(method, dtype):
    scores = (random_scores(1100, spread=3.0) + 20).astype(dtype)
    found, expected = method.compare(scores, 3, 2.0)
    assert found == expected
    for name, form in forms(scores).items():
        assert method.compare(form if isinstance(form, np.ndarray) else np.array(form), 3, 2.0)[0] == expected, name


@pytest.mark.parametrize("first", [512, 1024 * 3, 2**32 - 512, 2**40 + 1024])
@each_method
def test_far_places_of_the_stream(method, first):
    assert same(method, random_scores(600), 3, first=first)


def test_the_end_of_the_stream():
    """Elements are 64-bit numbers: the last block is used, and a round beyond it refused."""
    scores, last = random_scores(400), 2**64 - 512
    for kind in KINDS:
        call = _backend.Selection(kind, scores, 1.0, 3, StreamPosition(KEY, 0, last), threads=1)
        assert call.largest(0).tolist() == Twin(kind, Fraction(1), KernelWords(KEY, 0, 0), last).largest(scores, 3)
        with pytest.raises(ParameterError, match="room"):
            call.largest(1)
        with pytest.raises(ParameterError, match="room"):
            call.winners(2)
        with pytest.raises(ParameterError, match="room"):
            call.peel(2)


@pytest.mark.parametrize("level", LEVELS)
@each_method
def test_every_level_has_the_same_twin(method, level):
    with at_level(level):
        for d in (5, 600, 2500):
            assert same(method, random_scores(d, seed=d), 4)


@pytest.mark.parametrize("level", AES_LEVELS)
@each_method
def test_the_secure_cipher_has_the_same_twin(method, level):
    scores = random_scores(1300)
    with at_level(level):
        found = method.draw(scores, 4, 1.0, rng=SecureStream())
    twin = Twin(method.kind, Fraction(1), KernelWords(KEY, 0, 1))
    assert found == method.expected(twin, scores, 4)


# Close scores


def tied_pairs(twin: Twin, pairs: int) -> list[Array]:
    """Scores of which two keys are as near as float64 allows, at the nearest score and the two next to it; the others are far below."""
    cases = []
    for p in range(pairs):
        i, j, d = 3 * p, 3 * p + 7, 3 * p + 9
        for step in (-1, 0, 1):
            scores = np.full(d, -1e6 * float(twin.scale))
            scores[i], scores[j] = 0.0, tied_score(twin, i, j)
            scores[j] = np.nextafter(scores[j], step * np.inf) if step else scores[j]
            cases.append(scores)
    return cases


@pytest.mark.some(6)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [1.0, 0.3, 2.0**-700, 3e200])
@each_kind
def test_keys_that_differ_by_the_last_bit_of_a_score(method, scale, level):
    twin = method.twin(scale)
    with at_level(level):
        for scores in tied_pairs(twin, 12):
            assert same(method, scores, scale=scale)


@each_kind
def test_a_twin_that_reads_too_few_bits_is_caught(method):
    wrong, coarse = 0, method.twin(1.0, bits=48)
    for scores in tied_pairs(method.twin(1.0), 20):
        wrong += coarse.largest(scores, 1) != method.compare(scores)[1]
    assert wrong >= 8


def nearest_noises(twin: Twin, n: int) -> list[tuple[int, int]]:
    """Pairs of the first n elements whose noises are nearest to each other."""
    noises = np.array([float(twin.noise(twin.first + i)) for i in range(n)])
    order = np.argsort(noises)
    gaps = np.diff(noises[order])
    return [(int(order[k]), int(order[k + 1])) for k in np.argsort(gaps)[:5]]


@pytest.mark.long
@each_kind
def test_keys_that_only_more_than_a_hundred_bits_tell_apart(method):
    """Two noises that are near by chance: the float64 nearest to their difference is much nearer to it than one rounding of a score."""
    twin = method.twin(1.0)
    for i, j in nearest_noises(twin, 3000):
        score = tied_score(twin, i, j)
        gap = abs(Fraction(score) - (twin.noise(i) - twin.noise(j)))
        assert 0 < gap < Fraction(1, 2**70)
        for value in (score, np.nextafter(score, -1), np.nextafter(score, 1)):
            scores = np.full(3000, -1e9)
            scores[i], scores[j] = 0.0, value
            assert same(method, scores)


@each_kind
def test_close_keys_on_top_of_huge_scores(method):
    """The same contest at a distance from zero: scores that float64 or int64 hold exactly, noise far below their spacing or near it."""
    for base in (2**40, 2**53 - 10_000, 2**62):
        for scale in (1.0, 1000.0):
            twin = method.twin(scale)
            for i, j in ((0, 9), (4, 700)):
                difference = round(twin.scale * (twin.noise(i) - twin.noise(j)))
                for step in (-1, 0, 1):
                    scores = np.full(900, base - 10**8)
                    scores[i], scores[j] = base, base + difference + step
                    assert same(method, scores, scale=scale)


def test_equal_keys_in_order_of_selection():
    """Several pairs of near ties among the selected: their order is part of the answer."""
    method = next(m for m in METHODS if m.name == "top_s-gumbel")
    twin = method.twin(1.0)
    scores = np.full(700, -1e6)
    for p in range(12):
        i, j = 40 * p, 40 * p + 17
        scores[i] = -30.0 * p
        scores[j] = tied_score(twin, i, j, scores[i])
    for step in (-np.inf, np.inf, None):
        moved = scores if step is None else np.nextafter(scores, step)
        for s in (1, 2, 7, 23, 24):
            assert same(method, moved, s)


# Anything


def random_call(plain: np.random.Generator) -> tuple[Array, int, float]:
    """Scores of any kind, how many to select, and a scale that is often near the spacing of the scores."""
    d = int(plain.choice([1, 2, 5, 30, 513, 1200]))
    exponent = int(plain.integers(-80, 80) if plain.random() < 0.7 else plain.integers(-900, 900))
    scale = float(np.ldexp(plain.uniform(1, 2), exponent))
    form = plain.integers(5)
    if form == 0:
        scores = plain.standard_normal(d) * scale * 2.0 ** int(plain.integers(-4, 8))
    elif form == 1:  # a few values, some of them one step apart
        base = np.float64(plain.standard_normal() * min(scale * 2.0 ** int(plain.integers(0, 70)), 1e300))
        scores = np.where(plain.random(d) < 0.5, base, np.nextafter(base, np.inf))
    elif form == 2:  # all magnitudes
        scores = np.ldexp(plain.standard_normal(d), plain.integers(-1070, 1020, d))
    else:  # integers around a large one
        size = int(plain.integers(0, 63))
        scale = float(np.ldexp(plain.uniform(1, 2), int(plain.integers(-12, 20))))
        near = int(plain.integers(-(2**62), 2**62)) >> (62 - size) if size else 0
        scores = np.clip(near + plain.integers(-4000, 4000, d), -(2**63), 2**63 - 1).astype(np.int64)
    return scores, int(plain.integers(1, min(d, 40) + 1)), scale


def check_random_calls(seed: int, n: int) -> None:
    plain = np.random.default_rng(seed)
    for call in range(n):
        scores, s, scale = random_call(plain)
        method = METHODS[int(plain.integers(len(METHODS)))]
        s = min(s, 6) if method.form in ("rounds", "peeling") else s
        first = 512 * int(plain.integers(0, 1000))
        assert same(method, scores, s, scale, nonce=call, first=first), (seed, call)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_random_calls(seed):
    check_random_calls(seed, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_random_calls(seed):
    check_random_calls(seed, 1000)
