"""Releases that are draws, or a histogram."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dpcore._spread import check_confidence, half_width, standard_deviation
from dpcore.accounting import laplace_scale
from dpcore.distributions._base import Release
from dpcore.distributions._boxes import Reals
from dpcore.distributions._cells import Cells
from dpcore.distributions._choices import Uniforms
from dpcore.distributions._records import columns_of

if TYPE_CHECKING:
    from dpcore.rng import Stream

_PAIRS = 1 << 22
"""Comparisons of a point with a draw that are held in memory at once."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawsRelease(Release):
    """A release that consists of k draws. Everything else is computed from them.

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

    Notes
    -----
    `sample` draws from the histogram of the draws, `density` is that of the histogram, and `cdf` is the empirical distribution function
    of the draws.
    Cost: `cdf` takes one sort if r = 1, else k comparisons a point.
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

    def _sample(self, draws: int, stream: Stream, threads: int | None) -> Reals:
        return sample_cells(self.cells, self._masses, draws, stream, threads)

    def _density(self, rows: Reals) -> Reals:
        return cells_density(self.cells, self._masses, rows)

    def _cdf(self, rows: Reals) -> Reals:
        return empirical_cdf(self.draws, rows)

    def _facts(self) -> list[tuple[str, str]]:
        return [("draws", f"{len(self.draws):,}"), ("cells", f"{self.cells.m:,}")]

    def _made(self) -> Reals | None:
        return self.draws


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRelease(Release):
    """A released histogram: a density that is constant on each cell. You may draw any number of records from it.

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

    Notes
    -----
    Cost: `cdf` takes one pass over the cells and 2^r cells a point.
    """

    cells: Cells
    noisy_counts: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    masses: Reals

    def __post_init__(self) -> None:
        self.noisy_counts.flags.writeable = False
        self.masses.flags.writeable = False

    @property
    def noise(self) -> Literal["laplace", "discrete_laplace"]:
        """Law of the noise in every count."""
        return "discrete_laplace" if self.noisy_counts.dtype.kind == "i" else "laplace"

    @property
    def scale(self) -> float:
        """Scale 2/ε of that noise, rounded up."""
        return laplace_scale(self.privacy.epsilon, 2.0)

    @property
    def stderr(self) -> float:
        """Standard deviation of the noise in each of `noisy_counts`."""
        return standard_deviation(self.noise, self.scale)

    def interval(self, confidence: float = 0.95) -> Reals:
        """Return an interval for the true count of each cell.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1).

        Returns
        -------
        ndarray of float64, shape (m, 2)
            The lower and upper ends: `noisy_counts` minus and plus the same half-width. The number of records in a cell lies in its
            interval with probability at least `confidence`. This holds for every data set; the probability is that of the noise.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is not in (0, 1).

        Notes
        -----
        The intervals do not cover all cells at once, nor the population that the records come from. To cover all m counts at once, ask
        for the confidence 1 − (1 − c)/m.
        """
        half = half_width(self.noise, self.scale, check_confidence(confidence))
        counts = self.noisy_counts.astype(np.float64)
        return np.stack([np.nextafter(counts - half, -np.inf), np.nextafter(counts + half, np.inf)], axis=-1)

    def _sample(self, draws: int, stream: Stream, threads: int | None) -> Reals:
        return sample_cells(self.cells, self.masses, draws, stream, threads)

    def _density(self, rows: Reals) -> Reals:
        return cells_density(self.cells, self.masses, rows)

    def _cdf(self, rows: Reals) -> Reals:
        return cells_cdf(self.cells, self.masses, rows)

    def _facts(self) -> list[tuple[str, str]]:
        noise = f"{self.noise}, scale {self.scale:.4g}, standard error {self.stderr:.4g}"
        return [("cells", f"{self.cells.m:,}"), ("noise in a count", noise)]


def sample_cells(cells: Cells, masses: Reals, draws: int, stream: Stream, threads: int | None) -> Reals:
    """Points of cells that are drawn by their masses."""
    cumulative = np.cumsum(masses)
    # A cell of mass 0 has no room between its neighbours' sums; what comes after the last cell of positive mass is cut off with it.
    shares = np.floor(cumulative[:-1] / cumulative[-1] * 2.0**64)
    codes, _ = Uniforms(stream).codes(shares[shares < 2.0**64].astype(np.uint64), draws, threads)
    return cells.places(codes, rng=stream, threads=threads)


def cells_density(cells: Cells, masses: Reals, rows: Reals) -> Reals:
    """Mass by volume of the cell of each point in the box."""
    return masses[cells.codes(rows)] / cells.volume


def cells_cdf(cells: Cells, masses: Reals, rows: Reals) -> Reals:
    """Mass below each point: sums of cells at the corners of its own cell, and linear in every coordinate between them."""
    r = cells.box.dimension
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
    return np.minimum(total, 1.0)


def empirical_cdf(draws: Reals, rows: Reals) -> Reals:
    """Share of the draws, (k,) or (k, r), that are in every coordinate at most the point, for each of the points (q, r)."""
    places, k = columns_of(draws), len(draws)
    if places.shape[1] == 1:
        return np.searchsorted(np.sort(places[:, 0]), rows[:, 0], side="right") / k
    below, block = np.empty(len(rows), np.int64), max(1, _PAIRS // k)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        under = np.ones((len(part), k), np.bool_)
        for axis in range(places.shape[1]):
            under &= places[None, :, axis] <= part[:, axis, None]
        below[start : start + block] = under.sum(axis=1)
    return below / k
