"""Shapes and dtypes of reports, and the check that reports are ones that a mechanism can make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._validation import check_array, check_unmasked
from dpcore.errors import DataError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    import numpy.typing as npt


def packed_type(codes: npt.NDArray[Any], k: int) -> tuple[tuple[int, int], Any]:
    """Shape and dtype of reports of k bits; the codes must be a vector or a scalar."""
    if codes.ndim > 1:
        raise ParameterError(f"records must be a scalar or a vector, got shape {codes.shape}")
    return (codes.size, (k + 7) // 8), np.uint8


def check_rows(reports: object, k: int, name: str = "k") -> npt.NDArray[np.uint8]:
    """Return packed reports of k bits each, shape (n, ⌈k/8⌉); a single one may be a vector. Padding bits must be 0.

    `name` is what the mechanism calls k.
    """
    array = check_array("reports", reports, ("uint8",))
    array = array.reshape(1, -1) if array.ndim == 1 else array
    width = (k + 7) // 8
    if array.ndim != 2 or array.shape[1] != width:
        raise ParameterError(f"reports must have shape (n, {width}) for {name} = {k}, got {array.shape}")
    if k % 8:
        last = array[:, -1] >= 1 << (k % 8)
        if last.any():
            raise DataError(f"reports must be ones that the mechanism can make; row {int(last.argmax())} has bits beyond {name} = {k}")
    return array


def check_structured(reports: object, dtype: Any) -> npt.NDArray[Any]:
    """Return structured reports as a vector."""
    check_unmasked("reports", reports)
    if not isinstance(reports, np.ndarray | np.void) or reports.dtype != dtype:
        found = reports.dtype if isinstance(reports, np.ndarray | np.void) else type(reports).__name__
        raise ParameterTypeError(f"reports must have dtype {dtype}, got {found}")
    return np.asarray(reports).reshape(-1)
