"""Intervals of regression coefficients from noisy cross products, by the exact law of the noise. Units: both radii are 1.

docs/exactness-bands.md proves that they cover.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._spread import tail_of

Array = npt.NDArray[np.float64]

_UP = 1 + 1e-9
_GRID = 2.0**-24
"""Rounding of noise to its grid, relative to its scale, is at most an eighth of this."""
_SQUARINGS, _LARGE = 5, 512
"""Steps that bound a norm from above, to d^(1/64), and the number of columns from which a cheaper bound is taken."""
_ROUNDS = 60


@dataclass(frozen=True, slots=True, eq=False)
class RegressionLimits:
    """What was released, and intervals from it.

    Attributes
    ----------
    gram, cross : ndarray, shapes (d, d) and (d,)
        A = X'X + N and b = X'y + ν.
    scales : tuple of float
        Standard deviations of the entries of N and ν.
    n : int
        Number of records.
    unit : float
        What a coefficient is multiplied with for the units of the caller.
    """

    gram: Array
    cross: Array
    scales: tuple[float, float]
    n: int
    unit: float

    def __call__(self, confidence: float, target: str) -> Array:
        """Return intervals of all coefficients, shape (d, 2), which hold at once; (−inf, inf) if the noise is too large."""
        tail = tail_of(confidence)
        d = len(self.cross)
        found = self._around(tail if target == "sample" else tail / 2, 0.0 if target == "sample" else self._scatter(tail / 2))
        if found is None:
            return np.tile([-np.inf, np.inf], (d, 1))
        centre, half = found
        ends = np.stack([centre - half, centre + half], axis=-1) * self.unit
        return np.asarray(np.nextafter(ends, np.array([-np.inf, np.inf])))

    def _scatter(self, tail: float) -> float:
        """A c with ‖Σ x_i(y_i − x_iθ)‖ ≤ c(1 + ‖θ‖), but with probability `tail`, for a θ at which the terms have expectation 0.

        They are independent and in a ball of radius R = 1 + ‖θ‖: the norm has an expectation of at most √n·R, and one term moves it by at
        most 2R (McDiarmid).
        """
        return math.sqrt(self.n) * (1 + math.sqrt(2 * math.log(1 / tail))) * _UP

    def _around(self, tail: float, scatter: float) -> tuple[Array, Array] | None:
        """Return M b, for M near the inverse of A, and half-widths about it; None if there are none."""
        from scipy import special

        d, (sigma, nu) = len(self.cross), self.scales
        try:
            inverse = np.asarray(np.linalg.inv(self.gram), np.float64)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(inverse).all():
            return None
        reach = math.sqrt(float(special.chdtri(d, tail))) * _UP  # of a normal vector, in its own deviations
        centre, sizes = inverse @ self.cross, np.sqrt((inverse**2).sum(axis=1)) * _UP
        # products of d numbers are off by less than (d + 2)·2^-53 of the sum of their magnitudes
        off = (d + 2) * 2.0**-52
        apart = np.abs(np.eye(d) - inverse @ self.gram) + off * (np.abs(inverse) @ np.abs(self.gram) + np.eye(d))
        rests, norm = np.sqrt((apart**2).sum(axis=1)) * _UP, norm_above(inverse)
        rest, rounded = float(np.sqrt((rests**2).sum())) * _UP, off * (np.abs(inverse) @ np.abs(self.cross))
        known, grid = (float(np.linalg.norm(centre)) + float(np.linalg.norm(rounded))) * _UP, _GRID * d

        def furthest(size: float) -> float:
            """‖θ − M b‖ at most, if ‖θ‖ ≤ size."""
            noise = reach * math.hypot(nu, math.sqrt(2) * sigma * size) + grid * (nu + sigma * size)
            return (norm * (noise + scatter * (1 + size)) + rest * size) * _UP

        share = norm * (reach * math.sqrt(2) * sigma + grid * sigma + scatter) + rest
        if not share * _UP < 1:
            return None
        size = (known + norm * ((reach + grid) * nu + scatter)) / (1 - share * _UP) * _UP
        for _ in range(_ROUNDS):
            size = min(size, known + furthest(size))
        radius = furthest(size)
        of_centre = np.sqrt(np.maximum(sizes**2 * float(centre @ centre) + (inverse @ centre) ** 2 - inverse**2 @ centre**2, 0.0)) * _UP
        off_centre = math.sqrt(2) * sizes * (radius + float(np.linalg.norm(rounded)))
        half = reach * np.hypot(nu * sizes, sigma * (of_centre + off_centre + 2.0**-26 * sizes * size))
        half = half + sizes * (grid * (nu + sigma * size) + scatter * (1 + size)) + rests * size + rounded
        return centre, half * _UP


def norm_above(matrix: Array) -> float:
    """Bound the largest singular value from above: ‖P‖ ≤ ‖P^(2^k)‖_F^(1/2^k) for P = MM', without an eigenvalue routine."""
    scale = float(np.abs(matrix).max())
    if scale == 0:
        return 0.0
    part = matrix / scale
    if len(part) > _LARGE:
        columns, rows = np.abs(part).sum(axis=0).max(), np.abs(part).sum(axis=1).max()
        return scale * min(float(np.linalg.norm(part)), math.sqrt(float(columns * rows))) * (1 + 1e-6)
    power, log = part @ part.T, 0.0
    for step in range(_SQUARINGS):
        size = float(np.linalg.norm(power))
        power, log = power / size, log + math.log(size) / 2**step
        power = power @ power
    log += math.log(float(np.linalg.norm(power))) / 2**_SQUARINGS
    return scale * math.exp(log / 2) * (1 + 1e-6)
