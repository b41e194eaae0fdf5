"""Selection of one index: the largest noisy score, or a draw from the exponential mechanism."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._series import Series
from dpcore._validation import check_choice, check_integer
from dpcore.privacy import Relation
from dpcore.rng import Stream
from dpcore.selection._calls import Label, Noise, check_labels, check_scores, named, open_selection, select
from dpcore.selection._measure import Tilted, check_measure
from dpcore.selection._plan import argmax_scale

MOST_DRAWS = 2**40


_NOISES = tuple(_backend.NOISES)


@overload
def noisy_argmax(
    scores: Series, epsilon: float, sensitivity: float, *, noise: Noise = ..., labels: None = ..., relation: Relation = ...,
    monotone: bool = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> Hashable: ...  # fmt: skip
@overload
def noisy_argmax(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, noise: Noise = ..., labels: None = ..., relation: Relation = ...,
    monotone: bool = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> int: ...  # fmt: skip
@overload
def noisy_argmax(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, noise: Noise = ..., labels: Sequence[Label], relation: Relation = ...,
    monotone: bool = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> Label: ...  # fmt: skip
def noisy_argmax(
    scores: object,
    epsilon: float,
    sensitivity: float,
    *,
    noise: Noise = "laplace",
    labels: Sequence[Any] | None = None,
    relation: Relation = "replace",
    monotone: bool = False,
    rng: Stream | None = None,
    threads: int | None = None,
) -> Any:
    r"""Release the index of the largest noisy score.

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite scores u, d ≥ 1: floats, or integers up to int64, which enter exactly. Magnitudes beyond 2^1000 count as 2^1000.
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the scores, positive and finite.
    noise : {"laplace", "gumbel", "exponential"}, default "laplace"
        "laplace": NoisyArgmax. "gumbel": the exponential mechanism. "exponential": permute-and-flip, never worse than "gumbel".
    labels : sequence, optional
        Names of the d scores; the name of the chosen one is returned. Default: the index of `scores` if they are a pandas Series, else
        none. Fix the labels before you look at the records: a label that exists only because of one record reveals it.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All scores move the same way when a record is added (counts, for example): half the noise. Only with ``relation="add_remove"``.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    int, or the type of the labels
        argmax of u_i + b·N_i with independent N_i of unit scale, b = 2Δ/ε rounded up, or Δ/ε if monotone.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type; in particular for ``monotone=True`` under replacement.
    DataError
        If a score is NaN or infinite.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: P(M(x) = i) ≤ e^ε P(M(x') = i) for neighbours x, x' and every i. The noise breaks ties of scores.

    `monotone` needs add/remove: Laplace(Δ/ε) at ε = 1 on scores (0, 8) and (1, 7), neighbours under replacement, loses 1.78.

    Cost: one pass, a quarter of a random word a score; O(1) memory. The running time depends on the scores through the few contenders.

    Source: Stemmer (lecture 6), NoisyArgmax, Theorem 7; Wasserman & Zhou (2010) and Private inference (chapter 9), Definition 9.1.5
    ("gumbel"); McKenna & Sheldon (2020) and Ding et al. (2021) ("exponential").

    Examples
    --------
    >>> noisy_argmax([3.0, 1000.0, 5.0], epsilon=1.0, sensitivity=1.0)
    1
    >>> noisy_argmax([3.0, 1000.0, 5.0], epsilon=1.0, sensitivity=1.0, labels=["bus", "tram", "bicycle"])
    'tram'
    """
    check_choice("noise", noise, _NOISES)
    array = check_scores(scores)
    names = check_labels(labels, scores, array.size)
    scale = argmax_scale(epsilon, sensitivity, 1, relation, monotone=monotone)
    index = select(noise, array, scale, rng, threads)
    return index if names is None else names[index]


@overload
def exponential_mechanism(
    scores: Series, epsilon: float, sensitivity: float, *, draws: None = ..., labels: None = ..., relation: Relation = ...,
    monotone: bool = ..., measure: npt.ArrayLike | None = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> Hashable: ...  # fmt: skip
@overload
def exponential_mechanism(
    scores: Series, epsilon: float, sensitivity: float, *, draws: int, labels: None = ..., relation: Relation = ...,
    monotone: bool = ..., measure: npt.ArrayLike | None = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> tuple[Hashable, ...]: ...  # fmt: skip
@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, draws: None = ..., labels: None = ..., relation: Relation = ...,
    monotone: bool = ..., measure: npt.ArrayLike | None = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> int: ...  # fmt: skip
@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, draws: int, labels: None = ..., relation: Relation = ...,
    monotone: bool = ..., measure: npt.ArrayLike | None = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> npt.NDArray[np.int64]: ...  # fmt: skip
@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, draws: None = ..., labels: Sequence[Label], relation: Relation = ...,
    monotone: bool = ..., measure: npt.ArrayLike | None = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> Label: ...  # fmt: skip
@overload
def exponential_mechanism(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, draws: int, labels: Sequence[Label], relation: Relation = ...,
    monotone: bool = ..., measure: npt.ArrayLike | None = ..., rng: Stream | None = ..., threads: int | None = ...,
) -> tuple[Label, ...]: ...  # fmt: skip
def exponential_mechanism(
    scores: object,
    epsilon: float,
    sensitivity: float,
    *,
    draws: int | None = None,
    labels: Sequence[Any] | None = None,
    relation: Relation = "replace",
    monotone: bool = False,
    measure: npt.ArrayLike | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> Any:
    r"""Draw an index with probability proportional to e^(ε u_i / 2Δ), times a weight if there is a measure.

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite utilities u, d ≥ 1. Magnitudes beyond 2^1000 count as 2^1000.
    epsilon : float
        Privacy loss ε of the whole call, positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the utilities, positive and finite.
    draws : int, optional
        m independent draws, with replacement, each with ε/m. None is one draw, returned by itself.
    labels : sequence, optional
        Names of the d scores, as in `noisy_argmax`.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All utilities move the same way when a record is added: P ∝ e^(ε u_i / Δ). Only with ``relation="add_remove"``.
    measure : array_like, shape (d,), optional
        Weights m_i ≥ 0 of a base measure, finite and not all 0: P ∝ m_i e^(ε u_i / 2Δ). Default: all 1. They must not depend on the
        records. An index of weight 0 is never drawn.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    int, or ndarray of int64 of shape (draws,)
        The index drawn, or the indices. With labels: the label, or a tuple of labels.

    Raises
    ------
    ParameterError, ParameterTypeError, DataError, EntropyError
        As `noisy_argmax`.

    Notes
    -----
    Guarantee: ε-differential privacy; one draw is ε-bounded-range, hence ε²/8-zCDP. A measure changes neither.

    Cost: one pass over the scores for a draw, and about a sixth of that for each further one. A measure adds a logarithm a score.

    Source: Private inference (chapter 9), Definition 9.1.5; Wasserman & Zhou (2010), Section 3; McSherry & Talwar (2007). Drawn as the
    argmax of u_i + (2Δ/ε)·G_i with Gumbel noise G, which has the same law. With a measure such draws are corrected by rejection, see
    docs/exactness-selection.md; less than one in 10^9 is rejected.

    Examples
    --------
    >>> exponential_mechanism([0.0, 500.0], epsilon=1.0, sensitivity=1.0)
    1
    >>> exponential_mechanism([0.0, 5000.0], epsilon=1.0, sensitivity=1.0, draws=3)
    array([1, 1, 1])
    >>> exponential_mechanism([0.0, 0.0, 0.0], epsilon=1.0, sensitivity=1.0, measure=[0.0, 1.0, 0.0])
    1
    """
    array = check_scores(scores)
    names = check_labels(labels, scores, array.size)
    count = 1 if draws is None else check_integer("draws", draws, low=1, high=MOST_DRAWS)
    scale = argmax_scale(epsilon, sensitivity, count, relation, monotone=monotone)
    if measure is not None:
        tilted = Tilted(array, check_measure(measure, array.size), scale)
        if draws is None:
            index = tilted.one(rng, threads)
            return index if names is None else names[index]
        indices = tilted.several(count, rng, threads)
        return indices if names is None else named(indices, names)
    if draws is None:
        index = select("gumbel", array, scale, rng, threads)
        return index if names is None else names[index]
    indices = open_selection("gumbel", array, scale, 1, rng, threads).winners(count)
    return indices if names is None else named(indices, names)


@overload
def permute_and_flip(
    scores: Series, epsilon: float, sensitivity: float, *, labels: None = ..., relation: Relation = ..., monotone: bool = ...,
    rng: Stream | None = ..., threads: int | None = ...,
) -> Hashable: ...  # fmt: skip
@overload
def permute_and_flip(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, labels: None = ..., relation: Relation = ..., monotone: bool = ...,
    rng: Stream | None = ..., threads: int | None = ...,
) -> int: ...  # fmt: skip
@overload
def permute_and_flip(
    scores: npt.ArrayLike, epsilon: float, sensitivity: float, *, labels: Sequence[Label], relation: Relation = ..., monotone: bool = ...,
    rng: Stream | None = ..., threads: int | None = ...,
) -> Label: ...  # fmt: skip
def permute_and_flip(
    scores: Any,
    epsilon: float,
    sensitivity: float,
    *,
    labels: Any = None,
    relation: Relation = "replace",
    monotone: bool = False,
    rng: Stream | None = None,
    threads: int | None = None,
) -> Any:
    r"""Release the index that permute-and-flip chooses: never worse than the exponential mechanism at the same ε.

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite utilities u, d ≥ 1. Magnitudes beyond 2^1000 count as 2^1000.
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the utilities, positive and finite.
    labels : sequence, optional
        Names of the d scores, as in `noisy_argmax`.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All utilities move the same way when a record is added: half the noise. Only with ``relation="add_remove"``.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    int, or the type of the labels
        argmax of u_i + (2Δ/ε)·E_i with independent exponential noise E, which has the law of permute-and-flip.

    Raises
    ------
    ParameterError, ParameterTypeError, DataError, EntropyError
        As `noisy_argmax`.

    Notes
    -----
    Guarantee: ε-differential privacy. It is not ε-bounded-range: only ε²/2-zCDP holds in general.

    Cost: as `noisy_argmax`.

    Source: McKenna & Sheldon (2020); Ding et al. (2021), for the equality with exponential noise.

    Examples
    --------
    >>> permute_and_flip([0.0, 5000.0], epsilon=1.0, sensitivity=1.0)
    1
    """
    return noisy_argmax(
        scores, epsilon, sensitivity, noise="exponential", labels=labels, relation=relation, monotone=monotone, rng=rng, threads=threads
    )
