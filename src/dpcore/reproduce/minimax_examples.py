"""Steinberger (2019), Beispiele 3.6 to 3.8, at a sample size: model, linear estimator, tuned search, risks at the worst distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.minimax import (
    BinarySearchEstimator,
    LinearEstimator,
    LinearOnModel,
    Model,
    SimulatedRisk,
    WorstDistribution,
    density_at,
    lower_bound,
    optimal_channel,
    simulate_risk,
    truncated_moment,
    uniform_scale,
    worst_distribution,
)
from dpcore.rng import Stream

FEWEST_INTERVALS = 8
"""Least N at which a search is compared with the rate; a smaller N gives too few tests."""
HALF_RANGE = 6.0
"""Densities of H(2, 1) may have supports of at least twice this length: the narrowest of them is 4 wide."""


@dataclass(frozen=True, slots=True)
class Example:
    """One of the document's examples.

    Attributes
    ----------
    name : str
        Its number.
    title : str
        The parameter, and the distributions.
    exponent : float
        Exponent of n in the optimal squared risk.
    build : callable
        Takes n and ε, and returns the model, on a grid that is fine enough for this n, and the linear estimator.
    """

    name: str
    title: str
    exponent: float
    build: Callable[[int, float], tuple[Model, LinearEstimator]]


def _bounded_mean(n: int, epsilon: float) -> tuple[Model, LinearEstimator]:
    grid = np.linspace(-1.0, 1.0, 65)
    return Model.moment(grid, kappa=2.0, C=0.25), truncated_moment(epsilon, n=n, kappa=2.0, C=0.25, f=grid)


def _mean(n: int, epsilon: float) -> tuple[Model, LinearEstimator]:
    """Grid from −2/h to 2/h in steps of h/4 or less: 2/h is where clipping at 1/h does its worst."""
    linear = truncated_moment(epsilon, n=n, kappa=2.0, C=1.0)
    h = float(linear.h or 0.0)
    half = math.ceil(8 / h**2)
    return Model.moment(np.linspace(-2 / h, 2 / h, 2 * half + 1), kappa=2.0, C=1.0), linear


def _scale(n: int, epsilon: float) -> tuple[Model, LinearEstimator]:
    """Cells of a quarter of h = (n t²)^{−1/3}. No bandwidth requires cells: ℓ is linear, and mixtures have every ϑ on any grid."""
    h = (n * math.tanh(epsilon / 2) ** 2) ** (-1 / 3)
    return Model.uniform_scale(1.0, cells=max(8, math.ceil(4 / h))), uniform_scale(epsilon, M=1.0)


def _density(m: int) -> Callable[[int, float], tuple[Model, LinearEstimator]]:
    def build(n: int, epsilon: float) -> tuple[Model, LinearEstimator]:
        """The window holds four cells on each side, and is so wide that the conditions on its moments hold on the grid as on the line."""
        linear = density_at(0.0, epsilon, n=n, smoothness=2.0, C=1.0, m=m)
        h = float(linear.h or 0.0)
        spacing = h / (4.5 if m == 0 else math.sqrt(20.0))
        half = math.ceil(max(HALF_RANGE, 1 / h) / spacing)
        return Model.hoelder_density(spacing * np.arange(-half, half + 1), smoothness=2.0, C=1.0, x0=0.0, m=m), linear

    return build


EXAMPLES = {
    example.name: example
    for example in (
        Example("3.6 A", "the mean of numbers in [−1, 1] with E x² ≤ ¼", -1.0, _bounded_mean),
        Example("3.6 B", "the mean of numbers with E x² ≤ 1", -1 / 2, _mean),
        Example("3.7", "ϑ ≤ 1 of mixtures of uniform distributions on [0, ϑ]", -1.0, _scale),
        Example("3.8, m = 0", "a density of H(2, 1) at a point", -2 / 3, _density(0)),
        Example("3.8, m = 1", "the derivative of a density of H(2, 1) at a point", -1 / 3, _density(1)),
    )
}
"""Examples by their numbers."""


@dataclass(frozen=True, eq=False)
class Case:
    """An example at a sample size and a privacy loss.

    Parameters
    ----------
    example : Example
        The example.
    n : int
        Number of reports.
    epsilon : float
        Privacy loss ε of one report.
    """

    example: Example
    n: int
    epsilon: float

    @cached_property
    def _built(self) -> tuple[Model, LinearEstimator]:
        return self.example.build(self.n, self.epsilon)

    @property
    def model(self) -> Model:
        """The model."""
        return self._built[0]

    @cached_property
    def linear(self) -> LinearOnModel:
        """The linear estimator with the bandwidth for this n."""
        return self._built[1].on(self.model, n=self.n)

    @cached_property
    def search(self) -> BinarySearchEstimator:
        """The binary search of tests with the optimal channel, and with the step that has the least proven risk."""
        channel = optimal_channel(self.model, self.epsilon, n=self.n)
        return BinarySearchEstimator(self.model, channel, n=self.n, step="tuned", loss="squared")

    @cached_property
    def lower_bound(self) -> float:
        """Lower bound of the largest squared risk in the model, for every estimator and every channel with this ε."""
        return float(lower_bound(self.model, self.epsilon, n=self.n, loss="squared").value)


@dataclass(frozen=True, eq=False, slots=True)
class Measured:
    """The squared risk of an estimator at the worst distribution that a search found.

    Attributes
    ----------
    n : int
        Number of reports.
    worst : WorstDistribution
        The distribution, and the exact risk there.
    risk : SimulatedRisk
        The measured risk there.
    bound : float
        Proven upper bound of the risk in the model.
    """

    n: int
    worst: WorstDistribution
    risk: SimulatedRisk
    bound: float


def measure(estimator: LinearOnModel | BinarySearchEstimator, *, rng: Stream, replicates: int = 1_000_000) -> Measured:
    """Find the worst distribution of a binary estimator, and measure its squared risk there.

    Parameters
    ----------
    estimator : LinearOnModel or BinarySearchEstimator
        An estimator with a binary channel.
    rng : Stream
        A keyed stream.
    replicates : int, default 10^6
        Number of data sets.
    """
    worst = worst_distribution(estimator)
    risk = simulate_risk(estimator, worst.p, replicates=replicates, rng=rng)
    return Measured(estimator.n, worst, risk, estimator.risk_bound("squared"))
