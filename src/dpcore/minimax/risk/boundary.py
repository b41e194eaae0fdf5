"""The boundary of the polygon of pairs (θ, P(+)) over a model, as a curve of distributions that can be searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax._progress import Steps
    from dpcore.minimax.spaces.polygon import Polygon

    Array = npt.NDArray[np.float64]

PLACES = 1024
"""Smallest number of places at which the risk is computed."""
REFINED = 5
"""Number of places around which the search is refined."""


class Boundary:
    """The boundary of a polygon of pairs (θ, q): a closed curve of edges between members of the model.

    Parameters
    ----------
    polygon : Polygon
        The polygon.
    count : int
        Number of places, approximately.

    Attributes
    ----------
    places : ndarray, shape (L, 2)
        The number of an edge and the share of the way along it, in order.
    counts : ndarray of int64
        Number of places on each edge.
    """

    def __init__(self, polygon: Polygon, count: int = PLACES) -> None:
        self._members = polygon.members
        self._starts, self._stops = polygon.vertices, np.roll(polygon.vertices, -1, axis=0)
        size = np.maximum(np.ptp(polygon.vertices, axis=0), 2.0**-1000)
        lengths = np.hypot(*((self._stops - self._starts) / size).T)
        counts = 1 + np.ceil(count * lengths / max(float(lengths.sum()), 2.0**-1000)).astype(np.int64)
        self.counts = np.where(lengths > 0, counts, 1)
        edges = np.repeat(np.arange(len(lengths)), self.counts)
        shares = np.concatenate([np.arange(c) / c for c in self.counts])
        self.places = np.column_stack([edges, shares])

    def pair(self, edge: int, share: float) -> Array:
        """Return θ and q at a place."""
        found: Array = (1 - share) * self._starts[edge] + share * self._stops[edge]
        return found

    def member(self, edge: int, share: float) -> Array:
        """Return a distribution of the model at a place."""
        found: Array = (1 - share) * self._members[edge] + share * self._members[(edge + 1) % len(self._members)]
        return found


def worst_on_boundary(risk: Callable[[float, float], float], boundary: Boundary, steps: Steps) -> Array:
    """Find the member on the boundary with the largest risk(θ, q)."""

    def at(edge: int, share: float) -> float:
        return risk(*boundary.pair(edge, share).tolist())

    found = np.empty(len(boundary.places))
    for index, (edge, share) in enumerate(boundary.places):
        found[index] = at(int(edge), share)
        steps.advance()
    best = max(zip(found.tolist(), boundary.places.tolist(), strict=True))
    for index in np.argsort(-found)[:REFINED].tolist():
        edge, share = int(boundary.places[index, 0]), float(boundary.places[index, 1])
        step = 1 / boundary.counts[edge]
        ends = max(share - step, 0.0), min(share + step, 1.0)
        refined = minimize_scalar(lambda s, edge=edge: -at(edge, s), bounds=ends, method="bounded", options={"xatol": 1e-6})
        best = max(best, (-float(refined.fun), [edge, float(refined.x)]))
        steps.advance()
    return boundary.member(int(best[1][0]), best[1][1])
