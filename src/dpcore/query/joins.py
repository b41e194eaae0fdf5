"""`[[join]]`: other private tables of the same units, checked against their schemas and joined on the unit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.query.derivations import kinds_of, opened_stage
from dpcore.tables.checks import check_names, type_of_unit
from dpcore.tables.inputs import Inputs
from dpcore.tables.mistakes import dotted_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpcore.query.request import ReleaseJob
    from dpcore.query.unit_sections import JoinSection
    from dpcore.tables.mistakes import Keys
    from dpcore.tables.sql.derivation import Derivation, Derivations
    from dpcore.tables.units.unit_joins import UnitJoin
    from dpcore.tables.units.unit_rows import UnitRecipe


def inputs_of(job: ReleaseJob, given: Inputs | None, tables: Mapping[str, Inputs] | None) -> tuple[Inputs, dict[str, Inputs]]:
    """What a job reads: its input, and by their paths the tables that it joins; what is not given is found among the files."""
    if given is not None and type(given) is not Inputs and all(section.path in (tables or {}) for section in job.joined):
        return given, dict(tables or {})
    from dpcore.query.found_files import found_inputs

    return found_inputs(job, (), given, tables)


@dataclass(frozen=True, slots=True)
class JoinedTo:
    """What tables are joined to.

    Attributes
    ----------
    inputs : Inputs
        The rows.
    unit : str
        The column that names the unit.
    of_made_rows : bool
        Whether the rows are made of units.
    """

    inputs: Inputs
    unit: str
    of_made_rows: bool

    def unit_type(self, *, curator: bool) -> pa.DataType:
        """Type of the units; raises `JobError` if there is no such column."""
        found: pa.DataType | None = None
        for path in self.inputs.paths:
            info = self.inputs.inspect(path)
            check_names(info, path, [self.unit], curator=curator)
            found = type_of_unit(info, path, self.unit, found)
        return pa.binary() if found is None else found


def joins_of(
    sections: Sequence[JoinSection], place: Keys, to: JoinedTo, *, curator: bool, tables: Mapping[str, Inputs] | None
) -> list[UnitJoin]:
    """Check joins on the schemas of their tables.

    Parameters
    ----------
    sections : sequence of JoinSection
        The joins.
    place : tuple
        Where they are in the job.
    to : JoinedTo
        What they are joined to.
    curator : bool
        Whether messages may list columns of a CSV.
    tables : mapping or None
        All tables that they join, by their paths, and public tables that are no files.

    Raises
    ------
    JobError
        If a column is missing, there already or of a type that cannot be joined, or units are of different types.
    """
    if not sections:
        return []
    unit_type, taken, found = to.unit_type(curator=curator), {*kinds_of(to.inputs)}, []
    for position, section in enumerate(sections):
        keys = (*place, "join", position)
        made = _made(section, keys, section.unit or to.unit, curator=curator, tables=tables)
        found.append(replace(made, key=to.unit, unit_type=unit_type, of_made_rows=to.of_made_rows))
        for name in made.columns:
            if name in taken:
                raise JobError(f"{dotted_path(keys)}: there is a column {name!r} already; give the joined one another name")
            taken.add(name)
        other = made.recipe.unit_type
        if _sort(unit_type) != _sort(other):
            raise JobError(
                f"{dotted_path(keys)}.unit = {made.recipe.unit!r} has type {_named(other)}, and {to.unit!r}, to which it is joined, has "
                f"{_named(unit_type)}; write both tables with one type"
            )
    return found


def _made(section: JoinSection, keys: Keys, unit: str, *, curator: bool, tables: Mapping[str, Inputs] | None) -> UnitJoin:
    """The other table of a join, not yet joined to anything."""
    from dpcore.query.per_unit import unit_table
    from dpcore.tables.sql.arrow_values import database_type
    from dpcore.tables.units.unit_joins import UnitJoin, held

    inputs = (tables or {})[section.path]
    table = unit_table(section, section.per_unit, inputs, unit, keys, null_is_unit=False, curator=curator, tables=tables)
    own = section.per_unit
    names = [*own.columns, *(each.name for each in own.derive), *(name for each in own.lookup for name in each.columns)]
    with opened_stage(own, (*keys, "per_unit"), table, tables) as stage:
        after = stage.derivation(names, ())
        types = {**table.recipe.made_types, **stage.joined, **stage.types_of(after)}
    columns = {}
    for name in names:
        if database_type(types[name]) is None:
            raise JobError(f"{dotted_path(keys)}: column {name!r} has type {types[name]}, which cannot be joined")
        columns[name] = held(pa.array([], types[name]))
    return UnitJoin("", pa.null(), False, section.how == "inner", inputs, table.recipe, after, columns)  # noqa: FBT003


def _sort(dtype: pa.DataType) -> object:
    """What types of units have in common that can be equal."""
    if pa.types.is_integer(dtype):
        return dtype if dtype == pa.uint64() else "integers"
    return "text" if dtype in {pa.string(), pa.large_string(), pa.binary()} else dtype


def _named(dtype: pa.DataType) -> str:
    return "text" if dtype == pa.binary() else str(dtype)


def recipe_of(inputs: Inputs) -> UnitRecipe | None:
    """How the rows of an input are made; None of all but a `UnitTable`, whose module is loaded where there is one."""
    recipe: UnitRecipe | None = getattr(inputs, "recipe", None)
    return recipe


def joined_in(recipe: UnitRecipe | None, derivations: Derivations | None) -> list[UnitJoin]:
    """The tables that are joined in passes over rows, each once."""
    found = {id(join): join for derivation in _derivations(recipe, derivations) for join in derivation.joins}
    if not found:
        return []
    from dpcore.tables.units.unit_joins import UnitJoin

    return [join for join in found.values() if isinstance(join, UnitJoin)]


def _derivations(recipe: UnitRecipe | None, derivations: Derivations | None) -> list[Derivation]:
    own = [] if derivations is None else [derivations.choosing, derivations.adding]
    return own if recipe is None else [recipe.derivation, *own]


def with_joined(
    recipe: UnitRecipe | None, derivations: Derivations | None, change: Callable[[UnitJoin], UnitJoin]
) -> tuple[UnitRecipe | None, Derivations | None]:
    """The same with other tables, each of which is changed once."""
    changed = {id(join): change(join) for join in joined_in(recipe, derivations)}

    def of(derivation: Derivation) -> Derivation:
        return replace(derivation, joins=tuple(changed[id(join)] for join in derivation.joins))

    if derivations is not None:
        derivations = replace(derivations, choosing=of(derivations.choosing), adding=of(derivations.adding))
    return None if recipe is None else replace(recipe, derivation=of(recipe.derivation)), derivations
