r"""Nested groups whose answers add up: `consistent = true`, for any kind that says its numbers do.

The columns of `group_by`, the coarsest first, make a tree: below the whole are the groups of the first column, below each of these those of
the first two, and so on. The declared groups are its leaves. One pass over the rows gives the exact statistic of each leaf; that of any
other node is the sum over its leaves (`Statistic.united`). So all levels are about the same rows of each unit, clamped alike, and a row
counts at a level only if its leaf is declared. No other way leads to a number of a coarser level.

A row is in one node of each level at most, so that each level is a query like any other over groups, with its own noise for its share of ε
and δ; the shares are rounded down, and all levels compose to no more than the query's ε and δ. What is made of the noisy numbers
afterwards (`adding_up`) depends on nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up
from dpcore._spread import noise_variance
from dpcore.errors import ParameterError
from dpcore.pages.numbers import plain_number
from dpcore.query.adding_up import AddedUp, LeastSquares, Tree, nearest_non_negative
from dpcore.query.estimators import AT_LEAST, Estimator
from dpcore.query.group_fields import MAX_GROUPS
from dpcore.query.linear_widths import LEAST_BETA, bound_widths, laws, width
from dpcore.query.nested_fields import TOTAL, Consistent
from dpcore.query.noise import part_of, unit_width
from dpcore.tables.arrays import listed
from dpcore.tables.types.timed import sort_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dpcore.query.assumed import Assumed
    from dpcore.query.groups import Grouping
    from dpcore.query.kinds.base import Kind, QueryContext
    from dpcore.query.noise import Noise
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Level:
    """The groups of a level as those of a query: so many."""

    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """The nodes of nested groups.

    Attributes
    ----------
    columns : tuple of int
        How many columns the groups of each level have.
    of_leaves : tuple of ndarray
        For each level the number of each leaf's node.
    tree : Tree
        The nodes of each level.
    order : ndarray
        Nodes in the order of documents, a parent before its children, as places among those of all levels one after the other.
    """

    columns: tuple[int, ...]
    of_leaves: tuple[Places, ...]
    tree: Tree
    order: Places

    @classmethod
    def of(cls, grouping: Grouping, columns: Sequence[int]) -> Nesting:
        """Those of declared groups, for the levels of so many columns each."""
        codes, leaves = grouping.column_codes(), np.arange(grouping.size)
        firsts, numbers = [], []
        for count in columns[:-1]:
            first, number = _first_of(codes[:, :count])
            firsts.append(first)
            numbers.append(number)
        firsts.append(leaves)
        numbers.append(leaves)
        parents = tuple(above[first] for above, first in zip(numbers, firsts[1:], strict=False))
        # The place of a node: that of the first leaf below each node above it, and nothing below itself.
        ways = [np.stack([firsts[up][numbers[up][first]] for up in range(place + 1)], axis=1) for place, first in enumerate(firsts)]
        keys = np.concatenate([np.pad(way, ((0, 0), (0, len(columns) - way.shape[1])), constant_values=-1) for way in ways])
        tree = Tree(tuple(len(first) for first in firsts), parents)
        return cls(tuple(columns), tuple(numbers), tree, np.lexsort(keys.T[::-1]))

    @property
    def leaf_of_nodes(self) -> Places:
        """Some leaf below each node, in the order of documents."""
        firsts = [np.unique(numbers, return_index=True)[1] for numbers in self.of_leaves]
        return np.concatenate(firsts)[self.order]

    @property
    def columns_of_nodes(self) -> list[int]:
        """How many columns each node has a value in, in the order of documents."""
        found: list[int] = np.repeat(self.columns, self.tree.sizes)[self.order].tolist()
        return found

    def ordered(self, levels: Sequence[Any]) -> Any:
        """Arrays of each level as one, in the order of documents."""
        return np.concatenate(list(levels))[self.order]

    def by_level(self, nodes: Any) -> list[Any]:
        """The inverse of `ordered`."""
        levels = np.empty_like(nodes)
        levels[self.order] = nodes
        return np.split(levels, np.cumsum(self.tree.sizes)[:-1])


def _first_of(codes: Places) -> tuple[Places, Places]:
    """Where each different row comes first, in order, and which of them each row is."""
    if not codes.shape[1]:
        return np.zeros(1, np.int64), np.zeros(len(codes), np.int64)
    _, first, inverse = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse.reshape(-1)]


@dataclass(frozen=True, slots=True)
class NestedEstimator(Estimator):
    """A query over nested groups.

    Attributes
    ----------
    section : Query
        The query.
    levels : tuple of Estimator
        That of each level, with its part of ε; the last is that of the leaves.
    nesting : Nesting
        The groups of all levels.
    shares : tuple of Fraction
        Of ε.
    """

    section: Any
    levels: tuple[Estimator, ...]
    nesting: Nesting
    shares: tuple[Fraction, ...]

    @classmethod
    def calibrate(cls, kind: Kind, query: Any, asked: QueryContext) -> NestedEstimator:
        """Calibrate each level for its share. Rows that are in no declared leaf count nowhere, so no number of rows is public."""
        grouping: Any = asked.read.groups
        shares = query.consistent.shares(grouping.names)
        nesting = Nesting.of(grouping, tuple(shares))
        if sum(nesting.tree.sizes) > 2 * MAX_GROUPS:
            raise ParameterError(f"all levels together must have at most {2 * MAX_GROUPS} groups, got {sum(nesting.tree.sizes)}")
        asked = replace(asked, bound=asked.bound.of_some_rows())
        estimators: list[Estimator] = []
        for share, size in zip(shares.values(), nesting.tree.sizes, strict=True):
            is_leaf = len(estimators) == len(shares) - 1
            # One group, which no row of another one can enter, is a table by itself; rows of no leaf count in none.
            groups: Any = grouping if is_leaf else None if size == 1 else Level(size)
            part = query.model_copy(
                update={"epsilon": part_of(query.epsilon, share), "delta": part_of(query.delta, share), "consistent": None}
            )
            estimators.append(kind.estimator(part, replace(asked, read=replace(asked.read, groups=groups))))
        return cls(query, tuple(estimators), nesting, tuple(shares.values()), grouping=grouping)

    @property
    def _leaves(self) -> Estimator:
        return self.levels[-1]

    @property
    def reads(self) -> Any:
        return self._leaves.reads

    @property
    def statistic(self) -> Statistic:
        return self._leaves.statistic

    @property
    def noise(self) -> tuple[Noise, ...]:
        return tuple(noise for level in self.levels for noise in level.noise)

    @property
    def rho(self) -> float | None:
        """The sum over levels."""
        parts = [level.rho for level in self.levels]
        return None if None in parts else fraction_up(sum((Fraction(part) for part in parts if part is not None), Fraction(0)))

    @property
    def fewest_cells(self) -> int:
        return self._leaves.fewest_cells

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each level."""
        return tuple((TOTAL, *self.grouping.names)[count] for count in self.nesting.columns)

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """The levels, with their parts of ε."""
        each = zip(self.names, self.nesting.tree.sizes, self.levels, strict=True)
        said = ", ".join(f"{name} ({size:,}) for {plain_number(level.section.epsilon, 4)} of ε" for name, size, level in each)
        return (("levels", said), *self._leaves.ways)

    def parameters(self) -> dict[str, Any]:
        return self._leaves.parameters()

    def public_parameters(self) -> dict[str, Any]:
        """The nodes: a key for each column, or none for those of coarser levels."""
        leaves, counts = self.nesting.leaf_of_nodes.tolist(), self.nesting.columns_of_nodes
        columns = [
            [keys[leaf] if place < count else None for leaf, count in zip(leaves, counts, strict=True)]
            for place, keys in enumerate(self.grouping.keys())
        ]
        wanted: Consistent = self.section.consistent
        levels = [
            {"name": name, "columns": columns, "groups": size, "epsilon": level.section.epsilon, "delta": level.section.delta}
            for name, columns, size, level in zip(self.names, self.nesting.columns, self.nesting.tree.sizes, self.levels, strict=True)
        ]
        return {
            "group_by": list(self.grouping.names),
            "groups": dict(zip(self.grouping.names, columns, strict=True)),
            "consistent": {"non_negative": wanted.non_negative, "integral": wanted.integral},
            "levels": levels,
            "level": counts,
            **self.parameters(),
        }

    def totals(self, total: Any) -> list[Any]:
        """The exact statistic of each level, given that of the leaves."""
        places = zip(self.nesting.of_leaves[:-1], self.nesting.tree.sizes[:-1], strict=True)
        return [*(self.statistic.united(total, numbers, size) for numbers, size in places), total]

    def release(self, total: Any, rng: Stream | None) -> dict[str, Any]:
        """The noisy numbers of all nodes, before they add up."""
        said = [level.release_each(each, rng) for level, each in zip(self.levels, self.totals(total), strict=True)]
        places = self.nesting.order.tolist()
        joined = {key: [each for level in said for each in listed(level[key])] for key in said[0]}
        return {key: [values[place] for place in places] for key, values in joined.items()}

    def finished(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with numbers that add up, and the released ones as `raw`: a function of the document alone."""
        raw = {key: document[key] for key in ("value", "stderr", "interval")}
        values = np.asarray(raw["value"])
        found = Adjustment(self.nesting, document["noise"], self.section).of(values.reshape(len(values), -1))
        shaped = {
            key: each.reshape(*values.shape, *each.shape[2:]).tolist() if isinstance(each, np.ndarray) else each
            for key, each in found.items()
        }
        return {**document, **shaped, "raw": raw}

    @property
    def numbers(self) -> int:
        return sum(self.nesting.tree.sizes) * self._leaves.numbers

    def half_width(self, assumed: Assumed) -> float | None:  # noqa: ARG002
        """The largest of all nodes, of the linear estimate."""
        if not self.section.consistent.is_linear:
            return None
        noise = [each.document() for each in self.noise]
        interval = Adjustment(self.nesting, noise, self.section).of(np.zeros((sum(self.nesting.tree.sizes), 1)))["interval"]
        return float(interval[..., 1].max())

    def expected_error(self, rows: int | None) -> float | None:
        """That of a leaf, before it adds up."""
        return self._leaves.expected_error(rows)


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What is made of released numbers of nodes, given their noise.

    Attributes
    ----------
    nesting : Nesting
        The nodes.
    noise : list of dict
        Law and scale of each level, as documents have them.
    section : Query
        What is wanted, and the confidence.
    """

    nesting: Nesting
    noise: list[dict[str, Any]]
    section: Any

    def of(self, values: Array) -> dict[str, Any]:
        """Values, standard errors and intervals, or none of the latter, of shape (nodes, parts); and how the intervals cover."""
        wanted, tree = self.section.consistent, self.nesting.tree
        scales = [each["scale"] for each in self.noise]
        law, unit = self.noise[0]["law"], max(scales)
        is_scaled = law in {"laplace", "gaussian"}  # whose squares might leave float64
        variances = [noise_variance(law, scale / unit if is_scaled else scale) for scale in scales]
        released = self.nesting.by_level(values)
        # Noise may be so small that its variance is 0 in float64: numbers then weigh as their scales say.
        weights = variances if min(variances) > 0 else [(scale / unit) ** 2 for scale in scales]
        fit = LeastSquares.of(tree, weights)
        found = nearest_non_negative(tree, weights, released) if wanted.non_negative else fit.estimates(released)
        least = None if sort_of(getattr(self.section, "lower", None)) is None else 0  # times are written in whole units
        exact = AddedUp.of_leaves(tree, found[-1], least)
        if wanted.integral:
            whole = exact.whole()
            numbers = [each << max(whole.exponent, 0) for each in whole.multiples] if whole.exponent < 10 else whole.values()
            return {"value": self.nesting.ordered(numbers), "stderr": None, "interval": None}
        numbers = self.nesting.ordered(exact.values())
        if wanted.non_negative:
            return {"value": numbers, "stderr": None, "interval": None}
        errors = self._each(fit.squares(variances), numbers) ** 0.5 * (unit if is_scaled else 1.0)
        widths, is_bound = self._widths(law, fit, scales)
        ends = [each * (1 + 2.0**-20) + rounded for each, rounded in zip(widths, self._rounded(exact), strict=True)]
        half = self._each(ends, numbers)
        interval = np.stack([numbers - half, numbers + half], axis=-1)
        return {"value": numbers, "stderr": errors, "interval": interval, **(AT_LEAST if is_bound else {})}

    def _each(self, levels: Sequence[Any], like: Array) -> Array:
        """One number of each node for all of its parts."""
        return np.broadcast_to(self.nesting.ordered(levels)[:, None], like.shape)

    def _widths(self, law: str, fit: LeastSquares, scales: list[float]) -> tuple[list[Array], bool]:
        """The half-width of each node, and whether it is a bound: more than about a per cent too wide."""
        beta, unit = 1 - self.section.confidence, max(scales)
        squares = fit.squares([(scale / unit) ** 2 for scale in scales])
        if law == "gaussian":
            return [np.sqrt(each) * unit_width(law, beta) * unit for each in squares], False
        if law == "discrete_gaussian":
            return [np.sqrt(2 * np.log(2 / beta) * each) * unit for each in squares], True
        found = laws(fit) if beta >= LEAST_BETA else None
        if found is None:
            return [bound_widths(beta, each, 1.0) * unit for each in squares], True
        numbers, different = found
        size = unit if law == "laplace" else 1.0  # the squares of large scales leave float64
        each_width = np.array([width(beta, law, coefficients, [scale / size for scale in scales]) for coefficients in different])
        return [each_width[number] * size for number in numbers], False

    def _rounded(self, exact: AddedUp) -> list[Array]:
        """What rounding the leaves to a grid can move each node."""
        tree = self.nesting.tree
        counts = [np.ones(tree.sizes[-1])]
        for level in range(len(tree.sizes) - 2, -1, -1):
            counts.insert(0, tree.sums(level, counts[0]))
        return [np.ldexp(each, exact.exponent) for each in counts]
