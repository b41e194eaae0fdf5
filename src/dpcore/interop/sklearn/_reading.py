"""What estimators read: tables and columns whose shape no cell decides, and cells that are looked at one by one, after the budget is spent.

scikit-learn's own checks convert a table as a whole, and its messages may quote a cell. Here the type of a container decides how all of its
cells are read, each cell is read by itself, and a message names its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d, validate_data

from dpcore._validation import check_unmasked, dtype_words
from dpcore.errors import DataError, ParameterError, ParameterTypeError

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.float64]

EXACT = 2**53
"""Integers below it are floats as well: a frame makes floats of integers beside a missing cell, and no label may become another."""
_PLAIN = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32})
"""Types that one conversion of an array of objects reads as each of its cells alone would be read."""
_NUMBERS = (float, int, np.floating, np.integer, np.bool_, Fraction, Decimal)


class _Columns(BaseEstimator):  # type: ignore[misc]  # scikit-learn publishes no types
    """Where scikit-learn notes the columns of a table, so that an estimator changes only when its fit is done."""


def columns_of(X: Any) -> dict[str, Any]:
    """What scikit-learn notes of the columns of X: `n_features_in_`, and `feature_names_in_` if they have names."""
    noted = _Columns()
    validate_data(noted, X, skip_check_array=True, reset=True)
    return dict(vars(noted))


def check_columns(estimator: Any, X: Any) -> None:
    """Raise if the columns of X are not those of the fit."""
    validate_data(estimator, X, skip_check_array=True, reset=False)


def table(X: Any) -> Array:
    """X as an array of two axes; no cell is read."""
    _refuse_sparse("X", X)
    found = _array("X", X)
    if found.ndim != 2:
        raise ParameterError(f"X must have shape (n, d), got {found.ndim} dimensions. Reshape your data: X.reshape(-1, 1) has one feature")
    if found.shape[1] == 0:
        raise ParameterError(f"Found array with 0 feature(s) (shape={found.shape}) while a minimum of 1 is required.")
    if len(found) == 0:
        raise ParameterError(f"X must hold at least one record, got shape {found.shape}")
    return found


def target(y: Any, n: int, name: str) -> Array:
    """The responses or labels as a vector of n entries; `name` is the estimator's."""
    if y is None:
        raise ParameterError(f"{name} requires y to be passed, but the target y is None")
    _refuse_sparse("y", y)
    found = _array("y", y)
    if found.ndim not in {1, 2} or (found.ndim == 2 and found.shape[1] != 1):
        raise ParameterError(f"y should be a 1d array, got an array of shape {found.shape} instead.")
    if len(found) != n:
        raise ParameterError(f"X and y must have one length, got {n} and {len(found)}")
    return np.asarray(column_or_1d(found, warn=True))


def numbers(name: str, array: Array) -> Reals:
    """The cells as finite float64 numbers; raises with the place of the first one that is none."""
    if array.dtype.kind == "O":
        array = _numbers_of_objects(name, array)
    with np.errstate(over="ignore"):
        found = np.asarray(array, np.float64)
    finite = np.isfinite(found)
    if not finite.all():
        raise DataError(
            f"{name} must hold finite numbers, and the one at index {_place(~finite)} is NaN or infinite (inf): remove the record, or fill "
            "it in with a number that does not depend on the data"
        )
    return found


def codes(name: str, array: Array, known: Sequence[Any] | Array, unknown: int | None = None) -> npt.NDArray[np.int64]:
    """The index of each label among the known ones; raises with the place of the first one that is not there, unless `unknown` is given."""
    index = {plain(label): code for code, label in enumerate(known)}
    try:
        found, where = np.unique(array, return_inverse=True)
        each = [index.get(plain(label), -1) for label in found.tolist()]
    except Exception:  # labels that have no order or no hash, or whose class has code of its own
        found, where = array, np.arange(len(array))
        each = [index.get(plain(label), -1) if _has_hash(label) else -1 for label in array.tolist()]
    result = np.array(each, np.int64).reshape(-1)[where.reshape(-1)] if len(array) else np.empty(0, np.int64)
    if unknown is not None:
        result[result < 0] = unknown
    if len(bad := np.flatnonzero(result < 0)):
        raise DataError(f"{name} must hold labels that were declared, and the one at index {int(bad[0])} was not")
    return result


def _has_hash(label: Any) -> bool:
    try:
        hash(label)
    except Exception:  # the hash of a class may raise anything
        return False
    return True


def plain(label: Any) -> Any:
    """A label of NumPy as one of Python."""
    return label.item() if isinstance(label, np.generic) else label


def _refuse_sparse(name: str, values: Any) -> None:
    if issparse(values):
        raise ParameterTypeError(f"{name} must be dense, got a sparse matrix: sparse data are not supported. Convert it with .toarray()")


def _array(name: str, values: Any) -> Array:
    """Values as an array of numbers, of text or of objects. A list becomes one of objects, so that no cell decides the type of others."""
    check_unmasked(name, values)
    found: Array | None = None
    try:
        is_typed = hasattr(values, "dtype") or hasattr(values, "__array__") or hasattr(values, "__array_interface__")
        found = np.asarray(values) if is_typed else np.asarray(values, object)
    except MemoryError:
        raise
    except Exception:  # noqa: S110 - what other libraries say may show a value, and must not be the context of the error below
        pass
    if found is None:
        raise ParameterError(f"{name} must be an array or a table, got {type(values).__name__} of which NumPy makes none")
    check_unmasked(name, found)
    if found.dtype.kind == "c":
        raise ParameterError(f"Complex data not supported: {name} must hold real numbers, got {dtype_words(found.dtype)}")
    if found.dtype.kind not in "fiubOUS":
        raise ParameterTypeError(f"{name} must hold numbers, got {dtype_words(found.dtype)}")
    return found


def _numbers_of_objects(name: str, array: Array) -> Array:
    cells = array.ravel().tolist()
    if set(map(type, cells)) <= _PLAIN:
        try:
            return array.astype(np.float64)
        except OverflowError:  # an integer beyond the largest float
            pass
    kinds = np.fromiter((_is_number(cell) for cell in cells), bool, len(cells)).reshape(array.shape)
    if not kinds.all():
        raise ParameterTypeError(
            f"in each cell of {name} the argument must be neither a string nor another object, but a real number; the one at index "
            f"{_place(~kinds)} is not"
        )
    return np.fromiter((_number(cell) for cell in cells), np.float64, len(cells)).reshape(array.shape)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, _NUMBERS) and not isinstance(cell, np.timedelta64)


def _number(cell: Any) -> float:
    """A number as the nearest float; infinite beyond the largest one, and NaN if it cannot be read."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf
    except Exception:  # a signalling NaN, or the code of a class of somebody's own
        return math.nan


def numeric(name: str, array: Array) -> Array:
    """The same array, unless its type says that its cells are text."""
    if array.dtype.kind in "US":
        raise ParameterTypeError(f"{name} must hold numbers, got {dtype_words(array.dtype)}")
    return array


def _place(bad: Array) -> int | tuple[int, ...]:
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    return index if len(index) > 1 else index[0]
