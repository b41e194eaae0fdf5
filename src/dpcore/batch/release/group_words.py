"""Words for groups: their columns, their number, and the name of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from dpcore.pages.numbers import counted, plain_name, plain_number

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_VALUE = "no value"
"""The group of rows without a value."""


def group_columns(query: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """The columns of a grouped answer, each with its part of every group."""
    groups = query["groups"]
    return dict(groups) if isinstance(groups, dict) else {str(query["group_by"]): groups}


def count_of_groups(query: Mapping[str, Any]) -> int:
    """Number of groups."""
    return len(next(iter(group_columns(query).values())))


def groups_in_words(query: Mapping[str, Any]) -> str:
    """The number of groups, and their columns."""
    *names, last = group_columns(query)
    columns = f"{', '.join(names)} and {last}" if names else last
    return (
        f"in each of {counted(count_of_groups(query), 'released group' if query.get('groups_released') else 'declared group')} by {columns}"
    )


def key_name(key: Any, last: Any = math.inf) -> str:
    """One column's part of a group: a value, a bin of which the last holds its right edge, or nothing."""
    if key is None:
        return NO_VALUE
    if isinstance(key, list | tuple):
        low, high = (end if isinstance(end, str) else plain_number(end) for end in key)
        return f"{low} to {'' if key[1] == last else 'below '}{high}"
    return plain_name(key)


def last_edge(keys: Sequence[Any]) -> Any:
    """The right edge of the last bin of a column; infinite if it has no bins."""
    return max((key[1] for key in keys if isinstance(key, list | tuple)), default=math.inf)


def _names(keys: Sequence[Any]) -> list[str]:
    """The names of one column's parts."""
    last = last_edge(keys)
    return [key_name(key, last) for key in keys]


class GroupNames(Sequence[str]):
    """The names of all groups. They can be many, so each is made when it is asked for."""

    def __init__(self, query: Mapping[str, Any]) -> None:
        self._columns = [(keys, last_edge(keys)) for keys in group_columns(query).values()]

    def __len__(self) -> int:
        return len(self._columns[0][0])

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return ", ".join(key_name(keys[place], last) for keys, last in self._columns)


def crossed(query: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """The names of rows and columns if groups are all combinations of two columns, those of the second changing fastest; else None."""
    columns = list(group_columns(query).values())
    if len(columns) != 2 or not columns[0]:
        return None
    first, second = columns
    width = next((place for place, key in enumerate(first) if key != first[0]), len(first))
    rows = first[::width]
    if len(first) % width or any(list(first[at : at + width]) != [first[at]] * width for at in range(0, len(first), width)):
        return None
    if list(second) != list(second[:width]) * len(rows):
        return None
    return _names(rows), _names(second[:width])
