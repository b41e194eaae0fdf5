"""Tables of results as HTML, for notebooks. Every text is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._amounts import rounded_up
from dpcore._guarantee import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from dpcore.privacy import Privacy

MOST = 50
"""Rows that are shown."""
MOST_OF_MATRIX = 12
"""Rows and columns of a matrix that are shown."""


def escaped(text: object) -> str:
    """Return a text fit for HTML, in quotes too."""
    import html  # which Python does not load by itself

    return html.escape(str(text))


def guarantee(privacy: Privacy) -> str:
    """Return a guarantee in words."""
    delta = f", δ = {rounded_up(privacy.delta, 4)}" if privacy.delta else ""
    change = "the value" if privacy.relation == "replace" else "the presence"
    return f"ε = {amount(privacy.epsilon, 4)}{delta}, for data sets that differ by {change} of one record"


def facts_table(caption: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return a table with a name and a value in each row."""
    rows = "".join(f"<tr><th style='text-align:left'>{escaped(name)}</th><td>{escaped(value)}</td></tr>" for name, value in facts)
    return f"<table><caption>{escaped(caption)}</caption><tbody>{rows}</tbody></table>"


def columns_table(caption: str, columns: Mapping[str, Sequence[object]]) -> str:
    """Return a table with the named columns, at most `MOST` rows."""
    total = len(next(iter(columns.values())))
    return rows_table(caption, list(columns), zip(*(column[:MOST] for column in columns.values()), strict=True), total)


def matrix_table(caption: str, matrix: npt.NDArray[np.float64], rows: Sequence[object], columns: Sequence[object]) -> str:
    """Return a table with at most `MOST_OF_MATRIX` rows and columns of a matrix, and their labels."""
    n, m = matrix.shape
    more = ["…"] if m > MOST_OF_MATRIX else []
    part = matrix[:MOST_OF_MATRIX, :MOST_OF_MATRIX].tolist()
    lines = ([label, *line, *more] for label, line in zip(rows[:MOST_OF_MATRIX], part, strict=True))
    return rows_table(caption, ["", *columns[:MOST_OF_MATRIX], *more], lines, n, labelled=True)


def rows_table(caption: str, heads: Sequence[object], rows: Iterable[Sequence[object]], total: int, *, labelled: bool = False) -> str:
    """Return a table of rows, and in a last line how many of the total are not among them; numbers have four digits.

    `labelled` says that the first cell of a row is its label.
    """
    head = "".join(f"<th>{escaped(name)}</th>" for name in heads)
    lines = ["".join(_cell(cell, "th" if labelled and i == 0 else "td") for i, cell in enumerate(row)) for row in rows]
    if total > len(lines):
        lines.append(f"<td colspan='{len(heads)}'>… {total - len(lines):,} more</td>")
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Any, tag: str) -> str:
    return f"<{tag}>{escaped(f'{cell:.4g}' if isinstance(cell, float) else cell)}</{tag}>"
