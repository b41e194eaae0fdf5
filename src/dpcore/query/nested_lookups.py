"""Parents of nested groups that a public `[[lookup]]` says: what lies in what is declared once, in the table that rows are joined with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.pages.printable import printable
from dpcore.query.groups import Grouping, ListedGroups, ParentGroups, Wanted
from dpcore.tables.types.categories import declared_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dpcore.tables.sql.derivation import Derivations
    from dpcore.tables.sql.lookups import LookUp

    Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Parents:
    """What a look-up says of the declared keys of one column.

    Attributes
    ----------
    name, key : str
        The column of the parents, and that of the keys.
    keys : list
        The declared keys.
    values : list
        The parent of each key.
    """

    name: str
    key: str
    keys: list[Any]
    values: list[Any]

    @classmethod
    def of(cls, name: str, lookup: LookUp, cells: ListedGroups) -> _Parents:
        if cells.null:
            raise JobError(
                f"groups do not nest: rows without a {lookup.key!r}, which are a group (null = true), have no {name!r} in the look-up"
            )
        keys = list(cells.categories.listed())
        found = lookup.of(pa.array(keys, None if isinstance(keys[0], bool) else lookup.keys.type))[name]
        missing = pc.is_null(found).to_pylist()
        if any(missing):
            first = keys[missing.index(True)]
            more = f", and {sum(missing) - 1} more groups" if sum(missing) > 1 else ""
            raise JobError(
                f"groups do not nest: the look-up by {lookup.key!r} has no {name!r} for the declared group {_shown(first)}{more}"
            )
        return cls(name, lookup.key, keys, found.to_pylist())


def with_parents(grouping: Grouping, derivations: Derivations | None) -> Grouping:
    """Nested groups whose parents agree with the look-ups of a job, and are taken from them where `groups` does not declare them.

    Raises
    ------
    JobError
        If no look-up has a column that is not declared, a declared group has no parent there, or another one.
    """
    names = grouping.names
    lookups = () if derivations is None else derivations.adding.lookups
    found: dict[str, _Parents] = {}
    for lookup in lookups:
        cells = dict(grouping.columns).get(lookup.key)
        for name in (set(names[: names.index(lookup.key)]) if isinstance(cells, ListedGroups) else set()) & set(lookup.columns):
            found[name] = _Parents.of(name, lookup, cells)  # type: ignore[arg-type]
    missing = [name for name, cells in grouping.columns if isinstance(cells, ParentGroups)]
    for name in missing:
        if name not in found:
            raise JobError(
                f"groups declares nothing of {name!r}; list its values, or give its column in a [[lookup]] whose key is a column of "
                f"group_by behind it, with listed values: {', '.join(map(repr, names[names.index(name) + 1 :])) or 'there is none'}"
            )
    if missing:
        return _joined(grouping, {name: found[name] for name in missing})
    for parents in found.values():
        _check(grouping, parents)
    return grouping


def _joined(grouping: Grouping, found: dict[str, _Parents]) -> Grouping:
    """The groups with the parents of each."""
    declared = [(name, cells) for name, cells in grouping.columns if name not in found]
    below = replace(grouping, columns=tuple(declared)).column_codes()
    codes = dict(zip((name for name, _ in declared), below.T, strict=True))
    columns: list[tuple[str, Any]] = []
    for name, cells in grouping.columns:
        if name not in found:
            columns.append((name, cells))
            continue
        parents = found[name]
        values = list(dict.fromkeys(parents.values))
        are_keys = {type(each) for each in values} in ({str}, {int})
        categories = declared_by(tuple(values)) if are_keys else None
        if categories is None:
            raise JobError(f"the look-up gives {name!r} no text and no integer, and groups are of one of these")
        columns.append((name, ListedGroups(categories)))
        codes[name] = np.array([values.index(each) for each in parents.values])[codes[parents.key]]
    table = np.stack([codes[name] for name in grouping.names], axis=1).astype(np.int64)
    return replace(grouping, columns=tuple(columns), wanted=Wanted.among([cells.size for _, cells in columns], table))


def _check(grouping: Grouping, parents: _Parents) -> None:
    """Raise `JobError` unless each declared group has the parent that the look-up says."""
    keys = dict(zip(grouping.names, grouping.keys(), strict=True))
    known = dict(zip(parents.keys, parents.values, strict=True))
    for key, parent in zip(keys[parents.key], keys[parents.name], strict=True):
        if key is not None and known[key] != parent:
            raise JobError(
                f"groups do not nest: they declare {parents.key} = {_shown(key)} in {parents.name} = {_shown(parent)}, but the look-up has "
                f"it in {_shown(known[key])}; leave {parents.name!r} out of groups, and it is taken from there"
            )


def _shown(value: object) -> str:
    return printable(repr(value))


def nested_reads(queries: Sequence[Any], reads: Sequence[Any], derivations: Derivations | None) -> list[Any]:
    """How queries read their columns, those over nested groups with the parents that look-ups say."""
    return [
        read if query.nested is None else replace(read, groups=with_parents(read.groups, derivations))
        for query, read in zip(queries, reads, strict=True)
    ]
