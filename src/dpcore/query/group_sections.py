"""Sections of the page of a release about grouped answers with several parts a group, and about groups that two columns make."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.pages.numbers import counted, plain_name, plain_number, readable, with_digits
from dpcore.query import plots as release_plots
from dpcore.query.kinds import KINDS
from dpcore.query.prose import GroupNames, as_list, count_of_groups, crossed, group_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt


LINES, WIDEST = 5000, 40
"""Rows and columns of a table of groups."""
MOST_MAPPED = 60
"""Rows or columns of a map, at the most."""


def lines_of_groups(query: Mapping[str, Any], ranks: str | None) -> dict[str, Any]:
    """A line for each group, with its quantiles, its cells or its places."""
    names, heads = GroupNames(query), KINDS[query["kind"]].heads(query)
    cells = [[_shown(value) for value in as_list(values, 1)[:WIDEST]] for values in query["value"][:LINES]]
    return {
        "form": "lines",
        "summary": counted(len(names), "group"),
        "value": counted(len(names) * len(heads), "value"),
        "interval": None,
        "levels": heads[:WIDEST],
        "lines": [{"label": label, "values": values} for label, values in zip(names[:LINES], cells, strict=True)],
        "hidden": max(0, len(names) - LINES),
        "narrowed": max(0, len(heads) - WIDEST),
        "ranks": ranks,
        "stderr": _common_error(query),
        "with_counts": KINDS[query["kind"]].maps_cells,
        "plot": _map_of_cells(query, names) if KINDS[query["kind"]].maps_cells else None,
    }


def _common_error(query: Mapping[str, Any]) -> str | None:
    """The standard error that the counts of all groups have, if it is one."""
    found = {error for of_group in as_list(query.get("stderr"), 1) for error in as_list(of_group, 1)}
    error = found.pop() if len(found) == 1 else None
    return readable([error], error, percent=False)[0] if error else None


def _shown(value: Any) -> str:
    return plain_name(value) if isinstance(value, str) else plain_number(value)


def _map_of_cells(query: Mapping[str, Any], names: GroupNames) -> str | None:
    """The counts of groups and cells as a map."""
    counts = np.asarray(query["value"], dtype=np.float64)
    if not counts.size or max(counts.shape) > MOST_MAPPED:
        return None
    labels = " and ".join(group_columns(query)), str(query["column"])
    texts = np.array([[_shown(value) for value in cells] for cells in query["value"]], dtype=object)
    return _map(query, counts, texts, (list(names), KINDS[query["kind"]].heads(query)), labels)


def cross_of_groups(query: Mapping[str, Any], values: npt.NDArray[np.float64]) -> dict[str, Any]:
    """The table and the map of answers to all combinations of two columns; nothing for other groups, or for too many."""
    names = crossed(query)
    if names is None or max(map(len, names)) > MOST_MAPPED or min(map(len, names)) < 2:
        return {}
    rows, columns = names
    table = values.reshape(len(rows), len(columns))
    first, second = group_columns(query)
    texts = _texts_of_groups(query, values).reshape(table.shape)
    shown = [{"label": row, "values": line} for row, line in zip(rows, texts.tolist(), strict=True)]
    plot = _map(query, table, texts, (rows, columns), (first, second)) if np.isfinite(table).all() else None
    return {"cross": {"corner": f"{first} / {second}", "columns": columns, "rows": shown}} | ({} if plot is None else {"map": plot})


def _texts_of_groups(query: Mapping[str, Any], values: npt.NDArray[np.float64]) -> npt.NDArray[np.object_]:
    """The numbers of groups, each with the digits that its standard error calls for."""
    errors = as_list(query.get("stderr"), len(values))
    texts = ["–" if math.isnan(value) else with_digits([value], error)[0] for value, error in zip(values.tolist(), errors, strict=True)]
    return np.array(texts, dtype=object)


def _map(
    query: Mapping[str, Any],
    values: npt.NDArray[np.float64],
    texts: npt.NDArray[np.object_],
    names: tuple[Sequence[str], Sequence[str]],
    labels: tuple[str, str],
) -> str:
    low, high = float(values.min()), float(values.max())
    # Of counts none has no colour; of other numbers the least.
    least = min(0.0, low) if KINDS[query["kind"]].counts_rows else low
    shares = np.clip((values - least) / ((high - least) or 1.0), 0.0, 1.0)
    title = f"{query['name']}: {counted(count_of_groups(query), 'group')}"
    return release_plots.heat_map(shares, *names, title=title, labels=labels, texts=texts)
