"""The partition of a box into cells of equal size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._validation import INTEGER_DTYPES, check_array, check_integer, check_threads
from dpcore.distributions._boxes import Bounds, Box, Reals
from dpcore.distributions._choices import Uniforms
from dpcore.distributions._records import BLOCK, check_records, check_rows, columns_of, dimension_of, nan_error
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.rng import Stream, resolve

Bins: TypeAlias = int | Sequence[int]

MOST_CELLS = 2**26
_ULPS_PER_CELL = 2**12
"""A cell is at least so many units in the last place wide: rounding then moves a point by a small part of its cell."""


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
        """Cut a box into cells.

        Parameters
        ----------
        bins : int or sequence of int
            Number m of cells, an r-th power; or the number of bins on each axis. At most 2^26 cells.
        box : Box
            What to cut.

        Returns
        -------
        Cells
            The cells.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `bins` is out of range, is not an r-th power, or leaves cells that are too narrow for float64.

        Examples
        --------
        >>> Cells.of(4, Box.of((0, 120))).edges().tolist()
        [0.0, 30.0, 60.0, 90.0, 120.0]
        """
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
        """Return the ends of the bins of an axis.

        Parameters
        ----------
        axis : int, default 0
            The axis.

        Returns
        -------
        ndarray of float64, shape (b + 1,)
            Ascending numbers, in the units of the bounds.
        """
        b = self.shape[axis]
        edges = self.box.low[axis] + self.box.widths[axis] * (np.arange(b + 1) / b)
        edges[-1] = self.box.high[axis]
        return edges

    def codes(self, records: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[np.int64]:
        """Return the number of each record's cell.

        Parameters
        ----------
        records : array_like, shape (n,) or (n, r)
            Records; those outside the box count as if they lay on its border.
        threads : int, optional
            Number of threads; None chooses.

        Returns
        -------
        ndarray of int64, shape (n,)
            Numbers in [0, m).

        Raises
        ------
        DataError
            If a number is NaN; the message has its index.
        """
        array = check_rows(records, self.box.dimension)
        check_threads(threads)
        codes = np.empty(len(array), np.int64)
        self._fill(array, codes, threads)
        return codes

    def counts(self, records: npt.ArrayLike, *, threads: int | None = None) -> npt.NDArray[np.int64]:
        """Count the records in each cell.

        Parameters
        ----------
        records : array_like, shape (n,) or (n, r)
            Records; those outside the box count as if they lay on its border.
        threads : int, optional
            Number of threads; None chooses.

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
        rows = check_rows(records, self.box.dimension)
        check_threads(threads)
        m, n = self.m, len(rows)
        total = np.zeros(m, np.int64)
        # so many at a time that to clear and add the counts is a small part of the work
        codes = np.empty(min(n, max(1 << 20, 4 * m)), np.int32)
        for start in range(0, n, max(1, len(codes))):
            part = codes[: min(len(codes), n - start)]
            try:
                self._fill(rows[start : start + len(part)], part, threads)
            except DataError:
                raise nan_error(rows) from None
            total += _backend.code_counts(part, m, threads=threads)
        return total

    def _fill(self, records: npt.NDArray[Any], codes: npt.NDArray[Any], threads: int | None) -> None:
        """Write the number of each record's cell."""
        rows = columns_of(records)
        found: list[int] = []

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, BLOCK):
                last = min(first + BLOCK, stop)
                numbers = self._numbers(rows[first:last])
                if np.isnan(numbers.min()):
                    found.append(first)
                    return
                codes[first:last] = numbers

        _backend.for_ranges(work, len(rows), threads)
        if found:
            raise nan_error(records)

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
        """Return a uniform point of each cell, which lies in that cell again when it is binned.

        Parameters
        ----------
        codes : array_like of int, shape (q,)
            Numbers of cells, in [0, m).
        rng : Stream, optional
            Source of randomness; None is the secure source.
        threads : int, optional
            Number of threads; None chooses. The points do not depend on it.

        Returns
        -------
        ndarray of float64, shape (q,) or (q, r)
            The points.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `codes` are not such numbers.
        EntropyError
            If the operating system gives no randomness.

        Notes
        -----
        Guarantee: this function adds none; the points depend on the codes alone.
        """
        r = self.box.dimension
        rest = check_array("codes", codes, INTEGER_DTYPES).astype(np.int64, copy=False)
        if rest.ndim != 1:
            raise ParameterError(f"codes must have shape (q,), got {rest.shape}")
        if len(rest) and not 0 <= rest.min() <= rest.max() < self.m:
            raise ParameterError(f"codes must be in [0, {self.m})")
        uniforms, points = Uniforms(rng), np.empty((len(rest), r))

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, BLOCK):
                last = min(first + BLOCK, stop)
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
            raise ParameterError(
                f"bins must be the number of cells, or one number of bins for each of {dimension} axes, and no edges; got {bins!r}"
            )
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


def cells_of_records(
    records: npt.ArrayLike, bounds: Bounds, bins: Bins, rng: Stream | None, threads: int | None
) -> tuple[npt.NDArray[Any], Cells, Stream]:
    """Return the data, not yet read, the cells, and the call's stream; raise if a parameter does not fit."""
    array = check_records(records)
    check_threads(threads)
    stream = resolve(rng)  # an invalid one is refused before the data are read
    return array, Cells.of(bins, Box.of(bounds, dimension_of(array))), stream
