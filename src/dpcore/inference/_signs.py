"""Rows of signs in any storage, read in blocks as packed bits, without a copy of the whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import REAL_DTYPES, check_array, check_integer
from dpcore.errors import DataError, ParameterError
from dpcore.inference._parameters import MOST_RECORDS

Packed = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int64]

_DENSE_BLOCK = 1 << 22
"""Entries that are packed together."""
_PACKED_BLOCK, _MOST_ROWS = 1 << 25, 1 << 18
"""Bytes and rows that the kernels get together; of a row only one number is kept."""


class SignRows:
    """n records of d signs each.

    Parameters
    ----------
    array : ndarray
        Packed rows of uint8, shape (n, ⌈d/8⌉), least significant bit first, 1 for +1; or signs or bools, shape (n, d).
    d : int
        Number of signs of a record.
    packed : bool
        Whether the rows are packed; bits beyond d are ignored.
    """

    __slots__ = ("_array", "_packed", "d", "n")

    def __init__(self, array: npt.NDArray[Any], d: int, *, packed: bool) -> None:
        self._array, self._packed = array, packed
        self.n, self.d = len(array), d

    def blocks(self, threads: int | None) -> Iterator[Packed]:
        """Yield all rows in order, packed, a block at a time; raise `DataError` at an entry that is no sign."""
        width = self._array.shape[1]
        rows = max(1, min(_MOST_ROWS, (_PACKED_BLOCK if self._packed else _DENSE_BLOCK) // width))
        for start in range(0, self.n, rows):
            block = self._array[start : start + rows]
            yield block if self._packed else packed_signs(block, start, threads)

    def sums(self, threads: int | None) -> Sums:
        """X̄ = Σ_j X^(j), exactly."""
        ones = np.zeros(self.d, np.int64)
        for block in self.blocks(threads):
            ones += _backend.column_counts(block, self.d, threads=threads)
        return 2 * ones - self.n

    def beyond(self, vector: Sums, limit: int, threads: int | None) -> tuple[int, Sums]:
        """Find the rows with |⟨X^(j), vector⟩| > limit: how many they are, and their sum."""
        count, ones = 0, np.zeros(self.d, np.int64)
        for block in self.blocks(threads):
            products = _backend.sign_products(block, vector, threads=threads)
            far = np.flatnonzero((products > limit) | (products < -limit))
            if len(far):
                count += len(far)
                ones += _backend.column_counts(block[far], self.d, threads=threads)
        return count, 2 * ones - count


def packed_signs(block: npt.NDArray[Any], start: int, threads: int | None) -> Packed:
    """Pack rows of −1 and +1, or of bools; `start` is where they stand among all rows."""
    n, d = block.shape
    out = np.empty((n, (d + 7) // 8), np.uint8)
    wrong: list[int] = []
    lock = threading.Lock()

    def work(first: int, stop: int) -> None:
        part = block[first:stop]
        positive = part if part.dtype == np.bool_ else part == 1
        out[first:stop] = np.packbits(positive, axis=1, bitorder="little")
        if positive is not part and not (signs := positive | (part == -1)).all():
            with lock:
                wrong.append(first * d + int(np.flatnonzero(~signs.ravel())[0]))

    _backend.for_ranges(work, n, threads, elements_per_unit=8 / d)
    if wrong:
        row, column = divmod(min(wrong), d)
        raise DataError(
            f"records must have the entries -1 and 1 only; the one at row {start + row}, column {column} is another number; "
            "pass zeros and ones as records == 1"
        )
    return out


def check_signs(records: npt.ArrayLike, columns: int | None) -> SignRows:
    """Return rows of signs, dense or packed, of at least two records; raise for any other shape or dtype."""
    array = check_array("records", records, ("bool", *REAL_DTYPES))
    if array.ndim != 2:
        raise ParameterError(f"records must have shape (n, d), got {array.ndim} dimensions")
    if not 2 <= len(array) <= MOST_RECORDS or array.shape[1] == 0:
        raise ParameterError(f"records must have at least two records and one column, got shape {array.shape}")
    if array.dtype != np.uint8:
        if columns is not None:
            raise ParameterError(f"columns must be None unless records are packed in uint8, got {columns!r} with dtype {array.dtype.name}")
        return SignRows(array, array.shape[1], packed=False)
    if columns is None:
        raise ParameterError(
            "columns must be the number of signs where records have dtype uint8, which is read as packed bits, got None: "
            "pass zeros and ones as records == 1"
        )
    width = array.shape[1]
    d = check_integer("columns", columns, low=8 * width - 7, high=8 * width)
    return SignRows(array, d, packed=True)
