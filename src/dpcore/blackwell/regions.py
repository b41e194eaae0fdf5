"""Convex regions of risks: what can be reached by deciding from outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._validation import REAL_DTYPES, check_array, check_real
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt

    Points = npt.NDArray[np.float64]

MAX_POINTS, MAX_FACETS = 2**18, 2**26
"""Points of which a hull is taken at once, and facets that it may have: p points in ℝⁿ can give some p^⌊n/2⌋."""
FLAT = 1e-12
"""Relative to the largest extent: thinner regions count as flat."""
SAME_DIRECTION = 2.0**-50
"""Sine of an angle, below which two edges are one."""


@dataclass(frozen=True, eq=False)
class Region:
    r"""A convex region in ℝⁿ: the Minkowski sum over outcomes y of conv(pieces[y]).

    Parameters
    ----------
    pieces : ndarray of float64, shape (m, a, n)
        For each of m outcomes the risks that each of a actions contributes, at n states.

    Notes
    -----
    Whoever sees outcome y chooses an action, or mixes several; risks add up over outcomes. Made by `Experiment.risk_region` and
    `Experiment.power_region`. Source: Mechanisms as experiments (2014), Section 1.
    """

    pieces: Points = field(repr=False)

    @property
    def dimension(self) -> int:
        """Number of coordinates n."""
        return int(self.pieces.shape[2])

    def support(self, direction: Any) -> Any:
        r"""Give the support function h(w) = max {w·r : r in the region}.

        Parameters
        ----------
        direction : array_like, shape (..., n)
            Directions w; those of least risk have negative entries.

        Returns
        -------
        float or ndarray of float64, shape (...)
            Σ_y max over actions of w·pieces[y, action]. A Python float for a single direction.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the directions have another length or are no real numbers.
        """
        w = check_array("direction", direction, REAL_DTYPES).astype(np.float64)
        if w.ndim == 0 or w.shape[-1] != self.dimension:
            raise ParameterError(f"direction must have shape (..., {self.dimension}), got {w.shape}")
        heights = np.stack([(self.pieces @ row).max(axis=1).sum() for row in w.reshape(-1, self.dimension)] or [np.empty(0)])
        return float(heights[0]) if w.ndim == 1 else heights.reshape(w.shape[:-1])

    @cached_property
    def vertices(self) -> Points:
        """Corners of the region, shape (v, n); for n = 2 counterclockwise, from the one that is least in the second coordinate.

        Raises
        ------
        ParameterError
            If the hull of too many points would have to be taken (2^18 for n = 3, 2^13 for n = 4 or 5, some 400 for 6 or 7); the support
            function has no such limit.
        """
        corners = _planar_sum(self.pieces) if self.dimension == 2 else _sum_of_hulls(self.pieces)
        corners.setflags(write=False)
        return corners

    def contains(self, points: Any, tolerance: float = 1e-12) -> Any:
        """Tell which points lie in the region.

        Parameters
        ----------
        points : array_like, shape (..., n)
            Points to be looked at.
        tolerance : float, default 1e-12
            How far beyond its border, in any direction that bounds it, a point still counts; ≥ 0.

        Returns
        -------
        bool or ndarray of bool, shape (...)
            A Python bool for a single point.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the region has not two dimensions, or a parameter does not fit.
        """
        tolerance = check_real("tolerance", tolerance, low=0.0, high=math.inf)
        where = check_array("points", points, REAL_DTYPES).astype(np.float64)
        if self.dimension != 2 or where.ndim == 0 or where.shape[-1] != 2:
            raise ParameterError(f"points must have shape (..., 2), for regions in the plane, got {where.shape} in ℝ^{self.dimension}")
        edges = np.roll(self.vertices, -1, axis=0) - self.vertices
        normals = np.concatenate([np.stack([edges[:, 1], -edges[:, 0]], axis=1), [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
        lengths = np.hypot(*normals.T)
        normals = normals[lengths > 0] / lengths[lengths > 0, None]
        inside = (where @ normals.T <= (self.vertices @ normals.T).max(axis=0) + tolerance).all(axis=-1)
        return bool(inside) if where.ndim == 1 else inside


def testing_pieces(p0: Points, p1: Points) -> Points:
    """Pieces of the region of (P_MD, P_FA): an outcome outside S is missed under the second row, one inside S is a false alarm."""
    zero = np.zeros_like(p0)
    return np.stack([np.stack([p1, zero], axis=1), np.stack([zero, p0], axis=1)], axis=1)


def _planar_sum(pieces: Points) -> Points:
    """Corners of a sum of polygons: all their edges, in the order of their angles, from the sum of the lowest corners."""
    lowest, edges = np.zeros(2), []
    for piece in pieces:
        corners = _planar_hull(piece)
        lowest += corners[0]
        if len(corners) > 1:
            edges.append(np.roll(corners, -1, axis=0) - corners)
    if not edges:
        return lowest[None]
    together = _merged(np.concatenate(edges))
    reached: Points = lowest + np.concatenate([np.zeros((1, 2)), np.cumsum(together[:-1], axis=0)])
    return reached


def _planar_hull(points: Points) -> Points:
    """Corners of a small hull, counterclockwise from the lowest (then the leftmost) one."""
    ordered = sorted({(float(x), float(y)) for x, y in points}, key=lambda point: (point[1], point[0]))
    if len(ordered) < 3:
        return np.array(ordered)

    def chain(sequence: list[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for point in sequence:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return np.array(chain(ordered) + chain(ordered[::-1]))


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _merged(edges: Points) -> Points:
    """Edges in the order of their angles from 0 to 2π, those of one direction as one."""
    angles = np.arctan2(edges[:, 1], edges[:, 0])
    angles[(angles < 0) | ((edges[:, 1] == 0) & (edges[:, 0] < 0))] %= 2 * math.pi
    edges = edges[np.argsort(angles, kind="stable")]
    before, after = edges[:-1], edges[1:]
    sine = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])
    turns = (sine > SAME_DIRECTION * np.hypot(*before.T) * np.hypot(*after.T)) | ((before * after).sum(axis=1) < 0)
    return np.add.reduceat(edges, np.concatenate([[0], np.flatnonzero(turns) + 1]), axis=0)


def _sum_of_hulls(pieces: Points) -> Points:
    """Corners of a sum of polytopes, one summand after the other."""
    dimension = pieces.shape[2]
    limit = min(MAX_POINTS, int(MAX_FACETS ** (1 / max(1, dimension // 2))))
    total = np.zeros((1, dimension))
    for piece in pieces:
        distinct = np.unique(piece, axis=0)
        if len(total) * len(distinct) > limit:
            raise ParameterError(
                f"the region must be a hull of at most {limit} points in ℝ^{dimension}, got {len(total)} × {len(distinct)}"
            )
        total = _hull((total[:, None] + distinct).reshape(-1, pieces.shape[2]))
    return total


def _hull(points: Points) -> Points:
    """Corners of the convex hull, in whatever flat the points span."""
    from scipy.spatial import ConvexHull

    centred = points - points.mean(axis=0)
    _, extents, axes = np.linalg.svd(centred, full_matrices=False)
    rank = int((extents > FLAT * max(float(extents.max()), 1e-300)).sum()) if extents.max() > 0 else 0
    flat = centred @ axes[:rank].T
    if rank == 0:
        return points[:1]
    if rank == 1:
        return points[[int(flat[:, 0].argmin()), int(flat[:, 0].argmax())]]
    if len(points) <= rank + 1:
        return points
    corners: Points = points[np.sort(ConvexHull(flat).vertices)]
    return corners
