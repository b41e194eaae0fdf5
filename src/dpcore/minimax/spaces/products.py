"""Distances of n independent records or reports, and of the reports one after the other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpcore._validation import REAL_DTYPES, check_array, check_integer
from dpcore.errors import ParameterError
from dpcore.minimax import _binomial
from dpcore.minimax.spaces.distances import kl
from dpcore.minimax.spaces.matrices import Array, check_distributions

MOST_RECORDS = 2**53
MOST_COUNTS = 200_000
"""Vectors of counts that are enumerated."""
UNIT = 2.0**-53
ROUNDING = 1e-12
"""An allowance for rounding, far larger than the rounding errors of the formulas."""


class Bounds(NamedTuple):
    """Two numbers between which a third one lies.

    Attributes
    ----------
    lower, upper : float
        Rounded down, and rounded up.
    """

    lower: float
    upper: float


def tv_of_products(p: Any, q: Any, n: int) -> Bounds:
    """Bound the total variation distance of n independent records, tv(p^n, q^n).

    Parameters
    ----------
    p, q : array_like of float, shape (K,)
        Distributions of one record: masses ≥ 0 that sum to 1 within 1e-9·K.
    n : int
        Number of records, in [1, 2^53].

    Returns
    -------
    Bounds
        The distance lies between them. They agree to about nine digits for two outcomes and n ≤ 2^40, from binomial tails, and where the
        counts of all outcomes have at most 200,000 values, which are enumerated; less for masses so small that the rounding of 1 minus
        them counts. Otherwise they are 1 − ρ^n and √(1 − ρ^{2n}) with the
        Hellinger affinity ρ.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is not a distribution, shapes differ, or `n` is outside its range.

    Notes
    -----
    tv(p^n, q^n) ≤ n·tv(p, q), and this order is attained: with p = (1, 0) and q = (1 − 1/n, 1/n), the distance is 1 − (1 − 1/n)^n. Behind
    an ε-private channel it is of the order √n·tv(p, q).
    Cost: two tails, or one enumeration of counts, at most 0.1 s.
    Source: Steinberger (2019), Satz 2.4 and Aufgabe 2.8.

    Examples
    --------
    >>> from dpcore.minimax import tv_of_products
    >>> lower, upper = tv_of_products([1.0, 0.0], [0.99, 0.01], 100)
    >>> round(lower, 6), round(upper, 6)
    (0.633968, 0.633968)
    """
    first, second = check_distributions("p", p), check_distributions("q", q)
    if first.ndim != 1 or first.shape != second.shape:
        raise ParameterError(f"p and q must be two distributions on the same outcomes, got shapes {first.shape} and {second.shape}")
    n = check_integer("n", n, low=1, high=MOST_RECORDS)
    errors = error_sum(first / first.sum(), second / second.sum(), n, terms=len(first))
    return Bounds(max(math.nextafter(1.0 - errors.upper, 0.0), 0.0), min(math.nextafter(1.0 - errors.lower, 2.0), 1.0))


def power_up(affinity: float, n: int) -> float:
    """Return affinity^n, rounded up and at most 1, for an affinity > 0; never 0."""
    return min(math.nextafter(math.exp(n * math.log(min(affinity, 1.0))) * (1 + ROUNDING), math.inf), 1.0)


def error_sum(q0: Array, q1: Array, n: int, *, terms: int) -> Bounds:
    """Bound the smallest sum of the two errors of a test of q0^n against q1^n, ρ_T(q0^n, q1^n).

    Parameters
    ----------
    q0, q1 : ndarray, shape (K,)
        Distributions, each mass a sum of `terms` rounded numbers ≥ 0.
    n : int
        Number of records.
    terms : int
        The number of rounded numbers.
    """
    possible = (q0 > 0) | (q1 > 0)
    q0, q1 = q0[possible], q1[possible]
    low, high = _by_affinity(q0, q1, n)
    if len(q0) == 2 and n <= _binomial.MOST_REPORTS:
        exact = _of_two(float(q0[1]), float(q1[1]), n)
    elif n <= MOST_COUNTS and math.comb(n + len(q0) - 1, n) <= MOST_COUNTS:
        exact = _of_counts(q0, q1, n)
    else:
        exact = Bounds(0.0, 1.0)
    # A relative error e of each mass is a Hellinger distance of at most e, and √n·e of n records; n·UNIT bounds the effect of masses near
    # 0 whose complement was rounded.
    least = float(min(q0[q0 > 0].min(), q1[q1 > 0].min()))
    off = 2 * min(math.sqrt(n) * (terms + 4) * UNIT / (least if len(q0) == 2 else 1.0), n * (terms + 4) * UNIT)
    upper = min(min(exact.upper, high) + off, 1.0)
    return Bounds(min(max(max(exact.lower, low) - off, 0.0), upper), upper)


def _by_affinity(q0: Array, q1: Array, n: int) -> Bounds:
    """1 − √(1 − ρ^{2n}) ≤ ρ_T ≤ ρ^n, with ρ from the Hellinger distance, which keeps its digits between near distributions."""
    total = np.sqrt(q0) + np.sqrt(q1)
    half = float((((q1 - q0) / total) ** 2).sum()) / 2
    less, more = half * (1 - ROUNDING) - 4 * UNIT**2, half * (1 + ROUNDING) + 4 * UNIT**2
    high = math.exp(n * math.log1p(-less)) * (1 + ROUNDING) if less < 1 else 0.0
    low = -math.expm1(0.5 * math.log(-math.expm1(2 * n * math.log1p(-more)))) * (1 - ROUNDING) if more < 1 else 0.0
    return Bounds(low, high)


def _of_two(s0: float, s1: float, n: int) -> Bounds:
    """Sum P0(c ≥ k) + P1(c < k) at the k that minimizes it, c the count of the outcome that is more probable under q1."""
    if s0 == s1:
        return Bounds(1.0, 1.0)
    if s0 > s1:
        s0, s1 = s1, s0  # the sum of the two errors is symmetric
    with np.errstate(divide="ignore"):
        gap = np.float64(s1 - s0)
        less, more = np.log1p(gap / (1 - np.float64(s1))), np.log1p(gap / np.float64(s0))
        ratio = less / (less + more) if np.isfinite(less) and np.isfinite(more) else float(np.isinf(less) and not np.isinf(more))
    middle = math.ceil(n * float(ratio))
    firsts = np.clip(np.arange(middle - 2, middle + 3), 0, n + 1)
    sums = _binomial.at_least(firsts, n, s0) + _binomial.below(firsts, n, s1)
    best = float(sums.min())
    # The tails exceed the probabilities by a relative 10^−10 + 7·10^−16·n at most, or are below 3·10^−20.
    return Bounds(best * (1 - 4e-10 - 3e-15 * n) - 1e-19, best)


def _of_counts(q0: Array, q1: Array, n: int) -> Bounds:
    """Sum the smaller of the two probabilities over all vectors of counts."""
    counts = np.zeros((1, 0), np.int64)
    for _ in range(len(q0) - 1):
        left = n - counts.sum(axis=1)
        places = np.repeat(np.arange(len(counts)), left + 1)
        added = np.arange(len(places)) - np.repeat(np.cumsum(left + 1) - (left + 1), left + 1)
        counts = np.column_stack([counts[places], added])
    counts = np.column_stack([counts, n - counts.sum(axis=1)])
    ways = special.gammaln(n + 1) - special.gammaln(counts + 1).sum(axis=1)
    logs = [ways + special.xlogy(counts, q).sum(axis=1) for q in (q0, q1)]
    total = float(np.exp(np.minimum(*logs)).sum())
    slack = 1e-11 * (1 + math.log1p(n)) * max(n, 10)
    return Bounds(total * (1 - slack), total * (1 + slack))


def kl_terms(p: Any, q: Any) -> Array:
    """Split the divergence of the laws of n reports into what each report adds, given those before it.

    Parameters
    ----------
    p, q : array_like of float, shape (K1, …, Kn)
        Joint laws of n reports: masses ≥ 0 that sum to 1 within 1e-9 of their number.

    Returns
    -------
    ndarray of float64, shape (n,)
        Entry i is the mean of D(p(z_i | z_1 … z_{i−1})‖q(z_i | z_1 … z_{i−1})) over p. The entries sum to kl(p, q). Each is ∞ if p has mass
        on a history or a report that q excludes.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is not a law, or the shapes differ.

    Notes
    -----
    For reports of a sequentially interactive channel, each entry is at most `contraction_bound`.
    Cost: a few passes over the laws.
    Source: Steinberger (2019), Aufgabe 2.7.

    Examples
    --------
    >>> from dpcore.minimax import kl, kl_terms
    >>> p, q = [[0.1, 0.4], [0.2, 0.3]], [[0.25, 0.25], [0.25, 0.25]]
    >>> kl_terms(p, q).round(6).tolist(), round(kl(sum(p, []), sum(q, [])), 6)
    ([0.0, 0.10644], 0.10644)
    """
    laws = []
    for name, value in (("p", p), ("q", q)):
        masses = check_array(name, value, REAL_DTYPES).astype(np.float64, copy=False)
        check_distributions(name, masses.reshape(-1))
        laws.append(masses)
    if laws[0].shape != laws[1].shape or laws[0].ndim < 1:
        raise ParameterError(f"p and q must have the same shape, one axis for each report, got {laws[0].shape} and {laws[1].shape}")
    terms = []
    for axis in range(laws[0].ndim):
        joint = [law.sum(axis=tuple(range(axis + 1, law.ndim))).reshape(-1, law.shape[axis]) for law in laws]
        past = joint[0].sum(axis=1)
        met = past > 0
        rows = [table[met] for table in joint]
        impossible = rows[1].sum(axis=1) == 0
        if impossible.any():
            terms.append(math.inf)
            continue
        first, second = (row / row.sum(axis=1, keepdims=True) for row in rows)
        terms.append(float((past[met] * np.atleast_1d(kl(first, second))).sum()))
    return np.array(terms)
