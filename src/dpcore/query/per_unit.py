"""`[per_unit]`: a table of one row for each unit, which queries are asked about in place of the rows of the input.

The rows of a unit, those that the job's `where` lets through, become one row, or with `by` one for each declared key that some of them
have. What stands there depends on the rows of this unit alone, so neighbouring tables differ in the rows that one unit makes: at most one
is taken away and at most one put in its place; with `by` at most `max_groups_per_unit` of each, whose keys a random word of the unit and
the key chooses. How many rows are made is private, whatever the relation.
"""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.query.derivations import arrow_type, opened_stage
from dpcore.query.groups import ListedGroups, grouping_of
from dpcore.tables.inputs import Inputs
from dpcore.tables.mistakes import Mistake, MistakesError, dotted_path
from dpcore.tables.pieces import FileInfo, Piece, slices
from dpcore.tables.plans import Schemas, with_values
from dpcore.tables.rows import rows_of_batch
from dpcore.tables.units.unit_rows import UnitRecipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dpcore.query.derivations import Stage
    from dpcore.query.groups import Grouping
    from dpcore.query.unit_sections import BoundedAggregate, MadeSection
    from dpcore.tables.mistakes import Keys
    from dpcore.tables.pieces import Cut
    from dpcore.tables.sources import InputFile
    from dpcore.tables.sql.aggregates import Aggregate
    from dpcore.tables.sql.program import Compiler
    from dpcore.tables.units.unit_joins import UnitJoin
    from dpcore.tables.units.unit_rows import MadeRows


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
    before: Stage,
    section: MadeSection,
    inputs: Inputs,
    unit: str,
    place: Keys = (),
    *,
    null_is_unit: bool,
    curator: bool,
    tables: Mapping[str, Inputs] | None,
    joins: Sequence[UnitJoin] = (),
) -> UnitTable:
    """The table that a `[per_unit]` makes of an input, after what a job derives of its rows; no row is read.

    Parameters
    ----------
    before : Stage
        What has the `[per_unit]`: a job, or one of its joins.
    section : MadeSection
        The `[per_unit]`.
    inputs : Inputs
        What it is made of.
    unit : str
        The column that names the unit.
    place : tuple, default ()
        Where `before` is in the job.
    null_is_unit : bool
        As in the recipe.
    curator : bool
        Whether messages may list columns of a CSV.
    tables : mapping or None
        Public tables that are no files, by the paths that the job gives them.
    joins : sequence of UnitJoin, default ()
        What is joined to the rows of the input.

    Raises
    ------
    JobError
        If an aggregate is not allowed or does not fit its arguments, or a column is missing or of a type that it does not take.
    """
    grouping = None if section.grouping is None else grouping_of(section.grouping, listed=True)
    keys, own = () if grouping is None else grouping.names, (*place, "per_unit")
    with opened_stage(before, place, inputs, tables, joins) as stage:
        made = {name: _aggregate(stage.compiler, (*own, name), column) for name, column in section.columns.items()}
        arguments = [argument for aggregate in made.values() for argument in aggregate.arguments]
        computed = [argument.name for argument in arguments if not argument.is_column]
        named = [*keys, *(argument.name for argument in arguments if argument.is_column)]
        derivation = stage.derivation(named, (), computed)
        nothing = stage.of_nothing(derivation)
        joined = stage.joined
    schemas = Schemas(inputs, unit)
    derived = {*(section.name for section in before.derive), *joined}
    asked = list(dict.fromkeys([*(name for name in named if name not in derived), *derivation.reads]))
    infos = [info for _, info in schemas.inspected(asked, curator=curator)]
    types = with_values(infos, asked).types
    typed = {} if types is None else {name: types[name] for name in asked}
    read = typed if types is not None else dict.fromkeys(asked, pa.binary())
    unit_type = schemas.unit_type or pa.binary()
    if unit in section.columns or unit in section.keys:
        raise JobError(f"{dotted_path((*own, unit))}: the rows that are made have the unit in a column of this name; give this one another")
    if grouping is not None:
        grouping = _fitted(grouping, dotted_path(own), {**typed, **joined, **{name: each.type for name, each in nothing.items()}})
    recipe = UnitRecipe(
        unit=unit,
        unit_type=unit_type,
        null_is_unit=null_is_unit,
        aggregates=made,
        derivation=derivation,
        second=grouping,
        read_types={**read, unit: unit_type},
    )
    return UnitTable.of(inputs, replace(recipe, made_types=_made_types(recipe, stage.kinds, joined)))


def _aggregate(compiler: Compiler, place: Keys, column: str | BoundedAggregate) -> Aggregate:
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


def _fitted(grouping: Grouping, place: str, types: Mapping[str, pa.DataType]) -> Grouping:
    """Second keys for the types of their columns: listed values, which the rows that are made have in place of what was read."""
    for name, cells in grouping.columns:
        if not isinstance(cells, ListedGroups):
            raise JobError(f"{place}.groups: {name!r} has bins or dates; derive a column of labels from it, and list those")
        if name in types and not cells.accepts(types[name]):
            raise JobError(f"{place}.by: column {name!r} has type {types[name]}, but groups takes {cells.wanted}")
    return grouping.for_type(types.get)


def _made_types(recipe: UnitRecipe, kinds: Mapping[str, str | None], joined: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The types of the aggregates, from a table without rows."""
    from dpcore.tables.sql.database import connected

    named = {*recipe.read_types, *recipe.derivation.reads, recipe.unit}
    if recipe.second is not None:
        named |= {*recipe.second.names}
    named -= set() if recipe.derivation.program is None else recipe.derivation.program.types.keys()
    nothing = {name: recipe.read_types.get(name) or arrow_type(kinds.get(name) or "NULL") for name in named if name not in joined}
    rows = rows_of_batch(pa.RecordBatch.from_arrays([pa.array([], kind) for kind in nothing.values()], list(nothing)))
    with recipe.derivation.opened() as deriving, connected() as database:
        encoded = recipe.encoded(rows, deriving)
        database.register("rows", encoded)
        found = database.sql(recipe.query).to_arrow_table()
    batch = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in found.schema.types], list(map(str, range(found.num_columns))))
    made = recipe.finished(batch)
    return {name: made.schema.field(name).type for name in recipe.aggregates}
