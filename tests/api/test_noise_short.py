"""Single numbers and short arrays take a way of their own to the kernels, which gives and refuses what the general way does."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore import _backend, noise
from dpcore._backend.threads import SMALL
from dpcore._kernels import _noise
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.rng import SecureRandom
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))
FLOATS = {"laplace": noise.laplace, "gaussian": noise.gaussian}
INTEGERS = {"discrete_laplace": noise.discrete_laplace, "discrete_gaussian": noise.discrete_gaussian}
ALL = FLOATS | INTEGERS
SCALES = [0.75, 3.0, 1000.0]


def rng() -> KeyedRandom:
    return KeyedRandom(KEY)


def long_way(function: Any, values: np.ndarray, scale: float) -> np.ndarray:
    """Noise on the values as the first ones of an array that is too long for the short way."""
    rest = np.zeros(SMALL + 1 - len(values), values.dtype)
    return function(np.concatenate([values, rest]), scale, rng=rng())[: len(values)]


def numbers(name: str, size: int) -> np.ndarray:
    values = np.arange(size) * 7919 % 1009 - 500
    return values / 8 if name in FLOATS else values


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [0, 1, 5, 127, 129, 1024, 1025, SMALL])
@pytest.mark.parametrize("name", ALL)
def test_short_arrays_get_the_noise_of_long_ones(name: str, size: int, scale: float) -> None:
    values = numbers(name, size)
    expected = long_way(ALL[name], values, scale)
    np.testing.assert_array_equal(ALL[name](values, scale, rng=rng()), expected)
    np.testing.assert_array_equal(ALL[name](values, scale, rng=rng(), threads=1), expected)


@pytest.mark.parametrize(
    "form", [float, np.float64, np.float32, np.float16, np.array, lambda x: [x], lambda x: (x,), lambda x: np.array([x])]
)
@pytest.mark.parametrize("name", FLOATS)
def test_numbers_get_the_noise_of_arrays(name: str, form: Any) -> None:
    released = FLOATS[name](form(3.5), 2.0, rng=rng())
    assert np.ravel(released) == long_way(FLOATS[name], np.array([3.5]), 2.0)
    assert type(released) is (float if np.ndim(form(3.5)) == 0 and not isinstance(form(3.5), np.ndarray) else np.ndarray)


@pytest.mark.parametrize("form", [int, np.int64, np.int8, np.uint32, np.array, lambda x: [x], lambda x: np.array([x], np.uint16)])
@pytest.mark.parametrize("name", ALL)
def test_integers_get_the_noise_of_arrays(name: str, form: Any) -> None:
    released = ALL[name](form(41), 2.0, rng=rng())
    assert np.ravel(released) == long_way(ALL[name], np.array([41]), 2.0)


@pytest.mark.parametrize("scale", [2, np.float64(2), np.int32(2), Decimal(2), Fraction(2), np.array(2.0), np.array([2.0])])
@pytest.mark.parametrize("name", ALL)
def test_scales_of_any_type_are_one_scale(name: str, scale: Any) -> None:
    values = numbers(name, 9)
    np.testing.assert_array_equal(ALL[name](values, scale, rng=rng()), ALL[name](values, 2.0, rng=rng()))


@pytest.mark.parametrize("values", [2**53 + 1, np.int64(2**62 + 1), [2**53 + 1]])
def test_large_integers_enter_exactly(values: Any) -> None:
    number = int(np.ravel(values)[0])
    released = noise.laplace(values, 2.0**-8, rng=rng())
    assert np.ravel(released) == long_way(noise.laplace, np.array([number]), 2.0**-8)


@pytest.mark.parametrize("name", ALL)
def test_out_is_written_as_a_whole(name: str) -> None:
    values = numbers(name, 40)
    expected = ALL[name](values, 2.0, rng=rng())
    out = np.empty_like(expected)
    assert ALL[name](values, 2.0, rng=rng(), out=out) is out
    np.testing.assert_array_equal(out, expected)
    own = values.copy()
    ALL[name](own[::-1], 2.0, rng=rng(), out=own)  # overlaps otherwise than item on item
    np.testing.assert_array_equal(own, ALL[name](values[::-1].copy(), 2.0, rng=rng()))
    single = np.empty((), expected.dtype)
    assert ALL[name](values[0].item(), 2.0, rng=rng(), out=single) is single
    assert single == expected[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", FLOATS)
def test_what_is_not_finite_is_refused(name: str, bad: float) -> None:
    out = np.full(3, 7.0)
    for values in (bad, np.float64(bad), np.float16(bad), [bad], np.array([0.0, bad, 0.0])):
        with pytest.raises(DataError, match="finite"):
            FLOATS[name](values, 1.0)
    with pytest.raises(DataError, match="index"):
        FLOATS[name](np.array([0.0, bad, 0.0]), 1.0, out=out)
    assert (out == 7.0).all()


class Counted:
    """A stream that counts its positions."""

    def __init__(self) -> None:
        self.secure, self.taken = True, 0

    def position(self) -> Any:
        self.taken += 1
        return SecureRandom().position()


@pytest.mark.parametrize(
    ("values", "scale", "options"),
    [
        (True, 1.0, {}),
        ("1", 1.0, {}),
        (np.zeros(3, complex), 1.0, {}),
        (np.zeros(3, ">f8"), 1.0, {}),
        (np.zeros(3, np.uint64), 1.0, {}),
        (1.0, True, {}),
        (np.zeros(3), -1.0, {}),
        (np.zeros(3), float("nan"), {}),
        (np.zeros(3), 1.0, {"threads": 0}),
        (np.zeros(3), 1.0, {"out": np.zeros(4)}),
        (np.zeros(3), 1.0, {"out": np.zeros(3, np.float16)}),
        (np.zeros(3), 1.0, {"grid": 3.0}),
        (np.zeros(3), 1.0, {"grid": True}),
    ],
)
def test_nothing_is_drawn_for_what_is_refused(values: Any, scale: Any, options: dict[str, Any]) -> None:
    stream = Counted()
    with pytest.raises((ParameterError, ParameterTypeError)):
        noise.laplace(values, scale, rng=stream, **options)
    assert stream.taken == 0


@pytest.mark.parametrize("kind", FLOATS)
def test_what_the_kernels_leave_goes_the_general_way(kind: Any) -> None:
    class Hooks:
        tier, bound_factor = 0, 1.0

    asked = []

    def whole(values: Any, position: Any) -> Any:
        asked.append((np.shape(values), position))
        return _backend.float_noise(kind, values, 2.0, 2.0**-24, position, out=None, threads=1)

    law = _backend.noise._float_law(kind, 2.0, 2.0**-24)
    call = _noise.ShortCall(law, None, _backend.threads, Hooks, _backend.secure_cipher, whole)
    assert isinstance(call.release(1.0, rng()), float)
    assert asked == []
    with pytest.raises(DataError):
        call.release(np.array([1.0, np.nan]), rng())
    assert [shape for shape, _ in asked] == [(2,)]
    Hooks.tier = 1
    assert call.release(1.0, rng()) is None
    Hooks.tier, Hooks.bound_factor = 0, 2.0**60
    assert call.release(np.zeros(3), rng()) is None


def test_the_exact_tier_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.linspace(-1.0, 1.0, 500)
    expected = long_way(noise.laplace, values, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(_backend.Testing, "tier", 2)
        np.testing.assert_array_equal(noise.laplace(values, 1.0, rng=rng()), expected)
    np.testing.assert_array_equal(noise.laplace(values, 1.0, rng=rng()), expected)


def test_an_array_that_its_stream_shortens_is_released_as_it_is_then() -> None:
    values = np.arange(500.0)

    class Shortening:
        secure = True

        def position(self) -> Any:
            values.resize(2, refcheck=False)
            return SecureRandom().position()

    assert noise.laplace(values, 1.0, rng=Shortening()).shape == (2,)
