"""Channels whose reports are real numbers: densities that obey the bound of privacy at every report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax.spaces.matrices import Array, channel_matrix


@dataclass(frozen=True, slots=True)
class DensityLevel:
    """The largest log-ratio of densities of a report.

    Attributes
    ----------
    value : float
        The largest ln q(z|x)/q(z|x') that was found. A mechanism with these densities is not ε-private for a smaller ε, up to the rounding
        of the densities.
    upper : float
        No log-ratio at a report between the first and the last of `outputs`, for two of `inputs`, is larger; ∞ if `slope` is not given.
    x, other : float or ndarray
        The inputs x and x'.
    z : float
        The report.
    """

    value: float
    upper: float
    x: Any
    other: Any
    z: float


def channel_densities(channel: Any, *, reference: int = 0) -> Array:
    r"""Return densities of a private channel with respect to the law of one input, which obey q(z\|x) ≤ e^ε q(z\|x') at every report z.

    Parameters
    ----------
    channel : array_like of float, shape (X, K), or a mechanism with `channel`
        Row x holds the probabilities of the outcomes for input x.
    reference : int, default 0
        The input x* whose law is the measure, in [0, X − 1].

    Returns
    -------
    ndarray of float64, shape (X, K)
        q(z\|x) = Q(z\|x)/Q(z\|x*), and 1 for reports that x* excludes: the channel is private, so all inputs exclude them.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a row is not a distribution, `reference` is out of range, or an outcome is possible for one input and impossible for another, so
        that the channel is not private.

    Notes
    -----
    Every density lies in [e^−ε, e^ε]. Densities are fixed up to null sets only; the value 1 there makes the bound hold everywhere.
    Cost: X·K divisions.
    Source: Steinberger (2019), Satz 1.12 and Aufgabe 2.4.

    Examples
    --------
    >>> from dpcore.local import KaryResponse
    >>> from dpcore.minimax import channel_densities
    >>> channel_densities(KaryResponse(1.0, k=3)).round(3).tolist()
    [[1.0, 1.0, 1.0], [0.368, 2.718, 1.0], [0.368, 1.0, 2.718]]
    """
    matrix = channel_matrix(channel)
    reference = check_integer("reference", reference, low=0, high=len(matrix) - 1)
    possible = matrix > 0
    if (possible.any(axis=0) != possible.all(axis=0)).any():
        raise ParameterError("channel must be private: an outcome is possible for one input and impossible for another")
    measure = np.where(possible[reference], matrix[reference], 1.0)
    with np.errstate(over="ignore"):
        densities = np.where(possible, matrix / measure, 1.0)
    beyond = ~np.isfinite(densities)
    if beyond.any():
        x, z = (int(i) for i in np.argwhere(beyond)[0])
        raise ParameterError(
            f"channel must be ε-private with ε ≤ 709, so that its densities are finite; that of input {x} at outcome {z} is not"
        )
    return densities


def density_level(
    density: Callable[[npt.NDArray[np.float64], Any], npt.ArrayLike], *, inputs: Any, outputs: Any, slope: float | None = None
) -> DensityLevel:
    r"""Check densities of a report, q(z\|x) ≤ e^ε q(z\|x'), and return the smallest ε for which they hold at the given reports.

    Parameters
    ----------
    density : callable
        Takes reports z, shape (Z,), and one input x, and returns the logarithms of their densities, ln q(z\|x), shape (Z,); −∞ where
        the density is 0. Any measure will do, the same for all x.
    inputs : array_like, shape (X,) or (X, d)
        Inputs x.
    outputs : array_like of float, shape (Z,)
        Reports at which the densities are compared, in any order.
    slope : float, optional
        A number that you can prove: ln q(z\|x) − ln q(z\|x') changes by at most slope·\|z − z'\|. With it, `upper` holds between the
        smallest and the largest of `outputs`.

    Returns
    -------
    DensityLevel
        The largest log-ratio, with the inputs and the report that attain it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is of the wrong type or shape, or a logarithm is NaN or +∞.

    Notes
    -----
    A channel on ℝ^m is ε-private exactly if it has densities with q(z\|x) ≤ e^ε q(z\|x') for every z. So a value above ε is a proof that
    densities which are continuous in z do not belong to an ε-private channel. A value of ε or less does not cover reports between the
    given ones unless you give `slope`.
    Cost: X calls of `density`.
    Source: Steinberger (2019), Satz 1.12.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import density_level
    >>> laplace = lambda z, x: -0.5 * np.abs(z - np.clip(x, -1, 1))  # of scale 2, ε = 1 for numbers in [−1, 1]
    >>> found = density_level(laplace, inputs=[-3.0, -1.0, 0.5, 1.0], outputs=np.linspace(-4, 4, 81), slope=1.0)
    >>> round(found.value, 12), round(found.upper, 12)
    (1.0, 1.05)
    """
    if not callable(density):
        raise ParameterTypeError(f"density must be a function density(z, x), got {type(density).__name__}")
    z = np.sort(check_array("outputs", outputs, REAL_DTYPES).astype(np.float64, copy=False))
    records = np.asarray(inputs)
    if z.ndim != 1 or len(z) < 1 or not np.isfinite(z).all():
        raise ParameterError(f"outputs must be a vector of at least one finite number, got shape {z.shape}")
    if records.ndim < 1 or len(records) < 1:
        raise ParameterError(f"inputs must have at least one input along its first axis, got shape {records.shape}")
    logs = np.stack([_logarithms(density, z, x) for x in records])
    low, high = logs.min(axis=0), logs.max(axis=0)
    with np.errstate(invalid="ignore"):
        ratios = np.where(high == -np.inf, 0.0, high - low)
    place = int(ratios.argmax())
    value = float(ratios[place])
    upper = math.inf
    if slope is not None:
        slope = check_real("slope", slope, low=0.0, high=math.inf, include_high=False)
        upper = value + slope * float(np.diff(z).max(initial=0.0)) / 2
    return DensityLevel(value, upper, records[int(logs[:, place].argmax())], records[int(logs[:, place].argmin())], float(z[place]))


def _logarithms(density: Any, z: Array, x: Any) -> Array:
    found = check_array("density", density(z, x), REAL_DTYPES).astype(np.float64)
    if found.shape != z.shape:
        raise ParameterError(f"density must return one logarithm for each report, shape {z.shape}, got shape {found.shape}")
    if np.isnan(found).any() or (found == np.inf).any():
        raise ParameterError(f"density must return numbers below infinity, which it does not at report {int(np.argmax(~(found < np.inf)))}")
    return found
