"""Bounds of the private minimax risk: a risk that no ε-private method can go below, and one that some method attains."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcore._validation import check_integer
from dpcore.errors import ParameterTypeError
from dpcore.local._one_bit import expansion
from dpcore.local._parameters import check_epsilon
from dpcore.minimax.losses import Loss, as_loss
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.minimax.programs.linear_programs import TOLERANCE
from dpcore.minimax.spaces import certified
from dpcore.minimax.spaces.channels import MOST_RECORDS
from dpcore.minimax.spaces.matrices import Array
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import (
    ENOUGH,
    Modulus,
    Pair,
    hellinger_pairs,
    largest_difference_tv,
    modulus_hellinger,
    modulus_tv,
    whole_range,
)

ETAS: Array = np.linspace(0.0, 1.0, 4097)[1:-1]
"""Error sums η that the search tries."""
CLOSE = 1e-4
"""The search ends when no other η can be better by more than this, relatively."""
MOST_PROGRAMS = 16
ROUNDING = 1e-12
"""An allowance for rounding, far larger than the rounding errors of the formulas."""


@dataclass(frozen=True, slots=True, eq=False)
class LowerBound:
    """A risk that no sequentially interactive ε-private method can go below in the worst case over the model.

    Attributes
    ----------
    value : float
        The bound, l(ω/2)·η/2.
    eta : float
        η: no test between the two members of `modulus` has a smaller sum of error probabilities.
    radius_tv, radius_hellinger : float
        Within either radius, no test of two members has a sum of error probabilities below η.
    modulus : Modulus
        The larger of the two moduli ω at these radii, with the members that attain it.
    distance : {"tv", "hellinger"}
        Which of the two it is. "tv" means that privacy limits the precision, "hellinger" that the number of records does.
    """

    value: float
    eta: float
    radius_tv: float
    radius_hellinger: float
    modulus: Modulus
    distance: str


@dataclass(frozen=True, slots=True, eq=False)
class UpperBound:
    """A worst-case risk that some ε-private method attains: a binary channel with a binary search of tests.

    Attributes
    ----------
    value : float
        The bound, C0·l(ω(radius)).
    C0 : float
        (1 + 16a)·a^⌈2 ln C / ln 1.5⌉ with C = √(2 ln 2a) + 2 and the constant a of the loss.
    radius : float
        √2 (e^ε + 1)/((e^ε − 1)√n).
    modulus : Modulus
        The total variation modulus at this radius.
    """

    value: float
    C0: float
    radius: float
    modulus: Modulus


@dataclass(frozen=True, slots=True)
class _Distance:
    """One of the two distances that give a lower bound.

    Attributes
    ----------
    name : str
        Name of the distance.
    solve : callable
        Finds a pair within a radius.
    radius : callable
        Gives the radius for an η; vectorized.
    power : int
        The modulus is concave in radius^power.
    """

    name: str
    solve: Callable[[float], Pair]
    radius: Callable[[Any], Any]
    power: int


def lower_bound(model: Model, epsilon: float, *, n: int, loss: Loss | str = "squared") -> LowerBound:
    r"""Compute a worst-case risk that no ε-private method with n records can go below, with any channels and any estimator.

    Parameters
    ----------
    model : Model
        The model and its functional.
    epsilon : float
        Privacy loss of one record, in [2^−20, 700].
    n : int
        Number of records, in [1, 2^53].
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error. The risk is the expected loss.

    Returns
    -------
    LowerBound
        η/2·l(½ max(ω_H(r_H), ω_TV(r_TV))), maximized over η ∈ (0, 1). It is valid for every η, so also for the one found.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    The bound holds for sequentially interactive channels (Definition 1.9). r_TV = (1 − η)/(min(√2, e^ε/√2)(e^ε − 1)√n) comes from
    inequality (2.3.5); for ε < ln 2 it is larger than the radius printed in Korollar 3.4. r_H = √(2(1 − η0^{1/(2n)})) with
    η0 = η(2 − η) comes from the proof of Satz 3.3; Korollar 3.4 has the smaller √(η0\|ln η0\|/n). All numbers are rounded down: the
    moduli are attained by members of the model. If the conditions of a model leave no interior, members satisfy them to 1e-10 of their
    scale.
    Cost: about ten linear and ten conic programs; 0.2 s for 500 points.
    Source: Steinberger (2019), Korollar 3.4.

    Examples
    --------
    >>> from dpcore.minimax import Model, lower_bound
    >>> found = lower_bound(Model([0.0, 1.0]), 0.1, n=1000)
    >>> found.distance, f"{found.value:.4g}"
    ('tv', '0.002741')
    """
    n, epsilon, loss = _check(model, epsilon, n, loss)
    frame, model = model.frame, model.standard
    loss, power = loss.scaled(frame.exponent)
    factor = min(math.sqrt(2.0), math.exp(epsilon) / math.sqrt(2.0)) * math.expm1(epsilon) * math.sqrt(n)
    routes = (
        _Distance("tv", lambda radius: largest_difference_tv(model, radius), lambda eta: (1 - eta) / factor, 1),
        _Distance("hellinger", lambda radius: next(hellinger_pairs(model, radius, None)), lambda eta: _radius_hellinger(eta, n), 2),
    )
    value, eta, name = 0.0, 0.5, "tv"
    for route in routes:
        found, at = _best_eta(model, loss, route, value)
        if found > value:
            value, eta, name = found, at, route.name
    radii = [float(route.radius(eta)) * (1 - ROUNDING) for route in routes]
    modulus = modulus_tv(model, radii[0]) if name == "tv" else modulus_hellinger(model, radii[1])
    value = times_power_of_two(_risk(loss, eta, _safe(model, modulus.value)), power)
    return LowerBound(value, eta, radii[0], radii[1], modulus.in_units(frame), name)


def upper_bound(model: Model, epsilon: float, *, n: int, loss: Loss | str = "squared") -> UpperBound:
    r"""Compute a worst-case risk that some ε-private method with n records attains, by a theorem.

    Parameters
    ----------
    model : Model
        The model and its functional.
    epsilon : float
        Privacy loss of one record, in [2^−20, 700].
    n : int
        Number of records, in [1, 2^53].
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error. The risk is the expected loss.

    Returns
    -------
    UpperBound
        C0·l(ω_TV(√2 (e^ε + 1)/((e^ε − 1)√n))), rounded up.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.

    Notes
    -----
    The bound has the same rate in n as the lower bound, but a large constant. The `risk_bound` of a given estimator is far smaller.
    Cost: three linear programs; 0.05 s for 500 points.
    Source: Steinberger (2019), Satz 3.10 and Korollar 3.14.

    Examples
    --------
    >>> from dpcore.minimax import Model, upper_bound
    >>> found = upper_bound(Model([0.0, 1.0]), 1.0, n=10**9, loss="absolute")
    >>> f"{found.C0:.6g}", f"{found.value:.4g}"
    ('427.148', '0.04134')
    """
    n, epsilon, loss = _check(model, epsilon, n, loss)
    frame, model = model.frame, model.standard
    loss, power = loss.scaled(frame.exponent)
    radius = math.sqrt(2.0 / n) * expansion(epsilon) * (1 + ROUNDING)
    modulus = modulus_tv(model, radius)
    a = loss.constant
    C = math.sqrt(2 * math.log(2 * a)) + 2
    C0 = (1 + 16 * a) * a ** math.ceil(2 * math.log(C) / math.log(1.5))
    value = times_power_of_two(C0 * float(loss(max(modulus.upper, 0.0))) * (1 + ROUNDING), power)
    return UpperBound(value, C0, radius, modulus.in_units(frame))


def _check(model: object, epsilon: object, n: object, loss: Loss | str) -> tuple[int, float, Loss]:
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    return check_integer("n", n, low=1, high=MOST_RECORDS), check_epsilon(epsilon), as_loss(loss)


def _radius_hellinger(eta: Any, n: int) -> Any:
    """√(2(1 − η0^{1/(2n)})), η0 = η(2 − η): within this distance, no test of n open records has a sum of errors below η."""
    # η0 = 1 − (1 − η)², in a form that keeps the digits of its logarithm if η is near 1.
    return np.sqrt(-2 * np.expm1(np.log1p(-np.square(1 - eta)) / (2 * n)))


def _risk(loss: Loss, eta: Any, modulus: Any) -> Any:
    return eta / 2 * loss(modulus / 2) * (1 - ROUNDING)


def _safe(model: Model, value: float) -> float:
    """Round a modulus down by the solver's tolerance if its members could not be repaired."""
    if certified.has_inside(model):
        return value
    return max(value * (1 - ENOUGH) - 10 * TOLERANCE * float(np.abs(model.f).max()), 0.0)


def _best_eta(model: Model, loss: Loss, route: _Distance, floor: float) -> tuple[float, float]:
    """Find the largest bound for one distance and its η; (0, ½) if none exceeds the floor.

    The modulus is concave in a power of the radius, so its tangents at solved radii lie above it. The next η is the one for which the
    tangents allow the largest bound. The search ends when they allow nothing better.
    """
    places = np.asarray(route.radius(ETAS)) ** route.power
    above = np.full(len(ETAS), whole_range(model))
    best, at, index = floor, 0.5, len(ETAS) // 2
    for _ in range(MOST_PROGRAMS):
        pair = route.solve(float(route.radius(ETAS[index])) * (1 - ROUNDING))
        value = _risk(loss, ETAS[index], pair.value)
        if value > best:
            best, at = value, float(ETAS[index])
        above = np.minimum(above, pair.value + _steepness(pair, places[index], route.power) * (places - places[index]))
        possible = _risk(loss, ETAS, np.maximum(above, 0.0))
        index = int(possible.argmax())
        if possible[index] <= best * (1 + CLOSE):
            break
    return (best, at) if best > floor else (0.0, 0.5)


def _steepness(pair: Pair, place: float, power: int) -> float:
    """Return the derivative of the modulus in radius^power."""
    return pair.slope if power == 1 else pair.slope / math.sqrt(place)
