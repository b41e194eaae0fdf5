"""One answer everywhere: pruning, CPU level, threads, tiers and layout change no selected index; a bound that is too small does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpcore import _backend, selection
from dpcore.errors import DataError
from dpcore.testing import KeyedRandom
from support.kernels import ACCURATE, AES_LEVELS, EXACT, FAST, KEY, LEVELS, Array, SecureCipher, at_level, at_tier
from support.selection_calls import BY_KIND, METHODS, SEVERAL, Method, random_scores

each_method = pytest.mark.parametrize("method", METHODS, ids=str)
each_of_several = pytest.mark.parametrize("method", SEVERAL, ids=str)
each_kind = pytest.mark.parametrize("method", BY_KIND, ids=str)


@pytest.fixture
def unpruned(monkeypatch):
    """Selecting with every coordinate's noise evaluated."""

    def draw(method: Method, *arguments: object, **options: object) -> list[int]:
        with monkeypatch.context() as patch:
            patch.setattr(_backend.Testing, "unpruned", True)
            return select(method, *arguments, **options)

    return draw


def select(method: Method, scores: Array, s: int = 1, scale: float = 1.0, nonce: int = 0, **options: object) -> list[int]:
    return method.draw(scores, s, scale, rng=KeyedRandom(KEY).at(nonce), **options)


SHAPES = {
    "random": random_scores,
    "spread": lambda d: random_scores(d, spread=100.0),
    "sorted": lambda d: np.sort(random_scores(d, spread=4.0)),
    "sorted downwards": lambda d: np.sort(random_scores(d, spread=4.0))[::-1].copy(),
    "separated": lambda d: np.arange(d) * 1000.0,
    "tied": np.zeros,
    "steps": lambda d: np.floor(random_scores(d, spread=2.0)),
    "heavy": lambda d: np.random.default_rng(3).standard_cauchy(d),
    "integers": lambda d: np.random.default_rng(4).integers(0, 100, d),
    "float32": lambda d: random_scores(d).astype(np.float32),
}


@pytest.mark.some(62)
@pytest.mark.parametrize("shape", SHAPES)
@each_method
def test_pruning_changes_nothing(method, shape, unpruned):
    for d in (1, 2, 127, 128, 129, 511, 512, 513, 1025, 2048, 5000):
        scores = SHAPES[shape](d)
        for s, scale in itertools.product({1, min(d, 3), min(d, 40)}, (0.01, 1.0, 50.0)):
            assert select(method, scores, s, scale) == unpruned(method, scores, s, scale)


@each_method
def test_pruning_changes_nothing_under_many_keys(method, unpruned):
    scores = random_scores(700, spread=2.0)
    for nonce in range(60):
        assert select(method, scores, 6, nonce=nonce) == unpruned(method, scores, 6, nonce=nonce)


@pytest.mark.some(7)
@pytest.mark.parametrize("shape", SHAPES)
@each_method
def test_levels_and_threads_change_nothing(method, shape):
    scores = SHAPES[shape](300_011)
    s = 20 if method.several else 1
    expected = select(method, scores, s, threads=1)
    for threads in (2, 3):
        assert select(method, scores, s, threads=threads) == expected
    for level in LEVELS:
        with at_level(level):
            assert select(method, scores, s, threads=1) == expected
            assert select(method, scores, s, threads=3) == expected


@pytest.mark.some(6)
@pytest.mark.parametrize("level", LEVELS)
@each_method
def test_pruning_changes_nothing_at_any_level(method, level, unpruned):
    with at_level(level):
        for shape in ("random", "sorted", "tied", "integers"):
            scores = SHAPES[shape](20_011)
            expected = unpruned(method, scores, 4, threads=1)
            for threads in (1, 3):
                assert select(method, scores, 4, threads=threads) == expected == unpruned(method, scores, 4, threads=threads)


@pytest.mark.some(4)
@each_method
def test_pruning_changes_nothing_in_large_arrays(method, unpruned):
    for shape in ("random", "tied", "sorted"):
        scores = SHAPES[shape](150_003)
        s = 100 if method.form == "one shot" else 3
        assert select(method, scores, s) == unpruned(method, scores, s)


@pytest.mark.some(2)
@each_method
def test_tiers_change_nothing(method):
    scores = random_scores(250, spread=2.0)
    expected = select(method, scores, 5)
    for tier in (FAST, ACCURATE, EXACT):
        with at_tier(tier):
            assert select(method, scores, 5) == expected
    with at_tier(FAST, 1e6):  # a bound a million times too large hands more over, and changes nothing
        assert select(method, scores, 5) == expected


@each_method
def test_strides_change_nothing(method):
    scores = random_scores(40_000, spread=2.0)
    wide = np.zeros((40_000, 3))
    wide[:, 1] = scores
    assert select(method, wide[:, 1], 5) == select(method, scores, 5) == select(method, scores[::-1].copy()[::-1], 5)


@pytest.mark.parametrize("level", AES_LEVELS)
@pytest.mark.parametrize("noise", ["laplace", "gumbel", "exponential"])
def test_places_in_memory_change_nothing_with_either_cipher(noise, level):
    """Contiguous scores, wherever they begin, are those of a strided array, which is copied block by block."""
    room = np.empty(5000 + 16)
    for nonce, spread in itertools.product(range(3), (0.1, 3.0, 1e3)):
        scores = random_scores(5000, spread=spread)
        apart = np.repeat(scores, 2)[::2]
        for rng in (SecureCipher(512, nonce=nonce), KeyedRandom(KEY).at(nonce)):
            with at_level(level):
                expected = selection.noisy_argmax(apart, 2.0, 1.0, noise=noise, rng=rng, threads=1)
                for first in range(9):
                    room[first : first + 5000] = scores
                    assert selection.noisy_argmax(room[first : first + 5000], 2.0, 1.0, noise=noise, rng=rng, threads=1) == expected


@pytest.mark.parametrize("level", [*AES_LEVELS, *LEVELS[:1]])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_place_of_a_score_that_is_not_finite_is_overlooked(level, bad):
    room = np.zeros(2048)
    with at_level(level):
        for first, at in itertools.product((0, 3), range(0, 1600, 11)):
            scores = room[first : first + 1600]
            scores[:], scores[at] = 1.0, bad
            with pytest.raises(DataError, match=rf"at index {at}\b"):
                selection.noisy_argmax(scores, 1.0, 1.0, threads=1)


@pytest.mark.parametrize("level", [*AES_LEVELS, *LEVELS[:1]])
def test_finite_scores_whose_sum_is_not_are_taken(level):
    with at_level(level):
        for sign in (1.0, -1.0):
            scores = np.full(1500, sign * 1.7e308)
            assert 0 <= selection.noisy_argmax(scores, 1.0, 1.0, threads=1) < 1500
            assert selection.noisy_argmax(np.where(np.arange(1500) == 777, 1.7e308, -1.7e308), 1.0, 1.0, threads=1) == 777


@each_method
def test_indices_do_not_depend_on_a_common_shift(method):
    """Only differences of scores count: exact arithmetic makes this an identity of bits where the shifted scores are exact."""
    scores = np.floor(random_scores(3000, spread=50.0))
    expected = select(method, scores, 5)
    for shift in (2.0**40, -(2.0**52) + 1000, 1.0):
        assert select(method, scores + shift, 5) == expected
    assert select(method, scores.astype(np.int64) + 2**61, 5) == expected


@each_method
def test_indices_do_not_depend_on_the_unit(method):
    """Scores and noise times a power of two: the same choice."""
    scores = random_scores(3000)
    expected = select(method, scores, 5)
    for factor in (2.0**-600, 2.0**13, 2.0**800):
        assert select(method, scores * factor, 5, factor) == expected


@each_of_several
def test_fewer_are_the_first_of_more(method):
    scores = random_scores(2000)
    expected = select(method, scores, 30)
    for s in (1, 7, 29):
        assert select(method, scores, s) == expected[:s]


@each_kind
def test_a_selected_score_that_rises_stays_selected(method):
    scores = random_scores(800)
    (winner,) = select(method, scores)
    raised = scores.copy()
    raised[winner] += 1e-9
    assert select(method, raised) == [winner]
    lowered = scores.copy()
    lowered[(winner + 1) % 800] -= 5.0
    assert select(method, lowered) == [winner]
