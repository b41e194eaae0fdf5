"""Trials of the exponential mechanism for series: draws from a tilted density, near the data's coefficients, and what is left to accept.

The law has density e^−E with respect to uniform draws, E = α·√(‖w‖² + w₀²): w = kS − nT over the coefficients of the draws, and w₀ what the
data have beyond them. Independent draws with density ∝ e^(θ·ψ(z)) have the density e^(θ·Σψ) together. A trial of tilted draws is accepted
with probability e^(−G), G = E − η·w − K, where η is θ in the units of w, and K is at most the minimum of E − η·w. For ‖η‖ ≤ α this minimum
is w₀·√(α² − ‖η‖²), by Cauchy and Schwarz. θ changes the number of trials, and not the law. docs/exactness-density.md
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import Interval, sqrt
from dpcore.distributions._boxes import Reals
from dpcore.distributions._choices import Uniforms, unit_floats
from dpcore.distributions._rejection import Trials, accepted

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.distributions._series_distance import SeriesDistance
    from dpcore.rng import Stream

MOST_TILTED = 16
"""Draws are tilted if they have at most so many coefficients: finding θ takes their square."""
LEAST_TILT, LARGEST_TILT = 2.0**-40, 1024.0
"""Of ‖θ‖: less changes nothing, and the points below resolve the density up to the largest."""
_POINTS = 4096
_STEPS = 100
_KEPT = 0.998
"""‖θ‖ stays below its limit by more than rounding to a unit can add."""
_UNIT_BITS = 12
_ENOUGH = 1e-20
"""Squared length of the last of Newton's steps, in units of the curvature."""
_STEEPNESS = 14
"""Bounds √2·π²."""
_RESERVE = Fraction(1, 2**36)
"""Bounds what rounding adds to a cosine, at the middle of a cell and elsewhere: 2^-40, and less than 2^-42 of its computation."""
_LEAST_BLOCK, _LARGEST_BLOCK = 1 << 8, 1 << 17


@dataclass(frozen=True, slots=True)
class Tilt:
    """θ of the draws, and the constants that make both probabilities of acceptance at most 1.

    Attributes
    ----------
    slopes : tuple of Fraction
        θ_j, dyadic; the exponent of the density of a draw is Σ θ_j ψ_j(z).
    top : Fraction
        A bound of that exponent for every z; 0 if θ is 0.
    floor : Fraction
        K ≤ min (E − η·w).
    """

    slopes: tuple[Fraction, ...]
    top: Fraction
    floor: Fraction

    @property
    def weights(self) -> Reals:
        """θ as floats, exactly."""
        return np.array([float(slope) for slope in self.slopes])

    @property
    def size(self) -> float:
        """Σ |θ_j|."""
        return float(np.abs(self.weights).sum())


def tilt_of(distance: SeriesDistance) -> Tilt:
    """Find the tilt of a data set: θ that nearly maximises ln of the probability to accept, on a coarse grid."""
    if distance.draw_terms > MOST_TILTED or distance.tilt_limit < LEAST_TILT:
        return _checked(distance, [0] * distance.draw_terms, Fraction(1))
    limit = _KEPT * min(distance.tilt_limit, LARGEST_TILT)
    unit = Fraction(2) ** (math.frexp(limit)[1] - _UNIT_BITS)
    theta = _best(distance, limit)
    return _checked(distance, [round(t / float(unit)) for t in theta.tolist()], unit)


def _checked(distance: SeriesDistance, slopes: list[int], unit: Fraction) -> Tilt:
    """The constants of θ = slopes·unit, in rational numbers; θ is 0 if K does not exist for this one."""
    steepness, beyond = distance.rate_square, distance.beyond_square
    tilt = sum(slope * slope for slope in slopes) * (unit * Fraction(_backend.COSINE_GRID) / distance.n) ** 2
    if tilt > steepness:
        slopes, tilt = [0] * len(slopes), Fraction(0)
    floor = _root_down(beyond * (steepness - tilt))
    return Tilt(tuple(slope * unit for slope in slopes), _top(slopes, unit), floor)


def _root_down(square: Fraction) -> Fraction:
    """The root, rounded down to 128 significant bits or more."""
    if square == 0:
        return Fraction(0)
    shift = 256 + 2 * max(0, square.denominator.bit_length() - square.numerator.bit_length())
    return Fraction(math.isqrt((square.numerator << shift) // square.denominator), 2 ** (shift // 2))


def _top(slopes: list[int], unit: Fraction) -> Fraction:
    """Bound Σ θ_j √2 cos(πjz) for rounded cosines and all z, in whole numbers: the last bits of a machine would be those of the draws.

    At a maximum the derivative is 0, also at the ends of [0, 1]. So a cell of half-width h whose middle has the value v holds no more than
    v + h²/2·Σ |θ_j| √2 (πj)². Slopes add up to 2^22 at most, so that sums of products with cosines of 2^41 fit into 64 bits.
    """
    if not any(slopes):
        return Fraction(0)
    products = _backend.rounded_cosines(_middles(), len(slopes)) * np.array(slopes, np.int64)
    largest = int(products.sum(axis=1).max()) * Fraction(_backend.COSINE_GRID)
    largest += Fraction(_STEEPNESS * sum(abs(slope) * j * j for j, slope in enumerate(slopes, 1)), 8 * _POINTS**2)
    return unit * (largest + _RESERVE * sum(map(abs, slopes)))


def _middles() -> Reals:
    """The middles of the cells."""
    return (np.arange(_POINTS) + 0.5) / _POINTS


def _waves(terms: int) -> Reals:
    """√2·cos(πjz) in the middles of cells, one row a cell."""
    return np.asarray(math.sqrt(2) * np.cos(math.pi * _middles()[:, None] * np.arange(1, terms + 1)))


def _best(distance: SeriesDistance, limit: float) -> Reals:
    """Maximise θ·b − Λ(θ) + s·√(limit² − ‖θ‖²) by Newton's steps, Λ = ln ∫ e^(θ·ψ): concave, and steep at the limit.

    b are the data's coefficients and k·s·√(…) is K, but that s is at least what the mechanism distinguishes anyway.
    """
    target, scale = distance.target, max(distance.beyond, distance.resolution)
    waves = _waves(len(target))
    theta = np.zeros(len(target))
    value, law = _objective(waves, theta, target, scale, limit)
    for _ in range(_STEPS):
        mean, room = law @ waves, math.sqrt(limit * limit - float(theta @ theta))
        slope = target - mean - scale * theta / room
        curvature = (waves * law[:, None]).T @ waves - np.outer(mean, mean)
        curvature += scale * (np.eye(len(theta)) / room + np.outer(theta, theta) / room**3)
        step = np.linalg.solve(curvature, slope)
        rise = float(slope @ step)
        if not rise > _ENOUGH:
            break
        part, before = 1.0, value
        while part > _ENOUGH:
            new = theta + part * step
            if float(new @ new) < limit * limit:
                value, law = _objective(waves, new, target, scale, limit)
                if value >= before + 1e-4 * part * rise:
                    theta = new
                    break
            part /= 2
        else:
            break
    return theta


def _objective(waves: Reals, theta: Reals, target: Reals, scale: float, limit: float) -> tuple[float, Reals]:
    """The function that is maximised, and the masses of the tilted law on the points."""
    exponents = waves @ theta
    top = float(exponents.max())
    weights = np.exp(exponents - top)
    total = float(weights.sum())
    room = math.sqrt(limit * limit - float(theta @ theta))
    return float(theta @ target) - top - math.log(total / len(weights)) + scale * room, weights / total


# Trials


def tilted_trials(distance: SeriesDistance, tilt: Tilt, size: int, rng: Stream | None) -> Trials:
    """Candidates of k tilted draws each, with their exponents G."""
    candidates, cosines = _draws(tilt, size * distance.k, rng)
    candidates = candidates.reshape(size, distance.k)
    sums = cosines.reshape(size, distance.k, distance.draw_terms).sum(axis=1)
    apart = distance.apart(sums)
    linear = (apart[:, : distance.draw_terms] * tilt.weights).sum(axis=1) * (distance.k * _CONSTANT)
    exponents = distance.exponents_of(apart) - linear - float(tilt.floor)
    # 2·terms + 40 units of 2^-53 bound each product of two such numbers and their sum, as in `SeriesDistance.error`
    size_of_linear = distance.k * _CONSTANT * tilt.size
    error = distance.error() + (size_of_linear * (2 * distance.draw_terms + 40) + 8 * float(tilt.floor)) * 2.0**-53

    def exact(index: int) -> Callable[[int], Interval]:
        square, rest = distance.square(sums[index]), distance.linear(tilt.slopes, sums[index]) + tilt.floor
        return lambda precision: sqrt(Interval.of(square, precision)) - Interval.of(rest, precision)

    return Trials(candidates, exponents, error, exact)


_CONSTANT = _backend.COSINE_LARGEST * _backend.COSINE_GRID
"""c, the largest rounded cosine."""


def _draws(tilt: Tilt, count: int, rng: Stream | None) -> tuple[Reals, npt.NDArray[np.int64]]:
    """`count` independent draws with density ∝ e^(θ·ψ(z)) on the multiples of 2^-53 in [0, 1), and their rounded cosines."""
    terms = len(tilt.slopes)
    draws, cosines = np.empty(count), np.empty((count, terms), np.int64)
    have = 0
    while have < count:
        size = count if tilt.top == 0 else min(_LARGEST_BLOCK, max(_LEAST_BLOCK, 2 * (count - have)))
        z = unit_floats((size,), rng=rng)
        waves = _backend.rounded_cosines(z, terms)
        if tilt.top != 0:
            kept = np.flatnonzero(accepted(_tilting(tilt, z, waves), Uniforms(rng)))[: count - have]
            z, waves = z[kept], waves[kept]
        draws[have : have + len(z)], cosines[have : have + len(z)] = z, waves
        have += len(z)
    return draws, cosines


def _tilting(tilt: Tilt, z: Reals, waves: npt.NDArray[np.int64]) -> Trials:
    """Uniform points, each to be accepted with probability e^(θ·ψ(z) − top)."""
    exponents = float(tilt.top) - (waves * tilt.weights).sum(axis=1) * _backend.COSINE_GRID
    error = (2 * tilt.size * (len(tilt.slopes) + 4) + 2 * float(tilt.top)) * 2.0**-52

    def exact(index: int) -> Callable[[int], Interval]:
        products = (slope * wave for slope, wave in zip(tilt.slopes, waves[index].tolist(), strict=True))
        rest = tilt.top - sum(products, Fraction(0)) * Fraction(_backend.COSINE_GRID)
        return lambda precision: Interval.of(rest, precision)

    return Trials(z, exponents, error, exact)
