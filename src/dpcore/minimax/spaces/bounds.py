"""A worst-case risk that some ε-private method attains, by a theorem."""

from __future__ import annotations

import math

from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer
from dpcore.errors import ParameterTypeError
from dpcore.local._one_bit import expansion
from dpcore.local._parameters import check_epsilon
from dpcore.minimax.losses import Loss, as_loss
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import (
    Modulus,
    modulus_tv,
)
from dpcore.minimax.spaces.products import MOST_RECORDS

ROUNDING = 1e-12
"""An allowance for rounding, far larger than the rounding errors of the formulas."""


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
    n, epsilon, loss = check_problem(model, epsilon, n, loss)
    frame, model = model.frame, model.standard
    loss, power = loss.scaled(frame.exponent)
    radius = math.sqrt(2.0 / n) * expansion(epsilon) * (1 + ROUNDING)
    modulus = modulus_tv(model, radius)
    C0 = constant_of_risk(loss)
    value = times_power_of_two(C0 * float(loss(max(modulus.upper, 0.0))) * (1 + ROUNDING), power)
    return UpperBound(value, C0, radius, modulus.in_units(frame))


def constant_of_risk(loss: Loss) -> float:
    """Return C0 of Satz 3.10: (1 + 16a)·a^⌈2 ln C / ln 1.5⌉ with C = √(2 ln 2a) + 2 and the constant a of the loss."""
    a = loss.constant
    C = math.sqrt(2 * math.log(2 * a)) + 2
    return float((1 + 16 * a) * a ** math.ceil(2 * math.log(C) / math.log(1.5)))


def check_problem(model: object, epsilon: object, n: object, loss: Loss | str) -> tuple[int, float, Loss]:
    """Return n, ε and the loss, checked."""
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    return check_integer("n", n, low=1, high=MOST_RECORDS), check_epsilon(epsilon), as_loss(loss)
