"""The keys `group_by` and `groups` of a query: the columns of the groups, and how each column's groups are declared."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError, model_validator

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.pages.printable import UNPRINTABLE, printable
from dpcore.query.fields import BinCount, Edges, even_edges
from dpcore.tables.checks import check_names
from dpcore.tables.fields import Category, CategoryCount, CheckedBy, Finite, Name, Section, check_categories
from dpcore.tables.formats.csv import NULLS
from dpcore.tables.near_names import suggestion
from dpcore.tables.pieces import Cut
from dpcore.tables.sections import SUFFIXES
from dpcore.tables.types.categories import INTEGER_TYPES, TEXT_TYPES, Categories, declared_by, value_type
from dpcore.tables.types.slices import where

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dpcore.tables.sources import InputFile


MAX_GROUPS, MAX_GROUP_COLUMNS = 10**6, 16
PRIVATE: Literal["private"] = "private"
"""Groups whose keys only the data know."""


def _check_day(value: object) -> dt.date:
    """A date of TOML, its text, or the midnight that begins it."""
    if isinstance(value, dt.datetime) and value.tzinfo is None and value.time() == dt.time():
        return value.date()
    if type(value) is dt.date:
        return value
    try:
        return dt.date.fromisoformat(value if isinstance(value, str) and len(value) == 10 else "")
    except ValueError:
        raise ValueError(f"must be a date like 2013-01-31, got {reprlib.repr(value)}") from None


def _check_values(value: object) -> tuple[Category, ...]:
    return check_categories(value, "values", least=1, most=MAX_GROUPS, answers=True)


Day = Annotated[dt.date, CheckedBy(_check_day)]
Values = Annotated[tuple[Category, ...], CheckedBy(_check_values)]


class GroupColumn(Section):
    """The groups of one column: listed values, the codes 0 … k − 1, bins of numbers, or years, months or days; and the nulls, if wanted."""

    values: Values | None = None
    k: CategoryCount | None = None
    edges: Edges | None = None
    bins: BinCount | None = None
    lower: Finite | None = None
    upper: Finite | None = None
    by: Literal["year", "month", "day"] | None = None
    first: Day | None = None
    last: Day | None = None
    null: bool = False

    @model_validator(mode="after")
    def _groups_are_declared_once(self) -> Self:
        given = [key for key in ("values", "k", "edges", "bins", "by") if getattr(self, key) is not None]
        if len(given) != 1:
            found = f"{' and '.join(given)} were given" if given else "none was given"
            raise ValueError(
                'needs one of values = [...], k = N (the codes 0 … N − 1), edges = [...], bins = N with lower and upper, or by = "year", '
                f'"month" or "day" with first and last; {found}'
            )
        for main, others in (("bins", ("lower", "upper")), ("by", ("first", "last"))):
            self._check_ends(main, *others)
        return self

    def _check_ends(self, main: str, low: str, high: str) -> None:
        """Raise ValueError unless both ends are given with the key that needs them, and with no other."""
        ends = [getattr(self, low), getattr(self, high)]
        if getattr(self, main) is None:
            if any(end is not None for end in ends):
                raise ValueError(f"{low} and {high} belong to {main}, which was not given")
        elif any(end is None for end in ends) or not (ends[0] <= ends[1] if main == "by" else ends[0] < ends[1]):
            found = " and ".join(f"{key} = {end}" for key, end in zip((low, high), ends, strict=True))
            raise ValueError(f"{main} needs {low} and {high}, in this order, got {found}")

    @property
    def cuts(self) -> tuple[float, ...] | None:
        """The edges of bins; None of other groups."""
        if self.bins is None or self.lower is None or self.upper is None:
            return self.edges
        return even_edges(self.bins, self.lower, self.upper)

    @property
    def size(self) -> int:
        """Number of groups."""
        own = self.k or len(self.values or ())
        if self.cuts is not None:
            own = len(self.cuts) - 1
        if self.by is not None and self.first is not None and self.last is not None:
            own = place_of_day(self.last, self.by) - place_of_day(self.first, self.by) + 1
        return own + self.null


def place_of_day(day: dt.date, by: str) -> int:
    """The number of a day, or of its month or year; numbers that follow each other differ by one."""
    return {"year": day.year, "month": 12 * day.year + day.month - 1, "day": day.toordinal()}[by]


class Combinations(Section):
    """All combinations of several columns' values that are groups: the rows of a public table, in a file or in the job."""

    groups_file: Name | None = None
    records: tuple[dict[str, Category | None], ...] | None = None

    @property
    def size(self) -> int | None:
        """Number of groups; None if it is not known before the file is read."""
        return None if self.records is None else len(self.records)


GroupsDeclared = tuple[Category, ...] | dict[str, GroupColumn] | Combinations | Literal["private"]
"""One column's values; a declaration for each column; the combinations wanted; or none, because a query of kind "groups" finds them."""


def _check_group_by(value: object) -> str | tuple[str, ...]:
    names = value if isinstance(value, list | tuple) else [value]
    if not names or not all(isinstance(name, str) and name and not UNPRINTABLE.search(name) for name in names):
        raise ValueError(f"group_by must be the name of a column or a list of names, got {printable(reprlib.repr(value))}")
    if len(set(names)) < len(names) or len(names) > MAX_GROUP_COLUMNS:
        raise ValueError(f"group_by must list at most {MAX_GROUP_COLUMNS} different columns, got {reprlib.repr(value)}")
    return value if isinstance(value, str) else tuple(map(str, names))


def _check_groups(value: object) -> GroupsDeclared:
    if isinstance(value, Combinations) or value == PRIVATE:
        return value
    if isinstance(value, str):
        return _combinations_of_file(value)
    if isinstance(value, Mapping):
        return {str(name): _group_column(str(name), each) for name, each in value.items()}
    if isinstance(value, list | tuple) and None in value:
        raise ValueError("groups = [...] lists values; for a group of the rows without one, write groups = {values = [...], null = true}")
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return _combinations(value)
    return check_categories(value, "groups", least=1, most=MAX_GROUPS, answers=True)


def _combinations_of_file(path: str) -> Combinations:
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ValueError(
            f'groups must be a list of values, a table, "{PRIVATE}", or the path of a public table with a row for each group, which ends '
            f"in one of {', '.join(SUFFIXES)}, got {reprlib.repr(path)}"
        )
    return Combinations(groups_file=path)


def _combinations(records: list[Any] | tuple[Any, ...]) -> Combinations:
    if len(records) > MAX_GROUPS:
        raise ValueError(f"groups must be at most {MAX_GROUPS}, got {len(records)} of them")
    for position, record in enumerate(() if _are_combinations(records) else records):
        if not isinstance(record, Mapping) or set(record) != set(records[0]):
            raise ValueError(f"groups as a list of tables has the same columns in each; groups[{position}] is {reprlib.repr(record)}")
        for name, value in record.items():
            if value is not None and type(value) not in {str, int}:
                advice = "; write 0 and 1 for false and true" if isinstance(value, bool) else ""
                raise ValueError(f"groups[{position}].{name} must be a string or an integer, got {reprlib.repr(value)}{advice}")
    return Combinations(records=tuple(dict(record) for record in records))


def _are_combinations(records: list[Any] | tuple[Any, ...]) -> bool:
    """Whether all are tables of one and the same columns, of texts, integers and None; looks at types, and not at each value."""
    if set(map(type, records)) != {dict} or len(set(map(frozenset, records))) != 1:
        return False
    return set(map(type, itertools.chain.from_iterable(map(dict.values, records)))) <= {str, int, type(None)}


def _group_column(name: str, value: object) -> GroupColumn:
    """The declaration of one column: a list of values, or a table."""
    if isinstance(value, GroupColumn):
        return value
    if not isinstance(value, Mapping):
        return GroupColumn(values=check_categories(value, name, least=1, most=MAX_GROUPS, answers=True))
    try:
        return GroupColumn.model_validate(dict(value))
    except ValidationError as error:
        raise ValueError("; ".join(_explained(name, details) for details in error.errors(include_url=False))) from None


def _explained(name: str, details: Any) -> str:
    """One mistake in the table of a column."""
    key = ".".join(map(str, details["loc"][:1]))
    path = f"{name}.{key}" if key else name
    match details["type"]:
        case "extra_forbidden":
            return f"{path}: unknown key; allowed here: {', '.join(GroupColumn.model_fields)}{suggestion(key, GroupColumn.model_fields)}"
        case "value_error":
            return f"{path}: {details['ctx']['error']}"
        case "literal_error":
            return f"{path} = {reprlib.repr(details['input'])}: must be {details['ctx']['expected']}"
        case _:
            return f"{path} = {reprlib.repr(details['input'])}: {details['msg']}"


def check_grouping(names: tuple[str, ...], groups: GroupsDeclared, *, nested: bool = False) -> None:
    """Raise ValueError unless the groups are those of these columns, and not too many; nested ones may leave parents to a look-up."""
    if groups == PRIVATE:
        return
    if isinstance(groups, Combinations):
        _check_columns(names, groups.records[0] if groups.records else names)
        return
    if isinstance(groups, dict):
        _check_columns(tuple(name for name in names if name in groups) if nested and groups else names, groups)
    elif len(names) > 1:
        raise ValueError(f"groups = [...] is for one column; with several write groups = {{ {names[0]} = [...], {names[1]} = [...] }}")
    size = size_of(groups)
    if size is not None and size > MAX_GROUPS:
        raise ValueError(
            f"groups must be at most {MAX_GROUPS}, but all combinations of the columns are {size}; name those that are wanted in a public "
            'table, groups = "cells.csv"'
        )


def _check_columns(names: tuple[str, ...], declared: Any) -> None:
    if set(names) != set(declared):
        found = ", ".join(map(repr, declared)) or "none"
        raise ValueError(f"groups must declare the columns of group_by, {', '.join(map(repr, names))}, but has {found}")


def size_of(groups: GroupsDeclared) -> int | None:
    """Number of groups; None if it is not known before a file is read."""
    if groups == PRIVATE:
        return None
    if isinstance(groups, Combinations):
        return groups.size
    return math.prod(column.size for column in groups.values()) if isinstance(groups, dict) else len(groups)


GroupBy = Annotated[str | tuple[str, ...], CheckedBy(_check_group_by)]
Groups = Annotated[GroupsDeclared, CheckedBy(_check_groups)]
PIECE_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Found:
    """The combinations of a public table.

    Attributes
    ----------
    columns : tuple of (Categories, bool)
        The different values of each column, in the order in which they come first, and whether nulls come too.
    codes : ndarray of shape (groups, columns)
        The value of each group in each column, by place; a null is behind the last.
    """

    columns: tuple[tuple[Categories, bool], ...]
    codes: npt.NDArray[np.int64]


def combinations_of(names: Sequence[str], declared: Combinations) -> Found:
    """The combinations that a job declares in a file or a list."""
    path = declared.groups_file
    if path is None:
        records = declared.records or ()
        arrays = [_listed(name, [record[name] for record in records]) for name in names]
        return _found("groups", names, arrays, None)
    return _found(path, names, _read(path, names), path)


def _listed(name: str, values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) != 1:
        raise JobError(f"groups: the values of column {name!r} must be all strings or all integers")
    try:
        return pa.array(values, pa.string() if kinds == {str} else pa.int64())
    except (pa.ArrowException, OverflowError):
        raise JobError(f"groups: the integers of column {name!r} must fit into 64 bits") from None
    except UnicodeEncodeError:
        raise JobError(f"groups: column {name!r} must be text that UTF-8 can hold") from None


def _read(path: str, names: Sequence[str]) -> list[pa.Array]:
    """The columns of a file, as text where the format has no types."""
    from dpcore.tables.discovery import discover_one

    inputs = discover_one(path, "groups")
    found: dict[str, list[pa.Array]] = {name: [] for name in names}
    kinds: dict[str, pa.DataType] = dict.fromkeys(names, pa.string())
    rows = 0
    for file in inputs.paths:
        info = inputs.inspect(file)
        check_names(info, file, names, curator=True)
        types = {name: pa.binary() if info.types is None else info.types[name] for name in names}
        for name, kind in types.items():
            kinds[name] = _kept_as(file, name, kind)
        for piece in inputs.pieces(file, types, Cut(PIECE_ROWS, use_threads=False)):
            rows += len(piece.batch)
            if rows > MAX_GROUPS:
                raise JobError(f"groups = {path!r}: the table must have at most {MAX_GROUPS} rows, each of which is a group, and has more")
            for name in names:
                found[name].append(_column(file, name, piece.batch.column(name), kinds[name]))
    return [pa.chunked_array(found[name], kinds[name]).combine_chunks() for name in names]


def _kept_as(path: InputFile, name: str, dtype: pa.DataType) -> pa.DataType:
    """Text or integers, whichever the column holds."""
    dtype = value_type(dtype)
    if dtype == pa.binary() or dtype in TEXT_TYPES:
        return pa.string()
    if dtype in INTEGER_TYPES:
        return pa.int64()
    raise JobError(f"{path}: column {name!r} of the groups has type {dtype}; it must be a string or an integer type")


def _column(path: InputFile, name: str, cells: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Cells of a piece; of a format without types an empty one, or one of the words for it, is a null."""
    try:
        if cells.type == pa.binary():
            nulls = pa.array([null.encode() for null in NULLS], pa.binary())
            cells = where(pc.invert(pc.is_in(cells, value_set=nulls)), cells)
        return cells.cast(dtype)
    except pa.ArrowInvalid:
        held = "UTF-8 text" if dtype == pa.string() else "integers of 64 bits"
        raise JobError(f"{path}: column {name!r} of the groups must hold {held}") from None


def _found(where: str, names: Sequence[str], arrays: list[pa.Array], path: str | None) -> Found:
    if not len(arrays[0]):
        raise JobError(f"{where}: the table of groups has no rows, and each of its rows is a group")
    columns, codes = [], []
    for name, array in zip(names, arrays, strict=True):
        labels = array.drop_null().unique()
        if not len(labels):
            raise JobError(f"{where}: column {name!r} of the groups has no value")
        codes.append(pc.fill_null(pc.index_in(array, value_set=labels), len(labels)).to_numpy().astype(np.int64))
        columns.append((_categories(labels, path), bool(array.null_count)))
    table = np.stack(codes, axis=1)
    _check_distinct(where, names, arrays, table)
    return Found(tuple(columns), table)


def _categories(labels: pa.Array, path: str | None) -> Categories:
    """The values of a column; text of a file may turn out to be of a column of integers."""
    if path is not None and pa.types.is_string(labels.type):
        return Categories(len(labels), labels, path)
    categories = declared_by(tuple(labels.to_pylist()))
    if categories is None:
        raise AssertionError("nothing is declared")
    return categories


def _check_distinct(where: str, names: Sequence[str], arrays: list[pa.Array], codes: npt.NDArray[np.int64]) -> None:
    distinct, first, times = np.unique(codes, axis=0, return_index=True, return_counts=True)
    if len(distinct) < len(codes):
        row = int(first[times > 1].min())
        said = ", ".join(f"{name} = {array[row].as_py()!r}" for name, array in zip(names, arrays, strict=True))
        raise JobError(f"{where}: each row of the groups must be another combination, but {said} comes {int(times[first == row][0])} times")
