"""What to do about a column whose type a query does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.batch.jobfile.times import EXAMPLES
from dpcore.batch.release.cells import Declared, OfNumbers
from dpcore.batch.release.group_cells import ListedGroups
from dpcore.batch.tables.categories import value_type

if TYPE_CHECKING:
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.tables.keys import KeyColumn

SORTS = (
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "duration"),
    (pa.types.is_timestamp, "timestamp"),
)


def mend(name: str, kind: pa.DataType, cells: Cells | KeyColumn) -> str:
    """Advice for the end of a message about a column that has a type other than the cells take; "" if there is none."""
    kind = value_type(kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if isinstance(cells, OfNumbers):
        sort = _sort(kind)
        if sort is not None:
            return f"; the query's bounds, edges or grid must be of its sort, like {EXAMPLES[sort]}"
        return f"; derive a column of numbers from the text, as in CAST({_quoted(name)} AS DOUBLE)" if is_text else ""
    if isinstance(cells, Declared | ListedGroups) and not cells.accepts(pa.string()) and is_text:
        return "; write the values as strings, or derive a column of another type from the text"
    if isinstance(cells, Declared | ListedGroups) and pa.types.is_boolean(kind):
        return "; write the values as [false, true]"
    if isinstance(cells, Declared | ListedGroups) and pa.types.is_integer(kind):
        return "; write the values as integers, without quotes"
    return ""


def _sort(kind: pa.DataType) -> str | None:
    """The sort of bounds for a column of dates or times; None of others."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "instant"
    return next((sort for is_kind, sort in SORTS if is_kind(kind)), None)


def _quoted(name: str) -> str:
    """A column's name in an expression."""
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
