"""Exponential mechanisms for densities: records whose cosine series is near that of the data, and any density.

The latter is Eq. 2 of Wasserman & Zhou (2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from dpcore import _backend, selection
from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import Interval, fraction_up
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real, check_sensitivity, check_threads
from dpcore.distributions._boxes import Bounds, Box, Reals
from dpcore.distributions._choices import unit_floats
from dpcore.distributions._rejection import Progress, Trials, check_trials, first_accepted, refuse_long
from dpcore.distributions._results import empirical_cdf
from dpcore.distributions._series_distance import SeriesDistance
from dpcore.distributions._tilted_draws import tilt_of, tilted_trials
from dpcore.distributions.series import SeriesRelease, check_line, check_terms, cosine_totals
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

Score = Callable[[Reals], npt.ArrayLike]

MOST_COSINES = 2**24
"""Cosines of one candidate."""
MOST_DRAWS = 2**22
"""So that a sum of rounded cosines, each below 2^40.5, fits into an int64 wherever the draws are."""


@dataclass(frozen=True, slots=True, eq=False)
class SeriesDrawsRelease(SeriesRelease):
    """A release that consists of k draws, chosen by their cosine series.

    Attributes
    ----------
    privacy : Privacy
        Guarantee of all draws together.
    n : int
        Number of records it was made from.
    box : Box
        Bounds of the records.
    coefficients : ndarray of float64, shape (m_k,)
        β̂*_j = Σ_i √2 cos(πj Z_i)/k of the draws; read-only. The density is p̂* = 1 + Σ β̂*_j √2 cos(πju), cut at 0 and renormalised.
    draws : ndarray of float64, shape (k,)
        The draws; read-only.

    Notes
    -----
    `sample` and `density` are those of the series, `cdf` is the empirical distribution function of the draws.
    """

    def _scale(self) -> float:
        raise ParameterError(
            "coefficients must have noise of a known law for intervals and bands; those of draws by l2_exponential have none"
        )

    def _cdf(self, rows: Reals) -> Reals:
        if self.draws is None:
            raise ParameterError("draws must be the draws that the release consists of, got None")
        return empirical_cdf(self.draws, rows)


def l2_exponential(
    records: npt.ArrayLike,
    epsilon: float,
    bounds: Bounds,
    *,
    draws: int,
    terms: int,
    draw_terms: int | None = None,
    max_trials: int = 10**6,
    progress: Progress | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> SeriesDrawsRelease:
    r"""Release k draws whose cosine series is likely near that of the data in L₂: the exponential mechanism, sampled exactly.

    Parameters
    ----------
    records : array_like, shape (n,) or (n, 1)
        n ≥ 1 real numbers. Those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε, positive and finite.
    bounds : (low, high)
        Interval of the records. Do not choose it by looking at the data.
    draws : int
        Number k of draws, in [1, 2^22], with draws·draw_terms ≤ 2^24. The rate of Theorem 6.2 needs the order of √n.
    terms : int
        Number m of coefficients of the data, in [1, 65536].
    draw_terms : int, optional
        Number m_k of coefficients of the draws; None is `terms`. For smoothness γ, Theorem 6.2 has m = n^(1/(2γ+1)) and m_k = k^(1/(2γ+1)).
    max_trials : int, default 10**6
        Refuse parameters for which a bound and an estimate of the expected number of trials both exceed this, in [1, 10^12].
    progress : callable, optional
        Called as ``progress(done, total)`` after each batch of trials, with the number of trials so far and the least of the bound and
        the estimate, or more if that is passed; done = total at the end. Like the running time, the numbers depend on the data.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    SeriesDrawsRelease
        The draws; its density is their series p̂*, cut at 0 and renormalised, its cdf the empirical one.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or exact sampling could take more than `max_trials` trials, by the
        notes. The refusal does not depend on the data.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Law: Z in [0, 1]^k, on multiples of 2^-53, has density ∝ exp(−ε·ξ/(2Δ)) with respect to the uniform law, with ξ = ‖p̂ − p̂*‖₂ and
    Δ = D/n, where D is the supremum of ‖ψ(x) − ψ(y)‖₂ for ψ_j(x) = √2·cos(πjx), j ≤ m, each rounded towards zero to a multiple of 2^-40:
    2.83, 3.21, 4.00, 4.24 at m = 1, 2, 3, 4, and 2√m for large m. Then Z is mapped to the bounds.
    Guarantee: P(Z ∈ A | x) ≤ e^ε·P(Z ∈ A | x') for data sets that differ by the value of one record: they move the coefficients by at
    most D/n, and so ξ (Parseval). The paper prints exp(−ε·ξ/Δ), without the 2; its loss can reach 2ε at this Δ, and 1.41ε at m = 1 with
    the paper's larger Δ = 2c₀²m/n.
    Sampling: k draws with density ∝ e^(θ·ψ(z)) each, accepted together with the probability that makes the law exact for every θ; θ is
    chosen so that they come near the data. The sampler never stops early. With a = εn/(2D), the expected number of trials is at most
    exp(a·√(2m + m_k/k)) for every data set. An estimate is 1 + (4πa²/k)^(m_k/2)/(\|S\|·(m_k − 1)!), with the surface \|S\| of the unit
    sphere in m_k dimensions, for k ≥ 2m_k + 2 and m_k ≤ 8; it is above what all data sets took that were tried, and is not proved.
    **The number of trials depends on the data, and so does the running time**: an observer who can time a call learns more than ε covers.
    Cost: n·m cosines once, k·m_k for each trial: 10^6 trials of 50 cosines take seconds. 9,000 records, k = 95 and m_k = 2 take 0.04 s
    for even data and 0.005 s for others.

    References
    ----------
    Wasserman & Zhou (2010), Eq. 15 to 17, Lemma 6.1 and Theorem 6.2; McSherry & Talwar (2007).

    Examples
    --------
    >>> import numpy as np
    >>> incomes = np.array([1.1, 1.9, 2.3, 2.4, 3.8, 2.2, 1.7, 2.0, 2.8, 3.1])
    >>> released = l2_exponential(incomes, epsilon=1.0, bounds=(0, 10), draws=3, terms=2)
    >>> released.draws.shape, released.cdf(10.0), released.privacy.epsilon
    ((3,), 1.0, 1.0)
    """
    epsilon = check_positive("epsilon", epsilon)
    terms = check_terms("terms", terms)
    draw_terms = terms if draw_terms is None else check_terms("draw_terms", draw_terms)
    k = check_integer("draws", draws, low=1, high=min(MOST_DRAWS, MOST_COSINES // draw_terms))
    max_trials = check_trials(max_trials)
    check_threads(threads)
    data, box = check_line(records, bounds)
    public = SeriesDistance((0,) * terms, len(data), k, draw_terms, epsilon)
    _refuse_long(public, max_trials)
    distance = SeriesDistance(cosine_totals(data, box, terms, threads=threads), len(data), k, draw_terms, epsilon)
    stream, tilt = resolve(rng), tilt_of(distance)
    expected = math.ceil(math.exp(min(public.mean_rate() * epsilon * len(data), public.log_trials())))
    unit = first_accepted(
        lambda size: tilted_trials(distance, tilt, size, stream),
        k * max(terms, draw_terms),
        rng=stream,
        progress=progress,
        expected=expected,
    )
    coefficients = _backend.rounded_cosines(unit, draw_terms).sum(axis=0) * (_backend.COSINE_GRID / k)
    return SeriesDrawsRelease(Privacy(epsilon), len(data), box, coefficients, box.from_unit(unit[:, None]))


def _refuse_long(public: SeriesDistance, max_trials: int) -> None:
    """Raise if some data set could take more than `max_trials` trials on average; only public numbers are used."""
    most = public.most_records(max_trials)
    if not public.epsilon * public.n <= most:
        raise ParameterError(
            f"epsilon·n must be at most {most:.4g} for exact sampling at terms={len(public.totals)}, draw_terms={public.draw_terms} and "
            f"draws={public.k}, got epsilon={public.epsilon!r} and n={public.n}: take a smaller epsilon or fewer records, or raise "
            f"max_trials, which is {max_trials}"
        )


@overload
def exponential_density(
    score: Score | npt.ArrayLike,
    epsilon: float,
    sensitivity: float,
    *,
    candidates: npt.ArrayLike,
    bounds: None = ...,
    largest: None = ...,
    max_trials: int = ...,
    progress: Progress | None = ...,
    rng: Stream | None = ...,
    threads: int | None = ...,
) -> float | int | npt.NDArray[Any]: ...
@overload
def exponential_density(
    score: Score,
    epsilon: float,
    sensitivity: float,
    *,
    candidates: None = ...,
    bounds: Bounds,
    largest: float,
    max_trials: int = ...,
    progress: Progress | None = ...,
    rng: Stream | None = ...,
    threads: int | None = ...,
) -> float | Reals: ...
def exponential_density(
    score: Score | npt.ArrayLike,
    epsilon: float,
    sensitivity: float,
    *,
    candidates: npt.ArrayLike | None = None,
    bounds: Bounds | None = None,
    largest: float | None = None,
    max_trials: int = 10**6,
    progress: Progress | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> float | int | npt.NDArray[Any]:
    r"""Release one candidate z from the density ∝ exp(−ε·ξ(z)/(2Δ)), for a score ξ of your own: the smaller, the better.

    Parameters
    ----------
    score : callable, or array_like of shape (m,)
        ξ(x, ·) for these data: takes candidates (t,) or (t, r) and gives t finite numbers; or the scores of `candidates`.
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        Δ = ``max |ξ(x, z) − ξ(x', z)|`` over z and data sets x, x' that differ by the value of one record, *for the floats that `score`
        computes*: positive and finite. Add a bound of the rounding errors.
    candidates : array_like, shape (m,) or (m, r), optional
        A finite set of candidates, chosen without looking at the data. Give either `candidates` or `bounds`.
    bounds : (low, high), optional
        A box of candidates: each a number, or a sequence of r numbers for candidates of r coordinates.
    largest : float, optional
        For a box: upper end of the range [0, largest] of the score, in [2^-900, 2^900]. Scores are clamped to it. Do not choose it by
        looking at the data.
    max_trials : int, default 10**6
        For a box: refuse parameters whose expected number of trials could exceed this, in [1, 10^12].
    progress : callable, optional
        For a box: called as ``progress(done, total)`` after each batch of trials, with the number of trials so far and the bound of their
        expected number, or more if that is passed; done = total at the end. Like the running time, the numbers depend on the data.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads, for a finite set; None chooses.

    Returns
    -------
    float or ndarray
        The chosen candidate: one entry, or row, of `candidates`; a float or an (r,) array for a box.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or not exactly one of `candidates` and `bounds` is given; for a box also
        if ε·largest/(2Δ) > ln(max_trials).
    DataError
        If a score is NaN, or infinite for a finite set; the message has the candidate's index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: P(M(x) ∈ A) ≤ e^ε·P(M(x') ∈ A) for neighbours x, x' (Wasserman & Zhou, 2010, Theorem 2.5): a factor e^(ε/2) from the
    numerator, and one from the normalising constant. For a finite set this calls `dpcore.selection.exponential_mechanism` on −ξ. A box is
    sampled by exact rejection from uniform points, multiples of 2^-53 of its sides; each is accepted with probability exp(−ε·ξ/(2Δ)), and
    that decision is exact.
    **The number of trials in a box depends on the scores, and so does the running time**: an observer who can time a call learns more
    than ε covers.
    Cost: one evaluation a candidate; for a box at most e^(ε·largest/(2Δ)) expected trials, in batches.

    References
    ----------
    Wasserman & Zhou (2010), Eq. 1 and 2, Sections 5 and 5.2; McSherry & Talwar (2007).

    Examples
    --------
    Section 5.2, the mean of n records in [0, 1]^r: ξ = ‖x̄ − z‖². The paper has Δ ≤ r/n and prints exp(−n‖x̄ − z‖²/(2ε)); the
    sensitivity is Δ = r·(2/n − 1/n²), from x̄ = 1 against 1 − 1/n at z = 0. Here r = 2, and 2^-48 covers the rounding:

    >>> import numpy as np
    >>> from dpcore import sums
    >>> x = np.array([[0.2, 0.9], [0.3, 0.7], [0.1, 0.8], [0.2, 0.6]])
    >>> n, r = x.shape
    >>> mean = sums.clamped_sum(x, 0.0, 1.0).high / n
    >>> released = exponential_density(
    ...     lambda z: ((z - mean) ** 2).sum(axis=1), epsilon=1.0, sensitivity=r * (2 / n - 1 / n**2) + 2**-48,
    ...     bounds=([0] * r, [1] * r), largest=r,
    ... )
    >>> released.shape
    (2,)
    """
    epsilon, sensitivity = check_positive("epsilon", epsilon), check_sensitivity(sensitivity)
    check_threads(threads)
    if (candidates is None) == (bounds is None):
        raise ParameterError("exponential_density must have either candidates, a finite set, or bounds, a box, and not both")
    if candidates is not None:
        if largest is not None:
            raise ParameterError(f"largest must be None for a finite set of candidates, got {largest!r}: only a box needs it")
        rows = _check_candidates(candidates)
        index = selection.exponential_mechanism(_losses(score, rows), epsilon, sensitivity, rng=rng, threads=threads)
        chosen: float | int = rows[index].item() if rows.ndim == 1 else rows[index].copy()
        return chosen
    if largest is None or not callable(score):
        raise ParameterError("score must be callable and largest its public upper bound for a box of candidates")
    largest = check_real("largest", largest, low=2.0**-900, high=2.0**900)
    box = Box.of(bounds)  # type: ignore[arg-type]
    rate = Fraction(epsilon) / (2 * Fraction(sensitivity))
    refuse_long(
        fraction_up(rate * Fraction(largest)),
        check_trials(max_trials),
        f"epsilon·largest/(2·sensitivity) must be at most ln(max_trials) for exact sampling, got epsilon={epsilon!r}, largest={largest!r} "
        f"and sensitivity={sensitivity!r}: take a smaller epsilon or raise max_trials",
    )
    bounded = BoundedScore(score, box, largest, rate)
    stream = resolve(rng)
    expected = math.ceil(math.exp(float(rate * Fraction(largest))))
    draw = partial(bounded.trials, rng=stream)
    place = first_accepted(draw, box.dimension, rng=stream, progress=progress, expected=expected)
    points = box.from_unit(place[None, :])
    return float(points[0]) if box.dimension == 1 else points[0]


@dataclass(frozen=True, slots=True)
class BoundedScore:
    """A score on a box, clamped to [0, largest], and the rate ε/(2Δ) of the density's exponent."""

    score: Score
    box: Box
    largest: float
    rate: Fraction

    def trials(self, size: int, rng: Stream | None) -> Trials:
        """Uniform points of [0, 1)^r with the exponents rate·ξ of their places in the box."""
        places = unit_floats((size, self.box.dimension), rng=rng)
        scores = np.clip(_check_scores(self.score(self.box.from_unit(places)), size), 0.0, self.largest)

        def exact(index: int) -> Callable[[int], Interval]:
            exponent = self.rate * Fraction(float(scores[index]))
            return lambda precision: Interval.of(exponent, precision)

        rate = float(self.rate)
        return Trials(places, rate * scores, rate * self.largest * 2.0**-50, exact)


def _check_candidates(candidates: npt.ArrayLike) -> npt.NDArray[Any]:
    rows = check_array("candidates", candidates, REAL_DTYPES)
    if rows.ndim not in {1, 2} or len(rows) == 0:
        raise ParameterError(f"candidates must have shape (m,) or (m, r) with m ≥ 1, got {rows.shape}")
    return rows


def _losses(score: Score | npt.ArrayLike, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """−ξ of finite candidates, or −ξ − 1 of integers: of what selection takes, the larger is the better, and only differences matter."""
    given = check_array("score", score(rows) if callable(score) else score, REAL_DTYPES)
    if given.shape != (len(rows),):
        raise ParameterError(f"score must give one number for each of {len(rows)} candidates, got shape {given.shape}")
    # −ξ would leave int64 for the least one, and the best candidate of one data set would be the worst one of its neighbour
    return ~given.astype(np.int64) if given.dtype.kind in "iu" else -given.astype(np.float64)


def _check_scores(scores: npt.ArrayLike, size: int) -> Reals:
    """Scores of candidates in a box as float64, none of them NaN."""
    array = check_array("score", scores, REAL_DTYPES).astype(np.float64)
    if array.shape != (size,):
        raise ParameterTypeError(f"score must give one number for each of {size} candidates, got shape {array.shape}")
    bad = np.flatnonzero(np.isnan(array))
    if len(bad):
        raise DataError(f"score must not be NaN; that of candidate {int(bad[0])} of a batch is")
    return array
