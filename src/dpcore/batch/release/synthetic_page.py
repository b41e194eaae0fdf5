"""What the page of a release shows of a synthetic table: for each column the noisy counts beside the table's, and maps of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.release.words import bin_edges, cell_names
from dpcore.pages.numbers import plain_number, readable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

MOST_BARS = 40
"""Categories of a column that are drawn."""
FEW = 12
"""Categories that keep the order of the job; more are sorted by their count."""
MOST_COLUMNS, MOST_MAPS = 24, 6
MAP_CELLS, MAP_SIDE = 900, 40
"""A map has at most so many cells, and so many of one column."""


def synthetic_section(query: Mapping[str, Any], plots: ModuleType, release_plots: ModuleType) -> dict[str, Any]:
    """What the template needs.

    Parameters
    ----------
    query : mapping
        An entry of the document's queries.
    plots, release_plots : module
        Which need matplotlib, and so are imported by those who have it.
    """
    value, declared = query["value"], {column["name"]: column for column in query["columns"]}
    drawn = value["columns"][:MOST_COLUMNS]
    pairs = [pair for pair in value["pairs"] if _is_drawable(pair)]
    return {
        "form": "table",
        "summary": f"{len(declared)} column{'s' if len(declared) > 1 else ''}, {value['cells']:,} cells",
        "value": f"{value['rows']:,} rows",
        "interval": None,
        "stderr": readable([query["stderr"]], query["stderr"], percent=False)[0],
        "path": value["path"],
        "columns": [
            _column(query["name"], declared[column["name"]], column, max(value["total"], 0), plots, release_plots) for column in drawn
        ],
        "hidden": len(value["columns"]) - len(drawn),
        "maps": [_map(query["name"], declared, pair, release_plots) for pair in pairs[:MOST_MAPS]],
        "hidden_maps": len(value["pairs"]) - len(pairs[:MOST_MAPS]),
    }


def _column(
    name: str, declared: Mapping[str, Any], column: Mapping[str, Any], total: int, plots: ModuleType, release_plots: ModuleType
) -> dict[str, Any]:
    """A plot of one column: counts of all cells, or of the most frequent categories."""
    counts, rows = np.asarray(column["counts"], np.float64), total * np.asarray(column["shares"])
    intervals = np.stack([counts - 2 * column["stderr"], counts + 2 * column["stderr"]], axis=1)
    title = f"{name}, {column['name']}: {len(counts)} noisy counts, and those of the table"
    edges = bin_edges(declared)
    if edges is not None:
        plot, hidden = release_plots.bin_plot(edges, counts, intervals, rows, title=title), 0
    else:
        order = np.arange(len(counts)) if len(counts) <= FEW else np.argsort(-counts, kind="stable")[:MOST_BARS]
        labels = cell_names(declared)
        shown = [labels[place] for place in order]
        plot = plots.frequency_plot(shown, counts[order], intervals[order], rows[order], title=title, percent=False)
        hidden = len(counts) - len(order)
    return {
        "name": column["name"],
        "stderr": readable([column["stderr"]], column["stderr"], percent=False)[0],
        "inside": f"{'whole numbers' if declared['type'] == 'int64' else 'numbers'} inside of a bin are uniform"
        if edges is not None
        else "",
        "plot": plot,
        "hidden": hidden,
        "banded": edges is not None and len(counts) > release_plots.SEPARATE_BARS,
    }


def _is_drawable(pair: Mapping[str, Any]) -> bool:
    shares = pair["shares"]
    return len(shares) * len(shares[0]) <= MAP_CELLS and max(len(shares), len(shares[0])) <= MAP_SIDE


def _map(name: str, declared: Mapping[str, Any], pair: Mapping[str, Any], release_plots: ModuleType) -> dict[str, Any]:
    """The shares of two joint columns as a map."""
    one, other = pair["columns"]
    title = f"{name}: shares of {one} and {other} in the table"
    labels = [_short_names(declared[column]) for column in (one, other)]
    return {"name": f"{one} and {other}", "plot": release_plots.heat_map(np.asarray(pair["shares"]), labels[0], labels[1], title=title)}


def _short_names(declared: Mapping[str, Any]) -> list[str]:
    """Categories, or the left ends of bins."""
    edges = bin_edges(declared)
    return cell_names(declared) if edges is None else [f"from {plain_number(float(edge))}" for edge in edges[:-1]]
