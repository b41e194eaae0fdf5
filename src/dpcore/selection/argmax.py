"""Noisy selection: which of many scores is largest, without saying how large any of them is.

Each function adds noise to every score and releases the index of the largest sum, or of the s largest. The sums are compared as real
numbers: two contenders whose floating-point sums are too close are told apart by further random bits, so what is released is the choice of
the ideal mechanism. The noisy scores themselves are never released; `top_s(..., values=True)` draws fresh noise for the numbers it gives.

Sensitivity is Δ = ``max |u_i(x) − u_i(x')|`` over indices i and neighbours x, x': the ℓ∞ sensitivity of the scores. docs/selection.md
compares the functions; docs/exactness-selection.md derives what the kernels rely on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.pending import SelectionNoise
from dpcore._validation import (
    REAL_DTYPES,
    check_array,
    check_choice,
    check_finite,
    check_integer,
    check_positive,
    check_real,
    check_sensitivity,
    check_threads,
)
from dpcore.errors import ParameterError
from dpcore.noise import laplace
from dpcore.privacy import Privacy, Relation
from dpcore.rng import Stream, resolve
from dpcore.selection._plan import METHODS, Method, Request, argmax_scale, check_given_scale, make_plan, spread

__all__ = ["Method", "Noise", "Selection", "exponential_mechanism", "noisy_argmax", "permute_and_flip", "top_s"]

Noise = SelectionNoise
MOST_DRAWS = 2**40


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What `top_s` chose.

    Attributes
    ----------
    indices : ndarray of int64, shape (s,)
        Indices of the chosen scores, in order of selection; for "oneshot_laplace" ascending, as its guarantee covers the set alone.
    values : ndarray of float64, shape (s,), or None
        Fresh noisy values of the chosen, in the same order.
    privacy : Privacy
        Guarantee of indices and values together.
    scale : float
        Scale b of the noise that chose.
    value_scale : float or None
        Scale of the Laplace noise in `values`.
    rule : str
        How the guarantee follows: the rule of composition ("basic", "advanced", "optimal", "zcdp"), or "qiao-su-zhang".
    """

    indices: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64] | None
    privacy: Privacy
    scale: float
    value_scale: float | None
    rule: str


def noisy_argmax(
    scores: npt.ArrayLike,
    epsilon: float,
    sensitivity: float,
    *,
    noise: Noise = "laplace",
    relation: Relation = "replace",
    monotone: bool = False,
    rng: Stream | None = None,
    threads: int | None = None,
) -> int:
    r"""Release the index of the largest score plus noise, and nothing else.

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite scores u, d ≥ 1: floats, or integers up to int64, which enter exactly. Magnitudes beyond 2^1000 are clamped to it.
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the scores, positive and finite.
    noise : {"laplace", "gumbel", "exponential"}, default "laplace"
        "laplace": NoisyArgmax. "gumbel": the exponential mechanism. "exponential": permute-and-flip, never worse than "gumbel".
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All scores move the same way when a record is added (counts, for example): half the noise. Only with ``relation="add_remove"``.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    int
        argmax of u_i + b·N_i with independent N_i of unit scale, b = 2Δ/ε rounded up, or Δ/ε if monotone.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type; ``monotone=True`` under replacement in particular.
    DataError
        If a score is NaN or infinite.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: P(M(x) = i) ≤ e^ε P(M(x') = i) for neighbours x, x' and every i. Ties of scores are broken by the noise.
    Why monotone needs add/remove: Laplace(Δ/ε) at ε = 1 on scores (0, 8) and (1, 7), neighbours under replacement, loses 1.78.
    Cost: one pass, a quarter of a random word a score; O(1) memory. Running time depends on the scores through the few contenders.
    Source: Stemmer (lecture 6), NoisyArgmax, Theorem 7; Wasserman & Zhou (2010) and Private inference (chapter 9), Definition 9.1.5
    ("gumbel"); McKenna & Sheldon (2020) and Ding et al. (2021) ("exponential").

    Examples
    --------
    >>> noisy_argmax([3.0, 1000.0, 5.0], epsilon=1.0, sensitivity=1.0)
    1
    """
    check_choice("noise", noise, tuple(_backend.NOISES))
    array = _check_scores(scores)
    scale = argmax_scale(epsilon, sensitivity, 1, relation, monotone=monotone)
    return _open(noise, array, scale, 1, rng, threads).winner(0)


@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, size: None = ..., relation: Relation = ..., monotone: bool = ...,
    rng: Stream | None = ..., threads: int | None = ...,
) -> int: ...  # fmt: skip
@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, size: int, relation: Relation = ..., monotone: bool = ...,
    rng: Stream | None = ..., threads: int | None = ...,
) -> npt.NDArray[np.int64]: ...  # fmt: skip
def exponential_mechanism(
    scores: npt.ArrayLike,
    epsilon: float,
    sensitivity: float,
    *,
    size: int | None = None,
    relation: Relation = "replace",
    monotone: bool = False,
    rng: Stream | None = None,
    threads: int | None = None,
) -> int | npt.NDArray[np.int64]:
    r"""Draw an index with probability proportional to e^(ε u_i / 2Δ).

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite utilities u, d ≥ 1. Magnitudes beyond 2^1000 are clamped to it.
    epsilon : float
        Privacy loss ε of the whole call, positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the utilities, positive and finite.
    size : int, optional
        k independent draws, with replacement, each with ε/k. None is one draw, returned as an int.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All utilities move the same way when a record is added: P ∝ e^(ε u_i / Δ). Only with ``relation="add_remove"``.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    int, or ndarray of int64 of shape (size,)
        The index drawn, or the indices.

    Raises
    ------
    ParameterError, ParameterTypeError, DataError, EntropyError
        As `noisy_argmax`.

    Notes
    -----
    Guarantee: ε-differential privacy; one draw is ε-bounded-range, hence ε²/8-zCDP.
    Cost: one pass over the scores for a draw, and about a sixth of that for each further one.
    Source: Private inference (chapter 9), Definition 9.1.5; Wasserman & Zhou (2010), Section 3; McSherry & Talwar (2007). Drawn as the
    argmax of u_i + (2Δ/ε)·G_i with Gumbel noise G, which has the same law.

    Examples
    --------
    >>> exponential_mechanism([0.0, 500.0], epsilon=1.0, sensitivity=1.0)
    1
    >>> exponential_mechanism([0.0, 5000.0], epsilon=1.0, sensitivity=1.0, size=3)
    array([1, 1, 1])
    """
    array = _check_scores(scores)
    draws = 1 if size is None else check_integer("size", size, low=1, high=MOST_DRAWS)
    scale = argmax_scale(epsilon, sensitivity, draws, relation, monotone=monotone)
    call = _open("gumbel", array, scale, 1, rng, threads)
    return call.winner(0) if size is None else call.winners(draws)


def permute_and_flip(
    scores: npt.ArrayLike,
    epsilon: float,
    sensitivity: float,
    *,
    relation: Relation = "replace",
    monotone: bool = False,
    rng: Stream | None = None,
    threads: int | None = None,
) -> int:
    r"""Release the index that permute-and-flip chooses: never worse than the exponential mechanism at the same ε.

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite utilities u, d ≥ 1. Magnitudes beyond 2^1000 are clamped to it.
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the utilities, positive and finite.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All utilities move the same way when a record is added: half the noise. Only with ``relation="add_remove"``.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    int
        argmax of u_i + (2Δ/ε)·E_i with independent exponential noise E, which has permute-and-flip's law.

    Raises
    ------
    ParameterError, ParameterTypeError, DataError, EntropyError
        As `noisy_argmax`.

    Notes
    -----
    Guarantee: ε-differential privacy. It is not ε-bounded-range: only ε²/2-zCDP may be claimed.
    Source: McKenna & Sheldon (2020); Ding et al. (2021), for the equality with exponential noise.

    Examples
    --------
    >>> permute_and_flip([0.0, 5000.0], epsilon=1.0, sensitivity=1.0)
    1
    """
    return noisy_argmax(scores, epsilon, sensitivity, noise="exponential", relation=relation, monotone=monotone, rng=rng, threads=threads)


def top_s(
    scores: npt.ArrayLike,
    s: int,
    epsilon: float,
    sensitivity: float,
    *,
    delta: float = 0.0,
    method: Method = "gumbel",
    scale: float | Literal["calibrated"] | None = None,
    values: bool | npt.ArrayLike = False,
    value_share: float = 0.5,
    relation: Relation = "replace",
    monotone: bool = False,
    rng: Stream | None = None,
    threads: int | None = None,
) -> Selection:
    r"""Release the indices of s large scores, and noisy values of the chosen if asked.

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite scores u. Magnitudes beyond 2^1000 are clamped to it.
    s : int
        How many, in [1, d].
    epsilon : float
        Privacy loss ε of the whole call, values included; positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the scores (and of `values`, where they are another array), positive and finite.
    delta : float, default 0.0
        Failure mass δ of the whole call, in [0, 1).
    method : {"gumbel", "peeling", "oneshot_laplace"}, default "gumbel"
        "gumbel": the s largest of u + b·Gumbel, equal in law to s exponential mechanisms that each leave out the winners before.
        "peeling": s rounds of noisy argmax with fresh Laplace(b) on all scores not chosen yet.
        "oneshot_laplace": the s largest of u + Laplace(8Δ√(s ln(d/δ))/ε); only for ε < 0.2 and 0 < δ < 0.05.
    scale : float or "calibrated", optional
        Scale b of the noise, for "gumbel" and "peeling". None: for "peeling" with δ > 0 the formula 2Δ√(3 s ln(1/δ))/ε, checked; else as
        "calibrated": the smallest b that composition allows. A float is checked: refused where composition does not show (ε, δ).
    values : bool or array_like of shape (d,), default False
        True releases the chosen scores plus fresh Laplace noise; an array releases its numbers at the chosen indices instead.
    value_share : float, default 0.5
        Share of each use's ε that goes to the values where their noise is chosen here, in (0, 1). "peeling" and a given `scale` use the
        same b for both.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All scores move the same way when a record is added. Only with ``relation="add_remove"``; not for "oneshot_laplace".
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    Selection
        Indices (in order of selection; ascending for "oneshot_laplace"), values or None, the guarantee, and the scales used.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or the scale cannot be shown to give (ε, δ).
    DataError
        If a score or value is NaN or infinite.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy. A pick of "gumbel" is 2Δ/b-bounded-range, a round of "peeling" 2Δ/b-private, a value Δ/b-private
    (Laplace); `accounting.compose` adds them up by the best rule. With δ = 0 the sum is basic: ε/s for each pick.
    Cost: "gumbel" one pass and O(s) memory; "peeling" s passes over a quarter of a random word a score, with the largest score of each
    block kept: O(s + d/512) memory. The noisy scores that made the choice are never released.
    Source: Private inference (chapter 9), Algorithm 9.2.2 ("peeling"); Durfee & Rogers (2019) ("gumbel"); Qiao, Su & Zhang (2021).

    Examples
    --------
    >>> chosen = top_s([5.0, 9e5, 1.0, 8e4], 2, epsilon=1.0, sensitivity=1.0, values=True)
    >>> chosen.indices
    array([1, 3])
    >>> chosen.privacy
    Privacy(epsilon=1.0, delta=0.0, relation='replace')
    """
    array = _check_scores(scores)
    s = check_integer("s", s, low=1, high=array.size)
    released = _check_values(values, array)
    request = Request(
        s, check_positive("epsilon", epsilon), check_sensitivity(sensitivity),
        check_real("delta", delta, low=0.0, high=1.0, include_high=False), spread(relation, monotone=monotone),
        check_real("value_share", value_share, low=0.0, high=1.0, include_low=False, include_high=False), released is not None, relation,
    )  # fmt: skip
    check_choice("method", method, METHODS)
    plan = make_plan(method, check_given_scale(scale), request, array.size)
    stream = resolve(rng)
    _check_threads(threads)
    if released is not None and released is not array:
        check_finite("values", released)  # all of them: which ones are chosen must not decide whether this raises
    indices = _choose(method, array, plan.scale, s, stream, threads)
    noisy = None if released is None else laplace(released[indices], plan.value_scale, rng=stream, threads=threads)
    value_scale = None if noisy is None else plan.value_scale
    return Selection(indices, noisy, Privacy(request.epsilon, request.delta, relation), plan.scale, value_scale, plan.rule)


# Parameters


def _check_scores(scores: npt.ArrayLike) -> npt.NDArray[Any]:
    array = check_array("scores", scores, REAL_DTYPES)
    if array.ndim != 1 or array.size == 0:
        raise ParameterError(f"scores must be one-dimensional with at least one score, got shape {array.shape}")
    return array


def _check_values(values: bool | npt.ArrayLike, scores: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    if isinstance(values, bool | np.bool_):
        return scores if values else None
    array = check_array("values", values, REAL_DTYPES)
    if array.shape != scores.shape:
        raise ParameterError(f"values must be a bool or have the shape {scores.shape} of the scores, got shape {array.shape}")
    return array


# The choice


def _check_threads(threads: int | None) -> None:
    check_threads(threads)


def _open(noise: Noise, scores: npt.NDArray[Any], scale: float, keep: int, rng: Stream | None, threads: int | None) -> _backend.Selection:
    _check_threads(threads)
    stream = resolve(rng)
    return _backend.Selection(noise, scores, scale, keep, stream.position(), secure=stream.secure, threads=threads)


def _choose(method: Method, scores: npt.NDArray[Any], scale: float, s: int, rng: Stream, threads: int | None) -> npt.NDArray[np.int64]:
    if method == "peeling":
        return _open("laplace", scores, scale, 1, rng, threads).peel(s)
    indices = _open("gumbel" if method == "gumbel" else "laplace", scores, scale, s, rng, threads).largest(0)
    # Qiao, Su & Zhang (2021) prove their theorem for the set of indices alone ("not their ordering").
    return np.sort(indices) if method == "oneshot_laplace" else indices
