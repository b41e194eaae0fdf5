"""Tables of results as HTML, for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from dpcore.privacy import Privacy

MOST = 20
"""Rows that are shown."""


def guarantee(privacy: Privacy) -> str:
    """Return a guarantee in words."""
    delta = f", δ = {privacy.delta:.4g}" if privacy.delta else ""
    change = "the value" if privacy.relation == "replace" else "the presence"
    return f"ε = {privacy.epsilon:.4g}{delta}, for data sets that differ by {change} of one record"


def facts_table(caption: str, facts: Sequence[tuple[str, str]]) -> str:
    """Return a table with a name and a value in each row."""
    rows = "".join(f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    return f"<table><caption>{escape(caption)}</caption><tbody>{rows}</tbody></table>"


def columns_table(caption: str, columns: Mapping[str, Sequence[object]]) -> str:
    """Return a table with the named columns, at most `MOST` rows; numbers have four digits."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = list(zip(*columns.values(), strict=True))
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows[:MOST])
    more = f"<tr><td colspan='{len(columns)}'>… {len(rows) - MOST:,} more</td></tr>" if len(rows) > MOST else ""
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>"


def _text(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
