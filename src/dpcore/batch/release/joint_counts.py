"""Rows in each cell of several histograms, each over all combinations of the cells of some columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpcore import _backend
from dpcore.batch.release.statistics import Statistic

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.batch.release.statistics import ReadRows

    Array = npt.NDArray[Any]


SPARSE = 4
"""A part of the rows keeps the cells that it has rows in, and not all of them, if there are so many times more cells than rows."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The cells of the columns that are joint: all combinations of theirs, the last column's changing fastest.

    Attributes
    ----------
    columns : tuple of int
        Places of the columns in the table.
    shape : tuple of int
        Cells of each.
    start : int
        Where its cells begin among those of all histograms.
    """

    columns: tuple[int, ...]
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def cells(self, read: list[Array]) -> Array:
        """The cell of each row, among those of all histograms."""
        codes = np.zeros(len(read[self.columns[0]]), np.int64)
        for place, cells in zip(self.columns, self.shape, strict=True):
            codes *= cells
            codes += read[place]
        codes += self.start
        return codes

    def of(self, vector: Array) -> Array:
        """Return the part of a vector over all histograms that belongs to this one, with an axis for each column."""
        return vector[self.start : self.start + self.size].reshape(self.shape)


@dataclass(slots=True)
class Counts:
    """Rows in each cell of all histograms.

    Attributes
    ----------
    size : int
        Number of cells.
    rows : int
        Rows that were counted, each once in every histogram.
    counts : ndarray of int64
        Of all cells, or of those in `cells`.
    cells : ndarray of int64 or None
        Distinct ones that have rows; None for all.
    """

    size: int
    rows: int
    counts: Array
    cells: Array | None = None

    @classmethod
    def of(cls, size: int, rows: int, cells: Array) -> Counts:
        """Count cells."""
        if size <= SPARSE * len(cells):
            return cls(size, rows, _backend.code_counts(cells, size, threads=1))
        found, counts = np.unique(cells, return_counts=True)
        return cls(size, rows, counts, found)

    def __iadd__(self, other: Counts) -> Self:
        if self.cells is not None:
            self.counts, self.cells = self.all(), None
        if other.cells is None:
            self.counts += other.counts
        else:
            self.counts[other.cells] += other.counts
        self.rows += other.rows
        return self

    def all(self) -> Array:
        """All counts."""
        if self.cells is None:
            return self.counts
        counts = np.zeros(self.size, np.int64)
        counts[self.cells] = self.counts
        return counts


@dataclass(frozen=True, slots=True)
class HistogramsOf(Statistic):
    """Rows in each cell of several histograms. Of some rows only cells that have rows are kept, and one thread adds them to all cells."""

    histograms: tuple[Histogram, ...]

    in_order = True

    @property
    def size(self) -> int:
        """Number of cells of all histograms."""
        return sum(histogram.size for histogram in self.histograms)

    def zero(self, spill: Path) -> Counts:  # noqa: ARG002
        """No rows."""
        return Counts.of(self.size, 0, np.empty(0, np.int64))

    def select(self, rows: ReadRows) -> Counts:
        """Count cells."""
        return Counts.of(self.size, rows.n, np.concatenate([histogram.cells(rows.columns) for histogram in self.histograms]))

    def add(self, total: Counts, selected: Counts) -> None:
        """Add them."""
        total += selected
