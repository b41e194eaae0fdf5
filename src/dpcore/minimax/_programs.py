"""Linear and conic programmes over members of models: a small language of rows, solved by HiGHS and Clarabel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import linprog

from dpcore.errors import DpcoreError

Array = npt.NDArray[np.float64]
TOLERANCE = 1e-10
"""Feasibility that the solvers are asked for: the least that HiGHS takes."""
EXTRA_MISSING = "Hellinger distances of models need the extra `minimax`: pip install 'dpcore[minimax]'"
_ACCEPTED = {"Solved", "AlmostSolved"}


class InfeasibleError(DpcoreError):
    """No point satisfies all rows."""


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """The polytope {image @ y: y ≥ 0 but for free ones, equal @ y = equal_to, below @ y ≤ at_most}.

    Attributes
    ----------
    image : csr_array, shape (X, Y)
        From the programme's variables to points of the model.
    equal, below : csr_array, shape (., Y)
        Rows of equations and of inequalities.
    equal_to, at_most : ndarray
        Their right-hand sides.
    free : ndarray of bool, shape (Y,)
        Which variables may be negative.
    """

    image: Any
    equal: Any
    equal_to: Array
    below: Any
    at_most: Array
    free: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """Rows that are linear in a programme's variables.

    Attributes
    ----------
    rows : int
        How many.
    terms : tuple of (int, csr_array)
        Number of the first variable, and the coefficients from it on.
    constant : ndarray, shape (rows,)
        What is added.
    """

    rows: int
    terms: tuple[tuple[int, Any], ...]
    constant: Array

    __array_ufunc__ = None
    """So that an array before the operator leaves it to the expression."""

    def __add__(self, other: Expression | Array | float) -> Expression:
        if isinstance(other, Expression):
            return Expression(self.rows, (*self.terms, *other.terms), self.constant + other.constant)
        return Expression(self.rows, self.terms, self.constant + other)

    def __sub__(self, other: Expression | Array | float) -> Expression:
        return self + (-1.0 * other if isinstance(other, Expression) else -other)

    def __rmul__(self, factor: float) -> Expression:
        return Expression(self.rows, tuple((first, factor * block) for first, block in self.terms), factor * self.constant)

    def __rmatmul__(self, matrix: Any) -> Expression:
        """A matrix (k, rows), or a vector for a single row."""
        dense_or_sparse: Any = matrix if sp.issparse(matrix) else np.atleast_2d(matrix)
        left = sp.csr_array(dense_or_sparse)
        terms = tuple((first, sp.csr_array(left @ block)) for first, block in self.terms)
        return Expression(left.shape[0], terms, left @ self.constant)

    def matrix(self, width: int) -> Any:
        """The coefficients of the programme's `width` variables, as one sparse matrix."""
        total = sp.csr_array((self.rows, width))
        for first, block in self.terms:
            wide = sp.csr_array((block.data, block.indices + first, block.indptr), shape=(self.rows, width))
            total = total + wide
        return total


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """What `Program.at_most` gives: which rows of the inequalities they are."""

    first: int
    stop: int


@dataclass(frozen=True, eq=False, slots=True)
class Solution:
    """An optimal point of a programme.

    Attributes
    ----------
    value : float
        The maximum.
    point : ndarray
        The variables.
    duals : ndarray
        What one more unit of each inequality's right-hand side would add to the maximum, ≥ 0.
    """

    value: float
    point: Array
    duals: Array

    def value_of(self, expression: Expression) -> Array:
        """The rows of an expression at the optimum."""
        return np.asarray(expression.matrix(len(self.point)) @ self.point + expression.constant, np.float64)

    def dual(self, rows: Rows) -> Array:
        """The duals of some inequalities."""
        return self.duals[rows.first : rows.stop]


@dataclass(eq=False, slots=True)
class Program:
    """A programme under construction.

    Examples
    --------
    >>> from dpcore.minimax import Model
    >>> program = Program()
    >>> p = program.member(Model([0.0, 1.0, 3.0]))
    >>> cap = program.at_most(np.array([0.0, 0.0, 1.0]) @ p, 0.25)
    >>> solution = program.maximise(np.array([0.0, 1.0, 3.0]) @ p)
    >>> round(solution.value, 9), solution.value_of(p).round(9).tolist(), solution.dual(cap).round(9).tolist()
    (1.5, [0.0, 0.75, 0.25], [2.0])
    """

    _free: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    _equations: list[Expression] = field(default_factory=list)
    _inequalities: list[Expression] = field(default_factory=list)
    _cones: list[tuple[Expression, Expression, Expression]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Number of variables so far."""
        return sum(map(len, self._free))

    def variables(self, count: int, *, free: bool = False) -> Expression:
        """Add variables, each ≥ 0 unless `free`."""
        return self._add(np.full(count, free))

    def _add(self, free: npt.NDArray[np.bool_]) -> Expression:
        first, count = self.width, len(free)
        self._free.append(free)
        return Expression(count, ((first, sp.eye_array(count, format="csr")),), np.zeros(count))

    def member(self, model: HasRegion) -> Expression:
        """Add a point of a model."""
        region = model.region
        variables = self._add(region.free)
        self.equal(region.equal @ variables, region.equal_to)
        self.at_most(region.below @ variables, region.at_most)
        point: Expression = region.image @ variables
        return point

    def at_most(self, expression: Expression, bound: Array | float) -> Rows:
        """Demand that every row is at most its bound."""
        first = sum(rows.rows for rows in self._inequalities)
        self._inequalities.append(expression - bound)
        return Rows(first, first + expression.rows)

    def equal(self, expression: Expression, value: Array | float) -> None:
        """Demand that every row has its value."""
        self._equations.append(expression - value)

    def rotated(self, s: Expression, a: Expression, b: Expression) -> None:
        """Demand s² ≤ a·b with a, b ≥ 0, row by row."""
        self._cones.append((s, a, b))

    def maximise(self, expression: Expression) -> Solution:
        """Find the largest value of a single row.

        Raises
        ------
        InfeasibleError
            If nothing satisfies the rows.
        DpcoreError
            If the solver gives up, or the extra `minimax` is missing where there are cones.
        """
        objective = expression.matrix(self.width).toarray()[0]
        point, duals = self._solve_conic(objective) if self._cones else self._solve_linear(objective)
        return Solution(float(objective @ point + expression.constant[0]), point, duals)

    def _stacked(self, expressions: list[Expression]) -> tuple[Any, Array]:
        """Coefficients and right-hand sides of rows that are compared with 0."""
        width = self.width
        if not expressions:
            return sp.csr_array((0, width)), np.zeros(0)
        matrix = sp.vstack([rows.matrix(width) for rows in expressions], format="csr")
        return matrix, -np.concatenate([rows.constant for rows in expressions])

    def _solve_linear(self, objective: Array) -> tuple[Array, Array]:
        equal, equal_to = self._stacked(self._equations)
        below, at_most = self._stacked(self._inequalities)
        lower = np.where(np.concatenate(self._free), -np.inf, 0.0)
        bounds: Any = np.column_stack([lower, np.full(len(lower), np.inf)])
        found = linprog(
            -objective,
            A_ub=below,
            b_ub=at_most,
            A_eq=equal,
            b_eq=equal_to,
            bounds=bounds,
            method="highs",
            options={"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE},
        )
        if found.status == 2:
            raise InfeasibleError("no distribution satisfies all the conditions")
        if found.status != 0:
            raise DpcoreError(f"the linear programme was not solved: {found.message}")
        return np.asarray(found.x, np.float64), np.maximum(-np.asarray(found.ineqlin.marginals, np.float64), 0.0)

    def _solve_conic(self, objective: Array) -> tuple[Array, Array]:
        try:
            import clarabel
        except ModuleNotFoundError:
            raise ModuleNotFoundError(EXTRA_MISSING) from None
        matrix, right, sizes = self._conic_rows()
        cones = [clarabel.ZeroConeT(sizes[0]), clarabel.NonnegativeConeT(sizes[1])] + [clarabel.SecondOrderConeT(3)] * sizes[2]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
        width = self.width
        found = clarabel.DefaultSolver(sp.csc_matrix((width, width)), -objective, sp.csc_matrix(matrix), right, cones, settings).solve()
        status = str(found.status)
        if "PrimalInfeasible" in status:
            raise InfeasibleError("no distribution satisfies all the conditions")
        if status not in _ACCEPTED:
            raise DpcoreError(f"the conic programme was not solved: {status}")
        rows = sum(expression.rows for expression in self._inequalities)
        duals = np.maximum(np.asarray(found.z)[sizes[0] : sizes[0] + rows], 0.0)
        return np.asarray(found.x), duals

    def _conic_rows(self) -> tuple[Any, Array, tuple[int, int, int]]:
        """Rows as Clarabel has them, right − matrix @ x in the cone, and the sizes of the three kinds."""
        width = self.width
        equal, equal_to = self._stacked(self._equations)
        below, at_most = self._stacked(self._inequalities)
        bounded = np.flatnonzero(~np.concatenate(self._free))
        signs = sp.csr_array((np.full(len(bounded), -1.0), (np.arange(len(bounded)), bounded)), shape=(len(bounded), width))
        blocks, constants, count = [], [], 0
        for s, a, b in self._cones:
            # (a + b)² ≥ (2s)² + (a − b)², three rows after each other for every product
            triple = [expression.matrix(width) for expression in (a + b, 2.0 * s, a - b)]
            order = np.arange(3 * s.rows).reshape(3, s.rows).T.ravel()
            blocks.append(-sp.vstack(triple, format="csr")[order])
            constants.append(np.concatenate([(a + b).constant, 2 * s.constant, (a - b).constant])[order])
            count += s.rows
        matrix = sp.vstack([equal, below, signs, *blocks], format="csc")
        right = np.concatenate([equal_to, at_most, np.zeros(len(bounded)), *constants])
        return matrix, right, (equal.shape[0], below.shape[0] + len(bounded), count)


class HasRegion(Protocol):
    """What a programme asks of a model."""

    @property
    def region(self) -> Region:
        """The polytope of its distributions."""
