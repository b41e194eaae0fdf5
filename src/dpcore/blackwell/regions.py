"""Convex regions of risks: the risk vectors that decisions from outcomes can have."""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_real
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Points = npt.NDArray[np.float64]

MAX_POINTS, MAX_FACETS = 2**18, 2**26
"""Limits of one hull: its points, and its facets, of which p points in ℝⁿ can have about p^⌊n/2⌋."""
FLAT = 1e-12
"""Relative to the largest extent: thinner regions count as flat."""
SAME_DIRECTION = 2.0**-50
"""Sine of an angle, below which two edges are one."""


@dataclass(frozen=True, eq=False)
class Region:
    r"""A convex region in ℝⁿ: the Minkowski sum over outcomes y of conv(pieces[y]).

    `Experiment.risk_region` and `Experiment.power_region` return regions.

    Attributes
    ----------
    pieces : ndarray of float64, shape (m, a, n)
        For each of m outcomes, the risks that each of a actions contributes at the n states.
    dimension : int
        Number of coordinates n.
    vertices : ndarray of float64, shape (v, n)
        Corners of the region.

    Notes
    -----
    A decision rule chooses an action for each outcome y, or a mixture of actions. Risks add up over the outcomes.

    Source: Mechanisms as experiments (2014), Section 1.

    Examples
    --------
    >>> from dpcore.blackwell import Experiment
    >>> region = Experiment([[0.75, 0.25], [0.25, 0.75]]).power_region(0, 1)
    >>> region.dimension, region.contains([0.5, 0.5]), region.contains([0.1, 0.1])
    (2, True, False)
    """

    pieces: Points = field(repr=False)

    @property
    def dimension(self) -> int:
        """Number of coordinates n."""
        return int(self.pieces.shape[2])

    @overload
    def support(self, direction: Sequence[float]) -> float: ...
    @overload
    def support(self, direction: npt.ArrayLike) -> float | npt.NDArray[np.float64]: ...
    def support(self, direction: Any) -> Any:
        r"""Return the support function h(w) = max {w·r : r in the region}.

        Parameters
        ----------
        direction : array_like, shape (..., n)
            Directions w. For the least risk, use negative entries.

        Returns
        -------
        float or ndarray of float64, shape (...)
            Σ_y max over actions of w·pieces[y, action]. A Python float for a single direction.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the directions do not have n coordinates or are not real numbers.

        Notes
        -----
        Cost: m·a·n multiplications for each direction.
        """
        w = check_array("direction", direction, REAL_DTYPES).astype(np.float64)
        if w.ndim == 0 or w.shape[-1] != self.dimension:
            raise ParameterError(f"direction must have shape (..., {self.dimension}), got {w.shape}")
        heights = np.stack([(self.pieces @ row).max(axis=1).sum() for row in w.reshape(-1, self.dimension)] or [np.empty(0)])
        return float(heights[0]) if w.ndim == 1 else heights.reshape(w.shape[:-1])

    @cached_property
    def vertices(self) -> Points:
        """Corners of the region, shape (v, n). For n = 2 they are in counterclockwise order from the lowest one.

        Raises
        ------
        ParameterError
            If a hull has too many points: more than 2^18 for n = 3, 2^13 for n = 4 or 5, about 400 for n = 6 or 7. The support function
            has no such limit.
        """
        corners = _planar_sum(self.pieces) if self.dimension == 2 else _sum_of_hulls(self.pieces)
        corners.setflags(write=False)
        return corners

    @overload
    def contains(self, points: Sequence[float], *, tolerance: float = ...) -> bool: ...
    @overload
    def contains(self, points: npt.ArrayLike, *, tolerance: float = ...) -> bool | npt.NDArray[np.bool_]: ...
    def contains(self, points: Any, *, tolerance: float = 1e-12) -> Any:
        """Return which points lie in the region.

        Parameters
        ----------
        points : array_like, shape (..., n)
            Points in the plane.
        tolerance : float, default 1e-12
            Largest distance beyond the border, in any direction that bounds the region, at which a point still counts; ≥ 0.

        Returns
        -------
        bool or ndarray of bool, shape (...)
            A Python bool for a single point.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the region does not have two dimensions, or a parameter is outside its range.
        """
        tolerance = check_real("tolerance", tolerance, low=0.0, high=math.inf)
        where = check_array("points", points, REAL_DTYPES).astype(np.float64)
        if self.dimension != 2 or where.ndim == 0 or where.shape[-1] != 2:
            raise ParameterError(f"points must have shape (..., 2) and the region two dimensions, got {where.shape} in ℝ^{self.dimension}")
        edges = np.roll(self.vertices, -1, axis=0) - self.vertices
        normals = np.concatenate([np.stack([edges[:, 1], -edges[:, 0]], axis=1), [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
        lengths = np.hypot(*normals.T)
        normals = normals[lengths > 0] / lengths[lengths > 0, None]
        inside = (where @ normals.T <= (self.vertices @ normals.T).max(axis=0) + tolerance).all(axis=-1)
        return bool(inside) if where.ndim == 1 else inside


def testing_pieces(p0: Points, p1: Points) -> Points:
    """Return the pieces of the region of (P_MD, P_FA): outcomes outside S are misses under the second row, those in S false alarms."""
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
                f"the region must be a hull of at most {limit} points in ℝ^{dimension}, got {len(total)} × {len(distinct)}; use support()"
            )
        total = _hull((total[:, None] + distinct).reshape(-1, pieces.shape[2]))
    return total


def _hull(points: Points) -> Points:
    """Corners of the convex hull, in the flat that the points span."""
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
