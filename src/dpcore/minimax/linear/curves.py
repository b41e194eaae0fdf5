"""The error of a linear estimator as a function of n and ε, for planning."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcore._error_curves import OUTWARDS, ErrorCurve
from dpcore._proportions import share_limits
from dpcore.local._one_bit import expansion
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.spaces.inversion import rejected_share

if TYPE_CHECKING:
    from dpcore._error_curves import Aim


LISTED = 1 << 12
"""Up to so many reports, the limits of all counts are computed."""
SLACK = 1e-6
"""Relative: limits are moved outwards until the incomplete beta function confirms them. What its quantile is off besides is that of the
middle, whose limits are computed for every n."""


@lru_cache(maxsize=4096)
def _widest(n: int, confidence: float) -> float:
    """The widest interval of P(+z0) by Clopper and Pearson, whatever the count; docs/planning.md has the proof.

    Let z be the normal quantile of the rate r of each limit. By the inequalities of Zubkov & Serov (2013), the upper limit at a count c has
    a relative entropy of at most z²/2n to (c + 1)/n, and the lower one to (c − 1)/n. Pinsker's inequality bounds both distances by z/(2√n).
    """
    from scipy import special

    rate = rejected_share(confidence) / 2
    counts = np.arange(n // 2 + 1) if n <= LISTED else np.array([n // 2])  # the interval at n − c is the mirror image of that at c
    low, high = share_limits(counts, n, rate)
    computed = float((high - low).max())
    proved = 0.0 if n <= LISTED else -float(special.ndtri(rate)) / math.sqrt(n) + 2 / n
    return min(1.0, max(computed, proved) * (1 + SLACK))


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
