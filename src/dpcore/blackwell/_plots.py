"""Plots of testing regions: those of a mechanism inside the region that its guarantee allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._figures import drawn_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Points = npt.NDArray[np.float64]

ALLOWED, TESTS, INK, MUTED = "#e8ebf0", "#1f5fb8", "#1a2029", "#5c6675"
COLOURS = (TESTS, "#c2571a", "#2e7d4f", "#8a3ffc", INK)
SIZE = (4.2, 4.6)
"""Inches."""


def allowed_region(epsilon: float, delta: float) -> Points:
    """Return the corners of R(ε, δ) within [0, 1]², counterclockwise from (1, 0): what lies above both lines, and its mirror image."""
    # where P_FA + e^ε P_MD = 1 − δ and e^ε P_FA + P_MD = 1 − δ meet
    both = (1 - delta) / (1 + math.exp(epsilon))
    least = [(1.0, 0.0), (1.0, delta), (1 - both, 1 - both), (delta, 1.0)]
    return np.array([*least, *((1 - x, 1 - y) for x, y in least)])


def draw_regions(regions: Sequence[Points], epsilon: float, delta: float, target: Any) -> Any:
    """Draw regions, each given by its corners, inside R(ε, δ): on axes, or into a file. Return the axes or the path."""
    return drawn_on(target, lambda axes: _draw(axes, regions, epsilon, delta), SIZE)


def draw_curves(curves: Sequence[tuple[str, Points]], target: Any) -> Any:
    """Draw named trade-off curves, each given by its corners: on axes, or into a file. Return the axes or the path."""
    return drawn_on(target, lambda axes: _draw_curves(axes, curves), SIZE)


def _draw_curves(axes: Any, curves: Sequence[tuple[str, Points]]) -> None:
    for place, (name, corners) in enumerate(curves):
        axes.plot(*corners.T, color=COLOURS[place % len(COLOURS)], linewidth=1.3, zorder=3, label=name)
    axes.plot([0, 1], [1, 0], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=2, label="tests that ignore the outcome")
    _frame(axes, "level, P_FA", "missed detection, P_MD")


def _draw(axes: Any, regions: Sequence[Points], epsilon: float, delta: float) -> None:
    axes.fill(*allowed_region(epsilon, delta).T, color=ALLOWED, linewidth=0, zorder=1, label=f"R(ε, δ) for ε = {epsilon:g}, δ = {delta:g}")
    for place, corners in enumerate(regions):
        closed = np.concatenate([corners, corners[:1]])
        label = None if place else "tests of a state against a neighbour"
        axes.fill(*corners.T, color=TESTS, alpha=min(0.2, 0.6 / len(regions)), linewidth=0, zorder=2)
        axes.plot(*closed.T, color=TESTS, linewidth=1.2, zorder=3, label=label)
    axes.plot([0, 1], [1, 0], color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=4, label="tests that ignore the outcome")
    _frame(axes, "missed detection, P_MD", "false alarm, P_FA")


def _frame(axes: Any, x_label: str, y_label: str) -> None:
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel(x_label, color=INK, fontsize=8.5)
    axes.set_ylabel(y_label, color=INK, fontsize=8.5)
    axes.tick_params(length=0, pad=4, labelsize=8, labelcolor=MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 1.0), frameon=False, fontsize=8, labelcolor=INK)
