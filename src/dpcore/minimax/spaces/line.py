"""Largest expectations over all distributions on the real line with a bounded moment, for functions that are linear between points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from dpcore.minimax.spaces.matrices import Array

ROUNDING = 2.0**-44
"""More than the rounding errors of the formulas, relative to the largest number in them."""
DECADES = 40.0
"""Multipliers of the moment are searched within this many powers of ten around their scale."""


@dataclass(frozen=True, slots=True)
class MomentLine:
    """All distributions on the real line with E|x|^κ ≤ C.

    Attributes
    ----------
    kappa : float
        κ > 1.
    C : float
        C > 0.
    """

    kappa: float
    C: float

    def largest(self, points: Array, values: Array, slope: float) -> float:
        """Bound E g(x) over the distributions, rounded up.

        g is linear between ascending points, where it has these values, and has one slope beyond both ends: 0 or ±1.

        Notes
        -----
        E g ≤ y·C + sup (g(x) − y·|x|^κ) for every y ≥ 0, and the best y attains the maximum. On a piece where g is linear the supremum is
        at an end, or where the derivative is 0.
        """
        scale = float(np.abs(values).max()) or 1.0

        def bound(power: float) -> float:
            y = scale / self.C * 10.0**power
            return float(y * self.C + self._highest(points, values, slope, y))

        found = minimize_scalar(bound, bounds=(-DECADES, DECADES), method="bounded", options={"xatol": 1e-10, "maxiter": 300})
        best = min(float(found.fun), *(bound(float(found.x) + step) for step in (-1e-3, 0.0, 1e-3)))
        if slope == 0:
            best = min(best, float(values.max()))
        return best + ROUNDING * (abs(best) + scale)

    def _highest(self, points: Array, values: Array, slope: float, y: float) -> float:
        """Return sup (g(x) − y|x|^κ)."""
        found = float((values - y * np.abs(points) ** self.kappa).max())
        slopes = np.diff(values) / np.diff(points)
        found = max(found, float(self._inside(points[:-1], points[1:], values[:-1], slopes, y).max()))
        far = np.array([-math.inf, points[-1]]), np.array([points[0], math.inf])
        known = np.array([values[0] - slope * points[0], values[-1] - slope * points[-1]])
        if slope:
            found = max(found, float(self._inside(*far, known, np.full(2, slope), y, known_at=0.0).max()))
        return found

    def _inside(self, left: Array, right: Array, values: Array, slopes: Array, y: float, known_at: float | None = None) -> Array:
        """Return the values at the places between two ends where the derivative is 0, and −∞ where there is none.

        `values` are those of the linear function at `left`, or at `known_at`.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            place = np.sign(slopes) * (np.abs(slopes) / (y * self.kappa)) ** (1 / (self.kappa - 1))
            start = left if known_at is None else np.full_like(left, known_at)
            reached = values + slopes * (place - start) - y * np.abs(place) ** self.kappa
        return np.where((left < place) & (place < right) & np.isfinite(reached), reached, -math.inf)
