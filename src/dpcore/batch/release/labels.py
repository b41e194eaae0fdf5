"""Names of columns for readers: the `[[column]]` tables of a release job, used in tables, pages and plots."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dpcore.batch.jobfile.fields import Name, Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class ColumnLabel(Section):
    """`[[column]]` of a release: how readers know a column. Neither key changes an answer."""

    name: Name
    label: Name | None = None
    unit_of_measure: Name | None = None

    def document(self) -> dict[str, str]:
        """The keys that are given."""
        return {key: value for key, value in self.model_dump().items() if value is not None}


def check_labels(columns: Sequence[ColumnLabel], named: Iterable[str]) -> None:
    """Raise ValueError if a column has two tables, two have one label, or the job names no such column."""
    known = set(named)
    for key in ("name", "label"):
        for value, times in Counter(getattr(column, key) for column in columns).items():
            if value is not None and times > 1:
                raise ValueError(f"column: {times} [[column]] entries have {key} = {value!r}; give each a different one")
    for column in columns:
        if column.name not in known:
            raise ValueError(f"column: no [[query]] names {column.name!r}; a [[column]] of a release labels a column that a query names")


def named_columns(queries: Iterable[Section]) -> set[str]:
    """The columns that queries name, as values or as groups."""
    found: set[str] = set()
    for query in queries:
        for key in ("column", "columns", "group_by"):
            value = getattr(query, key, None)
            for each in value if isinstance(value, list | tuple) else [value]:
                name = getattr(each, "name", each)
                found |= {name} if isinstance(name, str) else set()
    return found


def with_unit(text: str, query: Mapping[str, Any]) -> str:
    """A number with the unit of measure of its query, on one line."""
    unit = query.get("unit_of_measure")
    return text if unit is None else f"{text}\u00a0{unit}"


def axis_of(text: str, query: Mapping[str, Any]) -> str:
    """The label of an axis, with the unit of measure of its query or of its bins."""
    unit = query.get("unit_of_measure", query.get("unit_of_bins"))
    return text if unit is None else f"{text} ({unit})"
