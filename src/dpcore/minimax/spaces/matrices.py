"""Checks of distributions and channels on finite spaces."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._validation import REAL_DTYPES, check_array
from dpcore.errors import ParameterError, ParameterTypeError

Array = npt.NDArray[np.float64]
SLACK = 1e-9
"""Tolerance of a sum of masses, per mass."""


def check_distributions(name: str, value: Any) -> Array:
    """Return distributions as float64 (..., X): masses ≥ 0 whose sums along the last axis are 1 within 1e-9·X."""
    masses = check_array(name, value, REAL_DTYPES).astype(np.float64, copy=False)
    if masses.ndim < 1 or masses.shape[-1] < 1:
        raise ParameterError(f"{name} must have at least one mass along its last axis, got shape {masses.shape}")
    _refuse(name, "masses ≥ 0", ~(masses >= 0))
    width = masses.shape[-1]
    _refuse(
        name, f"masses that sum to 1 within {SLACK * width:.1e} along the last axis", ~(np.abs(masses.sum(axis=-1) - 1) <= SLACK * width)
    )
    return masses


def _refuse(name: str, what: str, bad: npt.NDArray[np.bool_]) -> None:
    if bad.any():
        where = f" at index {tuple(int(i) for i in np.argwhere(bad)[0])}" if bad.ndim else ""
        raise ParameterError(f"{name} must have {what}, which it does not{where}")


def channel_matrix(channel: Any, points: Any = None) -> Array:
    """Return the matrix of a channel, one row of outcome probabilities for each input.

    Parameters
    ----------
    channel : array_like of float, shape (X, K), or object with `channel`
        A matrix, a mechanism of `dpcore.local`, or an object with such an attribute `channel`.
    points : array_like, optional
        Inputs at which a mechanism's `channel` is evaluated, if it takes any.

    Returns
    -------
    ndarray of float64, shape (X, K)
    """
    inner = getattr(channel, "channel", None)
    if inner is not None and not callable(inner):
        return channel_matrix(inner, points)
    matrix = check_distributions("channel", channel if inner is None else _rows(channel, inner, points))
    if matrix.ndim != 2:
        raise ParameterError(f"channel must be a matrix, one row of probabilities for each point, got shape {matrix.shape}")
    return matrix


def _rows(channel: Any, inner: Any, points: Any) -> Any:
    parameters = inspect.signature(inner).parameters
    if points is not None and "points" in parameters and not isinstance(getattr(channel, "phi", None), tuple):
        return inner(points)
    if any(parameter.default is inspect.Parameter.empty for parameter in parameters.values()):
        raise ParameterTypeError(
            f"channel must be known at the points of the model, but {type(channel).__name__}.channel needs {', '.join(parameters)}; "
            "give the model `points`, or pass the matrix"
        )
    return inner()


def check_inputs(matrix: Array, size: int) -> Array:
    """Return the channel if it has `size` rows, else raise."""
    if len(matrix) != size:
        raise ParameterError(f"channel must have {size} rows, one for each point, got {len(matrix)}")
    return matrix


def plain(result: Any) -> Any:
    """Return a number as a Python float, and an array as float64."""
    return float(result) if np.ndim(result) == 0 else np.asarray(result, np.float64)
