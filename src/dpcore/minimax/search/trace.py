"""The intervals that a binary search of tests visits, and a plot of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dpcore._dataclasses import dataclass
from dpcore._figures import drawn_on

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpcore.minimax.search.search import Search

KEPT, REMOVED, INK, SOFT = "#2a6f97", "#d08c60", "#22262a", "#c9ced3"


class TraceStep(NamedTuple):
    """One test of a search.

    Attributes
    ----------
    lower, upper : float
        The interval [l, u) in which θ is searched.
    a, b : float
        H0: θ ≤ a is tested against H1: θ ≥ b.
    outcome : int
        1 removes [l, a), 0 removes [b, u).
    """

    lower: float
    upper: float
    a: float
    b: float
    outcome: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The course of a binary search of tests for one data set.

    Attributes
    ----------
    intervals : tuple of TraceStep
        The tests in order, in units of θ.
    estimate : float
        The middle of the last interval.
    """

    intervals: tuple[TraceStep, ...]
    estimate: float


def trace_search(search: Search, counts: npt.NDArray[np.int64]) -> Trace:
    """Follow one data set, shape (K,), through the tests."""
    low = search.theta_range[0]
    steps, place = [], 1

    def theta(steps_up: int) -> float:
        return search.frame.point(low + steps_up * search.step)

    for level in range(1, search.intervals - 1):
        left = search.intervals - level
        outcome = search.decide(level, place, counts)
        steps.append(TraceStep(theta(place - 1), theta(place + left), theta(place), theta(place + left - 1), outcome))
        place += outcome
    return Trace(tuple(steps), search.frame.point(low + float(search.grid[place - 1])))


def plot_trace(trace: Trace, search: Search, target: Any) -> Any:
    """Draw a trace on axes or into a file, and return the axes or the path."""
    size = (7.2, 1.2 + 0.24 * min(len(trace.intervals) + 1, 40))
    return drawn_on(target, lambda axes: _draw(trace, search, axes), size)


def _draw(trace: Trace, search: Search, axes: Any) -> None:
    low, step = search.frame.point(search.theta_range[0]), search.frame.difference(search.step)
    last = len(trace.intervals) + 1
    for level in range(1, last + 1):
        axes.plot([low, low + search.intervals * step], [level, level], color=SOFT, linewidth=0.8, zorder=1)
    for level, visited in enumerate(trace.intervals, 1):
        removed = (visited.lower, visited.a) if visited.outcome else (visited.b, visited.upper)
        kept = (visited.a, visited.upper) if visited.outcome else (visited.lower, visited.b)
        axes.plot(kept, [level, level], color=KEPT, linewidth=2.6, solid_capstyle="butt", zorder=2)
        axes.plot(removed, [level, level], color=REMOVED, linewidth=2.6, solid_capstyle="butt", zorder=2)
        axes.plot([visited.a, visited.b], [level, level], linestyle="none", marker="|", markersize=9, color=INK, zorder=3)
    if trace.intervals:
        half = step if search.intervals > 2 else search.frame.difference(search.reach) / 2
        axes.plot([trace.estimate - half, trace.estimate + half], [last, last], color=KEPT, linewidth=2.6, solid_capstyle="butt", zorder=2)
    axes.plot([trace.estimate], [last], linestyle="none", marker="o", markersize=6, color=INK, zorder=4)
    axes.set_ylim(last + 0.7, 0.3)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("θ")
    axes.set_ylabel("test")
    axes.set_title("kept blue, removed orange; bars mark a and b, the dot is the estimate", fontsize=9, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
