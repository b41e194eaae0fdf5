"""The `[[query]]` tables of a release job, with the keys of each kind."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpcore._validation import check_real
from dpcore.batch.jobfile.fields import CategoryCount, Name, Section, checked
from dpcore.batch.jobfile.sections import RowCount
from dpcore.batch.jobfile.times import sort_of
from dpcore.batch.release.found_fields import FoundKeys, check_points_of_groups
from dpcore.batch.release.group_fields import size_of
from dpcore.batch.release.people_fields import DistinctKeys, SumKeys
from dpcore.batch.release.private_fields import PrivateKeys
from dpcore.batch.release.query_fields import (
    MAX_CELLS,
    SKIP,
    Bound,
    Edges,
    HowMany,
    Levels,
    Listed,
    NumberOrSkip,
    SyntheticCells,
    TablePath,
    TwoNames,
    TwoNumbers,
    TwoNumbersOrSkip,
    check_bounds,
    check_one_sort,
)
from dpcore.batch.release.query_sections import CellsSection, GroupedQuery, QuerySection

MAX_QUERIES = 2**12
"""Each draw of a keyed job has a separate nonce, and so has each row: there are 2^32."""
MAX_COLUMNS = 2**10
"""Columns of a synthetic table."""


class GroupsQuery(PrivateKeys, QuerySection):
    """`kind = "groups"`: the keys of groups that only the data know, for the queries whose groups are "private"."""

    kind: Literal["groups"]

    @property
    def selects_groups(self) -> bool:
        """It does."""
        return True


class CountQuery(GroupedQuery):
    """`kind = "count"`: rows; or rows whose column holds one of `categories`, a number in [lower, upper], or, skipping nulls, a value."""

    kind: Literal["count"]
    column: Name | None = None
    categories: Listed | None = None
    lower: Bound | None = None
    upper: Bound | None = None
    missing: Literal["skip"] | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether only some rows are counted."""
        return self.column is not None

    @property
    def may_be_free(self) -> bool:
        """Whether it counts all rows, whose number is public in some jobs."""
        return not self.is_conditional and self.grouping is None and self.where is None

    @model_validator(mode="after")
    def _condition_is_whole(self) -> Self:
        if not self.is_conditional and not (self.categories is None and self.lower is None and self.upper is None):
            raise ValueError("column is required with categories, lower or upper; without any of them all rows are counted")
        bounds = self.lower is not None or self.upper is not None
        if self.missing is not None and (not self.is_conditional or self.categories is not None or bounds):
            raise ValueError('missing = "skip" counts the rows whose column has a value: it needs column, without categories and bounds')
        if self.is_conditional and self.missing is None and (self.categories is not None) == bounds:
            found = "both were given" if bounds else "neither was given"
            raise ValueError(f'a count with a column needs either categories = [...] or lower and upper, or missing = "skip", {found}')
        check_one_sort(lower=self.lower, upper=self.upper)
        if bounds and (self.lower is None or self.upper is None or not self.lower <= self.upper):
            raise ValueError(f"lower = {self.lower!r} and upper = {self.upper!r} must both be given, and lower ≤ upper")
        return self


class HistogramQuery(CellsSection, GroupedQuery):
    """`kind = "histogram"`: rows for each declared category, or in each bin between declared edges."""

    kind: Literal["histogram"]
    column: Name


class BoundedQuery(FoundKeys, GroupedQuery):
    """A statistic of numbers that are clamped to [lower, upper]."""

    column: Name
    lower: Bound
    upper: Bound
    missing: NumberOrSkip | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        check_bounds(self.lower, self.upper, self.missing)
        self._check_sort(sort_of(self.lower))
        self.check_found(self.epsilon, self.weight)
        return self

    def _check_sort(self, sort: str | None) -> None:
        """Raise ValueError unless numbers of this sort, None for plain ones, have such a statistic."""
        if sort is not None:
            raise ValueError(f"{self.kind} is for numbers, got lower = {self.lower!r}")


class CountDistinctQuery(DistinctKeys, GroupedQuery):
    """`kind = "count_distinct"`: how many units there are, or how many different values of a column."""

    kind: Literal["count_distinct"]

    @property
    def is_about_units(self) -> bool:
        """It is."""
        return True

    @property
    def bounds_units(self) -> bool:
        """Whether a unit's part in it is bounded without a bound on its rows."""
        return self.column is not None or self.grouping is None


class SumQuery(SumKeys, BoundedQuery):
    """`kind = "sum"`: the sum of the clamped numbers."""

    kind: Literal["sum"]

    @property
    def is_about_units(self) -> bool:
        """Whether it bounds what each unit adds."""
        return self.max_sum_per_unit is not None

    def _check_sort(self, sort: str | None) -> None:
        if sort not in {None, "duration"}:
            raise ValueError(f"a sum of values like lower = {self.lower!r} means nothing; only durations can be added up")
        if sort is not None and self.max_sum_per_unit is not None:
            raise ValueError(f"max_sum_per_unit is for numbers, got lower = {self.lower!r}")


class MeanQuery(BoundedQuery):
    """`kind = "mean"`: the mean of the clamped numbers."""

    kind: Literal["mean"]

    def _check_sort(self, sort: str | None) -> None:
        """Dates, times and durations have means."""


class SpreadQuery(BoundedQuery):
    """`kind = "var"` and `"std"`: the variance of the clamped numbers, or its root; of a sample, or with `ddof = 0` of the rows."""

    kind: Literal["var", "std"]
    ddof: Literal[0, 1] = 1

    @property
    def is_root(self) -> bool:
        """Whether the root of the variance is wanted."""
        return self.kind == "std"


class CovarianceQuery(GroupedQuery):
    """`kind = "covariance"`: that of two columns of clamped numbers."""

    kind: Literal["covariance"]
    columns: TwoNames
    lower: TwoNumbers
    upper: TwoNumbers
    missing: TwoNumbersOrSkip | None = None
    ddof: Literal[0, 1] = 1

    @property
    def is_root(self) -> bool:
        """It is none."""
        return False

    @property
    def column(self) -> None:
        """It has two."""
        return

    @property
    def column_names(self) -> tuple[str, ...]:
        """Both."""
        return self.columns

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        for place, name in enumerate(self.columns):
            try:
                missing = None if self.missing is None or isinstance(self.missing, str) else self.missing[place]
                check_bounds(self.lower[place], self.upper[place], missing)
            except ValueError as error:
                raise ValueError(f"column {name!r}: {error}") from None
        return self


class GridQuery(FoundKeys, GroupedQuery):
    """A statistic that is a point of a declared grid, or several: quantiles."""

    column: Name
    grid: Edges
    missing: NumberOrSkip | None = None
    delta: Annotated[float, checked(check_real, low=0.0, high=0.0)] = 0.0

    @model_validator(mode="after")
    def _groups_times_grid_fit(self) -> Self:
        self.check_found(self.epsilon, self.weight)
        check_one_sort(grid=self.grid[0], missing=self.missing)
        groups = 1 if self.groups is None else size_of(self.groups)
        if groups is not None:
            check_points_of_groups(len(self.grid), groups, found=self.bounds is not None)
        return self


class QuantileQuery(GridQuery):
    """`kind = "quantile"`: for each level q the point of a declared grid that has about q of the rows at or below it."""

    kind: Literal["quantile"]
    q: Levels


class MedianQuery(GridQuery):
    """`kind = "median"`: the quantile at 0.5."""

    kind: Literal["median"]

    @property
    def q(self) -> tuple[float, ...]:
        """The level of the median."""
        return (0.5,)


class TopQuery(GroupedQuery):
    """`kind = "top_s"`: the s most frequent of declared candidates."""

    kind: Literal["top_s"]
    column: Name
    s: HowMany
    candidates: Listed | None = None
    candidates_file: Name | None = None
    k: CategoryCount | None = None
    method: Literal["gumbel", "peeling", "oneshot_laplace"] = "gumbel"
    values: bool = False

    @model_validator(mode="after")
    def _candidates_are_declared_once(self) -> Self:
        declared = [key for key in ("candidates", "candidates_file", "k") if getattr(self, key) is not None]
        if len(declared) != 1:
            found = f"{' and '.join(declared)} were given" if declared else "none was given"
            raise ValueError(f'top_s needs one of candidates = [...], candidates_file = "x.csv" or k = N (the codes 0 … N − 1), {found}')
        size = self.k or len(self.candidates or ())
        if size > MAX_CELLS:
            raise ValueError(f"k must be at most {MAX_CELLS}, got {size}")
        if size and self.s > size:
            raise ValueError(f"s must be at most the number of candidates, {size}, got {self.s}")
        return self


class SyntheticColumn(CellsSection):
    """An entry of `columns`: one column of a synthetic table, and its cells."""

    name: Name
    integers: bool | None = None

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
        """Name of the column in messages."""
        return f"column {self.name!r}"

    @property
    def whose_cells(self) -> str:
        """The name of the column."""
        return f"column {self.name!r}: "

    @model_validator(mode="after")
    def _integers_lie_in_bins(self) -> Self:
        if self.integers is not None and self.cuts is None:
            raise ValueError("integers is for columns with bins, and this column has none")
        if self.integers is True:
            self.check_integers()
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
        """It has several."""
        return

    @property
    def column_names(self) -> tuple[str, ...]:
        """Those of the table."""
        return tuple(column.name for column in self.columns)

    @property
    def table_path(self) -> str:
        """Where it writes its rows."""
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


NumberQuery = CountQuery | CountDistinctQuery | HistogramQuery | SumQuery | MeanQuery | SpreadQuery | CovarianceQuery
Query = NumberQuery | QuantileQuery | MedianQuery | TopQuery | GroupsQuery | SyntheticQuery
JobQuery = Annotated[Query, Field(discriminator="kind")]
QUERY_SECTIONS: dict[str, type[Query]] = {
    "count": CountQuery,
    "count_distinct": CountDistinctQuery,
    "histogram": HistogramQuery,
    "sum": SumQuery,
    "mean": MeanQuery,
    "var": SpreadQuery,
    "std": SpreadQuery,
    "covariance": CovarianceQuery,
    "quantile": QuantileQuery,
    "median": MedianQuery,
    "top_s": TopQuery,
    "groups": GroupsQuery,
    "synthetic": SyntheticQuery,
}
PARTS: dict[str, type[Section]] = {"columns": SyntheticColumn}
"""Models of the tables inside of a query."""
