"""How far all answers to adaptive queries are from the population at once; docs/exactness-adaptive.md has the proof.

Let k answers with Laplace noise of scale s be (ε, δ)-private together. For all c in (0, 1) and d > 0 they are within
s·ln(k/β') + c + tanh(ε/4) + d of the means over the population, but for a probability of β'/c + δ/d. For a failure of β in all, take d =
2δ/β and β' = cβ/2; then c = s is best.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpcore._error_curves import OUTWARDS

DELTAS = 2.0 ** -np.arange(4.0, 132.0)
"""δ that are tried where privacy is no aim of its own."""
EPSILONS = np.array([float(f"{step}e{power - 1}") for power in range(-5, 0) for step in range(10, 100)])
"""ε that are tried: 1.0e-5, 1.1e-5, …, 0.99."""

GRIDS, SUMS = 2.0**-25, 2.0**-40
"""What rounding to grids adds: noise to 2^-26 of its scale, and the numbers of records."""


def scale_factor(uses: int, delta: Any) -> Any:
    """√(8k ln(1/δ)): the scale of the noise is this over ε·n."""
    return np.sqrt(8.0 * uses * -np.log(delta))


def deviation(scale: Any, uses: int, epsilon: Any, delta: Any, beta: float) -> Any:
    """Bound how far k answers are from the population, but for a probability of β; infinite for s ≥ 1, where nothing is proved."""
    noise = scale * (1.0 + GRIDS + np.log(2.0 * uses / (scale * beta)))
    return np.where(np.asarray(scale) < 1, (noise + np.tanh(np.asarray(epsilon) / 4) + 2.0 * delta / beta + SUMS) * OUTWARDS, np.inf)


def best_deviation(n: int, uses: int, beta: float, epsilon: float | None = None, delta: float | None = None) -> tuple[float, float, float]:
    """The smallest deviation over the ε and δ that are not given, with the ε and the δ."""
    epsilons = EPSILONS if epsilon is None else np.array([epsilon])
    deltas = DELTAS if delta is None else np.array([delta])
    scales = scale_factor(uses, deltas)[:, None] / (epsilons * n)
    found = deviation(scales, uses, epsilons, deltas[:, None], beta)
    found = np.where(epsilons <= 2 * -np.log(deltas)[:, None] * (1 - 2.0**-50), found, np.inf)
    row, column = np.unravel_index(int(found.argmin()), found.shape)
    return float(found[row, column]), float(epsilons[column]), float(deltas[row])


def split_size(uses: int, accuracy: float, beta: float) -> int:
    """Records needed if each query has its own: k times the least m with 2k·e^(−2m·α²) ≤ β, by Hoeffding's inequality."""
    return uses * math.ceil(math.log(2 * uses / beta) / (2 * accuracy**2))
