"""Made-up tables for rehearsals: rows drawn from what a job declares, and from the types of its input's schema; no row of it is read.

A column with declared categories or groups holds these, evenly; one with bounds, edges, a grid or days holds values evenly between their
ends. Columns that nothing is declared for hold what their type allows. So such a table shows noise, coverage and lost rows, and nothing of
how the data are distributed: values never lie beyond the bounds, and clamping costs nothing.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.errors import DpcoreError, JobError
from dpcore.query.encoders import InRange
from dpcore.query.grids import WIDEST
from dpcore.query.groups import DateGroups, Grouping, ListedGroups
from dpcore.query.plan import read_of
from dpcore.query.rehearsal_columns import like
from dpcore.query.unit_sections import BoundedAggregate
from dpcore.tables.discovery import discover
from dpcore.tables.pieces import Cut
from dpcore.tables.types.timed import Timed, sort_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.query.request import ReleaseJob
    from dpcore.query.unit_sections import JoinSection
    from dpcore.tables.sections import InputSection

    Range = tuple[float, float]

NAME = re.compile(r'\s*"?(\w+)"?\s*')
OF_COLUMN = re.compile(r'\s*(?:min|max|median|mode)\s*\(\s*"?(\w+)"?\s*\)\s*', re.IGNORECASE)
"""An aggregate whose result lies between the values of its column."""
WORDS = ("a", "b", "c", "d", "e")
"""Text of columns that nothing is declared for."""
FIRST, DAYS = dt.date(2024, 1, 1), 366
"""The first of the days of such columns, and how many there are."""
SEED = 1
PIECE = 1 << 16
MICROSECONDS = {
    "timestamp": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "time": pa.time64("us"),
    "duration": pa.duration("us"),
}


class Declared:
    """What a job declares of columns.

    Parameters
    ----------
    job : ReleaseJob
        The job.

    Attributes
    ----------
    ranges : dict
        Ends of numbers, dates and times, by column.
    listed : dict
        Values, by column.
    together : list of dict
        Columns whose values belong together, each with as many.
    """

    def __init__(self, job: ReleaseJob) -> None:
        self.ranges: dict[str, Range] = {}
        self.listed: dict[str, list[Any]] = {}
        self.together: list[dict[str, list[Any]]] = []
        self._conditions: dict[str, Range] = {}
        for position, query in enumerate(job.query):
            read = read_of(position, query)
            for name, cells in read.columns():
                self._note(name, cells)
            groups = read.groups
            if (
                isinstance(groups, Grouping)
                and len(groups.columns) > 1
                and all(isinstance(each, ListedGroups) for _, each in groups.columns)
            ):
                self.together.append(dict(zip(groups.names, groups.keys(), strict=True)))
        for name, (low, high) in self._conditions.items():
            if name not in self.ranges:  # so that some rows fulfil the condition, and some do not
                self._widen(name, like(low, low - (high - low)), like(high, high + (high - low)))
        for made in [*([] if job.per_unit is None else [job.per_unit]), *(section.per_unit for section in job.joined)]:
            for name, aggregate in made.columns.items():
                self._note_source(name, aggregate)
        for section in job.lookup:
            if section.key not in self.listed:
                self.listed[section.key] = keys_of(section.path, section.key)

    def _note(self, name: str, cells: Any) -> None:
        cells = getattr(cells, "reals", None) or cells
        if isinstance(cells, DateGroups):
            ends: Any = (Timed.of("date", _day(cells.first)), Timed.of("date", _day(cells.last)))
        elif hasattr(cells, "categories"):
            known = self.listed.setdefault(name, [])
            known += [value for value in cells.categories.listed() if value not in set(known)]
            return
        elif isinstance(cells, InRange):
            self._conditions[name] = cells.lower, cells.upper
            return
        else:
            ends = getattr(cells, "bounds", getattr(cells, "edges", None))
        if ends is not None and max(map(abs, ends)) < WIDEST[1]:  # bounds that are found have the widest
            self._widen(name, ends[0], ends[-1])

    def _widen(self, name: str, low: float, high: float) -> None:
        known = self.ranges.get(name, (low, high))
        self.ranges[name] = min(known[0], low), max(known[1], high)

    def _note_source(self, name: str, aggregate: Any) -> None:
        """What is declared of a made column is taken for the column that it is made of."""
        if isinstance(aggregate, BoundedAggregate):
            source = NAME.fullmatch(aggregate.text)
            if source is not None:
                self._widen(source[1], aggregate.lower, aggregate.upper)
            return
        source = OF_COLUMN.fullmatch(aggregate)
        if source is not None and name in self.ranges:
            self._widen(source[1], *self.ranges[name])
        if source is not None and name in self.listed:
            self.listed.setdefault(source[1], self.listed[name])


def made_up_table(job: ReleaseJob, rows: int, rows_per_unit: int, joined: str | None = None) -> pa.Table:
    """Make a table for a job, in the place of its input or of one that it joins; units have the same names in both.

    Parameters
    ----------
    job : ReleaseJob
        Its input, if it is there, says names and types of columns; only the schema is read.
    rows : int
        How many rows.
    rows_per_unit : int
        Rows of each unit, but for the last one.
    joined : str, optional
        The path of a table that the job joins.

    Raises
    ------
    JobError
        If no such table is joined, or the table says no types, and the job needs columns that it declares nothing of.
    """
    section = None if joined is None else _joined(job, joined)
    declared, types = Declared(job), types_of(job.input if section is None else section)
    made = _made_names(job)
    if types is None:
        if section is not None:
            raise JobError(f"--join {joined!r} has no schema with types that could be read, and only it says the types of its columns")
        if job.where is not None or job.derive or job.per_unit is not None or any(query.where for query in job.query):
            raise JobError(
                f"input.path = {job.input.path!r} has no schema with types that could be read, and only it says the types of the columns "
                "in SQL (where, derive, per_unit); name a .parquet or .arrow file of the same columns with --set input.path=PATH. Without "
                "one, invent a CSV with these columns yourself, which dpcore rehearse takes with --on"
            )
        types = {name: None for name in (*declared.ranges, *declared.listed) if name not in made}
    rng = np.random.default_rng(SEED)  # noqa: TID251  # made-up values, which protect no one
    unit = job.privacy.unit if section is None else section.unit or job.privacy.unit
    columns: dict[str, pa.Array] = {}
    for group in declared.together:
        places = rng.integers(0, len(next(iter(group.values()))), rows)
        columns |= {
            name: _chosen(values, places, types[name])
            for name, values in group.items()
            if name in types and name not in columns and name != unit
        }
    for name, dtype in types.items():
        if name not in columns and name != unit:
            columns[name] = _column(rng, rows, declared, name, dtype)
    if unit != "row":
        columns[unit] = _units(rows, rows_per_unit, types.get(unit))
    return pa.table({name: columns[name] for name in dict.fromkeys([*types, *columns])})


def _joined(job: ReleaseJob, path: str) -> JoinSection:
    """The join of this path."""
    paths = [section.path for section in job.joined]
    if path not in paths:
        raise JobError(f"--join {path!r}: the job joins {', '.join(map(repr, paths)) or 'no table'}")
    return job.joined[paths.index(path)]


def types_of(section: InputSection | JoinSection) -> dict[str, Any] | None:
    """The types of the columns of a table of the job, if it is there and its format has types."""
    try:
        inputs = discover(section.path, section.format)
        return inputs.inspect(inputs.paths[0]).types
    except DpcoreError:
        return None


def keys_of(path: str, key: str) -> list[Any]:
    """The keys of a public table that is looked up."""
    inputs = discover(path, None, "lookup.path")
    found: dict[Any, None] = {}
    for file in inputs.paths:
        types = inputs.inspect(file).types
        dtype = pa.binary() if types is None else types.get(key)
        if dtype is None:
            raise JobError(f"lookup.path = {path!r}: there is no column {key!r}, which is the key")
        for piece in inputs.pieces(file, {key: dtype}, Cut(PIECE, use_threads=False)):
            values = piece.batch.column(key)
            found |= dict.fromkeys((values.cast(pa.string()) if types is None else values).drop_null().to_pylist())
    return list(found)


def _made_names(job: ReleaseJob) -> set[str]:
    """The columns that are not of the input."""
    names = {section.name for section in job.derive} | {name for section in job.lookup for name in section.columns}
    return names | {name for section in job.joined for name in section.per_unit.columns}


def _column(rng: Any, rows: int, declared: Declared, name: str, dtype: pa.DataType | None) -> pa.Array:
    """A column of which something is declared, or only its type."""
    values = declared.listed.get(name)
    if values:
        return _chosen(values, rng.integers(0, len(values), rows), dtype)
    low, high = declared.ranges.get(name, _range_of(dtype))
    sort = sort_of(low)
    if dtype is None:
        whole = sort is not None or (isinstance(low, int) and isinstance(high, int))
        dtype = pa.date32() if sort == "date" else MICROSECONDS[sort] if sort else pa.int64() if whole else pa.float64()
    plain = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return _chosen(WORDS, rng.integers(0, len(WORDS), rows), dtype)
    if pa.types.is_floating(plain):
        return pa.array(rng.uniform(low, high, rows)).cast(dtype)
    if pa.types.is_decimal(plain):
        return pa.array(np.round(rng.uniform(low, high, rows), plain.scale)).cast(plain, safe=False).cast(dtype)
    numbers = pa.array(rng.integers(math.ceil(low), math.floor(high), rows, endpoint=True))
    return _typed(numbers, plain).cast(dtype)


def _typed(numbers: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Whole numbers, or days or microseconds, as a type; nulls where it is none of these."""
    if pa.types.is_integer(dtype):
        return numbers.cast(dtype)
    if pa.types.is_boolean(dtype):
        return pa.array(numbers.to_numpy() % 2 == 1)
    if pa.types.is_date(dtype):
        return numbers.cast(pa.int32()).cast(pa.date32()).cast(dtype)
    if pa.types.is_time(dtype):
        return numbers.cast(pa.time64("us")).cast(dtype, safe=False)
    if pa.types.is_timestamp(dtype):
        return numbers.cast(pa.timestamp("us", dtype.tz)).cast(dtype, safe=False)
    if pa.types.is_duration(dtype):
        return numbers.cast(pa.duration("us")).cast(dtype, safe=False)
    return pa.nulls(len(numbers), dtype)


def _range_of(dtype: pa.DataType | None) -> Range:
    """Between what the values of a type are, of which nothing is declared."""
    plain = dtype.value_type if dtype is not None and pa.types.is_dictionary(dtype) else dtype
    if plain is not None and pa.types.is_date(plain):
        return _day(FIRST), _day(FIRST) + DAYS - 1
    if plain is not None and pa.types.is_timestamp(plain):
        return _day(FIRST) * 86_400_000_000, (_day(FIRST) + DAYS) * 86_400_000_000 - 1
    if plain is not None and (pa.types.is_time(plain) or pa.types.is_duration(plain)):
        return 0, 86_400_000_000 - 1
    return 0, 9


def _day(day: dt.date) -> int:
    return day.toordinal() - dt.date(1970, 1, 1).toordinal()


def _chosen(values: Sequence[Any], places: Any, dtype: pa.DataType | None) -> pa.Array:
    """Values of a list; as text where the column has text."""
    try:
        found = pa.array(list(values), None if dtype is None or pa.types.is_dictionary(dtype) else dtype)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        found = pa.array([None if value is None else str(value) for value in values])
    taken = found.take(pa.array(places))
    return taken if dtype is None else taken.cast(dtype)


def _units(rows: int, each: int, dtype: pa.DataType | None) -> pa.Array:
    """The unit of each row: so many rows each."""
    numbers = pa.array(np.arange(rows) // each)
    return numbers if dtype is None else numbers.cast(pa.string()).cast(dtype) if not pa.types.is_integer(dtype) else numbers.cast(dtype)
