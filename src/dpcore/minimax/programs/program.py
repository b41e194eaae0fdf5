"""Linear and conic programs over members of models: a small language of rows, solved by HiGHS and Clarabel."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore._dataclasses import dataclass
from dpcore._extras import needs, refuse_old
from dpcore.errors import DpcoreError
from dpcore.minimax.programs.linear_programs import TOLERANCE, Array, InfeasibleError, LinearProgram

_ACCEPTED = {"Solved", "AlmostSolved"}


def cone_solver() -> Any:
    """Import Clarabel, else raise with the line for pip."""
    try:
        import clarabel
    except ModuleNotFoundError:
        raise ModuleNotFoundError(needs("Hellinger distances of models need", "minimax")) from None
    refuse_old("clarabel")
    return clarabel


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """The polytope {image @ y: equal @ y = equal_to, below @ y ≤ at_most, y ≥ 0 except free variables}.

    Attributes
    ----------
    image : csr_array, shape (X, Y)
        Maps the variables of a program to masses of points of the model.
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
    """Rows that are linear in the variables of a program.

    Attributes
    ----------
    rows : int
        Number of rows.
    terms : tuple of (int, csr_array)
        Index of the first variable, and the coefficients from it on.
    constant : ndarray, shape (rows,)
        Added to the linear part.
    """

    rows: int
    terms: tuple[tuple[int, Any], ...]
    constant: Array

    __array_ufunc__ = None
    """Makes an array on the left of an operator leave the operation to the expression."""

    def __add__(self, other: Expression | Array | float) -> Expression:
        if isinstance(other, Expression):
            return Expression(self.rows, (*self.terms, *other.terms), self.constant + other.constant)
        return Expression(self.rows, self.terms, self.constant + other)

    def __sub__(self, other: Expression | Array | float) -> Expression:
        return self + (-1.0 * other if isinstance(other, Expression) else -other)

    def __rmul__(self, factor: float) -> Expression:
        return Expression(self.rows, tuple((first, factor * block) for first, block in self.terms), factor * self.constant)

    def __rmatmul__(self, matrix: Any) -> Expression:
        """Multiply by a matrix of shape (k, rows), or by a vector, which gives a single row."""
        dense_or_sparse: Any = matrix if sp.issparse(matrix) else np.atleast_2d(matrix)
        left = sp.csr_array(dense_or_sparse)
        terms = tuple((first, sp.csr_array(left @ block)) for first, block in self.terms)
        return Expression(left.shape[0], terms, left @ self.constant)

    def matrix(self, width: int) -> Any:
        """Return the coefficients of all `width` variables of the program as one sparse matrix."""
        total = sp.csr_array((self.rows, width))
        for first, block in self.terms:
            wide = sp.csr_array((block.data, block.indices + first, block.indptr), shape=(self.rows, width))
            total = total + wide
        return total


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """A range of rows of the inequalities, as returned by `Program.at_most`."""

    first: int
    stop: int


@dataclass(frozen=True, eq=False, slots=True)
class Solution:
    """An optimal point of a program.

    Attributes
    ----------
    value : float
        The maximum.
    point : ndarray
        The variables.
    duals : ndarray
        Gain of the maximum for one more unit on the right-hand side of each inequality, ≥ 0.
    tilts : ndarray
        Multipliers of the s of the cones s² ≤ a·b, in their order: derivatives of the maximum with respect to shifts of s.
    rates : ndarray, shape (., 2)
        Multipliers of their a and b, ≥ 0: Σ (rates · (a, b)) + tilts·s ≥ 0 wherever the cones hold.
    """

    value: float
    point: Array
    duals: Array
    tilts: Array
    rates: Array = field(default_factory=lambda: np.zeros((0, 2)))

    def value_of(self, expression: Expression) -> Array:
        """Return the rows of an expression at the optimum."""
        return np.asarray(expression.matrix(len(self.point)) @ self.point + expression.constant, np.float64)

    def dual(self, rows: Rows) -> Array:
        """Return the duals of some inequalities."""
        return self.duals[rows.first : rows.stop]


@dataclass(frozen=True, eq=False, slots=True)
class ConeRows:
    """Rows right − matrix @ x in a cone: equations, inequalities and bounds, products.

    Attributes
    ----------
    matrix : csc_matrix
        Coefficients.
    right : ndarray
        Right-hand sides.
    sizes : tuple of int
        Numbers of equations, of inequalities with the bounds of variables, and of products, which have three rows each.
    inequalities : int
        Number of inequalities, without bounds; they follow the equations.
    """

    matrix: Any
    right: Array
    sizes: tuple[int, int, int]
    inequalities: int

    def maximise(self, objective: Array) -> tuple[Array, Array, Array]:
        """Return the variables, the multipliers ≥ 0 of the inequalities, and those of the products, shape (., 3)."""
        clarabel = cone_solver()
        equations, linear, products = self.sizes
        cones = [clarabel.ZeroConeT(equations), clarabel.NonnegativeConeT(linear)] + [clarabel.SecondOrderConeT(3)] * products
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
        width = len(objective)
        found = clarabel.DefaultSolver(sp.csc_matrix((width, width)), -objective, self.matrix, self.right, cones, settings).solve()
        status = str(found.status)
        if "PrimalInfeasible" in status:
            raise InfeasibleError("no distribution satisfies all the conditions")
        if status not in _ACCEPTED:
            raise DpcoreError(f"the conic program was not solved: {status}; scale f and the rows of A to similar sizes")
        multipliers = np.asarray(found.z)
        duals = np.maximum(multipliers[equations : equations + self.inequalities], 0.0)
        return np.asarray(found.x), duals, multipliers[equations + linear :].reshape(-1, 3)


@dataclass(eq=False, slots=True)
class Program:
    """A program under construction.

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
        """Require that every row is at most its bound."""
        first = sum(rows.rows for rows in self._inequalities)
        self._inequalities.append(expression - bound)
        return Rows(first, first + expression.rows)

    def equal(self, expression: Expression, value: Array | float) -> None:
        """Require that every row has its value."""
        self._equations.append(expression - value)

    def rotated(self, s: Expression, a: Expression, b: Expression) -> None:
        """Require s² ≤ a·b with a, b ≥ 0, row by row."""
        self._cones.append((s, a, b))

    def maximise(self, expression: Expression, *, refined: bool = False) -> Solution:
        """Find the largest value of a single row. `refined` solves a linear program far below the tolerance of its solver.

        Raises
        ------
        InfeasibleError
            If nothing satisfies the rows.
        DpcoreError
            If the solver gives up.
        ModuleNotFoundError
            If there are cones and the extra `minimax` is not installed.
        """
        objective = expression.matrix(self.width).toarray()[0]
        # The tolerances of the solvers are absolute, and the unit of the functional must not matter.
        unit = float(np.abs(objective).max(initial=0.0)) or 1.0
        point, duals, cones = self._solve_conic(objective / unit) if self._cones else self._solve_linear(objective / unit, refined=refined)
        # The rows of a cone are a + b, 2s and a − b.
        total, tilts, difference = unit * cones.T
        rates = np.stack([total + difference, total - difference], axis=1)
        return Solution(float(objective @ point + expression.constant[0]), point, unit * duals, 2.0 * tilts, rates)

    def _stacked(self, expressions: list[Expression]) -> tuple[Any, Array]:
        """Return coefficients and right-hand sides of rows that are compared with 0."""
        width = self.width
        if not expressions:
            return sp.csr_array((0, width)), np.zeros(0)
        matrix = sp.vstack([rows.matrix(width) for rows in expressions], format="csr")
        return matrix, -np.concatenate([rows.constant for rows in expressions])

    def _solve_linear(self, objective: Array, *, refined: bool) -> tuple[Array, Array, Array]:
        equal, equal_to = self._stacked(self._equations)
        below, at_most = self._stacked(self._inequalities)
        sizes = _column_sizes(equal, below)
        scaled: Any = sp.diags_array(1 / sizes)
        lower = np.where(np.concatenate(self._free), -np.inf, 0.0)
        program = LinearProgram(-objective / sizes, below @ scaled, at_most, equal @ scaled, equal_to, lower)
        point, duals = program.refined() if refined else program.solved()
        return point / sizes, duals, np.zeros((0, 3))

    def _solve_conic(self, objective: Array) -> tuple[Array, Array, Array]:
        return self.cone_rows().maximise(objective)

    def cone_rows(self) -> ConeRows:
        """Return the rows in the form of Clarabel."""
        width = self.width
        equal, equal_to = self._stacked(self._equations)
        below, at_most = self._stacked(self._inequalities)
        bounded = np.flatnonzero(~np.concatenate(self._free))
        signs = sp.csr_array((np.full(len(bounded), -1.0), (np.arange(len(bounded)), bounded)), shape=(len(bounded), width))
        blocks, constants, count = [], [], 0
        for s, a, b in self._cones:
            # (a + b)² ≥ (2s)² + (a − b)²: three consecutive rows for each product
            triple = [expression.matrix(width) for expression in (a + b, 2.0 * s, a - b)]
            order = np.arange(3 * s.rows).reshape(3, s.rows).T.ravel()
            blocks.append(-sp.vstack(triple, format="csr")[order])
            constants.append(np.concatenate([(a + b).constant, 2 * s.constant, (a - b).constant])[order])
            count += s.rows
        matrix = sp.csc_matrix(sp.vstack([equal, below, signs, *blocks]))
        right = np.concatenate([equal_to, at_most, np.zeros(len(bounded)), *constants])
        return ConeRows(matrix, right, (equal.shape[0], below.shape[0] + len(bounded), count), below.shape[0])


def _column_sizes(equal: Any, below: Any) -> Array:
    """Return powers of two near the largest coefficient of each variable. A tolerance of 1e-10 then applies to its effect on the rows.

    A mass of 1e-10 is not small where |f|^κ is 1e12, or where a difference quotient has the coefficient 1e8.
    """
    rows = sp.vstack([equal, below, sp.csr_array((1, equal.shape[1]))])
    largest = np.abs(rows).max(axis=0).toarray().ravel()
    return np.asarray(np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1.0)))))


class HasRegion(Protocol):
    """The part of a model that a program uses."""

    @property
    def region(self) -> Region:
        """The polytope of its distributions."""
