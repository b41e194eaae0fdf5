"""The exponential mechanism with the Kolmogorov-Smirnov distance, sampled exactly."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._exact.sampling import FIRST_PRECISION, Uniform
from dpcore._validation import check_positive, check_threads
from dpcore.distributions._base import check_draws
from dpcore.distributions._boxes import Bounds, Box
from dpcore.distributions._cells import Cells
from dpcore.distributions._choices import Uniforms
from dpcore.distributions._ks_levels import Progress, draw_counts
from dpcore.distributions._records import check_records
from dpcore.distributions._results import DrawsRelease
from dpcore.distributions._simultaneous import ScoreLink
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

MOST_ENTRIES = 2**24
"""Largest bins·(k + 1): entries of the table of a band."""
MOST_PRODUCTS = 2**36
"""Largest bins·(k + 1)²: twice what a table of all sequences takes, ten seconds or so."""
MOST_BINS = 2**17


def ks_exponential(
    records: npt.ArrayLike,
    epsilon: float,
    bounds: Bounds,
    *,
    draws: int,
    bins: int,
    progress: Progress | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> DrawsRelease:
    r"""Release k draws whose distribution function is likely near that of the data, in Kolmogorov-Smirnov distance.

    Parameters
    ----------
    records : array_like, shape (n,) or (n, 1)
        n ≥ 1 real records. Those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε of all draws together, positive and finite.
    bounds : (low, high)
        Where records lie. Do not choose them by looking at the data.
    draws : int
        Number k of draws, ≥ 1, with bins·(k + 1) ≤ 2^24 and bins·(k + 1)² ≤ 2^36. Theorem 5.4 takes k of the order n^(2/3).
    bins : int
        Number m of bins of equal width, in [1, 2^17]. The distance is the largest one at their ends.
    progress : callable, optional
        Called as ``progress(done, total)`` after each table of paths, with the number of tables filled so far and an estimate of their
        total; done = total at the end. Like the running time, the numbers depend on the data.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads that count the records; None chooses.

    Returns
    -------
    DrawsRelease
        The draws; its `cdf` is their empirical distribution function.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, the table is too large, or records have two coordinates or more.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy. With the score s(x, z) = ⌈n·max_i \|F_x(b_i) − F_z(b_i)\|⌉ at the right ends b_i of the bins, k bins
    are drawn with probability proportional to e^(−ε·s/2), exactly, and each draw lies uniformly in its bin. Replacing a record moves F_x
    by at most 1/n everywhere, so n·max\|F_x − F_z\| by at most 1, and s by at most 1.
    The draw is exact and uses no Markov chain: a level of the score is drawn first, then a path of counts inside its band
    (docs/exactness-ks.md). Rejection takes two trials or fewer on average. **The numbers of trials and of bands depend on the data, and so
    does the running time** (docs/threat-model.md).
    Cost: one pass over the data; then up to a few hundred tables of Σ w_i·w_{i−1} products, where w_i ≤ k + 1 is the width of a band at
    bin i. With n = 10^4 and k = m = 200 that is at most half a second, with k = m = 1,000 some seconds. In fewer than one of 2·10^6 calls
    at k = m = 200, and one of 10^3 at the largest sizes, floats leave a choice open. A table of integers then decides it, which takes
    seconds at the former size and hours at the largest.

    References
    ----------
    Wasserman & Zhou (2010), Section 5.1 and Lemma 5.1; McSherry & Talwar (2007).

    Examples
    --------
    >>> import numpy as np
    >>> release = ks_exponential(np.linspace(0, 0.5, 10_000), epsilon=1.0, bounds=(0, 1), draws=100, bins=50)
    >>> release.draws.shape, bool(release.cdf(0.6) > 0.9)
    ((100,), True)
    """
    array = check_records(records)
    if array.ndim == 2 and array.shape[1] != 1:
        raise ParameterError(
            f"records must have one coordinate, as distribution functions are compared on the line, got shape {array.shape}: take a "
            "histogram for more"
        )
    check_threads(threads)
    epsilon, k = check_positive("epsilon", epsilon), check_draws(draws, low=1)
    cells = Cells.of(bins, Box.of(bounds, 1))
    _check_size(cells.m, k)
    stream = resolve(rng)
    counts = draw_counts(cells.counts(array, threads=threads), epsilon, k, stream, progress=progress)[0]
    codes = np.repeat(np.arange(cells.m), counts)[permutation(k, stream)]
    return DrawsRelease(Privacy(epsilon), len(array), cells.box, cells.places(codes, rng=stream), cells, link=ScoreLink(epsilon))


def _check_size(m: int, k: int) -> None:
    """Raise where exact draws would take too long; only public numbers are used."""
    if m > MOST_BINS:
        raise ParameterError(f"bins must be in [1, 2^17], got {m}")
    if m * (k + 1) > MOST_ENTRIES or m * (k + 1) ** 2 > MOST_PRODUCTS:
        raise ParameterError(
            f"bins·(draws + 1) must be at most 2^24 and bins·(draws + 1)² at most 2^36, got bins={m} and draws={k}: take fewer of either"
        )


def permutation(k: int, stream: Stream) -> npt.NDArray[np.int64]:
    """A uniformly random order of 0 … k − 1: that of k uniform numbers, which more bits decide where the first 64 are equal."""
    uniforms = Uniforms(stream)
    words = uniforms.words(k)
    order = np.argsort(words)
    ranked = words[order]
    if np.any(ranked[1:] == ranked[:-1]):
        numbers = [uniforms[i] for i in range(k)]

        def by_number(i: int, j: int) -> int:
            return _compare(numbers[i], numbers[j])

        order = np.array(sorted(range(k), key=cmp_to_key(by_number)), np.int64)
    return order


def _compare(a: Uniform, b: Uniform) -> int:
    """−1 or 1 as a < b or a > b; almost surely they differ. 0 for the same number."""
    precision = FIRST_PRECISION
    while a is not b:
        u, v = a.at(precision), b.at(precision)
        if u.at_most(v):
            return -1
        if v.at_most(u):
            return 1
        precision *= 2
    return 0
