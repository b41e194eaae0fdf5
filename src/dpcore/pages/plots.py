"""Plots as inline SVG, in the colours of the page that shows them, light or dark; each drawn for wide and for narrow screens."""

from __future__ import annotations

import html
import io
import math
import re
import threading
import unicodedata
import warnings
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dpcore.pages.numbers import written
from dpcore.pages.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

WIDTH, NARROW_WIDTH = 6.8, 3.4
"""Inches. A page shows the narrow drawing on a narrow screen; it scales either to its own width, letters included."""
LABEL_LENGTH, NARROW_LABEL_LENGTH = 30, 14
AXIS_LENGTH, NARROW_AXIS_LENGTH = 72, 34
"""Letters of a label beside a plot, and of one along an axis."""
MANY, ROW, DENSE_ROW = 40, 0.26, 0.17
"""More names than these beside a plot are close to each other; the heights of their lines in inches."""
LETTER, NARROWEST_PART = 0.08, 0.95
"""About the width of a letter, and the width that a part of a plot has beside its names, in inches."""
SHORT = 0.06
"""The share of the possible range below which an interval would be too short to see."""
# Colours that no figure has by accident; in the SVG they become the page's variables.
NAMES = ("ink", "muted", "grid", "accent", "soft", "card", "second", "third", "fourth")
INK, MUTED, GRID, ACCENT, SOFT, CARD, SECOND, THIRD, FOURTH = COLOURS = tuple(f"#0a0b{number:02x}" for number in range(1, len(NAMES) + 1))
VARIABLES = dict(zip(COLOURS, NAMES, strict=True))
CURVES = (ACCENT, SECOND, THIRD, FOURTH)
"""Colours of curves in one drawing, which differ on a light page and on a dark one."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "axes.unicode_minus": True,
}
DOT: dict[str, Any] = {"color": ACCENT, "markeredgecolor": CARD, "markeredgewidth": 0.8}
_ONE_AT_A_TIME = threading.Lock()
"""The settings of matplotlib are those of the process."""


def interval_plot(value: float, interval: Sequence[float], limits: tuple[float, float], *, percent: bool, title: str, label: str) -> str:
    """Draw one number with its interval.

    Parameters
    ----------
    value : float
        The number.
    interval : sequence of two floats
        The ends of its interval.
    limits : tuple of float
        The ends of what is possible. The axis shows all of it unless the interval would be too short to see.
    percent : bool
        Whether the axis is in per cent.
    title : str
        A text for readers who do not see the plot.
    label : str
        What the axis measures.

    Returns
    -------
    str
        Two `<svg>` elements, of which the page shows one.
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lower, upper = interval
        start, stop = shown_range(value, (lower, upper), limits)
        axes.set_xlim(start, stop)
        axes.set_ylim(-1, 1)
        axes.axhline(0, color=GRID, linewidth=9, solid_capstyle="round", zorder=1)
        axes.plot([lower, upper], [0, 0], color=SOFT, linewidth=9, solid_capstyle="butt", zorder=2)
        for end in (lower, upper):
            axes.plot([end, end], [-0.42, 0.42], color=ACCENT, linewidth=1.4, zorder=3)
        axes.plot([value], [0], marker="o", markersize=9, color=ACCENT, markeredgecolor=CARD, markeredgewidth=1.5, zorder=4)
        bare(axes, percent=percent)
        axes.set_yticks([])
        axes.spines["bottom"].set_visible(False)
        axes.set_xlabel(axis_label(figure, label))

    return picture(draw, 1.05, title, narrow=1.05)


def shown_range(value: float, interval: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    """Return the range of the axis of an interval plot: all that is possible, or only the neighbourhood of a short interval."""
    lower, upper = interval
    width = upper - lower
    start, stop = limits
    if 0 < width < SHORT * (stop - start):
        start, stop = max(start, value - 3 * width), min(stop, value + 3 * width)
    start, stop = min(start, lower), max(stop, upper)
    margin = 0.03 * (stop - start)
    return start - margin, stop + margin


def frequency_plot(
    labels: Sequence[str],
    values: npt.NDArray[np.float64],
    intervals: npt.NDArray[np.float64],
    bars: npt.NDArray[np.float64] | None = None,
    *,
    title: str,
    label: str,
    percent: bool,
    faint: npt.NDArray[np.bool_] | None = None,
) -> str:
    """Draw a number for each category with its interval, the first on top.

    Parameters
    ----------
    labels : sequence of str
        The m categories.
    values : ndarray of shape (m,)
        Their numbers.
    intervals : ndarray of shape (m, 2)
        The intervals of the numbers.
    bars : ndarray of shape (m,), optional
        Other numbers to draw as bars, with dots for `values`. Default: bars for `values` and no dots.
    title : str
        A text for readers who do not see the plot.
    label : str
        What the axis measures.
    percent : bool
        Whether the axis is in per cent.
    faint : ndarray of bool of shape (m,), optional
        Bars that have no colour.

    Returns
    -------
    str
        Two `<svg>` elements, of which the page shows one.
    """
    ends = values if bars is None else bars
    start, stop = min(0.0, float(intervals.min())), max(0.0, float(intervals.max()), float(ends.max()))
    width = stop - start or 1.0

    def draw(axes: Any, places: npt.NDArray[np.intp], rows: slice) -> None:
        colours = [GRID if each else SOFT for each in faint[rows]] if faint is not None else SOFT
        axes.barh(places, ends[rows], height=0.66, color=colours, zorder=2)
        axes.hlines(places, *intervals[rows].T, color=INK, linewidth=1.1, zorder=3)
        for side in intervals[rows].T:
            axes.vlines(side, places - 0.16, places + 0.16, color=INK, linewidth=1.1, zorder=3)
        if bars is not None:
            axes.plot(values[rows], places, linestyle="", marker="o", markersize=5, zorder=4, **DOT)
        axes.axvline(0, color=MUTED, linewidth=0.8, zorder=1)

    return list_plot(draw, labels, (start - 0.02 * width, stop + 0.03 * width), title=title, label=label, percent=percent)


def list_plot(
    draw: Callable[[Any, npt.NDArray[np.intp], slice], None],
    labels: Sequence[str],
    limits: tuple[float, float],
    *,
    title: str,
    label: str,
    percent: bool,
    ends: Sequence[tuple[float, str]] = (),
) -> str:
    """A line for each of some names, the first on top; many names stand beside each other in parts of the drawing that share their axis.

    Parameters
    ----------
    draw : callable
        Draws some of the lines: it gets axes, the heights of the lines on them, and which they are.
    labels : sequence of str
        The names.
    limits : tuple of float
        The ends of the axis.
    title : str
        A text for readers who do not see the plot.
    label : str
        What the axis measures.
    percent : bool
        Whether it is in per cent.
    ends : sequence of tuple, optional
        Numbers beside the axis, with their texts. Default: round ones.
    """

    def lines(width: float) -> int:
        """How many lines a part has."""
        length = min(max(map(len, labels)), LABEL_LENGTH if width == WIDTH else NARROW_LABEL_LENGTH)
        parts = min(-(-len(labels) // MANY), max(int(width / (LETTER * length + NARROWEST_PART)), 1))
        return -(-len(labels) // parts)

    def draw_all(figure: Figure) -> None:
        many, shown = lines(figure.get_figwidth()), labels_for(figure, labels)
        starts = range(0, len(labels), many)
        for axes, start in zip(figure.subplots(1, len(starts), squeeze=False)[0], starts, strict=True):
            rows = slice(start, min(start + many, len(labels)))
            places = np.arange(rows.stop - rows.start)
            draw(axes, places, rows)
            axes.set_yticks(places, shown[rows])
            axes.set_ylim(many - 0.4, -0.6)
            axes.set_xlim(*limits)
            axes.grid(axis="x", color=GRID, linewidth=0.8, zorder=0)
            axes.set_axisbelow(True)
            bare(axes, percent=percent)
            axes.spines["bottom"].set_visible(False)
            if ends:
                axes.set_xticks(*zip(*ends, strict=True))
            elif len(starts) > 1:
                few_numbers(axes.xaxis, percent=percent, at_most=2)
            if len(starts) == 1:
                axes.set_xlabel(axis_label(figure, label))
        if len(starts) > 1:  # below a narrow part, a label would leave no room for the part itself
            figure.supxlabel(axis_label(figure, label), fontsize=mpl.rcParams["axes.labelsize"])

    wide, narrow = (0.75 + (ROW if lines(width) <= MANY else DENSE_ROW) * lines(width) for width in (WIDTH, NARROW_WIDTH))
    return picture(draw_all, wide, title, narrow=narrow)


def is_narrow(figure: Figure) -> bool:
    """Whether a figure is the drawing for narrow screens."""
    return bool(figure.get_figwidth() < WIDTH)


def label_for(figure: Figure, label: str) -> str:
    """A label as long as there is room beside a plot."""
    return shortened(label, NARROW_LABEL_LENGTH if is_narrow(figure) else LABEL_LENGTH)


def labels_for(figure: Figure, labels: Sequence[str]) -> list[str]:
    """Labels as long as there is room beside a plot. Those that differ only in what is cut off lose their middle instead."""
    shown = [label_for(figure, label) for label in labels]
    if len(set(shown)) == len(set(labels)):
        return shown
    length = NARROW_LABEL_LENGTH if is_narrow(figure) else LABEL_LENGTH
    head, every = (length - 1) // 2, [shortened(label, max(len(label), 1)) for label in labels]
    return [label if len(label) <= length else f"{label[:head]}…{label[head + 1 - length :]}" for label in every]


def axis_label(figure: Figure, label: str) -> str:
    """A label as long as there is room along an axis."""
    return shortened(label, NARROW_AXIS_LENGTH if is_narrow(figure) else AXIS_LENGTH)


def shortened(label: str, length: int = LABEL_LENGTH) -> str:
    """A label of so many letters at most, without characters that SVG cannot hold."""
    shown = "".join(" " if unicodedata.category(character).startswith("C") else character for character in label)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def percentage(value: float, step: float) -> str:
    """A share in per cent, with as many decimals as a difference of `step` needs."""
    decimals = min(max(0, -math.floor(math.log10(step * 100))), 12) if step > 0 else 1
    return f"{written(100 * value, f'.{decimals}f')} %"


def amount(value: float, step: float = 0.0) -> str:
    """A number beside an axis, with its thousands apart, and as many decimals as a difference of `step` needs."""
    decimals = -math.floor(math.log10(step)) if step > 0 else 0
    written_out = 0 < decimals <= 9 and abs(value) < 1e9
    return written(value, f",.{decimals}f" if written_out else ",.12g")


def bare(axes: Any, *, percent: bool) -> None:
    """Remove what a plot does not need, and put few numbers beside its axis."""
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, pad=5)
    few_numbers(axes.xaxis, percent=percent, at_most=4 if is_narrow(axes.figure) else 7)


def few_numbers(axis: Any, *, percent: bool, at_most: int = 7) -> None:
    """Put round numbers beside an axis, each complete: without an offset or a power that belongs to all of them."""
    axis.set_major_locator(MaxNLocator(nbins=at_most, steps=[1, 2, 5, 10]))
    ticks = axis.get_major_locator().tick_values(*axis.get_view_interval())
    step = float(ticks[1] - ticks[0])

    def shown(value: float, _place: int | None) -> str:
        exact_zero = 0.0 if abs(value) < step / 100 else value
        return percentage(exact_zero, step) if percent else amount(exact_zero, step)

    axis.set_major_formatter(FuncFormatter(shown))


def picture(draw: Callable[[Figure], None], height: float, title: str, *, narrow: float | None = None) -> str:
    """A plot that takes the width of the page and its colours.

    Parameters
    ----------
    draw : callable
        Draws into an empty figure. It may ask `is_narrow` how much room there is.
    height : float
        Of the drawing, in inches; it is 6.8 wide.
    title : str
        A text for readers who do not see the plot.
    narrow : float, optional
        The height of a second drawing, 3.4 inches wide, for narrow screens. Default: there the page scrolls the one drawing.

    Returns
    -------
    str
        An `<svg>` element, or two, of which the page shows one.
    """
    wide = _drawn(draw, WIDTH, height, title, kind="alone" if narrow is None else "wide")
    return wide if narrow is None else wide + "\n" + _drawn(draw, NARROW_WIDTH, narrow, title, kind="narrow")


def _drawn(draw: Callable[[Figure], None], width: float, height: float, title: str, *, kind: str) -> str:
    file = io.StringIO()
    # The salt goes into the names of parts, which must differ on a page.
    with _ONE_AT_A_TIME, mpl.rc_context({**STYLE, "svg.hashsalt": f"{kind} {title}"}), warnings.catch_warnings():
        # The browser chooses the font. A character that matplotlib's own lacks only makes its guess of a width worse.
        warnings.filterwarnings("ignore", message="Glyph .* missing from (current )?font")
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
        FigureCanvasSVG(figure)
        draw(figure)
        for axes in figure.axes:
            axes.set_facecolor("none")
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _for_page(file.getvalue(), title, kind)


def _for_page(svg: str, title: str, kind: str) -> str:
    """The drawing without what a separate file needs, in variables of the page in place of colours and fonts."""
    svg = svg[svg.index("<svg") :]
    # The rule for line ends would hold for the whole page, which has it for plots.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    # Names of groups are the same in every plot; nothing refers to them.
    svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)
    svg = svg.replace("xlink:href", "href")
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    svg = re.sub(r"(font(?:-family)?: (?:[\d.]+px )?)'DejaVu Sans'[^;\"]*", r"\1var(--font)", svg)
    size = re.search(r'viewBox="[^"]+"', svg)
    label = html.escape(printable(title))
    opening = f'<svg class="plot {kind}" role="img" aria-label="{label}" {size[0] if size else ""}>'
    return re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1).strip()
