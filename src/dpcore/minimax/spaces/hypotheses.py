"""Tests between two models: the minimax test of one report, and the Hellinger test of n, with both sides proved."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_integer
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.minimax.programs.program import Program
from dpcore.minimax.spaces import certified
from dpcore.minimax.spaces.certified import Member
from dpcore.minimax.spaces.matrices import Array, channel_matrix, check_inputs
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.products import MOST_RECORDS, UNIT, power_up

LEAST = 1e-100
"""Smaller multipliers count as this, so that logarithms stay finite."""


@dataclass(frozen=True, slots=True, eq=False)
class MinimaxTest:
    """The test of two models whose largest sum of errors is smallest.

    Attributes
    ----------
    phi : ndarray of float64, shape (K,)
        φ: for each outcome, the probability with which the test decides for the second model, in [0, 1].
    errors : tuple of float
        Upper bounds of sup E φ over the first model and of sup E(1 − φ) over the second one.
    value : float
        An upper bound of their sum.
    lower : float
        A lower bound of the sum of both suprema of every test: ρ_T of the reports of `p0` and `p1`.
    p0, p1 : ndarray of float64, shape (X,)
        Members of the two models that are hardest to distinguish.
    """

    phi: Array = field(repr=False)
    errors: tuple[float, float]
    value: float
    lower: float
    p0: Array = field(repr=False)
    p1: Array = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ModelAffinity:
    """The Hellinger affinity of two models, and the test of n records or reports that it bounds.

    Attributes
    ----------
    value : float
        The affinity of `p0` and `p1`, rounded down.
    upper : float
        An upper bound of the affinity of all pairs of members.
    p0, p1 : ndarray of float64, shape (X,)
        Members of the two models whose reports are closest.
    weights : ndarray of float64, shape (K,)
        The test decides for the second model if counts @ weights > 0.
    """

    value: float
    upper: float
    p0: Array = field(repr=False)
    p1: Array = field(repr=False)
    weights: Array = field(repr=False)

    def error_bound(self, n: int) -> float:
        """Bound both error probabilities of the test of n reports.

        Parameters
        ----------
        n : int
            Number of reports, in [1, 2^53].

        Returns
        -------
        float
            upper^n, rounded up. It holds for independent reports of any members, also of different ones.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `n` is outside its range or not an integer.
        """
        n = check_integer("n", n, low=1, high=MOST_RECORDS)
        return power_up(self.upper * (1 + 8 * UNIT), n) if self.upper > 0 else 0.0

    def decide(self, counts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return whether the test decides for the second model.

        Parameters
        ----------
        counts : array_like of float, shape (..., K)
            How often each outcome was reported.

        Returns
        -------
        ndarray of bool, shape (...)

        Raises
        ------
        ParameterError, ParameterTypeError
            If the last axis does not have K entries, or they are not numbers.
        DataError
            If a number is not finite.
        """
        table = check_array("counts", counts, REAL_DTYPES).astype(np.float64)
        if table.ndim < 1 or table.shape[-1] != len(self.weights):
            raise ParameterError(f"counts must have {len(self.weights)} numbers along its last axis, got shape {table.shape}")
        bad = ~np.isfinite(table)
        if bad.any():
            raise DataError(f"counts must be finite; the one at index {tuple(int(i) for i in np.argwhere(bad)[0])} is not")
        return np.asarray(table @ self.weights > 0)


def minimax_test(model0: Model, model1: Model, *, channel: Any = None) -> MinimaxTest:
    """Find the test of one record or report between two models that has the smallest sum of worst errors.

    Parameters
    ----------
    model0, model1 : Model
        The two hypotheses, on the same points. Their functionals do not matter.
    channel : array_like of float, shape (X, K), or a mechanism with `channel`, optional
        The channel of the report. Without it, the test sees the record, and K = X.

    Returns
    -------
    MinimaxTest
        The test, the least favourable pair, and both sides of the identity inf_φ sup (E φ + E(1 − φ)) = sup ρ_T, which usually agree to
        about nine digits.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is of the wrong type, or the models have different numbers of points.

    Notes
    -----
    The hypotheses of `Model` are convex, so they are their own hulls; for a list of distributions, use `Model.hull`. `value` bounds the
    errors of the φ returned, by weak duality, and does not depend on the accuracy of the solver; nor does `lower`, if the conditions of the
    models leave an interior. For n records, `Model.hull` of their joint laws gives the best test, and `affinity_of_models` one with a
    bound for every n.
    Cost: a linear program with 2X + K variables, and two with X.
    Source: Steinberger (2019), Section 2.2.1, Satz 2.6, Korollar 2.7 and Aufgabe 2.1.

    Examples
    --------
    >>> from dpcore.minimax import Model, minimax_test
    >>> low, high = Model([0.0, 1.0, 2.0], A=[[0.0, 1.0, 2.0]], b=[0.5]), Model([0.0, 1.0, 2.0], A=[[0.0, -1.0, -2.0]], b=[-1.5])
    >>> found = minimax_test(low, high)
    >>> found.phi.round(6).tolist(), round(found.value, 6), round(found.lower, 6)
    ([0.0, 0.5, 1.0], 0.5, 0.5)
    """
    matrix = _checked(model0, model1, channel)
    program = Program()
    members = Member(program, model0), Member(program, model1)
    transposed = sp.csr_array(matrix.T)
    common = program.variables(matrix.shape[1])
    tighter = [program.at_most(common - transposed @ member.p, 0.0) for member in members]
    solution = program.maximise(np.ones(matrix.shape[1]) @ common)
    # Σ min(q0, q1) ≤ Σ (u q0 + v q1) for u + v = 1: u is a test.
    u, v = (solution.dual(rows) for rows in tighter)
    phi = np.clip(np.where(u + v > 0, u / np.where(u + v > 0, u + v, 1.0), 0.5), 0.0, 1.0)
    phi = np.where(np.abs(phi - np.round(phi, 9)) < 1e-9, np.round(phi, 9), phi)  # the solver's rounding of 0, 1 and simple shares
    errors = _largest(model0, matrix @ phi), _largest(model1, matrix @ (1 - phi))
    p0, p1 = (_repaired(model, solution.value_of(member.variables)) for model, member in zip((model0, model1), members, strict=True))
    smaller = np.minimum(p0 @ matrix, p1 @ matrix).sum()
    value = math.nextafter(sum(errors), math.inf)
    lower = max(float(smaller) * (1 - _rounding(matrix)), 0.0)
    return MinimaxTest(phi, errors, value, min(lower, value), p0, p1)


def affinity_of_models(model0: Model, model1: Model, *, channel: Any = None) -> ModelAffinity:
    """Compute the largest Hellinger affinity of members of two models, and the test that it bounds for every n.

    Parameters
    ----------
    model0, model1 : Model
        The two hypotheses, on the same points. Their functionals do not matter.
    channel : array_like of float, shape (X, K), or a mechanism with `channel`, optional
        The channel of a report. Without it, the affinity is that of records, and K = X.

    Returns
    -------
    ModelAffinity
        The affinity between two bounds, usually equal to about six digits, with the closest members and the test.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is of the wrong type, or the models have different numbers of points.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    Affinities of hulls of products are at most the product of the affinities of the hulls. So n independent reports have an affinity of
    at most ρ^n, and each error of the test is at most ρ^n, too.
    Cost: a conic program with K cones, and two linear programs.
    Source: Steinberger (2019), Satz 2.5 and Satz 2.4 (6).

    Examples
    --------
    >>> from dpcore.minimax import Model, affinity_of_models
    >>> low, high = Model.hull([0.0, 1.0], [[1.0, 0.0], [0.8, 0.2]]), Model.hull([0.0, 1.0], [[0.2, 0.8], [0.0, 1.0]])
    >>> found = affinity_of_models(low, high)
    >>> round(found.value, 6), round(found.upper, 6), f"{found.error_bound(10):.4f}"
    (0.8, 0.8, '0.1074')
    """
    matrix = _checked(model0, model1, channel)
    program = Program()
    members = Member(program, model0), Member(program, model1)
    transposed = sp.csr_array(matrix.T)
    roots = program.variables(matrix.shape[1])
    program.rotated(roots, *(transposed @ member.p for member in members))
    solution = program.maximise(np.ones(matrix.shape[1]) @ roots)
    rates = np.maximum(solution.rates, LEAST)
    logs = np.log(rates[:, 0] / rates[:, 1]) / 2  # ln r, and Σ √(q0 q1) ≤ ½ Σ (q0 r + q1/r)
    rows = model0.region.below.shape[0]
    duals = 2.0 * solution.duals[:rows], 2.0 * solution.duals[rows:]
    zero, one = (
        max(_bound(model, matrix @ np.exp(sign * logs), each), LEAST)
        for model, each, sign in zip((model0, model1), duals, (1.0, -1.0), strict=True)
    )
    # By Markov's inequality the errors of the test are at most zero^n·c^n and one^n/c^n; this c makes them equal.
    weights = logs + 0.5 * math.log(one / zero)
    slack = (len(weights) + 8) * (1.0 + float(np.abs(weights).max())) * 2.0**-52
    upper = min(math.sqrt(zero) * math.sqrt(one) * (1.0 + slack), 1.0)
    p0, p1 = (_repaired(model, solution.value_of(member.variables)) for model, member in zip((model0, model1), members, strict=True))
    value = max(float((np.sqrt(p0 @ matrix) * np.sqrt(p1 @ matrix)).sum()) * (1 - _rounding(matrix)), 0.0)
    return ModelAffinity(min(value, upper), upper, p0, p1, weights)


def _checked(model0: Model, model1: Model, channel: Any) -> Array:
    for name, model in (("model0", model0), ("model1", model1)):
        if not isinstance(model, Model):
            raise ParameterTypeError(f"{name} must be a Model, got {type(model).__name__}")
    if model0.size != model1.size:
        raise ParameterError(f"model0 and model1 must have the same points, got {model0.size} and {model1.size} of them")
    return np.eye(model0.size) if channel is None else check_inputs(channel_matrix(channel, model0.points), model0.size)


def _largest(model: Model, direction: Array) -> float:
    """The largest direction·p over a model, rounded up; within [0, 1], as direction is a probability at each point."""
    rounding = (len(direction) + 4) * UNIT
    return min(max(certified.largest(model, direction) + rounding, 0.0), 1.0)


def _bound(model: Model, direction: Array, duals: Array) -> float:
    """The better of two bounds: that with the multipliers of the conic program keeps small numbers beside large ones."""
    direction = direction * (1 + (len(direction) + 8) * UNIT)
    found = [certified.Maximiser(model).bound(direction, duals)]
    if np.ptp(direction) < 1e6 * direction.min():
        found.append(certified.largest(model, direction))
    return min(found)


def _repaired(model: Model, variables: Array) -> Array:
    first, _ = certified.repaired(model, variables, variables)
    return first


def _rounding(matrix: Array) -> float:
    """A bound of the relative error of a sum over outcomes of sums over points."""
    rows, columns = matrix.shape
    return float((rows + columns + 16) * 2 * UNIT)
