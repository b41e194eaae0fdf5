"""The table that a notebook shows for an estimate."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpcore.privacy import Privacy

MOST_ROWS = 50
_STYLE = "text-align:right;font-variant-numeric:tabular-nums"


def estimate_table(value: Any, stderr: Any, interval: Any, n: int, categories: tuple[str, ...] | None, privacy: Privacy) -> str:
    """Return a table in HTML with a row for each number, at most `MOST_ROWS` of them, and the number of reports below."""
    values, errors = np.atleast_1d(value), np.atleast_1d(stderr)
    limits = np.reshape(interval, (-1, 2))
    shown = min(len(values), MOST_ROWS)
    names = _names(np.ndim(value) > 0, shown, categories)
    heads = [*(["category"] if names else []), "estimate", "standard error", "95 % interval"]
    rows = [
        [*([names[i]] if names else []), f"{values[i]:.6g}", f"{errors[i]:.3g}", f"{limits[i, 0]:.6g} to {limits[i, 1]:.6g}"]
        for i in range(shown)
    ]
    guarantee = f"ε = {privacy.epsilon:.6g}" + (f" and δ = {privacy.delta:.3g}" if privacy.delta else "")
    left = f"; {len(values) - shown:,} more categories" if shown < len(values) else ""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    cells = ["".join(f'<td style="{_STYLE}">{escape(text)}</td>' for text in row) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{n:,} reports, each with {guarantee}{left}</p>"


def _names(several: bool, shown: int, categories: tuple[str, ...] | None) -> list[str]:
    if not several:
        return []
    return [str(i) for i in range(shown)] if categories is None else list(categories[:shown])
