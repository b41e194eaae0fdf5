"""`count`: rows, all or some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.pages.numbers import plain_name, plain_range
from dpcore.query.encoders import Categorical, InRange, NotNull
from dpcore.query.estimators import Estimator, OneDraw, given
from dpcore.query.fields import SKIP, Bound, Listed, check_one_sort
from dpcore.query.kinds.base import StatisticKind
from dpcore.query.methods import Method
from dpcore.query.noise import around, integer_noise
from dpcore.query.prose import declared_parts, sentence_of
from dpcore.query.query_sections import AddsUp, GroupedQuery
from dpcore.query.reads import listed
from dpcore.query.statistics import Statistic
from dpcore.tables.fields import Name, Positive
from dpcore.tables.types.categories import declared_by
from dpcore.tables.types.timed import Timed

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.assumed import Assumed
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import IntegerNoise
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import ReadRows
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    Counts = npt.NDArray[np.int64]


FREE = "the number of rows is public, because neighbouring tables have equally many: this answer costs nothing"
"""The note on an answer without noise."""


COST = (
    'Its ε, in (0, ∞). Where the number of rows is public (unit "row", relation "replace", no filter or groups), a count of all rows is '
    "exact and costs nothing, and needs no ε: one that is given is not used, and `UnusedEpsilonWarning` says so."
)
BETWEEN = "Count the rows with a number, or date or time, in [lower, upper]."


class RowsQuery(GroupedQuery):
    """A count of rows; or of rows whose column holds one of `categories`, a number in [lower, upper], or, skipping nulls, a value."""

    column: Annotated[Name | None, Field(description="Column of the condition. Default: all rows are counted.")] = None
    categories: Annotated[Listed | None, Field(description="Count the rows that hold one of these.")] = None
    lower: Annotated[Bound | None, Field(description=BETWEEN)] = None
    upper: Annotated[Bound | None, Field(description=BETWEEN)] = None
    missing: Annotated[
        Literal["skip"] | None, Field(description="Count the rows that have a value in the column, as COUNT(column) in SQL does.")
    ] = None

    @property
    def is_conditional(self) -> bool:
        """Whether only some rows are counted."""
        return self.column is not None

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
        check_range(self.lower, self.upper)
        return self


class CountQuery(AddsUp, RowsQuery):
    """`kind = "count"`: rows; or rows whose column holds one of `categories`, a number in [lower, upper], or, skipping nulls, a value."""

    kind: Literal["count"]
    epsilon: Annotated[Positive, Field(description=COST)] = 0.0

    @property
    def may_be_free(self) -> bool:
        """Whether it counts all rows, whose number is public in some jobs."""
        return not self.is_conditional and self.grouping is None and self.where is None


def check_range(lower: float | None, upper: float | None) -> None:
    """Raise ValueError unless a condition has both ends of a range in their order, or none."""
    check_one_sort(lower=lower, upper=upper)
    if (lower is not None or upper is not None) and (lower is None or upper is None or not lower <= upper):
        raise ValueError(f"lower = {lower!r} and upper = {upper!r} must both be given, and lower ≤ upper")


class Count(StatisticKind):
    """Rows, with discrete noise; all of them without noise where their number is public."""

    names, fields = ("count",), (CountQuery,)
    methods = (
        Method(
            "count",
            "Count rows: all, or those whose column holds one of some categories or a number in an interval.",
            "The noisy number of rows, for each group if there are groups.",
            ("delta", "categories", "lower", "upper", "missing"),
        ),
    )
    counts_rows = True
    may_be_free = True

    def columns(self, position: int, query: RowsQuery) -> Columns:
        if query.column is None:
            return ()
        return ((query.column, NotNull() if query.missing == SKIP else condition_of(position, query)),)

    def calibrate(self, query: CountQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """With the sensitivity of one count, or of a histogram."""
        cells: Any = columns[0][1] if columns else None
        if cells is None and bound.n_is_public and not groups:
            return PublicCountEstimator(query)
        return CountEstimator.calibrate(query, cells, bound, relation, groups)

    def question(self, query: Entry) -> str:
        column = query.get("column")
        if query.get("missing") == SKIP:
            return f"How many rows have a value of {column}"
        return f"How many rows have {column} {condition_in_words(query)}" if column else "How many rows there are"

    def declared(self, query: Entry) -> str:
        return sentence_of(declared_parts(query, clamps=False))


@dataclass(frozen=True, slots=True)
class CountEstimator(OneDraw):
    """Rows, all or some, with discrete noise of sensitivity m."""

    section: RowsQuery
    cells: InRange | Categorical | NotNull | None
    mechanism: IntegerNoise

    @classmethod
    def calibrate(
        cls, section: RowsQuery, cells: InRange | Categorical | NotNull | None, bound: Contribution, relation: Relation, groups: int = 0
    ) -> CountEstimator:
        """Calibrate it, for one of so many groups if there are any."""
        return cls(section, cells, integer_noise(section.epsilon, section.delta, bound.cells if groups else bound.count, relation))

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return () if self.cells is None or self.section.column is None else ((self.section.column, self.cells),)

    def parameters(self) -> dict[str, Any]:
        return given(self.section, "categories", "lower", "upper", "missing")

    @property
    def statistic(self) -> Statistic:
        return CountOf(self.groups, self.cells)

    def release_each(self, total: Counts, rng: Stream | None) -> dict[str, Any]:
        return around(self.mechanism.release(total[:-1], rng=rng, threads=1), self.mechanism, self.section.confidence)


@dataclass(frozen=True, slots=True)
class PublicCountEstimator(Estimator):
    """The number of all rows where it is public, because neighbours have equally many: no noise, and nothing is spent."""

    section: CountQuery

    @property
    def reads(self) -> tuple[()]:
        return ()

    @property
    def rho(self) -> float | None:
        return 0.0

    @property
    def statistic(self) -> Statistic:
        return CountOf(1)

    def release(self, total: Counts, rng: Stream | None) -> dict[str, Any]:  # noqa: ARG002
        value = int(total[0])
        return {"value": value, "stderr": 0.0, "interval": [value, value], "note": FREE}

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        return 0.0

    def half_width(self, assumed: Assumed) -> float | None:  # noqa: ARG002
        return 0.0


@dataclass(frozen=True, slots=True)
class CountOf(Statistic):
    """Rows of each group, all or some."""

    groups: int
    cells: InRange | Categorical | NotNull | None = None

    def zero(self, spill: Path) -> Counts:  # noqa: ARG002
        return np.zeros(self.groups + 1, np.int64)

    def add(self, total: Counts, selected: ReadRows) -> None:
        match = self._match(selected.columns)
        if selected.codes is None:
            total[0] += selected.n if match is None else np.count_nonzero(match)
        else:
            _backend.add_code_counts(total, selected.codes if match is None else selected.codes[match])

    def _match(self, columns: list[Array]) -> Array | None:
        """Which rows count; None if all do."""
        return matching(self.cells, columns[0]) if columns else None


def condition_of(position: int, query: Any) -> InRange | Categorical:
    """How a column is read for a condition: categories, or a range."""
    if query.categories is None:
        return InRange(_end(query.lower), _end(query.upper))
    return Categorical(listed(position, query, declared_by(query.categories)), skip=True)


def matching(cells: Encoder | None, column: Array) -> Array:
    """Which rows fulfil a condition, given what was read for it."""
    return column < cells.size if isinstance(cells, Categorical) else column


def _end(bound: float | None) -> float:
    """A bound of a count: a date or time as it is, any number as a float."""
    return bound if isinstance(bound, Timed) else float(bound or 0.0)


def condition_in_words(query: Entry) -> str:
    """Describe the rows that fulfil a condition."""
    labels = query.get("categories")
    if not labels:
        return f"from {plain_range(query.get('lower'), query.get('upper'))}"
    more = ", …" if len(labels) > 5 else ""
    return ("equal to " if len(labels) == 1 else "equal to one of ") + ", ".join(map(plain_name, labels[:5])) + more
