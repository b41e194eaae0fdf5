"""Noise of answers: calibrated to a sensitivity, described in plans, and around the numbers of groups."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._spread import half_width, noise_variance
from dpcore.errors import BudgetError
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.privacy import as_written, written_down
from dpcore.rng import StreamPosition, resolve
from dpcore.sums import ExactSum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.sensitivity import Sensitivity
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    IntegerNoise = DiscreteLaplace | DiscreteGaussian
    RealNoise = Laplace | Gaussian


LAWS = {
    DiscreteLaplace: "discrete_laplace",
    DiscreteGaussian: "discrete_gaussian",
    Laplace: "laplace",
    Gaussian: "gaussian",
}


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one draw in a plan: its law, its sensitivity and its scale."""

    law: str
    sensitivity: float
    scale: float

    def document(self) -> dict[str, Any]:
        """Return the noise as JSON holds it."""
        return {"law": self.law, "sensitivity": self.sensitivity, "scale": self.scale}


def standard_deviation(noise: IntegerNoise | RealNoise) -> float:
    """Standard deviation; for real noise not from a variance, which may leave the range of float64."""
    match noise:
        case Laplace():
            return laplace_deviation(noise.scale)
        case Gaussian():
            return noise.scale
        case _:
            return math.sqrt(noise_variance(LAWS[type(noise)], noise.scale))


def laplace_deviation(scale: float) -> float:
    """Standard deviation √2·b of Laplace noise of scale b."""
    return math.sqrt(2) * scale


@functools.lru_cache(maxsize=1024)
def half_width_of(noise: IntegerNoise | RealNoise, beta: float) -> float:
    """Half width of the interval with error probability β; cached, since all groups need the same."""
    return noise.accuracy(beta) if beta <= 0.5 else noise.accuracy(confidence=1 - beta)


def described(noise: IntegerNoise | RealNoise) -> Noise:
    """Describe noise for a plan."""
    return Noise(LAWS[type(noise)], noise.sensitivity, noise.scale)


def rho_of(noise: IntegerNoise | RealNoise) -> float:
    """Return ρ of zero-concentrated privacy of the noise, rounded up."""
    match noise:
        case Laplace():
            return accounting.rho_laplace(noise.epsilon)
        case DiscreteLaplace():
            return accounting.rho_pure(noise.epsilon)
        case _:
            return accounting.rho_gaussian(noise.scale, noise.sensitivity)


def around(values: Array, noise: IntegerNoise | RealNoise, confidence: float) -> dict[str, Any]:
    """Noisy numbers of groups with their intervals, as arrays."""
    width = half_width_of(noise, 1 - confidence)
    interval = np.stack([values - width, values + width], axis=-1)
    return {"value": values, "stderr": np.full(len(values), standard_deviation(noise)), "interval": interval}


def integer_noise(epsilon: float, delta: float, sensitivity: Sensitivity, relation: Relation) -> IntegerNoise:
    """Noise of a count, or of several."""
    if delta == 0:
        return DiscreteLaplace(epsilon, int(sensitivity.l1), relation=relation)
    if sensitivity.alone:
        return DiscreteGaussian(epsilon, delta, int(sensitivity.l1), method="exact", relation=relation)
    return DiscreteGaussian(epsilon, delta, sensitivity.l2, relation=relation)


def real_noise(epsilon: float, delta: float, sensitivity: Sensitivity, relation: Relation) -> RealNoise:
    """Noise of a sum, or of several."""
    if delta == 0:
        return Laplace(epsilon, sensitivity.l1, relation=relation)
    return Gaussian(epsilon, delta, sensitivity.l2, relation=relation)


def noisy_sums(total: ExactSum, noise: RealNoise, rng: Stream | None) -> float | Array:
    """Exact sums with noise, one or one for each column."""
    return total.noisy("laplace" if isinstance(noise, Laplace) else "gaussian", noise.scale, rng=rng, threads=1)


def share_of(epsilon: float, parts: int) -> float:
    """ε over a number of parts, rounded down: the parts must not sum to more than ε."""
    share = epsilon / parts
    return share if Fraction(share) * parts <= Fraction(epsilon) else math.nextafter(share, 0.0)


def part_of(total: float, share: Fraction) -> float:
    """A part of ε or δ, rounded down, so that parts do not sum to more than the whole."""
    exact = Fraction(total) * share
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)


def multiple_above(number: Fraction | int, coarse: int) -> int:
    """The least multiple of `coarse` that is not below a number."""
    return math.ceil(Fraction(number) / coarse) * coarse


def noisy_integer(total: int, step: Fraction, noise: RealNoise, scale: float, rng: Stream | None, coarse: int = 1) -> float:
    """The exact number total·step, rounded down to `coarse` steps, plus noise of this law and scale, correctly rounded."""
    exact = total // coarse * coarse * step
    high = float(exact)
    low = float(exact - Fraction(high))
    if Fraction(high) + Fraction(low) != exact:
        raise AssertionError("a pair of floats does not hold the sum")
    pair = ExactSum(high, low, float(step), 1, 0.0, 0.0)
    return float(pair.noisy("gaussian" if isinstance(noise, Gaussian) else "laplace", scale, rng=rng, threads=1))


def noisy_integers(totals: Array, step: Fraction, noise: RealNoise, scale: float | Array, rng: Stream) -> Array:
    """Exact numbers totals·step plus noise of this law and scale, correctly rounded; the step is a power of two."""
    high, low = _pairs(totals)
    size = float(step)
    sums = ExactSum(high * size, low * size, size, 1, 0.0, 0.0)
    return np.asarray(sums.noisy("gaussian" if isinstance(noise, Gaussian) else "laplace", scale, rng=rng, threads=1))


def _pairs(totals: Array) -> tuple[Array, Array]:
    """Integers as exact sums of two floats."""
    listed = totals.tolist()
    high = [float(total) for total in listed]
    rest = [total - int(most) for total, most in zip(listed, high, strict=True)]
    low = [float(each) for each in rest]
    if any(int(each) != exact for each, exact in zip(low, rest, strict=True)):
        raise AssertionError("a pair of floats does not hold the sum")
    return np.array(high), np.array(low)


@functools.lru_cache(maxsize=256)
def unit_width(law: str, beta: float) -> float:
    """Half-width for noise of scale 1; times b a bound for scale b, whose grid is no coarser in proportion."""
    return half_width("gaussian" if law == "gaussian" else "laplace", 1.0, 1 - beta) * (1 + 2.0**-20)


def scale_deviation(noise: RealNoise, scale: Any) -> Any:
    """Standard deviation of noise of this law at another scale."""
    return scale if isinstance(noise, Gaussian) else laplace_deviation(scale)


def norm(one: Any, *others: Any) -> Any:
    """√(x² + y² + …) by operations that every machine rounds alike, as it does not those of libraries; released values are made of it."""
    for other in others:
        larger, smaller = np.maximum(np.abs(one), np.abs(other)), np.minimum(np.abs(one), np.abs(other))
        ratio = smaller / np.where(larger == 0, 1.0, larger)
        one = larger * np.sqrt(1 + ratio * ratio)
    return one


APART = 2**40
"""Elements between the draws for one group and those for the next: more than a choice among all cells takes, in every round."""


class Draw:
    """One draw of a stream, which can begin at any of its elements."""

    def __init__(self, rng: Stream | None) -> None:
        self._position = resolve(rng).position()

    @property
    def secure(self) -> bool:
        """Whether the words are those of the secure source."""
        return self._position.secure

    def at(self, element: int) -> At:
        """A stream whose only call begins at an element."""
        return At(self._position._replace(first_element=self._position.first_element + element))

    def of_groups(self, count: int) -> Iterator[StreamPosition]:
        """Where the draws for each of so many groups begin: where those for other groups cannot reach, so that no random word is shared."""
        key, nonce, first, secure = self._position
        for group in range(count):
            yield StreamPosition(key, nonce, first + group * APART, secure)


class At:
    """A stream with a fixed position."""

    def __init__(self, position: StreamPosition) -> None:
        self._position = position

    @property
    def secure(self) -> bool:
        """Whether the words are those of the secure source."""
        return self._position.secure

    def position(self) -> StreamPosition:
        """The position of the stream."""
        return self._position


ZERO = Fraction(0)


def shares_of(limit: float, spent: Iterable[float], weights: Mapping[int, float]) -> dict[int, float]:
    """Divide what is left of a limit in proportion to weights.

    All numbers are read as they are written. The sum of what is spent and of the shares is at most the limit, exactly.

    Raises
    ------
    BudgetError
        If nothing is left, or a share is too small.
    """
    left = as_written(limit) - sum(map(as_written, spent), ZERO)
    if left <= 0:
        raise BudgetError(f"nothing is left of max_epsilon = {limit!r} for the queries with a weight")
    whole = sum(map(Fraction, weights.values()), ZERO)
    return {place: check_share(written_down(left * Fraction(weight) / whole)) for place, weight in weights.items()}


def check_share(epsilon: float) -> float:
    """Return the ε of a query, else raise `BudgetError`."""
    if epsilon <= 0:
        raise BudgetError("the share of a query with a weight is too small to be used; give it a larger weight, or the other queries less")
    return epsilon
