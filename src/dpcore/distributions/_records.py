"""Records as arrays: checks of shape and type, and the error that names a NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._validation import REAL_DTYPES, check_array
from dpcore.errors import DataError, ParameterError

MOST_DIMENSIONS = 16
MOST_RECORDS = 2**50
BLOCK = 1 << 17
"""Records that are binned together: a megabyte. With smaller blocks, threads wait for one another between NumPy's steps."""


def check_records(records: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return data as an array of n ≥ 1 records, (n,) or (n, r); else raise."""
    array = check_array("records", records, REAL_DTYPES)
    if array.ndim not in {1, 2}:
        raise ParameterError(f"records must have shape (n,) or (n, r), got {array.ndim} dimensions")
    r = dimension_of(array)
    if not 1 <= len(array) <= MOST_RECORDS:
        raise ParameterError(f"records must hold at least one record, got shape {array.shape}")
    if not 1 <= r <= MOST_DIMENSIONS:
        raise ParameterError(f"records must have a number of columns in [1, {MOST_DIMENSIONS}], got shape {array.shape}")
    return array


def check_rows(records: npt.ArrayLike, dimension: int) -> npt.NDArray[Any]:
    """Return points as an array (n,) or (n, r), n ≥ 0; else raise."""
    array = check_array("records", records, REAL_DTYPES)
    if array.shape[1:] != (dimension,) and (array.ndim, dimension) != (1, 1):
        raise ParameterError(f"records must have shape (n, {dimension}){' or (n,)' if dimension == 1 else ''}, got {array.shape}")
    return array


def dimension_of(records: npt.NDArray[Any]) -> int:
    """Number r of coordinates of a record."""
    return 1 if records.ndim == 1 else int(records.shape[1])


def columns_of(records: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Records as rows: (n,) becomes (n, 1), without a copy."""
    return records[:, None] if records.ndim == 1 else records


def nan_error(records: npt.NDArray[Any]) -> DataError:
    """Make the error that names the first NaN of data: the same one for any order of threads."""
    rows = columns_of(records)
    for start in range(0, len(rows), BLOCK):
        bad = np.argwhere(np.isnan(rows[start : start + BLOCK]))
        if len(bad):
            row, column = start + int(bad[0, 0]), int(bad[0, 1])
            place = row if records.ndim == 1 else (row, column)
            return DataError(f"records must not hold NaN; the number at index {place} is NaN: remove the record or fill it in")
    return DataError("records must not change while they are read")
