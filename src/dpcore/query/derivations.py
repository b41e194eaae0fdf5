"""What a release job derives from its input: `[[lookup]]`, `[[derive]]` and `where`, checked against the input's schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore._disk.signals import Deferred
from dpcore.errors import JobError
from dpcore.query.encoders import Categorical, OfNumbers
from dpcore.query.groups import ListedGroups
from dpcore.tables.sql.arrow_values import ARROW_TYPES, database_type
from dpcore.tables.sql.derivation import Derivation, Derivations
from dpcore.tables.types.categories import value_type
from dpcore.tables.types.timed import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpcore.query.encoders import Encoder
    from dpcore.query.request import ReleaseJob
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.sql.lookups import LookUp
    from dpcore.tables.sql.program import Compiler, Program
    from dpcore.tables.types.keys import KeyColumn


def derivations_of(
    job: ReleaseJob, inputs: Inputs, read: Iterable[str], chosen_by: Iterable[str], tables: Mapping[str, Inputs] | None = None
) -> Derivations | None:
    """Check all expressions and look-ups of a job.

    Parameters
    ----------
    job : ReleaseJob
        The job.
    inputs : Inputs
        Its files, whose schemas are read.
    read : iterable of str
        The columns that queries read.
    chosen_by : iterable of str
        Those of them that the choice of rows of each unit needs.
    tables : mapping, optional
        Public tables that are no files, by the paths that the job gives them.

    Returns
    -------
    Derivations or None
        None if the job derives nothing.

    Raises
    ------
    JobError
        If an expression is not allowed, or a look-up cannot be joined.
    """
    if not job.derives:
        return None
    with Deferred():  # This loads a database, which most jobs do without.
        from dpcore.tables.sql.program import Compiler
    kinds = _kinds(inputs)
    lookups = _looked_up(job, kinds, tables or {})
    joined = {name: column.type for lookup in lookups for name, column in lookup.columns.items()}
    conditions = tuple(query.where for query in job.query)
    with Compiler({**kinds, **{name: database_type(kind) for name, kind in joined.items()}}) as compiler:
        for position, section in enumerate(job.derive):
            compiler.derive(("derive", position), section.name, section.sql)
        places = [("where",), *(("query", position, "where") for position in range(len(conditions)))]
        for place, text in zip(places, (job.where, *conditions), strict=True):
            if text is not None:
                compiler.condition(place, text)
        names = {section.name for section in job.derive}
        wheres = [job.where] if job.where is not None else []
        own = [text for text in conditions if text is not None]
        choosing = _program(compiler, [name for name in dict.fromkeys(chosen_by) if name in names], wheres)
        wanted = [name for name in dict.fromkeys(read) if name in names]
        adding = _program(compiler, wanted, [*wheres, *own])
    types = {**joined, **_types(adding, kinds, joined)}
    return Derivations(
        choosing=Derivation(_needed(lookups, choosing, chosen_by), choosing, job.where),
        adding=Derivation(_needed(lookups, adding, read), adding, job.where),
        types={name: kind for name, kind in types.items() if name in set(read)},
        conditions=conditions,
    )


def _kinds(inputs: Inputs) -> dict[str, str | None]:
    """Type of each column in an expression; None where none can use it, or files differ."""
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


def _looked_up(job: ReleaseJob, kinds: dict[str, str | None], tables: Mapping[str, Inputs]) -> list[LookUp]:
    """The public tables of a job."""
    from dpcore.tables.sql.lookups import look_up

    found: list[LookUp] = []
    taken = set(kinds)
    for position, section in enumerate(job.lookup):
        place = f"lookup[{position}]"
        for name in section.columns:
            if name in taken:
                raise JobError(f"{place}.columns: there is a column {name!r} already; derive one with another name, or leave it out")
            taken.add(name)
        found.append(look_up(place, section.path, section.key, list(section.columns), kinds, tables.get(section.path)))
    return found


def _program(compiler: Compiler, names: list[str], conditions: list[str]) -> Program | None:
    """A program; None if there is nothing to compute."""
    return compiler.program(names, {text: text for text in conditions}) if names or conditions else None


def _needed(lookups: list[LookUp], program: Program | None, read: Iterable[str]) -> tuple[LookUp, ...]:
    """The look-ups of which a column is needed."""
    needed = {*read, *(() if program is None else program.reads)}
    return tuple(lookup for lookup in lookups if needed & set(lookup.columns))


def _types(program: Program | None, kinds: dict[str, str | None], joined: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The types of derived columns, as they come from the database."""
    if program is None:
        return {}
    from dpcore.tables.sql.evaluation import Evaluation

    nothing = {name: joined[name] if name in joined else _arrow_type(kinds[name] or "NULL") for name in program.reads}
    empty = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in nothing.values()], list(nothing))
    with Evaluation(program) as evaluation:
        found = evaluation.of(empty).columns
    return {name: found[name].type for name in program.types}


def _arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("DECIMAL"):
        return pa.decimal128(*map(int, kind[len("DECIMAL(") : -1].split(",")))
    return ARROW_TYPES.get(kind, pa.null())


SORTS = (
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "duration"),
    (pa.types.is_timestamp, "timestamp"),
)


def mend(name: str, dtype: pa.DataType, cells: Encoder | KeyColumn) -> str:
    """Advice for the end of a message about a column that has a type other than the cells take; "" if there is none."""
    dtype = value_type(dtype)
    is_text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)
    if isinstance(cells, OfNumbers):
        sort = _sort(dtype)
        if sort is not None:
            return f"; the query's bounds, edges or grid must be of its sort, like {EXAMPLES[sort]}"
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
