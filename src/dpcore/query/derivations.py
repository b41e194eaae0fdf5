"""What a release job derives from its input: `[[lookup]]`, `[[derive]]` and `where`, checked against the input's schemas."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore._disk.signals import Deferred
from dpcore.errors import JobError
from dpcore.query.encoders import Categorical, OfNumbers
from dpcore.query.groups import ListedGroups
from dpcore.tables.mistakes import dotted_path
from dpcore.tables.sql.derivation import Derivation, Derivations
from dpcore.tables.types.categories import value_type
from dpcore.tables.types.timed import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dpcore.query.encoders import Encoder
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.mistakes import Keys
    from dpcore.tables.sections import DeriveSection, LookupSection
    from dpcore.tables.sql.lookups import LookUp
    from dpcore.tables.sql.program import Compiler
    from dpcore.tables.types.keys import KeyColumn
    from dpcore.tables.units.unit_joins import UnitJoin


class Stage(Protocol):
    """What rows are looked up, derived and chosen by: a job, or its `[per_unit]`."""

    @property
    def lookup(self) -> list[LookupSection]:
        """The `[[lookup]]` entries."""

    @property
    def derive(self) -> list[DeriveSection]:
        """The `[[derive]]` entries."""

    @property
    def where(self) -> str | None:
        """The condition."""


def derivations_of(
    stage: Stage,
    place: Keys,
    conditions: tuple[str | None, ...],
    inputs: Inputs,
    read: Iterable[str],
    chosen_by: Iterable[str],
    tables: Mapping[str, Inputs] | None = None,
    joins: Sequence[UnitJoin] = (),
) -> Derivations | None:
    """Check the expressions and look-ups of a job on the rows that its queries are asked about.

    Parameters
    ----------
    stage : Stage
        The job, or its `[per_unit]`.
    place : tuple
        Where it is in the job.
    conditions : tuple of (str or None)
        The condition of each query.
    inputs : Inputs
        The files, whose schemas are read; or the rows that are made of units.
    read : iterable of str
        The columns that queries read.
    chosen_by : iterable of str
        Those of them that the choice of rows of each unit needs.
    tables : mapping, optional
        Public tables that are no files, by the paths that the job gives them.
    joins : sequence of UnitJoin, default ()
        Private tables whose columns are joined before.

    Returns
    -------
    Derivations or None
        None if nothing is derived.

    Raises
    ------
    JobError
        If an expression is not allowed, or a look-up cannot be joined.
    """
    if stage.where is None and not (joins or stage.lookup or stage.derive) and not any(conditions):
        return None
    with opened_stage(stage, place, inputs, tables, joins) as compiling:
        compiler = compiling.compiler
        for position, text in enumerate(conditions):
            if text is not None:
                compiler.condition(("query", position, "where"), text)
        own = [text for text in conditions if text is not None]
        choosing = compiling.derivation(chosen_by, ())
        adding = compiling.derivation(read, own)
        types = {**compiling.joined, **compiling.types_of(adding)}
    return Derivations(
        choosing=choosing,
        adding=adding,
        types={name: kind for name, kind in types.items() if name in set(read)},
        conditions=conditions,
    )


@dataclass(frozen=True, slots=True)
class OpenedStage:
    """A stage whose look-ups and expressions are checked.

    Attributes
    ----------
    stage : Stage
        The job, or its `[per_unit]`.
    compiler : Compiler
        Knows its columns.
    kinds : dict
        Types of the columns of its rows, as expressions have them.
    joins : sequence of UnitJoin
        Private tables that are joined to its rows.
    lookups : list of LookUp
        Its public tables, which are joined after them.
    """

    stage: Stage
    compiler: Compiler
    kinds: dict[str, str | None]
    joins: Sequence[UnitJoin]
    lookups: list[LookUp]

    @property
    def joined(self) -> dict[str, pa.DataType]:
        """Types of the columns of other tables."""
        return _types_of([*self.joins, *self.lookups])

    def derivation(self, read: Iterable[str], conditions: Iterable[str], more: Iterable[str] = ()) -> Derivation:
        """What has to be derived for columns that are read, for `more` columns of the compiler, and for further conditions."""
        names = {section.name for section in self.stage.derive}
        wheres = [*([self.stage.where] if self.stage.where is not None else []), *conditions]
        wanted = [*(name for name in dict.fromkeys(read) if name in names), *more]
        program = self.compiler.program(wanted, {text: text for text in wheres}) if wanted or wheres else None
        needed = {*read, *(() if program is None else program.reads)}
        lookups = tuple(each for each in self.lookups if needed & each.columns.keys())
        needed |= {each.key for each in lookups}
        joins = tuple(each for each in self.joins if each.is_inner or needed & each.columns.keys())
        return Derivation(joins, lookups, program, self.stage.where)

    def types_of(self, derivation: Derivation) -> dict[str, pa.DataType]:
        """Types of the columns that are computed."""
        is_computed = derivation.program is not None and derivation.program.types
        return {name: each.type for name, each in self.of_nothing(derivation).items()} if is_computed else {}

    def of_nothing(self, derivation: Derivation) -> dict[str, pa.Array]:
        """What is computed of no row."""
        program, joined = derivation.program, self.joined
        if program is None:
            return {}
        from dpcore.tables.sql.evaluation import Evaluation

        nothing = {name: joined[name] if name in joined else arrow_type(self.kinds[name] or "NULL") for name in program.reads}
        empty = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in nothing.values()], list(nothing))
        with Evaluation(program) as evaluation:
            return evaluation.of(empty).columns


@contextlib.contextmanager
def opened_stage(
    stage: Stage, place: Keys, inputs: Inputs, tables: Mapping[str, Inputs] | None, joins: Sequence[UnitJoin] = ()
) -> Iterator[OpenedStage]:
    """Check the look-ups, the derived columns and the condition of a stage at a place of the job, on some input and what is joined to it.

    Raises
    ------
    JobError
        If an expression is not allowed, or a look-up cannot be joined.
    """
    with Deferred():  # This loads a database, which most jobs do without.
        from dpcore.tables.sql.arrow_values import database_type
        from dpcore.tables.sql.program import Compiler
    kinds = kinds_of(inputs)
    kinds |= {name: database_type(each) for name, each in _types_of(joins).items()}
    lookups = _looked_up(stage, place, kinds, tables or {})
    kinds |= {name: database_type(each) for name, each in _types_of(lookups).items()}
    with Compiler(kinds) as compiler:
        for position, section in enumerate(stage.derive):
            compiler.derive((*place, "derive", position), section.name, section.sql)
        if stage.where is not None:
            compiler.condition((*place, "where"), stage.where)
        yield OpenedStage(stage, compiler, kinds, joins, lookups)


def _types_of(tables: Iterable[UnitJoin | LookUp]) -> dict[str, pa.DataType]:
    """Types of the columns that are joined."""
    return {name: column.type for table in tables for name, column in table.columns.items()}


def kinds_of(inputs: Inputs) -> dict[str, str | None]:
    """Type of each column in an expression; None where none can use it, or files differ."""
    from dpcore.tables.sql.arrow_values import database_type

    kinds: dict[str, str | None] = {}
    for path in inputs.paths:
        info = inputs.inspect(path)
        found = {name: database_type(None if info.types is None else info.types[name]) for name in info.names}
        for name, kind in found.items():
            before = kinds.setdefault(name, kind)
            if before == "NULL":
                kinds[name] = kind
            elif kind not in {before, "NULL"}:
                kinds[name] = None
    return kinds


def _looked_up(stage: Stage, place: Keys, kinds: dict[str, str | None], tables: Mapping[str, Inputs]) -> list[LookUp]:
    """The public tables of a stage."""
    from dpcore.tables.sql.lookups import look_up

    found: list[LookUp] = []
    taken = set(kinds)
    for position, section in enumerate(stage.lookup):
        where = dotted_path((*place, "lookup", position))
        for name in section.columns:
            if name in taken:
                raise JobError(f"{where}.columns: there is a column {name!r} already; derive one with another name, or leave it out")
            taken.add(name)
        found.append(look_up(where, section.path, section.key, list(section.columns), kinds, tables.get(section.path)))
    return found


def arrow_type(kind: str) -> pa.DataType:
    """The type of Arrow in which expressions have columns of a type of the database."""
    from dpcore.tables.sql.arrow_values import ARROW_TYPES

    if kind.startswith("DECIMAL"):
        return pa.decimal128(*map(int, kind[len("DECIMAL(") : -1].split(",")))
    return ARROW_TYPES.get(kind, pa.null())


SORTS = (
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "duration"),
    (pa.types.is_timestamp, "timestamp"),
)


ONE_COLUMN = re.compile(r'\s*(?P<function>\w+)\s*\(\s*(?P<column>\w+|"[^"]+")\s*\)\s*')
"""An aggregate of one column."""


def mend(name: str, dtype: pa.DataType, cells: Encoder | KeyColumn, made: object = None) -> str:
    """Advice for the end of a message about a column that has a type other than the cells take; "" if there is none.

    `made` is the expression that makes the column of the rows of a unit, if one does.
    """
    dtype = value_type(dtype)
    is_text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)
    if isinstance(cells, OfNumbers):
        sort = _sort(dtype)
        if sort is not None:
            return f"; the query's bounds, edges or grid must be of its sort, like {EXAMPLES[sort]}"
        if is_text and isinstance(made, str):
            called = ONE_COLUMN.fullmatch(made)
            example = "mode(CAST(x AS DOUBLE))" if called is None else f"{called['function']}(CAST({called['column']} AS DOUBLE))"
            return f"; make numbers of the text in the expression per unit: {name} = {json.dumps(example, ensure_ascii=False)}"
        return f"; derive a column of numbers from the text, as in CAST({_quoted(name)} AS DOUBLE)" if is_text else ""
    if isinstance(cells, Categorical | ListedGroups) and not cells.accepts(pa.string()) and is_text:
        return "; write the values as strings, or derive a column of another type from the text"
    if isinstance(cells, Categorical | ListedGroups) and pa.types.is_boolean(dtype):
        return "; write the values as [false, true]"
    if isinstance(cells, Categorical | ListedGroups) and pa.types.is_integer(dtype):
        return "; write the values as integers, without quotes"
    return ""


def _sort(dtype: pa.DataType) -> str | None:
    """The sort of bounds for a column of dates or times; None of others."""
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return "instant"
    return next((sort for is_kind, sort in SORTS if is_kind(dtype)), None)


def _quoted(name: str) -> str:
    """A column's name in an expression."""
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
