"""Aggregation of reports: exact integer counts, the same on any number of threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.memory import aligned, contiguous
from dpcore._backend.threads import for_ranges
from dpcore._kernels import _counts
from dpcore.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

Counts = npt.NDArray[np.int64]
HASH_PRIME = int(_counts.HASH_PRIME)
"""2³¹ − 1: hash functions are (a·v + b) mod this."""


def _summed(
    add: Callable[[Any, Counts], object], reports: Any, size: int, threads: int | None, elements_per_unit: float, row: int | None = None
) -> Counts:
    """Sum over ranges of reports, each range into its own counts; `row` is their row in an array of rows, for messages."""
    total, lock = np.zeros(size, np.int64), threading.Lock()
    reports = aligned(reports)

    def work(start: int, stop: int) -> None:
        counts = np.zeros(size, np.int64)
        bad = add(reports[start:stop], counts)
        if bad is not None and bad != -1:
            index = start + int(bad)  # type: ignore[call-overload]
            raise _impossible(index if row is None else (row, index))
        with lock:
            np.add(total, counts, out=total)

    for_ranges(work, len(reports), threads, elements_per_unit=elements_per_unit)
    return total


def _impossible(index: object) -> DataError:
    return DataError(f"reports must be ones that the mechanism can make; the one at index {index} is not")


def _by_rows(add: Callable[[int, int], object], rows: npt.NDArray[Any], threads: int | None, per_unit: float) -> None:
    """Count rows, a range of them at a time; `per_unit` reports take the time of one noisy number."""
    columns = max(1, rows.shape[1])

    def work(start: int, stop: int) -> None:
        bad = add(start, stop)
        if bad is not None and bad != -1:
            raise _impossible((start + int(bad) // columns, int(bad) % columns))  # type: ignore[call-overload]

    for_ranges(work, len(rows), threads, elements_per_unit=per_unit / columns)


_LONG_ROW = 1 << 21
"""From this many reports in a row, threads share the ranges of each row instead of the rows."""
_TRUE_PER_UNIT, _BITS_PER_UNIT = 16.0, 256.0


def count_true(reports: npt.NDArray[np.bool_]) -> int:
    """Number of True."""
    return int(np.count_nonzero(reports))


def count_true_rows(reports: npt.NDArray[np.bool_], *, threads: int | None) -> Counts:
    """Number of True in each row."""
    rows, counts = reports.view(np.uint8), np.zeros(len(reports), np.int64)
    if rows.shape[1] >= _LONG_ROW:
        for row, count in zip(rows, counts[:, None], strict=True):
            count[:] = _summed(lambda part, found: _counts.count_true(part[None], found), row, 1, threads, _TRUE_PER_UNIT)
        return counts
    _by_rows(lambda start, stop: _counts.count_true(rows[start:stop], counts[start:stop]), rows, threads, _TRUE_PER_UNIT)
    return counts


def count_packed(bits: npt.NDArray[np.uint8], n: int, *, threads: int | None = 1) -> int:
    """Number of ones among the first n packed bits."""
    row, whole = contiguous(bits), n // 8
    rest = int(row[whole] & ((1 << n % 8) - 1)).bit_count() if n % 8 else 0

    def add(part: Any, counts: Counts) -> None:
        _counts.count_bits(part[None], 8 * len(part), counts)

    return int(_summed(add, row[:whole], 1, threads, _BITS_PER_UNIT / 8)[0]) + rest


def count_packed_rows(bits: npt.NDArray[np.uint8], n: int, *, threads: int | None) -> Counts:
    """Number of ones among the first n packed bits of each row."""
    if n >= 8 * _LONG_ROW:
        return np.array([count_packed(row, n, threads=threads) for row in bits], np.int64)
    in_place = bits.shape[1] < 2 or bits.strides[1] == 1
    rows, counts = bits if in_place else contiguous(bits), np.zeros(len(bits), np.int64)
    _by_rows(lambda start, stop: _counts.count_bits(rows[start:stop], n, counts[start:stop]), rows, threads, _BITS_PER_UNIT / 8)
    return counts


def column_counts(packed: npt.NDArray[np.uint8], k: int, *, threads: int | None) -> Counts:
    """Number of ones in each of the first k columns of rows of packed bits."""
    width = packed.shape[1]
    in_place = packed.strides[1] == 1 and packed.strides[0] >= width
    rows = packed if in_place else contiguous(packed)
    return _summed(_counts.count_columns, rows, 8 * width, threads, max(1.0, 64 / width))[:k]


def code_counts(codes: npt.NDArray[Any], k: int, *, threads: int | None, row: int | None = None) -> Counts:
    """Number of times each code in [0, k) occurs; raises `DataError` at any other."""

    def add(part: Any, counts: Counts) -> object:
        return _counts.count_codes(part[None], counts[None])

    return _summed(add, codes, k, threads, max(2.0, k / 16384), row)


def add_code_counts(counts: Counts, codes: npt.NDArray[Any]) -> None:
    """Add the number of times each code in [0, k) occurs to k counts, on this thread; raises `DataError` at any other code."""
    bad = _counts.count_codes(aligned(codes)[None], counts[None])
    if bad != -1:
        raise _impossible(int(bad))


def code_counts_rows(codes: npt.NDArray[Any], k: int, *, threads: int | None) -> Counts:
    """Number of times each code in [0, k) occurs in each row; raises `DataError` at any other."""
    if codes.shape[1] >= _LONG_ROW:
        rows = [code_counts(row, k, threads=threads, row=i) for i, row in enumerate(codes)]
        return np.array(rows, np.int64).reshape(len(codes), k)
    counts, codes = np.zeros((len(codes), k), np.int64), aligned(codes)
    _by_rows(lambda start, stop: _counts.count_codes(codes[start:stop], counts[start:stop]), codes, threads, 2.0)
    return counts


def support_counts(reports: npt.NDArray[Any], g: int, k: int, *, threads: int | None) -> Counts:
    """Number of reports whose code is the hash of each category."""

    def add(part: Any, counts: Counts) -> object:
        return _counts.count_support(part, g, counts)

    return _summed(add, reports, k, threads, max(64 / k, 2**-7))


def sign_sums(reports: npt.NDArray[Any], rows: int, *, threads: int | None) -> Counts:
    """Sum of the signs reported for each row."""
    return _summed(_counts.sum_signs, reports, rows, threads, max(2.0, rows / 16384))


def pair_counts(reports: npt.NDArray[Any], d: int, *, threads: int | None) -> Counts:
    """Numbers of False and of True about each index in [0, d), shape (2, d)."""
    counts = _summed(_counts.count_pairs, reports, 2 * d, threads, max(2.0, d / 8192))
    return np.ascontiguousarray(counts.reshape(d, 2).T)


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
