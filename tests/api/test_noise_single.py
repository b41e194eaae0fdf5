"""Results in float32: the released float64 numbers, each rounded to the nearest float32, on every way to the kernels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dpcore import _backend, local, mechanisms, noise
from dpcore._backend.threads import CHUNK
from dpcore.errors import DataError, ParameterTypeError
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))
WAYS = {
    "laplace": lambda x, **options: noise.laplace(x, 3.0, **options),
    "gaussian": lambda x, **options: noise.gaussian(x, 3.0, **options),
    "scales": lambda x, **options: noise.laplace(x, np.full(x.shape, 3.0), **options),
    "mechanism": mechanisms.Laplace(1.0, 3.0).release,
    "local laplace": local.LocalLaplace(1.0, -100.0, 100.0).privatize,
    "local gaussian": local.LocalGaussian(1.0, 1e-6, -100.0, 100.0).privatize,
}


def rng() -> KeyedRandom:
    return KeyedRandom(KEY)


def values(n: int) -> np.ndarray:
    return (np.arange(n) * 7919 % 1009 - 500).astype(np.float32) / 8


@pytest.mark.parametrize("n", [0, 1, 5, 700, CHUNK + 77])
@pytest.mark.parametrize("way", WAYS)
def test_each_number_is_the_rounded_one(way: str, n: int) -> None:
    x = values(n)
    expected = WAYS[way](x, rng=rng()).astype(np.float32)
    out = np.full(n, np.nan, np.float32)
    assert WAYS[way](x, rng=rng(), out=out) is out
    np.testing.assert_array_equal(out, expected)
    spread = np.full(3 * n, np.nan, np.float32)
    WAYS[way](x, rng=rng(), out=spread[1::3], threads=2)
    np.testing.assert_array_equal(spread[1::3], expected)
    assert np.isnan(spread[0::3]).all()
    assert np.isnan(spread[2::3]).all()
    unaligned = np.zeros(4 * n + 1, np.uint8)[1:].view(np.float32)
    WAYS[way](x, rng=rng(), out=unaligned)
    np.testing.assert_array_equal(unaligned, expected)


@pytest.mark.parametrize("n", [5, CHUNK + 77])
@pytest.mark.parametrize("way", WAYS)
def test_values_may_be_replaced_by_their_result(way: str, n: int) -> None:
    x = values(n)
    expected = WAYS[way](x, rng=rng()).astype(np.float32)
    own, reversed_ = x.copy(), x[::-1].copy()
    assert WAYS[way](own, rng=rng(), out=own) is own
    np.testing.assert_array_equal(own, expected)
    WAYS[way](reversed_[::-1], rng=rng(), out=reversed_)
    np.testing.assert_array_equal(reversed_, expected)


@pytest.mark.parametrize("tier", [0, 1, 2])
def test_all_tiers_round_alike_and_beyond_float32_lies_infinity(tier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([1e300, -1e300, 3.3e38, 1.0])
    expected = noise.laplace(x, 2.0**100, rng=rng())
    monkeypatch.setattr(_backend.Testing, "tier", tier)
    out = np.zeros(4, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noise.laplace(x, 2.0**100, rng=rng(), out=out)
    assert out[:2].tolist() == [np.inf, -np.inf]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, expected.astype(np.float32))


def test_a_refused_value_changes_nothing_in_place() -> None:
    x = values(5)
    x[3] = np.nan
    before = x.copy()
    with pytest.raises(DataError):
        noise.laplace(x, 1.0, out=x)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("function", [noise.discrete_laplace, noise.discrete_gaussian])
def test_integers_are_not_written_as_floats(function: Any) -> None:
    with pytest.raises(ParameterTypeError, match="out must have dtype int64, got <f4"):
        function(np.zeros(3, int), 1.0, out=np.zeros(3, np.float32))


def test_half_precision_is_refused() -> None:
    with pytest.raises(ParameterTypeError, match="out must have dtype float64 or float32, got <f2"):
        noise.laplace(np.zeros(3), 1.0, out=np.zeros(3, np.float16))
