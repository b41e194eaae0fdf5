"""Linear estimators for common problems, with the clipping level or bandwidth that balances bias and privacy.

Source: Steinberger (2019), Beispiele 3.6 to 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.errors import ParameterError
from dpcore.local._parameters import check_epsilon
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.linear import weights
from dpcore.minimax.linear.estimator import LinearEstimator

SMOOTHEST = 16.0
"""Largest β. Kernels of higher order do not help at any realistic sample size."""


def _shrinkage(n: int, epsilon: float) -> float:
    """Return n t² with t = (e^ε − 1)/(e^ε + 1), the effective number of records behind n reports."""
    n = check_integer("n", n, low=1, high=MOST_REPORTS)
    return n * math.tanh(check_epsilon(epsilon) / 2) ** 2


def largest_clipping_bias(level: npt.ArrayLike, kappa: float, C: float, top: float = math.inf) -> npt.NDArray[np.float64]:
    """The largest E(|f| − H)₊ under E|f|^κ ≤ C and |f| ≤ top, for levels H ≥ 0; rounded up."""
    # (|f| − H)₊ ≤ |f|^κ (y − H)/y^κ with equality at y = κH/(κ − 1), if such a y is possible and needs a mass of at most 1.
    levels, norm = np.asarray(level, np.float64), C ** (1 / kappa)
    y = np.minimum(np.maximum(kappa * levels / (kappa - 1), norm), top)
    bias: npt.NDArray[np.float64] = np.minimum(norm / y, 1.0) ** kappa * np.maximum(y - levels, 0.0) * (1 + 1e-12)
    return bias


@dataclass(frozen=True, slots=True)
class Clipping:
    """The largest bias E(|f| − H)₊ of clipping at H, under E|f|^κ ≤ C and |f| ≤ top, and the H that balances it with H²/worth."""

    kappa: float
    C: float
    top: float

    def bias(self, level: float) -> float:
        return float(largest_clipping_bias(level, self.kappa, self.C, self.top))

    def best(self, worth: float) -> float:
        """Return the H that minimizes bias(H)² + H²/worth, a convex function with three pieces."""
        kappa, C, norm = self.kappa, self.C, self.C ** (1 / self.kappa)
        # The logarithm of H^{2κ} = (κ − 1)^{2κ − 1} κ^{−2κ} C² n t², whose factors may leave the range of float64.
        power = (1 - 0.5 / kappa) * math.log(kappa - 1) - math.log(kappa) + (math.log(C) + math.log(worth) / 2) / kappa
        candidates: list[float] = [math.exp(power), norm * worth / (1 + worth)]
        if self.top < math.inf:
            share = min(norm / self.top, 1.0) ** kappa
            candidates.append(self.top * share**2 * worth / (1 + share**2 * worth))
        levels = [min(level, self.top) for level in candidates]
        return min(levels, key=lambda level: math.hypot(self.bias(level), level / math.sqrt(worth)))


def truncated_moment(epsilon: float, *, n: int, kappa: float, C: float, f: Any = None, h: float | None = None) -> LinearEstimator:
    r"""Make an estimator of a mean with heavy tails, θ = E f under E\|f\|^κ ≤ C, from reports about f clipped at ±1/h.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    n : int
        Number of reports that you expect, in [1, 2^40]. It determines h.
    kappa : float
        Order of the moment, κ in (1, 1024].
    C : float
        Bound of the moment, positive.
    f : sequence of float, or callable, optional
        A table on codes, or a vectorized function of records. By default the records are numbers, and f(x) = x.
    h : float, optional
        The inverse of the clipping level; by default the one that minimizes the bound of the risk.

    Returns
    -------
    LinearEstimator
        With its bias and h.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    With H = 1/h, the bias is at most sup E(\|f\| − H)₊ = C (κ − 1)^{κ−1}/κ^κ · H^{1−κ}. It is attained by a distribution with mass
    C/y^κ at y = κH/(κ − 1) and the rest at 0, or, if that mass exceeds 1, with all mass at C^{1/κ}. The variance is at most H²/(n t²),
    t = (e^ε − 1)/(e^ε + 1). The sum of squared bias and variance is smallest for H^{2κ} = (κ − 1)^{2κ−1} κ^{−2κ} C² n t². Then the squared
    risk is a constant times (n t²)^{−(κ−1)/κ}, which is the optimal rate. A table is bounded: if H = max\|f\| is best, nothing is clipped,
    and the rate is 1/(n t²).
    Guarantee: each report of the estimator is ε-private, whether or not E\|f\|^κ ≤ C holds.
    Cost: a few microseconds.
    Source: Steinberger (2019), Beispiel 3.6.

    Examples
    --------
    >>> from dpcore.minimax import truncated_moment
    >>> mean = truncated_moment(1.0, n=10**6, kappa=2.0, C=1.0)
    >>> round(mean.h, 4), round(mean.bias, 4), round(mean.risk_bound(n=10**6), 6)
    (0.093, 0.0233, 0.001082)
    """
    worth = _shrinkage(n, epsilon)
    kappa, C = check_real("kappa", kappa, low=1.0, high=1024.0, include_low=False), check_positive("C", C)
    ell = weights.Identity() if f is None else f
    top = math.inf if callable(ell) else _largest("f", ell)
    clipping = Clipping(kappa, C, top)
    level = clipping.best(worth) if h is None else min(1 / check_positive("h", h), top)
    return LinearEstimator(ell, epsilon, bound=level, bias=clipping.bias(level), h=1 / level)


def _largest(name: str, table: Any) -> float:
    values = check_array(name, table, REAL_DTYPES)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all() or not values.any():
        raise ParameterError(f"{name} must be a vector of at least two finite numbers that are not all zero, got shape {values.shape}")
    return float(np.abs(values).max())


def covariance(epsilon: float, *, n: int, kappa: float, C: float, h: float | None = None) -> LinearEstimator:
    r"""Make an estimator of E XY for records (X, Y) under E\|XY\|^κ ≤ C: the covariance, if the means are 0.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    n : int
        Number of reports that you expect, in [1, 2^40]. It determines h.
    kappa : float
        Order of the moment, κ in (1, 1024].
    C : float
        Bound of the moment, positive.
    h : float, optional
        As in `truncated_moment`.

    Returns
    -------
    LinearEstimator
        That of `truncated_moment` with f(x, y) = xy. Its records have shape (..., 2).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: each report of the estimator is ε-private, whether or not E\|XY\|^κ ≤ C holds.
    Cost: a few microseconds.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import covariance
    >>> estimator = covariance(2.0, n=100_000, kappa=4.0, C=1.0)
    >>> x = np.where(np.arange(100_000) % 2, 0.5, -0.5)
    >>> estimate = estimator.estimate(estimator.privatize(np.stack([x, 2 * x], axis=1)))
    >>> bool(abs(estimate.value - 0.5) < 0.2)
    True
    """
    plain = truncated_moment(epsilon, n=n, kappa=kappa, C=C, f=weights.Product(), h=h)
    return LinearEstimator(plain.ell, epsilon, bound=plain.bound, bias=plain.bias, h=plain.h, dimension=2)


def density_at(x0: float, epsilon: float, *, n: int, smoothness: float, C: float, m: int = 0, h: float | None = None) -> LinearEstimator:
    r"""Make an estimator of a density, or its m-th derivative, at a point x0, for densities p of the Hölder class H(β, C).

    Parameters
    ----------
    x0 : float
        The point.
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    n : int
        Number of reports that you expect, in [1, 2^40]. It determines h.
    smoothness : float
        β in (m, 16].
    C : float
        Hölder constant, positive.
    m : int, default 0
        Order of the derivative.
    h : float, optional
        The bandwidth; by default the one that minimizes the bound of the risk.

    Returns
    -------
    LinearEstimator
        center + ℓ(x) = K((x − x0)/h)/h^{m+1} with a kernel K. Its bias holds for all densities of the class on the real line.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    K has ∫K uʲ = m!·1{j = m} for all integers j < β, and it is even or odd as m is. Then center + E ℓ − θ = h^{−m} ∫K(u) r(hu) du with the
    remainder r of Taylor's formula. With b = ⌊β⌋ ≥ 1, r(v) is the integral of (v − s)^{b−1}/(b − 1)! times p^{(b)}(x0 + s) − p^{(b)}(x0),
    which is at most C\|s\|^{β−b}. (For an integer β it is the integral of p^{(b)}(x0 + s) itself, which is at most C, because p^{(b)}
    changes sign or comes arbitrarily close to 0.) If m + b is odd, K combines r(v) and r(−v), and p^{(b)}(x0 + s) − p^{(b)}(x0 − s) is at
    most C\|2s\|^{β−b}. So, with t = (e^ε − 1)/(e^ε + 1),

        bias ≤ c C Γ(β − b + 1)/Γ(β + 1) · ∫\|K\|\|u\|^β du · h^{β−m},    variance ≤ κ²/(h^{2m+2} n t²),

    where c is 2^{β−b−1} if m + b is odd and 1 if it is even, and κ is half the length of the range of K. (A density has the integral 1, so
    the middle of the range is subtracted from ℓ and added to the estimate.) The sum bias² + variance is smallest for an h that is a
    constant times (n t²)^{−1/(2β+2)}, and is then a constant times (n t²)^{−(β−m)/(β+1)}, which is the optimal rate. Only the range of K
    matters, so K is constant on (0, 1] if the conditions allow it: an indicator for m = 0 and β ≤ 2, a sign for m = 1 and β ≤ 3. Otherwise
    K is a combination of Legendre polynomials.
    Guarantee: each report of the estimator is ε-private, whether or not p is in the class.
    Cost: a few microseconds for a constant K, about a millisecond otherwise.
    Source: Steinberger (2019), Beispiel 3.8.

    Examples
    --------
    >>> from dpcore.minimax import density_at
    >>> density = density_at(0.0, 1.0, n=10**6, smoothness=2.0, C=1.0)
    >>> round(density.h, 4), round(density.bias, 5), round(density.risk_bound(n=10**6), 7)
    (0.1319, 0.0029, 2.52e-05)
    """
    worth = _shrinkage(n, epsilon)
    beta = check_real("smoothness", smoothness, low=0.0, high=SMOOTHEST, include_low=False)
    m = check_integer("m", m, low=0, high=math.ceil(beta) - 1)
    C, x0 = check_positive("C", C), check_real("x0", x0, low=-(2.0**512), high=2.0**512)
    kernel = weights.kernel(beta, m)
    slope = hoelder_slope(kernel, beta, m, C)
    if h is None:
        # The logarithm of ((m + 1)κ²/((β − m) slope² n t²))^{1/(2β + 2)}, whose factors may leave the range of float64.
        power = math.log((m + 1) / (beta - m)) - math.log(worth) + 2 * (math.log(kernel.extent[1]) - math.log(slope))
        h = math.exp(power / (2 * beta + 2))
    window = weights.Window(kernel, x0, check_positive("h", h))
    try:
        bias = slope * h ** (beta - m)
    except OverflowError:
        raise ParameterError(f"h must be smaller, so that the bias of the class is a number of float64, got {h!r}") from None
    return LinearEstimator(window, epsilon, bound=window.norm, bias=bias, center=window.middle, h=h)


def hoelder_slope(kernel: weights.Kernel, beta: float, m: int, C: float) -> float:
    """c in the bound c·h^(β − m) of the bias of a kernel, whose moments up to the largest integer below β are those of `density_at`."""
    b = math.floor(beta)
    pairs = 2 ** (beta - b - 1) if (m + b) % 2 else 1.0
    return pairs * C * math.gamma(beta - b + 1) / math.gamma(beta + 1) * kernel.moment(beta)


def uniform_scale(epsilon: float, *, M: float) -> LinearEstimator:
    """Make an unbiased estimator of ϑ for the uniform distributions on [0, ϑ] with ϑ ≤ M, and of θ = E 2x for their mixtures.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    M : float
        Largest ϑ, positive. Records are clamped to [0, M].

    Returns
    -------
    LinearEstimator
        ℓ(x) = 2x − M with center M and bound M.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    The squared risk is at most M²/(n t²), t = (e^ε − 1)/(e^ε + 1), which is the optimal rate. Without privacy, the maximum of the records
    has the rate 1/n².
    Guarantee: each report of the estimator is ε-private.
    Cost: a few microseconds.
    Source: Steinberger (2019), Beispiel 3.7.

    Examples
    --------
    >>> from dpcore.minimax import uniform_scale
    >>> round(uniform_scale(1.0, M=1.0).risk_bound(n=10_000), 6)
    0.000468
    """
    M = check_positive("M", M)
    return LinearEstimator(weights.Centred(M), epsilon, bound=M, bias=0.0, center=M)


def event_probability(event: Sequence[bool] | npt.NDArray[np.bool_] | Callable[[Any], Any], epsilon: float) -> LinearEstimator:
    """Make an unbiased estimator of the probability of an event.

    Parameters
    ----------
    event : sequence of bool, or callable
        A table on codes, or a vectorized function of records.
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].

    Returns
    -------
    LinearEstimator
        ℓ = 1_A − ½ with center ½.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    The squared risk is at most 1/(4 n t²), t = (e^ε − 1)/(e^ε + 1). What a function says of NaN is counted: `x > 0` counts it as no event.
    Guarantee: each report of the estimator is ε-private.
    Cost: a few microseconds.
    Source: Steinberger (2019), Beispiel 3.6, case A.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import event_probability
    >>> positive = event_probability(lambda x: x > 0, epsilon=1.0)
    >>> x = np.linspace(-1.0, 3.0, 200_000)
    >>> bool(abs(positive.estimate(positive.privatize(x)).value - 0.75) < 0.03)
    True
    """
    if callable(event):
        return LinearEstimator(weights.Indicator(event), epsilon, bound=0.5, bias=0.0, center=0.5)
    table = check_array("event", event, ("bool",))
    return LinearEstimator(tuple((table - 0.5).tolist()), epsilon, bias=0.0, center=0.5)
