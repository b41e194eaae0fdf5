"""Steinberger (2019), Beispiele 3.6 to 3.8 without privacy: models, estimators from open records, and their risks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpcore import noise
from dpcore._dataclasses import dataclass
from dpcore.minimax import Model, draw_counts
from dpcore.reproduce.draws import signs
from dpcore.rng import Stream

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OpenExample:
    """An example of the document with open records.

    Attributes
    ----------
    name : str
        Its number.
    estimator : str
        The estimator and the distribution, in words.
    exponent : float
        Exponent of n in the optimal squared risk without privacy.
    model : callable
        Takes n and returns the model, on a grid that is fine enough for this n.
    errors : callable
        Takes n, a number of data sets and a stream, and returns the errors of the estimator.
    risk : callable
        Takes n and returns the exact squared risk of the estimator at this distribution.
    sizes : tuple of tuple of int
        Sizes n of a full and of a quick run.
    pair : callable or None
        Takes n and returns the lower bound of two members of the document's own model, where that is not convex.
    """

    name: str
    estimator: str
    exponent: float
    model: Callable[[int], Model]
    errors: Callable[[int, int, Stream], Array]
    risk: Callable[[int], float]
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    pair: Callable[[int], float] | None = None


def uniform_pair_bound(n: int) -> float:
    """Return the largest (δ/2)²·ρ_T/2 of the uniform distributions on [0, 1] and [0, 1 − δ], for n open records.

    Parameters
    ----------
    n : int
        Number of records.

    Returns
    -------
    float
        Their testing affinity is (1 − δ)^n, and δ = 2/(n + 2) is the best difference.

    Examples
    --------
    >>> round(uniform_pair_bound(1), 6)
    0.018519
    """
    delta = 2 / (n + 2)
    return (delta / 2) ** 2 * (1 - delta) ** n / 2


def _mean_errors(n: int, replicates: int, stream: Stream) -> Array:
    return np.asarray(signs((replicates, n), 0.0, stream).mean(axis=1, dtype=np.float64))


def _largest_errors(n: int, replicates: int, stream: Stream) -> Array:
    """The largest of n uniform numbers is e^(−E/n) with E exponential, and E is the size of a Laplace number."""
    return np.asarray(np.expm1(-np.abs(noise.laplace(np.zeros(replicates), 1.0, rng=stream)) / n))


def _bump(x: float) -> float:
    """The distribution function of the density (1 + cos x)/2π on [−π, π], which belongs to H(2, 1)."""
    return (x + math.sin(x)) / (2 * math.pi)


def _windows(n: int, m: int) -> tuple[float, Array, Array, float]:
    """Window width, masses of cells, weights of counts, and θ: the density at 0, or its derivative at π/2."""
    h = n**-0.2
    if m == 0:
        inside = _bump(h) - _bump(-h)
        return h, np.array([1 - inside, inside]), np.array([0.0, 1 / (2 * h)]), 1 / math.pi
    at = math.pi / 2
    left, right = _bump(at) - _bump(at - h), _bump(at + h) - _bump(at)
    return h, np.array([1 - left - right, left, right]), np.array([0.0, -1 / h**2, 1 / h**2]), -1 / (2 * math.pi)


def _density_errors(m: int) -> Callable[[int, int, Stream], Array]:
    def errors(n: int, replicates: int, stream: Stream) -> Array:
        _, masses, weights, theta = _windows(n, m)
        return np.asarray(draw_counts(masses, n=n, replicates=replicates, rng=stream) @ weights / n - theta)

    return errors


def _density_risk(m: int) -> Callable[[int], float]:
    def risk(n: int) -> float:
        _, masses, weights, theta = _windows(n, m)
        mean = float(masses @ weights)
        return (mean - theta) ** 2 + (float(masses @ weights**2) - mean**2) / n

    return risk


def _hoelder(m: int) -> Callable[[int], Model]:
    def model(n: int) -> Model:
        spacing = n**-0.2 / 4
        half = math.ceil(4.0 / spacing)
        return Model.hoelder_density(spacing * np.arange(-half, half + 1), smoothness=2.0, C=1.0, x0=0.0, m=m)

    return model


OPEN_EXAMPLES = {
    example.name: example
    for example in (
        OpenExample(
            "3.6 B",
            "the mean of n signs",
            -1.0,
            lambda _: Model.moment(np.linspace(-4.0, 4.0, 65), kappa=2.0, C=1.0),
            _mean_errors,
            lambda n: 1 / n,
            ((100, 1000, 10_000), (100, 1000)),
        ),
        OpenExample(
            "3.7",
            "the largest of n numbers, uniform on [0, 1]",
            -2.0,
            lambda n: Model.uniform_scale(1.0, cells=4 * n),
            _largest_errors,
            lambda n: 2 / ((n + 1) * (n + 2)),
            ((25, 50, 100), (10, 40)),
            uniform_pair_bound,
        ),
        OpenExample(
            "3.8, m = 0",
            "the share of a window of width 2n^(−1/5), for a density that is a cosine",
            -4 / 5,
            _hoelder(0),
            _density_errors(0),
            _density_risk(0),
            ((100, 1000, 10_000), (100, 1000)),
        ),
        OpenExample(
            "3.8, m = 1",
            "the difference of two windows of width n^(−1/5), for the same density",
            -2 / 5,
            _hoelder(1),
            _density_errors(1),
            _density_risk(1),
            ((100, 1000, 10_000), (100, 1000)),
        ),
    )
}
"""Examples by their numbers."""
