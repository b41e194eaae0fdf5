"""Plots of estimates as inline SVG, in the colours of the page that shows them, light or dark."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

WIDTH = 6.8
"""Inches; the page scales it to its own width."""
LABEL_LENGTH = 30
SHORT = 0.06
"""Share of what is possible below which an interval would be too short to see."""
# Colours that no figure has by accident; in the SVG they become the page's variables.
INK, MUTED, GRID, ACCENT, SOFT, CARD = (f"#0a0b{number:02x}" for number in range(1, 7))
VARIABLES = dict(zip((INK, MUTED, GRID, ACCENT, SOFT, CARD), ("ink", "muted", "grid", "accent", "soft", "card"), strict=True))
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
_ONE_AT_A_TIME = threading.Lock()
"""matplotlib's settings belong to the process."""


def interval_plot(value: float, interval: Sequence[float], limits: tuple[float, float], *, percent: bool, title: str) -> str:
    """Draw one estimate with its interval.

    Parameters
    ----------
    value : float
        Point estimate.
    interval : sequence of two floats
        Its interval.
    limits : tuple of float
        What the true value can be; the axis shows all of it unless the interval would be too small to see.
    percent : bool
        Whether the axis is in per cent.
    title : str
        For readers who do not see it.
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

    return picture(draw, 0.85, title)


def shown_range(value: float, interval: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    """What the axis of an interval plot shows: all that is possible, or only the neighbourhood of a short interval."""
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
    consistent: npt.NDArray[np.float64],
    *,
    title: str,
    percent: bool = True,
) -> str:
    """Draw frequencies, the first on top: consistent ones as bars, raw ones as dots with their intervals.

    Parameters
    ----------
    labels : sequence of str
        Of the m categories shown.
    values, consistent : ndarray of shape (m,)
        Raw and consistent estimates.
    intervals : ndarray of shape (m, 2)
        Of the raw ones.
    title : str
        For readers who do not see it.
    percent : bool, default True
        Whether they are shares; otherwise they are counts.
    """
    rows = len(labels)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = np.arange(rows)
        axes.barh(places, consistent, height=0.66, color=SOFT, zorder=2)
        axes.hlines(places, intervals[:, 0], intervals[:, 1], color=INK, linewidth=1.1, zorder=3)
        for column in (0, 1):
            axes.vlines(intervals[:, column], places - 0.16, places + 0.16, color=INK, linewidth=1.1, zorder=3)
        axes.plot(values, places, linestyle="", marker="o", markersize=5, color=ACCENT, markeredgecolor=CARD, markeredgewidth=0.8, zorder=4)
        axes.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
        axes.set_yticks(places, [shortened(label) for label in labels])
        axes.set_ylim(rows - 0.4, -0.6)
        start, stop = min(0.0, float(intervals.min())), max(float(intervals.max()), float(consistent.max()))
        width = stop - start or 1.0
        axes.set_xlim(start - 0.02 * width, stop + 0.03 * width)
        axes.grid(axis="x", color=GRID, linewidth=0.8, zorder=0)
        axes.set_axisbelow(True)
        bare(axes, percent=percent)
        axes.spines["bottom"].set_visible(False)

    return picture(draw, 0.55 + 0.26 * rows, title)


def shortened(label: str) -> str:
    """A label that fits beside a plot, without characters that SVG cannot hold."""
    shown = "".join(" " if unicodedata.category(character).startswith("C") else character for character in label)
    return shown if len(shown) <= LABEL_LENGTH else shown[: LABEL_LENGTH - 1] + "…"


def percentage(value: float, step: float) -> str:
    """A share in per cent, with as many decimals as a difference of `step` needs."""
    decimals = min(max(0, -math.floor(math.log10(step * 100))), 12) if step > 0 else 1
    return f"{100 * value:.{decimals}f} %".replace("-", "−")


def amount(value: float, step: float = 0.0) -> str:
    """A number beside an axis, with its thousands apart, and as many decimals as a difference of `step` needs."""
    decimals = -math.floor(math.log10(step)) if step > 0 else 0
    written_out = 0 < decimals <= 9 and abs(value) < 1e9
    return (f"{value:,.{decimals}f}" if written_out else f"{value:,.12g}").replace("-", "−")


def bare(axes: Any, *, percent: bool) -> None:
    """Take away what a plot does not need, and keep few numbers on its axis."""
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, pad=5)
    few_numbers(axes.xaxis, percent=percent)


def few_numbers(axis: Any, *, percent: bool, at_most: int = 7) -> None:
    """Put round numbers beside an axis, written out: no offset or power that a reader has to add or to multiply with."""
    axis.set_major_locator(MaxNLocator(nbins=at_most, steps=[1, 2, 5, 10]))
    ticks = axis.get_major_locator().tick_values(*axis.get_view_interval())
    step = float(ticks[1] - ticks[0])

    def shown(value: float, _place: int | None) -> str:
        exact_zero = 0.0 if abs(value) < step / 100 else value
        return percentage(exact_zero, step) if percent else amount(exact_zero, step)

    axis.set_major_formatter(FuncFormatter(shown))


def picture(draw: Any, height: float, title: str) -> str:
    """The picture as an element that takes the width of the page and its colours."""
    file = io.StringIO()
    with _ONE_AT_A_TIME, mpl.rc_context({**STYLE, "svg.hashsalt": title}), warnings.catch_warnings():
        # The browser chooses the font; that matplotlib's own lacks a character only makes its guess of a width worse.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="none")
        FigureCanvasSVG(figure)
        draw(figure)
        for axes in figure.axes:
            axes.set_facecolor("none")
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _for_page(file.getvalue(), title)


def _for_page(svg: str, title: str) -> str:
    svg = svg[svg.index("<svg") :]
    # The rule for line ends would hold for the whole page, which has it for plots.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="(?:figure|axes|patch|line2d|text|matplotlib\.axis|xtick|ytick|LineCollection|PathCollection)_\d+"', "", svg)
    svg = svg.replace("xlink:href", "href")
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    svg = re.sub(r"(font(?:-family)?: (?:[\d.]+px )?)'DejaVu Sans'[^;\"]*", r"\1var(--font)", svg)
    size = re.search(r'viewBox="[^"]+"', svg)
    label = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    opening = f'<svg class="plot" role="img" aria-label="{label}" {size[0] if size else ""}>'
    return re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1).strip()
