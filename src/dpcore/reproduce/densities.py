"""Densities on [0, 1] of simulated records, and the exact errors of their histograms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.distributions._choices import unit_floats
from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
KNOTS = 2**16
"""Number of quantiles, between which records are interpolated."""


class Law(ABC):
    """The properties of a density on [0, 1]^r that determine the errors of histograms with m equal cells."""

    @property
    @abstractmethod
    def square(self) -> float:
        """∫ p²."""

    @abstractmethod
    def masses(self, m: int) -> Array:
        """Probabilities of the cells."""

    def bias(self, m: int) -> float:
        """∫ (p − p̄)², where p̄ is the average of p over each of m cells: the squared bias of a histogram with m cells."""
        return self.square - m * float(np.sum(self.masses(m) ** 2))

    def squared_error(self, masses: Array) -> Array:
        """∫ (p − f)² of histograms f with cell probabilities `masses`, shape (..., m): exact, since the cells' errors are orthogonal.

        Examples
        --------
        >>> from dpcore.reproduce.densities import Linear
        >>> round(float(Linear(1.0).squared_error(Linear(1.0).masses(2))), 6)
        0.020833
        """
        m = masses.shape[-1]
        return np.asarray(m * np.sum((masses - self.masses(m)) ** 2, axis=-1) + self.bias(m))

    def histogram_risk(self, m: int, n: int) -> float:
        """Expected squared L2 error of the histogram of n records with m cells, without privacy.

        Examples
        --------
        >>> from dpcore.reproduce.densities import Linear
        >>> Linear(0.0).histogram_risk(10, 90)
        0.1
        """
        p = self.masses(m)
        return self.bias(m) + m * float(np.sum(p * (1 - p))) / n


class Density(Law):
    """A density p on [0, 1]."""

    @abstractmethod
    def pdf(self, x: Array) -> Array:
        """p(x)."""

    @abstractmethod
    def cdf(self, x: Array) -> Array:
        """F(x)."""

    def masses(self, m: int) -> Array:
        """Probabilities of m cells of equal length."""
        return np.diff(self.cdf(np.arange(m + 1) / m))

    def records(self, n: int, rng: Stream) -> Array:
        """Draw n independent records by inversion of the distribution function: linear between 2^16 quantiles, which hold to 10^-9."""
        place = unit_floats((n,), rng=rng)
        place *= KNOTS
        below = place.astype(np.int64)
        place -= below
        left = self._quantiles[below]
        place *= self._quantiles[1:][below] - left
        place += left
        return place

    @cached_property
    def _quantiles(self) -> Array:
        """F^-1(i/2^16). On the grid it is found on, F is linear between two points but for p'/2^37."""
        grid = np.arange(2 * KNOTS + 1) / (2 * KNOTS)
        return np.interp(np.arange(KNOTS + 1) / KNOTS, self.cdf(grid), grid)


@dataclass(frozen=True)
class Linear(Density):
    """p(x) = 1 + s(x − ½): Lipschitz, and nowhere flat if s is not 0.

    Parameters
    ----------
    slope : float
        s in [−2, 2].
    """

    slope: float

    def pdf(self, x: Array) -> Array:
        """p(x)."""
        return 1 + self.slope * (x - 0.5)

    def cdf(self, x: Array) -> Array:
        """F(x)."""
        return x + self.slope * x * (x - 1) / 2

    @property
    def square(self) -> float:
        """∫ p²."""
        return 1 + self.slope**2 / 12


@dataclass(frozen=True)
class Cube(Law):
    """Records whose coordinates are independent and have one density.

    Parameters
    ----------
    density : Density
        Of each coordinate.
    dimension : int
        r.
    """

    density: Density
    dimension: int

    @property
    def square(self) -> float:
        """∫ p²."""
        return self.density.square**self.dimension

    def masses(self, m: int) -> Array:
        """Probabilities of m cells, m an r-th power, in C order."""
        line = self.density.masses(round(m ** (1 / self.dimension)))
        found = np.ones(1)
        for _ in range(self.dimension):
            found = np.multiply.outer(found, line).ravel()
        return found


@dataclass(frozen=True)
class Betas(Density):
    """A mixture of Beta densities with equal weights.

    Parameters
    ----------
    shapes : tuple of (float, float)
        a and b of each.
    """

    shapes: tuple[tuple[float, float], ...]

    def pdf(self, x: Array) -> Array:
        """p(x)."""
        from scipy import stats

        return np.asarray(np.mean([stats.beta.pdf(x, a, b) for a, b in self.shapes], axis=0))

    def cdf(self, x: Array) -> Array:
        """F(x)."""
        from scipy import special

        return np.asarray(np.mean([special.betainc(a, b, x) for a, b in self.shapes], axis=0))

    @property
    def square(self) -> float:
        """∫ p², from beta functions.

        Examples
        --------
        >>> from dpcore.reproduce.densities import Betas
        >>> round(Betas(((1.0, 1.0),)).square, 12), round(Betas(((2.0, 1.0),)).square, 12)
        (1.0, 1.333333333333)
        """
        from scipy import special

        every = [(p, q) for p in self.shapes for q in self.shapes]
        logs = (special.betaln(a + c - 1, b + d - 1) - special.betaln(a, b) - special.betaln(c, d) for (a, b), (c, d) in every)
        return math.fsum(map(math.exp, logs)) / len(every)


@dataclass(frozen=True)
class Cosines(Density):
    """p(x) = 1 + Σ β_j ψ_j(x), ψ_j(x) = √2 cos πjx, with β_j = c·j^(−γ−½) for the first J of them.

    Parameters
    ----------
    smoothness : float
        γ: what is left after m terms, Σ_{j>m} β_j², is of the order m^(−2γ), as it is at worst in the Sobolev space of order γ.
    size : float
        c, so small that p > 0.
    terms : int, default 64
        J.
    """

    smoothness: float
    size: float
    terms: int = 64

    @cached_property
    def coefficients(self) -> Array:
        """β_1, …, β_J."""
        return np.asarray(self.size * np.arange(1.0, self.terms + 1) ** (-self.smoothness - 0.5))

    def pdf(self, x: Array) -> Array:
        """p(x)."""
        total = np.ones_like(x)
        for j, beta in enumerate(self.coefficients.tolist(), 1):
            total += math.sqrt(2) * beta * np.cos(math.pi * j * x)
        return total

    def cdf(self, x: Array) -> Array:
        """F(x)."""
        total = np.array(x, np.float64)
        for j, beta in enumerate(self.coefficients.tolist(), 1):
            total += math.sqrt(2) * beta / (math.pi * j) * np.sin(math.pi * j * x)
        return total

    @property
    def square(self) -> float:
        """∫ p², by Parseval."""
        return 1 + float(np.sum(self.coefficients**2))

    def series_risk(self, terms: int, n: int, noise: float) -> float:
        """Expected squared L2 error of the series of n records with these terms and noise of this variance on each coefficient.

        Parameters
        ----------
        terms : int
            m, at most J/2.
        n : int
            Records.
        noise : float
            Variance.

        Notes
        -----
        n Var β̂_j = 1 + β_2j/√2 − β_j² (Wasserman & Zhou, 2010, Section 9.11). Nothing is cut at 0.
        """
        beta = self.coefficients
        kept = np.arange(terms)
        variances = 1 + beta[2 * kept + 1] / math.sqrt(2) - beta[kept] ** 2
        return float(variances.sum() / n + terms * noise + np.sum(beta[terms:] ** 2))
