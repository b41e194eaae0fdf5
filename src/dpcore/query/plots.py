"""Plots of a release: bins and dots with error bars, quantiles on a line, and maps of two columns."""

from __future__ import annotations

import itertools
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
    NARROW_LABEL_LENGTH,
    NARROW_WIDTH,
    SOFT,
    WIDTH,
    amount,
    axis_label,
    bare,
    few_numbers,
    frequency_plot,
    label_for,
    labels_for,
    list_plot,
    picture,
    shortened,
)
from dpcore.query.prose import text_bin_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    from matplotlib.figure import Figure

    from dpcore.query.bin_axes import BinAxis


WIDTHS = (WIDTH, NARROW_WIDTH)
DOTS = 30
"""More bins than these have no dots."""
ROW, SCALE, COLOURS = 0.24, 0.12, 40
"""The heights of a row of a map and of the scale of its colours, in inches, and the steps of that scale."""
DARKEST, DARKEST_NUMBERED = 0.9, 0.5
"""Opacity of a map's largest share; and where a number stands on it, which must be legible on a light page and on a dark one."""
LETTER, LINE = 0.09, 0.16
"""About the width of a letter, and the height of a line, in inches."""
HOLLOW: dict[str, Any] = {"color": CARD, "markeredgecolor": ACCENT, "markeredgewidth": 1.2}
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
    values: npt.NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    labels: tuple[str, str],
    texts: npt.NDArray[Any] | None = None,
    noisy: npt.NDArray[np.bool_] | None = None,
    from_zero: bool = True,
    label: str = "",
) -> str:
    """Draw numbers as a map with a scale of its colours: the larger, the stronger; where there is room with the numbers in it.

    Parameters
    ----------
    values : ndarray of shape (a, b)
        NaN is a cell without a number.
    rows, columns : sequence of str
        Names of the a rows, the first on top, and of the b columns; or of the a + 1 or b + 1 edges of bins.
    title : str
        A text for readers who do not see the plot.
    labels : tuple of str
        What the rows and the columns are.
    texts : ndarray of str of shape (a, b), optional
        What stands on the cells. Default: the values as shares, in per cent.
    noisy : ndarray of bool of shape (a, b), optional
        Cells whose numbers are in parentheses; without room for numbers these stand alone.
    from_zero : bool, default True
        Whether 0 has no colour, and the colour grows with the root of a number, which shows small ones. Otherwise the least number has
        none.
    label : str, default ""
        What the numbers are, for the scale.
    """
    known = values[np.isfinite(values)]
    high = float(known.max()) if known.size else 0.0
    low = min(0.0, high) if from_zero else float(known.min()) if known.size else 0.0
    is_share = texts is None
    written_out = np.vectorize(lambda share: written(100 * share, ".1f"), otypes=[object])(values) if texts is None else texts

    def shade(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        shares = np.clip((numbers - low) / ((high - low) or 1.0), 0.0, 1.0)
        found: npt.NDArray[np.float64] = np.nan_to_num(np.sqrt(shares) if from_zero else shares)
        return found

    def draw(figure: Figure) -> None:
        axes, scale = figure.subplots(2, 1, height_ratios=(ROW * len(rows), SCALE))
        across = _across(figure.get_figwidth(), [label_for(figure, name) for name in rows], values.shape[1])
        named = LETTER * (max(map(len, written_out.flat)) + (0.5 if noisy is None else 2)) <= across
        darkest = DARKEST_NUMBERED if named else DARKEST
        for (row, column), strength in np.ndenumerate(shade(values)):
            # The page's colours have no shades, so a number is how little of the card shines through.
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=ACCENT, edgecolor="none", alpha=darkest * strength))
            is_noisy = noisy is not None and noisy[row, column]
            inside = str(written_out[row, column]) if named else " " if is_noisy else ""
            if inside:
                axes.text(column + 0.5, row + 0.5, f"({inside})" if is_noisy else inside, ha="center", va="center")
        axes.set_xlim(0, values.shape[1])
        axes.set_ylim(values.shape[0], 0)
        bare(axes, percent=False)
        axes.set_yticks(_places(rows, values.shape[0]), labels_for(figure, rows))
        names = labels_for(figure, columns)
        every = -(-len(names) // max(int(across * values.shape[1] / LINE), 1))
        places, names = _places(columns, values.shape[1])[::every], names[::every]
        tilted = max(map(len, names)) * LETTER > across * every
        angle = (35 if across * every >= LINE / math.sin(math.radians(35)) else 90) if tilted else 0
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
        _colours(scale, low, high, lambda numbers: darkest * shade(numbers), percent=is_share, label=label)

    height = 1.3 + ROW * len(rows) + max(map(len, columns)) * 0.02
    room = int(_across(NARROW_WIDTH, [shortened(name, NARROW_LABEL_LENGTH) for name in rows], 1) / LINE)
    return picture(draw, height, title, narrow=height if len(columns) <= room else None)


def _across(width: float, names: Sequence[str], columns: int) -> float:
    """The width of a column of a map, in inches."""
    return (width - LETTER * max(map(len, names)) - BESIDE / 2) / columns


def _places(names: Sequence[str], cells: int) -> npt.NDArray[np.float64]:
    """Return the positions of names beside a map, in the middle of a cell or at its edges."""
    return np.arange(len(names), dtype=np.float64) + (0.5 if len(names) == cells else 0.0)


def _colours(
    axes: Any,
    low: float,
    high: float,
    opacity: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    *,
    percent: bool,
    label: str,
) -> None:
    """The scale of the colours of a map."""
    ends = np.linspace(low, high if high > low else low + 1.0, COLOURS + 1)
    for start, stop in itertools.pairwise(ends):
        strength = float(opacity(np.array([(start + stop) / 2]))[0]) if high > low else 0.0
        axes.add_patch(Rectangle((start, 0), stop - start, 1, facecolor=ACCENT, edgecolor="none", alpha=strength))
    axes.set_xlim(ends[0], ends[-1])
    axes.set_ylim(0, 1)
    bare(axes, percent=percent)
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel(axis_label(axes.figure, f"colour: {label}" if label else "colour"))


def dot_plot(
    labels: Sequence[str],
    values: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64] | None,
    noisy: npt.NDArray[np.bool_],
    *,
    title: str,
    label: str,
    ends: Sequence[tuple[float, str]] = (),
) -> str:
    """Draw numbers as dots with their intervals, a line for each label, on an axis that is as long as the numbers need.

    Parameters
    ----------
    labels : sequence of str
        Names of the m lines, the first on top.
    values : ndarray of shape (m, k)
        Numbers of each line, in order; the one in the middle has a full dot.
    intervals : ndarray of shape (m, 2), or None
        The interval of each line, if it has one number. Without, a line joins its numbers.
    noisy : ndarray of bool of shape (m,)
        Lines whose dots are hollow. They do not stretch the axis: what lies beyond it is cut, with an arrow.
    title : str
        A text for readers who do not see the plot.
    label : str
        What the axis measures.
    ends : sequence of tuple, optional
        Numbers beside the axis, with their texts. Default: round ones.
    """
    reach = np.stack([np.nanmin(values, axis=1), np.nanmax(values, axis=1)], axis=1)
    if intervals is not None:
        reach = np.stack([np.fmin(reach[:, 0], intervals[:, 0]), np.fmax(reach[:, 1], intervals[:, 1])], axis=1)
    usable = reach if noisy.all() else reach[~noisy]
    start, stop = float(usable[:, 0].min()), float(usable[:, 1].max())
    margin = 0.04 * (stop - start) or max(abs(stop), 1.0) / 8
    start, stop = start - margin, stop + margin

    def draw(axes: Any, places: npt.NDArray[np.intp], rows: slice) -> None:
        sides, dots = reach[rows], values[rows]
        low, high = np.clip(sides.T, start, stop)
        if intervals is None:
            axes.hlines(places, low, high, color=SOFT, linewidth=5, zorder=2)
        else:
            axes.hlines(places, low, high, color=INK, linewidth=1.1, zorder=2)
            for side in sides.T:
                inside = (side >= start) & (side <= stop)
                axes.vlines(side[inside], places[inside] - 0.16, places[inside] + 0.16, color=INK, linewidth=1.1, zorder=3)
        for edge, marker, cut in ((start, "<", sides[:, 0] < start), (stop, ">", sides[:, 1] > stop)):
            if cut.any():  # an empty line that is not clipped takes all the room of the layout
                at_edge = np.full(cut.sum(), edge)
                axes.plot(at_edge, places[cut], linestyle="", marker=marker, markersize=6, color=INK, clip_on=False, zorder=4)
        for column, numbers in enumerate(dots.T):
            shown = (numbers >= start) & (numbers <= stop)
            for mask, is_full in ((shown & ~noisy[rows], column == values.shape[1] // 2), (shown & noisy[rows], False)):
                style = DOT if is_full else HOLLOW
                axes.plot(numbers[mask], places[mask], linestyle="", marker="o", markersize=6, zorder=5, **style)

    return list_plot(draw, labels, (start, stop), title=title, label=label, percent=False, ends=ends)
