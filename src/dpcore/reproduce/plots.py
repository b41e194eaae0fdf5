"""Plots of results as inline SVG: panels beside each other, or below each other on narrow screens, and one legend above them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from dpcore.pages.plots import ACCENT, CARD, GRID, INK, MUTED, SOFT, amount, few_numbers, is_narrow, picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Canvas

    from dpcore.reproduce.results import Figure, Panel, Series

HEIGHT, NARROW_HEIGHT, LINE = 2.9, 2.3, 0.18
"""Heights of panels beside each other, of each panel below another, and of a line of a legend, in inches."""
MOST_POINTS = 4
"""Largest number of tick labels of one panel."""
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 8.5}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MARKS: dict[str, dict[str, Any]] = {
    "measured": {"color": ACCENT, "marker": "o", "markersize": 5},
    "second": {"color": INK, "marker": "s", "markersize": 4.5},
    "third": {"color": MUTED, "marker": "^", "markersize": 5},
    "fourth": {"color": MUTED, "marker": "v", "markersize": 5},
    "theory": {"color": ACCENT, "linestyle": (0, (5, 2)), "linewidth": 1.2},
    "second theory": {"color": INK, "linestyle": (0, (1.5, 1.5)), "linewidth": 1.2},
}
"""Style of a series, by its role. Computed series have no markers."""
PAIRS: dict[str, dict[str, Any]] = {
    role: {"color": marks["color"], "linewidth": 2.4 if role == "measured" else 1.4, "linestyle": marks.get("linestyle", "-")}
    for role, marks in MARKS.items()
}
"""Style of lines that join two points each."""


def figure_plot(figure: Figure) -> str:
    """Draw a figure of a section.

    Parameters
    ----------
    figure : Figure
        Panels of one quantity must have series of the same names: they share one legend.

    Returns
    -------
    str
        Two `<svg>` elements in the colours of the page, which shows one of them.
    """
    # Panels that show the same quantity show it on the same axis.
    shared = len({panel.y_label for panel in figure.panels}) == 1
    one_legend = shared or _all_in_one(figure.panels)

    def draw(canvas: Canvas) -> None:
        narrow = is_narrow(canvas)
        rows, columns = (len(figure.panels), 1) if narrow else (1, len(figure.panels))
        every = canvas.subplots(rows, columns, squeeze=False, sharey=shared).ravel()
        handles: dict[str, Any] = {}
        for axes, panel in zip(every, figure.panels, strict=True):
            drawn = {series.name: _draw_series(axes, series) for series in panel.series}
            handles = drawn | handles
            _frame(axes, panel)
            if figure.square:
                axes.set_aspect("equal")
            if shared and not narrow:
                axes.label_outer()
            if not one_legend:
                axes.legend(drawn.values(), drawn.keys(), loc="lower left", bbox_to_anchor=(-0.02, 1.0), **LEGEND)
        if one_legend:
            beside = 1 if narrow else 2 if len(handles) > 3 else len(handles)
            canvas.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=beside, **LEGEND)

    return picture(
        draw,
        HEIGHT + _more_height(figure, one_legend=one_legend),
        figure.caption,
        narrow=_narrow_height(figure, one_legend=one_legend),
    )


def _all_in_one(panels: Sequence[Panel]) -> bool:
    """Whether one panel has the series of all of them: its legend is that of the figure."""
    names = [{series.name for series in panel.series} for panel in panels]
    return len(panels) > 1 and any(all(other <= each for other in names) for each in names)


def _more_height(figure: Figure, *, one_legend: bool) -> float:
    """For titles, and for the lines of legends beyond the first two."""
    counts = [len({series.name for series in panel.series}) for panel in figure.panels]
    lines = math.ceil(max(counts) / 2) - 2 if one_legend else max(counts) - 2
    return (0.2 if any(panel.title for panel in figure.panels) else 0.0) + LINE * max(0, lines)


def _narrow_height(figure: Figure, *, one_legend: bool) -> float:
    """Return the height of panels below each other: each with its title, and all lines of the legends."""
    counts = [len({series.name for series in panel.series}) for panel in figure.panels]
    each = NARROW_HEIGHT + (0.5 if figure.square else 0.0) + (0.2 if any(panel.title for panel in figure.panels) else 0.0)
    return len(figure.panels) * each + LINE * (max(counts) if one_legend else sum(counts))


def _draw_series(axes: Any, series: Series) -> Any:
    marks = MARKS[series.role]
    if series.form == "area":
        (area,) = axes.fill(series.x, series.y, facecolor=marks["color"], alpha=0.14, linewidth=0, zorder=1)
        return area
    if series.form == "pairs":
        lines = axes.plot(_paired(series.x), _paired(series.y), zorder=2, solid_capstyle="butt", **PAIRS[series.role])
        return lines[0]
    if series.form == "points":
        return axes.plot(series.x, series.y, zorder=3, **{**marks, "linestyle": "none"})[0]
    if series.stderr is None:
        return axes.plot(series.x, series.y, zorder=2, **marks)[0]
    style = {"linestyle": "-", "linewidth": 0.9, "markeredgecolor": CARD, "markeredgewidth": 0.8, "elinewidth": 1.1, **marks}
    return axes.errorbar(series.x, series.y, yerr=series.stderr, zorder=3, **style)


def _paired(values: Sequence[float]) -> list[float]:
    """Points of one line that is broken after each second point."""
    return [value for i in range(0, len(values), 2) for value in (*values[i : i + 2], math.nan)]


def _frame(axes: Any, panel: Panel) -> None:
    """Axes with few lines: a grid that guides along the values, names and numbers in the colour of secondary text."""
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    if panel.limits is not None:
        axes.set_ylim(panel.limits)
    _scale(axes, panel)
    axes.tick_params(which="both", length=0, pad=4, labelsize=8.5, labelcolor=MUTED)
    axes.grid(which="major", axis="y", color=GRID, linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    axes.set_xlabel(panel.x_label, fontsize=8.5)
    axes.set_ylabel(panel.y_label, fontsize=8.5)
    if panel.title:
        axes.set_title(panel.title, fontsize=8.5, color=INK, loc="left")


def _scale(axes: Any, panel: Panel) -> None:
    if "x" in panel.log:
        axes.set_xscale("log")
        _mark_points(axes.xaxis, sorted({x for series in panel.series for x in series.x}))
    else:
        few_numbers(axes.xaxis, percent=False, at_most=6)
    if "y" in panel.log:
        axes.set_yscale("log")
        _mark_powers(axes.yaxis)
    else:
        few_numbers(axes.yaxis, percent=False, at_most=6)


def _mark_points(axis: Any, points: list[float]) -> None:
    """Numbers where something was measured, not beside each other if there are many."""
    axis.set_major_locator(FixedLocator(points[:: math.ceil(len(points) / MOST_POINTS)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def _mark_powers(axis: Any) -> None:
    lowest, highest = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if highest > 50 * lowest else (1.0, 2.0, 5.0), numticks=8))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def short_number(value: float) -> str:
    """A number beside a logarithmic axis: plain if that is short, else as a power of ten.

    Examples
    --------
    >>> short_number(0.05), short_number(1000.0), short_number(1e-7), short_number(20_000.0)
    ('0.05', '1,000', '10⁻⁷', '20k')
    """
    exponent = math.floor(math.log10(value) + 1e-9)
    if 1e4 <= value < 1e6:
        return f"{amount(float(f'{value / 1000:.3g}'))}k"
    if 1e-4 <= value * (1 + 1e-9) < 1e4:
        return amount(float(f"{value:.4g}"))
    factor = float(f"{value / 10.0**exponent:.3g}")
    return ("" if factor == 1 else f"{factor:g}·") + "10" + str(exponent).translate(SUPERSCRIPTS)
