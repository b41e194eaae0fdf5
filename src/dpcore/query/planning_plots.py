"""Plots of plans and rehearsals: errors by ε."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from dpcore.pages.plots import CARD, CURVES, DOT, GRID, INK, MUTED, amount, axis_label, is_narrow, picture, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

NAMED = 8
"""Curves that have their names beside them; of more all are drawn and none is named."""


def error_plot(
    curves: Sequence[tuple[str, Sequence[float], Sequence[float]]], marks: Sequence[tuple[float, float]], *, title: str, label: str
) -> str:
    """Draw errors by ε, both on logarithmic axes.

    Parameters
    ----------
    curves : sequence of (str, sequence of float, sequence of float)
        A name, and the error for each ε.
    marks : sequence of (float, float)
        An ε and its error: where targets are met.
    title : str
        A text for readers who do not see the plot.
    label : str
        What the errors measure.
    """
    # Queries with the same errors have one curve, with the names of all.
    drawn: dict[tuple[tuple[float, float], ...], str] = {}
    for name, epsilons, errors in curves:
        points = tuple((epsilon, error) for epsilon, error in zip(epsilons, errors, strict=True) if error > 0)
        if points:
            drawn[points] = f"{drawn[points]}, {name}" if points in drawn else name

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for place, (points, name) in enumerate(drawn.items()):
            colour = CURVES[place % len(CURVES)]
            dashes = "-" if place < len(CURVES) else (0, (5, 2))
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=dashes, linewidth=1.3, zorder=3)
            if len(drawn) <= NAMED:
                axes.annotate(
                    shortened(name, 14 if is_narrow(figure) else 30),
                    points[0],
                    xytext=(4, 3),
                    textcoords="offset points",
                    color=colour,
                    fontsize=8,
                    bbox={"facecolor": CARD, "edgecolor": "none", "pad": 0.5},
                    zorder=5,
                )
        for epsilon, error in marks:
            axes.plot([epsilon], [error], marker="o", markersize=7, zorder=4, **DOT | {"color": INK})
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks = list(curves[0][1])[:: 2 if is_narrow(figure) else 1]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(visible=True, which="major", color=GRID, linewidth=0.8)
        for side in ("top", "right", "left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0, pad=5, which="both")
        axes.set_xlabel(axis_label(figure, "ε of the query"), color=MUTED)
        axes.set_ylabel(label, color=MUTED)

    return picture(draw, 3.4, title, narrow=3.0)
