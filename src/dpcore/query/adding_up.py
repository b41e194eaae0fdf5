r"""Numbers of the nodes of a tree that add up: the estimate of least squares, and what is made of it. All of it is post-processing.

Each level ℓ of a tree has released numbers y_v = x_v + noise of variance σ_ℓ², independent of one another, where the exact number x_v of a
node is the sum of those of its children. The estimate u minimises Σ (u_v − y_v)²/σ_v² among all u of which each parent is the sum of its
children. Two passes give it. From the leaves up, z_v is the best estimate of x_v from v and what is below it:

    leaf: z = y, V = σ²;    else, with S = Σ z_c and V_S = Σ V_c over children:    z = α·y + (1 − α)·S,  α = V_S/(V_S + σ²),  V = α·σ².

From the roots down, u of a root is z, and what a parent has more than its children is divided among them as their variances are:

    u_c = z_c + r_c·(u_v − S),  r_c = V_c/V_S;    Var u_c = V_c·(1 − r_c) + r_c²·Var u_v.

docs/exactness-nested.md proves that Var u ≤ σ² for each node, and what else is said here.

**Rounding.** Both passes are in float64. Then the leaves are rounded to whole multiples of a power of two g, so fine that all sums are
below 2^52 multiples, and each parent is the exact sum of its children: the floats add up without any rounding, in any order.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    OfLevels = list[Floats]


MANTISSA = 52
"""Multiples of the grid are below 2 to this power."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Nodes in levels, from the roots to the leaves, which are all in the last one.

    Attributes
    ----------
    sizes : tuple of int
        Nodes of each level.
    parents : tuple of ndarray
        For each level but the first, the number of each node's parent in the level above.
    """

    sizes: tuple[int, ...]
    parents: tuple[npt.NDArray[np.int64], ...]

    def sums(self, level: int, values: Any) -> Any:
        """The sum of the children of each node of a level, given numbers of the level below, of any shape behind the first axis."""
        total = np.zeros((self.sizes[level], *values.shape[1:]), values.dtype)
        np.add.at(total, self.parents[level], values)
        return total

    def to_children(self, level: int, values: Any) -> Any:
        """The number of its parent for each node of the level below."""
        return values[self.parents[level]]


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """The estimate for a tree whose levels have noise of these variances.

    Attributes
    ----------
    tree : Tree
        The nodes.
    alphas : list of ndarray
        α of the nodes of each level; 1 of leaves.
    shares : list of ndarray
        r of the nodes of each level but the first.
    """

    tree: Tree
    alphas: OfLevels
    shares: OfLevels

    @classmethod
    def of(cls, tree: Tree, variances: Sequence[float]) -> LeastSquares:
        """For the variance of the noise of each level."""
        last = len(tree.sizes) - 1
        alphas, shares = [np.ones(tree.sizes[last])], []
        below = np.full(tree.sizes[last], float(variances[last]))
        for level in range(last - 1, -1, -1):
            together = tree.sums(level, below)
            shares.append(below / tree.to_children(level, together))
            # Two quotients in place of one: neither leaves float64.
            alpha = 1 / (1 + variances[level] / together)
            alphas.append(alpha)
            below = alpha * variances[level]
        return cls(tree, alphas[::-1], shares[::-1])

    def estimates(self, values: Sequence[Any]) -> OfLevels:
        """The estimate for each node, given the released numbers of each level, of shape (nodes, parts)."""
        tree, best = self.tree, [np.asarray(values[-1], np.float64)]
        sums: OfLevels = []
        for level in range(len(tree.sizes) - 2, -1, -1):
            together = tree.sums(level, best[0])
            alpha = self.alphas[level][:, None]
            sums.insert(0, together)
            best.insert(0, alpha * np.asarray(values[level], np.float64) + (1 - alpha) * together)
        found = [best[0]]
        for level, (share, together) in enumerate(zip(self.shares, sums, strict=True)):
            found.append(best[level + 1] + share[:, None] * tree.to_children(level, found[level] - together))
        return found

    def squares(self, sizes: Sequence[float]) -> OfLevels:
        r"""For each node Σ a_i²·s_i² over the coefficients a of its estimate and one number s² for each level.

        A node's estimate is κ·S + O: κ of the sum S of its children's z, and what does not depend on them. With t = 1 + r·(κ_parent − 1),
        that of a child is t·z_c + (t − 1)·(S − z_c) + r·O_parent, of which t·α·y_c and t·(1 − α)·S_c are the parts of z_c.
        """
        tree, last = self.tree, len(self.tree.sizes) - 1
        up = [np.full(tree.sizes[last], float(sizes[last]))]
        sums: OfLevels = []
        for level in range(last - 1, -1, -1):
            together = tree.sums(level, up[0])
            sums.insert(0, together)
            alpha = self.alphas[level]
            up.insert(0, alpha**2 * sizes[level] + (1 - alpha) ** 2 * together)
        kappa, other = 1 - self.alphas[0], self.alphas[0] ** 2 * sizes[0]
        found = [up[0]]
        for level, share in enumerate(self.shares):
            beside = share * tree.to_children(level, kappa - 1)
            own, alpha = 1 + beside, self.alphas[level + 1]
            rest = np.maximum(tree.to_children(level, sums[level]) - up[level + 1], 0.0)
            outside = beside**2 * rest + share**2 * tree.to_children(level, other)
            found.append(own**2 * up[level + 1] + outside)
            kappa, other = (1 - alpha) * own, (own * alpha) ** 2 * sizes[level + 1] + outside
        return found


@dataclass(frozen=True, slots=True, eq=False)
class AddedUp:
    """Numbers that add up exactly: whole multiples of a power of two, of each level, of shape (nodes, parts)."""

    tree: Tree
    multiples: list[Integers]
    exponent: int

    @classmethod
    def of_leaves(cls, tree: Tree, leaves: Floats, least: int | None = None) -> AddedUp:
        """Of leaves that are rounded; multiples of 2^least at the finest, if it is given."""
        most = math.fsum(np.abs(leaves).ravel().tolist())
        exponent = math.frexp(most)[1] - MANTISSA if most else -1074
        exponent = max(exponent, -1074, -1074 if least is None else least)
        multiples = [np.rint(np.ldexp(leaves, -exponent)).astype(np.int64)]
        return cls._above(tree, multiples[0], exponent)

    @classmethod
    def _above(cls, tree: Tree, leaves: Integers, exponent: int) -> AddedUp:
        multiples = [leaves]
        for level in range(len(tree.sizes) - 2, -1, -1):
            multiples.insert(0, tree.sums(level, multiples[0]))
        return cls(tree, multiples, exponent)

    def values(self) -> OfLevels:
        """The numbers, each an exact float."""
        return [np.ldexp(each.astype(np.float64), self.exponent) for each in self.multiples]

    def whole(self) -> AddedUp:
        """Whole numbers: roots are rounded to nearest, and children by largest remainders, so that they still add up.

        Each number is one of the two whole numbers beside that which is rounded.
        """
        if self.exponent >= 0:
            return self
        one = -self.exponent
        if one > MANTISSA + 1:  # all are below a half
            return AddedUp(self.tree, [np.zeros_like(each) for each in self.multiples], 0)
        known = [(self.multiples[0] + (1 << (one - 1))) >> one]
        for level in range(len(self.tree.sizes) - 1):
            exact = self.multiples[level + 1]
            down = exact >> one
            missing = known[level] - self.tree.sums(level, down)
            parents = self.tree.parents[level]
            raised = np.zeros_like(down)
            for part in range(exact.shape[1]):
                rest = exact[:, part] & ((1 << one) - 1)
                order = np.lexsort((-rest, parents))
                first = np.searchsorted(parents[order], parents[order], side="left")
                raised[order, part] = np.arange(len(order)) - first < missing[parents[order], part]
            known.append(down + raised)
        return AddedUp(self.tree, known, 0)


def nearest_non_negative(tree: Tree, variances: Sequence[float], values: Sequence[Any]) -> OfLevels:
    """The numbers without a negative one that add up and are nearest to the released ones, in squares over variances.

    For a node, the least squares of what is below it given its number s is a convex function of s, and a multiplier λ, its slope, says s:
    s(λ) is 0 up to some λ and then piecewise linear. Of a leaf it is max(0, y + σ²λ/2); of others the sum over children at some μ, where
    λ = μ + 2·(s − y)/σ². Going up, each node keeps the corners of its function; going down, the roots have λ = 0.
    """
    parts = np.asarray(values[-1]).shape[1]
    columns = [_nearest_of_part(tree, variances, [np.asarray(each, np.float64)[:, part] for each in values]) for part in range(parts)]
    return [np.stack(each, axis=1) for each in zip(*columns, strict=True)]


def _nearest_of_part(tree: Tree, variances: Sequence[float], values: list[Floats]) -> OfLevels:
    scale = max(variances)
    weights = [scale / each for each in variances]
    last = len(tree.sizes) - 1
    # Corners λ and the rise of slope at each: of a leaf one corner.
    owner, corner = np.arange(tree.sizes[last]), -2 * weights[last] * values[last]
    rise = np.full(tree.sizes[last], 0.5 / weights[last])
    curves: list[_Curves] = []
    for level in range(last - 1, -1, -1):
        curve = _Curves.of(tree.parents[level][owner], corner, rise, values[level], weights[level])
        curves.insert(0, curve)
        owner, corner, rise = curve.owners, curve.multipliers, curve.rises()
    multipliers = np.zeros(tree.sizes[0])
    found = []
    for level in range(last):
        inner = curves[level].inner(multipliers)
        found.append(curves[level].at(inner))
        multipliers = tree.to_children(level, inner)
    found.append(np.maximum(0.0, values[last] + multipliers / (2 * weights[last])))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Curves:
    """For each node of a level s as a function of μ, at its corners, in order of nodes and of corners."""

    owners: Any
    corners: Floats
    sums: Floats
    slopes: Floats
    starts: Any
    values: Floats
    weight: float

    @classmethod
    def of(cls, owners: Any, corners: Floats, rises: Floats, values: Floats, weight: float) -> _Curves:
        order = np.lexsort((corners, owners))
        owners, corners, rises = owners[order], corners[order], rises[order]
        starts = np.searchsorted(owners, np.arange(len(values) + 1))
        slopes, sums = np.empty_like(corners), np.empty_like(corners)
        for begin, end in itertools.pairwise(starts):
            slopes[begin:end] = np.cumsum(rises[begin:end])
            steps = slopes[begin : end - 1] * np.diff(corners[begin:end])
            sums[begin:end] = np.concatenate([[0.0], np.cumsum(steps)])
        return cls(owners, corners, sums, slopes, starts, values, weight)

    @property
    def multipliers(self) -> Floats:
        """λ of each corner."""
        found: Floats = self.corners + 2 * self.weight * (self.sums - self.values[self.owners])
        return found

    def rises(self) -> Floats:
        """How much steeper s is as a function of λ from each corner on."""
        steep = self.slopes / (1 + 2 * self.weight * self.slopes)
        before = np.concatenate([[0.0], steep[:-1]])
        before[self.starts[:-1]] = 0.0
        found: Floats = steep - before
        return found

    def inner(self, multipliers: Floats) -> Floats:
        """μ of each node, given λ."""
        corner = self.multipliers
        found = np.empty(len(multipliers))
        for node, (begin, end) in enumerate(itertools.pairwise(self.starts)):
            place = begin + int(np.searchsorted(corner[begin:end], multipliers[node], side="right")) - 1
            if place < begin:  # s is 0
                found[node] = self.corners[begin] + multipliers[node] - corner[begin]
                continue
            steep = 1 + 2 * self.weight * self.slopes[place]
            found[node] = self.corners[place] + (multipliers[node] - corner[place]) / steep
        return found

    def at(self, inner: Floats) -> Floats:
        """S of each node, given μ."""
        found = np.zeros(len(inner))
        for node, (begin, end) in enumerate(itertools.pairwise(self.starts)):
            place = begin + int(np.searchsorted(self.corners[begin:end], inner[node], side="right")) - 1
            if place >= begin:
                found[node] = self.sums[place] + self.slopes[place] * (inner[node] - self.corners[place])
        return found
