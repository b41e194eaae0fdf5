"""Estimates from counts: the look-up in a step function, and the walk through a table of tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.threads import for_ranges
from dpcore._kernels import _search

WALK_LANES = int(_search.WALK_LANES)
"""Rows of tests and of counts are padded with zeros to a multiple of this."""
_LOOKED_UP = 0.5
"""Number of counts that are looked up in the time of one noisy number."""
_PLACED = 2.0
"""Number of places that are found in that time."""
_BYTE_POINTS = 255 + 2
_TEST_COST = 0.5
"""Time of one test of eight outcomes, in noisy numbers."""
_WORTH_ROUGH = 2048
"""From this number of data sets on, tests are first tried in float32."""
_BLOCK = 2048
"""Number of data sets whose counts are converted together."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def step_values(counts: Integers, thresholds: Integers, values: Floats, *, threads: int | None) -> Floats:
    """Return values[number of thresholds ≤ count] for each count. The thresholds ascend, and there is one more value than thresholds."""
    # The kernel bisects a power of two. Thresholds that no count reaches fill it up.
    padding = (1 << len(thresholds).bit_length()) - len(values)
    bounds = np.concatenate([thresholds, np.full(padding, np.iinfo(np.int64).max)])
    steps = np.concatenate([values, np.full(padding, values[-1])])
    counts = np.ascontiguousarray(counts)
    out = np.empty(len(counts))
    for_ranges(
        lambda start, stop: _search.step_values(counts[start:stop], bounds, steps, out[start:stop]),
        len(counts),
        threads,
        elements_per_unit=_LOOKED_UP,
    )
    return out


def places(x: npt.NDArray[Any], points: Floats, step: float, *, counts_equal: bool, threads: int | None = 1) -> npt.NDArray[Any]:
    """Count the points below each number of x (n,), or at most it; those of a NaN are any.

    The points ascend between two infinities. If the step is not 0, they are evenly spaced by it, but for a quarter of it. Up to 255 of them
    make bytes.
    """
    out: npt.NDArray[Any] = np.empty(len(x), np.uint8 if len(points) <= _BYTE_POINTS else np.int64)

    def work(start: int, stop: int) -> None:
        _search.find_places(x[start:stop], points, step, counts_equal, out[start:stop])

    for_ranges(work, len(x), threads, elements_per_unit=_PLACED)
    return out


def walk(
    counts: npt.NDArray[Any],
    weights: Floats,
    levels: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
    steps: int,
    *,
    threads: int | None,
) -> None:
    """Advance each data set from its level and place through the tests that are known, up to level `steps`.

    The test at level k and place j is row k(k − 1)/2 + j − 1 of `weights`. It moves a data set to place j + 1 if Σ counts·weights > 0, and
    stops it if the row is NaN. Rows are padded with zeros to a multiple of `WALK_LANES`. Products and sums are float64, in a fixed order.
    """
    rough = _rough(weights, counts) if len(counts) >= _WORTH_ROUGH else _NO_ROUGH

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            padded = np.zeros((last - first, weights.shape[1]))
            padded[:, : counts.shape[1]] = counts[first:last]
            _search.walk(weights, *rough, padded, levels[first:last], places[first:last], steps)

    cost = _TEST_COST * max(1, steps) * weights.shape[1] / WALK_LANES
    for_ranges(work, len(counts), threads, elements_per_unit=1 / cost)


_Rough = tuple[npt.NDArray[np.float32], Floats, tuple[float, float, float]]
_NO_ROUGH: _Rough = np.empty((0, 0), np.float32), np.empty(0), (0.0, 0.0, 0.0)


def _rough(weights: Floats, counts: npt.NDArray[Any]) -> _Rough:
    """Return the tests in float32, which decide most data sets in half the time; docs/exactness-minimax.md has their error.

    Let m be a centre near the counts c of n reports, and n0 = n − Σm. Then Σ c·w = Σ (c − m)·(w + (w·m)/n0). Each row is scaled by a power
    of two to at most 1, which changes no sign.
    """
    n = int(counts[0].sum())
    if n < 1:
        return _NO_ROUGH
    centre = np.zeros(weights.shape[1])
    near = counts[:: -(-len(counts) // 64)].mean(axis=0)
    centre[: len(near)] = np.floor(near * (1 - min(1.0, 4 / np.sqrt(n))))
    moved = weights + ((weights @ centre) / (n - centre.sum()))[:, None]
    largest = np.maximum(np.abs(weights).max(axis=1), np.abs(moved).max(axis=1))
    # If the statistic might over- or underflow in float64, float32 must not decide.
    largest[(largest < 2.0**-900) | (largest > 2.0**900)] = np.nan
    rough = np.where(np.isnan(largest)[:, None], np.nan, np.ldexp(moved, -np.frexp(largest)[1][:, None])).astype(np.float32)
    return rough, centre, (float(n), (weights.shape[1] / WALK_LANES + 6) * 2.0**-24, n * weights.shape[1] * 2.0**-50)


def first_wrong_counts(counts: Integers, n: int) -> int:
    """Return the first row of counts that holds a negative number or does not sum to n; -1 if there is none."""
    return int(_search.first_wrong(counts, n))
