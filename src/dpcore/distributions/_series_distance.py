"""How far the cosine series of k draws is from that of the data, as the exponent of an exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.distributions._boxes import Reals
from dpcore.distributions._cosine_distances import largest_square

LEAST_DRAWS, MOST_TERMS, MOST_TILT = 2, 8, 1024.0
"""The estimate of the number of trials is for 2d + 2 draws or more of d ≤ 8 coefficients, with ‖θ‖ ≤ 1024."""
_MEAN_SQUARE = 1 + Fraction(1, 2**20)
"""Bounds the mean square of a rounded √2·cos(πjz) over the uniform floats z, and what the rounding adds to products of means."""


@dataclass(frozen=True, slots=True)
class SeriesDistance:
    """The exponent E = ε·ξ/(2Δ), with ξ = ‖p̂ − p̂*‖₂ of the data's and a candidate's rounded coefficients.

    In units of the grid, with Q = Σ_j (k·S_j − n·T_j)² for the sums S of the data and T of the candidate, ξ = √Q/(nk). D² bounds the
    square of what one record adds to S in ℓ2, so that Δ = D/n and E² = ε²Q/(4 k² D²), a rational number.

    Attributes
    ----------
    totals : tuple of int
        S_j, the m sums of the data.
    n, k, draw_terms : int
        Numbers of records, of draws, and of the draws' coefficients.
    epsilon : float
        ε.
    """

    totals: tuple[int, ...]
    n: int
    k: int
    draw_terms: int
    epsilon: float

    @property
    def _coordinates(self) -> int:
        return max(len(self.totals), self.draw_terms)

    @property
    def _change(self) -> float:
        """D, in units of the grid."""
        return math.sqrt(largest_square(len(self.totals)))

    def mean_rate(self) -> float:
        """Bound of the mean of E over uniform candidates, divided by ε·n, for every data set: of public numbers alone.

        (E ξ)² ≤ E ξ² ≤ ‖β̂‖² + Σ_j Var β̂*_j ≤ c²·m + draw_terms/k, but for the rounding.
        """
        m, c = len(self.totals), Fraction(_backend.COSINE_LARGEST) * Fraction(_backend.COSINE_GRID)
        square = (c * c * m + Fraction(self.draw_terms, self.k)) * _MEAN_SQUARE
        return math.sqrt(square) / (2 * self._change * _backend.COSINE_GRID)

    def log_trials(self) -> float:
        """ln of an estimate of the mean number of tilted trials, for the worst data set, from public numbers; infinite if there is none.

        Where all tilts agree with the data and nothing lies beyond the draws' coefficients, the probability to accept is
        ∫ e^(−a‖u‖) du times the density of the draws' mean at the data's, which is (2π/k)^(−d/2)/√det Σ for many draws. Variances of 2,
        the largest that √2·cos has, also cover few draws.
        """
        d, a = self.draw_terms, self.epsilon * self.n * self._per_record
        if self.k < LEAST_DRAWS * d + LEAST_DRAWS or d > MOST_TERMS or self.tilt_limit > MOST_TILT:
            return math.inf
        return float(np.logaddexp(0.0, d * math.log(a) + _log_factor(d, self.k)))

    def most_records(self, max_trials: int) -> float:
        """The largest ε·n for which a bound, or the estimate, of the mean number of trials is at most `max_trials`."""
        by_bound = math.log(max_trials) / self.mean_rate()
        if math.isinf(self.log_trials()) or max_trials == 1:
            return by_bound
        by_estimate = math.exp((math.log(max_trials - 1) - _log_factor(self.draw_terms, self.k)) / self.draw_terms) / self._per_record
        return max(by_bound, min(by_estimate, MOST_TILT * self.k / self._per_record))

    @property
    def _per_record(self) -> float:
        """1/(2D), D in units of cosines."""
        return 1 / (2 * self._change * _backend.COSINE_GRID)

    @property
    def tilt_limit(self) -> float:
        """a/k, the largest ‖θ‖ for which tilted draws can be thinned out to this law; a = ε·n/(2D)."""
        return self.epsilon * self.n * self._per_record / self.k

    @property
    def resolution(self) -> float:
        """d/a, the distance of the draws' d coefficients from the data's that the mechanism allows."""
        return self.draw_terms / (self.tilt_limit * self.k)

    @property
    def target(self) -> Reals:
        """The data's coefficients among those of the draws."""
        found = np.zeros(self.draw_terms)
        known = self._own[: self.draw_terms]
        found[: len(known)] = known
        return found * (_backend.COSINE_LARGEST * _backend.COSINE_GRID)

    @property
    def beyond(self) -> float:
        """Norm of the data's coefficients that the draws do not have."""
        return float(np.sqrt((self._own[self.draw_terms :] ** 2).sum())) * _backend.COSINE_LARGEST * _backend.COSINE_GRID

    @property
    def _own(self) -> Reals:
        """The data's coefficients in units of c, in float64."""
        own = np.zeros(self._coordinates)
        own[: len(self.totals)] = [float(Fraction(s, self.n * _backend.COSINE_LARGEST)) for s in self.totals]
        return own

    def apart(self, sums: npt.NDArray[np.int64]) -> Reals:
        """Coefficients of the data less those of candidates with the sums T (t, draw_terms), in units of c: (t, coordinates)."""
        apart = np.broadcast_to(self._own, (len(sums), self._coordinates)).copy()
        apart[:, : self.draw_terms] -= sums / float(self.k * _backend.COSINE_LARGEST)
        return apart

    def exponents_of(self, apart: Reals) -> Reals:
        """E of candidates from `apart`, in float64."""
        norms: Reals = np.sqrt((apart * apart).sum(axis=1))
        return self._factor * norms

    def exponents(self, sums: npt.NDArray[np.int64]) -> Reals:
        """E of candidates with the sums T (t, draw_terms), in float64."""
        return self.exponents_of(self.apart(sums))

    def error(self) -> float:
        """Bound of the errors of `exponents`."""
        # A coordinate is a difference of two numbers in [−1, 1], within 6 units of 2^-53 of the exact one; the norm of these errors adds to
        # what the sum of squares, the root and the products round, relative to a norm of at most 2·√coordinates. docs/exactness-density.md
        coordinates = self._coordinates
        return self._factor * math.sqrt(coordinates) * (2 * coordinates + 32) * 2.0**-53

    @property
    def _factor(self) -> float:
        """E where ξ is one c, the bound of a cosine."""
        return self.epsilon * self.n / 2 * (_backend.COSINE_LARGEST / self._change)

    def square(self, sums: npt.NDArray[np.int64]) -> Fraction:
        """E² of one candidate with the sums T (draw_terms,), exactly."""
        count = self._coordinates
        own = [*self.totals, *[0] * (count - len(self.totals))]
        other = [*sums.tolist(), *[0] * (count - self.draw_terms)]
        q = sum((self.k * s - self.n * t) ** 2 for s, t in zip(own, other, strict=True))
        below = 4 * self.k**2 * largest_square(len(self.totals))
        return Fraction(self.epsilon) ** 2 * Fraction(q, below)

    @property
    def rate_square(self) -> Fraction:
        """α² in E² = α²·Σ_j (kS_j − nT_j)²."""
        return Fraction(self.epsilon) ** 2 / (4 * self.k**2 * largest_square(len(self.totals)))

    @property
    def beyond_square(self) -> Fraction:
        """Σ_j (kS_j)² over the data's coefficients that the draws do not have."""
        return Fraction(sum((self.k * s) ** 2 for s in self.totals[self.draw_terms :]))

    def linear(self, slopes: Sequence[Fraction], sums: npt.NDArray[np.int64]) -> Fraction:
        """η·w = Σ_j θ_j·(kS_j/n − T_j) in units of cosines, for one candidate with the sums T (draw_terms,), exactly."""
        own = [*self.totals, *[0] * (self._coordinates - len(self.totals))]
        parts = (slope * (self.k * s - self.n * t) for slope, s, t in zip(slopes, own, sums.tolist(), strict=False))
        return sum(parts, Fraction(0)) * Fraction(_backend.COSINE_GRID) / self.n


def _log_factor(d: int, k: int) -> float:
    """ln of the estimate over a^d: of (4π/k)^(d/2), divided by the integral of e^(−‖u‖), the surface of the sphere times (d − 1)!."""
    surface = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2)
    return d / 2 * math.log(4 * math.pi / k) - surface - math.lgamma(d)
