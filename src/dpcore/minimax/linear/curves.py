"""The error of a linear estimator as a function of n and ε, for planning."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcore._error_curves import OUTWARDS, ErrorCurve
from dpcore._proportions import share_limits
from dpcore.local._error_curves import LISTED, widest_share
from dpcore.local._limits import CERTAIN
from dpcore.local._one_bit import expansion
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.spaces.inversion import rejected_share

if TYPE_CHECKING:
    from dpcore._error_curves import Aim


@lru_cache(maxsize=4096)
def _widest(n: int, confidence: float) -> float:
    """The widest interval of P(+z0), for all counts of few reports; of more, those in the middle or a bound of a similar interval.

    No count seen had a wider one than the middle, for which 10^-6 is added.
    """
    listed = n <= LISTED
    counts = np.arange(n + 1) if listed else np.array([n // 2, (n + 1) // 2])
    low, high = share_limits(counts, n, rejected_share(confidence) / 2)
    widest = float((high - low).max())
    return widest if listed else max(widest, widest_share(n, confidence, CERTAIN)) * (1 + 1e-6)


def linear_curve(bias: float, norm: float, own: float, aim: Aim) -> ErrorCurve:
    """Return the curve of an estimator with this bias, bound and ε."""

    def rmse(n: int, epsilon: float) -> float:
        return math.hypot(bias, norm * expansion(epsilon) / math.sqrt(n)) * OUTWARDS

    def width(n: int, epsilon: float) -> float:
        return 2 * (bias + norm * expansion(epsilon) * _widest(n, aim.confidence)) * OUTWARDS

    formulas = {
        "rmse": "√(bias² + z0²/n), z0 = bound·(e^ε + 1)/(e^ε − 1)",
        "width": "2·bias + the widest interval of E ℓ, whatever the reports",
    }
    return ErrorCurve(
        rmse if aim.measure == "rmse" else width,
        what="θ by the mean of one-bit reports",
        formula=f"{formulas[aim.measure]}, bias = {bias:.4g}",
        source="Rohde & Steinberger (2020), Section 4; docs/planning.md",
        epsilon=own,
        sizes=(1, MOST_REPORTS),
        falls_in_n=aim.measure == "rmse",
        falls_in_epsilon=True,
        limit_in_n=f"the bias of {bias:.4g}, for this ℓ; planning.Recipe chooses it anew for each n",
        limit_in_epsilon="the bias, and one bit about each record",
    )
