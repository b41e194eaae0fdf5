"""Parameters that the estimators share."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy.typing as npt

from dpcore._exact.intervals import log_up
from dpcore._validation import REAL_DTYPES, check_array, check_positive, check_real
from dpcore.errors import ParameterError
from dpcore.sums import LARGEST_BOUND, SMALLEST_BOUND

Radius = float | Literal["sqrt_log_n"]

MOST_RECORDS = 2**50


def check_records(name: str, x: npt.ArrayLike, *dimensions: int) -> npt.NDArray[Any]:
    """Return data as an array of at least one record in one of these numbers of dimensions, else raise."""
    array = check_array(name, x, REAL_DTYPES)
    if array.ndim not in dimensions:
        shapes = " or ".join({1: "(n,)", 2: "(n, d)"}[d] for d in dimensions)
        raise ParameterError(f"{name} must have shape {shapes}, got {array.ndim} dimensions")
    if not 1 <= len(array) <= MOST_RECORDS:
        raise ParameterError(f"{name} must hold at least one record, got shape {array.shape}")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ParameterError(f"{name} must have at least one column, got shape {array.shape}")
    return array


def check_failure(delta: object) -> float:
    """Return δ in [0, 1), else raise."""
    return check_real("delta", delta, low=0.0, high=1.0, include_high=False)


def clipping_radius(radius: object, sigma: float | None, constant: float, n: int) -> float:
    """The radius itself, or K·σ·√(ln n) for "sqrt_log_n"."""
    if isinstance(radius, str):
        if radius != "sqrt_log_n":
            raise ParameterError(f"radius must be a number or 'sqrt_log_n', got {radius!r}")
        if sigma is None:
            raise ParameterError("sigma must be given for radius='sqrt_log_n', got None")
        if n < 2:
            raise ParameterError(f"radius='sqrt_log_n' must have at least two records, as ln 1 = 0, got {n}")
        radius = check_positive("constant", constant) * sigma * math.sqrt(log_up(n))
    return check_real("radius", radius, low=SMALLEST_BOUND, high=LARGEST_BOUND)


def check_sigma(sigma: object) -> float | None:
    """Return a sub-Gaussian parameter, or None for none; else raise."""
    return None if sigma is None else check_real("sigma", sigma, low=SMALLEST_BOUND, high=LARGEST_BOUND)


def l2_of_equal(bound: float, d: int) -> float:
    """The smallest float64 ≥ bound·√d: ℓ2 sensitivity of d coordinates that move by `bound` each."""
    root, square = bound * math.sqrt(d), Fraction(bound) ** 2 * d
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(lower := math.nextafter(root, 0.0)) ** 2 >= square:
        root = lower
    return root
