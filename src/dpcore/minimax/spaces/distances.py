"""Distances between distributions on finite spaces, what channels do to them, and how private a channel is.

All functions take stacks of distributions: shapes (..., X) that broadcast against each other give results of shape (...), and a Python
float for two vectors. Between the distances the inequalities of Steinberger (2019), Satz 2.4 hold::

    tv ≤ √(kl/2)        hellinger² = 2(1 − hellinger_affinity)        hellinger²/2 ≤ tv ≤ hellinger ≤ √kl
    testing_affinity = 1 − tv ≤ hellinger_affinity ≤ √(testing_affinity·(2 − testing_affinity))
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpcore._validation import REAL_DTYPES, check_array, check_real
from dpcore.errors import ParameterError
from dpcore.minimax.spaces.matrices import Array, channel_matrix, check_distributions, check_inputs

EPSILON_HIGH = 700.0
NEAR = 2.0**-8
"""Relative difference of two masses below which their part of the Kullback-Leibler divergence is summed as a series."""


def kl(p: Any, q: Any) -> Any:
    """Kullback-Leibler divergence D(p‖q) = Σ p ln(p/q), in nats; ∞ if p has mass where q has none.

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)
        Summed as Σ (p ln(p/q) − p + q), whose terms are ≥ 0: the result never is negative.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is no distribution, or the shapes do not fit.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 a. Cost: about 20 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import kl
    >>> round(kl([0.5, 0.5], [0.25, 0.75]), 6), kl([0.5, 0.5], [1.0, 0.0])
    (0.143841, inf)
    """
    p, q = _pair(p, q)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        logarithm = np.log(p / q)
        # A quotient that leaves the range of float64 is the difference of two logarithms, which do not.
        logarithm = np.where(np.isfinite(logarithm), logarithm, np.log(p) - np.log(q))
        terms = np.where(p > 0, p * logarithm - p + q, q)
        # q((1 + r) ln(1 + r) − r), whose parts cancel where p is near q: there its series, with an error below r^6/20 of its first term.
        r = (p - q) / q
        series = q * r * r * (1 / 2 + r * (-1 / 6 + r * (1 / 12 + r * (-1 / 20 + r * (1 / 30 - r / 42)))))
        terms = np.where(np.abs(r) < NEAR, series, terms)
    return _plain(np.maximum(terms, 0.0).sum(axis=-1))


def tv(p: Any, q: Any) -> Any:
    r"""Total variation distance sup \|p(A) − q(A)\| = ½Σ\|p − q\|.

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)
        In [0, 1], but for the masses' own deviation from a sum of 1.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is no distribution, or the shapes do not fit.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 b and Aufgabe 2.3. Cost: about 2 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import tv
    >>> tv([0.5, 0.5], [[0.25, 0.75], [1.0, 0.0]]).tolist()
    [0.25, 0.5]
    """
    p, q = _pair(p, q)
    return _plain(np.abs(p - q).sum(axis=-1) / 2)


def hellinger(p: Any, q: Any) -> Any:
    """Hellinger distance (Σ(√p − √q)²)^{1/2}, in [0, √2].

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is no distribution, or the shapes do not fit.

    Notes
    -----
    Without the factor ½ that other authors put before the sum. Accurate also where p and q nearly agree, unlike √(2 − 2·affinity).
    Source: Steinberger (2019), Definition 2.3 c. Cost: about 5 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import hellinger
    >>> round(hellinger([1.0, 0.0], [0.0, 1.0]), 6), hellinger([0.5, 0.5], [0.5, 0.5])
    (1.414214, 0.0)
    """
    p, q = _pair(p, q)
    roots = np.sqrt(p) + np.sqrt(q)
    # √p − √q = (p − q)/(√p + √q): the difference is taken before the roots round it away.
    difference = np.divide(p - q, roots, out=np.zeros_like(roots), where=roots > 0)
    return _plain(np.sqrt(np.square(difference).sum(axis=-1)))


def hellinger_affinity(p: Any, q: Any) -> Any:
    """Hellinger affinity ρ_H = Σ√(p q) = 1 − hellinger²/2; that of products is the product.

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is no distribution, or the shapes do not fit.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 d and Satz 2.4 (2), (3). Cost: about 4 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import hellinger_affinity
    >>> round(hellinger_affinity([0.5, 0.5], [0.1, 0.9]), 6)
    0.894427
    """
    p, q = _pair(p, q)
    return _plain((np.sqrt(p) * np.sqrt(q)).sum(axis=-1))


def testing_affinity(p: Any, q: Any) -> Any:
    """Testing affinity ρ_T = min over tests φ of E_p φ + E_q(1 − φ) = Σ min(p, q) = 1 − tv.

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)
        The least sum of the two errors of a test of p against q.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is no distribution, or the shapes do not fit.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 e and Satz 2.4 (5). Cost: about 2 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import testing_affinity
    >>> testing_affinity([0.5, 0.5], [0.25, 0.75])
    0.75
    """
    p, q = _pair(p, q)
    return _plain(np.minimum(p, q).sum(axis=-1))


def apply(channel: Any, p: Any) -> Any:
    r"""The distribution of a report, Q p(z) = Σ p(x) Q(z\|x).

    Parameters
    ----------
    channel : array_like of float, shape (X, K), or a mechanism with `channel`
        Rows of conditional probabilities.
    p : array_like of float, shape (..., X)
        Distributions of a record.

    Returns
    -------
    ndarray of float64, shape (..., K)

    Raises
    ------
    ParameterError, ParameterTypeError
        If the rows or `p` are no distributions, or their sizes differ.

    Notes
    -----
    It contracts every distance of this module: d(Qp, Qq) ≤ d(p, q). Source: Steinberger (2019), Satz 2.8 and Aufgabe 2.5.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.minimax import apply
    >>> apply(BinaryResponse(1.0), [1.0, 0.0]).round(4).tolist()
    [0.7311, 0.2689]
    """
    masses = check_distributions("p", p)
    return masses @ check_inputs(channel_matrix(channel), masses.shape[-1])


def dp_level(channel: Any) -> float:
    r"""The least ε for which a channel is ε-differentially private: max ln Q(z\|x)/Q(z\|x').

    Parameters
    ----------
    channel : array_like of float, shape (X, K), or a mechanism with `channel`
        Rows of conditional probabilities.

    Returns
    -------
    float
        ∞ if an outcome is possible for one input and not for another.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the rows are no distributions.

    Notes
    -----
    Exact for the probabilities given but for the rounding of two logarithms. Source: Steinberger (2019), Definition 1.1.

    Examples
    --------
    >>> from dpcore.local import KaryResponse
    >>> from dpcore.minimax import dp_level
    >>> round(dp_level(KaryResponse(0.75, k=5)), 12), dp_level([[1.0, 0.0], [0.5, 0.5]])
    (0.75, inf)
    """
    matrix = channel_matrix(channel)
    largest, smallest = matrix.max(axis=0), matrix.min(axis=0)
    possible = largest > 0
    with np.errstate(divide="ignore"):
        return float((np.log(largest[possible]) - np.log(smallest[possible])).max())


def contraction_bound(epsilon: float, tv: Any) -> Any:
    """What privacy leaves of a distance: D(Qp‖Qq) + D(Qq‖Qp) ≤ min(4, e^{2ε})(e^ε − 1)²·tv(p, q)² for every ε-private channel Q.

    Parameters
    ----------
    epsilon : float
        Privacy loss of the channel, in [0, 700].
    tv : array_like of float
        Total variation distances before the channel, in [0, 1].

    Returns
    -------
    float or ndarray of float64, of the shape of `tv`
        ∞ where it leaves the range of float64.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range.

    Notes
    -----
    n records under a sequentially interactive channel: each divergence is at most the sum of their bounds, both together at most twice it.
    Source: Steinberger (2019), Satz 2.9 and Korollar 2.10 (Duchi, Jordan & Wainwright, 2013).

    Examples
    --------
    >>> from dpcore.minimax import contraction_bound
    >>> round(contraction_bound(1.0, 0.1), 6)
    0.1181
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, high=EPSILON_HIGH)
    distances = check_array("tv", tv, REAL_DTYPES).astype(np.float64, copy=False)
    if not ((distances >= 0) & (distances <= 1)).all():
        raise ParameterError("tv must be in [0, 1] everywhere, and is not")
    with np.errstate(over="ignore"):
        return _plain(np.square(min(2.0, math.exp(epsilon)) * math.expm1(epsilon) * distances))


def _pair(p: Any, q: Any) -> tuple[Array, Array]:
    first, second = check_distributions("p", p), check_distributions("q", q)
    if first.shape[-1] != second.shape[-1]:
        raise ParameterError(f"p and q must have equally many masses, got {first.shape[-1]} and {second.shape[-1]}")
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ParameterError(f"p and q must have shapes that broadcast, got {first.shape} and {second.shape}") from None
    return first, second


def _plain(result: Any) -> Any:
    return float(result) if np.ndim(result) == 0 else np.asarray(result, np.float64)
