"""The error bound that a contender carries, against the exact noise: it holds on ordinary and on extreme words, and it is needed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore import _backend
from dpcore._kernels import _dispatch
from dpcore.rng import StreamPosition
from support.kernels import FAST, KEY, LEVELS, Array, at_level, at_tier
from support.selection import KINDS, SELECT, Twin, clamped, tied_score
from support.selection_calls import BY_KIND, random_scores

each_kind = pytest.mark.parametrize("kind", KINDS)
BLOCK = 512


def contenders(kind: str, scores: Array, scale: float, first: int = 0) -> Array:
    """All keys as the kernel has them: index, high and low part, error."""
    position = StreamPosition(KEY, 0, first)
    selection = _backend.Selection(kind, scores, scale, len(scores), position, threads=1)
    status, candidates, *_ = selection._call.run(0, 0, selection._call.n_units, None, 0)
    assert status == 0
    return np.frombuffer(candidates, _backend.selection.CANDIDATE)


def largest_share(kind: str, scores: Array, scale: float, indices: Array, first: int = 0) -> float:
    """The largest error of a key over its bound."""
    found = {int(c["index"]): c for c in contenders(kind, scores, scale, first)}
    assert len(found) == len(scores)
    twin, most = Twin(kind, Fraction(scale), first=first), 0.0
    for i in indices.tolist():
        c = found[i]
        if not np.isfinite(c["error"]):
            continue
        key = clamped(scores[i].item()) + twin.scale * twin.noise(first + i)
        error = abs(Fraction(float(c["high"])) + Fraction(float(c["low"])) - key)
        most = max(most, float(error / Fraction(float(c["error"]))))
    return most


CASES = {
    "ordinary": (random_scores(600), 1.0),
    "large": (random_scores(600) * 1e300, 3.0),
    "small noise": (random_scores(600), 2.0**-900),
    "large noise": (random_scores(600), 2.0**900 * 1.7),
    "zero": (np.zeros(600), 0.3),
    "integers": (2**62 + np.random.default_rng(1).integers(-5000, 5000, 600), 700.0),
    "integers at the edge": (2**63 - 1 - np.random.default_rng(2).integers(0, 5000, 600), 0.01),
    "negative integers": (-(2**63) + np.random.default_rng(3).integers(0, 5000, 600), 3.0),
    "odd integers": (2**53 + np.random.default_rng(4).integers(-50, 50, 600), 1.0),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", CASES)
@each_kind
def test_keys_are_within_their_error(kind, name):
    scores, scale = CASES[name]
    assert largest_share(kind, scores, scale, np.arange(len(scores))) < 1


def extreme_elements(n: int) -> Array:
    """Elements whose first piece is 0 or 65535, so that the noise is extreme or, for some kinds, next to zero."""
    words = np.frombuffer(_dispatch.bulk_words(KEY, 0, 0, SELECT, 0, n // BLOCK), np.uint16)
    return np.flatnonzero((words == 0) | (words == 0xFFFF))


@each_kind
def test_extreme_words_are_within_their_error(kind):
    """Noise far in its tails, of four million elements the most extreme of all."""
    worst = 0.0
    for element in extreme_elements(2**22).tolist():
        first = element // BLOCK * BLOCK
        worst = max(worst, largest_share(kind, np.zeros(BLOCK), 1.0, np.array([element - first]), first))
    assert 0 < worst < 1


@each_kind
def test_noise_next_to_zero_is_within_its_error(kind):
    """V near 1 − 1/e for Gumbel and ½ for Laplace noise, where the logarithm cancels."""
    twin = Twin(kind, Fraction(1))
    pieces = np.concatenate([np.frombuffer(_dispatch.bulk_words(KEY, 0, 0, SELECT, g, 1), np.uint16) for g in range(400)])
    zero = {"gumbel": 1 - np.exp(-1), "exponential": 1.0, "laplace": 0.5}[kind]
    nearest = np.argsort(np.abs(pieces / 65536 - zero))[:60]
    for element in nearest.tolist():
        first = element // BLOCK * BLOCK
        assert abs(twin.noise(element)) < 0.01
        assert largest_share(kind, np.zeros(BLOCK), 1.0, np.array([element - first]), first) < 1


@pytest.mark.some(2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("method", BY_KIND, ids=str)
def test_without_the_bound_close_keys_are_confused(method, level):
    twin, wrong = method.twin(1.0), 0
    with at_level(level):
        for p in range(40):
            i, j = 3 * p, 3 * p + 7
            scores = np.full(3 * p + 9, -1e6)
            scores[i], scores[j] = 0.0, tied_score(twin, i, j)
            (expected,) = twin.largest(scores, 1)
            assert method.compare(scores)[0] == [expected]
            with at_tier(FAST, 0.0):
                wrong += method.compare(scores)[0] != [expected]
    assert wrong >= 4


@each_kind
def test_pruning_prunes(kind, monkeypatch):
    """Of a hundred thousand scores a few hundred are evaluated, whatever their order; without pruning all of them."""
    scores = random_scores(100_000, spread=0.1)
    for form in (scores, np.sort(scores), np.sort(scores)[::-1].copy(), np.zeros(100_000), (scores * 100).astype(np.int64)):
        call = _backend.Selection(kind, form, 1.0, 1, StreamPosition(KEY, 0, 0), threads=1)
        call.largest(0)
        assert call.evaluated < 2000
    monkeypatch.setattr(_backend.Testing, "unpruned", True)
    call = _backend.Selection(kind, scores, 1.0, 1, StreamPosition(KEY, 0, 0), threads=1)
    call.largest(0)
    assert call.evaluated == 100_000
