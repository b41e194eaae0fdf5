"""The axis over which bins are drawn, with bars as wide as their bins: linear if all of them can be seen there, else logarithmic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.pages.numbers import counted, plain_number
from dpcore.tables.types.timed import DAY, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[np.float64]


SEPARATE_BARS = 60
"""More bins than these are drawn as a line with a band, not as bars with error bars."""
MOST_STEPS = 1000
"""Steps of a line, at the most: a screen has no more columns to show them in."""
NARROWEST = 1 / 150
"""The share of the axis below which a bar would be too narrow to see."""
Scale = Literal["counts", "densities", "powers", "list"]


@dataclass(frozen=True, slots=True)
class BinAxis:
    """Where bins lie on the axis on which they are drawn.

    Attributes
    ----------
    scale : {"counts", "densities", "powers", "list"}
        Bins of one width: the axis is linear, and heights are counts. Bins of several widths: the axis is linear, and heights are counts
        over widths, so that areas show counts. Bins of which one would be too narrow to see there: the axis is logarithmic, and heights are
        counts over widths on this axis. Bins that no axis shows: there is none, and bins are a list.
    edges : ndarray of shape (m + 1,)
        Of the bins.
    places : ndarray of shape (m + 1,)
        Of the edges on the axis.
    starts : ndarray of shape (s,)
        The first bin of each step of a line. Of bars each bin is a step of its own.
    names : tuple of str
        The edges as text.
    unit : str
        What one unit of the edges is, if it is known.
    is_timed : bool
        Whether the edges are dates, timestamps, times or durations.
    """

    scale: Scale
    edges: Array
    places: Array
    starts: npt.NDArray[np.intp]
    names: tuple[str, ...]
    unit: str = ""
    is_timed: bool = False

    @property
    def is_line(self) -> bool:
        """Whether the bins are a line with a band."""
        return len(self.edges) - 1 > SEPARATE_BARS

    @property
    def per(self) -> Array:
        """What counts are divided by to get heights."""
        return np.ones(len(self.edges) - 1) if self.scale in {"counts", "list"} else np.diff(self.places)

    @property
    def linear_to(self) -> float:
        """The number up to which an axis of powers is linear; 0 if it has no such part."""
        has_none = self.scale != "powers" or self.edges[0] > 0 or self.edges[-1] < 0
        return 0.0 if has_none else _least(self.edges)

    def per_unit(self, column: str) -> str:
        """What heights are, such as "rows per unit of cost".

        Parameters
        ----------
        column : str
            What the bins divide.
        """
        units = {"densities": f" per {self.unit or f'unit of {column}'}", "powers": " per factor of ten"}
        return f"rows{units.get(self.scale, '')}"

    def notes(self, column: str) -> list[str]:
        """Sentences below the plot.

        Parameters
        ----------
        column : str
            What the bins divide.
        """
        return [note for note in (self._on_scale(self.per_unit(column)), self._on_steps()) if note]

    def _on_scale(self, heights: str) -> str:
        if self.scale == "counts":
            return ""
        if self.scale == "list":
            return "The widths of the bins differ too much for one axis, so this is a list of counts, and no bar is as wide as its bin."
        shape = "The height of the line" if self.is_line else "Each bar is as wide as its bin, and its area shows the count: the height"
        said = f"{shape} is the number of {heights}."
        if self.scale == "densities":
            return f"The bins differ in width. {said}"
        part = f" {self._linear_part()}" if self.linear_to else ""
        return f"The bins differ so much in width that the axis is logarithmic. {said}{part}"

    def _linear_part(self) -> str:
        end = plain_number(self.linear_to)
        if self.edges[0] < 0 < self.edges[-1]:
            return f"From \u2212{end} to {end} it is linear, and each half of that is as wide as a factor of ten."
        low, high = ("0", end) if self.edges[0] >= 0 else (f"\u2212{end}", "0")
        return f"From {low} to {high} it is linear, and that is as wide as a factor of ten."

    def _on_steps(self) -> str:
        steps, bins = len(self.starts), len(self.edges) - 1
        if steps == bins:
            return ""
        if self.scale == "counts":
            merged = int(self.starts[1]) if steps > 1 else bins
            return f"Each step of the line is the mean of {counted(merged, 'neighbouring bin')}, and the band holds all of their intervals."
        return "Bins too narrow to see share a step of the line with their neighbours, and the band adds up their intervals."


def bin_axis(edges: Array, unit: str = "") -> BinAxis:
    """Return the axis for bins of numbers.

    Parameters
    ----------
    edges : ndarray of shape (m + 1,)
        Increasing and finite.
    unit : str, default ""
        Their unit of measure.
    """
    names, bins = tuple(plain_number(float(edge)) for edge in edges), len(edges) - 1
    linear = _linear(edges, names, unit)
    if linear is not None:
        return linear
    places, is_line = powers(edges), bins > SEPARATE_BARS
    finest = (1 / MOST_STEPS if is_line else NARROWEST) * (places[-1] - places[0])
    if is_line:
        return BinAxis("powers", edges, places, _steps(places, finest), names)
    if np.diff(places).min() >= finest:
        return BinAxis("powers", edges, places, np.arange(bins), names)
    return _listed(edges, names)


def timed_axis(edges: Sequence[str]) -> BinAxis:
    """Return the axis for bins of dates, timestamps, times or durations.

    Parameters
    ----------
    edges : sequence of str
        Increasing, as ISO 8601 writes them.
    """
    found = [parsed(edge) for edge in edges]
    sorts = {sort for sort, _ in filter(None, found)}
    unit, size = ("hour", DAY / 24) if sorts <= {"time", "duration"} else ("day", 1 if sorts == {"date"} else DAY)
    numbers = np.array([number / size for _, number in filter(None, found)])
    axis = _linear(numbers, tuple(edges), unit)
    if axis is None and len(numbers) - 1 > SEPARATE_BARS:
        starts = _steps(numbers, (numbers[-1] - numbers[0]) / MOST_STEPS)
        axis = BinAxis("densities", numbers, numbers, starts, tuple(edges), unit)
    return replace(_listed(numbers, tuple(edges)) if axis is None else axis, is_timed=True)


def axis_of_bins(query: Mapping[str, Any]) -> BinAxis | None:
    """The axis of a histogram in a document; None if it is over categories.

    Parameters
    ----------
    query : mapping
        An entry of `queries`, or a column of a synthetic table.
    """
    edges = query.get("edges")
    if edges is None:
        return None
    return timed_axis(edges) if isinstance(edges[0], str) else bin_axis(np.asarray(edges, dtype=np.float64), query.get("unit_of_bins", ""))


def _linear(edges: Array, names: tuple[str, ...], unit: str) -> BinAxis | None:
    """A linear axis, if all bins can be seen on it."""
    widths, bins = np.diff(edges), len(edges) - 1
    every = np.arange(bins)
    if widths.max() <= (1 + 1e-9) * widths.min():
        return BinAxis("counts", edges, edges, every[:: -(-bins // MOST_STEPS)], names, unit)
    finest = 1 / MOST_STEPS if bins > SEPARATE_BARS else NARROWEST
    fits = widths.min() >= finest * (edges[-1] - edges[0])
    return BinAxis("densities", edges, edges, every, names, unit) if fits else None


def _listed(edges: Array, names: tuple[str, ...]) -> BinAxis:
    return BinAxis("list", edges, np.arange(len(edges), dtype=np.float64), np.arange(len(edges) - 1), names)


def powers(edges: Array) -> Array:
    """Places on an axis of powers of ten, on which numbers below the least size of an edge lie linearly around 0.

    Parameters
    ----------
    edges : ndarray of shape (m,)
        Finite numbers.
    """
    sizes = np.abs(edges)
    least = _least(edges)
    found: Array = np.sign(edges) * (1 + np.log10(np.maximum(sizes, least)) - np.log10(least))
    return found


def _least(edges: Array) -> float:
    """The least size of an edge that is not 0."""
    sizes = np.abs(edges)
    return float(sizes[sizes > 0].min())


def _steps(places: Array, least: float) -> npt.NDArray[np.intp]:
    """The first bin of each step, so that every step has at least this width."""
    starts, left = [0], 0
    for place in range(1, len(places) - 1):
        if places[place] - places[left] >= least:
            starts.append(place)
            left = place
    if len(starts) > 1 and places[-1] - places[starts[-1]] < least:
        starts.pop()
    return np.array(starts, np.intp)
