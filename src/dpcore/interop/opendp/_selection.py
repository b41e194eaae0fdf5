"""Noisy selection: the index of the largest score, and those of the k largest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import check_integer
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.interop.opendp._losses import proportional, quadratic
from dpcore.interop.opendp._measurements import check_features, make, peer, then
from dpcore.interop.opendp._noise import check_scale, finite
from dpcore.interop.opendp._spaces import FLOATS, INTEGERS, Space, distance_type, read_space
from dpcore.noise import FLOAT_SCALE
from dpcore.rng import resolve

if TYPE_CHECKING:
    from opendp.mod import Domain, Measure, Measurement, Metric, _PartialConstructor

_INDEX = "usize"
MOST_CHOSEN = 2**31


def make_noisy_max(input_domain: Domain, input_metric: Metric, output_measure: Measure, scale: float, negate: bool = False) -> Measurement:
    r"""Make a measurement that releases the index of the largest noisy score.

    Parameters
    ----------
    input_domain : Domain
        ``vector_domain`` or ``numpy.arrayd_domain`` of one axis, of floats (without NaN) or integers: the scores.
    input_metric : Metric
        ``linf_distance``. With ``monotonic=True``, scores move in one direction only, which halves the loss.
    output_measure : Measure
        ``max_divergence()``: exponential noise, which is permute-and-flip. ``zero_concentrated_divergence()``: Gumbel noise, which is the
        exponential mechanism.
    scale : float
        b, in [0, 2^960]. 0 chooses a largest score, and has the loss ∞ that OpenDP gives it.
    negate : bool, default False
        Whether the index of the smallest score is wanted.

    Returns
    -------
    Measurement
        Its map is d ↦ 2d/b, or (2d/b)²/8 for zCDP, rounded up; with d instead of 2d if monotonic.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the domain, the metric, the measure or the scale does not fit, or a feature of OpenDP is not enabled.
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Guarantee: that of `dpcore.selection.permute_and_flip`, or of `exponential_mechanism`. The noisy scores are compared as real numbers.
    NaN that is there in spite of the domain counts as 0.

    Cost: a nanosecond a score in an array; some 40 ns a score of a list, for its way through OpenDP.

    Examples
    --------
    >>> space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)  # doctest: +SKIP
    >>> make_noisy_max(*space, dp.max_divergence(), scale=2.0).map(1)  # doctest: +SKIP
    1.0
    """
    return _make(input_domain, input_metric, output_measure, scale, None, negate=negate)


def then_noisy_max(output_measure: Measure, scale: float, negate: bool = False) -> _PartialConstructor:
    """`make_noisy_max` at the end of a chain: ``space >> then_noisy_max(measure, scale)``.

    Parameters
    ----------
    output_measure : Measure
        As in `make_noisy_max`.
    scale : float
        As in `make_noisy_max`.
    negate : bool, default False
        As in `make_noisy_max`.

    Returns
    -------
    _PartialConstructor
        What OpenDP's ``>>`` takes.

    Raises
    ------
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Cost: that of `make_noisy_max`, when the chain is made.

    Examples
    --------
    >>> measurement = space >> then_noisy_max(dp.max_divergence(), 1.0)  # doctest: +SKIP
    """
    return then(make_noisy_max, output_measure, scale, negate)


def make_noisy_top_k(
    input_domain: Domain, input_metric: Metric, output_measure: Measure, k: int, scale: float, negate: bool = False
) -> Measurement:
    r"""Make a measurement that releases the indices of k large scores, in the order in which they were chosen.

    Parameters
    ----------
    input_domain : Domain
        As in `make_noisy_max`.
    input_metric : Metric
        As in `make_noisy_max`.
    output_measure : Measure
        As in `make_noisy_max`: k rounds of permute-and-flip, or of the exponential mechanism, each without the indices already chosen.
    k : int
        How many, in [1, 2^31]; of fewer scores all are released.
    scale : float
        b, in [0, 2^960].
    negate : bool, default False
        Whether the indices of small scores are wanted.

    Returns
    -------
    Measurement
        Its map is k times that of `make_noisy_max`, rounded up once.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the domain, the metric, the measure, k or the scale does not fit, or a feature of OpenDP is not enabled.
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Guarantee: k-fold composition of that of `make_noisy_max`. The k rounds of the exponential mechanism are drawn at once, as the k largest
    sums with Gumbel noise, which has the same law.

    Cost: as `make_noisy_max` for zCDP; for pure privacy, about a sixth of that for each further index.

    Examples
    --------
    >>> make_noisy_top_k(*space, dp.max_divergence(), k=3, scale=2.0).map(1)  # doctest: +SKIP
    3.0
    """
    return _make(input_domain, input_metric, output_measure, scale, check_integer("k", k, low=1, high=MOST_CHOSEN), negate=negate)


def then_noisy_top_k(output_measure: Measure, k: int, scale: float, negate: bool = False) -> _PartialConstructor:
    """`make_noisy_top_k` at the end of a chain: ``space >> then_noisy_top_k(measure, k, scale)``.

    Parameters
    ----------
    output_measure : Measure
        As in `make_noisy_top_k`.
    k : int
        As in `make_noisy_top_k`.
    scale : float
        As in `make_noisy_top_k`.
    negate : bool, default False
        As in `make_noisy_top_k`.

    Returns
    -------
    _PartialConstructor
        What OpenDP's ``>>`` takes.

    Raises
    ------
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Cost: that of `make_noisy_top_k`, when the chain is made.

    Examples
    --------
    >>> measurement = space >> then_noisy_top_k(dp.max_divergence(), 3, 1.0)  # doctest: +SKIP
    """
    return then(make_noisy_top_k, output_measure, k, scale, negate)


def _make(domain: Domain, metric: Metric, measure: Measure, scale: float, k: int | None, *, negate: bool) -> Measurement:
    dp = peer()
    check_features()
    if not isinstance(negate, bool):
        raise ParameterTypeError(f"negate must be a bool, got {negate!r}")
    space = read_space(domain, metric, {"list": ("LInfDistance",), "array": ("LInfDistance",)}, (*FLOATS, *INTEGERS))
    if space.shape is not None and len(space.shape) != 1:
        raise ParameterError(f"input_domain must have one axis of scores, got shape {space.shape}")
    b = check_scale(scale)
    factor = 1 if metric == dp.linf_distance(T=distance_type(metric), monotonic=True) else 2
    noise: Literal["exponential", "gumbel"]
    privacy_map: Callable[[Any], float]
    rounds = 1 if k is None else k
    if measure == dp.max_divergence():
        noise, privacy_map = "exponential", partial(proportional, scale=b, factor=rounds * factor)
    elif measure == dp.zero_concentrated_divergence():
        noise, privacy_map = "gumbel", partial(quadratic, scale=b, divisor=8, factor=factor, uses=rounds)
    else:
        raise ParameterError(f"output_measure must be max_divergence() or zero_concentrated_divergence(), got {measure}")

    def draw(data: Any) -> Any:
        scores = _scores(space, data, negate=negate)
        chosen = _choose(noise, scores, max(b, FLOAT_SCALE[0]) if b else 0.0, min(rounds, scores.size))
        return int(chosen[0]) if k is None else chosen

    return make(space, measure, draw, privacy_map, _INDEX if k is None else f"Vec<{_INDEX}>")


def _scores(space: Space, data: Any, *, negate: bool) -> npt.NDArray[Any]:
    """Scores of which the largest is wanted, finite, and of a type that the kernels take."""
    scores = space.elements(data)
    if scores.size == 0:
        raise DataError("data must have at least one score, got none")
    if scores.dtype == np.uint64:
        scores = scores.view(np.int64) ^ np.int64(-(2**63))
    if not negate:
        return scores
    # Unsigned and the least signed integers have no negative in their type.
    return -scores if space.atom in FLOATS else -np.maximum(scores.astype(np.int64), -(2**63) + 1)


def _choose(noise: Literal["exponential", "gumbel"], scores: npt.NDArray[Any], scale: float, rounds: int) -> npt.NDArray[np.uintp]:
    if not scale:
        return np.argsort(-finite(scores) if scores.dtype.kind == "f" else ~scores, kind="stable")[:rounds].astype(np.uintp)
    select = _backend.select_peeled if noise == "exponential" else _backend.select_largest
    try:
        chosen = select(noise, scores, scale, rounds, resolve(None).position(), threads=None)
    except DataError:
        chosen = select(noise, finite(scores), scale, rounds, resolve(None).position(), threads=None)
    return chosen.astype(np.uintp)
