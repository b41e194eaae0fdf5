"""Randomised response, of a record alone and of all records of a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.probability import Probability
from dpcore._validation import check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop.opendp._losses import distance, repeated, response_losses
from dpcore.interop.opendp._measurements import check_features, make, peer, then
from dpcore.interop.opendp._spaces import DTYPES, INTEGER_RANGES, INTEGERS, TEXT, Metrics, Space, read_space
from dpcore.local import KaryResponse
from dpcore.rng import resolve
from dpcore.selection import exponential_mechanism

if TYPE_CHECKING:
    from opendp.mod import Domain, Measurement, Metric, _PartialConstructor

_LOCAL: Metrics = {"number": ("DiscreteDistance",), "list": ("HammingDistance",), "array": ("HammingDistance",)}
_LEAST_LOSS, _MOST_LOSS = 2.0**-20, 700.0
"""Between these, dpcore has a k-ary response. Below, its answer is uniform; above, it has the largest loss that dpcore draws."""


def make_randomized_response_bool(input_domain: Domain, input_metric: Metric, prob: float, *, as_array: bool = False) -> Measurement:
    r"""Make a measurement that releases a bool, or each bool of a list, truly with probability p and else flipped.

    Parameters
    ----------
    input_domain : Domain
        ``atom_domain(T=bool)``, or for all records of a list ``vector_domain`` or ``numpy.arrayd_domain`` of bools.
    input_metric : Metric
        ``discrete_distance`` for one bool; for many, ``hamming_distance``, the number of places at which lists differ.
    prob : float
        p, in [1/2, 1].
    as_array : bool, default False
        Whether the answer to a list is an array of NumPy, which OpenDP passes on without looking into it.

    Returns
    -------
    Measurement
        With OpenDP's `max_divergence`. Its map gives ε = ln(p/(1 − p)), rounded up, for one bool, and d·ε for d of many.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the domain, the metric or p does not fit, or a feature of OpenDP is not enabled.
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Guarantee: P(y\|x) ≤ p/(1 − p)·P(y\|x') for one bool, with the very float p.

    Cost: less than a nanosecond a bool of an array; some 40 ns of a list, for its way through OpenDP.

    Examples
    --------
    >>> space = dp.vector_domain(dp.atom_domain(T=bool)), dp.hamming_distance()  # doctest: +SKIP
    >>> round(make_randomized_response_bool(*space, prob=0.75).map(1), 4)  # doctest: +SKIP
    1.0986
    """
    space, p = _read(input_domain, input_metric, prob, 2, ("bool",))
    flip = Probability(1 - p, Fraction(0), Fraction(1), Fraction(0), Fraction(1))

    def draw(data: Any) -> Any:
        values = np.array(data) if space.form == "number" else space.elements(data)
        reports = values.copy() if p == 1 else _backend.flip_bools(values, flip, resolve(None).position(), threads=None)
        return bool(reports) if space.form == "number" else reports

    return make(space, peer().max_divergence(), draw, _map(space, p, 2), space.released("bool", as_array=as_array))


def then_randomized_response_bool(prob: float, *, as_array: bool = False) -> _PartialConstructor:
    """`make_randomized_response_bool` at the end of a chain.

    Parameters
    ----------
    prob : float
        As in `make_randomized_response_bool`.
    as_array : bool, default False
        As in `make_randomized_response_bool`.

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
    Cost: that of `make_randomized_response_bool`, when the chain is made.

    Examples
    --------
    >>> measurement = space >> then_randomized_response_bool(0.75)  # doctest: +SKIP
    """
    return then(make_randomized_response_bool, prob, as_array=as_array)


def make_randomized_response(input_domain: Domain, input_metric: Metric, categories: Sequence[Hashable], prob: float) -> Measurement:
    r"""Make a measurement that releases a category, or each of a list, truly with probability p and else another one.

    Parameters
    ----------
    input_domain : Domain
        ``atom_domain`` of strings or integers, or for all records of a list ``vector_domain`` or ``numpy.arrayd_domain`` of them.
    input_metric : Metric
        ``discrete_distance`` for one record; for many, ``hamming_distance``, the number of places at which lists differ.
    categories : sequence
        The k ≥ 2 categories. A record that is none of them gets a uniform answer, as in OpenDP.
    prob : float
        p, in [1/k, 1].

    Returns
    -------
    Measurement
        With OpenDP's `max_divergence`. Its map gives ε = ln(p·(k − 1)/(1 − p)), rounded up, for one record, and d·ε for d of many.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the domain, the metric, the categories or p does not fit, or a feature of OpenDP is not enabled.
    ModuleNotFoundError
        If OpenDP is not installed.

    Notes
    -----
    Guarantee: that of `dpcore.local.KaryResponse` with ε rounded down. Below 2^−20 answers are uniform; above 700 they are those of 700.

    Cost: some 100 ns a record of a list, most of it for looking up the categories.

    Examples
    --------
    >>> space = dp.atom_domain(T=str), dp.discrete_distance()  # doctest: +SKIP
    >>> make_randomized_response(*space, ["bus", "tram", "bicycle"], prob=0.6)("tram") in ["bus", "tram", "bicycle"]  # doctest: +SKIP
    True
    """
    names = _check_categories(categories)
    k = len(names)
    space, p = _read(input_domain, input_metric, prob, k, (TEXT, *INTEGERS))
    _check_members(names, space)
    respond = partial(_respond, epsilon=response_losses(p, k)[0], k=k)
    codes = {name: code for code, name in enumerate(names)}
    table = None if space.atom == TEXT else np.array(names, DTYPES[space.atom])

    def draw(data: Any) -> Any:
        records = [data] if space.form == "number" else data if space.form == "list" else space.elements(data).ravel().tolist()
        reports = respond(np.fromiter((codes.get(value, -1) for value in records), np.int64, len(records)))
        if space.form == "number":
            return names[int(reports[0])]
        return [names[code] for code in reports.tolist()] if table is None else table[reports].reshape(np.shape(data))

    return make(space, peer().max_divergence(), draw, _map(space, p, k), space.released(space.atom, as_array=False))


def then_randomized_response(categories: Sequence[Hashable], prob: float) -> _PartialConstructor:
    """`make_randomized_response` at the end of a chain.

    Parameters
    ----------
    categories : sequence
        As in `make_randomized_response`.
    prob : float
        As in `make_randomized_response`.

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
    Cost: that of `make_randomized_response`, when the chain is made.

    Examples
    --------
    >>> measurement = space >> then_randomized_response(["bus", "tram"], 0.75)  # doctest: +SKIP
    """
    return then(make_randomized_response, categories, prob)


def _read(domain: Domain, metric: Metric, prob: float, k: int, atoms: tuple[str, ...]) -> tuple[Space, Fraction]:
    peer()
    check_features()
    space = read_space(domain, metric, _LOCAL, atoms)
    p = Fraction(check_real("prob", prob, low=0.0, high=1.0, rounding="down"))
    # 1/k is no float for most k: a uniform answer is meant by the float next to it.
    if p < Fraction(1, k) and float(p) < 1 / k:
        raise ParameterError(f"prob must be in [1/{k}, 1], got {prob!r}")
    return space, max(p, Fraction(1, k))


def _map(space: Space, p: Fraction, k: int) -> Callable[[Any], float]:
    epsilon = response_losses(p, k)[1]
    if space.form == "number":
        return lambda d_in: epsilon if distance(d_in) else 0.0
    return partial(repeated, epsilon=epsilon)


def _check_categories(categories: Any) -> tuple[Hashable, ...]:
    if isinstance(categories, (str, bytes)) or not isinstance(categories, Sequence):
        raise ParameterTypeError(f"categories must be a list, got {type(categories).__name__}")
    names = tuple(categories)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError(f"categories must be two or more, all different, got {len(names)}, {len(set(names))} of them different")
    return names


def _check_members(names: tuple[Hashable, ...], space: Space) -> None:
    kind: type = str if space.atom == TEXT else int
    low, high = INTEGER_RANGES.get(space.atom, (0, 0))
    for name in names:
        if not isinstance(name, kind) or isinstance(name, bool):
            raise ParameterTypeError(f"categories must hold {kind.__name__} with {space.domain}, got {name!r}")
        if isinstance(name, int) and not low <= name <= high:
            raise ParameterError(f"categories must hold numbers of {space.domain}, got {name!r}")


def _respond(codes: npt.NDArray[np.int64], *, epsilon: float, k: int) -> npt.NDArray[np.int64]:
    """Answers to codes, of which −1 is no category."""
    if codes.size == 0:
        return codes
    if epsilon < _LEAST_LOSS:
        return _uniform(codes.size, k)
    unknown = codes < 0
    reports = codes.copy() if math.isinf(epsilon) else KaryResponse(min(epsilon, _MOST_LOSS), k=k).privatize(np.maximum(codes, 0))
    if unknown.any():
        reports[unknown] = _uniform(int(unknown.sum()), k)
    return reports


def _uniform(size: int, k: int) -> npt.NDArray[np.int64]:
    return exponential_mechanism(np.zeros(k), 1.0, 1.0, draws=size)
