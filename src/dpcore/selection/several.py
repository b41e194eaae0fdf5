"""Selection of the s largest scores, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._html import MOST, columns_table
from dpcore._spread import check_confidence
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
from dpcore.privacy import Guaranteed, Privacy, Relation
from dpcore.rng import Stream, resolve
from dpcore.selection._calls import check_labels, check_scores, named
from dpcore.selection._plan import METHODS, Method, Plan, Request, check_given_scale, make_plan, shortfall, spread


@dataclass(frozen=True, slots=True, eq=False)
class Selection(Guaranteed):
    """The result of `top_s`. A notebook shows it as a table.

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
    labels : tuple, or None
        Labels of the chosen, in the same order, if the scores had labels.
    method : str
        How they were chosen: "gumbel", "peeling" or "oneshot_laplace".
    candidates : int
        Number of scores d.
    """

    indices: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64] | None
    privacy: Privacy
    scale: float
    value_scale: float | None
    rule: str
    labels: tuple[Any, ...] | None = None
    method: Method = "gumbel"
    candidates: int = 0

    def behind(self, confidence: float = 0.95) -> float:
        r"""How far the chosen may be below the true s-th best score.

        Parameters
        ----------
        confidence : float, default 0.95
            Probability that the bound holds for all chosen together, in (0, 1).

        Returns
        -------
        float
            With this probability no chosen score is more than this below the s-th largest; in the unit of the scores. 0 if all were chosen.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is outside its range, or of the wrong type.

        Notes
        -----
        Guarantee: holds for any scores, and costs nothing, as it follows from `scale`, `method`, `candidates` and the number of indices.
        With d candidates and an error probability β it is b·ln(d·s/β) for "gumbel", and for Laplace noise the t with
        t = b·(ln(d·s/2β) + ln(1 + t/2b)).

        Source: Noise decides by a difference of two variables; :doc:`/selection` has the proof for Gumbel noise.

        Examples
        --------
        >>> round(top_s([5.0, 9e5, 1.0, 8e4], epsilon=1.0, sensitivity=1.0, s=2).behind(0.95), 1)
        20.3
        """
        return shortfall(self.method, self.scale, self.candidates, len(self.indices), check_confidence(confidence))

    def _repr_html_(self) -> str:
        columns: dict[str, list[object]] = {"index": self.indices.tolist()}
        if self.labels is not None:
            columns["label"] = [str(label) for label in self.labels[:MOST]]
        if self.values is not None:
            columns["noisy value"] = [f"{value:.6g}" for value in self.values[:MOST].tolist()]
        return columns_table(repr(self.privacy), columns)


_FIELDS = tuple(each.name for each in fields(Selection))


def top_s(
    scores: npt.ArrayLike,
    epsilon: float,
    sensitivity: float,
    *,
    s: int,
    delta: float = 0.0,
    method: Method = "gumbel",
    scale: float | Literal["calibrated"] | None = None,
    values: bool | npt.ArrayLike = False,
    value_share: float = 0.5,
    labels: Sequence[Any] | None = None,
    relation: Relation = "replace",
    monotone: bool = False,
    rng: Stream | None = None,
    threads: int | None = None,
) -> Selection:
    r"""Release the indices of s large scores, and on request noisy values of the chosen.

    Parameters
    ----------
    scores : array_like, shape (d,)
        Finite scores u. Magnitudes beyond 2^1000 count as 2^1000.
    epsilon : float
        Privacy loss ε of the whole call, values included; positive and finite.
    sensitivity : float
        ℓ∞ sensitivity Δ of the scores (and of `values`, where they are another array), positive and finite.
    s : int
        How many, in [1, d].
    delta : float, default 0.0
        Failure mass δ of the whole call, in [0, 1).
    method : {"gumbel", "peeling", "oneshot_laplace"}, default "gumbel"
        "gumbel": the s largest of u + b·Gumbel, equal in law to s exponential mechanisms that each leave out the winners before.
        "peeling": s rounds of noisy argmax with fresh Laplace(b) on all scores not chosen yet.
        "oneshot_laplace": the s largest of u + Laplace(8Δ√(s ln(d/δ))/ε); only for ε < 0.2 and 0 < δ < 0.05.
    scale : float or "calibrated", optional
        Scale b of the noise, for "gumbel" and "peeling". None: for "peeling" with δ > 0 the formula 2Δ√(3 s ln(1/δ))/ε, checked; else as
        "calibrated": the smallest b that composition allows. A number is refused where composition does not show (ε, δ).
    values : bool or array_like of shape (d,), default False
        True releases the chosen scores plus fresh Laplace noise; an array releases its numbers at the chosen indices instead.
    value_share : float, default 0.5
        Share of each use's ε that goes to the values where their noise is chosen here, in (0, 1). "peeling" and a given `scale` use the
        same b for both.
    labels : sequence, optional
        Names of the d scores, from which `Selection.labels` takes those of the chosen. Default: the index of `scores` if they are a pandas
        Series, else none. Fix them before you look at the records: a label that exists only because of one record reveals it.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.
    monotone : bool, default False
        All scores move the same way when a record is added. Only with ``relation="add_remove"``; not for "oneshot_laplace".
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    Selection
        Indices (in order of selection; ascending for "oneshot_laplace"), values, labels, the guarantee, and the scales of the noise.

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
    >>> chosen = top_s([5.0, 9e5, 1.0, 8e4], epsilon=1.0, sensitivity=1.0, s=2, values=True)
    >>> chosen.indices
    array([1, 3])
    >>> chosen.privacy
    Privacy(epsilon=1.0, delta=0.0, relation='replace')
    >>> top_s([5.0, 9e5, 1.0, 8e4], epsilon=1.0, sensitivity=1.0, s=2, labels=["ant", "bee", "fly", "wasp"]).labels
    ('bee', 'wasp')
    """
    array = check_scores(scores)
    names = None if labels is None and type(scores) is np.ndarray else check_labels(labels, scores, array.size)
    released = None if values is False else _check_values(values, array)
    plain = type(epsilon) is float and type(sensitivity) is float and type(delta) is float and type(value_share) is float
    plain = plain and scale is None and type(s) is int and type(relation) is str and type(method) is str and type(monotone) is bool
    request, plan, privacy = (_kept if plain else _planned)(
        array.size, s, epsilon, sensitivity, delta, relation, monotone, method, scale, value_share, released is not None
    )
    stream = None if rng is None else resolve(rng)
    if threads is not None:
        check_threads(threads)
    if released is not None and released is not array:
        check_finite("values", released)  # all of them: which ones are chosen must not decide whether this raises
    indices = _choose(method, array, plan.scale, request.s, stream, threads)
    noisy = None if released is None else laplace(released[indices], plan.value_scale, rng=stream, threads=threads)
    value_scale = None if noisy is None else plan.value_scale
    chosen = None if names is None else named(indices, names)
    return _backend.filled(Selection, _FIELDS, indices, noisy, privacy, plan.scale, value_scale, plan.rule, chosen, method, array.size)


def _planned(
    size: int, s: Any, epsilon: Any, sensitivity: Any, delta: Any, relation: Relation, monotone: Any, method: Method, scale: Any,
    value_share: Any, has_values: bool,
) -> tuple[Request, Plan, Privacy]:  # fmt: skip
    """Check all parameters but the arrays, and find the scales."""
    request = Request(
        check_integer("s", s, low=1, high=size), check_positive("epsilon", epsilon), check_sensitivity(sensitivity),
        check_real("delta", delta, low=0.0, high=1.0, include_high=False), spread(relation, monotone=monotone),
        check_real("value_share", value_share, low=0.0, high=1.0, include_low=False, include_high=False), has_values, relation,
    )  # fmt: skip
    check_choice("method", method, METHODS)
    plan = make_plan(method, check_given_scale(scale), request, size)
    return request, plan, Privacy(request.epsilon, request.delta, relation)


_kept = lru_cache(maxsize=1024)(_planned)
"""For arguments whose types are known: those that are equal are of one type."""


def _check_values(values: bool | npt.ArrayLike, scores: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    if isinstance(values, bool | np.bool_):
        return scores if values else None
    array = check_array("values", values, REAL_DTYPES)
    if array.shape != scores.shape:
        raise ParameterError(f"values must be a bool or have the shape {scores.shape} of the scores, got shape {array.shape}")
    return array


def _choose(
    method: Method, scores: npt.NDArray[Any], scale: float, s: int, rng: Stream | None, threads: int | None
) -> npt.NDArray[np.int64]:
    position = None if rng is None else rng.position()
    if method == "peeling":
        return _backend.select_peeled("laplace", scores, scale, s, position, threads=threads)
    indices = _backend.select_largest("gumbel" if method == "gumbel" else "laplace", scores, scale, s, position, threads=threads)
    # Qiao, Su & Zhang (2021) prove their theorem for the set of indices alone ("not their ordering").
    return np.sort(indices) if method == "oneshot_laplace" else indices
