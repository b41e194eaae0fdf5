"""The keys that many kinds of `[[query]]` share: those of all, those of groups, and the cells of a column."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpcore._dataclasses import dataclass
from dpcore.privacy import Privacy, Relation
from dpcore.query.fields import (
    MAX_CELLS,
    SKIP,
    BinCount,
    Bound,
    Confidence,
    DeltaShare,
    Edges,
    FoundKeys,
    Listed,
    NumberOrSkip,
    StandIn,
    check_bounds,
    check_one_sort,
    even_edges,
)
from dpcore.query.group_fields import GroupBy, Groups, GroupsDeclared, check_grouping
from dpcore.query.methods import KNOWN, InPython
from dpcore.query.nested_fields import Consistent, ConsistentKey, check_nested
from dpcore.tables.fields import CategoryCount, Finite, Name, Positive, Section
from dpcore.tables.sections import ExpressionText, PrivacySection, RowCount
from dpcore.tables.types.timed import sort_of, timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.tables.fields import Category


Grouped = tuple[tuple[str, ...], GroupsDeclared]
"""Columns, and the groups that they declare."""
LISTS_THEM = "A CSV file that lists them."
PROGRESSION = '`{"start": a, "stop": b, "step": c}`'
OF_ONE = f"Bounds of one number, lower < upper. {KNOWN}"
INSTEAD = 'Stands for missing cells; "skip" leaves such rows out'
BOUNDED_KEYS = ("lower", "upper", "bounds", "bounds_epsilon", "delta", "missing")
"""Arguments that statistics of clamped numbers have."""


def skips(query: Section) -> bool:
    """Whether rows without a number are left out."""
    return getattr(query, "missing", None) == SKIP


@dataclass(frozen=True, slots=True)
class StepOfSeries:
    """The step of a series that one run of a job makes.

    Attributes
    ----------
    path : str
        The file of what the next run needs.
    steps : int
        Of the whole series.
    number : int
        Of this step, from 1.
    label : str
        The step as the job writes it.
    claimed : int or None
        In how many steps a protected unit is at most, as the job claims; None if one event is protected.
    label_of : callable
        The label of any step.
    """

    path: str
    steps: int
    number: int
    label: str
    claimed: int | None
    label_of: Callable[[int], str]


class QuerySection(Section):
    """Keys of every `[[query]]`; descriptions are those of the arguments of tables in Python."""

    name: Annotated[Name, Field(description="Name of the answer. Default: made of kind and column.")]
    kind: str
    epsilon: Annotated[Positive, Field(description="Its ε, in (0, ∞).")] = 0.0
    weight: Annotated[
        Positive | None,
        Field(description="In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight."),
    ] = None
    delta: Annotated[DeltaShare, Field(description="Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.")] = 0.0
    confidence: Annotated[Confidence, Field(description="Of the interval, in (0, 1). Default: 0.95.")] = 0.95
    where: ExpressionText | None = None

    @model_validator(mode="after")
    def _cost_is_given_once(self) -> Self:
        """Until the shares of a job are known, the ε of a query with a weight is 0."""
        given = "epsilon" in self.model_fields_set
        if given == (self.weight is not None) and (given or not self.may_be_free):
            found = "both were given" if given else "neither was given"
            raise ValueError(f"epsilon, or in its place weight, a share of what is left of the budget, is required; {found}")
        return self

    @property
    def may_be_free(self) -> bool:
        """Whether it costs nothing in some jobs."""
        return False

    @property
    def has_cost(self) -> bool:
        """Whether an ε or a weight was given."""
        return "epsilon" in self.model_fields_set or self.weight is not None

    if TYPE_CHECKING:  # a key of many kinds, or a property that is None

        @property
        def column(self) -> str | None:
            """The one column that it is about."""

    @property
    def privacy(self) -> Privacy:
        """Privacy of the query."""
        return Privacy(self.epsilon, self.delta)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that it is about."""
        column: str | None = getattr(self, "column", None)
        return () if column is None else (column,)

    @property
    def table_path(self) -> str | None:
        """Where it writes a table, if it does."""
        return None

    @property
    def step_of_series(self) -> StepOfSeries | None:
        """The step that this run makes of a series of runs, if it goes on with what earlier ones have kept."""
        return None

    @property
    def is_about_units(self) -> bool:
        """Whether all rows of a unit are looked at together."""
        return False

    @property
    def bounds_units(self) -> bool:
        """Whether what a unit can change is bounded without a bound on its rows."""
        return self.is_about_units

    @property
    def selects_groups(self) -> bool:
        """Whether it releases the keys of groups that only the data know."""
        return False

    @property
    def powers(self) -> tuple[int, ...]:
        """The power of each column's unit in that of the answer: (1,) of a sum, (2,) of a variance, (1, −1) of a quotient."""
        if len(self.column_names) > 1:
            raise NotImplementedError(f"a query of several columns says in which powers their units are in its answer: {self.kind}")
        return (1,)

    @property
    def ends_with_product(self) -> bool:
        """Whether the last noise that it draws is on a product of two numbers."""
        return False

    def check_unit(self, unit: str) -> None:
        """Raise ValueError unless it can be asked about units of this kind."""

    @property
    def grouping(self) -> Grouped | None:
        """Columns and declaration of the groups that it is answered for."""
        return None

    @property
    def nested(self) -> Consistent | None:
        """What its answers to nested groups must be, if they must add up."""
        return None


class GroupedQuery(QuerySection):
    """A query that may be answered for each of several declared groups of rows."""

    group_by: GroupBy | None = None
    groups: Groups | None = None

    @model_validator(mode="before")
    @classmethod
    def _groups_add_up_if_they_can(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "consistent" in given and "consistent" not in cls.model_fields:
            raise ValueError(
                f"consistent is for counts and sums, whose answers to groups add up to that of all of them; kind = {given.get('kind')!r} "
                "does not. Ask for a sum and a count, and divide them"
            )
        return given

    @model_validator(mode="after")
    def _groups_are_declared(self) -> Self:
        if (self.group_by is None) != (self.groups is None):
            given = "group_by was given" if self.groups is None else "groups was given"
            raise ValueError(f"group_by, a column, and groups = [...], its declared values, belong together; only {given}")
        if self.grouping is not None:
            check_grouping(*self.grouping, nested=self.nested is not None)
        return self

    @property
    def grouping(self) -> Grouped | None:
        """Columns and declaration of the groups that it is answered for."""
        if self.group_by is None or self.groups is None:
            return None
        return ((self.group_by,) if isinstance(self.group_by, str) else self.group_by), self.groups


class AddsUp(GroupedQuery):
    """A query whose number for rows of several groups is the sum of those for each of them, so that answers to nested groups can add up."""

    consistent: ConsistentKey = None

    @model_validator(mode="after")
    def _nested_groups_are_declared(self) -> Self:
        if self.consistent is None:
            return self
        if self.grouping is None:
            raise ValueError("consistent needs group_by and groups: the columns from the coarsest to the finest, and their declared groups")
        if getattr(self, "bounds", None) is not None:
            raise ValueError(
                'consistent needs declared bounds, the same for all levels: give lower and upper in place of bounds = "private"'
            )
        check_nested(*self.grouping, self.consistent)
        return self

    @property
    def nested(self) -> Consistent | None:
        """What its answers to nested groups must be, if they must add up."""
        return self.consistent


class CellsSection(Section):
    """The declaration of the cells of a column: categories, or bins of numbers."""

    categories: Annotated[Listed | None, Field(description=f"The cells. {KNOWN}")] = None
    categories_file: Annotated[Name | None, Field(description=LISTS_THEM)] = None
    k: Annotated[CategoryCount | None, Field(description="The cells are the codes 0 … k − 1.")] = None
    edges: Annotated[Edges | None, Field(description=f"Edges of bins in order, or {PROGRESSION}.")] = None
    bins: Annotated[BinCount | None, Field(description="Number of bins of equal width between `lower` and `upper`.")] = None
    lower: Annotated[Finite | None, Field(description="Ends of those bins.")] = None
    upper: Annotated[Finite | None, Field(description="Ends of those bins.")] = None
    missing: Annotated[
        StandIn | None,
        Field(description='Category or number that stands for missing cells, or "skip". Required with a ledger.'),
    ] = None
    unknown: Annotated[
        StandIn | None,
        InPython("str | int", "str or int"),
        Field(description="Category that stands for others. Required with a ledger."),
    ] = None

    @model_validator(mode="after")
    def _cells_are_declared_once(self) -> Self:
        keys = ("categories", "categories_file", "k", "edges", "bins")
        declared = [key for key in keys if getattr(self, key) is not None]
        if len(declared) != 1:
            found = f"{' and '.join(declared)} were given" if declared else "none was given"
            raise ValueError(
                f'{self._whose} needs one of categories = [...], categories_file = "x.csv", k = N (the codes 0 … N − 1), edges = [...], or '
                f"bins = N with lower and upper; {found}. Take them from what you know about the subject, never from the data"
            )
        if self.k is not None and self.k > MAX_CELLS:
            raise ValueError(f"k must be at most {MAX_CELLS}, got {self.k}")
        self._check_ends()
        if self.cuts is not None:
            self._check_bins()
        else:
            for key in ("missing", "unknown"):
                _check_category(key, getattr(self, key), self.categories, self.k)
        return self

    @property
    def _whose(self) -> str:
        """Name of the query in messages."""
        return "histogram"

    @property
    def whose_cells(self) -> str:
        """What comes before a message about one of its keys."""
        return ""

    @property
    def cuts(self) -> tuple[float, ...] | None:
        """The edges of the bins: those listed, or those of `bins` bins of equal width between `lower` and `upper`; None of categories."""
        if self.bins is None or self.lower is None or self.upper is None:
            return self.edges
        return even_edges(self.bins, self.lower, self.upper)

    def _check_ends(self) -> None:
        given = [key for key in ("lower", "upper") if getattr(self, key) is not None]
        if self.bins is None and given:
            raise ValueError(f"{' and '.join(given)} without bins = N: {self._whose} has no bins of equal width")
        if self.bins is not None and len(given) < 2:
            raise ValueError("bins = N needs lower and upper: the bins have equal width between them; for other bins write edges = [...]")
        if self.bins is not None:
            check_bounds(self.lower or 0.0, self.upper or 0.0, None)

    def _check_bins(self) -> None:
        if self.unknown is not None:
            raise ValueError("unknown is for categories; numbers outside the bins count in the first or last one")
        missing = timed(self.missing)
        if missing is not None and self.cuts is not None:
            check_one_sort(edges=self.cuts[0], missing=missing)
        elif isinstance(self.missing, str) and self.missing != SKIP:
            raise ValueError(f'missing must be a number, which then counts in its bin, or "{SKIP}", got {self.missing!r}')


def _check_category(key: str, value: Category | float | None, listed: tuple[Category, ...] | None, k: int | None) -> None:
    if value is None:
        return
    if value == SKIP and (listed is None or SKIP not in listed):
        return
    if k is not None and not (isinstance(value, int) and 0 <= value < k):
        raise ValueError(f"{key} must be a code in [0, k − 1] = [0, {k - 1}], got {value!r}")
    if listed is not None and not (type(value) is type(listed[0]) and value in listed):
        raise ValueError(f"{key} must be one of the categories {reprlib.repr(list(listed))}, got {value!r}")


MAX_QUERIES = 2**12
"""Each draw of a keyed job has a separate nonce, and so has each row: there are 2^32."""


class BoundedQuery(FoundKeys, GroupedQuery):
    """A statistic of numbers that are clamped to [lower, upper]."""

    column: Annotated[Name, Field(description="Column of numbers.")]
    lower: Annotated[Bound, InPython("float", "float"), Field(description=f"{OF_ONE} Required without `bounds`.")]
    upper: Annotated[Bound, InPython("float", "float"), Field(description=f"{OF_ONE} Required without `bounds`.")]
    missing: Annotated[
        NumberOrSkip | None,
        InPython("float | Literal['skip']", 'float or "skip"'),
        Field(description=f"{INSTEAD}. Required with a ledger."),
    ] = None

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


Accounting = Literal["basic", "zcdp", "pld"]
"""How what the queries of a job spend is added up: see `composition`."""


class ReleasePrivacy(PrivacySection):
    """`[privacy]`: what the job may spend, whose data it protects, and how tables may differ."""

    relation: Relation = "replace"
    max_groups_per_unit: RowCount | None = None
    accounting: Accounting = "basic"
    unit_name: Name | None = None

    @property
    def protected(self) -> str:
        found = super().protected
        return found if self.unit_name is None else self.unit_name + found.removeprefix(self.unit)

    @property
    def key_of_unit(self) -> str:
        return "unit" if self.unit_name is None else "unit_name"

    def called_otherwise(self, name: str) -> str:
        said = f" (a column of another name that holds the same units: privacy.unit_name = {name!r})"
        return "" if "row" in {self.unit, name} or self.unit_name is not None else said

    @model_validator(mode="after")
    def _a_row_has_no_other_name(self) -> Self:
        if self.unit == "row" and self.unit_name is not None:
            raise ValueError(
                f"unit_name = {self.unit_name!r} is for jobs whose unit is a column; with unit = 'row' each row is its own unit"
            )
        return self

    @model_validator(mode="after")
    def _conversions_need_a_delta(self) -> Self:
        if self.accounting != "basic" and self.max_delta == 0:
            raise ValueError(f"max_delta is required with accounting = {self.accounting!r}, whose guarantee has a delta: for example 1e-6")
        return self

    ALWAYS_BOUNDS_ROWS: ClassVar[bool] = False

    @model_validator(mode="after")
    def _groups_are_of_a_unit(self) -> Self:
        if self.unit == "row" and self.max_groups_per_unit is not None:
            raise ValueError("max_groups_per_unit is for jobs whose unit is a column; with unit = 'row' each row is in one group")
        return self
