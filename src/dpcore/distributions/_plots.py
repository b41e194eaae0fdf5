"""A released density as a picture: steps or a line on one axis, an image on two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.distributions._cells import Cells
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from dpcore.distributions._results import Release

EXTRA_MISSING = "plot needs the extra `report`: pip install 'dpcore[report]'"
SIZE = (5.6, 3.4)
"""Inches."""
LINE, FILL, INK, MUTED = "#1f5fb8", "#e8ebf0", "#1a2029", "#5c6675"
POINTS, PIXELS = 1024, 256
"""Points of a line, and of an image per axis."""


def draw_density(release: Release, ax: Any) -> Any:
    """Draw on axes, or on new ones; returns which."""
    if release.dimension > 2:
        raise ParameterError(f"plot must have a release with at most 2 coordinates, got {release.dimension}")
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


def _new_axes() -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(EXTRA_MISSING, name=error.name) from error
    return Figure(figsize=SIZE, layout="constrained").subplots()


def _draw_line(axes: Any, release: Release) -> None:
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


def _draw_image(axes: Any, release: Release) -> None:
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
