"""Checks of parameters: each names the parameter, its value and the allowed range."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.errors import DataError, ParameterError, ParameterTypeError

TINY_NORMAL = 2.0**-1022
MOST_THREADS = 4096
_SEARCHED = 2**16
"""Entries looked at together where the first bad one is searched for."""


def check_real(
    name: str,
    value: object,
    *,
    low: float,
    high: float,
    include_low: bool = True,
    include_high: bool = True,
) -> float:
    """Return `value` as a float if it is a real number in the interval, else raise."""
    if type(value) is not float:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
            raise ParameterTypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}")
        try:
            value = float(value)
        except OverflowError:
            raise ParameterError(f"{name} must be representable as float64, got {value!r}") from None
    inside = (low <= value if include_low else low < value) and (value <= high if include_high else value < high)
    if not inside:
        left, right = "[" if include_low else "(", "]" if include_high else ")"
        raise ParameterError(f"{name} must be in {left}{low!r}, {high!r}{right}, got {value!r}")
    return value


def check_positive(name: str, value: object) -> float:
    """Return `value` as a positive, normal, finite float, else raise."""
    return check_real(name, value, low=TINY_NORMAL, high=math.inf, include_high=False)


def check_sensitivity(sensitivity: float) -> float:
    """Return a sensitivity as a positive float, else raise."""
    # An integer or fraction that float64 does not hold is rounded up: a sensitivity that is too small would break the guarantee.
    rounded = check_positive("sensitivity", sensitivity)
    if isinstance(sensitivity, numbers.Integral):
        sensitivity = int(sensitivity)  # NumPy would compare its integers with a float as floats
    return rounded if rounded >= sensitivity else math.nextafter(rounded, math.inf)


def check_integer(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """Return `value` as an int if it is an integer in [low, high], else raise."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise ParameterTypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ParameterError(f"{name} must be in [{low}, {'∞' if high is None else high}], got {number}")
    return number


def check_threads(threads: object) -> None:
    """Raise unless `threads` is None or a number of threads."""
    if threads is not None:
        check_integer("threads", threads, low=1, high=MOST_THREADS)


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return `value` if it is one of the words in `choices`, else raise."""
    if not isinstance(value, str):
        raise ParameterTypeError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


# Arrays

REAL_DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint32", "uint16", "uint8")
INTEGER_DTYPES = REAL_DTYPES[3:]


def check_array(name: str, value: object, dtypes: Sequence[str]) -> npt.NDArray[Any]:
    """Return `value` as an array if its dtype is among `dtypes`, in native byte order; masked and object arrays are refused."""
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterTypeError(f"{name} must not be a masked array: fill it first, its mask would be lost")
    if not isinstance(value, np.ndarray):
        value = _as_array(name, value)
    if value.dtype.name not in dtypes or not value.dtype.isnative:
        order = "" if value.dtype.isnative else " in foreign byte order"
        raise ParameterTypeError(f"{name} must have one of the dtypes {', '.join(dtypes)}, got {value.dtype.name}{order}")
    return value


def _as_array(name: str, value: object) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise ParameterTypeError(f"{name} must be a number or an array of numbers, got {type(value).__name__}") from None
    if isinstance(value, Sequence) and array.size == 0:
        return array.astype(np.float64 if array.dtype.kind == "f" else array.dtype)
    return array


def check_out(out: object, dtype: type, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return `out` if it is a writable array of this dtype and shape, else raise."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise ParameterTypeError(f"out must be a numpy array of dtype {np.dtype(dtype).name}, got {type(out).__name__}")
    if out.dtype != np.dtype(dtype) or not out.dtype.isnative:
        raise ParameterTypeError(f"out must have dtype {np.dtype(dtype).name}, got {out.dtype.str}")
    if out.shape != shape:
        raise ParameterError(f"out must have the shape {shape} of the values, got {out.shape}")
    if not out.flags.writeable:
        raise ParameterError("out must be writable, got a read-only array")
    if any(stride == 0 and n > 1 for stride, n in zip(out.strides, shape, strict=True)):
        raise ParameterError("out must have a place of its own for every element, got a broadcast array")
    return out


def check_scale(
    value: object, *, low: float, high: float, shape: tuple[int, ...], include_low: bool = True
) -> float | npt.NDArray[np.float64]:
    """Return the noise scale as a float, or as a float64 array that broadcasts to `shape`; every entry in [low, high]."""
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterTypeError("scale must not be a masked array: its mask would be lost")
    if type(value) is float or np.ndim(value) == 0:  # type: ignore[arg-type]
        number = value.item() if isinstance(value, np.ndarray) else value
        return check_real("scale", number, low=low, high=high, include_low=include_low)
    scales = check_array("scale", value, REAL_DTYPES).astype(np.float64)
    inside = (scales >= low if include_low else scales > low) & (scales <= high)
    if not inside.all():
        index = tuple(int(i) for i in np.argwhere(~inside)[0])
        left = "[" if include_low else "("
        raise ParameterError(f"scale must be in {left}{low!r}, {high!r}], got {float(scales[index])!r} at index {index}")
    try:
        np.broadcast_to(scales, shape)
    except ValueError:
        raise ParameterError(f"scale must broadcast to the shape {shape} of the values, got shape {scales.shape}") from None
    return scales


def check_finite(name: str, array: npt.NDArray[Any]) -> None:
    """Raise DataError naming the first entry that is NaN or infinite: the same one whatever order threads look in."""
    for start in range(0, len(array), _SEARCHED):
        bad = np.flatnonzero(~np.isfinite(array[start : start + _SEARCHED]))
        if len(bad):
            raise DataError(f"{name} must be finite; the one at index {start + int(bad[0])} is not")
