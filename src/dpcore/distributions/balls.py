"""Probabilities that an empirical distribution function stays near its own, and the accuracy of `ks_exponential` that follows from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpcore._validation import check_integer, check_positive, check_real
from dpcore.distributions._bands import Sums
from dpcore.distributions._choices import unit_floats
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

MOST_DRAWS = 2**20
_BLOCK = 1 << 20
"""Numbers simulated together."""


def small_ball_probability(
    radius: float, *, draws: int, bins: int | None = None, runs: int | None = None, rng: Stream | None = None
) -> float:
    r"""Return R(k, ε) = P(sup_x \|F(x) − F_k(x)\| ≤ ε), F_k the empirical distribution function of k draws from F.

    Parameters
    ----------
    radius : float
        ε of the ball, ≥ 0.
    draws : int
        Number k of draws, in [1, 2^20].
    bins : int, optional
        The supremum is over the ends of this many bins that are equally likely under F. None is the whole line, for a continuous F.
    runs : int, optional
        Number of simulated samples; None computes the probability instead.
    rng : Stream, optional
        Source of randomness for simulations; None is the secure source.

    Returns
    -------
    float
        The probability; with `runs` the share of the simulated samples, whose standard error is √(R(1 − R)/runs).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    The probability is the same for every continuous F. With bins, distances are multiples of 1/(k·bins), and a distance that equals ε up
    to rounding counts as inside. Without bins `scipy.stats.kstwo` computes it; with bins the table of paths inside a band that the sampler
    of `ks_exponential` uses, to a relative 10^-8 or better.
    Guarantee: none is needed, as no data are read.
    Cost: with bins, a table of at most bins·(k + 1) entries; with `runs`, k random numbers a sample.

    References
    ----------
    Wasserman & Zhou (2010), Definition 5.2. Simard & L'Ecuyer (2011), for the whole line.

    Examples
    --------
    >>> small_ball_probability(0.75, draws=1)
    0.5
    >>> round(small_ball_probability(0.0, draws=2, bins=2), 12)
    0.5
    """
    k = check_integer("draws", draws, low=1, high=MOST_DRAWS)
    radius = check_real("radius", radius, low=0.0, high=math.inf)
    if bins is not None:
        bins = check_integer("bins", bins, low=1, high=2**24 // (k + 1))
    if runs is not None:
        return _simulated_ball(k, min(radius, 1.0), bins, check_integer("runs", runs, low=1), rng)
    if radius >= 1:
        return 1.0
    if bins is None:
        return float(stats.kstwo.cdf(radius, k))
    band = Sums.of(np.ones(bins, np.int64), k).within(_reach(k, radius, bins))
    return min(1.0, math.exp(band.log2_weight * math.log(2) + math.lgamma(k + 1) - k * math.log(bins)))


def _reach(k: int, radius: float, bins: int) -> int:
    """The largest integer |bins·C − k·i| inside the ball; one that is equal to it but for rounding of the radius is inside."""
    return math.floor(Fraction(radius) * (1 + Fraction(1, 2**50)) * k * bins)


def _simulated_ball(k: int, radius: float, bins: int | None, runs: int, rng: Stream | None) -> float:
    inside, block, stream = 0, max(1, _BLOCK // max(k, bins or 1)), resolve(rng)
    for start in range(0, runs, block):
        u = unit_floats((min(block, runs - start), k), rng=stream)
        if bins is None:
            u.sort(axis=1)
            steps = np.arange(k + 1) / k
            distances = np.maximum(steps[1:] - u, u - steps[:-1]).max(axis=1)
        else:
            codes = (u * bins).astype(np.int64) + bins * np.arange(len(u))[:, None]
            sums = np.bincount(codes.ravel(), minlength=bins * len(u)).reshape(len(u), bins).cumsum(axis=1)
            distances = np.abs(bins * sums - k * np.arange(1, bins + 1)).max(axis=1)
        inside += int(np.count_nonzero(distances <= (radius if bins is None else _reach(k, radius, bins))))
    return inside / runs


def ks_accuracy_bound(epsilon: float, radius: float, *, n: int, draws: int, largest_density: float, bins: int | None = None) -> float:
    r"""Bound P(sup_x \|F(x) − F_Z(x)\| > r) for k draws Z of `ks_exponential` from n records of a distribution with a bounded density.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    radius : float
        Distance r, in (0, 1].
    n : int
        Number of records, ≥ 1.
    draws : int
        Number k of draws, in [1, 2^20].
    largest_density : float
        sup p of the density p on [0, 1], ≥ 1.
    bins : int, optional
        Number m of bins. None is the mechanism without bins, as Wasserman & Zhou (2010) state it.

    Returns
    -------
    float
        2e^(−n·r²/128) + (sup p)^k·e^(−3εrn/16)/R(k, r/2), at most 1.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    This is Theorem 5.3 with Δ = 1/n and R = `small_ball_probability`. Its O(n^(−c)) is P(sup\|F − F_n\| > r/16), bounded by the inequality
    of Dvoretzky, Kiefer, Wolfowitz and Massart (1990). With m bins, distances are taken at the ends of bins, where they are within
    (sup p)/m of the supremum, and the score is rounded up to whole records. Hence r becomes r − (sup p)/m, and the second term is
    multiplied by e^(ε/2). docs/exactness-ks.md.
    Theorem 5.4: with k = (3ε/B)^(2/3) n^(2/3)/16 and r = 2(B/3ε)^(1/3) n^(−1/3), B = ln sup p, the bound falls to 0.
    Cost: one call of `scipy.stats.kstwo`.

    References
    ----------
    Wasserman & Zhou (2010), Theorems 5.3 and 5.4.

    Examples
    --------
    >>> ks_accuracy_bound(1.0, 0.05, n=10**6, draws=50, largest_density=2.0) < 0.01
    True
    """
    n, k = check_integer("n", n, low=1), check_integer("draws", draws, low=1, high=MOST_DRAWS)
    epsilon, radius = check_positive("epsilon", epsilon), check_real("radius", radius, low=0.0, high=1.0, include_low=False)
    largest = check_real("largest_density", largest_density, low=1.0, high=math.inf, include_high=False)
    rounding = 0.0
    if bins is not None:
        radius -= largest / check_integer("bins", bins, low=1)
        rounding = epsilon / 2
    inside = small_ball_probability(radius / 2, draws=k) if radius > 0 else 0.0
    if inside <= 0:
        return 1.0
    exponent = k * math.log(largest) - 3 * epsilon * radius * n / 16 + rounding - math.log(inside)
    return min(1.0, 2 * math.exp(-2 * n * (radius / 16) ** 2) + math.exp(min(exponent, 0.0)))
