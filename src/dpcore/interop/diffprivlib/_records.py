"""What `diffprivlib.tools` reads as records: each cell by itself.

A container without a dtype of NumPy (a list, a nullable or Arrow-backed column, an array of objects) gets one from its cells, if NumPy is
asked: a float beside them rounds integers beyond 2^53, and a text makes texts of all. So its cells are read one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpcore._validation import check_unmasked
from dpcore.interop.diffprivlib._draws import INT64, REAL, Array


def records(array: Any, *, whole: bool = False) -> Any:
    """The same object if its type says what its numbers are; else an array of float64, or of int64 if records are cut to integers."""
    return array if _is_typed(array) else _read(array, np.int64 if whole else np.float64)


def columns(sample: Any) -> Any:
    """The sample of a histogram with several axes, in which a list has the columns."""
    return [records(column) for column in sample] if isinstance(sample, list | tuple) else records(sample)


def truths(array: Any) -> Any:
    """The same object if its type says what its cells are; else an array of bools, in which what has no truth value counts as true."""
    if _is_typed(array):
        return array
    return np.asarray(_TRUTHS(_objects(array)), bool)


def check_no_mask(array: Any) -> None:
    """Raise for a masked array: diffprivlib's sensitivities count the entries that it hides."""
    if type(array) not in (list, tuple) or not set(map(type, array)) <= {float, int}:
        check_unmasked("array", array)


def _is_typed(array: Any) -> bool:
    dtypes = list(array.dtypes) if hasattr(array, "columns") and hasattr(array, "dtypes") else [getattr(array, "dtype", None)]
    return all(isinstance(dtype, np.dtype) and dtype.kind != "O" for dtype in dtypes)


def _read(array: Any, dtype: type[np.generic]) -> Array:
    if type(array) in (list, tuple) and set(map(type, array)) <= _PLAIN[dtype]:
        try:
            return np.array(array, dtype)
        except OverflowError:  # an integer beyond the type
            pass
    return np.asarray(_CELLS[dtype](_objects(array)), dtype)


def _objects(array: Any) -> Array:
    """The cells as objects."""
    if isinstance(array, np.ndarray):
        return np.asarray(array)
    if hasattr(array, "to_pydict"):  # a table of Arrow
        return np.array(list(array.to_pydict().values()), object).T
    for name in ("to_pylist", "to_list", "rows"):  # of Arrow, pandas and polars: their arrays of NumPy have floats where a cell is null
        if callable(cells := getattr(array, name, None)):
            return np.array(cells(), object)
    return np.array(array, object)


def _is_number(cell: Any) -> bool:
    return type(cell) in REAL or isinstance(cell, np.longdouble) or type(cell) in (Fraction, Decimal)


def _number(cell: Any) -> float:
    """A cell as the nearest float; what is no number is missing."""
    if not _is_number(cell):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _whole_number(cell: Any) -> int:
    """A cell cut to an integer within int64; what is no number counts as 0."""
    if not _is_number(cell):
        return 0
    try:
        if isinstance(cell, float | np.floating) and np.isnan(cell):  # which would warn in a comparison
            return 0
        if cell >= 2**63:
            return INT64.max
        return INT64.min if cell <= -(2**63) else int(cell)
    except ArithmeticError:  # a NaN among decimals
        return 0


def _truth(cell: Any) -> bool:
    try:
        return bool(cell)
    except Exception:
        return True


_PLAIN: dict[type[np.generic], set[type]] = {np.float64: {float, int, bool}, np.int64: {int, bool}}
_CELLS: dict[type[np.generic], Callable[[Array], Any]] = {
    np.float64: np.frompyfunc(_number, 1, 1),
    np.int64: np.frompyfunc(_whole_number, 1, 1),
}
_TRUTHS = np.frompyfunc(_truth, 1, 1)
