"""Bands of released distributions: they hold the data's or the population's curve at all points at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._html import facts_table
from dpcore._validation import REAL_DTYPES, check_array
from dpcore.distributions._base import check_points
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.distributions._boxes import Box, Reals
    from dpcore.distributions._cells import Cells

_ULPS = 4
"""Units in the last place between an edge and the place where the cell of a record changes, at most."""
_UP = 2.0**-50
"""More than the roundings of an end, relative to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class CdfBand:
    """A band of a distribution function. Call it with points, or ask for intervals of quantiles.

    Attributes
    ----------
    confidence : float
        Probability with which the whole band holds.
    target : {"population", "sample"}
        Whose distribution function it holds: that of the law of the records, which must be independent, or of the data set's records.
    cells : Cells
        The m cells at whose edges it has steps.
    lower, upper : ndarray of float64, shape (m + 1,)
        Ends of the band of the mass below each of `edges`, from 0 to 1.

    Notes
    -----
    With probability at least `confidence`, F(x) lies between both ends for every x, F the distribution function of the records as clamped
    to the bounds. So all intervals of quantiles hold at once as well.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.distributions import perturbed_histogram
    >>> ages = np.random.default_rng(1).gamma(8.0, 5.0, 100_000)
    >>> band = perturbed_histogram(ages, epsilon=0.5, bounds=(0, 120), bins=100).cdf_band(0.999999)
    >>> low, high = band(40.0)
    >>> bool(low <= np.mean(ages <= 40) <= high), bool(high - low < 0.08)
    (True, True)
    >>> low, high = band.quantile(0.5)
    >>> bool(low <= np.median(ages) <= high)
    True
    """

    confidence: float
    target: Literal["population", "sample"]
    cells: Cells
    lower: Reals
    upper: Reals

    @property
    def edges(self) -> Reals:
        """Edges of the cells."""
        return self.cells.edges()

    def __call__(self, x: npt.ArrayLike) -> Reals:
        """Return the ends of the band.

        Parameters
        ----------
        x : array_like, shape (...)
            Points, in the units of the bounds.

        Returns
        -------
        ndarray of float64, shape (..., 2)
            Lower and upper end for each point. Below the bounds both are 0, and from the upper bound on 1.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `x` holds NaN or no numbers.
        """
        rows, shape = check_points(x, 1)
        codes = self.cells.codes(np.clip(rows, self.cells.box.low[0], self.cells.box.high[0]))
        ends = np.stack([self.lower[codes], self.upper[codes + 1]], axis=-1)
        # A point has all cells below its own below it, and none above.
        ends[rows[:, 0] < self.cells.box.low[0]] = 0.0
        ends[rows[:, 0] >= self.cells.box.high[0]] = 1.0
        return ends.reshape((*shape, 2))

    def quantile(self, q: npt.ArrayLike) -> Reals:
        """Return intervals of quantiles, which hold all at once.

        Parameters
        ----------
        q : array_like, shape (...)
            Levels in (0, 1).

        Returns
        -------
        ndarray of float64, shape (..., 2)
            Lower and upper end of the least ξ with F(ξ) ≥ q, for each level.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a level is not in (0, 1).
        """
        levels = check_array("q", q, REAL_DTYPES).astype(np.float64)
        if not ((levels > 0) & (levels < 1)).all():
            raise ParameterError("q must be in (0, 1), and a level is not")
        box = self.cells.box
        room = _ULPS * np.spacing(max(abs(box.low[0]), abs(box.high[0])))
        # F(x) ≤ upper[j + 1] < q for all x of cell j: ξ is in a later one. lower[j] ≥ q: cells before edge j have a mass of q.
        first = np.searchsorted(self.upper[1:], levels, side="left")
        last = np.searchsorted(self.lower, levels, side="left")
        ends = np.stack([self.edges[first] - room, self.edges[last] + room], axis=-1)
        return np.asarray(np.clip(ends, box.low[0], box.high[0]))

    def _repr_html_(self) -> str:
        return facts_table("Band of a distribution function", _facts(self.confidence, self.target, [("cells", f"{self.cells.m:,}")]))


@dataclass(frozen=True, slots=True, eq=False)
class DensityBand:
    """A band of a density. Call it with points.

    Attributes
    ----------
    confidence : float
        Probability with which the whole band holds.
    target : {"population", "sample"}
        Whose density it is about.
    about : str
        What it holds: averages of the density over cells, or a projection onto cosines. It does not hold the density itself, whose
        difference from these is the bias of the cells or of the series.
    box : Box
        Bounds of the records.
    ends : callable
        Gives the ends, shape (q, 2), at points (q, r) of the box.
    """

    confidence: float
    target: Literal["population", "sample"]
    about: str
    box: Box
    ends: Callable[[Reals], Reals]

    def __call__(self, x: npt.ArrayLike) -> Reals:
        """Return the ends of the band.

        Parameters
        ----------
        x : array_like
            Points: any shape if r = 1, else (..., r); in the units of the bounds.

        Returns
        -------
        ndarray of float64, shape (..., 2)
            Lower and upper end for each point; 0 outside the bounds.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `x` holds NaN or no numbers, or has another number of coordinates.
        """
        rows, shape = check_points(x, self.box.dimension)
        found = np.where(self.box.contains(rows)[:, None], self.ends(rows), 0.0)
        return found.reshape((*shape, 2))

    def _repr_html_(self) -> str:
        return facts_table("Band of a density", _facts(self.confidence, self.target, [("about", self.about)]))


def _facts(confidence: float, target: str, more: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [("confidence", f"{confidence:.6g}, all points at once"), ("target", target), *more]


def cdf_band(ends: tuple[Reals, Reals], cells: Cells, n: int, confidence: float, target: Any, *, reach: float) -> CdfBand:
    """Make a band from ends of the sample's distribution function at the inner edges, and the reach of a population beyond it.

    Counts of the sample are whole numbers, and a distribution function does not fall.
    """
    # 2^-50 is more than the rounding of n times a share; below 1, where that is less than nothing, 2^-40 is
    below = np.ceil(np.clip(ends[0], 0.0, 1.0) * n * (1 - _UP) - 2.0**-40) / n - reach
    above = np.floor(np.clip(ends[1], 0.0, 1.0) * n * (1 + _UP) + 2.0**-40) / n + reach
    lower = np.maximum.accumulate(np.clip(below, 0.0, 1.0) * (1 - _UP))
    upper = np.minimum.accumulate(np.clip(above, 0.0, 1.0)[::-1])[::-1] * (1 + _UP)
    # Counts that no data are likely to give may leave nothing between the two.
    upper = np.clip(np.maximum(lower, upper), 0.0, 1.0)
    return CdfBand(confidence, target, cells, np.concatenate([[0.0], lower, [1.0]]), np.concatenate([[0.0], upper, [1.0]]))


def masses_band(low: Reals, high: Reals, cells: Cells, confidence: float, target: Any) -> DensityBand:
    """Make a band of averages of a density over cells from ends of the masses of the cells."""
    ends = np.stack([low, high], axis=-1) / cells.volume * [1 - _UP, 1 + _UP]
    return DensityBand(confidence, target, "averages over cells", cells.box, lambda rows: ends[cells.codes(rows)])
