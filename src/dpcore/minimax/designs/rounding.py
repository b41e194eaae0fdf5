"""Records rounded to a grid at random, so that their mean stays what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._validation import REAL_DTYPES, check_array
from dpcore.errors import DataError
from dpcore.local._mechanism import place

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import StreamPosition

    Array = npt.NDArray[np.float64]

BLOCK = 1 << 16


def random_codes(points: Array, records: Any, position: StreamPosition, threads: int | None) -> npt.NDArray[np.int64]:
    """Return the code of one of the two neighbouring points for each record, the upper one with probability (x − lower)/(upper − lower).

    Parameters
    ----------
    points : ndarray, shape (X,)
        Ascending.
    records : array_like of float
        Numbers, any shape. Those beyond an end get the code of the end.
    position : StreamPosition
        Source of randomness; a record takes one word.
    threads : int or None
        Number of threads.

    Raises
    ------
    DataError
        If a record is NaN.

    Notes
    -----
    Probabilities are exact up to 2^−52. The privacy of what is reported about the code does not depend on them.
    """
    values = check_array("records", records, (*REAL_DTYPES, "uint64"))
    flat = values.reshape(-1)
    codes = np.empty(flat.size, np.int64)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            numbers = flat[first:last].astype(np.float64, copy=False)
            missing = np.isnan(numbers)
            if missing.any():
                raise DataError(f"records must not hold NaN; the one at {place(values, first + int(missing.argmax()))} is")
            lower = np.clip(np.searchsorted(points, numbers, side="right") - 1, 0, len(points) - 2)
            with np.errstate(over="ignore"):
                share = np.clip((numbers - points[lower]) / (points[lower + 1] - points[lower]), 0.0, 1.0)
            words = _backend.uniform_words(position._replace(first_element=position.first_element + first), last - first)
            codes[first:last] = lower + ((words >> np.uint64(11)) * 2.0**-53 < share)

    _backend.for_ranges(work, flat.size, threads)
    return codes.reshape(values.shape)
