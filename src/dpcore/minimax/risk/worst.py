"""Searches for the distribution at which an estimator's risk is largest: along the boundaries of what its channel sees of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.spaces.polygon import Polygon

    Array = npt.NDArray[np.float64]

PLACES = 1024
"""Places of a boundary where the risk is computed, at least."""
REFINED = 5
"""Of the edges with the largest risks, how many are searched more closely."""


class Boundary:
    """The boundary of a polygon of pairs (θ, q): a closed curve of edges between members of the model.

    Attributes
    ----------
    places : ndarray, shape (L, 2)
        Number of the edge and share of the way along it, in order.
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
        """θ and q at a place."""
        found: Array = (1 - share) * self._starts[edge] + share * self._stops[edge]
        return found

    def member(self, edge: int, share: float) -> Array:
        """A distribution of the model at a place."""
        found: Array = (1 - share) * self._members[edge] + share * self._members[(edge + 1) % len(self._members)]
        return found


def worst_on_boundary(risk: Callable[[float, float], float], boundary: Boundary) -> Array:
    """Find the member on the boundary with the largest risk(θ, q)."""

    def at(edge: int, share: float) -> float:
        return risk(*boundary.pair(edge, share).tolist())

    found = np.array([at(int(edge), share) for edge, share in boundary.places])
    best = max(zip(found.tolist(), boundary.places.tolist(), strict=True))
    for index in np.argsort(-found)[:REFINED].tolist():
        edge, share = int(boundary.places[index, 0]), float(boundary.places[index, 1])
        step = 1 / boundary.counts[edge]
        ends = max(share - step, 0.0), min(share + step, 1.0)
        refined = minimize_scalar(lambda s, edge=edge: -at(edge, s), bounds=ends, method="bounded", options={"xatol": 1e-6})
        best = max(best, (-float(refined.fun), [edge, float(refined.x)]))
    return boundary.member(int(best[1][0]), best[1][1])
