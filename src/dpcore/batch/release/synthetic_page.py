"""The section of a page about a synthetic table: for each column the noisy counts beside the table's, and maps of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.release import plots as release_plots
from dpcore.batch.release.bin_axes import axis_of_bins
from dpcore.batch.release.words import bin_edges, cell_names
from dpcore.pages import plots
from dpcore.pages.numbers import counted, plain_number, readable

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BARS = 40
"""Categories of a column that are drawn."""
FEW = 12
"""Categories that keep the order of the job; more are sorted by their count."""
MOST_COLUMNS, MOST_MAPS = 24, 6
MAP_CELLS, MAP_SIDE = 900, 40
"""A map has at most so many cells, and so many of one column."""


def synthetic_section(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for the template.

    Parameters
    ----------
    query : mapping
        An entry of the document's queries.
    """
    value, declared = query["value"], {column["name"]: column for column in query["columns"]}
    drawn = value["columns"][:MOST_COLUMNS]
    pairs = [pair for pair in value["pairs"] if _is_drawable(pair)]
    return {
        "form": "table",
        "summary": f"{counted(len(declared), 'column')}, {counted(value['cells'], 'cell')}",
        "value": counted(value["rows"], "row"),
        "interval": None,
        "stderr": readable([query["stderr"]], query["stderr"], percent=False)[0],
        "path": value["path"],
        "columns": [_column(query["name"], declared[column["name"]], column, max(value["total"], 0)) for column in drawn],
        "hidden": len(value["columns"]) - len(drawn),
        "maps": [_map(query["name"], declared, pair) for pair in pairs[:MOST_MAPS]],
        "hidden_maps": len(value["pairs"]) - len(pairs[:MOST_MAPS]),
    }


def _column(name: str, declared: Mapping[str, Any], column: Mapping[str, Any], total: int) -> dict[str, Any]:
    """A plot of one column: counts of all cells, or of the most frequent categories."""
    counts, rows = np.asarray(column["counts"], np.float64), total * np.asarray(column["shares"])
    intervals = np.stack([counts - 2 * column["stderr"], counts + 2 * column["stderr"]], axis=1)
    title = f"{name}, {column['name']}: {counted(len(counts), 'noisy count')}, and those of the table"
    axis = axis_of_bins(declared)
    if axis is not None:
        plot, hidden = release_plots.bin_plot(axis, counts, intervals, rows, title=title, label=column["name"]), 0
    else:
        order = np.arange(len(counts)) if len(counts) <= FEW else np.argsort(-counts, kind="stable")[:MOST_BARS]
        labels = cell_names(declared)
        shown = [labels[place] for place in order]
        plot = plots.frequency_plot(shown, counts[order], intervals[order], rows[order], title=title, label="rows", percent=False)
        hidden = len(counts) - len(order)
    kind = "whole numbers" if declared["type"] == "int64" else "numbers"
    return {
        "name": column["name"],
        "stderr": readable([column["stderr"]], column["stderr"], percent=False)[0],
        "inside": "" if axis is None else f"{kind} within a bin are uniform",
        "drawn": [] if axis is None else axis.notes(column["name"]),
        "plot": plot,
        "hidden": hidden,
        "banded": axis is not None and axis.is_line,
    }


def _is_drawable(pair: Mapping[str, Any]) -> bool:
    shares = pair["shares"]
    return len(shares) * len(shares[0]) <= MAP_CELLS and max(len(shares), len(shares[0])) <= MAP_SIDE


def _map(name: str, declared: Mapping[str, Any], pair: Mapping[str, Any]) -> dict[str, Any]:
    """The shares of two joint columns as a map."""
    one, other = pair["columns"]
    shares = np.asarray(pair["shares"])
    title = f"{name}: shares of {one} and {other} in the table"
    rows, columns = (_names(declared[column]) for column in (one, other))
    plot = release_plots.heat_map(shares, rows, columns, title=title, labels=(one, other))
    largest = readable([float(shares.max())], 0.01, percent=True)[0]
    return {"name": f"{one} and {other}", "plot": plot, "largest": largest}


def _names(declared: Mapping[str, Any]) -> list[str]:
    """Categories, or the edges of bins."""
    edges = bin_edges(declared)
    return list(cell_names(declared)) if edges is None else [plain_number(float(edge)) for edge in edges]
