"""Exact sums of columns: which ranges go to which thread, and the way from two 64-bit words to pairs of floats."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.memory import aligned, contiguous
from dpcore._backend.noise import float_noise
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import Position
from dpcore._exact.pending import Kind
from dpcore._kernels import _sums
from dpcore.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

_VALUES_PER_UNIT = 8
"""Values that are added in the time of one noisy number."""
_TILE = 1 << 15
"""Arrays of more columns are cut into tiles of columns and not into rows: the totals of a thread's range would be too large."""
_WIDE = 1024
_FEW = 4096
"""So many values are added in less time than it takes to share them out."""
_FAR_CENTRE = 2**62

Words = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]


def column_sums(
    x: npt.NDArray[Any], lower: float, upper: float, grid: float, *, threads: int | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sums of the columns of x (n, d), each value clamped and rounded to the grid: exactly the nearest floats plus the rests.

    The bounds are multiples of the grid of less than 2⁵¹ steps. A NaN raises `DataError` with its index.
    """
    sums = _sums.Sums(x, lower, upper, grid)
    rows, columns = x.shape
    add = _at_once if x.size <= _FEW else _by_rows if columns <= _TILE else _by_columns
    low, high = np.zeros(columns, np.uint64), np.zeros(columns, np.int64)
    if not add(sums, low, high, rows, threads):
        position = int(sums.first_nan())
        index = tuple(int(i) for i in np.unravel_index(position, x.shape))
        raise DataError(f"records must not hold NaN; the number at index {index if columns > 1 else index[0]} is NaN")
    return _to_pairs((low, high), grid)


def add_grouped_sums(
    totals: npt.NDArray[np.int64], x: npt.NDArray[np.float64], groups: npt.NDArray[np.int32], lower: float, upper: float, grid: float
) -> None:
    """Add each value of x (n,), clamped and rounded to the grid, to the total of its group: rows of (low word, high word, count).

    On this thread; the totals of several threads are added by `merge_grouped_sums`. A NaN raises `DataError`.
    """
    if not _sums.grouped(contiguous(x), contiguous(groups), lower, upper, grid, totals):
        raise DataError("records must not hold NaN")


def merge_grouped_sums(totals: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> None:
    """Add totals of the same groups to the first ones, in place."""
    low = totals[:, 0].view(np.uint64)  # modulo 2^64
    low += others[:, 0].view(np.uint64)
    totals[:, 1:] += others[:, 1:]
    totals[:, 1] += low < others[:, 0].view(np.uint64)


def grouped_pairs(totals: npt.NDArray[np.int64], grid: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The sums of groups times the grid, exactly: the nearest floats and the rests."""
    return _to_pairs((np.ascontiguousarray(totals[:, 0]).view(np.uint64), np.ascontiguousarray(totals[:, 1])), grid)


def _at_once(sums: Any, low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64], rows: int, threads: int | None) -> bool:  # noqa: ARG001
    return bool(sums.add(0, rows, 0, len(low), low, high))


def _by_rows(sums: Any, low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64], rows: int, threads: int | None) -> bool:
    lock, good = threading.Lock(), [True]

    def work(start: int, stop: int) -> None:
        part: Words = np.zeros_like(low), np.zeros_like(high)
        if good[0] and not sums.add(start, stop, 0, len(low), *part):
            good[0] = False
        with lock:
            low[:], high[:] = _added((low, high), part)

    # The totals of many columns are worth a longer range.
    per_unit = _VALUES_PER_UNIT * (4 if len(low) > _WIDE else 1)
    for_ranges(work, rows, threads, elements_per_unit=per_unit / max(1, len(low)))
    return good[0]


def _by_columns(sums: Any, low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64], rows: int, threads: int | None) -> bool:
    good = [True]
    step = 1 << 10  # rows at a time, so that long columns do not hold up Ctrl-C

    def work(start: int, stop: int) -> None:
        for tile in range(start, stop):
            columns = slice(tile * _TILE, min((tile + 1) * _TILE, len(low)))
            for row in range(0, rows if good[0] else 0, step):
                if not sums.add(row, min(row + step, rows), columns.start, columns.stop, low[columns], high[columns]):
                    good[0] = False

    for_ranges(work, -(-len(low) // _TILE), threads, elements_per_unit=_VALUES_PER_UNIT / (_TILE * max(1, rows)))
    return good[0]


def _added(a: Words, b: Words) -> Words:
    low = a[0] + b[0]
    return low, a[1] + b[1] + (low < b[0])


def _to_pairs(words: Words, grid: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The totals times the grid, exactly: the nearest floats and the rests. Magnitudes up to 2^106 steps."""
    nearest, rest = np.empty(len(words[0])), np.empty(len(words[0]))
    _sums.pairs(*words, grid, nearest, rest)
    return nearest, rest


def noisy_pairs(
    kind: Kind,
    high: npt.NDArray[np.float64],
    low: npt.NDArray[np.float64],
    scale: float | npt.NDArray[np.float64],
    grid: float | None,
    position: Position,
    *,
    threads: int | None,
) -> npt.NDArray[np.float64]:
    """(high + low) + noise, from the exact sum of each pair. Complex numbers hold the pairs; no arithmetic is done with them."""
    pairs = np.empty(high.shape, np.complex128)
    pairs.real, pairs.imag = high, low
    return float_noise(kind, pairs, scale, grid, position, out=None, threads=threads)


_PART_BITS = 25
"""Of the lower part of a distance whose squares are added; see the kernel."""
_FAR_ROWS = 1 << 11
"""Reports that are left to `far` where a block has one that the kernel does not take; it takes as many at a time, or fewer."""
_MANY_ROWS = 1 << 22
"""Reports between two looks for Ctrl-C."""


def moments(x: npt.NDArray[Any], centre: int, grid: float, far: Callable[[int, int], tuple[int, int]]) -> tuple[int, int]:
    """Σd and Σd² over x (n,), float64 or int64, exactly: d = x/grid − centre; the grid of integers is 1.

    `far` adds up the ranges with a report that is no multiple of the grid, or 2^50 steps from the centre.
    """
    if x.dtype == np.int64 and abs(centre) >= _FAR_CENTRE:
        ranges = [far(start, min(start + _FAR_ROWS, len(x))) for start in range(0, len(x), _FAR_ROWS)]
        return sum(each[0] for each in ranges), sum(each[1] for each in ranges)
    call = _sums.Moments(aligned(x), centre, grid)
    low, high = np.zeros(_sums.MOMENT_PARTS, np.uint64), np.zeros(_sums.MOMENT_PARTS, np.int64)
    at = total = squares = 0
    while at < len(x):
        stop = min(at + _MANY_ROWS, len(x))
        at = call.add(at, stop, low, high)
        if at < stop:
            stop = min(at + _FAR_ROWS, stop)
            more = far(at, stop)
            at, total, squares = stop, total + more[0], squares + more[1]
    d, aa, ab, bb = ((h << 64) + w for h, w in zip(high.tolist(), low.tolist(), strict=True))
    return total + d, squares + (aa << 2 * _PART_BITS) + (ab << _PART_BITS + 1) + bb
