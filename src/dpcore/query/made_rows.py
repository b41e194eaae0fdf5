"""The rows of a synthetic table: drawn from the weights of histograms, exactly, in batches that it does not depend on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.privacy import as_written
from dpcore.query.encoders import Bins, Categorical
from dpcore.query.noise import Draw
from dpcore.query.statistics import Statistic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.query.statistics import ReadRows
    from dpcore.rng import Stream

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
    total : ndarray of int64 of shape (1,)
        Rows that were counted, each once in every histogram.
    counts : ndarray of int64
        Of all cells, or of those in `cells`.
    cells : ndarray of int64 or None
        Distinct ones that have rows; None for all.
    """

    size: int
    total: Array
    counts: Array
    cells: Array | None = None

    @property
    def rows(self) -> int:
        """Rows that were counted."""
        return int(self.total[0])

    @property
    def wide(self) -> list[Array]:
        """No sums."""
        return []

    @property
    def narrow(self) -> list[Array]:
        """What it is made of."""
        self.counts, self.cells = self.all(), None
        return [self.counts, self.total]

    @classmethod
    def of(cls, size: int, rows: int, cells: Array) -> Counts:
        """Count cells."""
        if size <= SPARSE * len(cells):
            return cls(size, np.array([rows]), _backend.code_counts(cells, size, threads=1))
        found, counts = np.unique(cells, return_counts=True)
        return cls(size, np.array([rows]), counts, found)

    def __iadd__(self, other: Counts) -> Self:
        if self.cells is not None:
            self.counts, self.cells = self.all(), None
        if other.cells is None:
            self.counts += other.counts
        else:
            self.counts[other.cells] += other.counts
        self.total += other.total
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
        return Counts.of(self.size, 0, np.empty(0, np.int64))

    def select(self, rows: ReadRows) -> Counts:
        return Counts.of(self.size, rows.n, np.concatenate([histogram.cells(rows.columns) for histogram in self.histograms]))

    def add(self, total: Counts, selected: Counts) -> None:
        total += selected


BATCH_ROWS = 1 << 17
LONG = 1 << 16
"""Running sums that no longer fit into the fast caches."""
WHOLE_BITS = 62
"""Weights whose sum has more bits lose the last ones; noise of the largest scale there is on the most cells comes near to it."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table.

    Attributes
    ----------
    name : str
        Its name.
    cells : Binned or Declared
        Its cells: categories, or bins inside of which values are uniform.
    integers : bool
        Whether values inside of bins are integers.
    step : float or None
        Values inside of bins are multiples of it, as the decimal number that is written.
    """

    name: str
    cells: Bins | Categorical
    integers: bool = False
    step: float | None = None

    @property
    def type(self) -> pa.DataType:
        """Type of the categories, or of numbers."""
        if isinstance(self.cells, Categorical):
            return self.cells.categories.type
        return pa.int64() if self.integers else pa.float64()

    def values(self, codes: Array, rng: Stream | None) -> pa.Array:
        """A value for each code of a cell; `rng` is for bins."""
        if isinstance(self.cells, Categorical):
            return self.cells.categories.values(codes, self.type)
        if self.step is not None:
            first, sizes = multiples(self.cells.edges, self.step)
            whole, parts = as_written(self.step).as_integer_ratio()
            counts = first[codes] + _uniform_integers(sizes[codes], len(codes), rng)
            return pa.array(counts * whole / parts)  # one rounding: the float nearest to the decimal number, which is written as that
        edges = np.array(self.cells.edges)
        if self.integers:
            first, behind = np.ceil(edges[:-1]), np.ceil(edges[1:])
            behind[-1] = math.floor(edges[-1]) + 1
            sizes = (behind - first).astype(np.int64)
            return pa.array(first.astype(np.int64)[codes] + _uniform_integers(sizes[codes], len(codes), rng))
        return pa.array(points(edges, codes, _unit_floats(len(codes), rng)))


def multiples(edges: Sequence[float], step: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each bin its first multiple of a step, as a number of steps, and how many it has; the last one holds its right edge."""
    unit = as_written(step)
    starts = [math.ceil(as_written(edge) / unit) for edge in edges[:-1]]
    ends = [*starts[1:], math.floor(as_written(edges[-1]) / unit) + 1]
    return np.array(starts, np.int64), np.array(ends, np.int64) - np.array(starts, np.int64)


def points(edges: npt.NDArray[np.float64], codes: Array, u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The points at shares u of bins, which lie in the same bin again when they are binned."""
    low, high = edges[codes], edges[codes + 1]
    # A point that is rounded up to the right edge would be in the next bin; the last one holds its right edge.
    top = np.where(codes == len(edges) - 2, high, np.nextafter(high, -np.inf))
    inside: npt.NDArray[np.float64] = np.clip(low * (1 - u) + high * u, low, top)
    return inside


def schema_of(columns: Sequence[TableColumn], said: dict[bytes, bytes] | None = None) -> pa.Schema:
    """Names and types of the columns, and the metadata of the file."""
    return pa.schema([pa.field(column.name, column.type, nullable=False) for column in columns], metadata=said)


class SyntheticTable:
    """Independent rows: a cell of each histogram by its weights, and a value inside of the cell.

    Row i is made of the words that the stream has for element i, so the first rows of a longer table are those of a shorter one.

    Parameters
    ----------
    columns : sequence of TableColumn
        In the order of the table.
    joint : sequence of tuple of int
        Places of the columns of each histogram.
    weights : iterable of ndarray of int64
        For each histogram, an axis for each of its columns; not negative, and not all 0.
    rows : int
        How many.
    rng : Stream or None
        None is the secure source.
    """

    def __init__(
        self, columns: Sequence[TableColumn], joint: Sequence[tuple[int, ...]], weights: Iterable[Array], rows: int, rng: Stream | None
    ) -> None:
        self.rows, self._columns, self._joint = rows, columns, joint
        self._lookups = [_Lookup(each) for each in weights]
        self._choices = [Draw(rng) for _ in joint]
        self._inside = {place: Draw(rng) for place, column in enumerate(columns) if isinstance(column.cells, Bins)}

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """All rows, so many at a time; the rows are the same however they are cut."""
        for start in range(0, self.rows, batch_rows):
            yield self._batch(start, min(batch_rows, self.rows - start))

    def _batch(self, start: int, n: int) -> pa.RecordBatch:
        codes: dict[int, Array] = {}
        for columns, lookup, draw in zip(self._joint, self._lookups, self._choices, strict=True):
            cells = lookup.cells(n, draw.at(start))
            codes |= zip(columns, np.unravel_index(cells, lookup.shape), strict=True)
        arrays = [
            column.values(codes[place], self._inside[place].at(start) if place in self._inside else None)
            for place, column in enumerate(self._columns)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(self._columns))


class _Lookup:
    """Cells by their weights."""

    def __init__(self, weights: Array) -> None:
        self.shape, flat = weights.shape, weights.reshape(-1)
        lost_bits = max(_sum(flat).bit_length() - WHOLE_BITS, 0)
        kept = flat >> lost_bits if lost_bits else flat
        self._places = np.flatnonzero(kept)
        self._sums = kept[self._places]
        np.cumsum(self._sums, out=self._sums)

    def cells(self, n: int, rng: Stream) -> Array:
        """n independent cells."""
        numbers = _uniform_integers(int(self._sums[-1]), n, rng)
        if len(self._sums) < LONG:
            return self._places[np.searchsorted(self._sums, numbers, side="right")]
        # Looked up in order, numbers find the sums beside those of the last one in the cache.
        order = np.argsort(numbers)
        cells = np.empty(n, np.int64)
        cells[order] = self._places[np.searchsorted(self._sums, numbers[order], side="right")]
        return cells


def _sum(weights: Array) -> int:
    """The sum of integers that are not negative, of any size."""
    return (int((weights >> 32).sum()) << 32) + int((weights & (2**32 - 1)).sum())


def _uniform_integers(bound: int | Array, n: int, rng: Stream | None) -> Array:
    from dpcore.distributions._urn import uniform_integers

    return uniform_integers(bound, n, rng=rng)


def _unit_floats(n: int, rng: Stream | None) -> npt.NDArray[np.float64]:
    from dpcore.distributions._choices import unit_floats

    return unit_floats((n,), rng=rng)
