"""Results that are stored past the cache, late and a few at a time, are those that are stored at once."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore import noise
from dpcore._backend.noise import _STREAMED, streams
from dpcore.testing import KeyedRandom
from support.kernels import LEVELS, at_level, same_bits

KINDS = [
    (noise.laplace, 1.7),
    (noise.gaussian, 1.7),
    (noise.discrete_laplace, 9.5),
    (noise.discrete_gaussian, 2.0),
    (noise.discrete_gaussian, 10.0),
]


@pytest.mark.parametrize("shift", [0, 1, 7])
@pytest.mark.parametrize(("function", "scale"), KINDS)
def test_large_results_are_those_of_new_memory(function, scale, shift: int) -> None:
    n = _STREAMED // 8 + 777  # the last block is not whole
    dtype = np.int64 if "discrete" in function.__name__ else np.float64
    values = np.arange(n).astype(dtype)
    room = np.full(n + 16, 5, dtype)
    out = room[shift : shift + n]
    assert streams(values, out)
    for level in LEVELS:
        with at_level(level):
            function(values, scale, out=out, rng=KeyedRandom(bytes(32)), threads=1)
            assert same_bits(out, function(values, scale, rng=KeyedRandom(bytes(32)), threads=1)), level
        assert np.all(room[:shift] == 5)
        assert np.all(room[shift + n :] == 5)


def test_what_comes_before_a_number_that_is_refused_is_released() -> None:
    n = _STREAMED // 8 + 777
    values, out = np.ones(n), np.zeros(n)
    place = 5 * 512 + 3
    values[place] = np.nan
    with pytest.raises(ValueError, match=rf"index \({place},\) "):
        noise.laplace(values, 1.0, out=out, rng=KeyedRandom(bytes(32)), threads=1)
    assert same_bits(out[: 5 * 512], noise.laplace(np.ones(5 * 512), 1.0, rng=KeyedRandom(bytes(32)), threads=1))
    assert not out[5 * 512 :].any()
