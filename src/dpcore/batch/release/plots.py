"""Plots of a release: bins with error bars, quantiles on a line, and maps of two columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Rectangle

from dpcore.pages.plots import ACCENT, CARD, GRID, INK, MUTED, SOFT, amount, bare, few_numbers, percentage, picture, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from matplotlib.figure import Figure

SEPARATE_BARS = 60
"""Bins beyond which bars and error bars become a line with a band."""
MOST_STEPS = 1000
"""Bins beyond which neighbours share a step: a screen has no more columns to show them in."""
DOTS = 30
"""Bins beyond which error bars have no dot."""
NUMBERED = 10
"""Rows or columns of a map beyond which its cells have no numbers."""
MAP_LABELS = 20
"""Names beside a map."""
DARKEST = 0.8
"""Opacity of a map's largest share: a number on it can still be read."""
LABEL_WIDTH = 0.013
"""About the share of the picture's width that a letter takes."""


def bin_plot(
    edges: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64] | None,
    bars: npt.NDArray[np.float64] | None = None,
    *,
    title: str,
) -> str:
    """Draw counts of bins over the axis that they divide.

    Parameters
    ----------
    edges : ndarray of shape (m + 1,)
        Increasing and finite.
    values : ndarray of shape (m,)
        Counts.
    intervals : ndarray of shape (m, 2), or None
        Their intervals.
    bars : ndarray of shape (m,), optional
        Counts of something else, to compare with; drawn as bars, or in place of the band's middle. Default: the counts above 0.
    title : str
        For readers who do not see it.
    """
    places, ticks = _positions(edges)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if len(values) > SEPARATE_BARS:
            _band(axes, *_steps(places, values if bars is None else bars, intervals))
        else:
            _bars(axes, places, values, intervals, np.maximum(values, 0) if bars is None else bars)
        axes.set_xlim(places[0], places[-1])
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
        axes.grid(axis="y", color=GRID, linewidth=0.8, zorder=0)
        axes.set_axisbelow(True)
        bare(axes, percent=False)
        few_numbers(axes.yaxis, percent=False, at_most=6)
        axes.spines["bottom"].set_visible(False)
        if ticks is not None:
            chosen = np.unique(np.linspace(0, len(edges) - 1, min(len(edges), 9)).round().astype(int))
            axes.set_xticks(places[chosen], [amount(float(edges[i])) for i in chosen])

    return picture(draw, 2.6, title)


def _positions(edges: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Where the edges are drawn: at their value, or evenly and with their values beside the axis if the widths differ much."""
    widths = np.diff(edges)
    if widths.max() <= 4 * widths.min():
        return edges, None
    return np.arange(len(edges), dtype=np.float64), edges


def bins_per_step(bins: int) -> int:
    """How many neighbouring bins are drawn as one."""
    return -(-bins // MOST_STEPS)


def _steps(
    places: npt.NDArray[np.float64], values: npt.NDArray[np.float64], intervals: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Places, means and the hull of the intervals of neighbouring bins."""
    starts = np.arange(0, len(values), bins_per_step(len(values)))
    sizes = np.diff(np.append(starts, len(values)))
    hull = None
    if intervals is not None:
        ends = np.minimum.reduceat(intervals[:, 0], starts), np.maximum.reduceat(intervals[:, 1], starts)
        hull = np.stack(ends, axis=1)
    return np.append(places[starts], places[-1]), np.add.reduceat(values, starts) / sizes, hull


def _bars(
    axes: Any,
    places: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64] | None,
    bars: npt.NDArray[np.float64],
) -> None:
    centres, widths = (places[1:] + places[:-1]) / 2, np.diff(places)
    axes.bar(centres, bars, width=0.86 * widths, color=SOFT, zorder=2)
    if intervals is not None:
        axes.vlines(centres, intervals[:, 0], intervals[:, 1], color=INK, linewidth=1.1, zorder=3)
        for column in (0, 1):
            axes.hlines(intervals[:, column], centres - 0.16 * widths, centres + 0.16 * widths, color=INK, linewidth=1.1, zorder=3)
    if len(values) <= DOTS:
        style = {"color": ACCENT, "markeredgecolor": CARD, "markeredgewidth": 0.8}
        axes.plot(centres, values, linestyle="", marker="o", markersize=5, zorder=4, **style)


def _band(axes: Any, places: npt.NDArray[np.float64], values: npt.NDArray[np.float64], intervals: npt.NDArray[np.float64] | None) -> None:
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
        For readers who do not see it.
    """
    ends = [end for pair in intervals if pair is not None for end in pair]
    start, stop = min([*limits, *values, *ends]), max([*limits, *values, *ends])
    shown = [f"{shortened(label)}: {amount(value)}" for label, value in zip(labels, values, strict=True)]
    levels = label_levels(shown, [(value - start) / (stop - start) if stop > start else 0.5 for value in values])
    depth = 0.5 * sum(pair is not None for pair in intervals)
    top = 1.0 + 0.75 * max(levels)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        margin = 0.06 * (stop - start) or 1.0
        axes.set_xlim(start - margin, stop + margin)
        axes.set_ylim(-0.7 - depth, top + 0.5)
        axes.plot([start, stop], [0, 0], color=GRID, linewidth=9, solid_capstyle="round", zorder=1)
        for label, value, level in zip(shown, values, levels, strict=True):
            height = 0.75 + 0.75 * level
            axes.plot([value, value], [0, height - 0.1], color=MUTED, linewidth=0.8, zorder=2)
            axes.text(value, height, label, ha="center", va="bottom", zorder=5, bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1})
        row = 0
        for value, pair in zip(values, intervals, strict=True):
            if pair is None:
                continue
            row += 1
            axes.plot([value, value], [0, -0.5 * row], color=GRID, linewidth=0.8, zorder=1)
            axes.plot(pair, [-0.5 * row] * 2, color=INK, linewidth=1.1, marker="|", markersize=6, zorder=3)
        axes.plot(values, [0] * len(values), linestyle="", marker="o", markersize=9, color=ACCENT, markeredgecolor=CARD, zorder=4)
        bare(axes, percent=False)
        axes.set_yticks([])
        axes.spines["bottom"].set_visible(False)

    return picture(draw, 0.35 + 0.27 * (top + depth + 1.2), title)


def label_levels(labels: Sequence[str], places: Sequence[float]) -> list[int]:
    """The lowest line for each label, in order of place, on which it covers no other.

    Parameters
    ----------
    labels : sequence of str
        Texts centred on their places.
    places : sequence of float
        Shares of the width, 0 to 1.
    """
    levels, taken = [0] * len(labels), [-math.inf] * len(labels)
    for i in sorted(range(len(labels)), key=lambda i: places[i]):
        half = LABEL_WIDTH * (len(labels[i]) + 2) / 2
        level = next(level for level, end in enumerate(taken) if end <= places[i] - half)
        levels[i], taken[level] = level, places[i] + half
    return levels


def heat_map(shares: npt.NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], *, title: str) -> str:
    """Draw shares as a map: the larger, the darker; of few cells with their numbers.

    Parameters
    ----------
    shares : ndarray of shape (a, b)
        Not negative.
    rows, columns : sequence of str
        Names of the a rows, the first on top, and of the b columns.
    title : str
        For readers who do not see it.
    """
    largest = float(shares.max()) or 1.0
    named = max(shares.shape) <= NUMBERED

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for (row, column), share in np.ndenumerate(shares):
            # Colours of the page have no shades, so the share is in how much of the card shines through.
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=ACCENT, edgecolor="none", alpha=DARKEST * share / largest))
            if named:
                axes.text(column + 0.5, row + 0.5, percentage(share, 1e-3), ha="center", va="center", fontsize=7.5)
        axes.set_xlim(0, shares.shape[1])
        axes.set_ylim(shares.shape[0], 0)
        bare(axes, percent=False)
        every = [-(-length // MAP_LABELS) for length in shares.shape]
        axes.set_yticks(np.arange(0, len(rows), every[0]) + 0.5, [shortened(label) for label in rows[:: every[0]]])
        labels = [shortened(label) for label in columns[:: every[1]]]
        tilted = sum(map(len, labels)) * LABEL_WIDTH > 0.7
        axes.set_xticks(
            np.arange(0, len(columns), every[1]) + 0.5, labels, rotation=35 if tilted else 0, ha="right" if tilted else "center"
        )
        axes.spines["bottom"].set_visible(False)

    return picture(draw, 0.9 + 0.26 * min(len(rows), 24), title)
