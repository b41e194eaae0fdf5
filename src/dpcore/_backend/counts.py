"""Aggregation of reports: exact integer counts, the same on any number of threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.threads import for_ranges
from dpcore._kernels import _counts
from dpcore.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

Counts = npt.NDArray[np.int64]
HASH_PRIME = int(_counts.HASH_PRIME)
"""2³¹ − 1: hash functions are (a·v + b) mod this."""


def _summed(add: Callable[[Any, Counts], object], reports: Any, size: int, threads: int | None, elements_per_unit: float) -> Counts:
    """Sum over ranges of reports, each range into counts of its own."""
    total, lock = np.zeros(size, np.int64), threading.Lock()

    def work(start: int, stop: int) -> None:
        counts = np.zeros(size, np.int64)
        bad = add(reports[start:stop], counts)
        if bad is not None and bad != -1:
            raise DataError(f"reports must be ones that the mechanism can make; the one at index {start + int(bad)} is not")  # type: ignore[call-overload]
        with lock:
            np.add(total, counts, out=total)

    for_ranges(work, len(reports), threads, elements_per_unit=elements_per_unit)
    return total


def count_true(reports: npt.NDArray[np.bool_]) -> int:
    """Number of True."""
    return int(np.count_nonzero(reports))


def count_packed(bits: npt.NDArray[np.uint8], n: int) -> int:
    """Number of ones among the first n packed bits."""
    return int(_counts.count_bits(np.ascontiguousarray(bits), n))


def column_counts(packed: npt.NDArray[np.uint8], k: int, *, threads: int | None) -> Counts:
    """Number of ones in each of the first k columns of rows of packed bits."""
    width = packed.shape[1]
    in_place = packed.strides[1] == 1 and packed.strides[0] >= width
    rows = packed if in_place else np.ascontiguousarray(packed)
    return _summed(_counts.count_columns, rows, 8 * width, threads, max(1.0, 64 / width))[:k]


def code_counts(codes: npt.NDArray[Any], k: int, *, threads: int | None) -> Counts:
    """Number of times each code in [0, k) occurs; raises `DataError` at any other."""
    return _summed(_counts.count_codes, codes, k, threads, max(2.0, k / 16384))


def support_counts(reports: npt.NDArray[Any], g: int, k: int, *, threads: int | None) -> Counts:
    """Number of reports whose code is the hash of each category."""

    def add(part: Any, counts: Counts) -> object:
        return _counts.count_support(part, g, counts)

    return _summed(add, reports, k, threads, max(64 / k, 2**-7))


def sign_sums(reports: npt.NDArray[Any], rows: int, *, threads: int | None) -> Counts:
    """Sum of the signs reported for each row."""
    return _summed(_counts.sum_signs, reports, rows, threads, max(2.0, rows / 16384))


def walsh_hadamard(x: Counts) -> Counts:
    """y[v] = Σ_u (−1)^popcount(u & v)·x[u]; the length is a power of two."""
    result = np.array(x, np.int64)
    _counts.walsh_hadamard(result)
    return result


def hash_codes(seed: int, k: int, g: int) -> npt.NDArray[np.int64]:
    """h(v) for v = 0 … k − 1 under one seed."""
    out = np.empty(k, np.int64)
    _counts.hash_codes(np.full(k, seed, np.uint64), np.arange(k, dtype=np.int64), g, out)
    return out
