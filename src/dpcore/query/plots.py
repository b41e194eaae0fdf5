"""Plots of a release: bins with error bars, quantiles on a line, and maps of two columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Rectangle

from dpcore.pages import plots
from dpcore.pages.numbers import counted, plain_number, readable, written
from dpcore.pages.plots import (
    ACCENT,
    CARD,
    DOT,
    GRID,
    INK,
    MUTED,
    NARROW_WIDTH,
    SOFT,
    WIDTH,
    amount,
    axis_label,
    bare,
    few_numbers,
    frequency_plot,
    label_for,
    picture,
    shortened,
)
from dpcore.query.bin_axes import axis_of_bins
from dpcore.query.prose import bin_edges, cell_names, text_bin_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    from matplotlib.figure import Figure

    from dpcore.query.bin_axes import BinAxis


WIDTHS = (WIDTH, NARROW_WIDTH)
DOTS = 30
"""More bins than these have no dots."""
NUMBERED = 12
"""The cells of a map with more rows or columns have no numbers, nor those that are too narrow for them."""
MAP_LABELS = 20
"""Names beside a map, at the most."""
DARKEST, DARKEST_NUMBERED = 0.9, 0.5
"""Opacity of a map's largest share; and where a number stands on it, which must be legible on a light page and on a dark one."""
LETTER, LINE = 0.09, 0.16
"""About the width of a letter, and the height of a line, in inches."""
BESIDE = 0.75
"""About the width of what stands beside the axis of a histogram, in inches."""


def bin_plot(
    axis: BinAxis,
    values: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64] | None,
    bars: npt.NDArray[np.float64] | None = None,
    *,
    title: str,
    label: str,
) -> str:
    """Draw counts of bins over the axis that they divide.

    Parameters
    ----------
    axis : BinAxis
        Of the bins. If no axis shows them, they are drawn as categories.
    values : ndarray of shape (m,)
        The counts.
    intervals : ndarray of shape (m, 2), or None
        Their intervals.
    bars : ndarray of shape (m,), optional
        Other counts to draw as bars, with dots for `values`; of many bins, as a line. Default: bars, or a line, for `values`.
    title : str
        A text for readers who do not see the plot.
    label : str
        What the bins divide.
    """
    if axis.scale == "list":
        ends = np.stack([values, values], axis=1) if intervals is None else intervals
        return frequency_plot(text_bin_names(axis.names), values, ends, bars, title=title, label="rows", percent=False)
    heights, per = values if bars is None else bars, axis.per

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if axis.is_line:
            _band(axes, *_steps(axis, heights, intervals))
        else:
            dots = None if bars is None or len(values) > DOTS else values / per
            _bars(axes, axis.places, heights / per, None if intervals is None else intervals / per[:, None], dots)
        axes.set_xlim(axis.places[0], axis.places[-1])
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
        axes.grid(axis="y", color=GRID, linewidth=0.8, zorder=0)
        axes.set_axisbelow(True)
        bare(axes, percent=False)
        few_numbers(axes.yaxis, percent=False, at_most=6)
        axes.spines["bottom"].set_visible(False)
        if axis.scale == "powers" or axis.is_timed:
            numbered = _numbered(axis, figure.get_figwidth())
            axes.set_xticks(axis.places[numbered], [axis.names[i] for i in numbered])
            first, *_, last = axes.get_xticklabels()
            first.set_horizontalalignment("left")  # left of the plot there are other numbers
            last.set_horizontalalignment("right")
        axes.set_xlabel(axis_label(figure, label))
        axes.set_ylabel(axis.per_unit(label_for(figure, label)))

    return picture(draw, 2.8, title, narrow=2.6)


def _numbered(axis: BinAxis, width: float) -> list[int]:
    """The edges below which there is room for their numbers: the outer ones, and from the left those that cover no other."""
    across = (width - BESIDE) / (axis.places[-1] - axis.places[0])
    at = (axis.places - axis.places[0]) * across
    widths = [LETTER * (len(name) + 1) for name in axis.names]
    last = len(at) - 1
    found, taken = [0], widths[0]
    for place in range(1, last):
        half = widths[place] / 2
        if taken <= at[place] - half and at[place] + half <= at[last] - widths[last]:
            found.append(place)
            taken = at[place] + half
    return [*found, last]


def _steps(
    axis: BinAxis, values: npt.NDArray[np.float64], intervals: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Places and heights of the steps of a line, and their band: the hull of the intervals of bins of one width, else the sum."""
    starts, per = axis.starts, np.add.reduceat(axis.per, axis.starts)
    hull = None
    if intervals is not None and axis.scale == "counts":
        hull = np.stack([np.minimum.reduceat(intervals[:, 0], starts), np.maximum.reduceat(intervals[:, 1], starts)], axis=1)
    elif intervals is not None:
        hull = np.add.reduceat(intervals, starts, axis=0) / per[:, None]
    return np.append(axis.places[starts], axis.places[-1]), np.add.reduceat(values, starts) / per, hull


def _bars(
    axes: Any,
    places: npt.NDArray[np.float64],
    heights: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64] | None,
    dots: npt.NDArray[np.float64] | None,
) -> None:
    """Bars as wide as their bins, with intervals and dots in their middle."""
    centres, widths = (places[1:] + places[:-1]) / 2, np.diff(places)
    narrowest = float(widths.min() / (places[-1] - places[0]))
    axes.bar(centres, heights, width=widths, color=SOFT, edgecolor=CARD, linewidth=min(0.8, 40 * narrowest), zorder=2)
    if intervals is not None:
        caps = np.minimum(0.16 * widths, 0.01 * (places[-1] - places[0]))
        axes.vlines(centres, intervals[:, 0], intervals[:, 1], color=INK, linewidth=1.1, zorder=3)
        for column in (0, 1):
            axes.hlines(intervals[:, column], centres - caps, centres + caps, color=INK, linewidth=1.1, zorder=3)
    if dots is not None:
        axes.plot(centres, dots, linestyle="", marker="o", markersize=5 if narrowest > 0.02 else 3, zorder=4, **DOT)


def _band(axes: Any, places: npt.NDArray[np.float64], values: npt.NDArray[np.float64], intervals: npt.NDArray[np.float64] | None) -> None:
    """A line over a band of intervals."""
    if intervals is not None:
        axes.fill_between(
            np.repeat(places, 2)[1:-1],
            np.repeat(intervals[:, 0], 2),
            np.repeat(intervals[:, 1], 2),
            color=SOFT,
            linewidth=0,
            zorder=2,
        )
    axes.stairs(values, places, color=ACCENT, linewidth=1.1, baseline=None, zorder=3)


def quantile_plot(
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[Sequence[float] | None],
    limits: tuple[float, float],
    *,
    title: str,
    label: str,
) -> str:
    """Draw quantiles as points on the line of what is possible, each with its name above it and its interval below.

    Parameters
    ----------
    labels : sequence of str
        Name of each quantile.
    values : sequence of float
        The quantiles.
    intervals : sequence of pairs or None
        Their intervals, if they have one.
    limits : tuple of float
        The ends of the grid they were chosen from.
    title : str
        A text for readers who do not see the plot.
    label : str
        What the quantiles are of.
    """
    ends = [end for pair in intervals if pair is not None for end in pair]
    start, stop = min([*limits, *values, *ends]), max([*limits, *values, *ends])
    shares = [(value - start) / (stop - start) if stop > start else 0.5 for value in values]
    depth = 0.5 * sum(pair is not None for pair in intervals)
    texts = {width: [f"{shortened(name)}: {amount(value)}" for name, value in zip(labels, values, strict=True)] for width in WIDTHS}
    levels = {width: label_levels(texts[width], shares, LETTER / width) for width in WIDTHS}
    tops = {width: 1.0 + 0.75 * max(levels[width]) for width in WIDTHS}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        width = figure.get_figwidth()
        margin = 0.06 * (stop - start) or 1.0
        axes.set_xlim(start - margin, stop + margin)
        axes.set_ylim(-0.7 - depth, tops[width] + 0.5)
        axes.plot([start, stop], [0, 0], color=GRID, linewidth=9, solid_capstyle="round", zorder=1)
        for text, value, level in zip(texts[width], values, levels[width], strict=True):
            height = 0.75 + 0.75 * level
            axes.plot([value, value], [0, height - 0.1], color=MUTED, linewidth=0.8, zorder=2)
            axes.text(value, height, text, ha="center", va="bottom", zorder=5, bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1})
        with_interval = [(value, pair) for value, pair in zip(values, intervals, strict=True) if pair is not None]
        for row, (value, pair) in enumerate(with_interval, 1):
            axes.plot([value, value], [0, -0.5 * row], color=GRID, linewidth=0.8, zorder=1)
            axes.plot(pair, [-0.5 * row] * 2, color=INK, linewidth=1.1, marker="|", markersize=6, zorder=3)
        axes.plot(values, [0] * len(values), linestyle="", marker="o", markersize=9, color=ACCENT, markeredgecolor=CARD, zorder=4)
        bare(axes, percent=False)
        axes.set_yticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_xlabel(axis_label(figure, label))

    wide, narrow = (0.55 + 0.27 * (tops[width] + depth + 1.2) for width in WIDTHS)
    return picture(draw, wide, title, narrow=narrow)


def label_levels(labels: Sequence[str], places: Sequence[float], letter: float) -> list[int]:
    """The lowest line for each label, in order of place, on which it covers no other.

    Parameters
    ----------
    labels : sequence of str
        Texts centred on their places.
    places : sequence of float
        Shares of the width, 0 to 1.
    letter : float
        The share of the width that a letter takes, about.
    """
    levels, taken = [0] * len(labels), [-math.inf] * len(labels)
    for i in sorted(range(len(labels)), key=lambda i: places[i]):
        half = letter * (len(labels[i]) + 2) / 2
        level = next(level for level, end in enumerate(taken) if end <= places[i] - half)
        levels[i], taken[level] = level, places[i] + half
    return levels


def heat_map(
    shares: npt.NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    labels: tuple[str, str],
    texts: npt.NDArray[Any] | None = None,
) -> str:
    """Draw shares as a map: the larger, the stronger the colour; of few cells with their numbers.

    Parameters
    ----------
    shares : ndarray of shape (a, b)
        Not negative.
    rows, columns : sequence of str
        Names of the a rows, the first on top, and of the b columns; or of the a + 1 or b + 1 edges of bins.
    title : str
        A text for readers who do not see the plot.
    labels : tuple of str
        What the rows and the columns are.
    texts : ndarray of str of shape (a, b), optional
        What stands on the cells. Default: the shares in per cent.
    """
    largest = float(shares.max()) or 1.0
    written_out = np.vectorize(lambda share: written(100 * share, ".1f"), otypes=[object])(shares) if texts is None else texts

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        across = (figure.get_figwidth() - LETTER * max(len(label_for(figure, name)) for name in rows) - BESIDE / 2) / shares.shape[1]
        named = max(shares.shape) <= NUMBERED and LETTER * (max(map(len, written_out.flat)) + 1) <= across
        darkest = DARKEST_NUMBERED if named else DARKEST
        for (row, column), share in np.ndenumerate(shares):
            # The page's colours have no shades, so a share is how little of the card shines through.
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=ACCENT, edgecolor="none", alpha=darkest * share / largest))
            if named:
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    str(written_out[row, column]),
                    ha="center",
                    va="center",
                    fontsize=8.5,
                )
        axes.set_xlim(0, shares.shape[1])
        axes.set_ylim(shares.shape[0], 0)
        bare(axes, percent=False)
        axes.set_yticks(*_names(rows, shares.shape[0], [label_for(figure, name) for name in rows], MAP_LABELS))
        names_below = [label_for(figure, name) for name in columns]
        places, names = _names(columns, shares.shape[1], names_below, int(across * shares.shape[1] / LINE))
        tilted = max(map(len, names)) * LETTER > across
        angle = (35 if across * shares.shape[1] / len(names) >= LINE / math.sin(math.radians(35)) else 90) if tilted else 0
        axes.set_xticks(
            places,
            names,
            rotation=angle,
            ha="center" if angle in {0, 90} else "right",
            rotation_mode="anchor" if angle == 35 else "default",
        )
        axes.spines["bottom"].set_visible(False)
        axes.set_ylabel(label_for(figure, labels[0]))
        axes.set_xlabel(axis_label(figure, labels[1]))

    height = 1.1 + 0.26 * min(len(rows), 24)
    return picture(draw, height, title, narrow=height)


def _names(names: Sequence[str], cells: int, shown: Sequence[str], room: int) -> tuple[npt.NDArray[np.float64], Sequence[str]]:
    """Return the positions of names beside a map, in the middle of a cell or at its edges, and the names: as many as there is room for."""
    every = -(-len(names) // max(room, 1))
    places = np.arange(0, len(names), every, dtype=np.float64)
    return places + (0.5 if len(names) == cells else 0.0), shown[::every]


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


def _map(name: str, declared: Mapping[str, Any], pair: Mapping[str, Any]) -> dict[str, Any]:
    """The shares of two joint columns as a map."""
    one, other = pair["columns"]
    shares = np.asarray(pair["shares"])
    title = f"{name}: shares of {one} and {other} in the table"
    rows, columns = (_cells_in_words(declared[column]) for column in (one, other))
    plot = heat_map(shares, rows, columns, title=title, labels=(one, other))
    largest = readable([float(shares.max())], 0.01, percent=True)[0]
    return {"name": f"{one} and {other}", "plot": plot, "largest": largest}


def _cells_in_words(declared: Mapping[str, Any]) -> list[str]:
    """Categories, or the edges of bins."""
    edges = bin_edges(declared)
    return list(cell_names(declared)) if edges is None else [plain_number(float(edge)) for edge in edges]
