"""Tails of binomial laws, rounded up."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import special

from dpcore._proportions import tail_slack

Array = npt.NDArray[np.float64]
Tails = tuple[Callable[..., Array], Callable[..., Array]]
"""P(c ≥ first) and P(c < first), as functions of `first`, n and q."""
MOST_REPORTS = 2**40
"""Up to here, the error of SciPy's incomplete beta function was compared with exact sums."""
NEGLIGIBLE = 45.0
"""Chernoff's bound e^−x replaces a tail below e^−45 = 3·10^−20."""
TINY = 2.0**-1000
NORMAL = 1e4
"""Variance of a count from which `near_at_least` and `near_below` take a normal law."""
MIRRORED = 1 / 16
"""From this q on, rounding 1 − q changes probabilities above TINY by far less than their slack."""


def at_least(first: npt.ArrayLike, n: int, q: npt.ArrayLike) -> Array:
    """Bound P(c ≥ first), c ~ Bin(n, q), from above.

    Parameters
    ----------
    first : array_like of int
        Counts; at most 0 gives 1, more than n gives 0.
    n : int
        Number of reports, at most 2^40.
    q : array_like of float
        Probabilities in [0, 1], broadcast with `first`.

    Returns
    -------
    ndarray of float64
        At least the probability. It exceeds it by a relative 10^−10 + 7·10^−16·n at most, or is below 3·10^−20.
    """
    counts, shares, inside = _prepared(first, n, q)
    result = np.where(counts <= 0, 1.0, 0.0)
    a, x = counts[inside], shares[inside]
    far, bound = _chernoff(a, n, x)
    far &= a > n * x
    bound[~far] = special.betainc(a[~far], n - a[~far] + 1, x[~far]) * tail_slack(n) + TINY
    result[inside] = np.minimum(bound, 1.0)
    return result


def below(first: npt.ArrayLike, n: int, q: npt.ArrayLike) -> Array:
    """Bound P(c < first), c ~ Bin(n, q), from above. Parameters and accuracy are those of `at_least`."""
    counts, shares, inside = _prepared(first, n, q)
    result = np.where(counts > n, 1.0, 0.0)
    a, x = counts[inside], shares[inside]
    far, bound = _chernoff(a - 1, n, x)
    far &= a - 1 < n * x
    bound[~far] = _upper_beta(a[~far], n - a[~far] + 1, x[~far]) * tail_slack(n) + TINY
    result[inside] = np.minimum(bound, 1.0)
    return result


def _upper_beta(a: Array, b: Array, x: Array) -> Array:
    """Return 1 − I_x(a, b). SciPy's own function takes four times as long as the mirror image, which rounds 1 − x and needs a large x."""
    small = x < MIRRORED
    found = special.betainc(b, a, 1 - x)
    found[small] = special.betaincc(a[small], b[small], x[small])
    return np.asarray(found)


def _prepared(first: npt.ArrayLike, n: int, q: npt.ArrayLike) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    counts, shares = np.broadcast_arrays(np.asarray(first, np.float64), np.asarray(q, np.float64))
    return counts, shares, (counts > 0) & (counts <= n)


def _chernoff(count: Array, n: int, q: Array) -> tuple[npt.NDArray[np.bool_], Array]:
    """Return where e^{−n·KL(count/n‖q)} is negligible, and its value, rounded up."""
    share = count / n
    exponent = n * (special.rel_entr(share, q) + special.rel_entr(1 - share, 1 - q)) - (1e-6 + 1e-15 * n)
    return exponent > NEGLIGIBLE, np.exp(-np.maximum(exponent, 0.0))


BOUNDS: Tails = at_least, below


def near_at_least(first: npt.ArrayLike, n: int, q: npt.ArrayLike) -> Array:
    """P(c ≥ first), c ~ Bin(n, q), to about 10^−5: a normal law, corrected for its skewness, if the variance is large enough for that."""
    return _near(first, n, q, -1.0, at_least)


def near_below(first: npt.ArrayLike, n: int, q: npt.ArrayLike) -> Array:
    """P(c < first), as `near_at_least`."""
    return _near(first, n, q, 1.0, below)


def _near(first: npt.ArrayLike, n: int, q: npt.ArrayLike, side: float, bound: Callable[..., Array]) -> Array:
    counts, shares, _ = _prepared(first, n, q)
    variance = n * shares * (1 - shares)
    wide = variance >= NORMAL
    root = np.sqrt(variance[wide])
    z = (counts[wide] - 0.5 - n * shares[wide]) / root
    skew = (1 - 2 * shares[wide]) / root * (z * z - 1) * np.exp(-z * z / 2) / (6 * math.sqrt(2 * math.pi))
    found = np.empty(counts.shape)
    found[wide] = np.clip(special.ndtr(side * z) - side * skew, 0.0, 1.0)
    found[~wide] = bound(counts[~wide], n, shares[~wide])
    return found


NEAR: Tails = near_at_least, near_below
