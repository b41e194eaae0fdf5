"""Matrices as HTML tables, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

MOST = 12
"""Rows and columns that are shown."""


def matrix_table(matrix: npt.NDArray[np.float64], rows: Sequence[Any], columns: Sequence[Any], caption: str) -> str:
    """Return a table with at most `MOST` rows and columns of a matrix, their labels and a caption; every text is escaped."""
    n, m = matrix.shape
    more = "<td>…</td>" if m > MOST else ""
    head = "".join(f"<th>{escape(str(label))}</th>" for label in columns[:MOST]) + ("<th>…</th>" if m > MOST else "")
    lines = [
        f"<tr><th>{escape(str(label))}</th>{''.join(f'<td>{value:.4g}</td>' for value in row[:MOST])}{more}</tr>"
        for label, row in zip(rows[:MOST], matrix[:MOST].tolist(), strict=True)
    ]
    lines += [f'<tr><td colspan="{min(m, MOST) + 1 + (m > MOST)}">…</td></tr>'] if n > MOST else []
    return f"<table><caption>{escape(caption)}</caption><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
