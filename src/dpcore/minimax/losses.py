"""Losses as functions of the size t of an error.

A loss l is regular if l(0) = 0, if it does not decrease, and if l(3t/2) ≤ a·l(t) for some constant a > 1. All losses of this module are.

Source: Steinberger (2019), Definition 3.9.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_choice, check_positive, check_real
from dpcore.errors import ParameterError, ParameterTypeError

__all__ = ["Loss", "absolute", "as_loss", "huber", "loss_constant", "power", "squared"]

Real: TypeAlias = float | int | np.floating[Any] | np.integer[Any]
Array: TypeAlias = npt.NDArray[np.float64]
LARGEST_POWER = 64.0
KINDS = ("power", "huber")


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss l(t) of an absolute error t ≥ 0.

    Use `absolute`, `squared`, `huber` or `power` to make one.

    Parameters
    ----------
    kind : {"power", "huber"}
        The form: t^r, or Huber's loss.
    parameter : float
        r in (0, 64], or Huber's γ > 0.

    Attributes
    ----------
    constant : float
        The smallest a with l(3t/2) ≤ a·l(t) for all t: (3/2)^r, and 9/4 for Huber's loss.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

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
        """The smallest a with l(3t/2) ≤ a·l(t) for all t ≥ 0, rounded up if float64 cannot hold it."""
        if self.kind == "huber":
            return 2.25
        power = float(1.5**self.parameter)
        # Up to r = 33, float64 holds 3^r and 2^r, so the quotient is exact.
        return power if self.parameter == round(self.parameter) and self.parameter <= 33 else math.nextafter(power, math.inf)

    def scaled(self, exponent: int) -> tuple[Loss, float]:
        """Express the loss in another unit: l(2^exponent·t) = 2^r·l'(t).

        Parameters
        ----------
        exponent : int
            The new unit is 2^exponent.

        Returns
        -------
        tuple of Loss and float
            l' and r.
        """
        if self.kind == "power":
            return self, self.parameter * exponent
        # Outside this range of γ, the loss equals t²/2 or γt to the last digit; a larger γ is then made up for by the factor.
        own = math.frexp(self.parameter)[1]
        shift = max(min(-exponent, 1000 - own), -1000 - own)
        return Loss("huber", math.ldexp(self.parameter, shift)), 2.0 * exponent - max(shift + exponent, 0)

    @overload
    def __call__(self, t: Real) -> float: ...
    @overload
    def __call__(self, t: npt.ArrayLike) -> Array: ...
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
            If a number is negative or NaN, or `t` has the wrong type.
        """
        errors = check_array("t", t, REAL_DTYPES).astype(np.float64, copy=False)
        if not (errors >= 0).all():
            raise ParameterError("t must hold absolute errors: every number must be ≥ 0 and not NaN")
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
        # t²/2 up to γ and γ(t − γ/2) beyond, in one formula
        return inner * (t - inner / 2)


def absolute() -> Loss:
    """The absolute error as a loss, l(t) = t.

    Returns
    -------
    Loss
        Its constant a is 3/2.

    Raises
    ------
    Nothing.

    Notes
    -----
    Cost: less than a microsecond.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.absolute().constant
    1.5
    """
    return Loss("power", 1.0)


def squared() -> Loss:
    """The squared error as a loss, l(t) = t².

    Returns
    -------
    Loss
        Its constant a is 9/4.

    Raises
    ------
    Nothing.

    Notes
    -----
    Cost: less than a microsecond.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.squared().constant
    2.25
    """
    return Loss("power", 2.0)


def power(r: float) -> Loss:
    """A power of the absolute error as a loss, l(t) = t^r.

    Parameters
    ----------
    r : float
        The power, in (0, 64].

    Returns
    -------
    Loss
        Its constant a is (3/2)^r.

    Raises
    ------
    ParameterError, ParameterTypeError
        If `r` is outside its range or not a number.

    Notes
    -----
    Cost: less than a microsecond.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.power(0.5)(4.0)
    2.0
    """
    return Loss("power", r)


def huber(gamma: float) -> Loss:
    """Huber's loss: t²/2 for t ≤ γ, and γ(t − γ/2) beyond.

    Parameters
    ----------
    gamma : float
        γ > 0, where the loss changes from quadratic to linear.

    Returns
    -------
    Loss
        Its constant a is 9/4.

    Raises
    ------
    ParameterError, ParameterTypeError
        If `gamma` is outside its range or not a number.

    Notes
    -----
    Cost: less than a microsecond.
    Source: Steinberger (2019), Aufgabe 3.2.

    Examples
    --------
    >>> from dpcore.minimax import losses
    >>> losses.huber(2.0)([1.0, 2.0, 3.0]).tolist()
    [0.5, 2.0, 4.0]
    """
    return Loss("huber", gamma)


def as_loss(loss: Loss | str) -> Loss:
    """Turn the name of a loss into the loss.

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
        If `loss` is neither.

    Notes
    -----
    Cost: less than a microsecond.

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
    """Return the constant a of a loss, with l(3t/2) ≤ a·l(t) for all t.

    Parameters
    ----------
    loss : Loss or {"absolute", "squared"}
        A loss, or the name of one.

    Returns
    -------
    float
        3/2 for absolute loss, 9/4 for squared loss and Huber's, (3/2)^r for t^r.

    Raises
    ------
    ParameterError, ParameterTypeError
        If `loss` is neither a loss nor the name of one.

    Notes
    -----
    Cost: less than a microsecond.

    Examples
    --------
    >>> from dpcore.minimax import loss_constant
    >>> loss_constant("absolute"), loss_constant("squared")
    (1.5, 2.25)
    """
    return as_loss(loss).constant


def __dir__() -> list[str]:
    return __all__


def loss_of(loss: Loss, square: float, reach: float) -> float:
    r"""Bound E l(\|e\|) for an error with E e² ≤ square and \|e\| ≤ reach.

    Parameters
    ----------
    loss : Loss
        The loss.
    square, reach : float
        Bounds of the mean square error and of the largest error.

    Returns
    -------
    float
        l(√square) by Jensen's inequality if l is a concave function of the square, as Huber's and t^r with r ≤ 2 are; otherwise
        reach^{r−2}·square.
    """
    if loss == squared():
        return square
    if loss.kind == "huber" or loss.parameter <= 2:
        return float(loss(math.sqrt(square))) * (1 + 2.0**-48)
    with np.errstate(over="ignore"):
        return float(np.float64(reach) ** (loss.parameter - 2) * square * (1 + 2.0**-40)) if square > 0 else 0.0
