"""Models of diffprivlib that compute statistics of their own: in float64, whatever the records are.

Their sensitivities hold for real numbers. Float64 misses them by a little, which docs/interop/diffprivlib.md bounds; in float32, which
these models otherwise keep, two neighbours may be several sensitivities apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np


def functions(mixin: Any, linear_regression: Any) -> Iterator[tuple[Any, str, Any]]:
    """The class or module, the name, and what replaces it there: what the models let their records pass."""
    for name in ("_clip_to_bounds", "_clip_to_norm"):
        yield mixin, name, staticmethod(_widening(getattr(mixin, name), 1))
    yield linear_regression, "_construct_regression_obj", _widening(linear_regression._construct_regression_obj, 2)


def _widening(original: Callable[..., Any], arrays: int) -> Callable[..., Any]:
    """The function of the same arrays in float64, if they are narrower; so many of its arguments are arrays."""

    @wraps(original)
    def widened(*args: Any, **options: Any) -> Any:
        return original(*map(_wide, args[:arrays]), *args[arrays:], **options)

    return widened


def _wide(array: Any) -> Any:
    narrow = isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.dtype.itemsize < np.dtype(np.float64).itemsize
    return array.astype(np.float64) if narrow else array
