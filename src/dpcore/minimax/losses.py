"""Regular losses of an estimation error: l(0) = 0, not decreasing, and l(3t/2) ≤ a·l(t) with a constant a > 1.

Source: Steinberger (2019), Definition 3.9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcore._validation import REAL_DTYPES, check_array, check_choice, check_positive, check_real
from dpcore.errors import ParameterError, ParameterTypeError

LARGEST_POWER = 64.0
KINDS = ("power", "huber")


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss l of the absolute error t ≥ 0; `absolute`, `squared`, `huber` and `power` make them.

    Parameters
    ----------
    kind : {"power", "huber"}
        t^r, or Huber's loss.
    parameter : float
        r in (0, 64], or Huber's γ > 0.

    Attributes
    ----------
    constant : float
        The least a with l(3t/2) ≤ a·l(t) for all t: (3/2)^r, and 9/4 for Huber's.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.squared()([0.0, 0.5, 2.0]).tolist(), losses.huber(1.0)(2.0), losses.power(3).constant
    ([0.0, 0.25, 4.0], 1.5, 3.375)
    """

    kind: str
    parameter: float

    def __post_init__(self) -> None:
        if check_choice("kind", self.kind, KINDS) == "power":
            value = check_real("r", self.parameter, low=0.0, high=LARGEST_POWER, include_low=False)
        else:
            value = check_positive("gamma", self.parameter)
        object.__setattr__(self, "parameter", value)

    @property
    def constant(self) -> float:
        """The least a with l(3t/2) ≤ a·l(t) for all t ≥ 0, rounded up where it is no float."""
        if self.kind == "huber":
            return 2.25
        power = float(1.5**self.parameter)
        # Up to r = 33, 3^r and 2^r are integers that float64 holds, so the quotient is exact.
        return power if self.parameter == round(self.parameter) and self.parameter <= 33 else math.nextafter(power, math.inf)

    def scaled(self, exponent: int) -> tuple[Loss, float]:
        """Give the loss l' and the power r with l(2^exponent·t) = 2^r·l'(t)."""
        if self.kind == "power":
            return self, self.parameter * exponent
        # Beyond these γ the loss of any error is t²/2, or γt, to the last digit.
        gamma = math.ldexp(self.parameter, max(min(-exponent, 1000 - math.frexp(self.parameter)[1]), -1000 - math.frexp(self.parameter)[1]))
        return Loss("huber", gamma), 2.0 * exponent

    def __call__(self, t: Any) -> Any:
        """Evaluate the loss.

        Parameters
        ----------
        t : array_like of float
            Absolute errors ≥ 0.

        Returns
        -------
        float or ndarray of float64, of the shape of `t`

        Raises
        ------
        ParameterError, ParameterTypeError
            If a number is negative or NaN.
        """
        errors = check_array("t", t, REAL_DTYPES).astype(np.float64, copy=False)
        if not (errors >= 0).all():
            raise ParameterError("t must hold absolute errors, numbers ≥ 0, and holds others")
        result = _huber(errors, self.parameter) if self.kind == "huber" else _power(errors, self.parameter)
        return float(result) if np.ndim(result) == 0 else result


def _power(t: Any, r: float) -> Any:
    if r == 1.0:
        return t.copy()
    with np.errstate(over="ignore"):
        return np.square(t) if r == 2.0 else t**r


def _huber(t: Any, gamma: float) -> Any:
    inner = np.minimum(t, gamma)
    with np.errstate(over="ignore"):
        # t²/2 up to γ and γ(t − γ/2) from there on, in one formula
        return inner * (t - inner / 2)


def absolute() -> Loss:
    """l(t) = t, a = 3/2.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.absolute().constant
    1.5
    """
    return Loss("power", 1.0)


def squared() -> Loss:
    """l(t) = t², a = 9/4.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.squared().constant
    2.25
    """
    return Loss("power", 2.0)


def power(r: float) -> Loss:
    """l(t) = t^r, a = (3/2)^r.

    Parameters
    ----------
    r : float
        In (0, 64].

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.power(0.5)(4.0)
    2.0
    """
    return Loss("power", r)


def huber(gamma: float) -> Loss:
    """Huber's loss: t²/2 for t ≤ γ, γ(t − γ/2) beyond; a = 9/4.

    Parameters
    ----------
    gamma : float
        Where the square ends, γ > 0.

    Notes
    -----
    Source: Steinberger (2019), Aufgabe 3.2.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.huber(2.0)([1.0, 2.0, 3.0]).tolist()
    [0.5, 2.0, 4.0]
    """
    return Loss("huber", gamma)


def as_loss(loss: Loss | str) -> Loss:
    """Give the loss that a word stands for.

    Parameters
    ----------
    loss : Loss or {"absolute", "squared"}
        A loss, or the name of one.

    Returns
    -------
    Loss

    Raises
    ------
    ParameterError, ParameterTypeError
        If it is neither.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.as_loss("squared") == losses.power(2.0)
    True
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise ParameterTypeError(f"loss must be a Loss or one of 'absolute', 'squared', got {loss!r}")
    return absolute() if check_choice("loss", loss, ("absolute", "squared")) == "absolute" else squared()


def loss_constant(loss: Loss | str) -> float:
    """Give the regularity constant a of a loss: l(3t/2) ≤ a·l(t).

    Parameters
    ----------
    loss : Loss or {"absolute", "squared"}
        A loss, or the name of one.

    Returns
    -------
    float
        3/2 for the absolute loss, 9/4 for the squared one and Huber's, (3/2)^r for t^r.

    Raises
    ------
    ParameterError, ParameterTypeError
        If it is no loss.

    Examples
    --------
    >>> from dpcore.minimax import loss_constant
    >>> loss_constant("absolute"), loss_constant("squared")
    (1.5, 2.25)
    """
    return as_loss(loss).constant
