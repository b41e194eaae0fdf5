"""`synthetic`: a table of made-up rows, drawn from noisy histograms of declared columns."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import model_validator

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError
from dpcore.pages.numbers import plain_number
from dpcore.pages.printable import check_no_formula
from dpcore.privacy import as_written
from dpcore.query.encoders import Bins, Categorical
from dpcore.query.estimators import OneDraw, given
from dpcore.query.fields import MAX_CELLS, SKIP, SyntheticCells, TablePath
from dpcore.query.kinds.base import Kind, as_parameter
from dpcore.query.made_rows import Histogram, HistogramsOf, SyntheticTable, TableColumn, multiples
from dpcore.query.noise import integer_noise, standard_deviation
from dpcore.query.prose import STAND_INS, declared_parts, sentence_of, stand_in
from dpcore.query.query_sections import CellsSection, QuerySection
from dpcore.query.reads import celled, check_stand_ins
from dpcore.query.rehearsal_columns import NoTruthError
from dpcore.tables.fields import Name, Positive
from dpcore.tables.sections import RowCount
from dpcore.tables.types.timed import sort_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import Estimator, IntegerNoise
    from dpcore.query.kinds.base import Columns, Entry, QueryContext
    from dpcore.query.made_rows import Counts
    from dpcore.query.rehearsal_columns import Seen
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


MAX_COLUMNS = 2**10
"""Columns of a synthetic table."""
MOST_ERROR = 1e6
"""Standard error of a noisy number of rows beyond which it is no number of rows for a table."""
MOST_ROWS = 2**31 - 1
MOST_JOINT = 32
"""Columns of one histogram: arrays have no more axes. With two cells each they would have more cells than are allowed."""
PAIR_CELLS, PAIRS = 2**12, 28
"""The shares of two joint columns are listed up to so many, for so many pairs."""


class SyntheticColumn(CellsSection):
    """An entry of `columns`: one column of a synthetic table, and its cells."""

    name: Name
    integers: bool | None = None
    step: Positive | None = None

    @model_validator(mode="after")
    def _no_row_is_skipped(self) -> Self:
        if sort_of((self.cuts or (0.0,))[0]) is not None:
            raise ValueError("edges of dates or times are not for synthetic tables, whose values inside of bins are numbers")
        for key in ("missing", "unknown"):
            if getattr(self, key) == SKIP and SKIP not in (self.categories or ()) and self.categories_file is None:
                raise ValueError(f'{key} = "{SKIP}" is not for synthetic tables, whose rows have a value in each column')
        return self

    @property
    def _whose(self) -> str:
        return f"column {self.name!r}"

    @property
    def whose_cells(self) -> str:
        return f"column {self.name!r}: "

    @model_validator(mode="after")
    def _integers_lie_in_bins(self) -> Self:
        if self.integers is not None and self.cuts is None:
            raise ValueError("integers is for columns with bins, and this column has none")
        if self.integers is True:
            self.check_integers()
        return self

    @model_validator(mode="after")
    def _multiples_lie_in_bins(self) -> Self:
        if self.step is None:
            return self
        if self.cuts is None:
            raise ValueError("step is for columns with bins, and this column has none")
        if self.integers is not None:
            raise ValueError("step and integers say the same thing twice; leave one out")
        edges, step = self.cuts, as_written(self.step)
        whole, parts = step.as_integer_ratio()
        largest = max(abs(as_written(edge)) for edge in edges)
        if max(largest, Fraction(1)) * parts > 2**53 or whole > 2**53:
            raise ValueError(f"step must be at least the largest edge times 2^-53, and have fewer decimals, got {self.step!r}")
        for lower, size in zip(edges, multiples(edges, self.step)[1].tolist(), strict=False):
            if size < 1:
                raise ValueError(f"step must have a multiple in each bin, got {self.step!r}: that from the edge {lower!r} on has none")
        return self

    def check_integers(self) -> None:
        """Raise ValueError unless every bin holds an integer, of those that float64 can distinguish."""
        edges = self.cuts or ()
        if max(map(abs, edges)) > 2**53:
            raise ValueError(f"edges of bins of integers must be in [−2^53, 2^53], got [{edges[0]!r}, {edges[-1]!r}]")
        for place, (lower, upper) in enumerate(itertools.pairwise(edges)):
            # The last bin holds its upper end as well.
            if math.ceil(lower) >= upper and not (place == len(edges) - 2 and math.ceil(lower) == upper):
                raise ValueError(
                    f"the bin between the edges {lower!r} and {upper!r} holds no integer; set integers = false for real numbers"
                )


class SyntheticQuery(QuerySection):
    """`kind = "synthetic"`: a table of as many made-up rows as wanted, drawn from noisy histograms of the declared columns."""

    kind: Literal["synthetic"]
    columns: list[SyntheticColumn]
    output: TablePath
    method: Literal["joint", "marginals"] | None = None
    marginals: list[list[Name]] | None = None
    max_cells: SyntheticCells = MAX_CELLS
    draws: RowCount | None = None

    @property
    def column(self) -> None:
        return

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def table_path(self) -> str:
        return self.output

    @property
    def groups_of_columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns whose joint histogram is made, for each histogram."""
        names = tuple(column.name for column in self.columns)
        if self.marginals is not None:
            return tuple(map(tuple, self.marginals))
        return tuple((name,) for name in names) if self.method == "marginals" else (names,)

    @model_validator(mode="after")
    def _columns_are_distinct(self) -> Self:
        if not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise ValueError(f"columns must list between 1 and {MAX_COLUMNS} columns, got {len(self.columns)} of them")
        for name, times in Counter(column.name for column in self.columns).items():
            if times > 1:
                raise ValueError(f"columns: {times} entries are named {name!r}; a column is declared once")
        return self

    @model_validator(mode="after")
    def _each_column_is_in_one_group(self) -> Self:
        if self.marginals is None:
            return self
        if self.method == "joint":
            raise ValueError("marginals = [[...], ...] says which columns are joint; leave method out, or set it to 'marginals'")
        times = Counter(name for group in self.marginals for name in group)
        names = [column.name for column in self.columns]
        for name in [*times, *names]:
            if name not in names:
                raise ValueError(f"marginals names {name!r}, which is not one of the columns: {', '.join(map(repr, names))}")
            if times[name] != 1:
                found = f"{times[name]} groups hold" if times[name] else "no group holds"
                raise ValueError(f"marginals must hold each column in one group, but {found} {name!r}")
        if not all(self.marginals):
            raise ValueError("marginals must not hold an empty group")
        return self


class Synthetic(Kind):
    """A table, and its noisy histograms."""

    names, fields = ("synthetic",), (SyntheticQuery,)
    asked_by = 'made-up rows are drawn by a job, kind = "synthetic" of dpcore release'
    column_key = "columns"
    picture = "made_rows"

    def columns(self, position: int, query: SyntheticQuery) -> Columns:
        return tuple((column.name, celled(position, query, column)) for column in query.columns)

    def unclamped(self, query: SyntheticQuery, seen: Seen) -> SyntheticQuery:  # noqa: ARG002
        raise NoTruthError(f"{query.name!r} is answered by a table, which has no error that is one number")

    def estimator(self, query: SyntheticQuery, asked: QueryContext) -> Estimator:
        columns = []
        for section, (name, cells) in zip(query.columns, asked.read.cells, strict=True):
            if not isinstance(cells, Bins | Categorical):
                raise AssertionError(name)  # noqa: TRY004
            check_stand_ins(section, cells, skips=False)
            whole = (
                section.step is None
                and isinstance(cells, Bins)
                and (asked.integers.get(name, False) if section.integers is None else section.integers)
            )
            if whole:
                _check_integers(section)
            columns.append(TableColumn(name, cells, whole, section.step))
            if Path(query.output).suffix.lower() == ".csv":
                check_no_formula("the name of a column of the table", [name])
                if isinstance(cells, Categorical) and cells.categories.are_text:
                    check_no_formula(f"a category of column {name!r}", map(str, cells.categories.listed()))
        return SyntheticEstimator.calibrate(query, tuple(columns), asked.bound, asked.relation)

    def question(self, query: Entry) -> str:
        return f"A table of made-up rows with {_columns_in_words(query)}"

    def declared(self, query: Entry) -> str:
        parts = declared_parts(query)
        for column in query["columns"]:
            parts += [f"{word} of {column['name']} count as {stand_in(column, key)}" for key, word in STAND_INS if key in column]
            parts += [f"values of {column['name']} are multiples of {plain_number(column['step'])}"] if "step" in column else []
        return sentence_of(parts)

    def numbered(self, query: Entry) -> Entry:
        """With the rows of the table; errors are those of cells."""
        return {**query, "value": query["value"]["rows"], "stderr": None, "path": query["value"]["path"]}

    def heads(self, query: Entry) -> list[str]:
        return [f"rows in {query['path']}"]


@dataclass(frozen=True, slots=True)
class SyntheticEstimator(OneDraw):
    """Histograms of declared columns with discrete noise, and a table of rows drawn from them."""

    section: SyntheticQuery
    columns: tuple[TableColumn, ...]
    histograms: tuple[Histogram, ...]
    mechanism: IntegerNoise
    n_is_public: bool

    @classmethod
    def calibrate(
        cls, section: SyntheticQuery, columns: tuple[TableColumn, ...], bound: Contribution, relation: Relation
    ) -> SyntheticEstimator:
        """Calibrate it; raises `ParameterError` if there are too many cells."""
        histograms = _histograms(section, columns)
        mechanism = integer_noise(section.epsilon, section.delta, bound.histograms(len(histograms)), relation)
        estimator = cls(section, columns, histograms, mechanism, bound.n_is_public)
        estimator._check_rows()
        return estimator

    @property
    def size(self) -> int:
        """Number of cells of all histograms."""
        return HistogramsOf(self.histograms).size

    @property
    def table(self) -> tuple[TableColumn, ...]:
        return self.columns

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        section, counts = self.section, len(self.histograms)
        unsaid = "as many rows as are read" if self.n_is_public else "a noisy number of rows"
        wanted = unsaid if section.draws is None else f"{section.draws:,} row{'s' if section.draws > 1 else ''}"
        which = "one histogram" if counts == 1 else f"{counts} histograms"
        return (("table", f"{section.output}: {wanted}, drawn from {self.size:,} cells of {which}"),)

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return tuple((column.name, column.cells) for column in self.columns)

    def parameters(self) -> dict[str, Any]:
        """The columns with their cells, and which are joint."""
        columns = []
        for column, section in zip(self.columns, self.section.columns, strict=True):
            cells = column.cells
            listed = {"edges": list(cells.edges)} if isinstance(cells, Bins) else {"categories": cells.categories.listed()}
            columns.append({"name": column.name, "type": str(column.type), **listed, **given(section, "missing", "unknown", "step")})
        return {"columns": columns, "joint": [[self.columns[place].name for place in each.columns] for each in self.histograms]}

    @property
    def statistic(self) -> Statistic:
        return HistogramsOf(self.histograms)

    def synthesis(self, counts: Counts, rng: Stream | None) -> Synthesis:
        """Spend the budget: from here on only noisy counts are used."""
        noisy = self.mechanism.release(counts.all(), rng=rng, threads=1)
        total: int = counts.rows if self.n_is_public else self._total(noisy)
        rows = min(max(total, 0), MOST_ROWS) if self.section.draws is None else self.section.draws
        joint = [histogram.columns for histogram in self.histograms]
        weights = (cut(histogram.of(noisy)) for histogram in self.histograms)
        return Synthesis(self, noisy, total, SyntheticTable(self.columns, joint, weights, rows, rng))

    def release(self, total: Counts, rng: Stream | None) -> dict[str, Any]:
        """The answer's entry in the document; `synthesis` makes the table itself."""
        return self.synthesis(total, rng).document()

    def released_with_table(self, total: Counts, rng: Stream | None, write: Callable[[SyntheticTable], None]) -> dict[str, Any]:
        synthesis = self.synthesis(total, rng)
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
    estimator : SyntheticEstimator
        Whose they are.
    noisy : ndarray of int64
        The private release: a count for each cell of all histograms.
    total : int
        The number of rows that were counted, if it is public; otherwise the number from the noisy counts.
    table : SyntheticTable
        The rows.
    """

    estimator: SyntheticEstimator
    noisy: Array
    total: int
    table: SyntheticTable

    def document(self) -> dict[str, Any]:
        """The answer's entry in the document."""
        section, histograms = self.estimator.section, self.estimator.histograms
        empty = [histogram for histogram in histograms if not (histogram.of(self.noisy) > 0).any()]
        value = {
            "path": section.output,
            "rows": self.table.rows,
            "total": self.total,
            "cells": self.estimator.size,
            "columns": self._columns(),
            "pairs": self._pairs(),
        }
        said = {"value": value, "stderr": standard_deviation(self.estimator.mechanism), "interval": None}
        if empty:
            names = ", ".join(self.estimator.columns[place].name for histogram in empty for place in histogram.columns)
            said["note"] = f"noise left no count above 0, so that all cells are equally likely: {names}"
        return said

    def _columns(self) -> list[dict[str, Any]]:
        """For each column its noisy counts, which are unbiased, and the shares that rows have."""
        found: dict[int, dict[str, Any]] = {}
        deviation = standard_deviation(self.estimator.mechanism)
        for histogram in self.estimator.histograms:
            noisy = histogram.of(self.noisy)
            weights = cut(noisy)
            for axis, place in enumerate(histogram.columns):
                counts = _over(noisy, axis)
                found[place] = {
                    "name": self.estimator.columns[place].name,
                    "counts": counts.tolist(),
                    "stderr": deviation * math.sqrt(histogram.size // len(counts)),
                    "shares": _shares(_over(weights, axis)).tolist(),
                }
        return [found[place] for place in range(len(found))]

    def _pairs(self) -> list[dict[str, Any]]:
        """The shares of pairs of joint columns, if they are not too many."""
        pairs: list[dict[str, Any]] = []
        for histogram in self.estimator.histograms:
            weights = cut(histogram.of(self.noisy))
            for one, other in itertools.combinations(range(len(histogram.columns)), 2):
                if histogram.shape[one] * histogram.shape[other] <= PAIR_CELLS and len(pairs) < PAIRS:
                    names = [self.estimator.columns[histogram.columns[axis]].name for axis in (one, other)]
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


def _check_integers(section: SyntheticColumn) -> None:
    """Raise `ParameterError` if a bin of a column of integers has none."""
    try:
        as_parameter(section.check_integers)
    except ParameterError as error:
        raise ParameterError(f"column {section.name!r}: {error}") from None


def _columns_in_words(query: Entry) -> str:
    """The columns, and which of them are drawn together."""
    names = [column["name"] for column in query["columns"]]
    if len(names) == 1:
        return f"the column {names[0]}"
    listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    together = [" and ".join(group) for group in query["joint"] if len(group) > 1]
    if len(query["joint"]) == 1:
        return f"the columns {listed}, drawn together"
    return f"the columns {listed}, drawn independently" + (f" but for {'; '.join(together[:4])}" if together else "")
