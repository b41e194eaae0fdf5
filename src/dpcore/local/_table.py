"""The table that a notebook shows for an estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._html import MOST, rows_table

if TYPE_CHECKING:
    from dpcore.privacy import Privacy


def estimate_table(value: Any, stderr: Any, interval: Any, n: int, categories: tuple[str, ...] | None, privacy: Privacy) -> str:
    """Return a table in HTML with a row for each number, and a caption with the number of reports."""
    values, errors = np.atleast_1d(value), np.atleast_1d(stderr)
    limits = np.reshape(interval, (-1, 2))
    shown = min(len(values), MOST)
    names = _names(np.ndim(value) > 0, shown, categories)
    heads = [*(["category"] if names else []), "estimate", "standard error", "95 % interval"]
    rows = (
        [*([names[i]] if names else []), f"{values[i]:.6g}", f"{errors[i]:.3g}", f"{limits[i, 0]:.6g} to {limits[i, 1]:.6g}"]
        for i in range(shown)
    )
    guarantee = f"ε = {privacy.epsilon:.6g}" + (f" and δ = {privacy.delta:.3g}" if privacy.delta else "")
    return rows_table(f"{n:,} reports, each with {guarantee}", heads, rows, len(values))


def _names(several: bool, shown: int, categories: tuple[str, ...] | None) -> list[str]:
    if not several:
        return []
    return [str(i) for i in range(shown)] if categories is None else list(categories[:shown])
