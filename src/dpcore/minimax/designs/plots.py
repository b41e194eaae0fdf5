"""The plot of an advice: proved risks of estimators beside the bound that no private method goes below."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpcore.minimax.designs.advice import Advice

EXTRA_MISSING = "plots need the extra `report`: pip install 'dpcore[report]'"
BAR, BOUND, INK = "#2a78d6", "#c44e1b", "#333333"


def plot_advice(advice: Advice, target: Any) -> Any:
    """Draw an advice on axes or into a file, and return the axes or the path."""
    if hasattr(target, "plot"):
        _draw(advice, target)
        return target
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(EXTRA_MISSING) from None
    path = Path(target)
    figure = Figure(figsize=(7.2, 1.4 + 0.42 * len(advice.options)), layout="constrained")
    _draw(advice, figure.add_subplot())
    figure.savefig(path)
    return path


def _draw(advice: Advice, axes: Any) -> None:
    options, lower = advice.options, advice.lower.value
    places = range(len(options))
    axes.set_xscale("log")
    if lower > 0:
        axes.axvspan(lower / 1e6, lower, color=BOUND, alpha=0.12, linewidth=0)
        axes.axvline(lower, color=BOUND, linewidth=1.6)
        for place, option in zip(places, options, strict=True):
            axes.plot([lower, option.risk], [place, place], color=BAR, linewidth=1.0, alpha=0.5)
            axes.annotate(f"{option.risk / lower:.2f} ×", (option.risk, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.plot([option.risk for option in options], list(places), linestyle="none", marker="o", markersize=7, color=BAR)
    known = [option.risk for option in options if option.risk > 0] + ([lower] if lower > 0 else [])
    if known:
        axes.set_xlim(min(known) / 2, max(known) * 4)
    axes.set_yticks(list(places), [option.name for option in options])
    axes.set_ylim(len(options) - 0.5, -0.5)
    axes.set_xlabel("largest expected loss; no private method reaches the shaded part")
    axes.set_title(f"ε = {advice.epsilon:g}, n = {advice.n:,}", fontsize=10, loc="left", color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
