"""The polygon of the pairs (θ, P(+)) of a model behind a binary channel."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from dpcore.minimax.spaces.certified import Maximiser

Array = npt.NDArray[np.float64]
TOLERANCE = 1e-9
"""Largest distance of the outer polygon from the inner one, relative to its width and height."""
MOST_PROGRAMS = 400
STEEPEST = 1e-7
"""Lines whose normal rises less than this are not used for heights, because rounding would dominate."""
ROUNDING = 2.0**-48
PROBABILITY = 2.0**-50
"""Larger than the error of a probability of a channel in float64."""


@dataclass(frozen=True, eq=False, slots=True)
class Polygon:
    """An outer and an inner approximation of {(θ(p), q(p)): p in the model}, both convex, in units where each runs over [0, 1].

    Attributes
    ----------
    low, width : ndarray, shape (2,)
        θ = low[0] + width[0]·x and q = low[1] + width[1]·y with x and y in [0, 1] for every member of the model.
    normals : ndarray, shape (L, 2)
        Unit vectors. The outer polygon {z: normals @ z ≤ supports} contains every member.
    supports : ndarray, shape (L,)
        Maxima over the model, rounded up.
    vertices : ndarray, shape (V, 2)
        (θ, q) of some members, in the order of the angles of the normals in which they are extreme.
    members : ndarray, shape (V, X)
        These members.
    falls : bool
        Whether this is the mirrored polygon, whose q is 1 − P(+).
    """

    low: Array
    width: Array
    normals: Array
    supports: Array
    vertices: Array
    members: Array
    falls: bool = False

    @property
    def theta_range(self) -> tuple[float, float]:
        """The range of θ over the model, rounded outwards."""
        return float(self.low[0]), float(self.low[0] + self.width[0])

    def mirrored(self) -> Polygon:
        """Return the polygon of (θ, 1 − q)."""
        turn = np.array([1.0, -1.0])
        low = np.array([self.low[0], 1.0 - (self.low[1] + self.width[1])])
        vertices = np.column_stack([self.vertices[:, 0], 1.0 - self.vertices[:, 1]])
        # y becomes 1 − y, and n·z ≤ s becomes n_x·x − n_y·y ≤ s − n_y.
        supports = self.supports - self.normals[:, 1] + ROUNDING
        return replace(self, low=low, normals=self.normals * turn, supports=supports, vertices=vertices, falls=not self.falls)

    def _envelope(self, x: Array, side: float) -> Array:
        """Return the largest (side 1) or smallest (side −1) y of the outer polygon at x, rounded outwards."""
        chosen = side * self.normals[:, 1] > STEEPEST
        normals, supports = self.normals[chosen], self.supports[chosen]
        heights = (supports[:, None] - normals[:, [0]] * x + 2 * ROUNDING) / np.abs(normals[:, [1]])
        extreme: Array = side * heights.min(axis=0)
        return extreme

    def range_over(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
        """Bound q over the members with low ≤ θ ≤ high.

        Parameters
        ----------
        low, high : array_like, shape (C,)
            Strips of θ, which may reach beyond its range.

        Returns
        -------
        tuple of ndarray, shape (C,)
            Smallest and largest q of each strip, rounded outwards; NaN if no member has such a θ.
        """
        ends = self._extremes_over(low, high)
        return np.clip(ends[0], 0.0, 1.0), np.clip(ends[1], 0.0, 1.0)

    def theta_over(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
        """Bound θ over the members with low ≤ q ≤ high, as `range_over` bounds q over strips of θ."""
        exchanged = replace(
            self, low=self.low[::-1], width=self.width[::-1], normals=self.normals[:, ::-1], vertices=self.vertices[:, ::-1]
        )
        # The q of a member is computed from rounded probabilities.
        return exchanged._extremes_over(np.asarray(low) - PROBABILITY, np.asarray(high) + PROBABILITY)  # noqa: SLF001

    def _extremes_over(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
        left, right = ((np.asarray(end, np.float64) - self.low[0]) / self.width[0] for end in (low, high))
        empty = (right < -ROUNDING) | (left > 1.0 + ROUNDING) | (left > right)
        left, right = np.clip(left, 0.0, 1.0), np.clip(right, 0.0, 1.0)
        ends = []
        for side in (-1.0, 1.0):
            peak = self._peak(side)
            heights = self._envelope(np.clip(peak, left, right), side)
            q = self.low[1] + self.width[1] * heights + side * 2 * ROUNDING
            ends.append(np.where(empty, np.nan, q))
        return ends[0], ends[1]

    def _peak(self, side: float) -> float:
        """Return an x at which the envelope is extreme."""
        chosen = side * self.normals[:, 1] > STEEPEST
        normals, supports = self.normals[chosen], self.supports[chosen]
        slopes, heights = -normals[:, 0] / np.abs(normals[:, 1]), supports / np.abs(normals[:, 1])
        flat = int(np.abs(slopes).argmin())  # one line is always horizontal
        rising, falling = slopes > 0, slopes < 0
        left = ((heights[flat] - heights[rising]) / slopes[rising]).max(initial=0.0)
        right = ((heights[flat] - heights[falling]) / slopes[falling]).min(initial=1.0)
        return float(np.clip((left + right) / 2, 0.0, 1.0))

    @property
    def rises(self) -> bool:
        """Whether q is larger at the largest θ than at the smallest."""
        ends = np.array(self.theta_range)
        left, right = np.add(*self.range_over(ends, ends))
        return bool(left <= right)

    def member(self, theta: float, *, top: bool) -> Array:
        """Return a distribution of the model with this θ and the largest (or smallest) q of the inner polygon.

        Parameters
        ----------
        theta : float
            Clipped to the range of the inner polygon.
        top : bool
            Whether to take the largest q.

        Returns
        -------
        ndarray, shape (X,)
            A mixture of two of `members`.
        """
        chain = self._chain(top=top)
        places = self.vertices[chain, 0]
        theta = float(np.clip(theta, places[0], places[-1]))
        right = int(np.clip(np.searchsorted(places, theta), 1, len(chain) - 1)) if len(chain) > 1 else 0
        left = max(right - 1, 0)
        gap = places[right] - places[left]
        share = (theta - places[left]) / gap if gap > 0 else 0.0
        mixture: Array = (1 - share) * self.members[chain[left]] + share * self.members[chain[right]]
        return mixture

    def _chain(self, *, top: bool) -> list[int]:
        """Return the inner vertices along the upper or lower boundary, from left to right."""
        sign = 1.0 if top else -1.0
        x, y = self.vertices[:, 0], sign * self.vertices[:, 1]
        chain: list[int] = []
        for i in np.lexsort((y, x)).tolist():
            if chain and x[chain[-1]] == x[i]:
                chain.pop()  # the later one is higher
            while len(chain) > 1 and _turns_left(x, y, chain[-2], chain[-1], i):
                chain.pop()
            chain.append(i)
        return chain


def _turns_left(x: Array, y: Array, a: int, b: int, c: int) -> bool:
    return bool((x[b] - x[a]) * (y[c] - y[a]) >= (y[b] - y[a]) * (x[c] - x[a]))


def trace_polygon(maximise: Maximiser, f: Array, g: Array, *, tolerance: float = TOLERANCE, most: int = MOST_PROGRAMS) -> Polygon:
    """Approximate the polygon of (f·p, g·p) over a model by an inner and an outer one.

    Parameters
    ----------
    maximise : Maximiser
        That of the model.
    f, g : ndarray, shape (X,)
        The two functionals, 0 ≤ g ≤ 1.
    tolerance : float
        The search ends if the two polygons are this close, relative to their width and height.
    most : int
        Largest number of linear programs. The widest gaps come first.

    Returns
    -------
    Polygon

    Notes
    -----
    Sandwich algorithm: between neighbouring vertices, the direction of the normal of their edge comes next. It either proves the edge or
    finds a vertex.
    """
    sandwich = _Sandwich(maximise, f, g)
    corners = [sandwich.ask(normal) for normal in ((-1.0, 0.0), (0.0, -1.0), (1.0, 0.0), (0.0, 1.0))]
    queue: list[tuple[float, int, int]] = []
    for i, j in zip(corners, [*corners[1:], corners[0]], strict=True):
        sandwich.enqueue(queue, i, j)
    while queue and -queue[0][0] > tolerance and len(sandwich.normals) < most:
        _, i, j = heapq.heappop(queue)
        normal = sandwich.edge_normal(i, j)
        middle = sandwich.ask(normal)
        edge = float(normal @ sandwich.points[i])
        if sandwich.supports[middle] - edge > tolerance:
            sandwich.enqueue(queue, i, middle)
            sandwich.enqueue(queue, middle, j)
    return sandwich.polygon()


class _Sandwich:
    """Lines and vertices found so far, in units where both coordinates run over [0, 1]."""

    def __init__(self, maximise: Maximiser, f: Array, g: Array) -> None:
        self._maximise, self._f, self._g = maximise, f, g
        self.normals: list[Array] = []
        self.supports: list[float] = []
        self.points: list[Array] = []
        self.members: list[Array] = []
        ends = [(-maximise(-row)[0], maximise(row)[0]) for row in (f, g)]
        self._low = np.array([low for low, _ in ends])
        self._width = np.array([max(high - low, 2.0**-40 * max(1.0, abs(low), abs(high))) for low, high in ends])
        self._rows = np.stack([(f - self._low[0]) / self._width[0], (g - self._low[1]) / self._width[1]])

    def ask(self, normal: npt.ArrayLike) -> int:
        """Find the line with this normal and a vertex on it; returns their number."""
        unit = np.asarray(normal, np.float64) / np.hypot(*np.asarray(normal, np.float64))
        support, member = self._maximise(unit @ self._rows)
        member = np.maximum(member, 0.0)
        member /= member.sum()
        self.normals.append(unit)
        self.supports.append(support + 4 * ROUNDING)
        self.points.append(self._rows @ member)
        self.members.append(member)
        return len(self.points) - 1

    def edge_normal(self, i: int, j: int) -> Array:
        """Return the outward normal of the edge from vertex i to vertex j, its anticlockwise neighbour."""
        step = self.points[j] - self.points[i]
        outward: Array = np.array([step[1], -step[0]]) / np.hypot(*step)
        return outward

    def enqueue(self, queue: list[tuple[float, int, int]], i: int, j: int) -> None:
        """Queue the edge from vertex i to vertex j by the approximate height of the outer polygon above it."""
        left = max(self.supports[i] - float(self.normals[i] @ self.points[j]), 0.0)
        right = max(self.supports[j] - float(self.normals[j] @ self.points[i]), 0.0)
        if left > 0 and right > 0 and np.hypot(*(self.points[j] - self.points[i])) > 0:
            heapq.heappush(queue, (-left * right / (left + right), i, j))

    def polygon(self) -> Polygon:
        normals = np.array(self.normals)
        order = np.argsort(np.arctan2(normals[:, 1], normals[:, 0]), kind="stable")
        members = np.array(self.members)[order]
        vertices = np.stack([members @ self._f, members @ self._g], axis=1)
        return Polygon(self._low, self._width, normals[order], np.array(self.supports)[order], vertices, members)
