"""`[per_unit]`: a table of one row for each unit, which queries are asked about in place of the rows of the input.

The rows of a unit, those that the job's `where` lets through, become one row, or with `by` one for each declared key that some of them
have. What stands there depends on the rows of this unit alone, so neighbouring tables differ in the rows that one unit makes: at most one
is taken away and at most one put in its place; with `by` at most `max_groups_per_unit` of each, whose keys a random word of the unit and
the key chooses. How many units there are is private, whatever the relation.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import pyarrow as pa
from pydantic import Field, PlainValidator, model_validator

from dpcore.errors import JobError
from dpcore.query.derivations import arrow_type, opened_stage
from dpcore.query.group_fields import PRIVATE, GroupBy, Groups, check_grouping
from dpcore.query.groups import ListedGroups, grouping_of
from dpcore.tables.fields import Finite, Name, Section
from dpcore.tables.inputs import Inputs
from dpcore.tables.mistakes import Mistake, MistakesError
from dpcore.tables.pieces import FileInfo, Piece, slices
from dpcore.tables.plans import Schemas, with_values
from dpcore.tables.rows import Rows, RowsOfFile
from dpcore.tables.sections import DeriveSection, ExpressionText, LookupSection
from dpcore.tables.units.unit_rows import UnitRecipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpcore.query.derivations import Stage
    from dpcore.query.groups import Grouping
    from dpcore.query.query_sections import Grouped
    from dpcore.tables.pieces import Cut
    from dpcore.tables.sections import PrivacySection
    from dpcore.tables.sources import InputFile
    from dpcore.tables.sql.aggregates import Aggregate
    from dpcore.tables.sql.program import Compiler
    from dpcore.tables.units.unit_rows import MadeRows

MAX_COLUMNS = 2**10
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


MadeColumn = Annotated[str | BoundedAggregate, PlainValidator(_check_column)]


class PerUnitSection(Section):
    """`[per_unit]`: what is made of each unit's rows, and what follows it.

    Attributes
    ----------
    columns : dict
        Aggregates by the name of their column. A job writes them as keys of the table itself.
    by, groups : str, list or None
        Second keys, declared as those of groups: a unit has a row for each of its keys.
    lookup, derive, where : as those of a job
        On the rows that are made.
    """

    columns: Annotated[dict[Name, MadeColumn], Field(max_length=MAX_COLUMNS)] = Field(default_factory=dict)
    by: GroupBy | None = None
    groups: Groups | None = None
    lookup: list[LookupSection] = Field(default_factory=list, max_length=2**6)
    derive: list[DeriveSection] = Field(default_factory=list, max_length=2**10)
    where: ExpressionText | None = None

    @model_validator(mode="before")
    @classmethod
    def _keys_are_columns(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        own = {key: each for key, each in value.items() if key in cls.model_fields}
        named = {key: each for key, each in value.items() if key not in cls.model_fields}
        return own | {"columns": {**own.get("columns", {}), **named}} if named else own

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


@dataclass(frozen=True, slots=True)
class UnitTable(Inputs):
    """The rows that are made of a source, as an input: a plan knows their types, and a run makes them.

    Attributes
    ----------
    source : Inputs
        What they are made of.
    recipe : UnitRecipe
        How.
    made : MadeRows or None
        The rows, once a run has made them.
    """

    source: Inputs
    recipe: UnitRecipe = field(repr=False)
    made: MadeRows | None = field(default=None, repr=False)

    @classmethod
    def of(cls, source: Inputs, recipe: UnitRecipe) -> UnitTable:
        """The rows that a recipe makes of a source."""
        return cls("arrow", (Path(f"the rows made of each {recipe.unit!r}"),), {}, source, recipe)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (1,)

    @property
    def origin(self) -> dict[str, Any]:
        return self.source.origin

    def inspect(self, path: InputFile) -> FileInfo:  # noqa: ARG002
        schema = self.recipe.schema
        return FileInfo(tuple(schema.names), schema, None)

    def pieces(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:  # noqa: ARG002
        if self.made is None:
            raise AssertionError("no run has made these rows")
        done = 0
        for batch in self.made:
            end = done + len(batch)
            yield from slices(Piece(batch.select(list(types)), done, end / max(self.made.rows, 1)), cut.rows)
            done = end


def unit_table(
    before: Stage, privacy: PrivacySection, section: PerUnitSection, inputs: Inputs, *, curator: bool, tables: Mapping[str, Inputs] | None
) -> UnitTable:
    """The table that a `[per_unit]` makes of an input, after what a job derives of its rows; no row is read.

    Raises
    ------
    JobError
        If an aggregate is not allowed or does not fit its arguments, or a column is missing or of a type that it does not take.
    """
    grouping = None if section.grouping is None else grouping_of(section.grouping, listed=True)
    keys = () if grouping is None else grouping.names
    with opened_stage(before, (), inputs, tables) as stage:
        made = {name: _aggregate(stage.compiler, ("per_unit", name), column) for name, column in section.columns.items()}
        arguments = [argument for aggregate in made.values() for argument in aggregate.arguments]
        computed = [argument.name for argument in arguments if not argument.is_column]
        named = [*keys, *(argument.name for argument in arguments if argument.is_column)]
        derivation = stage.derivation(named, (), computed)
        nothing = stage.of_nothing(derivation)
        joined = stage.joined
    schemas = Schemas(inputs, privacy.unit)
    derived = {*(section.name for section in before.derive), *joined}
    asked = list(dict.fromkeys([*(name for name in named if name not in derived), *derivation.reads]))
    infos = [info for _, info in schemas.inspected(asked, curator=curator)]
    types = with_values(infos, asked).types
    read = dict.fromkeys(asked, pa.binary()) if types is None else {name: types[name] for name in asked}
    unit_type = schemas.unit_type or pa.binary()
    _check_is_free(privacy.unit, section)
    grouping = None if grouping is None else _fitted(grouping, {**read, **joined, **{name: each.type for name, each in nothing.items()}})
    recipe = UnitRecipe(
        unit=privacy.unit,
        unit_type=unit_type,
        null_is_unit=privacy.null_rows_are_units,
        aggregates=made,
        derivation=derivation,
        second=grouping,
        read_types={**read, privacy.unit: unit_type if types is not None else pa.binary()},
    )
    return UnitTable.of(inputs, replace(recipe, made_types=_made_types(recipe, stage.kinds, joined)))


def _aggregate(compiler: Compiler, place: tuple[str, ...], column: str | BoundedAggregate) -> Aggregate:
    """The aggregate that a key of `[per_unit]` stands for."""
    from dpcore.tables.sql.aggregates import AggregateError, Argument, aggregate_of, bounded, quantile_of
    from dpcore.tables.sql.syntax import Literal

    text = column if isinstance(column, str) else column.text
    found = compiler.parsed(place, text, aggregate=isinstance(column, str))
    try:
        if found.name == "quantile_disc":
            value, level = found.parts
            return quantile_of(Argument(*compiler.argument(place, text, value)), level.text if isinstance(level, Literal) else "")
        arguments = tuple(Argument(*compiler.argument(place, text, part)) for part in found.parts)
        if isinstance(column, str):
            return aggregate_of(found, arguments)
        return bounded(arguments[0], column.lower, column.upper, mean=column.mean is not None)
    except AggregateError as error:
        raise MistakesError(Mistake(place, str(error), text, "expression")) from None


def _check_is_free(unit: str, section: PerUnitSection) -> None:
    if unit in section.columns or unit in section.keys:
        raise JobError(f"per_unit.{unit}: the rows that are made have the unit in a column of this name; give this one another")


def _fitted(grouping: Grouping, types: Mapping[str, pa.DataType]) -> Grouping:
    """Second keys for the types of their columns: listed values, which the rows that are made have in place of what was read."""
    for name, cells in grouping.columns:
        if not isinstance(cells, ListedGroups):
            raise JobError(f"per_unit.groups: {name!r} has bins or dates; derive a column of labels from it, and list those")
        if name in types and not cells.accepts(types[name]):
            raise JobError(f"per_unit.by: column {name!r} has type {types[name]}, but groups takes {cells.wanted}")
    return grouping.for_type(types.get)


def _made_types(recipe: UnitRecipe, kinds: Mapping[str, str | None], joined: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The types of the aggregates, from a table without rows."""
    from dpcore.tables.sql.database import opened

    named = {*recipe.read_types, *recipe.derivation.reads, recipe.unit}
    if recipe.second is not None:
        named |= {*recipe.second.names}
    named -= set() if recipe.derivation.program is None else recipe.derivation.program.types.keys()
    nothing = {
        name: recipe.read_types.get(name) or joined.get(name) or arrow_type(kinds.get(name) or "NULL")
        for name in named
        if name not in joined
    }
    empty = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in nothing.values()], list(nothing))
    rows = Rows(empty, (RowsOfFile(0, Path("nothing"), 0),), 0, 0.0)
    with recipe.derivation.opened() as deriving, opened() as database:
        encoded = recipe.encoded(rows, deriving)
        database.register("rows", encoded)
        found = database.sql(recipe.query).to_arrow_table()
    batch = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in found.schema.types], list(map(str, range(found.num_columns))))
    made = recipe.finished(batch)
    return {name: made.schema.field(name).type for name in recipe.aggregates}
