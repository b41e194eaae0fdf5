"""The error of a linear estimator from reports of one channel as a function of n, for planning."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcore._error_curves import OUTWARDS, ErrorCurve
from dpcore.minimax._binomial import MOST_REPORTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore._error_curves import Aim


def mean_curve(bias: float, moment: float, own: float, aim: Aim, width: Callable[[int], float] | None = None) -> ErrorCurve:
    """Return the curve of an estimator with this bias, largest second moment of a report, and ε; it exists for no smaller ε."""

    def error(n: int, epsilon: float) -> float:
        if epsilon < own:
            return math.inf
        return math.hypot(bias, math.sqrt(moment / n)) * OUTWARDS if width is None or aim.measure == "rmse" else width(n)

    return ErrorCurve(
        error,
        what="θ by the mean of the numbers that reports of a channel stand for",
        formula=f"√(bias² + V/n), bias = {bias:.4g}, V = {moment:.4g}"
        if aim.measure == "rmse"
        else "2·margin(confidence), or the range of θ",
        source="E(estimate − θ)² ≤ bias² + E v²/n; docs/exactness-minimax.md",
        epsilon=own,
        sizes=(1, MOST_REPORTS),
        falls_in_n=aim.measure == "rmse",
        falls_in_epsilon=True,
        slow=aim.measure == "width",
        limit_in_n=f"the bias of {bias:.4g}, for this channel; planning.Recipe chooses one anew for each n",
        limit_in_epsilon=f"the error of this channel, whose level is {own:g}; planning.Recipe chooses one anew for each ε",
    )
