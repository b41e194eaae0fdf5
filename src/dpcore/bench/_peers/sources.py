"""Generators that several peers use. None of them is safe for noise that is released."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

PCG64 = np.random.Generator(np.random.PCG64(1))
SFC64 = np.random.Generator(np.random.SFC64(1))


@lru_cache(maxsize=1)
def mkl_state() -> Any:
    """MKL's fastest generator; its "doubles" take 2^32 values."""
    import mkl_random

    return mkl_random.MKLRandomState(1, brng="SFMT19937")


@lru_cache(maxsize=1)
def chacha() -> np.random.Generator:
    """NumPy's transforms of randomgen's ChaCha20, with a key of the system."""
    from randomgen import ChaCha

    return np.random.Generator(ChaCha(rounds=20))
