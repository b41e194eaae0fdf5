"""What every release of a distribution gives out: synthetic records, a density, a distribution function, and its guarantee."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_threads
from dpcore.distributions._cells import Box, Cells, Reals, columns_of
from dpcore.distributions._choices import Uniforms
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

MOST_DRAWS = 2**40
TABLE_EXTRA_MISSING = "table needs the extra `batch`: pip install 'dpcore[batch]'"
_PAIRS = 1 << 22
"""Comparisons of a point with a draw that are held in memory at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Release(ABC):
    """A released distribution. Whatever is asked of it is post-processing and spends nothing more.

    Attributes
    ----------
    privacy : Privacy
        Guarantee of everything in it, for data sets that differ by the value of one record.
    n : int
        Number of records it was made from, which is public.
    box : Box
        Bounds of the records.
    """

    privacy: Privacy
    n: int
    box: Box

    @property
    def dimension(self) -> int:
        """Number r of coordinates of a record."""
        return self.box.dimension

    @abstractmethod
    def sample(self, k: int, *, rng: Stream | None = None, threads: int | None = None) -> Reals:
        """Draw synthetic records from the released density.

        Parameters
        ----------
        k : int
            How many, ≥ 0.
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads; None picks. The records do not depend on it.

        Returns
        -------
        ndarray of float64
            Shape (k,) if r = 1, else (k, r).
        """

    @abstractmethod
    def density(self, x: npt.ArrayLike) -> Any:
        """Give the released density.

        Parameters
        ----------
        x : array_like
            Points: any shape if r = 1, else (..., r); in the units of the bounds.

        Returns
        -------
        float or ndarray of float64
            One number for each point; 0 outside the bounds.
        """

    @abstractmethod
    def cdf(self, x: npt.ArrayLike) -> Any:
        """Give the released distribution function P(X₁ ≤ x₁, …, X_r ≤ x_r).

        Parameters
        ----------
        x : array_like
            Points: any shape if r = 1, else (..., r); in the units of the bounds.

        Returns
        -------
        float or ndarray of float64
            One number for each point.
        """

    def table(
        self, k: int | None = None, *, names: Sequence[str] | None = None, rng: Stream | None = None, threads: int | None = None
    ) -> Any:
        """Give synthetic records as an Arrow table.

        Parameters
        ----------
        k : int, optional
            Number of records to draw; None gives the draws that the release consists of, where it does.
        names : sequence of str, optional
            Names of the r columns; None is x, or x1, x2, ….
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        pyarrow.Table
            One float64 column for each coordinate.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `k` is None and the release has no draws of its own, or there is not one name for each column.
        ModuleNotFoundError
            If pyarrow is not installed.
        """
        labels = _names(names, self.dimension)
        made = self._made()
        if k is None and made is None:
            raise ParameterError("k must be the number of records to draw, as this release is a density and holds no draws; got None")
        try:
            import pyarrow as pa
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(TABLE_EXTRA_MISSING, name=error.name) from error
        rows = columns_of(made if made is not None and k is None else self.sample(k, rng=rng, threads=threads))  # type: ignore[arg-type]
        return pa.table({label: pa.array(np.ascontiguousarray(rows[:, axis])) for axis, label in enumerate(labels)})

    def plot(self, ax: Any = None) -> Any:
        """Draw the released density: a line or steps for r = 1, an image for r = 2.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; None makes a figure of its own.

        Returns
        -------
        matplotlib axes
            What was drawn on; its `figure` has `savefig`.

        Raises
        ------
        ParameterError
            If r > 2.
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        from dpcore.distributions._plots import draw_density

        return draw_density(self, ax)

    def _made(self) -> Reals | None:
        """The draws that the release holds, or None."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class DrawsRelease(Release):
    """A release that is k draws and nothing else: all that is asked of it is made of them.

    Attributes
    ----------
    privacy : Privacy
        Guarantee of all draws together.
    n : int
        Number of records it was made from.
    box : Box
        Bounds of the records.
    draws : ndarray of float64, shape (k,) or (k, r)
        The draws; read-only.
    cells : Cells
        Cells of the histogram of the draws, which is the density f̂_Z of Wasserman & Zhou (2010), Eq. 8.
    """

    draws: Reals
    cells: Cells
    _masses: Reals = field(init=False, repr=False)

    def __post_init__(self) -> None:
        draws = np.array(self.draws, np.float64)
        draws.flags.writeable = False
        masses = self.cells.counts(draws) / len(draws)
        object.__setattr__(self, "draws", draws)
        object.__setattr__(self, "_masses", masses)

    @property
    def k(self) -> int:
        """Number of draws."""
        return len(self.draws)

    def sample(self, k: int, *, rng: Stream | None = None, threads: int | None = None) -> Reals:
        """Draw more records, from the histogram of the draws; see `Release.sample`."""
        return sample_cells(self.cells, self._masses, k, rng, threads)

    def density(self, x: npt.ArrayLike) -> Any:
        """Give the histogram of the draws; see `Release.density`."""
        return cells_density(self.cells, self._masses, x)

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Give the empirical distribution function of the draws; see `Release.cdf`. Cost: one sort if r = 1, k comparisons a point else."""
        rows, shape = check_points(x, self.dimension)
        draws = columns_of(self.draws)
        if self.dimension == 1:
            below = np.searchsorted(np.sort(draws[:, 0]), rows[:, 0], side="right")
            return shaped(below / self.k, shape)
        below, block = np.empty(len(rows), np.int64), max(1, _PAIRS // self.k)
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            under = np.ones((len(part), self.k), np.bool_)
            for axis in range(self.dimension):
                under &= draws[None, :, axis] <= part[:, axis, None]
            below[start : start + block] = under.sum(axis=1)
        return shaped(below / self.k, shape)

    def _made(self) -> Reals | None:
        return self.draws


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRelease(Release):
    """A released histogram: a density that is constant on each cell. Any number of records may be drawn from it.

    Attributes
    ----------
    privacy : Privacy
        Guarantee of the noisy counts, and so of all the rest.
    n : int
        Number of records it was made from.
    box : Box
        Bounds of the records.
    cells : Cells
        The cells.
    noisy_counts : ndarray of float64 or int64, shape (m,)
        Counts with noise, in C order of the cells; read-only.
    masses : ndarray of float64, shape (m,)
        Probabilities of the cells, ≥ 0, of sum 1; read-only.
    """

    cells: Cells
    noisy_counts: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    masses: Reals

    def __post_init__(self) -> None:
        self.noisy_counts.flags.writeable = False
        self.masses.flags.writeable = False

    def sample(self, k: int, *, rng: Stream | None = None, threads: int | None = None) -> Reals:
        """Draw records from the released histogram; see `Release.sample`."""
        return sample_cells(self.cells, self.masses, k, rng, threads)

    def density(self, x: npt.ArrayLike) -> Any:
        """Give the released density; see `Release.density`."""
        return cells_density(self.cells, self.masses, x)

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Give the released distribution function; see `Release.cdf`. Cost: one pass over the cells and 2^r cells a point."""
        return cells_cdf(self.cells, self.masses, x)


def check_points(x: npt.ArrayLike, dimension: int) -> tuple[Reals, tuple[int, ...]]:
    """Return points as rows (q, r) of float64, and the shape that one number a point has; else raise."""
    array = check_array("x", x, REAL_DTYPES).astype(np.float64)
    shape = array.shape
    if dimension > 1:
        if array.ndim < 1 or shape[-1] != dimension:
            raise ParameterError(f"x must have shape (..., {dimension}), got {shape}")
        shape = shape[:-1]
    rows = array.reshape(-1, dimension)
    bad = np.flatnonzero(np.isnan(rows).any(axis=1))
    if len(bad):
        raise ParameterError(f"x must not hold NaN; point {int(bad[0])} does")
    return rows, shape


def shaped(values: Reals, shape: tuple[int, ...]) -> Any:
    """One number a point, in the shape of the points; a Python float for a single one."""
    return float(values[0]) if shape == () else values.reshape(shape)


def check_draws(k: object, *, low: int = 0) -> int:
    """Return a number of draws, else raise."""
    return check_integer("k", k, low=low, high=MOST_DRAWS)


def sample_cells(cells: Cells, masses: Reals, k: int, rng: Stream | None, threads: int | None) -> Reals:
    """Points of cells that are drawn by their masses."""
    k = check_draws(k)
    check_threads(threads)
    cumulative = np.cumsum(masses)
    # A cell of mass 0 has no room between its neighbours' sums; what comes after the last cell of positive mass is cut off with it.
    shares = np.floor(cumulative[:-1] / cumulative[-1] * 2.0**64)
    stream = resolve(rng)
    codes, _ = Uniforms(stream).codes(shares[shares < 2.0**64].astype(np.uint64), k, threads)
    return cells.places(codes, rng=stream, threads=threads)


def cells_density(cells: Cells, masses: Reals, x: npt.ArrayLike) -> Any:
    """Mass by volume of the cell of each point, 0 outside the box."""
    rows, shape = check_points(x, cells.box.dimension)
    values = np.where(cells.box.contains(rows), masses[cells.codes(rows)] / cells.volume, 0.0)
    return shaped(values, shape)


def cells_cdf(cells: Cells, masses: Reals, x: npt.ArrayLike) -> Any:
    """Mass below each point: sums of cells at the corners of its own cell, and linear in every coordinate between them."""
    r = cells.box.dimension
    rows, shape = check_points(x, r)
    table = np.zeros(tuple(b + 1 for b in cells.shape))
    table[(slice(1, None),) * r] = masses.reshape(cells.shape)
    for axis in range(r):
        np.cumsum(table, axis=axis, out=table)
    place = cells.box.to_unit(rows) * np.array(cells.shape)
    first = np.minimum(np.floor(place).astype(np.int64), np.array(cells.shape) - 1)
    part = place - first
    total = np.zeros(len(rows))
    for corner in itertools.product((0, 1), repeat=r):
        weight = np.prod(np.where(corner, part, 1 - part), axis=1)
        total += weight * table[tuple((first + np.array(corner)).T)]
    return shaped(np.minimum(total, 1.0), shape)


def _names(names: Sequence[str] | None, dimension: int) -> list[str]:
    """Names of the columns of a table."""
    if names is None:
        return ["x"] if dimension == 1 else [f"x{axis + 1}" for axis in range(dimension)]
    given: Any = names  # whose type may be another one
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise ParameterTypeError(f"names must be a sequence of str, got {names!r}")
    labels = list(names)
    if len(labels) != dimension or len(set(labels)) != dimension:
        raise ParameterError(f"names must be {dimension} different names, got {labels!r}")
    return labels
