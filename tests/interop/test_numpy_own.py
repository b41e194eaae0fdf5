"""NumPy's own tests of its bit generators, on ours: the class of numpy/random/tests/test_smoke.py, unchanged, as NumPy subclasses it."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from dpcore.errors import ParameterTypeError
from dpcore.interop.numpy import KeyedBitGenerator, SecureBitGenerator

smoke = pytest.importorskip("numpy.random.tests.test_smoke", reason="this build of NumPy has no tests")
if not hasattr(smoke, "RNGData"):
    pytest.skip("older releases of NumPy write these tests in another way", allow_module_level=True)

LEFT_OUT = {
    "saves or sets a state": (
        "test_init test_advance test_jump test_reset_state test_reset_state_gauss test_reset_state_uint32 test_reset_state_float "
        "test_uniform_float test_gamma_floats test_normal_floats test_normal_zig_floats test_output_fill test_output_filling_uniform "
        "test_output_filling_exponential test_output_filling_gamma test_output_filling_gamma_broadcast test_integers_broadcast"
    ),
    "compares states": "test_entropy_init",
    "gives a seed": "test_seed test_seed_array",
    "pickles": "test_pickle",
}
"""What a generator without seed and state cannot pass, by nature."""


def data(kind: type, seed: list[int]) -> Any:
    """What a subclass tells the tests about its generator."""
    return smoke.RNGData(kind, 2**63 + 2**31 + 2**15 + 1, seed, np.random.Generator(kind(*seed)), 64)


def number_of(kind: type, names: Iterable[str] | None = None) -> int:
    """How many tests pytest makes of a class."""
    count = 0
    for name, function in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("test_") and (names is None or name in names):
            marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
            count += math.prod(len(mark.args[1]) for mark in marks)
    return count


class TestKeyed(smoke.RNG):  # type: ignore[misc, name-defined]
    """All of them."""

    @classmethod
    def _create_rng(cls) -> Any:
        return data(KeyedBitGenerator, [12345])


class TestSecure(smoke.RNG):  # type: ignore[misc, name-defined]
    """All of them; those that are left out are run and refused."""

    @classmethod
    def _create_rng(cls) -> Any:
        return data(SecureBitGenerator, [])


def refused(function: Callable[..., None]) -> Callable[..., None]:
    """A test that is refused, for a reason that the message gives."""

    @functools.wraps(function)
    def test(*arguments: Any, **named: Any) -> None:
        with pytest.raises(ParameterTypeError, match=r"a SecureBitGenerator (shows no state|takes no|is not pickled)"):
            function(*arguments, **named)

    return test


NAMES = [name for names in LEFT_OUT.values() for name in names.split()]
for name_ in NAMES:
    setattr(TestSecure, name_, refused(getattr(smoke.RNG, name_)))


def test_all_number_of_the_class_are_run() -> None:
    """A release of NumPy with further tests fails here, so that they are looked at."""
    assert number_of(smoke.RNG) == number_of(TestKeyed) == number_of(TestSecure) == 91
    assert number_of(smoke.RNG, NAMES) == 29
