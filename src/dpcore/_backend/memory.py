"""Keys and scratch arrays whose memory is wiped when the last reference to them goes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._kernels._memory import Key, Wiped, filled, fresh_key, os_key, secure_position

__all__ = ["Key", "aligned", "contiguous", "filled", "fresh_key", "os_key", "secure_position", "separate", "wiped_copy", "wiped_empty"]


def wiped_empty(shape: tuple[int, ...] | int, dtype: Any) -> npt.NDArray[Any]:
    """Zeros in memory that is wiped after use, for records and for noise that is not yet released."""
    shape, dtype = (shape,) if isinstance(shape, int) else shape, np.dtype(dtype)
    size = math.prod(shape)
    memory: Any = Wiped(size * dtype.itemsize)  # NumPy's stubs only accept buffers of the standard library
    return np.frombuffer(memory, dtype, count=size).reshape(shape) if size else np.empty(shape, dtype)


def wiped_copy(array: npt.NDArray[Any], dtype: Any = None) -> npt.NDArray[Any]:
    """A contiguous copy, aligned, in memory that is wiped."""
    copy = wiped_empty(array.shape, array.dtype if dtype is None else dtype)
    np.copyto(copy, array, casting="unsafe")
    return copy


def contiguous(array: npt.NDArray[Any], dtype: Any = None) -> npt.NDArray[Any]:
    """The array itself if it is contiguous, aligned and of this dtype, else a copy that is wiped."""
    fits = array.flags.c_contiguous and array.flags.aligned and (dtype is None or array.dtype == dtype)
    return array if fits else wiped_copy(array, dtype)


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array itself if its items are aligned, else a copy that is wiped."""
    return array if array.flags.aligned else wiped_copy(array)


def separate(values: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Values that do not change when `out` is written: where the two overlap otherwise than item on item, a copy that is wiped."""
    if out is None or out is values or not np.may_share_memory(values, out):
        return values
    in_place = out.dtype.itemsize == values.dtype.itemsize and out.strides == values.strides and out.ctypes.data == values.ctypes.data
    return values if in_place else wiped_copy(values)
