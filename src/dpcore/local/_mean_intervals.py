"""Confidence intervals of the mean of clamped numbers from the sum of their noisy reports.

The noise has a known law, so the sum of n noises has known quantiles. For Laplace noise they follow from mixtures of gamma laws, for
integers from the characteristic function, and for many records from the normal law and the fourth cumulant. For the sample only the noise
varies. For the population the records vary too. If there are many reports and their variance, in squared widths of the range, is at least
1000/n, it is taken from the reports; a smaller one could hide a rare record at a bound. Otherwise it is the largest that the bounds allow,
(μ − lower)(upper − μ), with half a width of continuity, and the interval is solved for μ.

Both are normal limits, corrected for the skewness that records within the bounds may have. Where it is too large for that, Chernoff's bound
takes their place, which is proved for every law of the records. docs/exactness-local.md has the formulas and what was measured.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._spread import laplace_sum_width, log_moments, noise_variance

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore._exact.pending import Kind

    Reals = npt.NDArray[np.float64]

ENOUGH = 1000.0
"""Variance of the sum, in squared widths of the range, from which the sample variance of the reports is used."""
_MANY = 500
"""Number of records from which the sample variance is accurate to some per cent, for any noise."""
_FEW = 64
"""Records up to which sums of Laplace noise are mixtures of gamma laws."""
_NARROW = 1024.0
"""Variance of the sum of integers up to which its law is tabulated."""
_FINE = 1e-12
"""Tails below this are lost in the rounding of a table."""
SKEWED = 0.2
"""Largest skewness of the sum times the normal quantile for which the normal law is corrected; beyond, a proved bound takes its place."""
_LEAST, _TILTS = 1e-9, 512
"""Smallest t of Chernoff's bound that is tried, and how many are."""


@lru_cache(maxsize=1024)
def noise_width(kind: Kind, scale: float, n: int, tail: float) -> float:
    """Number that the sum of n noises exceeds with probability at most `tail` ≤ ½; for integers in units of the grid."""
    variance = n * noise_variance(kind, scale)
    integral = kind.startswith("discrete")
    if integral and variance <= _NARROW:
        return float(_lattice_width(kind, scale, n, tail) if tail >= _FINE else _chernoff_width(kind, scale, n, tail))
    if kind.endswith("laplace") and n <= _FEW:
        return laplace_sum_width(n, tail) * scale + integral / 2
    return _normal_width(variance, 3.0 / n if kind.endswith("laplace") else 0.0, tail) + integral / 2


def mean_margins(kind: Kind, scale: float, n: int, tail: float, *, total: float, half: float, squares: float | None) -> tuple[float, float]:
    """Return how far the limits of the mean lie below and above the mean of the reports, all in units of the reports' grid.

    Parameters
    ----------
    kind, scale : str, float
        The law of the noise.
    n : int
        Number of reports.
    tail : float
        (1 − confidence)/2.
    total : float
        Sum of the reports about the middle of the range.
    half : float
        Half the width of the range.
    squares : float or None
        Sample variance of the reports; None for the interval of the sample, whose records do not vary.
    """
    width = noise_width(kind, scale, n, tail)
    if squares is None:
        return width / n, width / n
    variance = noise_variance(kind, scale)
    # No part of the sum has heavier tails than its noise.
    z = max(_normal_width(1.0, 0.0, tail), width / math.sqrt(n * variance) if variance > 0 else 0.0)
    reports = _Reports(kind, scale, n, tail, total, half, variance, z)
    if n >= _MANY and n * squares >= ENOUGH * (2 * half) * (2 * half):
        return reports.seen_margin(squares, -1), reports.seen_margin(squares, 1)
    return reports.greatest_margin(-1), reports.greatest_margin(1)


@dataclass(frozen=True, slots=True)
class _Reports:
    """Reports of a population, for the limits of its mean below (side −1) and above (side 1).

    A limit misses where the sum errs to its other side, which skewness of the records towards the other side makes more frequent.
    """

    kind: Kind
    scale: float
    n: int
    tail: float
    total: float
    half: float
    variance: float
    z: float

    def seen_margin(self, squares: float, side: int) -> float:
        """The margin with the variance of the reports, corrected for the largest skewness that the bounds allow.

        Numbers with variance v whose mean is r below their bound have a third cumulant of at most v·r, because (r − x)(x + v/r)² ≥ 0 for
        x about the mean. If large numbers are rare, the sum is low when the variance is: the studentised sum has −2 times the skewness, and
        its quantile moves by (2z² + 1)/6 of it. The next term of the expansion is z((z² + 3)/4 − κ(z² − 3)/12)/n at most, and κ ≥ −2.
        """
        reach = min(max(self.half - side * self.total / self.n, 0.0), 2 * self.half)
        skew = reach * max(1 - self.variance / squares, 0.0)
        if self._is_skewed(skew, squares):
            return self._proved_margin(side)
        z = self.z * (1 + (self.z**2 + 1) / (2 * self.n))
        return z * math.sqrt(squares / self.n) + (self.half + (2 * self.z**2 + 1) / 6 * skew) / self.n

    def greatest_margin(self, side: int) -> float:
        """The margin with the largest variance that the bounds allow: that of numbers at the two bounds, which is known with the mean.

        Solve (total ± (half + shift) − nμ)² = z²·n·(variance + half² − μ²). The shift corrects for the skewness −2μ of such numbers, if
        they are skewed away from the limit. Both this limit and the proved one are monotone in the sum, so the nearer one misses no more
        often than the worse of the two.
        """
        mean = self._solved(side * self.half, side)
        whole = self.variance + max(self.half**2 - mean * mean, 0.0)
        skew = 2 * side * mean * (1 - self.variance / whole) if whole > 0 else 0.0
        shift = max(self.z**2 - 1, 0.0) / 6 * max(skew, 0.0)
        normal = side * (self._solved(side * (self.half + shift), side) - self.total / self.n)
        if not self._is_skewed(abs(skew), whole):
            return normal
        return self._proved_margin(side) if skew > 0 else min(normal, self._proved_margin(side))

    def _is_skewed(self, skew: float, variance: float) -> bool:
        """Whether the skewness is too large for a correction; `skew` is the third cumulant over the variance."""
        return self.z * skew > SKEWED * math.sqrt(self.n * variance)

    def _solved(self, shift: float, side: int) -> float:
        """Solve (total + shift − nμ)² = z²·n·(variance + half² − μ²) for μ on one side; outside the range the noise alone varies."""
        x, u, most = (self.total + shift) / self.n, self.z**2 / self.n, self.variance + self.half**2
        inner = u * (most - x * x) + u * u * most
        mean = (x + side * math.sqrt(max(inner, 0.0))) / (1 + u)
        if side * x >= self.half or not (inner >= 0 and abs(mean) <= self.half):
            return x + side * math.sqrt(u * self.variance)
        return mean

    def _proved_margin(self, side: int) -> float:
        """The margin of Chernoff's bound, which holds for every law of the records (Hoeffding, 1963).

        Let y be the mean of the reports on a scale on which the bounds are 0 and 1, and M the moment generating function of one noise.
        By convexity E e^(tX) ≤ 1 + μ(e^t − 1) for records X in [0, 1] with mean μ. So for every t > 0 a mean of at least y has at most the
        probability e^(−nty)·((1 + μ(e^t − 1))M(t))^n, which is at most `tail` if μ ≤ ((tail·e^(nty))^(1/n)/M(t) − 1)/(e^t − 1). For the
        limit above, exchange the bounds.
        """
        width = 2 * self.half
        y = 0.5 - side * self.total / self.n / width
        limit, t = -math.inf, np.geomspace(_LEAST, self._greatest_tilt(), _TILTS)
        for _ in range(3):
            limits = np.expm1((t * y + math.log(self.tail) / self.n) - self._log_moments(t)) / np.expm1(t)
            at = int(limits.argmax())
            limit = max(limit, float(limits[at]))
            t = np.geomspace(t[max(at - 1, 0)], t[min(at + 1, len(t) - 1)], _TILTS)
        return max(y - limit, 0.0) * width * (1 + 1e-9)  # more than all roundings

    def _greatest_tilt(self) -> float:
        """The largest t at which the noise has exponential moments, or beyond which nothing is gained."""
        ends = 2 * self.half / self.scale if self.kind.endswith("laplace") else math.inf
        return min(ends * (1 - 1e-9), 600.0)

    def _log_moments(self, t: Reals) -> Reals:
        """Logarithm of E e^(tZ) for one noise Z in widths of the range; for discrete Gaussian noise a bound, see `_chernoff_width`."""
        s = t * (self.scale / (2 * self.half))
        if self.kind in {"laplace", "discrete_laplace"}:
            return log_moments(self.kind, self.scale, s)
        return s * s / 2


def _normal_width(variance: float, excess: float, tail: float) -> float:
    """Quantile of a symmetric law with this excess kurtosis, by Cornish and Fisher."""
    from scipy import special

    z = -float(special.ndtri(tail))
    return math.sqrt(variance) * (z + max(z**3 - 3 * z, 0.0) * excess / 24)


def _lattice_width(kind: Kind, scale: float, n: int, tail: float) -> int:
    """The least w with P(sum > w) ≤ tail, for n integers, from the characteristic function on a period that the sum does not leave."""
    reach = 12 * math.sqrt(n * noise_variance(kind, scale)) + 45 * scale + 60
    period = 1 << math.ceil(math.log2(2 * reach))
    angles = np.arange(period // 2 + 1) * (2 * math.pi / period)
    if kind == "discrete_laplace":
        ratio = math.exp(-1 / scale)
        values = (1 - ratio) ** 2 / ((1 - ratio) ** 2 + 4 * ratio * np.sin(angles / 2) ** 2)
    else:
        steps = np.arange(1, math.ceil(9 * scale) + 2)
        weights = np.exp(-((steps / scale) ** 2) / 2)
        values = (1 + 2 * np.cos(np.outer(angles, steps)) @ weights) / (1 + 2 * weights.sum())
    masses = np.fft.irfft(values**n, period)
    beyond = np.cumsum(masses[period // 2 : 0 : -1])[::-1]  # P(sum ≥ w) for w = 1 …
    above = np.flatnonzero(beyond > tail + 1e-15)
    return int(above[-1]) + 1 if len(above) else 0


def _chernoff_width(kind: Kind, scale: float, n: int, tail: float) -> int:
    """A w with P(sum > w) ≤ tail, for n integers, by Chernoff's bound: P(sum ≥ c) ≤ e^(−tc)·E e^(t·sum) for every t.

    Discrete Gaussian noise has E e^(tZ) ≤ e^(σ²t²/2) (Canonne, Kamath & Steinke, 2020), as the normal law; that of discrete Laplace noise
    is (1 − r)²/((1 − re^t)(1 − re^−t)).
    """
    digits = -math.log(tail)
    if kind == "discrete_gaussian":
        c = scale * math.sqrt(2 * n * digits)
    else:
        s = np.arange(1, 1024) / 1024
        c = scale * float(((n * log_moments("discrete_laplace", scale, s) + digits) / s).min())
    return max(math.ceil(c * (1 + 1e-9)) - 1, 0)
