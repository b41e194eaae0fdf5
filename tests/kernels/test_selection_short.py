"""The short way of a selection: the same elements as the general way, and whatever it cannot tell or has to refuse is left to that one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dpcore import _backend, selection
from dpcore._backend import selection as calls
from dpcore._backend.threads import SMALL
from dpcore.errors import DataError, ParameterError
from dpcore.rng import StreamPosition
from support.kernels import AES_LEVELS, KEY, LEVELS, Array, at_level
from support.selection import KINDS, tied_score
from support.selection_calls import BY_KIND, METHODS, Method, SecureStream, random_scores

each_kind = pytest.mark.parametrize("kind", KINDS)
EDGES = (1, 2, 63, 64, 65, 100, 511, 512, 513, 4095, 4096, 4097, 20_000, SMALL - 1, SMALL, SMALL + 1)
START = StreamPosition(KEY, 5, 512)


def largest(kind: str, scores: Array, keep: int = 1, position: Any = START, scale: float = 1.0) -> list[int]:
    return _backend.select_largest(kind, scores, scale, keep, position, threads=1).tolist()


def peeled(kind: str, scores: Array, rounds: int, position: Any = START, scale: float = 1.0) -> list[int]:
    return _backend.select_peeled(kind, scores, scale, rounds, position, threads=1).tolist()


@pytest.fixture
def in_general(monkeypatch):
    """Run a call the general way."""

    def run(function: Any, *arguments: Any) -> list[int]:
        with monkeypatch.context() as patch:
            patch.setattr(_backend.threads, "SMALL", 0)
            return function(*arguments)

    return run


@pytest.fixture
def only_short(monkeypatch):
    """The general way does not exist."""
    monkeypatch.delattr(calls, "Selection")


@pytest.mark.some(4)
@pytest.mark.parametrize("d", EDGES)
@each_kind
def test_both_ways_select_the_same(kind, d, in_general):
    for scores in (
        random_scores(d),
        random_scores(d, spread=40.0),
        np.zeros(d),
        np.arange(d),
        np.sort(random_scores(d)).astype(np.float32),
    ):
        for s in {1, min(d, 3), min(d, 60)}:
            assert largest(kind, scores, s) == in_general(largest, kind, scores, s)
            assert peeled(kind, scores, s) == in_general(peeled, kind, scores, s)


@pytest.mark.parametrize("level", LEVELS)
@each_kind
def test_both_ways_select_the_same_at_every_level(kind, level, in_general):
    with at_level(level):
        for d in (5, 100, 700, 5000):
            scores = random_scores(d, spread=3.0)
            assert largest(kind, scores, 4) == in_general(largest, kind, scores, 4)
            assert peeled(kind, scores, 4) == in_general(peeled, kind, scores, 4)


@pytest.mark.parametrize("level", AES_LEVELS)
def test_both_ways_use_the_same_cipher(level, in_general):
    with at_level(level):
        position = SecureStream().position()
        assert peeled("laplace", random_scores(300), 9, position) == in_general(peeled, "laplace", random_scores(300), 9, position)


@pytest.mark.usefixtures("only_short")
@each_kind
def test_which_calls_are_short(kind):
    for d in (1, 100, 513, 4097, 8 * SMALL):
        assert len(largest(kind, random_scores(d))) == 1
    assert len(peeled(kind, random_scores(1024), 1024)) == 1024
    assert len(largest(kind, random_scores(3000), 500)) == 500
    for call in (
        lambda: largest(kind, random_scores(8 * SMALL + 1)),
        lambda: peeled(kind, random_scores(1025), 1024),
        lambda: largest(kind, np.arange(1e4), 513),
    ):
        with pytest.raises(NameError):
            call()


@pytest.mark.usefixtures("only_short")
@pytest.mark.parametrize("change", [("tier", 1), ("unpruned", True), ("bound_factor", 0.5)])
def test_switches_of_tests_go_the_general_way(change, monkeypatch):
    monkeypatch.setattr(_backend.Testing, *change)
    with pytest.raises(NameError):
        largest("gumbel", random_scores(10))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_scores_that_are_not_finite_are_refused(method: Method, bad):
    for d, at in ((1, 0), (100, 0), (100, 99), (513, 512), (5000, 4999)):
        scores = random_scores(d)
        scores[at:] = bad
        with pytest.raises(DataError, match=rf"scores must be finite; the one at index {at} is not"):
            method.compare(scores, min(d, 3))


@each_kind
def test_the_last_elements_of_the_stream(kind, in_general):
    last = StreamPosition(KEY, 0, 2**64 - 512)
    scores = random_scores(400)
    assert largest(kind, scores, 3, last) == in_general(largest, kind, scores, 3, last)
    with pytest.raises(ParameterError, match="room"):
        peeled(kind, scores, 2, last)
    with pytest.raises(ParameterError, match="room"):
        largest(kind, random_scores(513), 1, last)
    with pytest.raises(ParameterError, match="multiple of 512"):
        largest(kind, scores, 1, StreamPosition(KEY, 0, 100))


class Changing:
    """A stream that changes the scores when it is asked for a position."""

    secure = False

    def __init__(self, change: Any) -> None:
        self._change = change

    def position(self) -> StreamPosition:
        """The position."""
        self._change()
        return StreamPosition(KEY, 0, 0)


@pytest.mark.parametrize("method", ["gumbel", "peeling"])
def test_scores_that_foreign_code_changes_meanwhile(method):
    def select(change: Any) -> Any:
        scores = random_scores(100)
        return selection.top_s(scores, 1.0, 1.0, s=3, method=method, rng=Changing(lambda: change(scores)))

    with pytest.raises(DataError, match="finite"):
        select(lambda scores: scores.fill(np.nan))
    expected = selection.top_s(random_scores(100)[::-1].copy(), 1.0, 1.0, s=3, method=method, rng=Changing(lambda: None)).indices
    assert np.array_equal(select(lambda scores: scores.__setitem__(slice(None), scores[::-1].copy())).indices, expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is still possible
        assert set(select(lambda scores: setattr(scores, "dtype", np.float32)).indices.tolist()) <= set(range(200))


@pytest.mark.parametrize("method", BY_KIND, ids=str)
def test_the_general_way_decides_what_the_short_one_cannot(method, monkeypatch):
    """Two keys as near as a float64 score allows."""
    taken, original = [], calls.Selection
    monkeypatch.setattr(calls, "Selection", lambda *arguments, **options: taken.append(1) or original(*arguments, **options))
    twin = method.twin(1.0, START.nonce, START.first_element)
    scores = np.full(50, -1e6)
    scores[3], scores[10] = 0.0, tied_score(twin, 3, 10)
    assert largest(method.kind, scores, 2) == twin.largest(scores, 2)
    assert peeled(method.kind, scores, 3) == twin.peeling(scores, 3)
    assert len(taken) == 2
    scores[10] += 1e-9
    assert largest(method.kind, scores, 2) == twin.largest(scores, 2)
    assert len(taken) == 2
