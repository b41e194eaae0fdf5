"""Three outcomes for a mean with heavy tails: minus, zero, plus."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from scipy.optimize import minimize_scalar

from dpcore._exact.intervals import fraction_up
from dpcore._validation import check_integer, check_positive, check_real
from dpcore.errors import ParameterError
from dpcore.local import FiniteChannel, KaryResponse
from dpcore.local._parameters import check_epsilon
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.designs.channel_mean import ChannelMean
from dpcore.minimax.linear.ready_made import Clipping

if TYPE_CHECKING:
    from dpcore.minimax.spaces.matrices import Array

DECADES = 30.0
LARGEST_LEVEL = 2.0**440
"""Outputs of a channel are at most 2^500, and 2^22 times the level for the smallest ε."""


def clipped_response(epsilon: float, *, n: int, kappa: float, C: float, level: float | None = None) -> ChannelMean:
    r"""Make an estimator of a mean with heavy tails, θ = E x under E\|x\|^κ ≤ C, from reports −, 0 or + about clipped records.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    n : int
        Number of reports that you expect, in [1, 2^40]. It determines the clipping level.
    kappa : float
        Order of the moment, κ in (1, 1024].
    C : float
        Bound of the moment, positive.
    level : float, optional
        The clipping level L > 0; by default the one that minimizes the bound of the risk.

    Returns
    -------
    ChannelMean
        Its records are numbers. `bias` and `second_moment` hold for all distributions on the real line with E\|x\|^κ ≤ C.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    A record is clipped to [−L, L]. With probability \|x\|/L it becomes its sign, and otherwise 0, and three-ary response reports the
    result; ± stands for ±L(E + 2)/(E − 1), E = e^ε. The bias is at most sup E(\|x\| − L)₊, as for `truncated_moment`, and the second
    moment at most L²(E + 2)(2 + (E − 1)·C^{1/κ}/L)/(E − 1)². For κ = 2 the squared risk is at most C²/(16L²) plus this over n. From
    ε = 0.7 on that is less than with one bit, and half at ε = 2.4.
    Guarantee: each report is ε-private, whether or not E\|x\|^κ ≤ C holds.
    Cost: a few microseconds.

    Examples
    --------
    >>> from dpcore.minimax import clipped_response, truncated_moment
    >>> three = clipped_response(3.0, n=10_000, kappa=2.0, C=1.0)
    >>> one_bit = truncated_moment(3.0, n=10_000, kappa=2.0, C=1.0)
    >>> round(three.points[2], 3), round(three.risk_bound(n=10_000), 5), round(one_bit.risk_bound(n=10_000), 5)
    (7.491, 0.00266, 0.00552)
    """
    epsilon, n = check_epsilon(epsilon), check_integer("n", n, low=1, high=MOST_REPORTS)
    kappa, C = check_real("kappa", kappa, low=1.0, high=1024.0, include_low=False), check_positive("C", C)
    clipping, norm = Clipping(kappa, C, math.inf), C ** (1 / kappa)
    response = KaryResponse(epsilon, k=3)
    rows = response.channel()
    if level is None:
        log_norm = math.log(norm)
        found = minimize_scalar(
            lambda power: _risk(clipping, math.exp(log_norm + power), norm, rows, n),
            bounds=(-DECADES, DECADES),
            method="bounded",
            options={"xatol": 1e-9},
        )
        level = math.exp(log_norm + float(found.x))
    level = check_positive("level", level)
    if level > LARGEST_LEVEL:
        raise ParameterError(f"level must be at most 2^440, so that float64 holds squared errors, got {level}")
    channel = FiniteChannel.at_level(rows, epsilon)
    exact = channel.channel()
    output = level / float(exact[2, 2] - exact[2, 0])
    valued = FiniteChannel(channel.rows, epsilon=epsilon, values=(-output, 0.0, output))
    bias = clipping.bias(level) + _lost(channel, level, output)
    moment = _moment(level, norm, exact) * (1 + 2.0**-40)
    return ChannelMean(valued, points=(-level, 0.0, level), bias=bias, second_moment=moment)


def _lost(channel: FiniteChannel, level: float, output: float) -> float:
    """Return by how much the mean of a report differs from a clipped record at most, in rationals: it is linear between −L, 0 and L."""
    means = (Fraction(int(row[2]) - int(row[0]), channel.denominator) * Fraction(output) for row in channel.rows)
    return fraction_up(max(abs(mean - Fraction(level) * sign) for mean, sign in zip(means, (-1, 0, 1), strict=True)))


def _moment(level: float, norm: float, rows: Array) -> float:
    """Return the largest second moment: a record is ±L with probability at most norm/L."""
    sure, none = float(rows[2, 0] + rows[2, 2]), float(rows[1, 0] + rows[1, 2])
    output = level / float(rows[2, 2] - rows[2, 0])
    return output * output * (none + (sure - none) * min(norm / level, 1.0))


def _risk(clipping: Clipping, level: float, norm: float, rows: Array, n: int) -> float:
    return clipping.bias(level) ** 2 + _moment(level, norm, rows) / n
