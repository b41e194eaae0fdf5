"""The plot of a rehearsal: bias, noise and total error beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter

from dpcore._dataclasses import dataclass
from dpcore.pages.plots import ACCENT, DOT, GRID, INK, MUTED, amount, axis_label, is_narrow, picture, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

HEIGHT, MORE = 0.9, 0.34
"""Inches of a plot without bars, and of each bar."""


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """The errors of one number, or of one setting.

    Attributes
    ----------
    name : str
        What it is called.
    bias, noise, total : float
        None is negative.
    """

    name: str
    bias: float
    noise: float
    total: float


def errors_plot(bars: Sequence[ErrorBar], *, title: str) -> str:
    """Draw the errors of numbers, one below the other.

    Parameters
    ----------
    bars : sequence of ErrorBar
        From the top down.
    title : str
        A text for readers who do not see the plot.
    """

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = list(range(len(bars)))
        axes.barh([place - 0.17 for place in places], [bar.bias for bar in bars], height=0.3, color=INK, zorder=3, label="bias")
        axes.barh([place + 0.17 for place in places], [bar.noise for bar in bars], height=0.3, color=ACCENT, zorder=3, label="noise")
        axes.plot([bar.total for bar in bars], places, linestyle="none", marker="o", markersize=6, zorder=4, label="total error", **DOT)
        axes.set_yticks(places, [shortened(bar.name, 14 if is_narrow(figure) else 30) for bar in bars])
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
        axes.locator_params(axis="x", nbins=4 if is_narrow(figure) else 7)
        axes.grid(visible=True, axis="x", color=GRID, linewidth=0.8)
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0, pad=5)
        axes.set_xlabel(axis_label(figure, "off by, in the unit of the answer"), color=MUTED)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.2, handlelength=1, fontsize=8)

    height = HEIGHT + MORE * len(bars)
    return picture(draw, height, title, narrow=height)
