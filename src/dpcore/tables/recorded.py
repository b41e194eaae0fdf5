"""What a ledger keeps of the queries that it pays for: public parameters, so short that thousands of entries stay a small file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LONGEST = 200
"""Characters of a text that are kept."""
LISTED = 5
"""Items of a list that are kept."""
MOST = 2**16
"""Bytes of the queries of one entry, about: further ones are counted."""


def recorded(queries: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the queries as an entry of a ledger keeps them: without keys that have no value, with long texts and lists cut.

    Parameters
    ----------
    queries : iterable of mapping
        Public parameters of each, as a job declares them.

    Returns
    -------
    tuple of dict
        A list that is cut is `{"first": [...], "count": n}`; the last entry is `{"more": n}` if there are too many queries.
    """
    kept: list[dict[str, Any]] = []
    size = more = 0
    for query in queries:
        short = {key: _short(value) for key, value in query.items() if value is not None and value != ()}
        if len(json.dumps(short)) > MOST // 4:
            short = {key: short[key] for key in ("name", "kind") if key in short}
        size += len(json.dumps(short))
        if size <= MOST:
            kept.append(short)
        else:
            more += 1
    return (*kept, {"more": more}) if more else tuple(kept)


def _short(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    if isinstance(value, dict) and depth < 3:
        first = {_short(str(key)): _short(item, depth + 1) for key, item in list(value.items())[:LISTED]}
        return first if len(value) <= LISTED else {**first, "…": f"{len(value) - LISTED} more"}
    if isinstance(value, list | tuple) and depth < 3:
        items = [_short(item, depth + 1) for item in value[:LISTED]]
        return items if len(value) <= LISTED else {"first": items, "count": len(value)}
    return value if value is None or isinstance(value, bool | int | float) else _short(repr(value), depth)


def in_words(query: Mapping[str, Any]) -> str:
    """One line about a query that was recorded."""
    if "more" in query:
        return f"… {query['more']} more"
    columns = _listed(query.get("columns", []))
    said = f"{query.get('name', '')}: {query.get('kind', '')}{f' of {columns}' if columns else ''}"
    said += f" where {query['where']}" if "where" in query else ""
    if "group_by" in query:
        said += f" by {_listed(query['group_by'])}, groups {_listed(query.get('groups', ''))}"
    return said


def _listed(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"first", "count"}:
        return f"{_listed(value['first'])}, … ({value['count']})"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_listed(item)}" for key, item in value.items())
    return ", ".join(map(_listed, value)) if isinstance(value, list) else str(value)
