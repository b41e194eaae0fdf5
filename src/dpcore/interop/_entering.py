"""How the numbers of a peer enter the noise: exactly, or clamped to int64.

Nothing here moves two of them further apart, but for decimals: two of them by at most 10^-20000, below which one counts as 0.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend, noise
from dpcore._validation import REAL_DTYPES
from dpcore.errors import ParameterTypeError
from dpcore.rng import resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore._exact.pending import Kind
    from dpcore.rng import Stream

WHOLE = (int, np.integer, np.bool_)
FLOATS = (float, np.float16, np.float32)
EXACT = 2**53
"""Up to here float64 has all integers."""
_LARGEST = sys.float_info.max
_DIGITS = 20_000
"""Decimals below 10 to the minus this count as 0, those above 10 to it as the largest float: fractions of them would fill memory."""


def number(value: Any) -> int | float | Fraction:
    """A number as an int64 or a float, if it is one of them, else as a fraction. NaN is 0, and infinite is the largest float.

    Raises
    ------
    ParameterTypeError
        If it is no real number of Python or NumPy.
    """
    if isinstance(value, FLOATS):
        return _finite(float(value))
    if isinstance(value, WHOLE) and not isinstance(value, np.timedelta64):  # NumPy counts durations as integers
        whole = int(value)
        return whole if noise.INT64_MIN <= whole <= noise.INT64_MAX else Fraction(whole)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, Decimal):
        return _fraction(value)
    if isinstance(value, np.longdouble):
        return Fraction(*value.as_integer_ratio()) if np.isfinite(value) else _finite(float(value))
    raise ParameterTypeError(f"a value must be a real number, got one of type {type(value).__name__}")


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    return 0.0 if math.isnan(value) else math.copysign(_LARGEST, value)


def _fraction(value: Decimal) -> float | Fraction:
    if value.is_nan() or (value.is_finite() and value.adjusted() < -_DIGITS):
        return 0.0
    if value.is_infinite() or value.adjusted() > _DIGITS:
        return -_LARGEST if value.is_signed() else _LARGEST
    return Fraction(value)


def whole_number(value: Any) -> int:
    """An integer as the nearest one in int64."""
    return min(max(int(value), noise.INT64_MIN), noise.INT64_MAX)


def fraction_noise(kind: Kind, value: Fraction, scale: float, rng: Stream | None, grid: float | None = None) -> float:
    """The noise of `dpcore.noise` on any rational number, exactly, in about 0.1 ms."""
    return _backend.fraction_noise(kind, value, scale, noise.default_grid(scale) if grid is None else grid, resolve(rng).position())


def released(kind: Kind, value: Any, scale: float, rng: Stream | None = None, grid: float | None = None) -> float:
    """A number with noise."""
    entered = number(value)
    if isinstance(entered, Fraction):
        return fraction_noise(kind, entered, scale, rng, grid)
    return float(noise.float_noise(kind, entered, scale, grid, rng, None, 1))


def array(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers of NumPy of a type that enters exactly: truth values as 0 and 1, unsigned integers of 64 bits clamped to int64.

    Raises
    ------
    ParameterTypeError
        If they have more digits than float64.
    """
    plain = within_int64(values)
    if plain.dtype == np.bool_:
        return plain.view(np.uint8)
    if plain.dtype not in REAL_DTYPES:
        raise ParameterTypeError(
            f"{name} must not have the dtype {plain.dtype}, whose numbers may come further apart as float64; convert them before you "
            "state their sensitivity"
        )
    return plain


def within_int64(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same in the machine's order of bytes; unsigned integers of 64 bits as int64, those beyond it as its end."""
    values = values.astype(values.dtype.newbyteorder("="), copy=False)  # first: a dtype of another order is equal to none of below
    if values.dtype != np.uint64:
        return values
    found: npt.NDArray[Any] = np.minimum(values, np.uint64(noise.INT64_MAX), out=np.empty_like(values)).view(np.int64)
    return found
