"""Errors of local mechanisms before there are reports: variances, and the widest interval that any count gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._error_curves import OUTWARDS, ErrorCurve
from dpcore._validation import check_real
from dpcore.errors import ParameterError
from dpcore.local._count_intervals import frequency_interval
from dpcore.local._parameters import EPSILON_HIGH, EPSILON_LOW
from dpcore.local._support import Support, support_variance

if TYPE_CHECKING:
    from dpcore._error_curves import Aim

LISTED = 1024
"""Up to so many reports, the intervals of all counts are computed."""
RARE = 120
"""From `LISTED` reports on, counts this far from 0 and from n have a variance above that up to which tails are exact."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What one report contributes to the error.

    Attributes
    ----------
    variance : float
        Variance of one user's contribution to the estimate.
    words : str
        It as a formula.
    exact : bool
        Whether it is the variance itself, at the worst case that the words name.
    width : callable or None
        width(n, confidence): the widest interval that any reports give; None if it has no bound.
    why : str
        Why it has none.
    excess : callable
        excess(n): what n times the variance of the estimate is over that of one user, at least; 1 for means of n contributions.
    """

    variance: float
    words: str
    exact: bool
    width: Callable[[int, float], float] | None
    why: str = ""
    excess: Callable[[int], float] = lambda _: 1.0


def curve_of(
    mechanism: Any, aim: Aim, spread_at: Callable[[Any], Spread], what: str, *, falls: bool, of: Callable[[float], Any]
) -> ErrorCurve:
    """The curve of a mechanism whose error follows from the spread of one report; `of(ε)` is the mechanism with another ε."""
    aim.one_of(f"{type(mechanism).__name__}", "rmse", "width")
    own = spread_at(mechanism)
    nothing = Spread(math.inf, "", exact=False, width=None)

    @lru_cache(maxsize=256)
    def kept(epsilon: float) -> Spread:
        try:
            return own if epsilon == mechanism.epsilon else spread_at(of(epsilon))
        except ParameterError:  # there is no such mechanism for this ε, such as one whose reports leave the range of float64
            return nothing

    shared: dict[str, Any] = {"what": what, "epsilon": mechanism.epsilon, "epsilons": (EPSILON_LOW, EPSILON_HIGH)}
    if aim.measure == "rmse":
        return ErrorCurve(
            lambda n, epsilon: math.sqrt(kept(epsilon).variance / n * kept(epsilon).excess(n)) * OUTWARDS,
            formula=f"√(v/n), v = {own.words}",
            source="the variance of the mechanism, docs/local.md",
            exact=own.exact,
            falls_in_n=True,
            falls_in_epsilon=falls,
            limit_in_epsilon="the spread of the records, which no ε makes smaller",
            **shared,
        )
    if own.width is None:
        aim.one_of(f"{type(mechanism).__name__}, {own.why},", "rmse")

    def width(n: int, epsilon: float) -> float:
        found = kept(epsilon).width
        return math.inf if found is None else found(n, aim.confidence) * OUTWARDS

    return ErrorCurve(
        width,
        formula="the widest interval of `Estimate.interval`, whatever the reports",
        source="docs/planning.md, widths of intervals",
        limit_in_epsilon="the interval of records without noise",
        **shared,
    )


@lru_cache(maxsize=4096)
def widest_share(n: int, confidence: float, support: Support) -> float:
    r"""The widest interval of a share of reports, at least that of every count; docs/planning.md has the proof.

    Up to `LISTED` reports, the intervals of all counts are computed. Beyond, rare counts have exact tails and their intervals are computed;
    the others are between the two roots of a quadratic equation. With u = z²/n and K the correction for skewness, the limits are at
    distances of at most √(u/(1 + u))/2 from their centres, which are at most (1 + K' − K)/(n(1 + u)) apart, and \|K' − K\| is at most (z² −
    1)/3 times the width without the correction, cut to the shares that are possible.
    """
    gap = support.p - support.q
    counts = np.arange(n + 1.0) if n <= LISTED else np.concatenate([np.arange(RARE + 1.0), np.arange(n - RARE, n + 1.0)])
    ends = frequency_interval(counts, n, support, confidence=confidence, target="population")
    listed = float((ends[:, 1] - ends[:, 0]).max()) * gap
    if n <= LISTED:
        return listed
    from scipy import special

    z2 = float(special.ndtri((1 - confidence) / 2)) ** 2
    u = z2 / n
    plain = 1 / (n * (1 + u)) + math.sqrt(u / (1 + u))
    # below z = 1 the correction has the other sign, which only brings the limits together; its size bounds it on either side
    return max(listed, plain + abs(z2 - 1) / 3 * min(plain, gap) / n)


def frequency_spread(support: Support, at: float | None, target: str) -> Spread:
    """The spread of a mechanism whose reports support categories."""
    if at is None:
        at, words = _worst(support, target), "its largest value over all frequencies"
    else:
        at, words = check_real("at", at, low=0.0, high=1.0), f"its value at a frequency of {at:g}"
    sampled = " + f(1 − f)" if target == "population" else ""
    formula = f"(f·p(1 − p) + (1 − f)·q(1 − q))/(p − q)²{sampled}, {words}"
    gap = support.p - support.q
    population = target == "population"
    return Spread(
        float(support_variance(at, support, target)),
        formula,
        exact=True,
        width=(lambda n, confidence: widest_share(n, confidence, support) / gap) if population else None,
        why="whose intervals for a sample reach to estimates outside [0, 1]",
    )


def _worst(support: Support, target: str) -> float:
    """The frequency at which the variance is largest: an end, or for the population the top of a parabola."""
    rise = float(support_variance(1.0, support, "sample") - support_variance(0.0, support, "sample"))
    return float(rise > 0) if target == "sample" else min(max((1 + rise) / 2, 0.0), 1.0)
