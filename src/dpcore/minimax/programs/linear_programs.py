"""Linear programs by HiGHS, and their refinement below its tolerances.

HiGHS accepts points that are feasible and optimal within 1e-10 at best, and drops coefficients below 1e-9. That is not enough if a distance
of 1e-4 must be accurate to six digits. The errors of a solution define another linear program with the same rows, magnified, and its
solution corrects the first. Source: Gleixner, Steffy & Wolter (2016).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import linprog

from dpcore._dataclasses import dataclass
from dpcore.errors import DpcoreError

Array = npt.NDArray[np.float64]
TOLERANCE = 1e-10
"""Tolerance of the solvers: the smallest that HiGHS accepts."""
ROUNDS = 3
MAGNIFICATIONS = (2.0**27, 2.0**17, 2.0**10)
"""Magnification of a round; the next smaller one if HiGHS gives up."""
LEAST_COEFFICIENT, MOST_COEFFICIENT = 2.0**-29, 2.0**20
"""HiGHS drops coefficients below 1e-9, and loses digits with large ones."""
OTHER_WAYS: tuple[tuple[Literal["highs-ds", "highs-ipm"], bool], ...] = (("highs-ds", False), ("highs-ipm", True))
"""What is tried where HiGHS's own choice gives up: the simplex without presolve, and the interior point method."""
ANSWERS = {0, 2}
"""Statuses of SciPy's `linprog`: solved, infeasible."""
LEAST = 2.0**-100
"""Errors below this are not magnified further."""


class InfeasibleError(DpcoreError):
    """No point satisfies all rows."""


@dataclass(frozen=True, eq=False, slots=True)
class LinearProgram:
    """Minimize cost·x subject to below @ x ≤ at_most, equal @ x = equal_to and x ≥ lower.

    Attributes
    ----------
    cost, lower : ndarray, shape (X,)
        Lower bounds are 0 or −∞.
    below, equal : csr_array, shape (., X)
        Coefficients.
    at_most, equal_to : ndarray
        Right-hand sides.
    """

    cost: Array
    below: Any
    at_most: Array
    equal: Any
    equal_to: Array
    lower: Array

    def solved(self) -> tuple[Array, Array]:
        """Return x, and the multipliers ≥ 0 of the inequalities.

        Raises
        ------
        InfeasibleError
            If nothing satisfies the rows.
        DpcoreError
            If HiGHS gives up.
        """
        found = _highs(self.cost, self.lower, A_ub=self.below, b_ub=self.at_most, A_eq=self.equal, b_eq=self.equal_to)
        _check(found)
        return np.asarray(found.x, np.float64), np.maximum(-np.asarray(found.ineqlin.marginals, np.float64), 0.0)

    def refined(self) -> tuple[Array, Array]:
        """Do the same below the tolerances of HiGHS, as far as float64 allows, with at most three more programs."""
        count = self.below.shape[0]
        rows = sp.vstack(
            [
                sp.hstack([self.below, sp.eye_array(count)]),  # the slack of an inequality is a variable
                sp.hstack([self.equal, sp.csr_array((self.equal.shape[0], count))]),
            ],
            format="csr",
        )
        units = _row_units(rows)
        rows, right = sp.csr_array(sp.diags_array(units) @ rows), units * np.concatenate([self.at_most, self.equal_to])
        cost, lower = np.concatenate([self.cost, np.zeros(count)]), np.concatenate([self.lower, np.zeros(count)])
        best = _Answer(rows, right, cost, lower, np.zeros(len(cost)), np.zeros(len(right))).corrected(1.0, 1.0)
        for _ in range(ROUNDS):
            better = best.magnified()
            if better is None or not better.missed < best.missed:
                break
            best = better
        return best.x[: len(self.cost)], np.maximum(-(units * best.y)[:count], 0.0)


@dataclass(frozen=True, eq=False, slots=True)
class _Answer:
    """A point x and multipliers y of min cost·x, rows @ x = right, x ≥ lower, with their errors."""

    rows: Any
    right: Array
    cost: Array
    lower: Array
    x: Array
    y: Array

    @property
    def missed_by(self) -> tuple[float, float]:
        """The largest error of x in a row or a bound, and that of y in the sign of a reduced cost."""
        reduced = self.cost - self.rows.T @ self.y
        wrong = np.where(np.isfinite(self.lower), -reduced, np.abs(reduced))
        outside = np.maximum(np.abs(self.right - self.rows @ self.x).max(initial=0.0), (self.lower - self.x).max(initial=0.0))
        return float(outside), float(wrong.max(initial=0.0))

    @property
    def missed(self) -> float:
        """The largest of both errors and of the gap between the two objectives."""
        return max(*self.missed_by, abs(float(self.cost @ self.x - self.right @ self.y)))

    def magnified(self) -> _Answer | None:
        """Correct this answer by a program about its errors; None if HiGHS solves none."""
        outside, wrong = self.missed_by
        for most in MAGNIFICATIONS:
            try:
                return self.corrected(*(min(_power_of_two(1.0 / max(each, LEAST)), most) for each in (outside, wrong)))
            except DpcoreError:
                continue
        return None

    def corrected(self, of_rows: float, of_costs: float) -> _Answer:
        """Correct this answer by a program about its residuals, with rows and costs magnified by powers of two."""
        left, bounds, reduced = self.right - self.rows @ self.x, self.lower - self.x, self.cost - self.rows.T @ self.y
        found = _highs(of_costs * reduced, of_rows * bounds, A_eq=self.rows, b_eq=of_rows * left)
        _check(found)
        x, y = self.x + found.x / of_rows, self.y + found.eqlin.marginals / of_costs
        return _Answer(self.rows, self.right, self.cost, self.lower, x, y)


def _highs(cost: Array, lower: Array, **rows: Any) -> Any:
    """Solve by the first way that ends with an answer: numbers of very different sizes stop one algorithm and not another."""
    found = _highs_by("highs", cost, lower, presolve=True, **rows)
    for method, presolve in OTHER_WAYS:
        if found.status in ANSWERS:
            break
        found = _highs_by(method, cost, lower, presolve=presolve, **rows)
    return found


def _highs_by(method: Literal["highs", "highs-ds", "highs-ipm"], cost: Array, lower: Array, *, presolve: bool, **rows: Any) -> Any:
    bounds: Any = np.column_stack([lower, np.full(len(lower), np.inf)])
    options: Any = {"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE, "presolve": presolve}
    return linprog(cost, bounds=bounds, method=method, options=options, **rows)


def _check(found: Any) -> None:
    if found.status == 2:
        raise InfeasibleError("no distribution satisfies all the conditions")
    if found.status != 0:
        raise DpcoreError(f"the linear program was not solved: {found.message}; scale f and the rows of A to similar sizes")


def _row_units(rows: Any) -> Array:
    """Return powers of two that raise the smallest coefficient of each row above what HiGHS drops, as far as the largest allows."""
    sizes = abs(rows)
    sizes.eliminate_zeros()
    least = np.minimum.reduceat(np.append(sizes.data, np.inf), sizes.indptr[:-1])
    largest = sizes.max(axis=1).toarray().ravel()
    wanted = np.clip(LEAST_COEFFICIENT / least, 1.0, np.maximum(MOST_COEFFICIENT / np.maximum(largest, 1.0), 1.0))
    return np.asarray(np.exp2(np.ceil(np.log2(wanted))))


def _power_of_two(value: float) -> float:
    return float(np.exp2(np.floor(np.log2(value))))
