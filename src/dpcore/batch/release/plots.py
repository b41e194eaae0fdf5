"""Plots of a release: bins with error bars, quantiles on a line, and maps of two columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Rectangle

from dpcore.pages.numbers import written
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
    is_narrow,
    label_for,
    picture,
    shortened,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from matplotlib.figure import Figure

WIDTHS = (WIDTH, NARROW_WIDTH)
SEPARATE_BARS = 60
"""More bins than these are drawn as a line with a band, not as bars with error bars."""
MOST_STEPS = 1000
"""Above this number of bins, neighbours share a step: a screen has no more columns to show them in."""
DOTS = 30
"""More bins than these have no dots."""
NARROWEST = 1 / 150
"""The share of the axis below which a bin would be too narrow to see."""
NUMBERED, NUMBERED_NARROW = 10, 8
"""The cells of a map with more rows or columns than these have no numbers."""
MAP_LABELS = 20
"""Names beside a map, at the most."""
DARKEST, DARKEST_NUMBERED = 0.9, 0.5
"""Opacity of a map's largest share; and where a number stands on it, which must be legible on a light page and on a dark one."""
LETTER = 0.09
"""About the width of a letter, in inches."""


def bin_scale(edges: npt.NDArray[np.float64]) -> str:
    """Return how bins are drawn, depending on their widths.

    Parameters
    ----------
    edges : ndarray of shape (m + 1,)
        Increasing and finite.

    Returns
    -------
    {"counts", "densities", "places"}
        Bins of one width: bars as wide as the bins, as high as the counts. Bins of several widths: bars as wide as the bins, as high as the
        counts over the widths, so that areas show counts. Bins of which one would be too narrow to see: bars of one width, as high as the
        counts.
    """
    widths = np.diff(edges)
    if widths.max() <= (1 + 1e-9) * widths.min():
        return "counts"
    return "densities" if widths.min() >= NARROWEST * (edges[-1] - edges[0]) else "places"


def bin_plot(
    edges: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64] | None,
    bars: npt.NDArray[np.float64] | None = None,
    *,
    title: str,
    label: str,
) -> str:
    """Draw counts of bins over the axis that they divide, as `bin_scale` says.

    Parameters
    ----------
    edges : ndarray of shape (m + 1,)
        Increasing and finite.
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
    scale = bin_scale(edges)
    places = np.arange(len(edges), dtype=np.float64) if scale == "places" else edges
    heights = values if bars is None else bars
    per = np.diff(edges) if scale == "densities" else np.ones(len(values))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if len(values) > SEPARATE_BARS:
            _band(axes, *_steps(places, heights, per, intervals))
        else:
            dots = None if bars is None or len(values) > DOTS else values / per
            _bars(axes, places, heights / per, None if intervals is None else intervals / per[:, None], dots)
        axes.set_xlim(places[0], places[-1])
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
        axes.grid(axis="y", color=GRID, linewidth=0.8, zorder=0)
        axes.set_axisbelow(True)
        bare(axes, percent=False)
        few_numbers(axes.yaxis, percent=False, at_most=6)
        axes.spines["bottom"].set_visible(False)
        if scale == "places":
            chosen = np.unique(np.linspace(0, len(edges) - 1, min(len(edges), 4 if is_narrow(figure) else 9)).round().astype(int))
            axes.set_xticks(places[chosen], [amount(float(edges[i])) for i in chosen])
        axes.set_xlabel(axis_label(figure, label))
        axes.set_ylabel(f"rows per unit of {label_for(figure, label)}" if scale == "densities" else "rows")

    return picture(draw, 2.8, title, narrow=2.6)


def bins_per_step(bins: int) -> int:
    """Return how many neighbouring bins are drawn as one."""
    return -(-bins // MOST_STEPS)


def _steps(
    places: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    per: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64] | None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Places, mean heights and the hull of the intervals of neighbouring bins."""
    starts = np.arange(0, len(values), bins_per_step(len(values)))
    hull = None
    if intervals is not None:
        heights = intervals / per[:, None]
        ends = np.minimum.reduceat(heights[:, 0], starts), np.maximum.reduceat(heights[:, 1], starts)
        hull = np.stack(ends, axis=1)
    return np.append(places[starts], places[-1]), np.add.reduceat(values, starts) / np.add.reduceat(per, starts), hull


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

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        narrow = is_narrow(figure)
        named = max(shares.shape) <= (NUMBERED_NARROW if narrow else NUMBERED)
        darkest = DARKEST_NUMBERED if named else DARKEST
        for (row, column), share in np.ndenumerate(shares):
            # The page's colours have no shades, so a share is how little of the card shines through.
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=ACCENT, edgecolor="none", alpha=darkest * share / largest))
            if named:
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    written(100 * share, ".1f") if texts is None else str(texts[row, column]),
                    ha="center",
                    va="center",
                    fontsize=8.5,
                )
        axes.set_xlim(0, shares.shape[1])
        axes.set_ylim(shares.shape[0], 0)
        bare(axes, percent=False)
        axes.set_yticks(*_names(rows, shares.shape[0], [label_for(figure, name) for name in rows]))
        places, names = _names(columns, shares.shape[1], [label_for(figure, name) for name in columns])
        tilted = sum(map(len, names)) * LETTER / figure.get_figwidth() > 0.7
        axes.set_xticks(places, names, rotation=35 if tilted else 0, ha="right" if tilted else "center")
        axes.spines["bottom"].set_visible(False)
        axes.set_ylabel(label_for(figure, labels[0]))
        axes.set_xlabel(axis_label(figure, labels[1]))

    height = 1.1 + 0.26 * min(len(rows), 24)
    return picture(draw, height, title, narrow=height)


def _names(names: Sequence[str], cells: int, shown: Sequence[str]) -> tuple[npt.NDArray[np.float64], Sequence[str]]:
    """Return the positions of names beside a map, in the middle of a cell or at its edges, and the names that there is room for."""
    every = -(-len(names) // MAP_LABELS)
    places = np.arange(0, len(names), every, dtype=np.float64)
    return places + (0.5 if len(names) == cells else 0.0), shown[::every]
