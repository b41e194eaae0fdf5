"""Optimal composition of unequal guarantees, which is #P-hard to compute exactly (Murtagh & Vadhan, 2016), between two bounds.

Every ε_i is rounded up to a grid for the upper bound, and down for the lower one. On the grid the sum of the losses has a law that is
computed by adding one randomised response at a time, and δ₀(ε') = Σ_{s > ε'} P(s)·(1 − e^(ε'−s)) has positive terms only.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcore.accounting import _composition
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_CELLS = 2**32
MOST_POINTS = 2**22
ROUNDING = 2.0**-53


def loss_law(steps: Sequence[int], grid: float) -> NDArray[np.float64]:
    """Return P(loss = (2i − Σ steps)·grid), shape (Σ steps + 1,), of responses with ε = step·grid each, for the larger answer."""
    law = np.zeros(sum(steps) + 1)
    law[0] = 1.0
    size = 1
    for step in sorted(steps):
        size += step
        likely = 1.0 / (1.0 + math.exp(-step * grid))
        unlikely = math.exp(-step * grid) * likely
        moved = law[: size - step] * likely
        law[:size] *= unlikely
        law[step:size] += moved
    return law


def least_epsilon(steps: Sequence[int], grid: float, target: float, direction: int) -> float:
    """Find ε' with δ₀(ε') ≤ target, where δ₀ is rounded up for direction 1 and down for −1."""
    law = loss_law(steps, grid)
    losses = (2.0 * np.arange(law.size) - (law.size - 1)) * grid  # exact: the grid is a power of two
    # Ten roundings a step and some at the end, each within a unit; below the range of float64 every product may lose 2^−1074.
    relative = 1 + direction * (10 * len(steps) + 128) * ROUNDING
    absolute = direction * law.size * (len(steps) + 1) * 5e-324

    weights = np.cumsum(law[::-1])[::-1]  # from here up
    last = int(np.searchsorted(-weights, -target * 2.0**-60))  # the terms above are negligible and count as lost

    def excess(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon, side="right"))
        delta = float(np.sum(law[first:last] * -np.expm1(epsilon - losses[first:last])))
        return delta * relative + absolute + (target * 2.0**-59 if direction > 0 else 0.0) - target

    low, high = 0.0, float(losses[-1])
    if excess(0.0) <= 0:
        return 0.0
    while high - low > 2.0**-44 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
    return high if direction > 0 else low


def bounds(epsilons: Sequence[float], target: float, grid: float) -> tuple[float, float]:
    """Bound the least ε' from below and from above."""
    quotients = [Fraction(epsilon) / Fraction(grid) for epsilon in epsilons]
    lower = least_epsilon([math.floor(q) for q in quotients], grid, target, -1)
    return lower, least_epsilon([math.ceil(q) for q in quotients], grid, target, 1)


def optimal_epsilon(parts: Sequence[tuple[float, float]], delta_total: float, tolerance: float) -> float:
    """Refine the grid until the two bounds are within the tolerance, and return the upper one."""
    deltas = [(1, 0.0, delta) for _, delta in parts]
    epsilons = [epsilon for epsilon, _ in parts if epsilon]
    target = _composition.left_over(deltas, delta_total)
    if not target or not epsilons:
        fits = sum((Fraction(delta) for _, delta in parts), Fraction(0)) <= Fraction(delta_total)
        return _composition.sum_up(epsilons) if fits or target else math.inf
    grid = 2.0 ** math.floor(math.log2(tolerance))
    while True:
        points = sum(math.ceil(Fraction(epsilon) / Fraction(grid)) for epsilon in epsilons)
        if points > MOST_POINTS or points * len(epsilons) > MOST_CELLS:
            raise ParameterError(
                f"tolerance must be larger for these {len(epsilons)} parts, whose grid has too many points, got {tolerance!r}"
            )
        lower, upper = bounds(epsilons, target, grid)
        if upper - lower <= tolerance:
            return min(upper, _composition.sum_up(epsilons))
        grid /= 2.0 ** max(1, min(math.ceil(math.log2((upper - lower) / tolerance)), 6))
