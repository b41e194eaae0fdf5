"""Columns of DuckDB relations, by their exact names, whichever version of DuckDB it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from dpcore._extras import LOWEST_DUCKDB, words_of_old
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_relation(relation: Any, what: str) -> None:
    """Raise `ParameterError` if DuckDB is too old, or does not distinguish two columns: it would read one in place of the other."""
    if words := words_of_old("duckdb", bounds={"duckdb": LOWEST_DUCKDB}):
        raise ParameterError(f"{what} cannot be read: {words}")
    times = Counter(name.encode().lower() for name in set(relation.columns))
    for name in relation.columns:
        if times[name.encode().lower()] > 1:
            raise ParameterError(
                f"{what} has columns whose names differ in capitals only, such as {name!r}, of which DuckDB reads the first in place of "
                "the others; rename them in the query"
            )


def chosen(relation: Any, names: Sequence[str]) -> Any:
    """Return a relation of these columns. As SQL, since DuckDB 1 takes a dot in a name of its `ColumnExpression` for one of SQL."""
    return relation.project(", ".join(map(quoted, names)))


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def table_of(relation: Any) -> Any:
    """Return the rows of a relation as a table of pyarrow; DuckDB 1.4 gave the method another name."""
    return (getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table)()
