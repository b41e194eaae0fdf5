"""The plots of the page of `dpcore bench`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcore.bench.scaling import COPY, ONE_COPY
from dpcore.pages.plots import frequency_plot
from dpcore.reproduce.plots import figure_plot
from dpcore.reproduce.results import Figure, Panel, Role, Series

if TYPE_CHECKING:
    from dpcore.bench.results import Row

ROLES: dict[str, Role] = {
    "NumPy, unsafe": "second",
    "key + keystream + copy": "theory",
    "call: no values": "second theory",
    "key: os.urandom(32)": "third",
}
"""How the sides of a curve are drawn."""
LABELS = {
    "NumPy, unsafe": "NumPy (not safe to release)",
    "key + keystream + copy": "bound: key + keystream + copy",
    "call: no values": "bound: the call without values",
    "key: os.urandom(32)": "bound: the key",
}
MOST_LINES = 4


def curve_figure(name: str, rows: Sequence[Row]) -> str:
    """Draw time against size, for one function.

    Parameters
    ----------
    name : str
        The function.
    rows : sequence of Row
        The points of its curve, by size.
    """
    series = [Series("dpcore", *_points((row.size, row.ours.seconds * 1e9 / row.size) for row in rows))]
    for side, role in ROLES.items():
        found = [(row.size, other.seconds * 1e9 / row.size) for row in rows if (other := row.other(side)) is not None]
        if found:
            series.append(Series(LABELS[side], *_points(found), role=role))
    caption = f"{name}: nanoseconds a value against the number of values; lower is faster, and both axes are logarithmic"
    return figure_plot(Figure(caption, (Panel("number of values", "nanoseconds a value", tuple(series)),)))


def bound_figure(curves: Mapping[str, Sequence[Row]]) -> str:
    """Draw the distance to the bound against size.

    Parameters
    ----------
    curves : dict
        For each function, the points of its curve.
    """
    roles: tuple[Role, ...] = ("measured", "second", "third", "fourth")
    series = []
    for (name, rows), role in zip(curves.items(), roles, strict=False):
        found = [(row.size, ratio.value) for row in rows if (judge := row.judge) is not None and (ratio := row.to_bound(judge)) is not None]
        if found:
            series.append(Series(name, *_points(found), role=role))
    caption = "Time of dpcore ÷ the time of the key, the random words and one copy, against the number of values; 1 is the bound"
    highest = max(value for one in series for value in one.y)
    panel = Panel("number of values", "times the bound", tuple(series), log="x", limits=(0.0, 1.1 * highest))
    return figure_plot(Figure(caption, (panel,)))


def thread_figure(rows: Sequence[Row]) -> str:
    """Draw the gain of several threads, with its band.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the most threads that were measured.
    """
    found = [(row.name, ratio) for row in rows if (ratio := row.ratio(row.others[0])) is not None]
    values = np.array([ratio.value for _, ratio in found])
    ends = np.array([[ratio.low, ratio.high] for _, ratio in found])
    return frequency_plot(
        [name for name, _ in found], values, ends, title=f"Gain of {rows[0].threads} threads beside one, with bands",
        label="times as fast as on one thread", percent=False,
    )  # fmt: skip


def scaling_figure(rows: Sequence[Row], caption: str) -> str:
    """Draw the gain against the number of threads, from one to all, for a few benchmarks, beside the most that threads can give.

    Parameters
    ----------
    rows : sequence of Row
        Rows of one character. Of computing the bound is as many times as threads, of the memory the gain of a copy.
    caption : str
        Says which.
    """
    names = list(dict.fromkeys(row.name for row in rows))[:MOST_LINES]
    roles: tuple[Role, ...] = ("measured", "second", "third", "fourth")
    series = []
    for name, role in zip(names, roles, strict=False):
        gains = [(row.threads, ratio.value) for row in rows if row.name == name and (ratio := row.ratio(row.others[0])) is not None]
        series.append(Series(name, *_points([(1, 1.0), *gains]), role=role))
    copies = [(row.threads, gain) for row in rows if row.name == names[0] and (gain := copy_gain(row)) is not None]
    most = max(row.threads for row in rows)
    bound = ("gain of a copy", copies) if copies else ("as many times as threads", [(most, float(most))])
    series.append(Series(bound[0], *_points([(1, 1.0), *bound[1]]), role="theory"))
    return figure_plot(Figure(caption, (Panel("threads", "times as fast as one thread", tuple(series), log=""),)))


def copy_gain(row: Row) -> float | None:
    """How many times as fast several threads copy as one does; None if that was not measured.

    Parameters
    ----------
    row : Row
        A row of several threads.
    """
    one, several = row.other(ONE_COPY), row.other(COPY)
    return None if one is None or several is None else one.seconds / several.seconds


def _points(pairs: Iterable[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    found = list(pairs)
    return tuple(float(x) for x, _ in found), tuple(float(y) for _, y in found)
