"""Noise on one number or on arrays, from the random state of a mechanism of diffprivlib."""

from __future__ import annotations

import hashlib
import secrets
import struct
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, noise
from dpcore._exact.pending import Kind
from dpcore.errors import ParameterTypeError
from dpcore.interop._entering import EXACT, released
from dpcore.rng import SecureRandom, Stream, StreamPosition

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]

_SECURE = SecureRandom()
_LABEL = b"dpcore.interop.diffprivlib\0"
_FLOATS_FROM = 2.0**40
"""Scales above are not those of integer noise."""
INT64 = np.iinfo(np.int64)
_LARGEST = int(np.finfo(np.float64).max)

INTEGER_TYPES: frozenset[type] = frozenset({int, bool, *(np.dtype(code).type for code in "bhilqBHILQ")})
NUMBER_TYPES: frozenset[type] = INTEGER_TYPES | {
    float,
    *(np.dtype(code).type for code in "efdg" if np.finfo(code).nmant <= np.finfo(float).nmant),
}
"""What is added to noise. Other types pass diffprivlib's checks (Fraction, a wider longdouble, classes of others), but have numbers
that float64 has not, and rounding would move two neighbours apart."""


class _Seeded:
    """A stream under a key from a random state, which moves on. What is drawn with it is reproducible, and not private."""

    __slots__ = ("_key", "_nonce")
    secure = False

    def __init__(self, state: Any) -> None:
        # two numbers of 53 bits: `bytes` takes ten times as long, and a seed has fewer
        self._key = _backend.Key(hashlib.sha256(_LABEL + struct.pack("<2d", state.random(), state.random())).digest())
        self._nonce = -1

    def position(self) -> StreamPosition:
        """The next nonce."""
        self._nonce += 1
        return tuple.__new__(StreamPosition, (self._key, self._nonce, 0, False))


def stream_of(mechanism: Any) -> Stream:
    """The stream of one call: the operating system's randomness where diffprivlib would use that, else a key from the seeded state."""
    state = mechanism._rng
    return _SECURE if isinstance(state, secrets.SystemRandom) else _Seeded(state)


@lru_cache(maxsize=4096)
def float_call(kind: Kind, scale: float, grid: float | None = None) -> Any:
    """What adds noise to single numbers: its `release(value, stream)`."""
    return _backend.short_float_call(kind, scale, _backend.default_grid(scale) if grid is None else grid, None)


@lru_cache(maxsize=4096)
def _int_call(kind: Kind, scale: float) -> Any:
    return _backend.short_int_call(kind, scale, None)


def plain(value: Any) -> float | int:
    """The same number as a float, or as an integer if float64 might lack it: within the floats, whose ends larger ones count as."""
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind in INTEGER_TYPES:
        whole = min(max(int(value), -_LARGEST), _LARGEST)
        return whole if abs(whole) > EXACT else float(whole)
    if kind in NUMBER_TYPES:
        return float(value)
    raise ParameterTypeError(
        f"the value to be randomised must be a float or an integer of Python or NumPy that float64 or int64 holds, got {kind.__name__}; "
        "noise is exact, and this type may have to be rounded before"
    )


def real(kind: Kind, number: float, scale: float, stream: Stream) -> np.float64:
    """R(number + scale·W), of a number that is plain."""
    if type(number) is int:
        return np.float64(released(kind, number, scale, stream))  # those beyond int64 take 0.1 ms
    return np.float64(float_call(kind, scale).release(number, stream))


def reals(kind: Kind, values: Array, scale: float, stream: Stream) -> Reals:
    """The same for an array. Entries that are not finite stay what they are, as in diffprivlib."""
    finite = np.isfinite(values)
    if finite.all():
        return np.asarray(noise.float_noise(kind, values, scale, None, stream, None, None), np.float64)
    noisy = np.asarray(noise.float_noise(kind, np.where(finite, values, 0), scale, None, stream, None, None), np.float64)
    return np.where(finite, noisy, values)


def pairs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.complex128]:
    """Integers as the nearest float64 and the rest, in the parts of a complex number, which noise takes exactly."""
    large, small = (values >> 32).astype(np.float64) * 2.0**32, (values & 0xFFFFFFFF).astype(np.float64)
    found = np.empty(values.shape, np.complex128)
    found.real = large + small
    found.imag = small - (found.real - large)  # exact, as |large| >= small or large = 0 (Dekker, 1971)
    return found


def laplace(values: Array, scale: float, grid: float | None, stream: Stream) -> Reals:
    """R(value + scale·W) of floats, or of pairs."""
    if values.dtype == np.complex128:
        grid = _backend.default_grid(scale) if grid is None else grid
        return _backend.float_noise("laplace", values, scale, grid, stream.position(), out=None, threads=None)
    return np.asarray(noise.float_noise("laplace", values, scale, grid, stream, None, None), np.float64)


def integer(kind: Kind, value: float, scale: float, stream: Stream) -> int:
    """value + Z, of an integer that is plain; beyond int64 it counts as its nearest end."""
    number = min(max(int(value), INT64.min), INT64.max)
    if scale > _FLOATS_FROM:
        return int(noise.float_noise("laplace", number, scale, None, stream, None, 1))
    return _int_call(kind, scale).release(number, stream)  # type: ignore[no-any-return]


def integers(kind: Kind, values: Array, scale: float, stream: Stream) -> npt.NDArray[np.int64]:
    """The same for an array of integers."""
    whole = values.astype(np.int64, copy=False)
    if scale > _FLOATS_FROM:
        noisy = noise.float_noise("laplace", whole, scale, None, stream, None, None)
        return np.where(np.abs(noisy) < 2.0**63, noisy, 0.0).astype(np.int64) + _overflow(noisy)
    return np.asarray(noise.int_noise(kind, whole, scale, stream, None, None), np.int64)


def _overflow(noisy: Reals) -> npt.NDArray[np.int64]:
    """What replaces sums beyond int64: its ends."""
    return np.where(noisy >= 2.0**63, INT64.max, np.where(noisy <= -(2.0**63), INT64.min, 0))
