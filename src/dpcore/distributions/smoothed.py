"""Draws from a smoothed histogram (Wasserman & Zhou, 2010, Section 4.1)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy.typing as npt

from dpcore._exact.intervals import fraction_up
from dpcore._validation import check_integer, check_positive, check_real
from dpcore.distributions._base import check_draws
from dpcore.distributions._boxes import Bounds
from dpcore.distributions._cells import Bins, cells_of_records
from dpcore.distributions._results import DrawsRelease
from dpcore.distributions._simultaneous import SmoothedLink
from dpcore.distributions._thresholds import exp_at_least, growth_below
from dpcore.distributions._urn import Codes, mixed_codes, record_codes, uniform_integers
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream


def smoothed_histogram(
    records: npt.ArrayLike,
    epsilon: float,
    bounds: Bounds,
    *,
    draws: int,
    bins: Bins,
    smoothing: float | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> DrawsRelease:
    r"""Release k independent draws from a histogram that is mixed with the uniform density: (1 − δ)·f̂_m + δ.

    Parameters
    ----------
    records : array_like, shape (n,) or (n, r)
        n ≥ 1 real records. Those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε of all draws together, positive and finite.
    bounds : (low, high)
        Where records lie: each a number, or a sequence of r numbers. Do not choose them by looking at the data.
    draws : int
        Number k of draws, ≥ 1.
    bins : int or sequence of int
        Number m of cells, an r-th power; or the number of bins on each axis.
    smoothing : float, optional
        Weight δ of the uniform density, in (0, 1]. None is the least that is private, `least_smoothing`.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    DrawsRelease
        The draws; its density is the histogram of the draws on the same cells.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or k·ln((1 − δ)m/(nδ) + 1) > ε.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy if and only if k·ln((1 − δ)m/(nδ) + 1) ≤ ε (for m ≥ 2), which is decided in interval arithmetic. A
    draw has cell j with probability (1 − δ)C_j/n + δ/m exactly, and lies uniformly in it. The histogram itself is not kept.
    Cost: one pass over the data, and a few numbers for each draw.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> release = smoothed_histogram(np.linspace(0, 1, 10_000), epsilon=1.0, bounds=(0, 1), draws=100, bins=10)
    >>> release.draws.shape, release.privacy.epsilon
    ((100,), 1.0)
    """
    array, cells, rng = cells_of_records(records, bounds, bins, rng, threads)
    epsilon, k, n = check_positive("epsilon", epsilon), check_draws(draws, low=1), len(array)
    delta = _check_smoothing(smoothing, epsilon, k, cells.m, n)
    counts = cells.counts(array, threads=threads)
    codes = smoothed_codes(counts, k, delta, rng=rng)
    return DrawsRelease(Privacy(epsilon), n, cells.box, cells.places(codes, rng=rng), cells, link=SmoothedLink(delta))


def smoothed_codes(counts: Codes, draws: int, smoothing: float, *, rng: Stream | None = None) -> Codes:
    """Cells of k draws from a smoothed histogram: j with probability (1 − δ)·counts[j]/n + δ/m exactly, for δ in (0, 1].

    Parameters
    ----------
    counts : ndarray of int64, shape (m,)
        Records in each cell, not all 0.
    draws : int
        Number k of draws.
    smoothing : float
        Weight δ. The caller must check that it is private.
    rng : Stream, optional
        Source of randomness; None is the secure source.

    Returns
    -------
    ndarray of int64, shape (draws,)
        Numbers of cells.
    """
    rng = resolve(rng)
    weight, whole = Fraction(smoothing).as_integer_ratio()
    parts = (partial(record_codes, counts, rng=rng), partial(uniform_integers, len(counts), rng=rng))
    return mixed_codes((whole - weight, weight), parts, draws, rng=rng)


def least_smoothing(epsilon: float, *, draws: int, bins: int, n: int) -> float:
    """Return the least δ for which k draws of a smoothed histogram are ε-private, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    draws : int
        Number k of draws, ≥ 1.
    bins : int
        Number m of cells, ≥ 1.
    n : int
        Number of records, ≥ 1.

    Returns
    -------
    float
        δ = m/(m + n·(e^(ε/k) − 1)), rounded up: k·ln((1 − δ)m/(nδ) + 1) ≤ ε holds for the float64 number.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: one exponential in interval arithmetic, some microseconds.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.1.

    Examples
    --------
    >>> round(least_smoothing(1.0, draws=100, bins=10, n=10_000), 4)
    0.0905
    """
    epsilon, k = check_positive("epsilon", epsilon), check_draws(draws, low=1)
    m, n = check_integer("bins", bins, low=1), check_integer("n", n, low=1)
    growth = growth_below(Fraction(epsilon) / k)
    return min(1.0, fraction_up(m / (m + n * growth)))


def _check_smoothing(smoothing: object, epsilon: float, k: int, m: int, n: int) -> float:
    """Return δ if it is private, the least one for None; else raise."""
    if smoothing is None:
        return least_smoothing(epsilon, draws=k, bins=m, n=n)
    delta = check_real("smoothing", smoothing, low=0.0, high=1.0, include_low=False)
    exact = Fraction(delta)
    if not exp_at_least(Fraction(epsilon) / k, 1 + (1 - exact) * m / (n * exact)):
        least = least_smoothing(epsilon, draws=k, bins=m, n=n)
        raise ParameterError(
            f"smoothing must be in [{least!r}, 1.0], so that k·ln((1 − smoothing)·m/(n·smoothing) + 1) ≤ epsilon, for "
            f"epsilon={epsilon!r}, k = {k} draws, m = {m} cells and n = {n} records; got {delta!r}"
        )
    return delta
