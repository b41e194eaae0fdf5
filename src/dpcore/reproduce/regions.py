"""Random experiments, and testing regions as lines of a plot, for the sections on Mechanisms as experiments (2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpcore.blackwell import Experiment
from dpcore.reproduce.draws import normals
from dpcore.reproduce.results import floats
from dpcore.rng import Stream

Pair = tuple[int, int]
ROUNDING = 1e-12
"""Largest error of sums in float64."""
MISSED, ALARM = "missed, P_MD", "false alarm, P_FA"
"""Axes of testing regions."""
BLIND = (0.0, 1.0), (1.0, 0.0)
"""Ends of the line of tests that ignore the outcome, x then y."""


def random_experiment(stream: Stream, states: int, outcomes: int, spread: float = 0.6) -> Experiment:
    """Draw a matrix with rows in proportion to e^(spread·normal).

    Parameters
    ----------
    stream : Stream
        A keyed stream.
    states, outcomes : int
        Its shape.
    spread : float, default 0.6
        How different rows are.
    """
    weights = np.exp(spread * normals((states, outcomes), 0.0, stream))
    return Experiment(weights / weights.sum(axis=1, keepdims=True))


def closed(corners: npt.ArrayLike) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return x and y of a polygon whose last corner is its first one.

    Parameters
    ----------
    corners : array_like, shape (v, 2)
        In order.

    Examples
    --------
    >>> closed([[0, 0], [1, 0], [0, 1]])
    ((0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))
    """
    points = np.asarray(corners, np.float64)
    around = np.concatenate([points, points[:1]])
    return floats(around[:, 0]), floats(around[:, 1])


def beyond(experiment: Experiment, pairs: Sequence[Pair], epsilon: float, delta: float) -> float:
    """Return by how much a corner of a testing region lies outside R(ε, δ): the deficit of P_FA + e^ε P_MD or e^ε P_FA + P_MD.

    Parameters
    ----------
    experiment : Experiment
        The mechanism.
    pairs : sequence of two int
        Which regions.
    epsilon, delta : float
        The guarantee.

    Examples
    --------
    >>> response = Experiment([[0.75, 0.25], [0.25, 0.75]])
    >>> beyond(response, [(0, 1)], 0.0, 0.25), beyond(response, [(0, 1)], 0.0, 0.75)
    (0.25, -0.25)
    """
    corners = np.concatenate([experiment.power_region(i, j).vertices for i, j in pairs])
    missed, alarm = corners.T
    factor = math.exp(epsilon)
    return float(1 - delta - min((alarm + factor * missed).min(), (factor * alarm + missed).min()))


def apart(one: Experiment, other: Experiment, pairs: Sequence[Pair]) -> float:
    """The largest distance between corners of the testing regions of two experiments; infinite if their numbers differ.

    Parameters
    ----------
    one, other : Experiment
        On the same states.
    pairs : sequence of two int
        Which regions.
    """
    largest = 0.0
    for i, j in pairs:
        corners = one.power_region(i, j).vertices, other.power_region(i, j).vertices
        if corners[0].shape != corners[1].shape:
            return math.inf
        largest = max(largest, float(np.abs(corners[0] - corners[1]).max()))
    return largest


def scientific(value: float) -> str:
    """A number that is only its size, with a true minus sign.

    Examples
    --------
    >>> scientific(2.34e-16), scientific(-1e-3), scientific(0.0)
    ('2.3e−16', '−1.0e−03', '0')
    """
    return f"{value:.1e}".replace("-", "−") if value else "0"
