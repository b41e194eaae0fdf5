"""The two ways to select partitions: exact probabilities for each partition alone, or a threshold on counts with Gaussian noise.

docs/exactness-partitions.md proves both.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.accounting.scales import analytic_gaussian_scale
from dpcore.errors import ParameterError
from dpcore.noise import FLOAT_SCALE, default_grid, gaussian
from dpcore.privacy import Relation
from dpcore.rng import Stream, StreamPosition, resolve

PartitionMethod = Literal["best", "truncated_geometric", "gaussian"]
METHODS = ("best", "truncated_geometric", "gaussian")
MOST_BRACKETS = 2**16
"""Brackets of probabilities: one a count, up to this many counts that are not certain."""
_MORE = 2
"""The domain of the bits after an element's word."""
_PRECISION = 192
_HALF = Fraction(1, 2)


class PartitionRule(Protocol):
    """A way to select partitions, ready to run."""

    @property
    def method(self) -> str:
        """Its name."""

    @property
    def half(self) -> int:
        """The least count that is released with probability ½ at least."""

    def probability(self, count: int) -> float:
        """The probability that a partition of so many units is released."""

    def release(self, counts: npt.NDArray[Any], rng: Stream | None, threads: int | None) -> npt.NDArray[np.bool_]:
        """Which partitions are released; the counts are integers in [0, 2^62], and the source None is the secure one."""


@lru_cache(maxsize=64)
def partition_rule(epsilon: float, delta: float, max_partitions: int, relation: Relation, method: PartitionMethod) -> PartitionRule:
    """The rule for checked parameters. "best" is the one that releases a smaller count with probability ½."""
    touched = max_partitions * (2 if relation == "replace" else 1)
    if method == "truncated_geometric" or (method == "best" and touched == 1):
        return TruncatedGeometric.made(epsilon, delta, touched)
    if method == "gaussian":
        return GaussianThreshold.made(epsilon, delta, touched)
    alone = TruncatedGeometric.made(epsilon, delta, touched)
    try:
        joint = GaussianThreshold.made(epsilon, delta, touched)
    except ParameterError:  # of no parameter, but of a scale that float noise does not have
        return alone
    return joint if joint.half < alone.half else alone


@dataclass(frozen=True, slots=True, eq=False)
class TruncatedGeometric:
    """Each partition alone, at ε/m and δ/m where a unit touches m: the uniform number U of a partition is below π(n).

    That is n + Z ≥ T for a threshold T and noise Z of a two-sided geometric law that is cut off on both sides.
    """

    probabilities: Any
    brackets: _backend.Brackets
    half: int

    @classmethod
    def made(cls, epsilon: float, delta: float, touched: int) -> TruncatedGeometric:
        """The probabilities, and their brackets."""
        from dpcore._exact.partitions import ReleaseProbabilities  # the exact tier, which most processes do not need

        probabilities = ReleaseProbabilities(Fraction(epsilon) / touched, Fraction(delta) / touched)
        low, high, shift = probabilities.brackets(MOST_BRACKETS)
        brackets = _backend.Brackets(np.array(low, np.uint64), np.array(high, np.uint64), shift)
        return cls(probabilities, brackets, probabilities.first_at_least(_HALF))

    @property
    def method(self) -> str:
        """Its name."""
        return "truncated_geometric"

    def probability(self, count: int) -> float:
        """π(n)."""
        from dpcore._exact.intervals import exactly

        value = self.probabilities.enclosure(count, _PRECISION)
        return float((exactly(value.low) + exactly(value.high)) / 2)

    def release(self, counts: npt.NDArray[Any], rng: Stream | None, threads: int | None) -> npt.NDArray[np.bool_]:
        """Which partitions are released: U < π(n), with as many bits of U as it takes."""
        found = self.brackets.decide(counts) if rng is None else None
        if isinstance(found, np.ndarray):
            return found
        position = resolve(rng).position() if found is None else StreamPosition(*found)
        out, undecided = _backend.below_brackets(counts, self.brackets, position, threads=threads)
        if len(undecided):
            self._decide(counts, undecided, position, out)
        return out.view(np.bool_)

    def _decide(
        self, counts: npt.NDArray[Any], places: npt.NDArray[np.int64], position: StreamPosition, out: npt.NDArray[np.uint8]
    ) -> None:
        from dpcore._exact.sampling import Uniform

        words, first = _backend.call_words(position), position.first_element
        for place in places.tolist():
            prefix = int(_backend.uniform_words(position._replace(first_element=first + place), 1)[0])
            uniform = Uniform(prefix, 64, partial(words.more, _MORE, first + place, 0))
            out[place] = self.probabilities.is_below(uniform, int(counts[place]))


@dataclass(frozen=True, slots=True)
class GaussianThreshold:
    """All counts that are not 0 with Gaussian noise of scale σ for (ε, δ/2); those that reach a threshold T for the other δ/2.

    A partition of one unit reaches it with probability δ/(2m) at most, where a unit touches m of them.
    """

    scale: float
    threshold: float

    @classmethod
    def made(cls, epsilon: float, delta: float, touched: int) -> GaussianThreshold:
        """The least scale and threshold, rounded up; raises `ParameterError` where float noise has no such scale."""
        root = math.sqrt(touched)
        scale = analytic_gaussian_scale(epsilon, delta / 2, root if root.is_integer() else math.nextafter(root, math.inf))
        low, high = FLOAT_SCALE
        if not low <= scale <= min(high, 2.0**60):
            raise ParameterError(f"epsilon={epsilon!r} and delta={delta!r} must give Gaussian noise of a scale in [2**-960, 2**60]")
        return cls(scale, _threshold(scale, Fraction(delta) / (2 * touched)))

    @property
    def method(self) -> str:
        """Its name."""
        return "gaussian"

    @property
    def half(self) -> int:
        """The least count at or above the threshold."""
        return math.ceil(self.threshold)

    def probability(self, count: int) -> float:
        """Φ((n + grid/2 − T)/σ): a sum that the grid rounds up to T is released as well."""
        above = Fraction(count) + Fraction(default_grid(self.scale)) / 2 - Fraction(self.threshold)
        return 0.0 if count <= 0 else math.erfc(-float(above) / self.scale / math.sqrt(2)) / 2

    def release(self, counts: npt.NDArray[Any], rng: Stream | None, threads: int | None) -> npt.NDArray[np.bool_]:
        """Which partitions are released: not empty, and the noisy count at least T."""
        noisy = gaussian(counts, self.scale, rng=rng, threads=threads)
        return (noisy >= self.threshold) & (counts > 0)


def _threshold(scale: float, delta: Fraction) -> float:
    """The least multiple T of the noise's grid, nearly, with P(1 + σN ≥ T − grid/2) ≤ δ, which is proven."""
    from dpcore._exact.intervals import Interval, exactly, log
    from dpcore._exact.tails import mills_ratio, normal_density, normal_upper_quantile

    grid, sigma = Fraction(default_grid(scale)), Fraction(scale)
    quantile = exactly(normal_upper_quantile(log(Interval.of(min(delta, _HALF), _PRECISION))).high)
    steps = math.ceil((1 + sigma * quantile) / grid + _HALF)
    while True:
        distance = Interval.of(((steps - _HALF) * grid - 1) / sigma, _PRECISION)
        if (mills_ratio(distance) * normal_density(distance)).at_most(Interval.of(delta, _PRECISION)):
            return float(steps * grid)  # exactly: a threshold has some 33 bits
        steps += 1
