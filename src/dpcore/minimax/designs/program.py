"""The program of the best linear estimator: over all private channels with given outputs, minimize squared bias plus variance.

With E = e^ε, a channel with Q(x, k) between w_k/E and w_k is written as Q(x, k) = w_k/E + (1 − 1/E)·a(x, k) with 0 ≤ a(x, k) ≤ w_k. That
keeps all coefficients near 1, for the smallest ε and for the largest. The largest bias and the largest second moment over a model are
maxima of linear functionals, which duality turns into rows of the same program.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpcore._dataclasses import dataclass
from dpcore.errors import DpcoreError
from dpcore.minimax.programs.program import cone_solver

if TYPE_CHECKING:
    from dpcore.minimax.programs.program import Region
    from dpcore.minimax.spaces.matrices import Array
    from dpcore.minimax.spaces.models import Model

TOLERANCE = 1e-10
MOST_ITERATIONS = 200
_ACCEPTED = {"Solved", "AlmostSolved", "InsufficientProgress", "MaxIterations"}
"""What a design needs is a good channel, not an optimal one: everything about it is computed again from its rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A channel with outputs, and the multipliers of the program that found it. All numbers belong to the model's standard form.

    Attributes
    ----------
    outputs : ndarray, shape (K,)
        What each outcome stands for.
    rows : ndarray, shape (X, K)
        The channel, up to the tolerance of the solver.
    bias : float
        The largest bias over the model.
    high, low, spread : ndarray, shape (Y,)
        Variables of members of the model with the largest bias, the smallest one, and the largest second moment of the output, up to the
        tolerance.
    charges : ndarray, shape (X,)
        Multipliers of the sums of rows: what one more unit of mass at a point would cost.
    objective : float
        bias² + second moment/n.
    """

    outputs: Array
    rows: Array
    bias: float
    high: Array
    low: Array
    spread: Array
    charges: Array
    objective: float


def best_channel(model: Model, epsilon: float, n: int, outputs: Array, scale: float) -> Design:
    """Solve the program for a model in its standard form.

    Parameters
    ----------
    model : Model
        The model.
    epsilon : float
        Level of the channel.
    n : int
        Number of records.
    outputs : ndarray, shape (K,)
        Outputs, ascending.
    scale : float
        A squared risk of the size of the result. The objective is counted in this unit.

    Raises
    ------
    DpcoreError
        If the solver gives up.
    ModuleNotFoundError
        If the extra `minimax` is not installed.
    """
    rows = _Rows(model, epsilon, n, outputs, scale)
    point, multipliers = rows.solved()
    return rows.design(point, multipliers)


class _Rows:
    """The rows. Groups of variables: a (X·K), w (K), Σa, center, bias, second moment, mean reports (X), duals of the model (3)."""

    def __init__(self, model: Model, epsilon: float, n: int, outputs: Array, scale: float) -> None:
        self._model, self._n, self._outputs, self._scale = model, n, outputs, scale
        self._least = math.exp(-epsilon)
        self._grown = -math.expm1(-epsilon)
        X, K = model.size, len(outputs)
        region = model.region
        conditions = region.below.shape[0]
        sizes = [X * K, K, 1, 1, 1, 1, X, *[1 + conditions] * 3]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self._width = self._starts[-1]

    def _wide(self, height: int, *blocks: tuple[int, Any]) -> Any:
        """Return rows with blocks of coefficients that begin at given groups of variables."""
        total = sp.csr_array((height, self._width))
        for group, block in blocks:
            matrix = sp.csr_array(block)
            total = total + sp.csr_array((matrix.data, matrix.indices + self._starts[group], matrix.indptr), shape=(height, self._width))
        return total

    def _equations(self) -> tuple[Any, Array]:
        X, K = self._model.size, len(self._outputs)
        each = sp.kron(sp.eye_array(X), np.ones((1, K)), format="csr")
        means = sp.kron(sp.eye_array(X), self._grown * self._outputs[None], format="csr")
        ones = np.ones((X, 1))
        rows = [
            self._wide(X, (0, each), (2, -ones)),
            self._wide(1, (1, np.full((1, K), self._least)), (2, [[self._grown]])),
            self._wide(X, (0, means), (3, ones), (6, -sp.eye_array(X))),
        ]
        return sp.vstack(rows, format="csr"), np.concatenate([np.zeros(X), [1.0], np.zeros(X)])

    def _largest(self, which: int, sign: float, group: int, unit: float) -> tuple[Any, Array, Any]:
        """Return the rows sign·image^T·values ≤ dual variables, their right-hand sides, and the row value ≤ bound."""
        region: Region = self._model.region
        X = self._model.size
        back, height = sp.csr_array(region.image.T), region.image.shape[1]
        dual = sp.hstack([-region.equal.T, -region.below.T], format="csr")
        if which == 6:
            rows = self._wide(height, (6, sign / unit * back), (7 + group, dual))
            right = sign / unit * (back @ self._model.f)
        else:
            squares = self._outputs**2 / unit
            spread = sp.csr_array(back @ sp.kron(sp.eye_array(X), self._grown * squares[None], format="csr"))
            common = sp.csr_array(np.outer(np.asarray(back.sum(axis=1)).ravel(), self._least * squares))
            rows, right = self._wide(height, (0, spread), (1, common), (7 + group, dual)), np.zeros(height)
        value = self._wide(1, (7 + group, np.concatenate([region.equal_to, region.at_most])[None]), (4 if which == 6 else 5, [[-1.0]]))
        return rows, right, value

    def solved(self) -> tuple[Array, Array]:
        """Return the variables and the multipliers of all rows."""
        clarabel = cone_solver()
        X, K, region = self._model.size, len(self._outputs), self._model.region
        self._unit = math.sqrt(self._scale)
        equal, equal_to = self._equations()
        caps = self._wide(X * K, (0, sp.eye_array(X * K)), (1, -np.tile(np.eye(K), (X, 1))))
        parts = [
            self._largest(6, 1.0, 0, self._unit),
            self._largest(6, -1.0, 1, self._unit),
            self._largest(0, 1.0, 2, self._n * self._scale),
        ]
        free = region.free
        exact = [rows[free] for rows, _, _ in parts]
        exact_to = [right[free] for _, right, _ in parts]
        most = [rows[~free] for rows, _, _ in parts]
        most_to = [right[~free] for _, right, _ in parts]
        signs = np.ones(self._width, np.bool_)
        for group in (3, 4, 5, 6):
            signs[self._starts[group] : self._starts[group + 1]] = False
        for group in (7, 8, 9):
            signs[self._starts[group] : self._starts[group] + region.equal.shape[0]] = False
        bounded = np.flatnonzero(signs)
        bounds = sp.csr_array((np.full(len(bounded), -1.0), (np.arange(len(bounded)), bounded)), shape=(len(bounded), self._width))
        zero, below = [equal, *exact], [*most, *[value for _, _, value in parts], caps, bounds]
        matrix = sp.csc_matrix(sp.vstack([*zero, *below]))
        right = np.concatenate([equal_to, *exact_to, *most_to, np.zeros(3 + X * K + len(bounded))])
        count = sum(rows.shape[0] for rows in zero)
        first = equal.shape[0]
        self._places = [(count + index * int((~free).sum()), first + index * int(free.sum())) for index in range(3)]
        quadratic = sp.csc_matrix(([2.0], ([self._starts[4]], [self._starts[4]])), shape=(self._width, self._width))
        linear = np.zeros(self._width)
        linear[self._starts[5]] = 1.0
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = MOST_ITERATIONS
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
        cones = [clarabel.ZeroConeT(count), clarabel.NonnegativeConeT(len(right) - count)]
        found = clarabel.DefaultSolver(quadratic, linear, matrix, right, cones, settings).solve()
        point = np.asarray(found.x)
        if str(found.status) not in _ACCEPTED or not np.isfinite(point).all():
            raise DpcoreError(f"the program of the best channel was not solved: {found.status}; scale f and the rows of A to similar sizes")
        return point, np.asarray(found.z)

    def design(self, point: Array, multipliers: Array) -> Design:
        """Return the channel of a solution."""
        X, K, region = self._model.size, len(self._outputs), self._model.region
        a = point[: X * K].reshape(X, K)
        w = np.maximum(point[self._starts[1] : self._starts[2]], 0.0)
        rows = self._least * w + self._grown * np.clip(a, 0.0, w)
        members = [self._member(multipliers, index, region) for index in range(3)]
        # Of the sum of a row, the sum of `a` times 1 − 1/E belongs to the point alone.
        charges = -multipliers[:X] * (self._scale / self._grown)
        bias = float(point[self._starts[4]]) * self._unit
        objective = bias**2 + float(point[self._starts[5]]) * self._scale
        return Design(self._outputs, rows, bias, members[0], members[1], members[2], charges, objective)

    def _member(self, multipliers: Array, index: int, region: Region) -> Array:
        variables, (bounded, exact) = np.zeros(len(region.free)), self._places[index]
        variables[~region.free] = np.maximum(multipliers[bounded : bounded + int((~region.free).sum())], 0.0)
        variables[region.free] = multipliers[exact : exact + int(region.free.sum())]
        weight = float((region.equal @ variables)[0])
        return variables / weight if weight > 0 else variables
