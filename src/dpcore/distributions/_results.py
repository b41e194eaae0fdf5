"""Releases that are draws, or a histogram."""

from __future__ import annotations

import itertools
from dataclasses import field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._proportions import share_limits
from dpcore._spread import check_confidence, half_width, standard_deviation, tail_of, tail_width
from dpcore.accounting import laplace_scale
from dpcore.distributions._base import Release
from dpcore.distributions._boxes import Reals
from dpcore.distributions._cells import Cells
from dpcore.distributions._choices import Uniforms
from dpcore.distributions._records import columns_of
from dpcore.distributions._simultaneous import SHARES, Link, check_target, count_sums_width, dkw_width
from dpcore.distributions.bands import CdfBand, DensityBand, cdf_band, masses_band
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from dpcore.rng import Stream

DENSITY_SHARE = 0.5
"""Share of the probability of error that the noise may have in a band of a population's density."""
_PAIRS = 1 << 22
"""Comparisons of a point with a draw that are held in memory at once."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawsRelease(Release):
    """A release that consists of k draws. Everything else is computed from them.

    Attributes
    ----------
    privacy : Privacy
        Guarantee of all draws together.
    n : int
        Number of records it was made from.
    box : Box
        Bounds of the records.
    draws : ndarray of float64, shape (k,) or (k, r)
        The draws; read-only.
    cells : Cells
        Cells of the histogram of the draws, which is the density f̂_Z of Wasserman & Zhou (2010), Eq. 8.
    link : object or None
        How the draws came from the data, for `cdf_band`.

    Notes
    -----
    `sample` draws from the histogram of the draws, `density` is that of the histogram, and `cdf` is the empirical distribution function
    of the draws.
    Cost: `cdf` takes one sort if r = 1, else k comparisons a point.
    """

    draws: Reals
    cells: Cells
    link: Link | None = field(default=None, kw_only=True, repr=False)
    _masses: Reals = field(init=False, repr=False)

    def __post_init__(self) -> None:
        draws = np.array(self.draws, np.float64)
        draws.flags.writeable = False
        masses = self.cells.counts(draws) / len(draws)
        object.__setattr__(self, "draws", draws)
        object.__setattr__(self, "_masses", masses)

    def cdf_band(self, confidence: float = 0.95, *, target: Literal["population", "sample"] = "population") -> CdfBand:
        """Return a band that holds the distribution function of the data, or of their population, at all points at once.

        Parameters
        ----------
        confidence : float, default 0.95
            Probability, in (0, 1), with which the whole band holds: over the draws, and over the records for a population.
        target : {"population", "sample"}, default "population"
            Whether to hold the distribution function of the law of the records, which must be independent, or of this data set's records.

        Returns
        -------
        CdfBand
            The band.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, or records have two coordinates or more.

        Notes
        -----
        Draws from a smoothed histogram are independent given the data: Massart's bound √(ln(2/β)/2k), solved for the part that is not
        uniform. Draws from a Dirichlet posterior add its own spread. For `ks_exponential`, the score is at most ⌈n/2k⌉ +
        2(k·ln m + ln(1/β))/ε. A population adds √(ln(2/β)/2n). Proofs: docs/exactness-bands.md.
        Cost: a count of the draws.
        """
        confidence, target = check_confidence(confidence), check_target(target)
        check_line(self)
        if self.link is None:
            raise ParameterError("link must say how the draws came from the data, and this release has none: there is no band")
        tail, (m,) = tail_of(confidence), self.cells.shape
        k, whole = len(self.draws), m == 1
        shares = np.cumsum(self.cells.counts(self.draws))[:-1] / k
        split = [(1.0, 0.0)] if target == "sample" else [(share, dkw_width(self.n, (1 - share) * tail)) for share in SHARES]
        tried = [(self.link.ends(shares, k, self.n, share * tail), reach) for share, reach in split]
        ends, reach = tried[0] if whole else min(tried, key=lambda each: float((each[0][1] - each[0][0])[0]) / 2 + each[1])
        return cdf_band(ends, self.cells, self.n, confidence, target, reach=reach)

    def _sample(self, draws: int, stream: Stream, threads: int | None) -> Reals:
        return sample_cells(self.cells, self._masses, draws, stream, threads)

    def _density(self, rows: Reals) -> Reals:
        return cells_density(self.cells, self._masses, rows)

    def _cdf(self, rows: Reals) -> Reals:
        return empirical_cdf(self.draws, rows)

    def _facts(self) -> list[tuple[str, str]]:
        return [("draws", f"{len(self.draws):,}"), ("cells", f"{self.cells.m:,}")]

    def _made(self) -> Reals | None:
        return self.draws


@dataclass(frozen=True, slots=True, eq=False)
class HistogramRelease(Release):
    """A released histogram: a density that is constant on each cell. You may draw any number of records from it.

    Attributes
    ----------
    privacy : Privacy
        Guarantee of the noisy counts, and so of all the rest.
    n : int
        Number of records it was made from.
    box : Box
        Bounds of the records.
    cells : Cells
        The cells.
    noisy_counts : ndarray of float64 or int64, shape (m,)
        Counts with noise, in C order of the cells; read-only.
    masses : ndarray of float64, shape (m,)
        Probabilities of the cells, ≥ 0, of sum 1; read-only.

    Notes
    -----
    Cost: `cdf` takes one pass over the cells and 2^r cells a point.
    """

    cells: Cells
    noisy_counts: npt.NDArray[np.float64] | npt.NDArray[np.int64]
    masses: Reals

    def __post_init__(self) -> None:
        self.noisy_counts.flags.writeable = False
        self.masses.flags.writeable = False

    @property
    def noise(self) -> Literal["laplace", "discrete_laplace"]:
        """Law of the noise in every count."""
        return "discrete_laplace" if self.noisy_counts.dtype.kind == "i" else "laplace"

    @property
    def scale(self) -> float:
        """Scale 2/ε of that noise, rounded up."""
        return laplace_scale(self.privacy.epsilon, 2.0)

    @property
    def stderr(self) -> float:
        """Standard deviation of the noise in each of `noisy_counts`."""
        return standard_deviation(self.noise, self.scale)

    def interval(self, confidence: float = 0.95) -> Reals:
        """Return an interval for the true count of each cell.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1).

        Returns
        -------
        ndarray of float64, shape (m, 2)
            The lower and upper ends: `noisy_counts` minus and plus the same half-width. The number of records in a cell lies in its
            interval with probability at least `confidence`. This holds for every data set; the probability is that of the noise.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is not in (0, 1).

        Notes
        -----
        The intervals do not cover all cells at once, nor the population that the records come from. To cover all m counts at once, ask
        for the confidence 1 − (1 − c)/m.
        """
        half = half_width(self.noise, self.scale, check_confidence(confidence))
        counts = self.noisy_counts.astype(np.float64)
        return np.stack([np.nextafter(counts - half, -np.inf), np.nextafter(counts + half, np.inf)], axis=-1)

    def cdf_band(self, confidence: float = 0.95, *, target: Literal["population", "sample"] = "population") -> CdfBand:
        """Return a band that holds the distribution function of the data, or of their population, at all points at once.

        Parameters
        ----------
        confidence : float, default 0.95
            Probability, in (0, 1), with which the whole band holds: over the noise, and over the records for a population.
        target : {"population", "sample"}, default "population"
            Whether to hold the distribution function of the law of the records, which must be independent, or of this data set's records.

        Returns
        -------
        CdfBand
            The band.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, or records have two coordinates or more.

        Notes
        -----
        The records below an edge are counted from the nearer end: the noise is a sum over at most m/2 cells, whose largest value is bounded
        by the law of the last one (Lévy). A population adds Massart's √(ln(2/β)/2n), and β is shared so that the band is narrowest.
        Fewer cells have a narrower band at their edges, and a wider one between them. Proofs: docs/exactness-bands.md.
        Cost: O(m).
        """
        confidence, target = check_confidence(confidence), check_target(target)
        check_line(self)
        tail, m, n, scale = tail_of(confidence), self.cells.m, self.n, self.scale

        def width(share: float) -> float:
            return count_sums_width(self.noise, scale, m, share) / n

        split = [(tail, 0.0)] if target == "sample" else [(share * tail, dkw_width(n, (1 - share) * tail)) for share in SHARES]
        of_noise, reach = min(((width(share), reach) for share, reach in split), key=sum)
        counts = self.noisy_counts.astype(np.float64)
        below = np.concatenate([np.cumsum(counts[: m // 2]), n - np.cumsum(counts[: m // 2 : -1])[::-1]])[: m - 1]
        rounding = m * 2.0**-52 * float(np.abs(counts).sum())
        half = of_noise + rounding / n
        return cdf_band((below / n - half, below / n + half), self.cells, n, confidence, target, reach=reach)

    def density_band(self, confidence: float = 0.95, *, target: Literal["population", "sample"] = "population") -> DensityBand:
        """Return a band that holds the averages of the density over all cells at once.

        Parameters
        ----------
        confidence : float, default 0.95
            Probability, in (0, 1), with which the whole band holds: over the noise, and over the records for a population.
        target : {"population", "sample"}, default "population"
            Whether to hold the averages of the density of the population, from which records are independent, or the data's histogram.

        Returns
        -------
        DensityBand
            The band. It does not hold the density itself, which may vary inside a cell: that is the bias of the cells.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        All m counts are within one width of the noise, by its exact law. For a population, each probability is within the limits of
        Clopper and Pearson for the ends of its count, at β/4m each.
        Cost: a few microseconds a cell.
        """
        confidence, target = check_confidence(confidence), check_target(target)
        tail, m, n = tail_of(confidence), self.cells.m, self.n
        counts = self.noisy_counts.astype(np.float64)

        def counted(share: float) -> tuple[Reals, Reals]:
            half = tail_width(self.noise, self.scale, share * tail, m)
            low, high = np.nextafter(counts - half, -np.inf), np.nextafter(counts + half, np.inf)
            return np.clip(np.ceil(low), 0, n), np.clip(np.floor(high), 0, n)

        if target == "sample":
            low, high = counted(1.0)
            return masses_band(low / n, high / n, self.cells, confidence, target)
        rate = (1 - DENSITY_SHARE) * tail / (2 * m)
        low, high = counted(DENSITY_SHARE)
        return masses_band(share_limits(low, n, rate)[0], share_limits(high, n, rate)[1], self.cells, confidence, target)

    def _sample(self, draws: int, stream: Stream, threads: int | None) -> Reals:
        return sample_cells(self.cells, self.masses, draws, stream, threads)

    def _density(self, rows: Reals) -> Reals:
        return cells_density(self.cells, self.masses, rows)

    def _cdf(self, rows: Reals) -> Reals:
        return cells_cdf(self.cells, self.masses, rows)

    def _facts(self) -> list[tuple[str, str]]:
        noise = f"{self.noise}, scale {self.scale:.4g}, standard error {self.stderr:.4g}"
        return [("cells", f"{self.cells.m:,}"), ("noise in a count", noise)]


def check_line(release: Release) -> None:
    """Raise unless records have one coordinate."""
    if release.dimension != 1:
        raise ParameterError(f"records must have one coordinate for a band of the distribution function, got {release.dimension}")


def sample_cells(cells: Cells, masses: Reals, draws: int, stream: Stream, threads: int | None) -> Reals:
    """Points of cells that are drawn by their masses."""
    cumulative = np.cumsum(masses)
    # A cell of mass 0 has no room between its neighbours' sums; what comes after the last cell of positive mass is cut off with it.
    shares = np.floor(cumulative[:-1] / cumulative[-1] * 2.0**64)
    codes, _ = Uniforms(stream).codes(shares[shares < 2.0**64].astype(np.uint64), draws, threads)
    return cells.places(codes, rng=stream, threads=threads)


def cells_density(cells: Cells, masses: Reals, rows: Reals) -> Reals:
    """Mass by volume of the cell of each point in the box."""
    return masses[cells.codes(rows)] / cells.volume


def cells_cdf(cells: Cells, masses: Reals, rows: Reals) -> Reals:
    """Mass below each point: sums of cells at the corners of its own cell, and linear in every coordinate between them."""
    r = cells.box.dimension
    table = np.zeros(tuple(b + 1 for b in cells.shape))
    table[(slice(1, None),) * r] = masses.reshape(cells.shape)
    for axis in range(r):
        np.cumsum(table, axis=axis, out=table)
    place = cells.box.to_unit(rows) * np.array(cells.shape)
    first = np.minimum(np.floor(place).astype(np.int64), np.array(cells.shape) - 1)
    part = place - first
    total = np.zeros(len(rows))
    for corner in itertools.product((0, 1), repeat=r):
        weight = np.prod(np.where(corner, part, 1 - part), axis=1)
        total += weight * table[tuple((first + np.array(corner)).T)]
    return np.minimum(total, 1.0)


def empirical_cdf(draws: Reals, rows: Reals) -> Reals:
    """Share of the draws, (k,) or (k, r), that are in every coordinate at most the point, for each of the points (q, r)."""
    places, k = columns_of(draws), len(draws)
    if places.shape[1] == 1:
        return np.searchsorted(np.sort(places[:, 0]), rows[:, 0], side="right") / k
    below, block = np.empty(len(rows), np.int64), max(1, _PAIRS // k)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        under = np.ones((len(part), k), np.bool_)
        for axis in range(places.shape[1]):
            under &= places[None, :, axis] <= part[:, axis, None]
        below[start : start + block] = under.sum(axis=1)
    return below / k
