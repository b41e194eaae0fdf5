"""A released density as a picture: with matplotlib, or as HTML with a small SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dpcore._extras import needs, refuse_old
from dpcore._html import escaped, facts_table, guarantee
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import Cells
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (5.6, 3.4)
"""Inches."""
LINE, FILL, INK, MUTED = "#1f5fb8", "#e8ebf0", "#1a2029", "#5c6675"
POINTS, PIXELS = 1024, 256
"""Points of a line, and of an image per axis."""
SVG_WIDTH, SVG_HEIGHT, SVG_POINTS = 360, 120, 180


class Drawable(Protocol):
    """The attributes of a release that a picture uses."""

    @property
    def privacy(self) -> Privacy: ...
    @property
    def n(self) -> int: ...
    @property
    def box(self) -> Box: ...
    @property
    def dimension(self) -> int: ...
    def density(self, x: npt.NDArray[np.float64]) -> Any: ...


def draw_density(release: Drawable, ax: Axes | None) -> Axes:
    """Draw on axes, or on new ones, and return the axes."""
    if release.dimension > 2:
        raise ParameterError(
            f"plot must have a release with at most 2 coordinates, got {release.dimension}: draw a `sample` of two of them instead"
        )
    axes = ax if ax is not None else _new_axes()
    if release.dimension == 1:
        _draw_line(axes, release)
    else:
        _draw_image(axes, release)
    axes.tick_params(labelsize=8, labelcolor=MUTED, color=MUTED)
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(MUTED)
    return axes


def _new_axes() -> Axes:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(needs("plot needs", "report"), name=error.name) from error
    refuse_old("matplotlib")
    return Figure(figsize=SIZE, layout="constrained").subplots()


def _draw_line(axes: Any, release: Drawable) -> None:
    label = f"released, ε = {release.privacy.epsilon:g}"
    cells = getattr(release, "cells", None)
    if isinstance(cells, Cells) and cells.m <= POINTS:
        edges = cells.edges()
        values = release.density((edges[1:] + edges[:-1]) / 2)
        axes.stairs(values, edges, fill=True, color=FILL, zorder=1)
        axes.stairs(values, edges, color=LINE, linewidth=1.4, label=label, zorder=2)
    else:
        x = np.linspace(release.box.low[0], release.box.high[0], POINTS)
        values = release.density(x)
        axes.fill_between(x, values, color=FILL, linewidth=0, zorder=1)
        axes.plot(x, values, color=LINE, linewidth=1.4, label=label, zorder=2)
    axes.set_xlim(release.box.low[0], release.box.high[0])
    axes.set_ylim(bottom=0, auto=True)  # what is drawn over it may be higher
    axes.set_ylabel("density", fontsize=8.5, color=INK)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)


def _draw_image(axes: Any, release: Drawable) -> None:
    (left, bottom), (right, top) = release.box.low, release.box.high
    middles = (np.arange(PIXELS) + 0.5) / PIXELS
    x, y = np.meshgrid(left + middles * (right - left), bottom + middles * (top - bottom))
    values = release.density(np.stack([x, y], axis=-1))
    image = axes.imshow(values, origin="lower", extent=(left, right, bottom, top), aspect="auto", cmap="Blues", vmin=0)
    axes.set_xlabel("x1", fontsize=8.5, color=INK)
    axes.set_ylabel("x2", fontsize=8.5, color=INK)
    bar = axes.figure.colorbar(image, ax=axes)
    bar.set_label(f"density released, ε = {release.privacy.epsilon:g}", fontsize=8.5, color=INK)
    bar.ax.tick_params(labelsize=8, labelcolor=MUTED, color=MUTED)
    bar.outline.set_visible(False)


# For notebooks


def density_html(release: Drawable, rows: Sequence[tuple[str, str]]) -> str:
    """Facts of a release, and its density on one axis."""
    box = release.box
    bounds = " × ".join(f"[{low:g}, {high:g}]" for low, high in zip(box.low, box.high, strict=True))
    facts = [("privacy", guarantee(release.privacy)), ("records n", f"{release.n:,}"), ("bounds", bounds), *rows]
    table = facts_table(type(release).__name__, facts)
    return table + _density_svg(release) if release.dimension == 1 else table


def _density_svg(release: Drawable) -> str:
    """The density at evenly spaced points, as an area."""
    low, high = release.box.low[0], release.box.high[0]
    points = low + (np.arange(SVG_POINTS) + 0.5) / SVG_POINTS * (high - low)
    values = np.asarray(release.density(points), np.float64)
    top = float(values.max()) or 1.0
    across = (np.arange(SVG_POINTS) + 0.5) / SVG_POINTS * SVG_WIDTH
    corners = " ".join(f"{x:.1f},{SVG_HEIGHT - y / top * (SVG_HEIGHT - 2):.1f}" for x, y in zip(across, values, strict=True))
    area = f"0,{SVG_HEIGHT} {corners} {SVG_WIDTH},{SVG_HEIGHT}"
    label = escaped(f"released density from {low:g} to {high:g}, highest value {top:.3g}")
    return (
        f"<svg viewBox='0 0 {SVG_WIDTH} {SVG_HEIGHT}' width='{SVG_WIDTH}' height='{SVG_HEIGHT}' role='img' aria-label='{label}'>"
        f"<polygon points='{area}' fill='{FILL}' stroke='{LINE}' stroke-width='1.4'/></svg>"
    )
