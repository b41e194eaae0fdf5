"""No two outputs of a call depend on each other, judged from the outputs alone: nothing here knows where random bits come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpcore.testing import KeyedRandom
from support.drawing import Drawing, drawings
from support.independence import WINDOW, examine

KEY = bytes(range(1, 33))
CASES = {case.name: case for case in drawings()}
QUICK = [
    "laplace, small",
    "gaussian, two of three small",
    "discrete_laplace, small",
    "discrete_gaussian, two of three small",
    "discrete_gaussian, halves, the other way",
    "discrete_gaussian, both sides of the limit",
    "local BinaryResponse",
    "local UnaryEncoding optimal, bit by bit",
    "exponential_mechanism, rounds",
    "draw_codes",
]
WINDOWS, LONG_WINDOWS = 600, 3000

Array = np.ndarray[Any, Any]


def windows(case: Drawing, n: int, element: int) -> Array:
    """Windows of calls under different nonces, all from one place of the stream on; fewer where a call costs more."""
    key, first = KeyedRandom(KEY), element if case.places else 0
    return np.stack([case.numbers(case.draw(WINDOW, first, key.at(nonce, first))) for nonce in range(n // case.cost)])


@pytest.mark.some(2)
@pytest.mark.parametrize("name", QUICK)
def test_outputs_of_a_call_are_independent(name: str) -> None:
    verdict = examine(windows(CASES[name], WINDOWS, 0))
    assert not verdict.is_rejected, verdict


@pytest.mark.long
@pytest.mark.parametrize("element", [77, 2**40 + 448])
@pytest.mark.parametrize("name", CASES)
def test_outputs_of_many_calls_are_independent(name: str, element: int) -> None:
    verdict = examine(windows(CASES[name], LONG_WINDOWS, element))
    assert not verdict.is_rejected, verdict


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_neighbouring_nonces_are_independent(name: str) -> None:
    """Half a window from one nonce, half from the next."""
    drawn = windows(CASES[name], 2 * LONG_WINDOWS // 3, 0)[:, : WINDOW // 2]
    verdict = examine(drawn[: len(drawn) // 2 * 2].reshape(-1, WINDOW))
    assert not verdict.is_rejected, verdict


@pytest.mark.long
@pytest.mark.parametrize("broken", ["a shared sign", "a shared size", "a shared bit"])
def test_the_net_holds_what_is_shared(broken: str) -> None:
    """Two of 256 elements share a sign, a size or the lowest bit."""
    plain = np.random.default_rng(3)
    drawn = np.round(plain.normal(size=(WINDOWS, WINDOW)) * 1000).astype(np.int64)
    assert not examine(drawn).is_rejected
    if broken == "a shared sign":
        drawn[:, 9] = np.abs(drawn[:, 9]) * np.where(drawn[:, 73] > 0, 1, -1)
    elif broken == "a shared size":
        drawn[:, 9] = np.abs(drawn[:, 73]) * np.where(drawn[:, 9] > 0, 1, -1)
    else:
        drawn[:, 9] = (drawn[:, 9] & ~1) | (drawn[:, 73] & 1)
    verdict = examine(drawn)
    assert verdict.is_rejected
    assert sorted(verdict.elements) == [9, 73]
