"""Cross products of clipped rows as exact integers, so that their sensitivities hold for the computed numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.errors import DataError, ParameterError
from dpcore.sums import ExactSum

BITS = 20
RADIUS = 1 << BITS
"""K: rows become integer vectors of ℓ2 norm at most K, and y an integer of magnitude at most K."""
BLOCK = 1 << (53 - 2 * BITS)
"""Rows whose products are summed as floats: every partial sum is an integer of at most 2^53, exact in any order of additions."""
FLUSH = 1 << (62 - 53)
"""Blocks whose sums fit into an int64."""
MOST_COLUMNS = 1 << 12
_BLOCK_ITEMS = 1 << 21
_LARGEST = np.finfo(np.float64).max

Array = npt.NDArray[Any]


def check_columns(name: str, d: int) -> None:
    """Raise if there are more columns than the sums of products hold."""
    if d > MOST_COLUMNS:
        raise ParameterError(f"{name} must have at most {MOST_COLUMNS} columns, got {d}")


def cross_products(x: Array, y: Array, x_radius: float, y_radius: float, *, center: Array | None = None, name: str = "x") -> ExactSum:
    """The upper triangle of X'X row by row, X'y and y'y of the quantised rows, exactly; raises `DataError` at NaN.

    Rows are clipped and rounded as distances from `center`, if there is one. `name` is what messages call them.
    """
    d = x.shape[1]
    high, part = np.zeros((d + 1, d + 1), np.int64), np.zeros((d + 1, d + 1), np.int64)
    block = min(BLOCK, max(256, _BLOCK_ITEMS // (d + 1)))
    for count, start in enumerate(range(0, len(x), block), 1):
        rows = _rows(x[start : start + block], x_radius, start, center, name)
        joined = np.column_stack([rows, _responses(y[start : start + block], y_radius, start)])
        part += (joined.T @ joined).astype(np.int64)
        if count % FLUSH == 0:
            high += part >> 2 * BITS
            part &= RADIUS**2 - 1
    triangle = np.triu_indices(d)
    places = (np.append(triangle[0], np.arange(d + 1)), np.append(triangle[1], np.full(d + 1, d)))
    upper = (high + (part >> 2 * BITS))[places] * float(RADIUS**2)
    lower = (part & (RADIUS**2 - 1))[places].astype(np.float64)
    nothing, bound = np.zeros(len(upper)), float(RADIUS**2)
    return ExactSum(upper, nothing, 1.0, len(x), -bound, bound) + ExactSum(lower, nothing, 1.0, 0, -bound, bound)


def _rows(x: Array, radius: float, start: int, center: Array | None = None, name: str = "X") -> npt.NDArray[np.float64]:
    """Rows clipped to the ball of this radius and rounded to integers, K for the radius; a function of each row alone."""
    rows = np.clip(x.astype(np.float64), -_LARGEST, _LARGEST)
    _refuse_nan(name, rows, start)
    if center is not None:
        with np.errstate(all="ignore"):
            rows = np.clip(rows - center, -_LARGEST, _LARGEST)
    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), radius)
    # Rounding moves a row by at most √d/2; one step more covers the floats on the way.
    room = RADIUS - math.sqrt(x.shape[1]) / 2 - 1
    with np.errstate(all="ignore"):  # a caller may have set NumPy to raise, which would reveal a record
        unit = rows / largest
        norm = np.sqrt((unit * unit).sum(axis=1, keepdims=True))
        factor = np.minimum(largest / radius * RADIUS, room / norm)
        whole: npt.NDArray[np.float64] = np.rint(unit * factor)
    whole[(whole * whole).sum(axis=1) > RADIUS**2] = 0.0  # never happens; if it did, the guarantee would still hold
    return whole


def _responses(y: Array, radius: float, start: int) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = y.astype(np.float64)
    _refuse_nan("y", values, start)
    with np.errstate(all="ignore"):
        return np.rint(np.clip(values, -radius, radius) / radius * RADIUS)


def _refuse_nan(name: str, block: npt.NDArray[np.float64], start: int) -> None:
    bad = np.isnan(block)
    if bad.any():
        place = np.argwhere(bad)[0].tolist()
        index = (start + place[0], *place[1:])
        raise DataError(f"{name} must not hold NaN; the number at index {index if len(index) > 1 else index[0]} is NaN")
