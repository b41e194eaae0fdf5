"""Intervals of quotients of noisy numbers, which cover about as often as they say: by the noise of numerator − ratio·denominator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.noise import default_grid
from dpcore.query.noise import half_width_of, norm, unit_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.query.noise import Array, IntegerNoise, RealNoise

FEWER = 0.02
"""Part of an error probability that goes to there being fewer rows than the noise is divided by."""
_UP = 1 + 1e-9
"""More than all roundings of a width."""
_STEPS, _HALVINGS = 4, 6
"""How often an end of an interval is moved inwards; each result is valid."""


def combined_width(one: IntegerNoise | RealNoise, other: IntegerNoise | RealNoise, weights: tuple[Any, Any], beta: float) -> Array:
    r"""Numbers h with P(|v·A − w·B| > h) ≤ β, A and B independent noise of one family and weights v, w ≥ 0.

    Discrete noise is a continuous number of the same law and scale, moved by at most `_moved` (docs/exactness.md, Intervals of quotients);
    beside continuous noise half of that suffices.
    The widths of both alone, each with half of β, are a bound as well, and a smaller one where noise is less than a row.
    """
    v, w = (np.asarray(weight, np.float64) for weight in weights)
    if isinstance(one, Gaussian | DiscreteGaussian):
        joint = unit_width("gaussian", beta) * norm(v * one.scale, w * other.scale)
    else:
        joint = _laplace_pair(v * one.scale, w * other.scale, beta)
    alone = v * float(half_width_of(one, beta / 2)) + w * float(half_width_of(other, beta / 2))
    moved = v * _moved(one) + w * _moved(other) * (0.5 if isinstance(one, Laplace | Gaussian) else 1.0)
    return np.asarray(np.minimum(joint + moved, alone) * _UP)


def quotient_interval(total: Any, count: Any, most: float, width: Callable[[Array], Array]) -> tuple[Array, Array]:
    r"""Intervals of exact ratios S/n in [−most, most], of noisy numbers T = S + A and C = n + B.

    T − r·C is A − r·B for the exact ratio r, and width(x) bounds its magnitude, with the confidence of the interval, for all |r| ≤ x. The
    interval holds all r with |T − r·C| ≤ width(|r|); let T ≥ 0, and C ≥ 1, as otherwise all is possible.

    - If |r| ≤ x then r ≤ (T + width(x))/C, a smaller x for the next step; so for −r, with (width(x) − T)/C.
    - For r ≥ 0 the number r·C + width(r) rises with r, and is at least T: r is above each point at which it is less.
    """
    rows, size = np.maximum(count, 1), np.abs(total)
    far = beyond = np.full(np.shape(total), most)
    for _ in range(_STEPS):
        far = np.minimum(most, (size + width(far)) / rows)
        beyond = np.clip((width(beyond) - size) / rows, 0.0, most)
    near = np.clip((size - width(far)) / rows, 0.0, most)
    above = np.clip((size - width(np.zeros_like(near))) / rows, near, most)
    for _ in range(_HALVINGS):
        middle = (near + above) / 2
        less = middle * rows + width(middle) <= size
        near, above = np.where(less, middle, near), np.where(less, above, middle)
    near = np.where(beyond > 0, -beyond, near)
    upright, empty = np.asarray(total) >= 0, np.asarray(count) < 1
    low, high = np.where(upright, near, -far), np.where(upright, far, -near)
    return np.where(empty, -most, low), np.where(empty, most, high)


def _moved(noise: IntegerNoise | RealNoise) -> float:
    """How far released noise may be from a number of its continuous law."""
    if isinstance(noise, DiscreteLaplace):
        return 1.0
    return 2.0 if isinstance(noise, DiscreteGaussian) else default_grid(noise.scale) / 2


def _laplace_pair(one: Array, other: Array, beta: float) -> Array:
    r"""The h with P(|X + Y| > h) = β for Laplace numbers of two scales, from above.

    With a ≥ b the scales, w = b/a and u = h/a it is e^(−u)·(1 + (w²/(1 − w²))·(1 − e^(−u(1 − w)/w))). The u with ln of it = ln β is a
    fixed point; 2·ln(1/β) + 1 lies above it, and so do all iterates.
    """
    large, small = np.maximum(one, other), np.minimum(one, other)
    w, log = small / large, -math.log(beta)
    u = np.full(np.shape(w), 2 * log + 1)
    for _ in range(8):
        with np.errstate(divide="ignore"):
            x = u * (1 - w) / w
        mean = np.where(x > 1e-8, -np.expm1(-x) / np.maximum(x, 1e-8), 1.0)
        u = log + np.log1p(u * w / (1 + w) * mean)
    return np.asarray(large * u)
