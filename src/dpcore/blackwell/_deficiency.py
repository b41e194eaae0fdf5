"""Linear programs for the distance between the garblings of one experiment and another experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]

TOLERANCE = 1e-9
"""Largest entry of PT − Q that counts as zero."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Options for HiGHS. It drops coefficients below 1e-9, so the equations PT = Q are first multiplied by a factor."""

    method: str
    factor: float
    tolerance: float


ATTEMPTS = (Attempt("highs-ipm", 2.0**10, 1e-9), Attempt("highs-ds", 2.0**14, 1e-7), Attempt("highs-ds", 1.0, 1e-10))


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A channel T, and losses times priors which prove that no channel comes nearer to PT = Q; either may be missing."""

    channel: Matrix | None
    weights: Matrix | None = None


def answers(p: Matrix, q: Matrix) -> Iterator[Answer]:
    """Yield candidates for a proof of sufficiency or of its opposite; the caller checks each and stops at the first valid one.

    The first program solves PT = Q, which is fast where a solution exists; the second one minimises the deficiency.
    """
    for attempt in ATTEMPTS:
        yield Answer(_exact_channel(p, q, attempt))
        yield _nearest_channel(p, q, attempt)


def distance(p: Matrix, q: Matrix, channel: Matrix) -> tuple[float, float]:
    """Return the largest entry of PT − Q, and the largest total variation between rows."""
    rest = np.abs(p @ channel - q)
    return float(rest.max()), float(rest.sum(axis=1).max()) / 2


def _exact_channel(p: Matrix, q: Matrix, attempt: Attempt) -> Matrix | None:
    from scipy import sparse

    m1, m2 = p.shape[1], q.shape[1]
    equations = sparse.vstack([_times_channel(p * attempt.factor, m2), _row_sums(m1, m2)]).tocsc()
    sides = np.concatenate([attempt.factor * q.ravel(), np.ones(m1)])
    solution = _solve(attempt, np.zeros(m1 * m2), A_eq=equations, b_eq=sides)
    return None if solution.x is None else _stochastic(solution.x.reshape(m1, m2))


def _nearest_channel(p: Matrix, q: Matrix, attempt: Attempt) -> Answer:
    """Min over T of the largest d with Σ_k (PT − Q)_ik+ ≤ d: variables T, the positive parts, d."""
    from scipy import sparse

    (n, m1), m2 = p.shape, q.shape[1]
    parts = n * m2
    at_most = sparse.vstack([
        sparse.hstack([_times_channel(p * attempt.factor, m2), -sparse.eye_array(parts), sparse.csr_array((parts, 1))]),
        sparse.hstack([sparse.csr_array((n, m1 * m2)), _row_sums(n, m2), sparse.csr_array(-np.ones((n, 1)))]),
    ]).tocsc()  # fmt: skip
    sums = sparse.hstack([_row_sums(m1, m2), sparse.csr_array((m1, parts + 1))]).tocsc()
    costs = np.zeros(m1 * m2 + parts + 1)
    costs[-1] = 1.0
    sides = np.concatenate([attempt.factor * q.ravel(), np.zeros(n)])
    solution = _solve(attempt, costs, A_ub=at_most, b_ub=sides, A_eq=sums, b_eq=np.ones(m1))
    if solution.x is None or solution.ineqlin.marginals is None:
        return Answer(None)
    weights = np.maximum(0.0, -solution.ineqlin.marginals[:parts].reshape(n, m2))
    return Answer(_stochastic(solution.x[: m1 * m2].reshape(m1, m2)), weights)


def _times_channel(p: Matrix, m2: int) -> Any:
    """The matrix of T ↦ PT, both row by row."""
    from scipy import sparse

    return sparse.kron(sparse.csr_array(p), sparse.eye_array(m2))


def _row_sums(rows: int, columns: int) -> Any:
    from scipy import sparse

    return sparse.kron(sparse.eye_array(rows), np.ones((1, columns)))


def _solve(attempt: Attempt, costs: Matrix, **constraints: Any) -> Any:
    from scipy import optimize

    linprog: Any = optimize.linprog  # its overloads are by method
    options = {"primal_feasibility_tolerance": attempt.tolerance, "dual_feasibility_tolerance": attempt.tolerance}
    return linprog(costs, bounds=(0, None), method=attempt.method, options=options, **constraints)


def _stochastic(channel: Matrix) -> Matrix:
    """Remove the rounding errors of the solver: no negative entry, and rows that sum to 1."""
    positive = np.maximum(channel, 0.0)
    sums = positive.sum(axis=1, keepdims=True)
    scaled: Matrix = np.divide(positive, sums, out=np.full_like(positive, 1 / positive.shape[1]), where=sums > 0)
    return scaled
