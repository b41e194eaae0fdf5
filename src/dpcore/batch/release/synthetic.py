r"""A private synthetic table: noisy histograms of declared columns, and as many made-up rows from them as wanted.

Columns that are joint share one histogram, over all combinations of their cells; columns of different histograms come out independent.
All histograms together are one vector of counts, which gets one draw of discrete noise for what a privacy unit can move in it
(`release_sensitivity`: ℓ1 = 2G under replacement of a row, for G histograms). Everything after that looks at the noisy counts alone and
spends nothing: negative ones are cut to 0, all of them cut make a histogram uniform, and rows are drawn from what is left, cell j with
probability weight_j / Σ weights exactly. Source: Wasserman & Zhou (2010), Section 4, the perturbed histogram, with discrete noise.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpcore import _backend
from dpcore.batch.release.answers import OneDraw, given, integer_noise, standard_deviation
from dpcore.batch.release.cells import Binned
from dpcore.batch.release.table import Table
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpcore.batch.release.answers import IntegerNoise
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.queries import SyntheticQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.batch.release.table import TableColumn
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]

SPARSE = 4
"""A part of the rows keeps the cells that it has rows in, and not all of them, if there are so many times more cells than rows."""
MOST_ERROR = 1e6
"""Standard error of a noisy number of rows beyond which it is no number of rows for a table."""
MOST_ROWS = 2**31 - 1
MOST_JOINT = 32
"""Columns of one histogram: arrays have no more axes. With two cells each they would have more cells than are allowed."""
PAIR_CELLS, PAIRS = 2**12, 28
"""The shares of two joint columns are listed up to so many, for so many pairs."""


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

    def __add__(self, other: Counts) -> Counts:
        both = Counts(self.size, self.rows, self.all().copy())
        both += other
        return both

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
class SyntheticAnswer(OneDraw):
    """Histograms of declared columns with discrete noise, and a table of rows drawn from them."""

    section: SyntheticQuery
    columns: tuple[TableColumn, ...]
    histograms: tuple[Histogram, ...]
    mechanism: IntegerNoise
    n_is_public: bool

    @classmethod
    def made(cls, section: SyntheticQuery, columns: tuple[TableColumn, ...], bound: Contribution, relation: Relation) -> SyntheticAnswer:
        """Calibrate it; raises `ParameterError` if there are too many cells."""
        histograms = _histograms(section, columns)
        mechanism = integer_noise(section.epsilon, section.delta, bound.histograms(len(histograms)), relation)
        answer = cls(section, columns, histograms, mechanism, bound.n_is_public)
        answer._check_rows()
        return answer

    @property
    def size(self) -> int:
        """Number of cells of all histograms."""
        return sum(histogram.size for histogram in self.histograms)

    @property
    def table(self) -> tuple[TableColumn, ...]:
        """The columns of the table."""
        return self.columns

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """The rows and cells of the table."""
        section, counts = self.section, len(self.histograms)
        unsaid = "as many rows as are read" if self.n_is_public else "a noisy number of rows"
        wanted = unsaid if section.draws is None else f"{section.draws:,} row{'s' if section.draws > 1 else ''}"
        which = "one histogram" if counts == 1 else f"{counts} histograms"
        return (("table", f"{section.output}: {wanted}, drawn from {self.size:,} cells of {which}"),)

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The columns of the table."""
        return tuple((column.name, column.cells) for column in self.columns)

    def declared(self) -> dict[str, Any]:
        """The columns with their cells, and which are joint."""
        columns = []
        for column, section in zip(self.columns, self.section.columns, strict=True):
            cells = column.cells
            listed = {"edges": list(cells.edges)} if isinstance(cells, Binned) else {"categories": cells.categories.listed()}
            columns.append({"name": column.name, "type": str(column.type), **listed, **given(section, "missing", "unknown")})
        return {"columns": columns, "joint": [[self.columns[place].name for place in each.columns] for each in self.histograms]}

    def tally(self, rows: int, read: list[Array]) -> Counts:
        """Rows in each cell."""
        return Counts.of(self.size, rows, np.concatenate([histogram.cells(read) for histogram in self.histograms]))

    def synthesis(self, tally: Counts, rng: Stream | None) -> Synthesis:
        """Spend the budget: from here on only noisy counts are used."""
        noisy = self.mechanism.release(tally.all(), rng=rng, threads=1)
        total: int = tally.rows if self.n_is_public else self._total(noisy)
        rows = min(max(total, 0), MOST_ROWS) if self.section.draws is None else self.section.draws
        joint = [histogram.columns for histogram in self.histograms]
        weights = (cut(histogram.of(noisy)) for histogram in self.histograms)
        return Synthesis(self, noisy, total, Table(self.columns, joint, weights, rows, rng))

    def release(self, tally: Counts, rng: Stream | None) -> dict[str, Any]:
        """The answer's entry in the document; `synthesis` makes the table itself."""
        return self.synthesis(tally, rng).document()

    def released_with_table(self, tally: Counts, rng: Stream | None, write: Callable[[Table], None]) -> dict[str, Any]:
        """The same, when the table was written."""
        synthesis = self.synthesis(tally, rng)
        write(synthesis.table)
        return synthesis.document()

    def _total(self, noisy: Array) -> int:
        """The number of rows: each histogram gives it with noise, whose variance is proportional to the number of cells."""
        sums = sum(Fraction(int(histogram.of(noisy).sum()), histogram.size) for histogram in self.histograms)
        return round(sums / sum(Fraction(1, histogram.size) for histogram in self.histograms))

    def _check_rows(self) -> None:
        """Raise `ParameterError` if only a useless number of rows would be known."""
        if self.n_is_public or self.section.draws is not None:
            return
        error = standard_deviation(self.mechanism) / math.sqrt(sum(1 / histogram.size for histogram in self.histograms))
        if error > MOST_ERROR:
            raise ParameterError(
                f"draws is required: the number of rows is private here, and the sum of {self.size:,} noisy cells gives it only with a "
                f"standard error of {error:.2g}"
            )


@dataclass(frozen=True, slots=True)
class Synthesis:
    """Noisy counts, and the table that is drawn from them.

    Attributes
    ----------
    answer : SyntheticAnswer
        Whose they are.
    noisy : ndarray of int64
        The private release: a count for each cell of all histograms.
    total : int
        The number of rows that were counted, if it is public; otherwise the number from the noisy counts.
    table : Table
        The rows.
    """

    answer: SyntheticAnswer
    noisy: Array
    total: int
    table: Table

    def document(self) -> dict[str, Any]:
        """The answer's entry in the document."""
        section, histograms = self.answer.section, self.answer.histograms
        empty = [histogram for histogram in histograms if not (histogram.of(self.noisy) > 0).any()]
        value = {
            "path": section.output,
            "rows": self.table.rows,
            "total": self.total,
            "cells": self.answer.size,
            "columns": self._columns(),
            "pairs": self._pairs(),
        }
        said = {"value": value, "stderr": standard_deviation(self.answer.mechanism), "interval": None}
        if empty:
            names = ", ".join(self.answer.columns[place].name for histogram in empty for place in histogram.columns)
            said["note"] = f"noise left no count above 0, so that all cells are equally likely: {names}"
        return said

    def _columns(self) -> list[dict[str, Any]]:
        """For each column its noisy counts, which are unbiased, and the shares that rows have."""
        found: dict[int, dict[str, Any]] = {}
        deviation = standard_deviation(self.answer.mechanism)
        for histogram in self.answer.histograms:
            noisy = histogram.of(self.noisy)
            weights = cut(noisy)
            for axis, place in enumerate(histogram.columns):
                counts = _over(noisy, axis)
                found[place] = {
                    "name": self.answer.columns[place].name,
                    "counts": counts.tolist(),
                    "stderr": deviation * math.sqrt(histogram.size // len(counts)),
                    "shares": _shares(_over(weights, axis)).tolist(),
                }
        return [found[place] for place in range(len(found))]

    def _pairs(self) -> list[dict[str, Any]]:
        """The shares of pairs of joint columns, if they are not too many."""
        pairs: list[dict[str, Any]] = []
        for histogram in self.answer.histograms:
            weights = cut(histogram.of(self.noisy))
            for one, other in itertools.combinations(range(len(histogram.columns)), 2):
                if histogram.shape[one] * histogram.shape[other] <= PAIR_CELLS and len(pairs) < PAIRS:
                    names = [self.answer.columns[histogram.columns[axis]].name for axis in (one, other)]
                    pairs.append({"columns": names, "shares": _shares(_over(weights, one, other)).tolist()})
        return pairs


def cut(noisy: Array) -> Array:
    """Weights of noisy counts: those below 0 are 0; if no count is above 0, all are 1."""
    weights = np.maximum(noisy, 0)
    if not weights.any():
        weights[...] = 1
    return weights


def _over(values: Array, *axes: int) -> Array:
    """Sums over all other axes; in float64 if integers of 64 bits might not hold them."""
    others = tuple(axis for axis in range(values.ndim) if axis not in axes)
    most = max(int(values.max()), -int(values.min()))
    wide = values.astype(np.float64) if most * values.size >= 2**63 else values
    sums: Array = wide.sum(axis=others)
    return sums


def _shares(weights: Array) -> Array:
    shares: Array = weights / weights.sum(dtype=np.float64)
    return shares


def _histograms(section: SyntheticQuery, columns: tuple[TableColumn, ...]) -> tuple[Histogram, ...]:
    """The histograms, if their cells are not too many."""
    places = {column.name: place for place, column in enumerate(columns)}
    histograms, start = [], 0
    for names in section.groups_of_columns:
        group = tuple(places[name] for name in names)
        if len(group) > MOST_JOINT:
            raise ParameterError(f"at most {MOST_JOINT} columns may be joint, got {len(group)} of them")
        histograms.append(Histogram(group, tuple(columns[place].cells.size for place in group), start))
        start += histograms[-1].size
    if start > section.max_cells:
        raise ParameterError(_too_many(section, histograms, start))
    return tuple(histograms)


def _too_many(section: SyntheticQuery, histograms: list[Histogram], cells: int) -> str:
    largest = max(histograms, key=lambda histogram: histogram.size)
    product = " × ".join(map(str, largest.shape[:12])) + (" × …" if len(largest.shape) > 12 else "")
    where = f", one histogram with {product}" if len(histograms) > 1 else f" ({product})"
    joint = len(largest.shape) > 1
    advice = 'fewer joint ones, method = "marginals" or marginals = [["a", "b"], ["c"]], ' if joint else ""
    return (
        f"there are {cells:,} cells{where if joint else ''}, and max_cells = {section.max_cells:,}; take fewer or coarser columns, {advice}"
        f"or a larger max_cells; noise goes into every cell, so that a cell should have many rows"
    )
