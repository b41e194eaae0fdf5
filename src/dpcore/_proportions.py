"""Exact bounds of a probability from counts, and exact ranks of quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Reals = npt.NDArray[np.float64]

SLACK = 1e-6
"""Relative and outwards. SciPy's quantiles of the beta distribution differ from exact sums by up to 10^-8 for n up to 5·10^7."""
_STEP = 2.0**-44
"""First step outwards where a tail is above its rate. Steps double."""


def tail_slack(n: int) -> float:
    """Return the factor for the relative error of the incomplete beta function.

    The measured error is below 6·10^−17·n: of SciPy 1.13 and 1.14 in the middle of the distribution (4·10^−9 at n = 10^8), and of newer
    ones at the median of few hits. The factor allows ten times as much.
    """
    return 1.0 + 1e-10 + 6e-16 * n


def least_probability(hits: int, n: int, rate: float) -> float:
    """Return the lower Clopper-Pearson bound: it exceeds the probability of a hit with probability at most `rate`."""
    from scipy import special

    return 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, rate)) * (1 - SLACK)


def greatest_probability(hits: int, n: int, rate: float) -> float:
    """Return the upper Clopper-Pearson bound: it is below the probability of a hit with probability at most `rate`."""
    from scipy import special

    return 1.0 if hits == n else min(1.0, float(special.betainccinv(hits + 1, n - hits, rate)) * (1 + SLACK))


def share_limits(hits: npt.ArrayLike, n: int, rate: float) -> tuple[Reals, Reals]:
    """Return both Clopper-Pearson bounds for counts of any shape, each of which errs with probability at most `rate`, for n up to 2^40.

    Each is SciPy's quantile, moved outwards until the incomplete beta function, with its slack, confirms it: so they are as close as that
    function is accurate, and their validity does not depend on the quantile.
    """
    counts = np.asarray(hits, np.float64)
    # The upper bound is one of the lower kind for the failures. So no digit of its distance to 1 is lost before the last step.
    return _least_shares(counts, n, rate), np.minimum(1.0 - _least_shares(n - counts, n, rate) + 2.0**-53, 1.0)


def _least_shares(counts: Reals, n: int, rate: float) -> Reals:
    from scipy import special

    some, allowed, step = counts > 0, rate / tail_slack(n), _STEP
    first = np.where(some, special.betaincinv(np.maximum(counts, 1), n - np.maximum(counts, 1) + 1, rate), 0.0)
    found = first
    while (beyond := some & (special.betainc(np.maximum(counts, 1), n - np.maximum(counts, 1) + 1, found) > allowed)).any():
        found, step = np.where(beyond, np.maximum(first * (1 - step), 0.0), found), 2 * step
    return np.asarray(found)


def quantile_ranks(q: float, n: int, rate: float) -> tuple[int, int]:
    """Return ranks l and u between which the q-quantile lies: X_(l) is above it, and X_(u) below it, each with probability at most `rate`.

    l = 0 and u = n + 1 say that no rank is that certain; n is at most 2^40. Let ξ be a q-quantile of the law of the n independent draws:
    P(X < ξ) ≤ q ≤ P(X ≤ ξ). X_(l) > ξ means that fewer than l draws are at most ξ, which is at most as likely as Bin(n, q) < l, and
    X_(u) < ξ that at least u are below ξ: at most P(Bin(n, q) ≥ u). So ties do no harm.
    """
    from scipy import special

    allowed = rate / tail_slack(n)

    def below(m: int) -> float:
        return float(special.betaincc(m, n - m + 1, q) if q < 0.5 else special.betainc(n - m + 1, m, 1 - q))

    low, least = 0, n + 1  # P(Bin < 0) = 0 is allowed
    while least - low > 1:
        middle = (low + least) // 2
        low, least = (middle, least) if below(middle) <= allowed else (low, middle)
    under, high = 0, n + 1  # P(Bin ≥ n + 1) = 0 is allowed
    while high - under > 1:
        middle = (under + high) // 2
        under, high = (under, middle) if special.betainc(middle, n - middle + 1, q) <= allowed else (middle, high)
    return low, high
