"""Binomial probabilities in float64 with bounds of their errors, for up to 10^12 trials.

All functions evaluate arrays. Reserves, relative to each result, cover its rounding errors; docs/exactness-shuffled.md counts these.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

RESERVE = 2.0**-33
"""Relative, of a probability. The exponent, at most 745, is 300 roundings off, which is a fourth of this."""
LEAST = 1e-300
"""Added to every probability, because float64 loses digits below 10^−308."""
SERIES_TERMS = 18
SERIES_RADIUS = 0.1
SPLIT = 134217729.0
"""2^27 + 1: a float64 times this, rounded, has the upper 26 bits of the float."""
STIRLING_FROM = 16


def _exact_rests() -> Array:
    return np.array(
        [0.0, *(math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) for n in range(1, STIRLING_FROM))]
    )


EXACT_RESTS = _exact_rests()
REST_ERROR = 1e-13


def _stirling_rest(n: Array) -> tuple[Array, Array]:
    """Bound ln n! − ln(√(2πn)·(n/e)^n) from both sides, n ≥ 1: partial sums of Stirling's series, which alternates (DLMF 5.11.1)."""
    inverse = 1 / n
    square = inverse * inverse
    below = inverse * (1 / 12 - square / 360)
    above = below + inverse * square * square / 1260
    few = n < STIRLING_FROM
    known = EXACT_RESTS[np.where(few, n, 0.0).astype(np.intp)]
    return np.where(few, known, below) - REST_ERROR, np.where(few, known, above) + REST_ERROR


def _divergence_term(y: Array) -> Array:
    """Evaluate (1 + y)·ln(1 + y) − y for y ≥ −1, by its series near 0."""
    near = np.abs(y) < SERIES_RADIUS
    small = np.where(near, y, 0.0)
    series = np.zeros_like(small)
    for k in range(SERIES_TERMS, -1, -1):
        series = 1 / ((k + 1) * (k + 2)) - small * series
    large = np.where(near | (y <= -1), 1.0, y)
    direct = np.where(y <= -1, 1.0, (1 + large) * np.log1p(large) - large)
    return np.where(near, small * small * series, direct)


def _from_mean(trials: Array, count: Array, success: float) -> Array:
    """count − trials·success with one rounding error of the difference: the product is exact (Dekker, 1971)."""
    product = trials * success
    head = SPLIT * success
    head -= head - success
    tail = success - head
    high = SPLIT * trials
    high = high - (high - trials)
    low = trials - high
    rest = ((high * head - product) + high * tail + low * head) + low * tail
    result: Array = (count - product) - rest
    return result


def divergence(trials: Array, count: Array, success: float) -> Array:
    """Return Chernoff's exponent: the number of trials times the Kullback-Leibler divergence of count/trials from `success`."""
    from_mean = _from_mean(trials, count, success)
    mean, other = trials * success, trials * (1 - success)
    above = _divergence_term(np.maximum(from_mean / mean, -1.0))
    total: Array = mean * above + other * _divergence_term(np.maximum(-from_mean / other, -1.0))
    return total


def probability(trials: Array, count: Array, success: float) -> Array:
    """Bound P(S = count) from above, S the successes of `trials` ≥ 0 trials, for a count in [0, trials]."""
    failure = 1 - success
    log_success = math.log(success) if success < 0.5 else math.log1p(-failure)
    log_failure = math.log(failure) if failure < 0.5 else math.log1p(-success)
    inside = (count > 0) & (count < trials)
    n, k = np.where(inside, trials, 2.0), np.where(inside, count, 1.0)
    rest = n - k
    rests = _stirling_rest(n)[1] - _stirling_rest(k)[0] - _stirling_rest(rest)[0]
    between = rests - divergence(n, k, success) + 0.5 * np.log(n / rest / (2 * math.pi * k))
    ends = trials * np.where(count > 0, log_success, log_failure)
    bound: Array = np.exp(np.where(inside, between, ends)) * (1 + RESERVE) + LEAST
    return np.minimum(bound, 1.0)


def fair_tail_ratio(trials: Array, count: Array, terms: int) -> Array:
    """Bound P(S ≥ count)/P(S = count) from below, S the successes of fair trials, for (trials + 1)/2 ≤ count ≤ trials.

    The continued fraction of the incomplete beta function with positive terms: cut off after an odd number of them, it is too small.

    Source: DiDonato & Morris (1992), Equation 9.
    """
    terms += 1 - terms % 2
    rest = trials - count + 1
    lead = (2 * count - trials + 1) / 2
    tail = np.zeros_like(count)
    for k in range(terms, 0, -1):
        left = np.maximum(rest - k, 0.0)
        side = count + 2 * k
        numerator = (count + (k - 1)) / (side - 1) * ((trials + k) / (side - 1)) * (left * (k / 4))
        denominator = k + left * (k / 2) / (side - 1) + (count + k) * (lead + 1.5 * k) / (side + 1)
        tail = numerator / (denominator + tail)
    ratio: Array = count / 2 / (count * lead / (count + 1) + tail)
    return ratio * (1 - (terms + 4) * 2.0**-49)
