"""`[per_unit]` and `[[join]]`: what is made of the rows of each unit, and which other tables of the same units are joined."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from dpcore.query.group_fields import PRIVATE, GroupBy, Groups, check_grouping
from dpcore.tables.fields import CheckedBy, Finite, Name, Section, no_entries, no_names
from dpcore.tables.sections import MAX_DERIVED, MAX_JOINS, MAX_LOOKUPS, DeriveSection, ExpressionText, Format, LookupSection

if TYPE_CHECKING:
    from dpcore.query.query_sections import Grouped

MAX_COLUMNS = 2**10
OTHER_KEYS = {"on", "key", "keys", "using", "columns", "left_on", "right_on"}
"""Keys that other tools have for joins."""
ONLY_UNITS = (
    "private tables are joined by the unit alone, so that what a row gets is of its own unit; by another key, rows of one unit would "
    "change those of others. What others may know is joined by [[lookup]]"
)
ONE_ROW = "a join needs one row of each unit on its other side, made and not tested, because several would multiply the rows of a unit"
EXAMPLE = 'such as visits = "count(*)" or first = "min(admitted)"'


class BoundedAggregate(Section):
    """A sum or a mean of numbers that are clamped to [lower, upper], as that of floats must be."""

    sum: ExpressionText | None = None
    mean: ExpressionText | None = None
    lower: Finite
    upper: Finite

    @model_validator(mode="after")
    def _one_is_bounded(self) -> Self:
        if (self.sum is None) == (self.mean is None):
            raise ValueError('needs one of sum = "cost" and mean = "cost", with lower and upper')
        if not self.lower < self.upper:
            raise ValueError(f"lower must be less than upper, got lower = {self.lower!r} and upper = {self.upper!r}")
        return self

    @property
    def text(self) -> str:
        """The expression."""
        return self.sum or self.mean or ""


def _check_column(value: object) -> str | BoundedAggregate:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, dict):
        return BoundedAggregate.model_validate(value)
    if isinstance(value, BoundedAggregate):
        return value
    raise ValueError(f'must be an aggregate in SQL, {EXAMPLE}, or {{ sum = "cost", lower = 0, upper = 100 }}, got {reprlib.repr(value)}')


MadeColumn = Annotated[str | BoundedAggregate, CheckedBy(_check_column)]


class MadeSection(Section):
    """What is made of each unit's rows, and what follows it: a row for each unit.

    Attributes
    ----------
    columns : dict
        Aggregates by the name of their column. A job writes them as keys of the table itself.
    lookup, derive, where : as those of a job
        On the rows that are made.
    """

    columns: Annotated[dict[Name, MadeColumn], Field(max_length=MAX_COLUMNS)] = Field(default_factory=no_names)
    lookup: list[LookupSection] = Field(default_factory=no_entries, max_length=MAX_LOOKUPS)
    derive: list[DeriveSection] = Field(default_factory=no_entries, max_length=MAX_DERIVED)
    where: ExpressionText | None = None

    @model_validator(mode="before")
    @classmethod
    def _keys_are_columns(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        own = {key: each for key, each in value.items() if key in cls.model_fields}
        named = {key: each for key, each in value.items() if key not in cls.model_fields}
        columns = own.get("columns", {})
        if not named or not isinstance(columns, dict):
            return own
        for name in named.keys() & columns.keys():
            raise ValueError(f"{name} is a key of the table and of its columns; leave one of them out")
        return own | {"columns": {**columns, **named}}

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of second keys; a row for each unit has none."""
        return ()

    @property
    def grouping(self) -> Grouped | None:
        """Columns and declaration of the second keys."""
        return None


class JoinSection(Section):
    """`[[join]]`: another private table of the same units, of which one row for each unit is made and joined.

    Attributes
    ----------
    path, format : as those of an input
        The other table.
    unit : str or None
        Its column of units; None: of the same name.
    how : {"left", "inner"}
        Whether rows of a unit that the other table does not have stay, without values, or are left out.
    dataset : str or None
        The name of the data, which is that of the input: a ledger has one for all tables.
    lookup, derive, where : as those of a job
        On the rows of the other table.
    per_unit : MadeSection
        What is made of them.
    """

    path: Name
    format: Format | None = None
    unit: Name | None = None
    how: Literal["left", "inner"] = "left"
    dataset: Name | None = None
    lookup: list[LookupSection] = Field(default_factory=no_entries, max_length=MAX_LOOKUPS)
    derive: list[DeriveSection] = Field(default_factory=no_entries, max_length=MAX_DERIVED)
    where: ExpressionText | None = None
    per_unit: MadeSection

    @model_validator(mode="before")
    @classmethod
    def _joins_units(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        for key in OTHER_KEYS & value.keys():
            raise ValueError(f"{key} = {reprlib.repr(value[key])}: {ONLY_UNITS}")
        made = value.get("per_unit")
        if made is None:
            raise ValueError(f'needs per_unit, such as per_unit = {{ first = "min(admitted)" }}: {ONE_ROW}')
        for key in ("by", "groups") if isinstance(made, dict) else ():
            if key in made:
                raise ValueError(f"per_unit.{key} = {reprlib.repr(made[key])}: {ONE_ROW}, and by makes several")
        if isinstance(made, dict) and "join" in made:
            raise ValueError("per_unit.join: tables are joined one after the other, each by a [[join]] of its own")
        return value

    @model_validator(mode="after")
    def _adds_something(self) -> Self:
        if self.how == "left" and not self.per_unit.columns:
            raise ValueError(f'per_unit needs a column, {EXAMPLE}; without one a join says who is in the table, with how = "inner"')
        return self


class PerUnitSection(MadeSection):
    """`[per_unit]`: what is made of each unit's rows in place of the rows of the input, and what follows it.

    Attributes
    ----------
    by, groups : str, list or None
        Second keys, declared as those of groups: a unit has a row for each of its keys.
    join : list of JoinSection
        Other tables that are joined to the rows that are made.
    """

    by: GroupBy | None = None
    groups: Groups | None = None
    join: list[JoinSection] = Field(default_factory=no_entries, max_length=MAX_JOINS)

    @model_validator(mode="after")
    def _second_keys_are_declared(self) -> Self:
        if (self.by is None) != (self.groups is None):
            raise ValueError("by, a column, and groups = [...], its declared values, belong together")
        if self.by is not None and self.groups == PRIVATE:
            raise ValueError('groups = "private": second keys must be declared; take them from what you know about the subject')
        if self.grouping is not None:
            check_grouping(*self.grouping)
        if not self.columns and self.by is None:
            raise ValueError(f"needs a column, {EXAMPLE}")
        for name in self.keys:
            if name in self.columns:
                raise ValueError(f"{name}: by has a column of this name already; give this one another")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of second keys."""
        return () if self.by is None else (self.by,) if isinstance(self.by, str) else self.by

    @property
    def grouping(self) -> Grouped | None:
        """Columns and declaration of the second keys."""
        return None if self.groups is None else (self.keys, self.groups)
