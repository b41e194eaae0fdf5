"""Selections from each row of an array, all of one calibration: what a call for each row would choose, without its checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.pending import SelectionNoise
from dpcore.rng import StreamPosition
from dpcore.selection._plan import Method

Positions = Iterable[StreamPosition]
"""For each row the position from which it takes its random words."""


def best_of_rows(scores: npt.NDArray[Any], scale: float, positions: Positions) -> npt.NDArray[np.int64]:
    """What `exponential_mechanism` chooses from each row, with Gumbel noise of this scale."""
    select = _backend.select_largest
    found = [select("gumbel", row, scale, 1, position, threads=1)[0] for row, position in zip(scores, positions, strict=True)]
    return np.array(found, np.int64)


def top_of_rows(method: Method, scores: npt.NDArray[Any], scale: float, s: int, positions: Positions) -> npt.NDArray[np.int64]:
    """What `top_s` chooses from each row: an array of shape (rows, s)."""
    pairs = zip(scores, positions, strict=True)
    if method == "peeling":
        found = [_backend.select_peeled("laplace", row, scale, s, position, threads=1) for row, position in pairs]
    else:
        noise: SelectionNoise = "gumbel" if method == "gumbel" else "laplace"
        found = [_backend.select_largest(noise, row, scale, s, position, threads=1) for row, position in pairs]
    chosen = np.array(found, np.int64).reshape(-1, s)
    return np.sort(chosen, axis=1) if method == "oneshot_laplace" else chosen


class _At:
    """A stream with one position."""

    __slots__ = ("_position",)

    def __init__(self, position: StreamPosition) -> None:
        self._position = position

    def position(self) -> StreamPosition:
        """That position."""
        return self._position


def noisy_rows(values: npt.NDArray[np.float64], scale: float, positions: Positions) -> npt.NDArray[np.float64]:
    """Each row with Laplace noise of this scale, as `noise.laplace` adds it."""
    grid = _backend.default_grid(scale)
    call = _backend.short_float_call("laplace", scale, grid, None)
    found = np.empty(values.shape)
    for row, position, out in zip(values, positions, found, strict=True):
        released = call.release(row, _At(position))
        if released is None:  # too long for it
            released = _backend.float_noise("laplace", row, scale, grid, position, out=None, threads=1)
        out[:] = released
    return found
