"""How far the best proved risk is above the bound that no private method goes below, for four problems."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.minimax import Model, best_linear, truncated_moment

POINTS = 101


@dataclass(frozen=True, slots=True)
class Problem:
    """A model for each ε and n.

    Attributes
    ----------
    name : str
        What is estimated.
    build : callable
        Takes n and ε, and returns the model on a grid that is fine and wide enough for them.
    on_the_line : bool
        Whether the upper bound is proved for all distributions on the real line.
    """

    name: str
    build: Callable[[int, float], Model]
    on_the_line: bool = False


@dataclass(frozen=True, slots=True)
class Meeting:
    """Both bounds of the worst-case mean square error.

    Attributes
    ----------
    lower, upper : float
        What no private method goes below, and what the best linear estimator is proved to reach.
    outcomes : int
        Number of outcomes of its reports.
    """

    lower: float
    upper: float
    outcomes: int

    @property
    def ratio(self) -> float:
        """upper/lower."""
        return self.upper / self.lower


def _moment(kappa: float) -> Callable[[int, float], Model]:
    def build(n: int, epsilon: float) -> Model:
        """A grid that is denser near 0 and reaches eight times as far as one bit clips."""
        level = 1 / (truncated_moment(epsilon, n=n, kappa=kappa, C=1.0).h or 1.0)
        steepness = max(4.0, 1.5 * math.log(level))
        grid = np.sinh(np.linspace(-steepness, steepness, POINTS)) / math.sinh(steepness) * 8 * max(level, 1.0)
        return Model.moment(grid, kappa=kappa, C=1.0)

    return build


def _density(n: int, epsilon: float) -> Model:
    """Cells of a fifth of the bandwidth, on both sides of the point as far as the window reaches, and at most 201 of them."""
    h = (n * math.tanh(epsilon / 2) ** 2) ** -0.25
    half = min(max(math.ceil(1.0 / (h / 5)), 10), 100)
    return Model.hoelder_density(np.linspace(-1.0, 1.0, 2 * half + 1), smoothness=1.0, C=2.0, x0=0.0)


def _event(n: int, epsilon: float) -> Model:  # noqa: ARG001  the same for all
    return Model([0.0, 1.0])


PROBLEMS = {
    "moment-2": Problem("mean under E x² ≤ 1", _moment(2.0), on_the_line=True),
    "moment-3": Problem("mean under E |x|³ ≤ 1", _moment(3.0), on_the_line=True),
    "hoelder": Problem("Lipschitz density (constant 2) at a point", _density),
    "event": Problem("probability of an event", _event),
}
EPSILONS = (0.1, 0.3, 1.0, 2.0, 3.0)
SIZES = (10**4, 10**6, 10**8)


def meeting(name: str, epsilon: float, n: int) -> Meeting:
    """Compute both bounds for one problem.

    Parameters
    ----------
    name : str
        A key of `PROBLEMS`.
    epsilon : float
        Privacy loss of one record.
    n : int
        Number of records.
    """
    problem = PROBLEMS[name]
    found = best_linear(problem.build(n, epsilon), epsilon, n=n)
    upper = found.for_records().risk_bound(n=n) if problem.on_the_line else found.certificate.risk
    return Meeting(found.certificate.lower.value, upper, found.mean.channel.outcomes)
