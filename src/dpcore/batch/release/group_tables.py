"""Public tables of groups: each row is one combination of values that an answer is wanted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.batch.release.group_fields import MAX_GROUPS, Combinations
from dpcore.batch.tables.categories import INTEGER_TYPES, TEXT_TYPES, Categories, declared_by, value_type
from dpcore.batch.tables.checks import check_names
from dpcore.batch.tables.csv_input import NULLS
from dpcore.batch.tables.inputs import discover_one
from dpcore.batch.tables.pieces import Cut
from dpcore.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dpcore.batch.tables.sources import InputFile

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
    """One column of records."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) != 1:
        raise JobError(f"groups: the values of column {name!r} must be all strings or all integers")
    try:
        return pa.array(values, pa.string() if kinds == {str} else pa.int64())
    except (pa.ArrowException, OverflowError):
        raise JobError(f"groups: the integers of column {name!r} must fit into 64 bits") from None


def _read(path: str, names: Sequence[str]) -> list[pa.Array]:
    """The columns of a file, as text where the format has no types."""
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


def _kept_as(path: InputFile, name: str, kind: pa.DataType) -> pa.DataType:
    """Text or integers, whichever the column holds."""
    kind = value_type(kind)
    if kind == pa.binary() or kind in TEXT_TYPES:
        return pa.string()
    if kind in INTEGER_TYPES:
        return pa.int64()
    raise JobError(f"{path}: column {name!r} of the groups has type {kind}; it must be a string or an integer type")


def _column(path: InputFile, name: str, cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cells of a piece; of a format without types an empty one, or one of the words for it, is a null."""
    try:
        if cells.type == pa.binary():
            nulls = pa.array([null.encode() for null in NULLS], pa.binary())
            cells = pc.if_else(pc.is_in(cells, value_set=nulls), pa.scalar(None, pa.binary()), cells)
        return cells.cast(kind)
    except pa.ArrowInvalid:
        held = "UTF-8 text" if kind == pa.string() else "integers of 64 bits"
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
