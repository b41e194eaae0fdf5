"""What `diffprivlib.tools` reads as records: each cell by itself.

A container without a dtype of NumPy (a list, a nullable or Arrow-backed column, an array of objects) gets one from its cells, if NumPy is
asked: a float beside them rounds integers beyond 2^53, and a text makes texts of all. So its cells are read one by one.

The shape is public. Of arrays, columns and frames it follows from their types, and a list in a cell is no number. A list has no type: which
of its entries are lists, and how long they are, is its shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from dpcore._validation import check_unmasked
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop._entering import FLOATS, WHOLE
from dpcore.interop.diffprivlib._draws import INT64, NUMBER_TYPES, Array

NUMBERS = (*WHOLE, *FLOATS, np.floating, Fraction, Decimal)
"""Classes of numbers, and of those derived from them."""
_TEXTS = (str, bytes, bytearray)
_AXES = 32
"""All that arrays of NumPy 1 can have."""


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
    dtypes = list(array.dtypes) if _is_frame(type(array)) else [getattr(array, "dtype", None)]
    return all(isinstance(dtype, np.dtype) and dtype.kind != "O" for dtype in dtypes)


def _is_frame(kind: type) -> bool:
    """Whether this is a frame of pandas."""
    return hasattr(kind, "iloc") and hasattr(kind, "dtypes") and hasattr(kind, "columns")


def _read(array: Any, dtype: type[np.generic]) -> Array:
    if type(array) in (list, tuple) and set(map(type, array)) <= _PLAIN[dtype]:
        try:
            return np.array(array, dtype)
        except OverflowError:  # an integer beyond the type
            pass
    return np.asarray(_CELLS[dtype](_objects(array)), dtype)


def _objects(array: Any) -> Array:
    """The cells as objects, in a shape that no cell decides.

    Raises
    ------
    ParameterTypeError
        If it is no container of numbers and no number, by its type.
    ParameterError
        If it is a list whose entries are not all lists of one length, or all none.
    """
    kind = type(array)
    if hasattr(kind, "to_pydict"):  # a table of Arrow, whose names need not differ
        return _side_by_side(array.columns, array.num_rows)
    if hasattr(kind, "get_columns"):  # a frame of polars
        return _side_by_side(array.get_columns(), array.height)
    if _is_frame(kind):
        return _side_by_side([array.iloc[:, place] for place in range(array.shape[1])], array.shape[0])
    for name in ("to_pylist", "to_list"):  # of Arrow, pandas and polars: their arrays of NumPy have floats where a cell is null
        if hasattr(kind, name):
            _check_flat(array)
            return _flat(getattr(array, name)())
    if kind.__module__.partition(".")[0] == "pandas" and getattr(array, "ndim", None) == 1:  # what lies below a column
        _check_flat(array)
        return _flat(list(array))
    if isinstance(array, Sequence) and not isinstance(array, _TEXTS):
        return _of_lists(list(array))
    if _has_cells(kind):
        return np.asarray(array, object)
    if _is_number(array):
        return np.array(array, object)
    raise ParameterTypeError(f"array must be numbers in a list, an array, a column or a frame, got one of type {kind.__name__}")


def _has_cells(kind: type) -> bool:
    """Whether this is an array of any library; a number of NumPy is none, though it can make one."""
    return hasattr(kind, "__array__") and not issubclass(kind, np.generic)


def _side_by_side(found: Sequence[Any], rows: int) -> Array:
    table = np.empty((rows, len(found)), object)
    for place, column in enumerate(found):
        table[:, place] = _objects(column)
    return table


def _flat(cells: Sequence[Any]) -> Array:
    """One axis, whatever the cells are."""
    return np.fromiter(cells, object, len(cells))


def _check_flat(column: Any) -> None:
    """Raise if the type of a column says that its cells are lists or structures."""
    kind: Any = getattr(column, "type", None) if hasattr(column, "to_pylist") else column.dtype
    kind = getattr(kind, "pyarrow_dtype", kind)
    kind = getattr(kind, "storage_type", kind)
    if type(kind).__module__.partition(".")[0] == "pyarrow":
        import pyarrow as pa

        nested = pa.types.is_nested(kind)
    else:
        nested = callable(ask := getattr(kind, "is_nested", None)) and bool(ask())  # of polars
    if nested:
        raise ParameterTypeError(f"array must have columns of numbers, got one of type {kind}; make a column of what lies in it first")


def _of_lists(cells: list[Any]) -> Array:
    """The cells of a list, or of lists in lists."""
    shape = [len(cells)]
    while (kinds := set(map(type, cells))) and len(shape) < _AXES:
        if arrays := {kind for kind in kinds if _has_cells(kind)}:
            cells = [_entry(cell) if type(cell) in arrays else cell for cell in cells]
            kinds = set(map(type, cells))
        lists = {kind for kind in kinds if issubclass(kind, Sequence | np.ndarray) and not issubclass(kind, _TEXTS)}
        if not lists:
            break
        if lists != kinds or len(lengths := set(map(len, cells))) > 1:
            raise ParameterError(
                "array must have entries that are all numbers, or all lists of one length, if it is a list: its shape is public; "
                "in an array of objects, a column or a frame a list counts as no number"
            )
        shape.append(lengths.pop())
        cells = list(chain.from_iterable(cells))
    return _flat(cells).reshape(shape)


def _entry(array: Any) -> Any:
    """An array in a list: of NumPy; without an axis, what it holds."""
    made = np.asarray(array) if _is_typed(array) else _objects(array)
    return made if made.ndim else made[()]


def _is_number(cell: Any) -> bool:
    kind = type(cell)
    return kind in NUMBER_TYPES or (issubclass(kind, NUMBERS) and not issubclass(kind, np.timedelta64))  # durations are integers of NumPy


def _number(cell: Any) -> float:
    """A cell as the nearest float; what is no number is missing."""
    if not _is_number(cell):
        return math.nan
    try:
        try:
            return float(cell)
        except OverflowError:
            return math.inf if cell > 0 else -math.inf
    except Exception:  # a signalling NaN, or the code of a class of somebody's own
        return math.nan


def _whole_number(cell: Any) -> int:
    """A cell cut to an integer within int64; what is no number counts as 0."""
    if not _is_number(cell):
        return 0
    try:
        if isinstance(cell, np.generic):
            cell = cell.item()  # NumPy compares in the type of the cell, in which float16 and bool have no 2^63
        if isinstance(cell, float | np.floating) and np.isnan(cell):  # which would warn in a comparison
            return 0
        if cell >= 2**63:
            return INT64.max
        return INT64.min if cell <= -(2**63) else min(max(int(cell), INT64.min), INT64.max)
    except Exception:  # a NaN among decimals, or the code of a class of somebody's own
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
