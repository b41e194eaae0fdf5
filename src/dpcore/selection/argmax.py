"""Selection of one index: the largest noisy score, or a draw from the exponential mechanism."""

from __future__ import annotations

from typing import overload

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import (
    check_choice,
    check_integer,
)
from dpcore.privacy import Relation
from dpcore.rng import Stream
from dpcore.selection._calls import Noise, check_scores, open_selection
from dpcore.selection._plan import argmax_scale

MOST_DRAWS = 2**40


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
    array = check_scores(scores)
    scale = argmax_scale(epsilon, sensitivity, 1, relation, monotone=monotone)
    return open_selection(noise, array, scale, 1, rng, threads).winner(0)


@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, draws: None = ..., relation: Relation = ..., monotone: bool = ...,
    rng: Stream | None = ..., threads: int | None = ...,
) -> int: ...  # fmt: skip
@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, draws: int, relation: Relation = ..., monotone: bool = ...,
    rng: Stream | None = ..., threads: int | None = ...,
) -> npt.NDArray[np.int64]: ...  # fmt: skip
def exponential_mechanism(
    scores: npt.ArrayLike,
    epsilon: float,
    sensitivity: float,
    *,
    draws: int | None = None,
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
    draws : int, optional
        m independent draws, with replacement, each with ε/m. None is one draw, returned as an int.
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
    int, or ndarray of int64 of shape (draws,)
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
    >>> exponential_mechanism([0.0, 5000.0], epsilon=1.0, sensitivity=1.0, draws=3)
    array([1, 1, 1])
    """
    array = check_scores(scores)
    count = 1 if draws is None else check_integer("draws", draws, low=1, high=MOST_DRAWS)
    scale = argmax_scale(epsilon, sensitivity, count, relation, monotone=monotone)
    call = open_selection("gumbel", array, scale, 1, rng, threads)
    return call.winner(0) if draws is None else call.winners(count)


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
