"""Where numbers lie among the increasing numbers that a job declares: edges of bins and points of grids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore.batch.tables.categories import null_mask, value_type
from dpcore.batch.tables.decimals import counted, digits_of, fitting_digits, reach_of, steps
from dpcore.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Mask = npt.NDArray[np.bool_]

MOST_IN_FLOATS = 2**53
"""Integers below it are floats, and rounding a larger one to a float moves it past none of them."""
FEW_POINTS = 16


class Points:
    """Increasing numbers p, and where others lie among them; if they are few or about evenly spaced, many times faster than a search.

    With few points each number is compared with all of them. If they are evenly spaced, a number's place is guessed from its distance to
    the first: as no point is further than a quarter of a step from its even place, the guess is off by one at most, and comparing with the
    points beside it makes it exact.
    """

    __slots__ = ("_padded", "_points", "_step")

    def __init__(self, points: tuple[float, ...]) -> None:
        self._points = np.array(points, np.float64)
        self._padded = np.concatenate([[-np.inf], self._points, [np.inf]])
        self._step = _even_step(self._points)

    def below(self, x: Array) -> Array:
        """Count the points that are less than each number."""
        return self._places(x, counts_equal=False)

    def not_above(self, x: Array) -> Array:
        """Count the points that are at most each number."""
        return self._places(x, counts_equal=True)

    def _places(self, x: Array, *, counts_equal: bool) -> Array:
        few = len(self._points) < FEW_POINTS
        if not few and self._step is None:
            return np.searchsorted(self._points, x, side="right" if counts_equal else "left")
        if not len(self._points):
            return np.zeros(len(x), np.intp)
        return _backend.places(x, self._padded, 0.0 if few else self._step or 0.0, counts_equal=counts_equal)


def _even_step(points: npt.NDArray[np.float64]) -> float | None:
    """The step of points that are about evenly spaced; None for others, or if its arithmetic would not be that of small numbers."""
    if len(points) < FEW_POINTS:
        return None
    step = float((points[-1] / 2 - points[0] / 2) / (len(points) - 1) * 2)
    far = max(abs(points[0]), abs(points[-1]))
    if not (2.0**-900 < step and far < min(2.0**900, 2.0**40 * step)):  # noqa: SIM300
        return None
    even = points[0] + step * np.arange(len(points))
    return step if np.abs(points - even).max() < step / 4 else None


def needs_steps(kind: pa.DataType, points: Iterable[float]) -> bool:
    """Whether a column is compared with points in whole steps: decimals, and integers if a point has more than 53 bits.

    Rounding another integer to float64 moves it past no point.
    """
    if pa.types.is_integer(value_type(kind)):
        return any(abs(point) >= MOST_IN_FLOATS for point in points)
    return digits_of(kind) is not None


@dataclass(frozen=True, slots=True)
class ExactPoints:
    """The same for decimals, and for integers of more than 53 bits, which are compared with the points without rounding.

    Cells are counted in steps of 10^-digits. A point p is at most a number x of whole steps if ⌈p⌉ ≤ x in steps, and less than x if
    ⌊p⌋ < x. Where 10^-digits is more than the column's step, all points are whole steps, and x is rounded down for the first comparison
    and up for the second one: nothing changes its place. Points beyond all numbers of the column are only counted.
    """

    digits: int
    counts_equal: bool
    _below: int
    _steps: npt.NDArray[np.int64] = field(repr=False, compare=False)
    _floats: Points | None = field(repr=False, compare=False)

    @classmethod
    def of(cls, points: tuple[float, ...], kind: pa.DataType, *, counts_equal: bool) -> ExactPoints:
        """Points for a column of a type; raises `JobError` if 64 bits do not hold all of them."""
        own, reach = digits_of(kind) or 0, reach_of(kind)
        inside = [each for each in points if -reach < each < reach]
        fine = fitting_digits(max(abs(inside[0]), abs(inside[-1])) if inside else 0.0, own)
        exact = [counted(each, fine) for each in inside]
        if fine < own and not all(is_whole for _, is_whole in exact):
            raise JobError(
                f"numbers between {points[0]!r} and {points[-1]!r} have too many digits to be compared with a column of type {kind} in 64 "
                "bits; write fewer digits"
            )
        whole = np.array([each + (counts_equal and not is_whole) for each, is_whole in exact], np.int64)
        small = not len(whole) or max(abs(int(whole[0])), abs(int(whole[-1]))) < MOST_IN_FLOATS
        floats = Points(tuple(map(float, whole.tolist()))) if small else None
        return cls(fine, counts_equal, sum(each <= -reach for each in points), whole, floats)

    def places(self, cells: pa.Array) -> tuple[Array, Mask | None]:
        """How many points are at most each cell, or less than it; and where a cell is null, None if nowhere."""
        numbers = steps(cells, self.digits, "down" if self.counts_equal else "up")
        absent = null_mask(numbers)
        x = np.asarray((numbers if absent is None else numbers.fill_null(0)).to_numpy())
        places = self._places(x)
        return places.astype(np.intp) + self._below if self._below else places, absent

    def _places(self, x: npt.NDArray[np.int64]) -> Array:
        if not len(self._steps):
            return np.zeros(len(x), np.intp)
        if self._floats is None:
            return np.searchsorted(self._steps, x, side="right" if self.counts_equal else "left")
        near = np.clip(x, self._steps[0] - 1, self._steps[-1] + 1).astype(np.float64)
        return self._floats.not_above(near) if self.counts_equal else self._floats.below(near)
