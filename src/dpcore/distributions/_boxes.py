"""The box that records lie in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer, check_real
from dpcore.distributions._records import MOST_DIMENSIONS, check_rows, columns_of
from dpcore.errors import ParameterError, ParameterTypeError

Reals = npt.NDArray[np.float64]
Side: TypeAlias = float | Sequence[float] | npt.NDArray[Any]
Bounds: TypeAlias = tuple[Side, Side] | Sequence[Side] | npt.NDArray[Any]

LARGEST_BOUND, SMALLEST_WIDTH = 2.0**900, 2.0**-900


@dataclass(frozen=True, slots=True)
class Box:
    """A product of r closed intervals. Records outside are clamped to it.

    Attributes
    ----------
    low, high : tuple of float
        Ends of the intervals, r each, low < high.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, bounds: Bounds, dimension: int | None = None) -> Box:
        """Make the box that `bounds` describe.

        Parameters
        ----------
        bounds : (low, high)
            Each a number, which holds on every axis, or a sequence with one number for each axis.
        dimension : int, optional
            Number r of axes, in [1, 16]. None takes it from the sequences in `bounds`; two numbers give one axis.

        Returns
        -------
        Box
            The box.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `bounds` are not such a pair, a number is outside [−2^900, 2^900], or low + 2^-900 > high on an axis.

        Examples
        --------
        >>> Box.of((0, 120)).high
        (120.0,)
        >>> Box.of(((0, 0.1), (120, 0.3))).low
        (0.0, 0.1)
        """
        lows, highs = _sides(bounds, dimension)
        for axis, (low, high) in enumerate(zip(lows, highs, strict=True)):
            if not high - low >= SMALLEST_WIDTH:
                hint = "" if len(lows) == 1 else ": give the low ends of all coordinates first, then the high ends"
                raise ParameterError(f"bounds must have low + 2^-900 ≤ high on axis {axis}, got low={low!r} and high={high!r}{hint}")
        box = cls(lows, highs)
        if not SMALLEST_WIDTH <= box.volume <= LARGEST_BOUND:
            raise ParameterError(f"bounds must have a volume in [2^-900, 2^900], got {box.volume!r}")
        return box

    @property
    def dimension(self) -> int:
        """Number r of axes."""
        return len(self.low)

    @property
    def widths(self) -> tuple[float, ...]:
        """Lengths high − low of the axes."""
        return tuple(high - low for low, high in zip(self.low, self.high, strict=True))

    @property
    def volume(self) -> float:
        """Product of the lengths; inf beyond the range of float64."""
        return math.prod(self.widths)

    def to_unit(self, records: npt.ArrayLike) -> Reals:
        """Map records, clamped to the box, onto [0, 1].

        Parameters
        ----------
        records : array_like, shape (n,) or (n, r)
            Records. NaN stays NaN.

        Returns
        -------
        ndarray of float64, shape (n, r)
            Their places between the bounds.
        """
        rows = columns_of(check_rows(records, self.dimension))
        unit = np.empty(rows.shape)
        for axis in range(self.dimension):
            unit[:, axis] = self.axis_to_unit(rows[:, axis], axis)
        return unit

    def from_unit(self, unit: Reals) -> Reals:
        """Map points of [0, 1]^r into the box.

        Parameters
        ----------
        unit : ndarray of float64, shape (n, r)
            Points of [0, 1]^r.

        Returns
        -------
        ndarray of float64
            Shape (n,) if r = 1, else (n, r).
        """
        points = np.empty(unit.shape)
        for axis, (low, high, width) in enumerate(zip(self.low, self.high, self.widths, strict=True)):
            points[:, axis] = np.clip(low + unit[:, axis] * width, low, high)
        return points[:, 0] if self.dimension == 1 else points

    def contains(self, rows: Reals) -> npt.NDArray[np.bool_]:
        """Return whether points lie in the box.

        Parameters
        ----------
        rows : ndarray of float64, shape (n, r)
            Points.

        Returns
        -------
        ndarray of bool, shape (n,)
            True for each point inside, the border included.
        """
        return np.asarray(((rows >= self.low) & (rows <= self.high)).all(axis=1), np.bool_)

    def axis_to_unit(self, column: npt.NDArray[Any], axis: int) -> Reals:
        """Map one coordinate of records, clamped, onto [0, 1].

        Parameters
        ----------
        column : ndarray, shape (n,)
            The coordinate.
        axis : int
            Its axis.

        Returns
        -------
        ndarray of float64, shape (n,)
            A new array.
        """
        # Each step does not fall as the value rises, so neither does the cell that is made of it.
        low, high = self.low[axis], self.high[axis]
        unit = np.array(column, np.float64)
        np.clip(unit, low, high, out=unit)
        if (low, high) != (0.0, 1.0):
            unit -= low
            unit /= high - low
        return unit


def _sides(bounds: Bounds, dimension: int | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The low and the high ends of all axes, each number checked by itself."""
    given: Any = bounds  # whose type may be another one
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray) or len(given) != 2:
        raise ParameterTypeError(
            f"bounds must be a pair (low, high), each a number or a sequence with one number for each axis, got {given!r}"
        )
    lengths = {length for side in given if (length := _length(side)) is not None}
    if dimension is None:
        dimension = max(lengths, default=1)
    dimension = check_integer("dimension", dimension, low=1, high=MOST_DIMENSIONS)
    if lengths - {dimension}:
        each = "a number" if dimension == 1 else f"a number or a sequence of {dimension} numbers, one for each coordinate"
        raise ParameterError(f"bounds must be (low, high), each {each}, got {given!r}")
    low, high = ([side] * dimension if _length(side) is None else side for side in given)
    return _checked(low), _checked(high)


def _length(side: Any) -> int | None:
    """Return the number of coordinates of a side; None for a single number."""
    if isinstance(side, Sequence) and not isinstance(side, str | bytes):
        return len(side)
    return len(side) if isinstance(side, np.ndarray) and side.ndim else None


def _checked(side: Any) -> tuple[float, ...]:
    return tuple(check_real("bounds", end, low=-LARGEST_BOUND, high=LARGEST_BOUND) for end in side)
