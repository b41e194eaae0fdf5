"""`count_distinct`: how many units there are, or how many different values of a column."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from dpcore._dataclasses import dataclass
from dpcore._guarantee import whose_data
from dpcore.errors import ParameterError
from dpcore.query.encoders import Categorical
from dpcore.query.estimators import given
from dpcore.query.fields import MAX_CELLS, Listed
from dpcore.query.kinds.base import Kind
from dpcore.query.methods import Method
from dpcore.query.noise import around, integer_noise
from dpcore.query.prose import of_column
from dpcore.query.query_sections import LISTS_THEM, GroupedQuery
from dpcore.query.reads import listed
from dpcore.query.unit_statistics import ChosenValueCounts, ListedValues, UnitCounts, ValueCounts
from dpcore.query.whole_unit_queries import DifferentCells, OfUnits, OfWholeUnits, Whole
from dpcore.tables.fields import CategoryCount, Name
from dpcore.tables.sections import RowCount
from dpcore.tables.types.categories import declared_by

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import Estimator, IntegerNoise
    from dpcore.query.kinds.base import Columns, Entry, QueryContext
    from dpcore.query.rehearsal_columns import Seen
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import ReadRows, Statistic
    from dpcore.query.unit_statistics import Gathering
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


class CountDistinctQuery(GroupedQuery):
    """`kind = "count_distinct"`: how many units there are, or how many different values of a column."""

    kind: Literal["count_distinct"]
    column: Annotated[Name | None, Field(description="Column whose values are counted. Default: units are counted.")] = None
    categories: Annotated[Listed | None, Field(description="Only these values count.")] = None
    categories_file: Annotated[Name | None, Field(description=LISTS_THEM)] = None
    k: Annotated[CategoryCount | None, Field(description="Only the codes 0 … k − 1 count.")] = None
    max_values_per_unit: Annotated[
        RowCount | None,
        Field(description="How many values one unit may add; required for a column if the unit is one, too."),
    ] = None

    @model_validator(mode="after")
    def _values_are_of_a_column(self) -> Self:
        keys = ("categories", "categories_file", "k")
        declared = [key for key in keys if getattr(self, key) is not None]
        given = [key for key in (*keys, "max_values_per_unit") if getattr(self, key) is not None]
        if self.column is None and given:
            raise ValueError(f"{' and '.join(given)} without column: a count_distinct without a column counts units")
        if len(declared) > 1:
            raise ValueError(f"{' and '.join(declared)} were given; at most one says which values are counted")
        if self.k is not None and self.k > MAX_CELLS:
            raise ValueError(f"k must be at most {MAX_CELLS}, got {self.k}")
        return self

    def check_unit(self, unit: str) -> None:
        """Raise ValueError unless it can be asked about units of this kind."""
        if unit == "row" and self.column is None:
            raise ValueError('count_distinct without a column counts units, and with unit = "row" each row is one; write kind = "count"')
        if unit == "row" and self.max_values_per_unit not in {None, 1}:
            found = self.max_values_per_unit
            raise ValueError(f'max_values_per_unit must be 1 or left out with unit = "row": a row has one value, got {found}')
        if unit != "row" and self.column is not None and self.max_values_per_unit is None:
            raise ValueError(f"max_values_per_unit is required with unit = {unit!r}: how many values of the column one unit may add")

    @property
    def is_about_units(self) -> bool:
        return True

    @property
    def bounds_units(self) -> bool:
        """Whether a unit's part in it is bounded without a bound on its rows."""
        return self.column is not None or self.grouping is None


class CountDistinct(Kind):
    """Different units or values, with discrete noise for what the query itself lets one unit change."""

    names, fields = ("count_distinct",), (CountDistinctQuery,)
    methods = (
        Method(
            "count_distinct",
            "Count units, or the different values of a column.",
            "The noisy number, for each group if there are groups.",
            ("delta", "categories", "categories_file", "k", "max_values_per_unit"),
        ),
    )

    def uses_all_rows(self, query: Entry) -> bool:
        return query.get("max_values_per_unit") is not None or query.get("groups") is None

    def cut(self, query: Entry) -> str:
        return "" if query.get("column") else "one with more is missing from some groups, so the counts may be too small"

    def columns(self, position: int, query: CountDistinctQuery) -> Columns:
        """The column of the values, declared or whatever they are."""
        if query.column is None:
            return ()
        declared = declared_by(query.categories, query.categories_file, query.k)
        cells = DifferentCells() if declared is None else Categorical(listed(position, query, declared), skip=True)
        return ((query.column, cells),)

    def estimator(self, query: CountDistinctQuery, asked: QueryContext) -> Estimator:
        whole, cells = Whole.of(asked.privacy, asked.read)
        if not cells:
            return replace(UnitsEstimator.calibrate(query, whole, asked.bound, asked.relation, asked.groups), grouping=asked.read.groups)
        values: Any = cells[0]
        return replace(
            ValuesEstimator.calibrate(query, values, whole, asked.bound, asked.relation, asked.groups), grouping=asked.read.groups
        )

    def unclamped(self, query: CountDistinctQuery, seen: Seen) -> CountDistinctQuery:
        return query if query.max_values_per_unit is None else query.model_copy(update={"max_values_per_unit": max(seen.rows, 1)})

    def subject(self, query: Entry) -> str:
        return f"different values of {query['column']}" if query.get("column") else "units"

    def question(self, query: Entry) -> str:
        if not query.get("column"):
            return f"How many units there are, each of them {whose_data(query['unit'])}" if "unit" in query else "How many units there are"
        among = " of those declared" if any(query.get(key) is not None for key in ("categories", "categories_file", "k")) else ""
        return f"How many different values{of_column(query)} occur{among}"


class _Counts(OfWholeUnits):
    """Base of the answers that count what is different."""

    __slots__ = ()

    def release_each(self, total: Array, rng: Stream | None) -> dict[str, Any]:
        counts = np.asarray(self.mechanism.release(np.asarray(total, np.int64), rng=rng, threads=1))
        return around(counts, self.mechanism, self.section.confidence)


@dataclass(frozen=True, slots=True)
class UnitsEstimator(_Counts):
    """How many units have a row, with discrete noise: one unit counts once, in each of the groups that it touches."""

    section: CountDistinctQuery
    whole: Whole
    mechanism: IntegerNoise

    @classmethod
    def calibrate(cls, section: CountDistinctQuery, whole: Whole, bound: Contribution, relation: Relation, groups: int) -> UnitsEstimator:
        """Calibrate it, for so many groups if there are any."""
        sensitivity = bound.units(groups) if groups else replace(bound, rows=1).count
        return cls(section, whole, integer_noise(section.epsilon, section.delta, sensitivity, relation))

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return self.whole.reads

    @property
    def statistic(self) -> Statistic:
        return UnitsOf(self.whole, self.groups, self.grouping is not None)


@dataclass(frozen=True, slots=True)
class ValuesEstimator(_Counts):
    """How many different values rows have, with discrete noise.

    A unit takes part with at most k pairs of a group and a value, and so moves the count by at most k, those of all groups together by at
    most k under `add_remove` and 2k under `replace` (`sensitivity.py`).
    """

    section: CountDistinctQuery
    cells: Categorical | DifferentCells
    whole: Whole
    mechanism: IntegerNoise

    @classmethod
    def calibrate(
        cls,
        section: CountDistinctQuery,
        cells: Categorical | DifferentCells,
        whole: Whole,
        bound: Contribution,
        relation: Relation,
        groups: int,
    ) -> ValuesEstimator:
        """Calibrate it, for so many groups if there are any."""
        if isinstance(cells, Categorical) and cells.size * max(groups, 1) > 2**27:
            raise ParameterError(f"there are {cells.size} categories in {max(groups, 1)} groups, and at most {2**27} pairs are allowed")
        part = replace(bound, rows=section.max_values_per_unit or 1, groups=None)
        sensitivity = part.cells if groups else part.count
        return cls(section, cells, whole, integer_noise(section.epsilon, section.delta, sensitivity, relation))

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return (*self.whole.reads, (str(self.section.column), self.cells))

    def parameters(self) -> dict[str, Any]:
        """The values, as far as they are declared, and how many a unit may add."""
        return given(self.section, "categories", "categories_file", "k", "max_values_per_unit")

    @property
    def statistic(self) -> Statistic:
        return ValuesOf(self.whole, self.groups, self.grouping is not None, self.cells, self.section.max_values_per_unit or 1)


@dataclass(frozen=True, slots=True)
class UnitsOf(OfUnits):
    """Different units in each group: those of the rows that take part, where there are groups."""

    @property
    def of_all_rows(self) -> bool:
        """Whether a unit is there with any of its rows."""
        return not self.is_grouped

    @property
    def gathered(self) -> Gathering:
        return UnitCounts(self.whole.compared_as, self.groups, self.whole.nameless)

    def select(self, rows: ReadRows) -> pa.RecordBatch:
        return self._batch(rows, rows.columns)


@dataclass(frozen=True, slots=True)
class ValuesOf(OfUnits):
    """Different values in each group, of which a unit has at most so many."""

    cells: Categorical | DifferentCells
    most: int

    @property
    def draws_words(self) -> bool:
        return self.whole.unit is not None

    @property
    def gathered(self) -> ValueCounts | ChosenValueCounts:
        kind, codes = (pa.int64(), self.cells.size) if isinstance(self.cells, Categorical) else (self.cells.compared_as, None)
        if self.whole.unit is None:
            return ValueCounts(kind, self.groups)
        return ChosenValueCounts(self.whole.unit.compared_as, kind, self.groups, self.most, self.whole.nameless, codes)

    @property
    def listed(self) -> Statistic:
        """Which they are: parts of a table have values in common."""
        return ValuesListedOf(self.whole, self.groups, self.is_grouped, self.cells, self.most)

    def select(self, rows: ReadRows) -> pa.RecordBatch:
        *units, values = rows.columns
        if isinstance(self.cells, Categorical):
            values = values.astype(np.int64)
            there = (values >= 0) & (values < self.cells.size)
        else:
            compared: Any = values
            there = np.asarray(compared.values.is_valid().to_numpy(zero_copy_only=False))
        return self._batch(rows, [*units, values], there)


@dataclass(frozen=True, slots=True)
class ValuesListedOf(ValuesOf):
    """The different values themselves."""

    @property
    def gathered(self) -> Any:
        return ListedValues(ValuesOf.gathered.__get__(self))
