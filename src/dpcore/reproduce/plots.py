"""Plots of results as inline SVG: panels beside each other, or below each other on narrow screens, and one legend above them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html import escape, unescape
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from dpcore.pages.plots import ACCENT, CARD, FOURTH, GRID, INK, MUTED, SECOND, SOFT, THIRD, amount, few_numbers, is_narrow, picture
from dpcore.reproduce.mathematics import raised_and_lowered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Canvas

    from dpcore.reproduce.results import Figure, Panel, Series

HEIGHT, NARROW_HEIGHT, LINE = 2.9, 2.3, 0.18
"""Heights of panels beside each other, of each panel below another, and of a line of a legend, in inches."""
LABELS = {1: 44, 2: 24, 3: 16, 4: 13}
"""Letters of all tick labels below a panel, by the number of panels beside each other."""
MANY = 12
"""A computed line through more points has no markers, and a logarithmic axis with more points is marked at round numbers."""
MOST_BESIDE = 2
"""Panels that have a legend each stand beside each other up to this number."""
WRITTEN = re.compile(r"(<text\b[^>]*>)([^<]+)(</text>)")
SHIFTS = {1: "-.5em", -1: ".3em"}
"""How far scripts are above or below the line, in their own size."""
SCRIPT_SIZE = 0.72
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 8.5}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MARKS: dict[str, dict[str, Any]] = {
    "measured": {"color": ACCENT, "marker": "o", "markersize": 5},
    "second": {"color": SECOND, "marker": "s", "markersize": 4.5},
    "third": {"color": THIRD, "marker": "^", "markersize": 5},
    "fourth": {"color": FOURTH, "marker": "v", "markersize": 5},
    "theory": {"color": ACCENT, "linestyle": (0, (5, 2)), "linewidth": 1.2},
    "second theory": {"color": SECOND, "linestyle": (0, (1.5, 1.5)), "linewidth": 1.2},
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

    rows, columns = _grid(figure, one_legend=one_legend)

    def draw(canvas: Canvas) -> None:
        narrow = is_narrow(canvas)
        every = canvas.subplots(*((len(figure.panels), 1) if narrow else (rows, columns)), squeeze=False, sharey=shared).ravel()
        if columns > 1:
            canvas.get_layout_engine().set(w_pad=0.08)  # type: ignore[call-arg, union-attr]
        handles: dict[str, Any] = {}
        for axes, panel in zip(every, figure.panels, strict=False):
            drawn = {series.name: _draw_series(axes, series, panel) for series in panel.series}
            handles = drawn | handles
            _frame(axes, panel, 1 if narrow else columns)
            if figure.square:
                axes.set_aspect("equal")
            if shared and not narrow:
                axes.label_outer()
            if not one_legend:
                room = {"borderaxespad": 2.2 if panel.title else 0.5}
                axes.legend(drawn.values(), drawn.keys(), loc="lower left", bbox_to_anchor=(-0.02, 1.0), **room, **LEGEND)
        for axes in every[len(figure.panels) :]:
            axes.remove()
        if one_legend:
            beside = 1 if narrow else 2 if len(handles) > 3 else len(handles)
            canvas.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=beside, **LEGEND)

    height = rows * (HEIGHT + _more_height(figure, one_legend=one_legend))
    return with_scripts(picture(draw, height, figure.caption, narrow=_narrow_height(figure, one_legend=one_legend)))


def with_scripts(svg: str) -> str:
    """Return a drawing whose texts have their exponents raised and their indices lowered, as `mathematics` has them.

    Parameters
    ----------
    svg : str
        One or more `<svg>` elements.

    Examples
    --------
    >>> with_scripts("<text>n^(−1/2) · risk</text>")
    '<text>n<tspan dy="-.5em" font-size="72%">−1/2</tspan><tspan dy=".36em"> · risk</tspan></text>'
    """

    def set_text(found: re.Match[str]) -> str:
        parts, back = [], 0.0
        for level, text in raised_and_lowered(unescape(found[2])):
            if level:
                shift = float(SHIFTS[level].removesuffix("em"))
                # the place of the line, in the size of the script
                parts.append(f'<tspan dy="{_em(shift + back / SCRIPT_SIZE)}" font-size="{SCRIPT_SIZE:.0%}">{escape(text)}</tspan>')
                back = -shift * SCRIPT_SIZE
            else:
                parts.append(f'<tspan dy="{_em(back)}">{escape(text)}</tspan>' if back else escape(text))
                back = 0.0
        return found[1] + "".join(parts) + found[3]

    return WRITTEN.sub(set_text, svg)


def _em(shift: float) -> str:
    """A length in units of the size of letters.

    Examples
    --------
    >>> _em(-0.5), _em(0.36)
    ('-.5em', '.36em')
    """
    return f"{shift:.2f}".rstrip("0").replace("0.", ".") + "em"


def _grid(figure: Figure, *, one_legend: bool) -> tuple[int, int]:
    """Rows and columns of panels: with a legend each, no more than two beside each other."""
    columns = len(figure.panels) if one_legend else min(len(figure.panels), MOST_BESIDE)
    return math.ceil(len(figure.panels) / columns), columns


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


def _draw_series(axes: Any, series: Series, panel: Panel) -> Any:
    marks = MARKS[series.role]
    if series.form == "line" and series.stderr is None and len(series.x) > MANY:
        marks = {key: value for key, value in marks.items() if not key.startswith("marker")}
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
    if "y" in panel.log:  # a logarithm has no place for 0, and its standard error alone is no point
        series = _positive(series)
    style = {"linestyle": "-", "linewidth": 0.9, "markeredgecolor": CARD, "markeredgewidth": 0.8, "elinewidth": 1.1, **marks}
    return axes.errorbar(series.x, series.y, yerr=series.stderr, zorder=3, **style)


def _positive(series: Series) -> Series:
    kept = [i for i, y in enumerate(series.y) if y > 0]
    x, y, stderr = (tuple(column[i] for i in kept) for column in (series.x, series.y, series.stderr or series.y))
    return replace(series, x=x, y=y, stderr=stderr)


def _paired(values: Sequence[float]) -> list[float]:
    """Points of one line that is broken after each second point."""
    return [value for i in range(0, len(values), 2) for value in (*values[i : i + 2], math.nan)]


def _frame(axes: Any, panel: Panel, beside: int) -> None:
    """Axes with few lines: a grid that guides along the values, names and numbers in the colour of secondary text."""
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    if panel.limits is not None:
        axes.set_ylim(panel.limits)
    _scale(axes, panel, beside)
    axes.tick_params(which="both", length=0, pad=4, labelsize=8.5, labelcolor=MUTED)
    axes.grid(which="major", axis="y", color=GRID, linewidth=0.8, zorder=0)
    axes.set_axisbelow(True)
    axes.set_xlabel(panel.x_label, fontsize=8.5)
    axes.set_ylabel(panel.y_label, fontsize=8.5)
    if panel.title:
        axes.set_title(panel.title, fontsize=8.5, color=INK, loc="left")


def _scale(axes: Any, panel: Panel, beside: int) -> None:
    if "x" in panel.log:
        axes.set_xscale("log")
        points = sorted({x for series in panel.series for x in series.x})
        if len(points) > MANY:
            _mark_powers(axes.xaxis)
        else:
            _mark_points(axes.xaxis, points, LABELS[beside])
    else:
        few_numbers(axes.xaxis, percent=False, at_most=6 if beside < 3 else 4)
    if "y" in panel.log:
        axes.set_yscale("log")
        _mark_powers(axes.yaxis)
    else:
        few_numbers(axes.yaxis, percent=False, at_most=6)


def _mark_points(axis: Any, points: list[float], letters: int) -> None:
    """Numbers where something was measured, as many in equal steps as there is room for."""

    def marked(step: int) -> list[float]:
        return points[(len(points) - 1) % step :: step] if step < len(points) else points[-1:]

    steps = range(math.ceil(len(points) / 4), len(points) + 1)
    step = next((each for each in steps if sum(len(short_number(x)) for x in marked(each)) <= letters), len(points))
    axis.set_major_locator(FixedLocator(marked(step)))
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
        return amount(float(f"{value:.{3 if value < 1 else 4}g}"))
    factor = float(f"{value / 10.0**exponent:.3g}")
    return ("" if factor == 1 else f"{factor:g}·") + "10" + str(exponent).translate(SUPERSCRIPTS)
