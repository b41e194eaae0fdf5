"""Tails of exact noise, alone and together with the spread of bounded records: p-values and half-widths of intervals of sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcore._spread import chernoff_width, log_moments, tail_of, tail_width
from dpcore.errors import ParameterError
from dpcore.noise import default_grid

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]
    Law = Literal["gaussian", "laplace"]

UP = 1 + 1e-9
"""More than all roundings of a tail."""
Target = Literal["sample", "population"]
TARGETS = ("sample", "population")
_SLOPES = np.concatenate([np.geomspace(2.0**-40, 0.5, 4096), 1 - np.geomspace(0.5, 2.0**-20, 1024)[1:]])
_MOST_GROWTH = 1e300
"""Growths above this count as this, so that their differences are finite; their exponents prove nothing."""


def check_target(target: Target) -> Target:
    """Return what an interval or a p-value is about, else raise."""
    if target not in TARGETS:
        raise ParameterError(f"target must be 'sample' or 'population', got {target!r}")
    return target


def laplace_tail(y: npt.ArrayLike) -> Array:
    """P(L ≥ y) for Laplace noise of scale 1, rounded up."""
    at = np.asarray(y, np.float64)
    far = 0.5 * np.exp(-np.abs(at))
    return np.minimum(np.where(at >= 0, far, 1 - far) * UP, 1.0)


def noise_p_value(law: Law, scale: float, apart: npt.ArrayLike) -> Array:
    """P(|noise| ≥ apart) for noise of this law, rounding to its grid included."""
    from scipy import special

    y = np.maximum(np.asarray(apart, np.float64) - default_grid(scale) / 2, 0.0) / scale
    found = np.exp(-y) if law == "laplace" else special.erfc(y / math.sqrt(2.0))
    return np.minimum(found * UP + 2.0**-1000, 1.0)


def sum_p_value(law: Law, scale: float, apart: npt.ArrayLike, *, n: int, radius: float) -> Array:
    """Bound P(|Σ(X − E X) + noise| ≥ apart) for n independent X in [−R, R].

    Hoeffding: ln E e^(t(X − EX)) ≤ t²R²/2, and the noise has exponential moments, so that Chernoff's bound holds for the sum of both.
    """
    y = np.maximum(np.asarray(apart, np.float64) - default_grid(scale) / 2, 0.0)
    with np.errstate(over="ignore"):  # what leaves the range is a tail of 0, or a slope that is not chosen
        if law == "gaussian":
            logs = -((y / math.hypot(scale, radius * math.sqrt(n))) ** 2) / 2
        else:
            logs = _least_exponent(y / scale, n, radius / scale)
    return np.minimum(2 * np.exp(np.minimum(logs, 0.0)) * UP + 2.0**-1000, 1.0)


def _least_exponent(t: Array, n: int, radius: float) -> Array:
    """The least growth(s) − s·t over the slopes, for noise of scale 1.

    The growth is convex in s, so the least is where the chords of the growth become steeper than t. Any other slope has a valid exponent
    as well, so roundings of the chords do no harm.
    """
    growth = np.minimum(n * (_SLOPES * radius) ** 2 / 2 + log_moments("laplace", 1.0, _SLOPES), _MOST_GROWTH)
    place = np.searchsorted(np.diff(growth) / np.diff(_SLOPES), t)
    return np.asarray(growth[place] - _SLOPES[place] * t)


def sum_width(law: Law, scale: float, confidence: float, *, n: int, radius: float) -> float:
    """The half-width that belongs to `sum_p_value`."""
    tail, slack = tail_of(confidence), default_grid(scale) / 2
    if law == "gaussian":
        return math.sqrt(2 * math.log(2 / tail)) * math.hypot(scale, radius * math.sqrt(n)) * UP + slack

    def log_moment(s: Array) -> Array:
        return n * (s / scale * radius) ** 2 / 2 + log_moments("laplace", scale, s)

    with np.errstate(over="ignore"):  # the least of the bounds is finite
        return chernoff_width(log_moment, tail / 2, scale) + slack


def half_width_of(law: Law, scale: float, confidence: float, target: str, *, n: int, radius: float) -> float:
    """The half-width of the interval of a sum of n records in [−R, R], of the sample's or n times the population's mean."""
    if target == "sample":
        return tail_width(law, scale, tail_of(confidence))
    return sum_width(law, scale, confidence, n=n, radius=radius)
