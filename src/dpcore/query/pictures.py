"""The picture of an answer on a page: one that fits the question, with a legend, and words above it if it does not show everything."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.pages import plots
from dpcore.pages.numbers import counted, percentage_of, plain_number, plain_range, readable, rounded
from dpcore.query.bin_axes import axis_of_bins
from dpcore.query.plots import bin_plot, dot_plot, heat_map, quantile_plot
from dpcore.query.prose import bin_edges, cell_names, crossed, group_columns, quantile_limits
from dpcore.query.units_of_answers import axis_of
from dpcore.query.view import LOWER, UPPER, VALUE
from dpcore.tables.types.timed import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from dpcore.query.bin_axes import BinAxis
    from dpcore.query.view import Row, View

    Floats = npt.NDArray[np.float64]


DRAWN = 200
"""Numbers that one picture of names shows."""
FEW = 12
"""Names that keep the order of the job; more are sorted by their numbers."""
MAP_ROWS, MAP_COLUMNS = 60, 30
"""A map has at most so many rows and columns: as many as have room for their names."""


@dataclass(slots=True)
class Picture:
    """A drawing and its words.

    Attributes
    ----------
    plot : str
        What `pages.plots` draws.
    legend : list of tuple
        Class of the sign, and what it means.
    above : list of str
        What it does not show.
    notes : list of str
        Sentences below it.
    """

    plot: str
    legend: list[tuple[str, str]] = field(default_factory=list)
    above: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def picture_of(view: View) -> Picture | None:
    """Return the picture of an answer; None if there is nothing to draw.

    Parameters
    ----------
    view : View
        Of the answer.
    """
    values, intervals = _moments(view) if view.is_timed else view.numbers
    if not view.has_values or not np.isfinite(values).any() or (view.is_timed and not view.is_grouped):
        return None
    return PICTURES[view.kind.picture](view, values, intervals)


def _moments(view: View) -> tuple[Floats, Floats]:
    """Dates or times, and their intervals, as numbers."""

    def numbers(texts: list[Any]) -> Floats:
        found = [parsed(text) if isinstance(text, str) else None for text in texts]
        return np.array([np.nan if each is None else each[1] for each in found], dtype=np.float64)

    columns = view.columns()
    return numbers(columns[VALUE]), np.stack([numbers(columns[LOWER]), numbers(columns[UPPER])], axis=1)


def _ends(view: View, *numbers: Floats) -> list[tuple[float, str]]:
    """The first and the last of what is drawn, with its text: the numbers beside an axis of dates; none for other axes."""
    if not view.is_timed:
        return []
    columns, (values, intervals) = view.columns(), _moments(view)
    texts = dict(zip((*values, *intervals.T.flat), (*columns[VALUE], *columns[LOWER], *columns[UPPER]), strict=True))
    return [(end, texts[end]) for end in (min(map(np.nanmin, numbers)), max(map(np.nanmax, numbers)))]


def _numbers(view: View, values: Floats, intervals: Floats) -> Picture | None:
    """One number on its axis, bins on theirs, a map of two columns, or a list of names."""
    if view.is_single and not view.kind.has_labels:
        return _one(view, view[0])
    axis = None if view.is_grouped else axis_of_bins(view.query)
    if axis is not None:
        return _bins(view, axis, values, intervals)
    return _map(view, values) or _names(view, values, intervals)


def _one(view: View, row: Row) -> Picture | None:
    if row.is_exact or row.lower is None:
        return None
    value, interval = float(row.value), (float(row.lower), float(row.upper))
    limits, part_of = _limits(view, value, interval)
    title = f"{view.query['name']}: {row.shown[0]}, interval {row.interval}"
    plot = plots.interval_plot(value, interval, limits, percent=False, title=title, label=_label(view))
    return Picture(plot, notes=[f"The axis shows only a part of the possible range, {part_of}."] if part_of else [])


def _limits(view: View, value: float, interval: tuple[float, float]) -> tuple[tuple[float, float], str | None]:
    """Return the range of the axis, and the possible range if the axis shows only a part of it."""
    # Noise of a large ε can be too small to show.
    width = interval[1] - interval[0] or max(abs(value), 1.0) / 8
    limits = view.kind.limits(view.query)
    if limits is None:
        return (value - 2 * width, value + 2 * width), None
    short = 0 < width < plots.SHORT * (limits[1] - limits[0])
    return limits, plain_range(*limits) if short else None


def _bins(view: View, axis: BinAxis, values: Floats, intervals: Floats) -> Picture:
    """Bins over the axis that they divide."""
    column, known = str(view.query["column"]), None if np.isnan(intervals).all() else intervals
    plot = bin_plot(axis, values, known, title=_title(view), label=axis_of(column, view.query))
    legend = (
        [("bar", f"{view.confidence} intervals"), ("dash", f"released {_noun(view)}")]
        if axis.is_line
        else _legend(view, known, marked=False)
    )
    return Picture(plot, legend, notes=axis.notes(column))


def _map(view: View, values: Floats) -> Picture | None:
    """Groups and cells, or the groups of two columns, as a map; None if they are no rectangle, or too many."""
    if view.kind.has_labels or not view.is_grouped or view.is_timed:
        return None
    columns = list(group_columns(view.query))
    if len(view.parts) > 1:
        names = [", ".join(row.groups) for row in view[:: len(view.parts)]] if view.groups <= MAP_ROWS else [], view.parts
        labels = " and ".join(columns), view.kind.head(view.query)
    else:
        names, labels = crossed(view.query) or ([], []), (columns[0], columns[-1])
    rows, across = names
    if min(len(rows), len(across)) < 2 or max(len(rows), len(across)) > MAP_ROWS or min(len(rows), len(across)) > MAP_COLUMNS:
        return None
    noisy = view.noisy
    texts = np.array([row.shown[0] for row in view], dtype=object).reshape(len(rows), len(across))
    # What is too noisy to use has no colour, and does not stretch the scale of the others.
    table, marked = np.where(noisy, np.nan, values).reshape(texts.shape), noisy.reshape(texts.shape)
    if len(across) > len(rows):
        rows, across, labels, table, texts, marked = across, rows, labels[::-1], table.T, texts.T, marked.T
    plot = heat_map(
        table,
        rows,
        across,
        title=_title(view),
        labels=labels,
        texts=texts,
        noisy=marked if noisy.any() else None,
        from_zero=view.kind.counts_rows,
        label=_label(view),
    )
    return Picture(plot, [("paren", "too noisy to use")] if noisy.any() else [])


def _names(view: View, values: Floats, intervals: Floats) -> Picture:
    """A line for each name: bars of counts, and dots of other numbers, which need not be near 0."""
    known = np.flatnonzero(np.isfinite(values))
    order = known if len(values) <= FEW else known[np.argsort(-values[known], kind="stable")]
    drawn = order[:DRAWN]
    names, noisy = [view.name(int(place)) for place in drawn], view.noisy[drawn]
    has_ends = not np.isnan(intervals[drawn]).all()
    ends = np.where(np.isnan(intervals[drawn]), values[drawn, None], intervals[drawn])
    above = [f"The {len(drawn)} largest of {counted(len(known), 'number')} are drawn.{_by_chance(view)}"] if len(order) > len(drawn) else []
    if view.kind.counts_rows or view.kind.has_labels:
        plot = plots.frequency_plot(names, values[drawn], ends, title=_title(view), label=_label(view), percent=False, faint=noisy)
        return Picture(plot, _legend(view, ends if has_ends else None, marked=bool(noisy.any())), above)
    plot = dot_plot(
        names,
        values[drawn, None],
        ends if has_ends else None,
        noisy,
        title=_title(view),
        label=_label(view),
        ends=_ends(view, values[drawn], ends),
    )
    legend = [("dot", "released"), *([("line", f"{view.confidence} interval")] if has_ends else [])]
    if noisy.any():
        legend.append(("hollow", "too noisy to use; an arrow where the interval goes on"))
    return Picture(plot, legend, above)


def _levels(view: View, values: Floats, intervals: Floats) -> Picture:
    """Quantiles on the line of what is possible, or a line of them for each group."""
    if not view.is_grouped:
        pairs: list[Any] = [None if np.isnan(pair).any() else pair.tolist() for pair in intervals]
        title = f"{view.query['name']}: " + ", ".join(f"{row.part} {row.shown[0]}" for row in view)
        limits = quantile_limits(view.query, values.tolist())
        return Picture(
            quantile_plot(view.parts, values.tolist(), pairs, limits, title=title, label=axis_of(str(view.query["column"]), view.query))
        )
    table = values.reshape(view.groups, -1)
    known = np.flatnonzero(np.isfinite(table).all(axis=1))
    middle = table[:, len(view.parts) // 2]
    drawn = (known if len(table) <= FEW else known[np.argsort(-middle[known], kind="stable")])[:DRAWN]
    names = [", ".join(view[int(place) * len(view.parts)].groups) for place in drawn]
    none = np.zeros(len(drawn), dtype=bool)
    label = axis_of(str(view.query["column"]), view.query)
    plot = dot_plot(names, table[drawn], None, none, title=_title(view), label=label, ends=_ends(view, table[drawn]))
    notes = [f"From left to right: {', '.join(view.parts)}."] if len(view.parts) > 1 else []
    above = (
        [f"{counted(len(drawn), 'group')} of {len(known):,} are drawn, those with the largest numbers."] if len(known) > len(drawn) else []
    )
    return Picture(plot, [], above, notes)


def _legend(view: View, intervals: Floats | None, *, marked: bool) -> list[tuple[str, str]]:
    found = [("bar", f"released {_noun(view)}")]
    found += [] if intervals is None else [("line", f"{view.confidence} interval")]
    return [*found, ("faint", "too noisy to use")] if marked else found


def _noun(view: View) -> str:
    return "counts" if view.kind.counts_rows or view.kind.has_labels else "values"


def _title(view: View) -> str:
    return f"{view.query['name']}: {counted(len(view), 'released number')}"


def _label(view: View) -> str:
    """Return the label of the axis of an answer."""
    return "rows" if _noun(view) == "counts" else axis_of(view.kind.subject(view.query), view.query)


def _by_chance(view: View) -> str:
    """That of many numbers the largest are not all large."""
    if not view.query.get("confidence"):
        return ""
    at_most = "at most " if view.query.get("coverage") else ""
    misses = plain_number(rounded(len(view) * (1 - view.query["confidence"])))
    level = percentage_of(view.query["confidence"])
    return f" Some of the largest are large by chance: of all {level} intervals, {at_most}about {misses} do not contain the true value."


PICTURES: dict[str, Callable[[View, Floats, Floats], Picture | None]] = {
    "numbers": _numbers,
    "levels": _levels,
    "made_rows": lambda *_: None,  # `made_rows` draws one for each column
}
"""What draws the picture that a kind names."""


MOST_BARS = 40
"""Categories of a column of made-up rows that are drawn."""
MOST_COLUMNS, MOST_MAPS = 24, 6
MAP_CELLS, MAP_SIDE = 900, 40
"""A map has at most so many cells, and so many of one column."""


def made_rows(query: Mapping[str, Any]) -> dict[str, Any]:
    """The plots of a table of made-up rows, for the template.

    Parameters
    ----------
    query : mapping
        An entry of the document's queries.
    """
    value, declared = query["value"], {column["name"]: column for column in query["columns"]}
    drawn = value["columns"][:MOST_COLUMNS]
    pairs = [pair for pair in value["pairs"] if _is_drawable(pair)]
    return {
        "cells": f"{counted(len(declared), 'column')}, {counted(value['cells'], 'cell')}",
        "rows": counted(value["rows"], "row"),
        "path": value["path"],
        "columns": [_column(query["name"], declared[column["name"]], column, max(value["total"], 0)) for column in drawn],
        "hidden": len(value["columns"]) - len(drawn),
        "maps": [_pair(query["name"], declared, pair) for pair in pairs[:MOST_MAPS]],
        "hidden_maps": len(value["pairs"]) - len(pairs[:MOST_MAPS]),
    }


def _column(name: str, declared: Mapping[str, Any], column: Mapping[str, Any], total: int) -> dict[str, Any]:
    """A plot of one column: counts of all cells, or of the most frequent categories."""
    counts, rows = np.asarray(column["counts"], np.float64), total * np.asarray(column["shares"])
    intervals = np.stack([counts - 2 * column["stderr"], counts + 2 * column["stderr"]], axis=1)
    title = f"{name}, {column['name']}: {counted(len(counts), 'noisy count')}, and those of the table"
    axis = axis_of_bins(declared)
    if axis is not None:
        plot, hidden = bin_plot(axis, counts, intervals, rows, title=title, label=column["name"]), 0
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


def _pair(name: str, declared: Mapping[str, Any], pair: Mapping[str, Any]) -> dict[str, Any]:
    """The shares of two joint columns as a map."""
    one, other = pair["columns"]
    shares = np.asarray(pair["shares"])
    title = f"{name}: shares of {one} and {other} in the table"
    rows, columns = (_cells_in_words(declared[column]) for column in (one, other))
    plot = heat_map(shares, rows, columns, title=title, labels=(one, other), label="share of the rows")
    return {"name": f"{one} and {other}", "plot": plot}


def _cells_in_words(declared: Mapping[str, Any]) -> list[str]:
    """Categories, or the edges of bins."""
    edges = bin_edges(declared)
    return list(cell_names(declared)) if edges is None else [plain_number(float(edge)) for edge in edges]
