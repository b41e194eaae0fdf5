"""From what peers call a seed or a random state to a stream of dpcore."""

from __future__ import annotations

import hashlib
import numbers
import secrets
from collections.abc import Callable
from typing import Any

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.rng import KEY_BYTES, Stream
from dpcore.testing import KeyedRandom

_LABEL = b"dpcore.interop seed\0"


def stream_of(random_state: Any) -> Stream | None:
    """Return the stream for a peer's seed.

    Parameters
    ----------
    random_state : None, int, bytes, random.Random, numpy.random.RandomState or numpy.random.Generator
        None and `random.SystemRandom` mean the operating system's randomness. An int or bytes give the same stream whenever they are
        given. The others are asked for 32 bytes, so that they move on, and the next call gives another stream.

    Returns
    -------
    Stream or None
        None for the operating system's randomness. Any other stream is keyed: what is drawn with it is reproducible, and not private.

    Raises
    ------
    ParameterTypeError
        If it is none of these.
    ParameterError
        If a source of bytes gives another number of bytes than were requested.

    Notes
    -----
    Cost: about 3 µs.
    """
    if random_state is None or isinstance(random_state, secrets.SystemRandom):
        return None
    if isinstance(random_state, bytes):
        return KeyedRandom(_key(b"bytes\0" + random_state))
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        return KeyedRandom(_key(b"int\0" + str(int(random_state)).encode()))
    draw: Callable[[int], Any] | None = getattr(random_state, "randbytes", None) or getattr(random_state, "bytes", None)
    if not callable(draw):
        raise ParameterTypeError(
            "random_state must be None, an int, bytes, or a generator of Python or NumPy, "
            f"got {type(random_state).__module__}.{type(random_state).__qualname__}"
        )
    drawn = draw(KEY_BYTES)
    if not isinstance(drawn, bytes) or len(drawn) != KEY_BYTES:
        raise ParameterError(f"random_state gave something else than the {KEY_BYTES} bytes that were requested")
    return KeyedRandom(_key(b"drawn\0" + drawn))


def _key(seed: bytes) -> bytes:
    return hashlib.sha256(_LABEL + seed).digest()
