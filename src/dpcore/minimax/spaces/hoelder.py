"""Densities of a Hölder class on an equidistant grid, as a polytope of masses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore.errors import ParameterError
from dpcore.minimax.programs.program import Region

Array = npt.NDArray[np.float64]
MOST_PAIRS = 100_000
"""Largest number of pairs of grid points for a Hölder condition with a fractional exponent."""


def check_equidistant(points: Array) -> Array:
    """Return the points if they are at least three and ascend in equal steps, else raise."""
    steps = np.diff(points)
    if len(points) < 3 or not steps.min() > 0 or np.ptp(steps) > 1e-6 * steps.max():
        raise ParameterError(f"grid must hold at least three ascending numbers at equal distances, got {len(points)} numbers that do not")
    return points


def difference_quotient(points: Array, x0: float, m: int) -> Array:
    """Return weights of the points for the m-th derivative at x0, exact for polynomials.

    Uses the nearest m + 1 points, or m + 2 if m is odd, so that they lie on both sides of x0.
    """
    nearest = np.sort(np.argsort(np.abs(points - x0), kind="stable")[: m + 1 + m % 2])
    spacing = points[1] - points[0]
    offsets = (points[nearest] - x0) / spacing
    right = np.zeros(len(nearest))
    right[m] = math.factorial(m)
    weights = np.zeros(len(points))
    weights[nearest] = np.linalg.solve(np.vander(offsets, increasing=True).T, right) / spacing**m
    return weights


def hoelder_region(size: int, spacing: float, smoothness: float, C: float) -> Region:
    """Return the masses of cells whose density has the smoothness and the Hölder constant C, and is 0 outside the grid."""
    b = math.floor(smoothness)
    signs = [float((-1) ** (b - j) * math.comb(b, j)) for j in range(b + 1)]
    # Differences of order b that touch the grid, with zeros beyond its ends. One more on each side is 0.
    quotients: Any = sp.diags_array(signs[::-1], offsets=[-j for j in range(b + 1)], shape=(size + b, size), format="csr")
    # In units of C·spacing^(β − b), the bound between neighbours.
    quotients = sp.csr_array(quotients / (C * spacing ** (smoothness + 1)))
    if smoothness == b:
        # All lie in an interval of length 1 that contains 0. One more variable says where it begins.
        return _interval_region(size, quotients)
    count = size + b + 2
    if count * (count - 1) // 2 > MOST_PAIRS:
        raise ParameterError(f"grid must have at most {MOST_PAIRS} pairs of points if smoothness is not an integer, got {size} points")
    padded = sp.vstack([sp.csr_array((1, size)), quotients, sp.csr_array((1, size))], format="csr")
    first, second = np.triu_indices(count, 1)
    differences = sp.csr_array(padded[first] - padded[second])
    bounds = (second - first).astype(np.float64) ** (smoothness - b)
    below = sp.vstack([differences, -differences], format="csr")
    simplex = sp.csr_array(np.ones((1, size)))
    return Region(sp.eye_array(size, format="csr"), simplex, np.ones(1), below, np.concatenate([bounds, bounds]), np.zeros(size, np.bool_))


def _interval_region(size: int, quotients: Any) -> Region:
    """Return the masses whose quotients all lie in an interval of length 1 that contains 0."""
    rows = quotients.shape[0]
    image = sp.hstack([sp.eye_array(size), sp.csr_array((size, 1))], format="csr")
    # start ≤ quotient ≤ start + 1, and the zeros beyond the ends: start ≤ 0 ≤ start + 1
    start = sp.csr_array(np.ones((rows, 1)))
    edges = sp.csr_array(np.concatenate([np.zeros((2, size)), [[1.0], [-1.0]]], axis=1))
    below = sp.vstack([sp.hstack([-quotients, start]), sp.hstack([quotients, -start]), edges], format="csr")
    at_most = np.concatenate([np.zeros(rows), np.ones(rows), [0.0, 1.0]])
    simplex = sp.csr_array(np.concatenate([np.ones((1, size)), [[0.0]]], axis=1))
    free = np.zeros(size + 1, np.bool_)
    free[-1] = True
    return Region(image, simplex, np.ones(1), below, at_most, free)
