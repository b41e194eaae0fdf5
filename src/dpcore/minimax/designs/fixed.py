"""The best numbers for the outcomes of a given channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpcore._validation import check_integer
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local import FiniteChannel
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.designs.channel_mean import ChannelMean, ChannelMeanOnModel
from dpcore.minimax.designs.worst_case import Moments
from dpcore.minimax.programs.program import Expression, Program
from dpcore.minimax.spaces.matrices import channel_matrix, check_inputs
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import whole_range

if TYPE_CHECKING:
    from dpcore.minimax.spaces.matrices import Array


def best_values(model: Model, channel: Any, *, n: int) -> ChannelMeanOnModel:
    r"""Find the linear estimator with the smallest proved mean square error for the reports of a given channel.

    Parameters
    ----------
    model : Model
        The model.
    channel : FiniteChannel, local mechanism, OptimalChannel, or array_like of shape (X, K)
        The channel that makes the reports, as for `BinarySearchEstimator`.
    n : int
        Number of reports, in [1, 2^40].

    Returns
    -------
    ChannelMeanOnModel
        Its `mean` has a `FiniteChannel` with the found values. Reports of `channel` itself fit it, too, if they are codes of its columns.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    DpcoreError
        If the solver gives up.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    Over the values v and the center, a conic program minimizes b² + V/n, where b is the largest bias over the model and V the largest
    E v². Then everything is computed again and rounded up.
    Guarantee: that of the channel.
    Cost: one conic program with K cones, and a few linear programs.

    Examples
    --------
    >>> from dpcore.local import KaryResponse
    >>> from dpcore.minimax import Model, best_values
    >>> ranks = Model([0.0, 0.25, 0.5, 0.75, 1.0])
    >>> found = best_values(ranks, KaryResponse(2.0, k=5), n=1000)
    >>> f"{found.risk_bound() ** 0.5:.3f}"
    '0.025'
    """
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    n = check_integer("n", n, low=1, high=MOST_REPORTS)
    if isinstance(channel, FiniteChannel):
        exact = channel
    else:
        matrix = channel_matrix(channel, model.points)
        level = float(getattr(getattr(channel, "privacy", None), "epsilon", np.inf))
        exact = FiniteChannel.at_level(matrix, level) if 2.0**-20 <= level <= 700 else FiniteChannel(matrix, epsilon=None)
    rows = check_inputs(exact.channel(), model.size)
    seen = rows.max(axis=0) > 0
    if not seen.any():
        raise ParameterError("channel must have an outcome that is possible")
    standard, exponent = model.standard, model.frame.exponent
    values = np.zeros(rows.shape[1])
    values[seen] = _program(standard, rows[:, seen], n)
    valued = FiniteChannel(exact.rows, epsilon=_level(exact), values=tuple(np.ldexp(values, exponent).tolist()), unknown=exact.unknown)
    low, high = Moments(standard, n, 0.0, valued.channel(), values).biases
    return ChannelMeanOnModel(ChannelMean(valued, center=model.frame.point(-(low / 2 + high / 2))), model, n)


def _level(channel: FiniteChannel) -> float | None:
    return float(channel.epsilon) if np.isfinite(channel.epsilon) else None


def _program(model: Model, rows: Array, n: int) -> Array:
    """Return the values that minimize b² + V/n for a model in its standard form, in units in which the result is near 1."""
    width, outcomes = whole_range(model), rows.shape[1]
    unit = max(width / 2, 2.0**-40)
    program = Program()
    v, center = program.variables(outcomes, free=True), program.variables(1, free=True)
    bias, square, spread = program.variables(1), program.variables(1), program.variables(1)
    squares = program.variables(outcomes)
    one, ones = np.ones(1), np.ones((model.size, 1))
    errors = rows @ v + sp.csr_array(ones) @ center - model.f / unit
    for values, bound in ((errors, bias), (-1.0 * errors, bias), ((1 / n) * (rows @ squares), spread)):
        _at_most(program, model, values, bound)
    program.rotated(v, squares, _constant(outcomes))
    program.rotated(bias, square, _constant(1))
    solution = program.maximise(-1.0 * (one @ square) - 1.0 * (one @ spread))
    return unit * solution.value_of(v)


def _constant(count: int) -> Expression:
    return Expression(count, (), np.ones(count))


def _at_most(program: Program, model: Model, values: Expression, bound: Expression) -> None:
    """Require that values·p is at most a bound for every member p: the dual of that maximum is at most the bound."""
    region = model.region
    total, prices = program.variables(region.equal.shape[0], free=True), program.variables(region.below.shape[0])
    reached = region.image.T @ values - region.equal.T @ total - region.below.T @ prices
    if region.free.any():
        program.equal(sp.eye_array(len(region.free), format="csr")[region.free] @ reached, 0.0)
    program.at_most(sp.eye_array(len(region.free), format="csr")[~region.free] @ reached, 0.0)
    program.at_most(region.equal_to @ total + region.at_most @ prices - bound, 0.0)
