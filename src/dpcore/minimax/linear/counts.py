"""Counts of one-bit reports and what follows from them, for the linear estimators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._validation import INTEGER_DTYPES, check_array
from dpcore.errors import DataError
from dpcore.minimax.losses import squared
from dpcore.minimax.programs.frames import Frame
from dpcore.minimax.spaces.inversion import count_intervals, rejected_share
from dpcore.minimax.spaces.polygon import ROUNDING, Polygon

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.local import BinaryChannel
    from dpcore.minimax.losses import Loss

    Array = npt.NDArray[np.float64]

CELLS = 4096
"""Number of cells of the integral that bounds a risk."""


def biased_region(channel: BinaryChannel, center: float, bias: float) -> tuple[Polygon, Frame]:
    r"""Return the pairs (θ, P(+z0)) with \|θ − center − E ℓ\| ≤ bias and \|E ℓ\| ≤ bound, in units in which θ is within [−1, 1]."""
    norm, z0 = channel.norm, channel.z0
    frame = Frame(center, math.frexp(norm + bias)[1])
    half, tilt = frame.standard_difference(norm + bias), norm / (2 * z0)
    # x in [0, 1] is θ and y in [0, 1] is E ℓ, each between its bounds: 0 ≤ x − slope·y ≤ 1 − slope
    slope = norm / (norm + bias)
    normals = np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0], [1.0, -slope], [-1.0, slope]])
    lengths = np.hypot(*normals.T)
    supports = np.array([0.0, 0.0, 1.0, 1.0, bias / (norm + bias), 0.0]) / lengths + ROUNDING
    nothing = np.zeros((0, 2))
    sides = np.array([-half, 0.5 - tilt]), np.array([2 * half, 2 * tilt])
    return Polygon(*sides, normals / lengths[:, None], supports, nothing, nothing), frame


def inverted(polygon: Polygon, frame: Frame, counts: Any, n: int, confidence: float) -> Array:
    """Return intervals of θ from counts of +z0, whose law is binomial with a (θ, P(+z0)) in the polygon."""
    plus = plus_counts(counts, n)
    found = count_intervals(polygon, n, plus.reshape(-1), rejected_share(confidence))
    return frame.intervals_outwards(found.reshape((*plus.shape, 2)))


def plus_counts(counts: Any, n: int) -> npt.NDArray[np.int64]:
    """Return the counts of +z0 as int64, shape (...), or raise if they are not valid."""
    array = check_array("counts", counts, INTEGER_DTYPES)
    pairs = array.ndim > 1 and array.shape[-1] == 2
    plus = array[..., 1] if pairs else array
    bad = (plus < 0) | (plus > n)
    if pairs:
        bad |= array[..., 0] != n - plus.astype(np.int64)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(f"counts must be in [0, {n}] and sum to {n}; those at index {index} do not")
    return plus.astype(np.int64)


def mean_of_signs(plus: npt.NDArray[np.int64], n: int, z0: float) -> Any:
    """Return the mean of n reports ±z0, of which `plus` are +z0."""
    means = z0 * ((2 * plus - n) / n)
    return float(means) if means.ndim == 0 else means


def exact_difference(center: float, weights: Array, f: Array) -> tuple[Array, float]:
    """Return center + weights − f, and a bound of the rounding that is left: 0 if there is none.

    Center and f may be far from 0 and near each other, so what the first sum loses is carried along (Knuth's two-sum).
    """
    total = center + weights
    back = total - center
    lost = (center - (total - back)) + (weights - back)
    difference = total - f
    back = difference - total
    rest = (total - (difference - back)) - (f + back) + lost
    whole: Array = difference + rest
    left = 2.0**-51 * np.abs(whole).max() + 2.0**-100 * (abs(center) + np.abs(f).max())
    return whole, float(left) if rest.any() else 0.0


def risk_of(loss: Loss, bias: float, spread: float, reach: float) -> float:
    r"""Bound E l(\|e\|) for an error e = b + Y with \|b\| ≤ bias, where Y is a mean of reports ±z0 minus its expectation.

    Parameters
    ----------
    loss : Loss
        Not decreasing.
    bias : float
        Bound of b.
    spread : float
        z0/√n, a bound of the standard deviation of Y.
    reach : float
        2 z0, a bound of \|Y\|.

    Returns
    -------
    float
        bias² + spread² for squared loss. For other losses the smaller of two bounds: l(√(bias² + spread²)) by Jensen's inequality, if l is
        a concave function of the square; and ∫ P(\|Y\| > y) dl(bias + y) with Hoeffding's P(\|Y\| > y) ≤ 2 exp(−y²/(2 spread²)), where
        the integral is an upper sum.
    """
    if loss == squared():
        return bias * bias + spread * spread  # infinite beyond float64, where a power raises
    steps = np.append(np.linspace(0.0, min(40 * spread, reach), CELLS), reach)
    tails = np.minimum(1.0, 2 * np.exp(-((steps[:-1] / spread) ** 2) / 2))
    values = np.asarray(loss(bias + steps), np.float64)
    bound = float(values[0] + tails @ np.diff(values)) * (1 + 1e-12)
    return min(bound, float(loss(math.hypot(bias, spread)))) if loss.kind == "huber" or loss.parameter <= 2 else bound
