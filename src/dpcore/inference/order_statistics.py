"""Private quantiles among declared candidates, with intervals of the population's quantiles."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore import selection
from dpcore._dataclasses import dataclass
from dpcore._html import columns_table, guarantee
from dpcore._proportions import quantile_ranks
from dpcore._spread import check_confidence, tail_of
from dpcore._validation import REAL_DTYPES, check_array, check_positive, check_threads
from dpcore.errors import DataError, ParameterError
from dpcore.inference._parameters import check_records
from dpcore.inference._tails import check_target
from dpcore.privacy import Guaranteed, Privacy
from dpcore.rng import resolve
from dpcore.selection._plan import argmax_scale

if TYPE_CHECKING:
    from typing import Literal

    from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

MOST_CANDIDATES, MOST_RECORDS = 2**24, 2**40
SHARES = tuple(i / 16 for i in range(1, 16))
"""Shares of a probability of error that the choice of a candidate may have; the ranks of a quantile have the rest."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class QuantileEstimate(Guaranteed):
    """Private quantiles.

    Attributes
    ----------
    value : float or ndarray of float64, shape (L,)
        The chosen candidate for each level.
    privacy : Privacy
        Guarantee of all that was released, for data sets that differ by the value of one record.
    q : float or ndarray of float64, shape (L,)
        The levels.
    n : int
        Number of records.
    candidates : ndarray of float64, shape (m,)
        The candidates, ascending.
    ranks, chosen : ndarray of int64, shape (P,)
        All that was released: for each rank the index of a candidate that has about so many records at or below it. The first L are those
        of the levels, and the others the ends of intervals.
    scale : float
        Scale of the noise in ranks: 2P/ε, rounded up.
    """

    value: float | Array
    privacy: Privacy
    q: float | Array
    n: int
    candidates: Array
    ranks: Whole
    chosen: Whole
    scale: float

    def rank_error(self, confidence: float = 0.95) -> int:
        """Return how many ranks a chosen candidate is off to one side at most, with this probability.

        Parameters
        ----------
        confidence : float, default 0.95
            The probability, in (0, 1).

        Returns
        -------
        int
            A t such that fewer than r + t records are below the candidate chosen for rank r, and at least r − t at or below it, each with
            probability at least `confidence`.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is not in (0, 1).
        """
        return rank_reach(self.scale, len(self.candidates), tail_of(check_confidence(confidence)))

    def interval(self, confidence: float = 0.95, *, target: Literal["population", "sample"] = "population") -> Array:
        """Return an interval of the quantile at each level.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1): over the noise, and over the records for a population.
        target : {"population", "sample"}, default "population"
            Whether to cover the quantiles of the law of the records, which must be independent, or those of this data set.

        Returns
        -------
        ndarray of float64, shape (2,) or (L, 2)
            Lower and upper ends, candidates that were chosen or their neighbours; −inf or inf where none is certain enough. Ends are
            released for the confidence that the call of `quantiles` stated, so intervals of a higher one may be infinite.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        The q-quantile of a law is not below the l-th least record, but with the probability of Bin(n, q) < l, and not above the u-th, but
        with that of Bin(n, q) ≥ u, for any law, with ties or without (Clopper & Pearson, 1934). The candidate before one that was chosen
        for a rank r ≤ l − t is below the l-th record, but with the probability of an error of more than t ranks.
        """
        tail, target = tail_of(check_confidence(confidence)) / 2, check_target(target)
        levels, values = np.atleast_1d(self.q), np.atleast_1d(self.value)
        ends = np.array([self._ends(float(q), tail, target) for q in levels])
        ends = np.stack([np.minimum(ends[:, 0], values), np.maximum(ends[:, 1], values)], axis=-1)
        return ends if np.ndim(self.q) else ends[0]

    def _ends(self, q: float, tail: float, target: str) -> tuple[float, float]:
        """The ends from the released candidates whose ranks, which are public, are nearest and far enough."""
        low, high = -1, self.n + 2
        for reach, least, most in _splits(self.n, q, self.scale, len(self.candidates), tail, target):
            low = max([low, *(int(r) for r in self.ranks if r + reach <= least)])
            high = min([high, *(int(r) for r in self.ranks if r - reach >= most)])
        ranks, below, above = self.ranks.tolist(), -math.inf, math.inf
        if low in ranks and (index := int(self.chosen[ranks.index(low)])) > 0:
            below = float(self.candidates[index - 1])  # records between two candidates count as at the upper one
        if high in ranks and (index := int(self.chosen[ranks.index(high)])) < len(self.candidates) - 1:
            above = float(self.candidates[index])  # records beyond the last count as at the last
        return below, above

    def _repr_html_(self) -> str:
        ends = self.interval().reshape(-1, 2)
        columns = {
            "level": np.atleast_1d(self.q).tolist(),
            "quantile": np.atleast_1d(self.value).tolist(),
            "from": ends[:, 0].tolist(),
            "to": ends[:, 1].tolist(),
        }
        return columns_table(f"Quantiles of {self.n:,} records and 95 % intervals of the population: {guarantee(self.privacy)}", columns)


def rank_reach(scale: float, m: int, tail: float) -> int:
    """The least t with P(a candidate more than t ranks too high) ≤ tail, and the same too low, by the exponential mechanism.

    One candidate has the utility 0. At most m − 1 have −(t + 1) or less, each with at most x = e^(−(t + 1)/scale) times its probability:
    together at most (m − 1)x/(1 + (m − 1)x).
    """
    if m == 1:
        return 0
    steps = scale * (math.log(m - 1) + math.log1p(-tail) - math.log(tail)) * (1 + 1e-12)
    return max(0, math.ceil(steps) - 1)


@lru_cache(maxsize=1024)
def _splits(n: int, q: float, scale: float, m: int, tail: float, target: str) -> tuple[tuple[int, int, int], ...]:
    """For each share of the tail: the reach of a choice, and the ranks between which the quantile lies."""
    if target == "sample":
        rank = quantile_rank(q, n)
        return ((rank_reach(scale, m, tail), rank, rank),)
    return tuple((rank_reach(scale, m, share * tail), *quantile_ranks(q, n, (1 - share) * tail)) for share in SHARES)


def quantile_rank(q: float, n: int) -> int:
    """⌈qn⌉, the rank of the sample's quantile."""
    return min(max(math.ceil(Fraction(q) * n), 1), n)


def quantiles(
    records: npt.ArrayLike,
    epsilon: float,
    q: npt.ArrayLike,
    *,
    candidates: npt.ArrayLike,
    confidence: float | None = 0.95,
    rng: Stream | None = None,
    threads: int | None = None,
) -> QuantileEstimate:
    r"""Release quantiles, chosen among candidates, and the ends of intervals that cover the population's.

    Parameters
    ----------
    records : array_like, shape (n,)
        n ≥ 1 real numbers; infinities are allowed.
    epsilon : float
        Privacy loss ε of all that is released, positive and finite.
    q : float or array_like of float, shape (L,)
        Levels in (0, 1).
    candidates : array_like of float, shape (m,)
        Finite numbers in ascending order, m ≤ 2^24. Do not choose them by looking at the data. A record counts as at the next candidate
        above it, and as at the last one if there is none.
    confidence : float or None, default 0.95
        The confidence of the intervals, whose ends are released too: 3 numbers a level share ε. None releases no ends.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    QuantileEstimate
        The quantiles; `interval` gives their intervals.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.
    DataError
        If a record is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy. With C(g) records at or below candidate g, and g⁻ the candidate before it, the utility of g for the
    rank r is −max(0, C(g⁻) − (r − 1), r − C(g)), the distance of g from being the r-th least record; one record moves it by at most 1. The
    exponential mechanism chooses with ε/P for each of P ranks: ⌈qn⌉ for a level, and for the ends of its interval the ranks of Clopper and
    Pearson for the quantile, moved outwards by the ranks that a choice may be off. Both shares of 1 − confidence are such that the ranks
    are nearest. All ranks are public.
    Cost: one pass over the data, and P choices among m candidates.

    References
    ----------
    McSherry & Talwar (2007); Clopper & Pearson (1934).

    Examples
    --------
    >>> import numpy as np
    >>> ages = np.random.default_rng(1).gamma(8.0, 5.0, 10_000)
    >>> median = quantiles(ages, 1.0, 0.5, candidates=np.arange(0, 121))
    >>> low, high = median.interval()
    >>> bool(low <= 38.4 <= high), bool(low <= median.value <= high), bool(high - low < 10)
    (True, True, True)
    """
    array = check_records("records", records, 1)
    epsilon = check_positive("epsilon", epsilon)
    levels, points = _check_levels(q), _check_candidates(candidates)
    check_threads(threads)
    n = len(array)
    if n > MOST_RECORDS:
        raise ParameterError(f"records must be at most 2^40, got {n}")
    count = len(levels) * (1 if confidence is None else 3)
    share = _share(epsilon, count)
    scale = argmax_scale(share, 1.0, 1, "replace", monotone=False)
    ranks = [quantile_rank(level, n) for level in levels]
    if confidence is not None:
        tail = tail_of(check_confidence(confidence)) / 2
        for level in levels:
            ranks += _end_ranks(level, n, scale, len(points), tail)
    stream = resolve(rng)
    at_or_below = np.cumsum(_counts(array, points))
    chosen = [selection.exponential_mechanism(_utilities(at_or_below, r), share, 1.0, rng=stream, threads=threads) for r in ranks]
    found = points[chosen[: len(levels)]]
    value: float | Array = found if np.ndim(q) else float(found[0])
    asked: float | Array = np.array(levels) if np.ndim(q) else levels[0]
    return QuantileEstimate(value, Privacy(epsilon), asked, n, points, np.array(ranks, np.int64), np.array(chosen, np.int64), scale)


def _end_ranks(q: float, n: int, scale: float, m: int, tail: float) -> list[int]:
    """Ranks for the ends of an interval: the nearest ones that are certain enough, or the first and the last."""
    splits = _splits(n, q, scale, m, tail, "population")
    low, high = max(least - reach for reach, least, _ in splits), min(most + reach for reach, _, most in splits)
    return [max(low, 1), min(high, n)]


def _utilities(at_or_below: Whole, rank: int) -> Whole:
    """Minus the distance of each candidate from being the record of this rank."""
    before = np.concatenate([[0], at_or_below[:-1]])
    return np.asarray(-np.maximum(0, np.maximum(before - (rank - 1), rank - at_or_below)), np.int64)


def _counts(array: npt.NDArray[np.generic], points: Array) -> Whole:
    """Records at each candidate."""
    counts = np.zeros(len(points), np.int64)
    for start in range(0, len(array), _BLOCK):
        block = array[start : start + _BLOCK].astype(np.float64)
        bad = np.isnan(block)
        if bad.any():
            raise DataError(f"records must not hold NaN; the number at index {start + int(bad.argmax())} is NaN")
        places = np.minimum(np.searchsorted(points, block, side="left"), len(points) - 1)
        counts += np.bincount(places, minlength=len(points))
    return counts


def _share(epsilon: float, parts: int) -> float:
    """ε over a number of parts, rounded down."""
    share = epsilon / parts
    return share if Fraction(share) * parts <= Fraction(epsilon) else math.nextafter(share, 0.0)


def _check_levels(q: npt.ArrayLike) -> list[float]:
    levels = check_array("q", q, REAL_DTYPES).astype(np.float64)
    if levels.ndim > 1 or levels.size == 0 or not ((levels > 0) & (levels < 1)).all():
        raise ParameterError("q must be a level in (0, 1), or a vector of them")
    return [float(level) for level in np.atleast_1d(levels)]


def _check_candidates(candidates: npt.ArrayLike) -> Array:
    points = check_array("candidates", candidates, REAL_DTYPES).astype(np.float64)
    if points.ndim != 1 or not 1 <= len(points) <= MOST_CANDIDATES or not np.isfinite(points).all() or (np.diff(points) <= 0).any():
        raise ParameterError(f"candidates must be 1 to 2^24 finite numbers in ascending order, got shape {points.shape}")
    points.flags.writeable = False
    return points
