"""Distances between distributions on finite spaces, the effect of a channel on them, and the privacy level of a channel.

All functions accept stacks of distributions. Shapes (..., X) broadcast against each other and give results of shape (...); two vectors give
a Python float. The distances satisfy the inequalities of Steinberger (2019), Satz 2.4::

    tv ≤ √(kl/2)        hellinger² = 2(1 − hellinger_affinity)        hellinger²/2 ≤ tv ≤ hellinger ≤ √kl
    testing_affinity = 1 − tv ≤ hellinger_affinity ≤ √(testing_affinity·(2 − testing_affinity))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpcore.errors import ParameterError
from dpcore.minimax.spaces.matrices import Array, channel_matrix, check_distributions, check_inputs, plain

Vector: TypeAlias = Sequence[float]
"""One distribution. Of an array, the type does not say how many axes it has."""
NEAR = 2.0**-8
"""Below this relative difference of two masses, a series gives their term of the Kullback-Leibler divergence."""


@overload
def kl(p: Vector, q: Vector) -> float: ...
@overload
def kl(p: npt.ArrayLike, q: npt.ArrayLike) -> float | Array: ...
def kl(p: Any, q: Any) -> Any:
    """Return the Kullback-Leibler divergence D(p‖q) = Σ p ln(p/q), in nats. It is ∞ if p has mass where q has none.

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)
        Never negative: it is summed as Σ (p ln(p/q) − p + q), whose terms are all ≥ 0.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is not a distribution, or the shapes do not broadcast.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 a.
    Cost: about 20 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import kl
    >>> round(kl([0.5, 0.5], [0.25, 0.75]), 6), kl([0.5, 0.5], [1.0, 0.0])
    (0.143841, inf)
    """
    p, q = _pair(p, q)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        logarithm = np.log(p / q)
        # If the quotient leaves the range of float64, the difference of the two logarithms does not.
        logarithm = np.where(np.isfinite(logarithm), logarithm, np.log(p) - np.log(q))
        terms = np.where(p > 0, p * logarithm - p + q, q)
        # The parts of q((1 + r) ln(1 + r) − r) cancel if p is near q. Its series has an error below r^6/20 of the first term.
        r = (p - q) / q
        series = q * r * r * (1 / 2 + r * (-1 / 6 + r * (1 / 12 + r * (-1 / 20 + r * (1 / 30 - r / 42)))))
        terms = np.where(np.abs(r) < NEAR, series, terms)
    return plain(np.maximum(terms, 0.0).sum(axis=-1))


@overload
def tv(p: Vector, q: Vector) -> float: ...
@overload
def tv(p: npt.ArrayLike, q: npt.ArrayLike) -> float | Array: ...
def tv(p: Any, q: Any) -> Any:
    r"""Return the total variation distance sup \|p(A) − q(A)\| = ½Σ\|p − q\|.

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)
        In [0, 1], up to the deviation of the sums from 1.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is not a distribution, or the shapes do not broadcast.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 b and Aufgabe 2.3.
    Cost: about 2 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import tv
    >>> tv([0.5, 0.5], [[0.25, 0.75], [1.0, 0.0]]).tolist()
    [0.25, 0.5]
    """
    p, q = _pair(p, q)
    return plain(np.abs(p - q).sum(axis=-1) / 2)


@overload
def hellinger(p: Vector, q: Vector) -> float: ...
@overload
def hellinger(p: npt.ArrayLike, q: npt.ArrayLike) -> float | Array: ...
def hellinger(p: Any, q: Any) -> Any:
    """Return the Hellinger distance (Σ(√p − √q)²)^{1/2}, in [0, √2].

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
        If an argument is not a distribution, or the shapes do not broadcast.

    Notes
    -----
    Some authors put a factor ½ before the sum; this function does not. The result is accurate even if p and q nearly agree, where
    √(2 − 2·affinity) is not.
    Source: Steinberger (2019), Definition 2.3 c.
    Cost: about 5 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import hellinger
    >>> round(hellinger([1.0, 0.0], [0.0, 1.0]), 6), hellinger([0.5, 0.5], [0.5, 0.5])
    (1.414214, 0.0)
    """
    p, q = _pair(p, q)
    roots = np.sqrt(p) + np.sqrt(q)
    # √p − √q = (p − q)/(√p + √q): subtract before the roots round the difference away.
    difference = np.divide(p - q, roots, out=np.zeros_like(roots), where=roots > 0)
    return plain(np.sqrt(np.square(difference).sum(axis=-1)))


@overload
def hellinger_affinity(p: Vector, q: Vector) -> float: ...
@overload
def hellinger_affinity(p: npt.ArrayLike, q: npt.ArrayLike) -> float | Array: ...
def hellinger_affinity(p: Any, q: Any) -> Any:
    """Return the Hellinger affinity ρ_H = Σ√(p q) = 1 − hellinger²/2. The affinity of product distributions is the product.

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
        If an argument is not a distribution, or the shapes do not broadcast.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 d and Satz 2.4 (2), (3).
    Cost: about 4 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import hellinger_affinity
    >>> round(hellinger_affinity([0.5, 0.5], [0.1, 0.9]), 6)
    0.894427
    """
    p, q = _pair(p, q)
    return plain((np.sqrt(p) * np.sqrt(q)).sum(axis=-1))


@overload
def testing_affinity(p: Vector, q: Vector) -> float: ...
@overload
def testing_affinity(p: npt.ArrayLike, q: npt.ArrayLike) -> float | Array: ...
def testing_affinity(p: Any, q: Any) -> Any:
    """Return the testing affinity ρ_T = Σ min(p, q) = 1 − tv, the minimum of E_p φ + E_q(1 − φ) over all tests φ.

    Parameters
    ----------
    p, q : array_like of float, shape (..., X)
        Distributions: masses ≥ 0 that sum to 1 within 1e-9·X.

    Returns
    -------
    float or ndarray of float64, shape (...)
        The smallest sum of the two error probabilities of a test of p against q.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is not a distribution, or the shapes do not broadcast.

    Notes
    -----
    Source: Steinberger (2019), Definition 2.3 e and Satz 2.4 (5).
    Cost: about 2 ns a pair of masses.

    Examples
    --------
    >>> from dpcore.minimax import testing_affinity
    >>> testing_affinity([0.5, 0.5], [0.25, 0.75])
    0.75
    """
    p, q = _pair(p, q)
    return plain(np.minimum(p, q).sum(axis=-1))


def apply(channel: Any, p: npt.ArrayLike) -> Array:
    r"""Return the distribution of a report, Q p(z) = Σ p(x) Q(z\|x).

    Parameters
    ----------
    channel : array_like of float, shape (X, K), or a mechanism with `channel`
        Row x holds the probabilities of the outcomes for input x.
    p : array_like of float, shape (..., X)
        Distributions of a record.

    Returns
    -------
    ndarray of float64, shape (..., K)
        Distributions of its report.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a row of the channel or of `p` is not a distribution, or their sizes differ.

    Notes
    -----
    A channel never increases a distance of this module: d(Qp, Qq) ≤ d(p, q).
    Cost: a matrix product.
    Source: Steinberger (2019), Satz 2.8 and Aufgabe 2.5.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.minimax import apply
    >>> apply(BinaryResponse(1.0), [1.0, 0.0]).round(4).tolist()
    [0.7311, 0.2689]
    """
    masses = check_distributions("p", p)
    reports: Array = masses @ check_inputs(channel_matrix(channel), masses.shape[-1])
    return reports


def dp_level(channel: Any) -> float:
    r"""Return the smallest ε for which a channel is ε-differentially private, max ln Q(z\|x)/Q(z\|x').

    Parameters
    ----------
    channel : array_like of float, shape (X, K), or a mechanism with `channel`
        Row x holds the probabilities of the outcomes for input x.

    Returns
    -------
    float
        ∞ if an outcome is possible for one input and impossible for another.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a row is not a distribution.

    Notes
    -----
    The result is exact for the given probabilities, up to the rounding of two logarithms.
    Cost: two logarithms an outcome.
    Source: Steinberger (2019), Definition 1.1.

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


def _pair(p: Any, q: Any) -> tuple[Array, Array]:
    first, second = check_distributions("p", p), check_distributions("q", q)
    if first.shape[-1] != second.shape[-1]:
        raise ParameterError(f"p and q must have the same number of masses, got {first.shape[-1]} and {second.shape[-1]}")
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ParameterError(f"p and q must have shapes that broadcast, got {first.shape} and {second.shape}") from None
    return first, second
