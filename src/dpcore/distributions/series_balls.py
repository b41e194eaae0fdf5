"""Small balls in L2: how near the cosine series of a sample is to its density, and the accuracy of `l2_exponential` that follows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.distributions._boxes import Reals
from dpcore.distributions._choices import unit_floats
from dpcore.distributions._cosine_density import CosineDensity, taylor_polynomials
from dpcore.distributions._cosine_distances import largest_square
from dpcore.errors import DataError, ParameterError
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

MOST_DRAWS = 2**24
_BLOCK = 1 << 20
"""Cosines simulated together."""
_RESERVE = 2.0**-30
"""Relative rounding of probabilities that are bounds, from sums of some 10^5 numbers."""


def series_covariance(coefficients: npt.ArrayLike, *, terms: int) -> Reals:
    r"""Return the covariance matrix Σ of ψ_j(X) = √2·cos(πjX), j ≤ m, for X with the density 1 + Σ β_j ψ_j on [0, 1].

    Parameters
    ----------
    coefficients : array_like, shape (J,)
        β_1, …, β_J, finite numbers; those that follow are 0.
    terms : int
        m, in [1, 4096].

    Returns
    -------
    ndarray of float64, shape (m, m)
        Σ_jk = (β_{\|j−k\|} + β_{j+k})/√2 − β_j β_k for j ≠ k, and Σ_jj = 1 + β_{2j}/√2 − β_j²: n times the covariance of the coefficients
        of n records.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.
    DataError
        If a coefficient is NaN or infinite.

    Notes
    -----
    Lemma 9.3 of Wasserman & Zhou (2010) bounds the largest eigenvalue for all m at once: λ ≤ 1 + (max \|β_j\| + √2)·Σ\|β_j\|. It is also
    at most the largest value of the density, because Var(a·ψ(X)) ≤ ∫ (a·ψ)² p.
    Cost: m² numbers.

    References
    ----------
    Wasserman & Zhou (2010), Section 9.11, Lemma 9.3.

    Examples
    --------
    >>> series_covariance([0.0], terms=2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    beta, m = _coefficients(coefficients), check_integer("terms", terms, low=1, high=4096)
    padded = np.zeros(2 * m + 1)
    padded[1 : min(len(beta), 2 * m) + 1] = beta[: 2 * m]
    j = np.arange(1, m + 1)
    found = (padded[np.abs(j[:, None] - j)] + padded[j[:, None] + j]) / math.sqrt(2) - np.outer(padded[j], padded[j])
    found[j - 1, j - 1] = 1 + padded[2 * j] / math.sqrt(2) - padded[j] ** 2
    return np.asarray(found)


def l2_small_ball_probability(
    radius: float, coefficients: npt.ArrayLike, *, draws: int, terms: int, runs: int | None = None, rng: Stream | None = None
) -> float:
    r"""Return R(k, ε) = P(‖p − p̂_k‖₂ ≤ ε) for the cosine series p̂_k of k draws from a density p, or a lower bound of it.

    Parameters
    ----------
    radius : float
        ε of the ball, ≥ 0: of the distance, not of its square.
    coefficients : array_like, shape (J,)
        β_1, …, β_J of p = 1 + Σ β_j √2 cos(πjx) on [0, 1], J ≤ 65536; those that follow are 0. p must be ≥ 0.
    draws : int
        Number k of draws, in [1, 2^24].
    terms : int
        Number m of terms of p̂_k, in [1, 4096].
    runs : int, optional
        Number of simulated samples; None gives a proved lower bound instead.
    rng : Stream, optional
        Source of randomness for simulations; None is the secure source.

    Returns
    -------
    float
        With `runs` the share of the simulated samples, whose standard error is √(R(1 − R)/runs); else a number ≤ R, 0 for small radii.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or p is negative somewhere.
    DataError
        If a coefficient is NaN or infinite.

    Notes
    -----
    ‖p − p̂_k‖² = Q + b with the squared bias b = Σ_{j>m} β_j², and Q = Σ_{j≤m} (β̂_j − β_j)². E Q = tr Σ/k (`series_covariance`), and with
    U = ψ(X) − β, Var Q = (E‖U‖⁴ − (tr Σ)²)/k³ + 2(k − 1)‖Σ‖_F²/k³, where E‖U‖⁴ ≤ Σ_j (√2 + \|β_j\|)²·tr Σ. The bound is the better one of
    Markov's, 1 − E Q/(ε² − b), and Cantelli's, t²/(t² + Var Q), t = ε² − b − E Q. The paper shows with a normal limit that the
    probability is at least ½ at the radius of Theorem 6.2; Cantelli's inequality proves this without a limit where t² ≥ Var Q.
    Guarantee: none is needed, as no data are read.
    Cost: with `runs`, k·m cosines a sample.

    References
    ----------
    Wasserman & Zhou (2010), Definition 5.2, Section 9.11 and Lemma 9.3.

    Examples
    --------
    >>> round(l2_small_ball_probability(0.5, [0.3], draws=100, terms=3), 3)
    0.988
    """
    beta, k, m, radius = _ball(radius, coefficients, draws, terms)
    if runs is None:
        return _least_probability(radius, beta, k, m)
    runs = check_integer("runs", runs, low=1)
    density, stream, inside = CosineDensity(beta), resolve(rng), 0
    bias, mean = float(np.sum(beta[m:] ** 2)), np.zeros(m)
    mean[: len(beta)] = beta[:m]
    block = max(1, _BLOCK // (k * m))
    for start in range(0, runs, block):
        size = min(block, runs - start)
        sums = np.zeros((size, m))
        for first in range(0, k, max(1, _BLOCK // m)):
            part = min(k - first, max(1, _BLOCK // m))
            x = density.quantile(unit_floats((size * part,), rng=stream))
            sums += (math.sqrt(2) * np.cos(math.pi * x[:, None] * np.arange(1, m + 1))).reshape(size, part, m).sum(axis=1)
        inside += int(np.count_nonzero(((sums / k - mean) ** 2).sum(axis=1) + bias <= radius**2))
    return inside / runs


def l2_accuracy_bound(
    epsilon: float, radius: float, coefficients: npt.ArrayLike, *, n: int, draws: int, terms: int, draw_terms: int | None = None
) -> float:
    r"""Bound P(‖p − p̂\*‖₂ > r) for the series p̂\* of the draws of `l2_exponential`, of n records with the density p.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    radius : float
        Distance r > 0, not squared.
    coefficients : array_like, shape (J,)
        β_1, …, β_J of p, as in `l2_small_ball_probability`.
    n : int
        Number of records, in [1, 2^53].
    draws : int
        Number k of draws, in [1, 2^24].
    terms : int
        Number m of coefficients of the records, in [1, 4096].
    draw_terms : int, optional
        Number m_k of coefficients of the draws; None is `terms`.

    Returns
    -------
    float
        P(‖p − p̂‖ > r/16) + (sup p)^k·e^(−3εrn/(16D))/R(k, r/2), at most 1; both probabilities by the bounds of
        `l2_small_ball_probability`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or p is negative somewhere.
    DataError
        If a coefficient is NaN or infinite.

    Notes
    -----
    This is Theorem 5.3 of Wasserman & Zhou (2010) for the distance of series, as the proof of Theorem 6.2 uses it, with the exact Δ = D/n
    of `l2_exponential`. Theorem 6.2 chooses r² of the order n^(−γ/(2γ+1)).
    Cost: as for a cosine series of J terms.

    References
    ----------
    Wasserman & Zhou (2010), Theorems 5.3 and 6.2.

    Examples
    --------
    >>> l2_accuracy_bound(1.0, 0.5, [0.2], n=10**6, draws=100, terms=3, draw_terms=2) < 0.1
    True
    """
    epsilon, n = check_positive("epsilon", epsilon), check_integer("n", n, low=1, high=2**53)
    radius = check_positive("radius", radius)
    draw_terms = terms if draw_terms is None else draw_terms
    beta, k, m_k, _ = _ball(radius, coefficients, draws, draw_terms, "draw_terms")
    m = check_integer("terms", terms, low=1, high=4096)
    inside = _least_probability(radius / 2, beta, k, m_k)
    if inside <= 0:
        return 1.0
    change = math.sqrt(largest_square(m)) * _backend.COSINE_GRID * (1 + _RESERVE)
    exponent = k * math.log(_largest_value(beta)) - 3 * epsilon * radius * n / (16 * change) - math.log(inside)
    return min(1.0, (1 - _least_probability(radius / 16, beta, n, m)) + math.exp(min(exponent, 0.0)) * (1 + _RESERVE))


def _coefficients(coefficients: npt.ArrayLike) -> Reals:
    array = check_array("coefficients", coefficients, REAL_DTYPES).astype(np.float64)
    if array.ndim != 1 or not 1 <= len(array) <= 2**16:
        raise ParameterError(f"coefficients must have shape (J,) with J in [1, 65536], got shape {array.shape}")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(f"coefficients must be finite; the one at index {int(bad[0])} is not")
    return array


def _ball(radius: float, coefficients: npt.ArrayLike, draws: int, terms: int, name: str = "terms") -> tuple[Reals, int, int, float]:
    beta, k = _coefficients(coefficients), check_integer("draws", draws, low=1, high=MOST_DRAWS)
    m, radius = check_integer(name, terms, low=1, high=4096), check_real("radius", radius, low=0.0, high=math.inf)
    if CosineDensity(beta).mass > 1 + 1e-9:
        raise ParameterError("coefficients must be those of a density, which is nowhere negative")
    return beta, k, m, radius


def _least_probability(radius: float, beta: Reals, k: int, m: int) -> float:
    """The bound of Markov or Cantelli, rounded down."""
    covariance = series_covariance(beta, terms=m)
    trace, square = float(np.trace(covariance)), float(np.sum(covariance**2))
    known = np.zeros(m)
    known[: len(beta)] = beta[:m]
    fourth = float(np.sum((math.sqrt(2) + np.abs(known)) ** 2)) * trace
    room = radius**2 * (1 - _RESERVE) - float(np.sum(beta[m:] ** 2)) * (1 + _RESERVE)
    if room <= 0:
        return 0.0
    mean = trace / k * (1 + _RESERVE)
    variance = (max(0.0, fourth - trace**2) + 2 * (k - 1) * square) / float(k) ** 3 * (1 + _RESERVE)
    above = max(0.0, room - mean)
    best = max(1 - mean / room, above**2 / (above**2 + variance) if above > 0 else 0.0)
    return max(0.0, best - _RESERVE)


def _largest_value(beta: Reals) -> float:
    """Bound sup p, from the Taylor polynomials of cells."""
    taylor = taylor_polynomials(beta)
    ends = np.abs(taylor[:, 1:]).sum(axis=1)
    return float((taylor[:, 0] + ends).max()) * (1 + _RESERVE) + _RESERVE * float(np.abs(beta).sum())
