"""Slow twins of the exact sums, in rational arithmetic, and neighbouring data sets that try their sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from support.kernels import Array


def steps_of(value: Any, lower: float, upper: float, grid: float) -> int:
    """One value's share of a sum: clamped, then the nearest multiple of the grid, ties to even."""
    number = float(value)  # an int64 enters as the nearest float64
    if math.isinf(number):
        number = upper if number > 0 else lower
    return round(min(max(Fraction(number), Fraction(lower)), Fraction(upper)) / Fraction(grid))


def slow_integers(x: Array, lower: float, upper: float, grid: float) -> Any:
    """The sum in units of the grid, or a tuple of one for each column."""
    if x.ndim == 2:
        return tuple(slow_integers(x[:, j], lower, upper, grid) for j in range(x.shape[1]))
    return sum(steps_of(value, lower, upper, grid) for value in x.tolist())


SPECIAL = (0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.0, -1.0, math.inf, -math.inf, 1.7976931348623157e308, -1.7976931348623157e308)


def awkward_values(random: np.random.Generator, shape: Any, lower: float, upper: float, grid: float) -> Array:
    """Values inside and outside the bounds, the bounds, midpoints of the grid and their neighbours, and special ones."""
    width, unit = upper - lower, grid / 2
    uniform = random.uniform(lower - width / 4, upper + width / 4, shape)
    midpoint = (2 * np.rint(random.uniform(lower, upper, shape) / grid) + 1) * unit
    choices = [
        uniform,
        midpoint,
        np.nextafter(midpoint, np.inf),
        np.nextafter(midpoint, -np.inf),
        np.full(shape, lower),
        np.full(shape, upper),
        random.choice(SPECIAL, shape),
        random.standard_normal(shape) * 2.0 ** random.integers(-60, 4, shape) * upper,
    ]
    return np.choose(random.integers(0, len(choices), shape), choices)


def sequential_sum(x: Array, lower: float, upper: float) -> float:
    """The broken twin: clamped floats, added one after the other with a rounding each."""
    total = 0.0
    for value in np.clip(x, lower, upper).tolist():
        total += value
    return total


def half_ulps(n: int) -> Array:
    """[0, v, v, …], v just above half of 2^-52: with a 1 in front, every addition of floats rounds up to 2^-52."""
    return np.concatenate([[0.0], np.full(n, 2.0**-53 * (1 + 2.0**-40))])
