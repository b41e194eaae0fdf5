"""The box that records lie in, and its partition into cells of equal size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_integer, check_real, check_threads
from dpcore.distributions._choices import Uniforms
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.rng import Stream

Reals = npt.NDArray[np.float64]
Bounds = tuple[float, float] | Sequence[tuple[float, float]] | None
Bins = int | Sequence[int]

MOST_CELLS = 2**26
MOST_DIMENSIONS = 16
LARGEST_BOUND, SMALLEST_WIDTH = 2.0**900, 2.0**-900
MOST_RECORDS = 2**50
_ULPS_PER_CELL = 2**12
"""A cell is at least so many units in the last place wide: rounding then moves a point by a small part of its cell."""
_BLOCK = 1 << 17
"""Records that are binned together: a megabyte. With less, threads wait for one another between NumPy's steps."""


def check_data(x: npt.ArrayLike, dimension: int | None = None) -> npt.NDArray[Any]:
    """Return data as an array of n ≥ 1 records, (n,) or (n, r) with r = `dimension` unless that is None; else raise."""
    array = check_array("x", x, REAL_DTYPES)
    if array.ndim not in {1, 2}:
        raise ParameterError(f"x must have shape (n,) or (n, r), got {array.ndim} dimensions")
    r = 1 if array.ndim == 1 else array.shape[1]
    if not 1 <= len(array) <= MOST_RECORDS:
        raise ParameterError(f"x must have at least one record, got shape {array.shape}")
    if not 1 <= r <= MOST_DIMENSIONS:
        raise ParameterError(f"x must have a number of columns in [1, {MOST_DIMENSIONS}], got shape {array.shape}")
    if dimension is not None and r != dimension:
        raise ParameterError(f"x must have {dimension} columns, as bounds have, got shape {array.shape}")
    return array


def _check_rows(x: npt.ArrayLike, dimension: int) -> npt.NDArray[Any]:
    """Return points as an array (n,) or (n, r), n ≥ 0; else raise."""
    array = check_array("x", x, REAL_DTYPES)
    if array.shape[1:] != (dimension,) and (array.ndim, dimension) != (1, 1):
        raise ParameterError(f"x must have shape (n, {dimension}){' or (n,)' if dimension == 1 else ''}, got {array.shape}")
    return array


def columns_of(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Records as rows: (n,) becomes (n, 1), without a copy."""
    return x[:, None] if x.ndim == 1 else x


def nan_error(x: npt.NDArray[Any]) -> DataError:
    """The error that names the first NaN of data: the same one whatever order threads look in."""
    rows = columns_of(x)
    for start in range(0, len(rows), _BLOCK):
        bad = np.argwhere(np.isnan(rows[start : start + _BLOCK]))
        if len(bad):
            row, column = start + int(bad[0, 0]), int(bad[0, 1])
            return DataError(f"x must not hold NaN; the number at index {row if x.ndim == 1 else (row, column)} is NaN")
    return DataError("x must not change while it is read")


@dataclass(frozen=True, slots=True)
class Box:
    """A product of r closed intervals, where records lie; values outside are clamped to it.

    Attributes
    ----------
    low, high : tuple of float
        Ends of the intervals, r each, low < high.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, bounds: Bounds, dimension: int) -> Box:
        """Make the box that `bounds` stand for: None is [0, 1]^r, (low, high) the same interval on every axis, or r such pairs."""
        dimension = check_integer("dimension", dimension, low=1, high=MOST_DIMENSIONS)
        pairs = _pairs(bounds, dimension)
        for axis, (low, high) in enumerate(pairs):
            if not high - low >= SMALLEST_WIDTH:
                raise ParameterError(f"bounds must have low < high, 2^-900 apart or more, on axis {axis}, got ({low!r}, {high!r})")
        box = cls(tuple(low for low, _ in pairs), tuple(high for _, high in pairs))
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

    def to_unit(self, x: npt.ArrayLike) -> Reals:
        """Map records, clamped to the box, onto [0, 1]: (n,) or (n, r) gives (n, r). NaN stays."""
        rows = columns_of(_check_rows(x, self.dimension))
        unit = np.empty(rows.shape)
        for axis in range(self.dimension):
            unit[:, axis] = self.axis_to_unit(rows[:, axis], axis)
        return unit

    def from_unit(self, unit: Reals) -> Reals:
        """Map points (n, r) of [0, 1]^r into the box: (n,) if r = 1, else (n, r)."""
        points = np.empty(unit.shape)
        for axis, (low, high, width) in enumerate(zip(self.low, self.high, self.widths, strict=True)):
            points[:, axis] = np.clip(low + unit[:, axis] * width, low, high)
        return points[:, 0] if self.dimension == 1 else points

    def contains(self, rows: Reals) -> npt.NDArray[np.bool_]:
        """Whether points (n, r) lie in the box."""
        return np.asarray(((rows >= self.low) & (rows <= self.high)).all(axis=1), np.bool_)

    def axis_to_unit(self, column: npt.NDArray[Any], axis: int) -> Reals:
        """Map one coordinate of records, clamped, onto [0, 1]: a new array."""
        # Each step does not fall as the value rises, so neither does the cell that is made of it.
        low, high = self.low[axis], self.high[axis]
        unit = np.array(column, np.float64)
        np.clip(unit, low, high, out=unit)
        if (low, high) != (0.0, 1.0):
            unit -= low
            unit /= high - low
        return unit


def _pairs(bounds: Bounds, dimension: int) -> list[tuple[float, float]]:
    """The r intervals that `bounds` stand for, each end checked by itself."""
    if bounds is None:
        return [(0.0, 1.0)] * dimension
    try:
        shape = np.shape(bounds)
    except ValueError:
        shape = ()
    if shape not in {(2,), (dimension, 2)}:
        raise ParameterTypeError(f"bounds must be None, a pair (low, high) or {dimension} such pairs, got {bounds!r}")
    listed: Any = [bounds] * dimension if shape == (2,) else bounds
    return [
        (
            check_real("bounds", low, low=-LARGEST_BOUND, high=LARGEST_BOUND),
            check_real("bounds", high, low=-LARGEST_BOUND, high=LARGEST_BOUND),
        )
        for low, high in listed
    ]


@dataclass(frozen=True, slots=True)
class Cells:
    """A box cut into cells of equal size, numbered in C order: the last axis changes fastest.

    The cell of a record is a fixed function of that record: ⌊b·u⌋ on each axis, where u in [0, 1] is its place between the bounds and b the
    number of bins; u = 1 lies in the last bin. Computed in float64, in which it does not fall as the record rises.

    Attributes
    ----------
    shape : tuple of int
        Numbers of bins per axis.
    box : Box
        What is cut.
    """

    shape: tuple[int, ...]
    box: Box

    @classmethod
    def of(cls, bins: Bins, box: Box) -> Cells:
        """Cut a box into `bins` cells, a number that must be an r-th power, or into a stated number of bins per axis."""
        shape = _shape(bins, box.dimension)
        m = math.prod(shape)
        if m > MOST_CELLS:
            raise ParameterError(f"bins must give at most 2^26 cells, got {bins!r}, which gives {m}")
        for axis, (low, high, b) in enumerate(zip(box.low, box.high, shape, strict=True)):
            if Fraction(high - low) / b < _ULPS_PER_CELL * Fraction(math.ulp(max(abs(low), abs(high)))):
                raise ParameterError(
                    f"bins={bins!r} must leave cells of {_ULPS_PER_CELL} units in the last place between the bounds {low!r} and {high!r} "
                    f"of axis {axis}"
                )
        return cls(shape, box)

    @property
    def m(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def volume(self) -> float:
        """Volume of a cell, in the units of the bounds."""
        return math.prod(width / b for width, b in zip(self.box.widths, self.shape, strict=True))

    def edges(self, axis: int = 0) -> Reals:
        """Ends of the bins of an axis, b + 1 ascending numbers, in the units of the bounds."""
        b = self.shape[axis]
        edges = self.box.low[axis] + self.box.widths[axis] * (np.arange(b + 1) / b)
        edges[-1] = self.box.high[axis]
        return edges

    def codes(self, x: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[np.int64]:
        """Give the number of each record's cell.

        Parameters
        ----------
        x : array_like, shape (n,) or (n, r)
            Records.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        ndarray of int64, shape (n,)
            Numbers in [0, m).

        Raises
        ------
        DataError
            If a number is NaN; the message has its index.
        """
        array = _check_rows(x, self.box.dimension)
        check_threads(threads)
        codes = np.empty(len(array), np.int64)
        self._fill(array, codes, threads)
        return codes

    def counts(self, x: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[np.int64]:
        """Count the records in each cell.

        Parameters
        ----------
        x : array_like, shape (n,) or (n, r)
            Records.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        ndarray of int64, shape (m,)
            Counts, in C order of the cells.

        Raises
        ------
        DataError
            If a number is NaN; the message has its index.

        Notes
        -----
        Cost: one pass over the data, in place; memory for the counts and a block of codes.
        """
        x = _check_rows(x, self.box.dimension)
        check_threads(threads)
        m, n = self.m, len(x)
        total = np.zeros(m, np.int64)
        # so many at a time that to clear and add the counts is a small part of the work
        codes = np.empty(min(n, max(1 << 20, 4 * m)), np.int32)
        for start in range(0, n, max(1, len(codes))):
            part = codes[: min(len(codes), n - start)]
            try:
                self._fill(x[start : start + len(part)], part, threads)
            except DataError:
                raise nan_error(x) from None
            total += _backend.code_counts(part, m, threads=threads)
        return total

    def _fill(self, x: npt.NDArray[Any], codes: npt.NDArray[Any], threads: int | None) -> None:
        """Write the number of each record's cell."""
        rows = columns_of(x)
        found: list[int] = []

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, _BLOCK):
                last = min(first + _BLOCK, stop)
                numbers = self._numbers(rows[first:last])
                if np.isnan(numbers.min()):
                    found.append(first)
                    return
                codes[first:last] = numbers

        _backend.for_ranges(work, len(rows), threads)
        if found:
            raise nan_error(x)

    def _numbers(self, rows: npt.NDArray[Any]) -> Reals:
        """Numbers of the cells of a block of records, to be cut to whole ones; NaN where a record holds one."""
        numbers: Reals | None = None
        for axis, b in enumerate(self.shape):
            bins = self.box.axis_to_unit(rows[:, axis], axis)
            bins *= b
            np.minimum(bins, b - 1, out=bins)
            if len(self.shape) > 1:
                np.floor(bins, out=bins)  # a sum with a fraction could be rounded up to the next cell
            if numbers is not None:
                numbers *= b
                bins += numbers
            numbers = bins
        return np.zeros(len(rows)) if numbers is None else numbers

    def places(self, codes: npt.ArrayLike, *, rng: Stream | None = None, threads: int | None = None) -> Reals:
        """Give a uniform point of each cell, which lies in that cell again when it is binned.

        Parameters
        ----------
        codes : array_like of int, shape (k,)
            Numbers of cells, in [0, m).
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads; None picks. The points do not depend on it.

        Returns
        -------
        ndarray of float64, shape (k,) or (k, r)
            The points.
        """
        r = self.box.dimension
        rest = check_array("codes", codes, INTEGER_DTYPES).astype(np.int64, copy=False)
        if rest.ndim != 1:
            raise ParameterError(f"codes must have shape (k,), got {rest.shape}")
        if len(rest) and not 0 <= rest.min() <= rest.max() < self.m:
            raise ParameterError(f"codes must be in [0, {self.m})")
        uniforms, points = Uniforms(rng), np.empty((len(rest), r))

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, _BLOCK):
                last = min(first + _BLOCK, stop)
                self._place(rest[first:last], uniforms.floats(r * first, r * last).reshape(-1, r), points[first:last])

        _backend.for_ranges(work, len(rest), threads)
        return points[:, 0] if r == 1 else points

    def _place(self, codes: npt.NDArray[np.int64], offsets: Reals, points: Reals) -> None:
        """Write the points of cells at parts `offsets` in [0, 1) of their widths."""
        for axis in reversed(range(self.box.dimension)):
            codes, bins = np.divmod(codes, self.shape[axis]) if axis else (codes, codes)
            points[:, axis] = self._axis_places(bins, offsets[:, axis], axis)

    def _axis_places(self, bins: npt.NDArray[np.int64], offsets: Reals, axis: int) -> Reals:
        """Points of bins at parts `offsets` in [0, 1) of their widths."""
        points = self._axis_points(bins, offsets, axis)
        # Rounding takes a point near an end of its bin into the next one, a few units in the last place away. A step of 1/128 of the bin
        # towards its middle, 32 of those units or more, brings it back.
        wrong = np.flatnonzero(self._axis_bins(points, axis) != bins)
        if len(wrong):
            part = offsets[wrong]
            points[wrong] = self._axis_points(bins[wrong], part + (0.5 - part) / 64, axis)
        return points

    def _axis_points(self, bins: npt.NDArray[np.int64], offsets: Reals, axis: int) -> Reals:
        low, high = self.box.low[axis], self.box.high[axis]
        return np.clip(low + (bins + offsets) / self.shape[axis] * (high - low), low, high)

    def _axis_bins(self, points: Reals, axis: int) -> npt.NDArray[np.int64]:
        b = self.shape[axis]
        return np.minimum(self.box.axis_to_unit(points, axis) * b, b - 1).astype(np.int64)


def _shape(bins: object, dimension: int) -> tuple[int, ...]:
    """Numbers of bins per axis that `bins` stands for."""
    if isinstance(bins, Sequence) and not isinstance(bins, str | bytes):
        if len(bins) != dimension:
            raise ParameterError(f"bins must be a number of cells or one number of bins for each of {dimension} axes, got {bins!r}")
        return tuple(check_integer("bins", b, low=1, high=MOST_CELLS) for b in bins)
    try:
        m = check_integer("bins", bins, low=1, high=MOST_CELLS)
    except ParameterTypeError as error:
        raise ParameterTypeError(
            f"bins must be an integer, the number of cells, or a tuple with the number of bins on each axis, and no edges; got {bins!r} "
            f"of type {type(bins).__name__}"
        ) from error
    side = round(m ** (1 / dimension))
    if side**dimension != m:
        raise ParameterError(
            f"bins must be the {dimension}-th power of a number of bins per axis, such as {side**dimension}, or a tuple of {dimension} "
            f"such numbers, got {m}"
        )
    return (side,) * dimension
