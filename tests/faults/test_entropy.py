"""The operating system gives too little randomness, or none: `EntropyError`, and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import dpcore
from dpcore import noise
from dpcore.errors import DpcoreError, EntropyError

FUNCTIONS = (noise.laplace, noise.gaussian, noise.discrete_laplace, noise.discrete_gaussian)


def failing(error: Exception) -> Callable[[int], bytes]:
    def read(n: int) -> bytes:
        raise error

    return read


FAULTS: dict[str, Callable[[int], bytes]] = {
    "short": lambda n: bytes(n - 1),
    "empty": lambda n: b"",
    "long": lambda n: bytes(n + 1),
    "OSError": failing(OSError(5, "input/output error")),
    "NotImplementedError": failing(NotImplementedError("no source")),
}


@pytest.fixture(params=FAULTS)
def broken_source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(os, "urandom", FAULTS[request.param])
    return str(request.param)


@pytest.mark.parametrize("rng", [None, dpcore.SecureRandom()])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_failing_source_raises_and_writes_nothing(broken_source: str, function: Callable, rng: object) -> None:
    dtype = np.int64 if function.__name__.startswith("discrete") else np.float64
    for n in (1, 200, 200_000):
        values, out = np.arange(n, dtype=dtype), np.full(n, 7, dtype)
        with pytest.raises(EntropyError, match="random source"):
            function(values, 2.0, rng=rng, out=out)
        assert np.all(out == 7)
        with pytest.raises(EntropyError):
            function(values, 2.0, rng=rng, out=values)
        assert np.array_equal(values, np.arange(n, dtype=dtype))
    for scalar in (dtype(0).item(), dtype(0)):
        with pytest.raises(EntropyError):
            function(scalar, 2.0, rng=rng)


def test_the_error_is_one_of_ours_and_of_the_system(broken_source: str) -> None:
    with pytest.raises(EntropyError) as caught:
        dpcore.SecureRandom().position()
    assert isinstance(caught.value, DpcoreError)
    assert isinstance(caught.value, OSError)
    if "Error" in broken_source:
        assert broken_source in str(caught.value)
        assert caught.value.__cause__ is not None


def test_every_call_reads_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    read, sizes = os.urandom, []

    def counted(n: int) -> bytes:
        sizes.append(n)
        return read(n)

    monkeypatch.setattr(os, "urandom", counted)
    for calls, function in enumerate(FUNCTIONS, 1):
        function(np.zeros(1000, np.int64), 2.0)
        assert sizes == [32] * calls


def test_a_repeated_key_would_repeat_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is all that separates two calls: a twin of the tests that find streams distinct."""
    monkeypatch.setattr(os, "urandom", bytes)
    assert np.array_equal(noise.laplace(np.zeros(100), 1.0), noise.laplace(np.zeros(100), 1.0))


def test_the_source_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", FAULTS["short"])
        with pytest.raises(EntropyError):
            noise.laplace(0.0, 1.0)
    assert np.isfinite(noise.laplace(0.0, 1.0))
