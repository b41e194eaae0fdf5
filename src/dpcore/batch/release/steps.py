"""Numbers as whole steps of a grid, and exact sums of their products: integers of any size, so that nothing is rounded before the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.jobfile.fields import INT64_MAX, INT64_MIN
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

STEP_BITS = 31
"""Products of two numbers of at most 2^31 steps are below 2^63."""
MOST_STEPS = 2.0**STEP_BITS
WIDTHS = 2.0**-400, 2.0**400
"""Widths upper − lower whose products and scales float64 holds."""
CACHED = 1 << 13
"""Rows whose steps stay in the cache while they are added up."""
_LOW = 2**STEP_BITS - 1


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbers in [lower, upper] as 0 … `most` steps above `lower`.

    A number becomes the nearest step to its clamped value, by a function of that number alone. So whatever is computed from steps has
    the sensitivities of integers in [0, most], exactly. Integers keep their unit if upper − lower is at most 2^31.

    Attributes
    ----------
    lower, upper : float or int
        The bounds.
    unit : float
        One step, a power of two: the least with at most 2^31 of them in upper − lower.
    most : int
        Whole steps from `lower` to `upper`.
    off : float
        By how much rounding moves a number at most.
    """

    lower: float
    upper: float
    unit: float
    most: int
    off: float

    @classmethod
    def between(cls, lower: float, upper: float) -> Steps:
        """Steps between bounds."""
        width = Fraction(upper) - Fraction(lower)
        if not WIDTHS[0] <= width <= WIDTHS[1]:
            raise ParameterError(
                f"upper − lower must be in [{WIDTHS[0]!r}, {WIDTHS[1]!r}] for moments, got lower = {lower!r} and upper = {upper!r}"
            )
        exponent = math.frexp(float(width))[1] - STEP_BITS - 2
        while math.floor(width / Fraction(2) ** exponent) > 2**STEP_BITS:
            exponent += 1
        unit = math.ldexp(1.0, exponent)
        return cls(lower, upper, unit, math.floor(width / Fraction(unit)), unit)

    @property
    def width(self) -> float:
        """The length of all steps."""
        return self.most * self.unit

    def of(self, numbers: Array) -> npt.NDArray[np.int64]:
        """The steps of numbers that are not NaN."""
        if numbers.dtype.kind != "f" and self._are_integers:
            return self._of_integers(numbers)
        inside = np.clip(numbers.astype(np.float64), self.lower, self.upper)
        inside -= self.lower
        inside /= self.unit
        return np.minimum(np.rint(inside), self.most).astype(np.int64)

    @property
    def _are_integers(self) -> bool:
        return all(float(bound).is_integer() and INT64_MIN <= bound <= INT64_MAX for bound in (self.lower, self.upper))

    def _of_integers(self, numbers: Array) -> npt.NDArray[np.int64]:
        """Integers beyond 2^53 keep their unit until they are rounded to steps."""
        lower, upper = int(self.lower), int(self.upper)
        inside = np.clip(numbers.astype(np.int64), lower, upper)
        # Differences below 2^64, which unsigned arithmetic holds.
        above = inside.astype(np.uint64) - np.uint64(lower % 2**64)
        shift = round(math.log2(self.unit))
        if shift <= 0:
            return (above << np.uint64(-shift)).astype(np.int64)
        steps = (above >> np.uint64(shift)) + ((above >> np.uint64(shift - 1)) & np.uint64(1))
        return np.minimum(steps, np.uint64(self.most)).astype(np.int64)

    def nearest(self, distances: Array) -> npt.NDArray[np.int64]:
        """The steps nearest to numbers that are so far from the middle of the bounds."""
        near = np.rint(np.clip(self.most / 2 + distances / self.unit, 0.0, float(self.most)))
        return np.minimum(near.astype(np.int64), self.most)

    def place(self, step: float) -> float:
        """The number that a step stands for."""
        return float(Fraction(self.lower) + Fraction(step) * Fraction(self.unit))

    def places(self, steps: npt.NDArray[np.int64]) -> list[float]:
        """The numbers that steps stand for."""
        if Fraction(float(self.lower)) == Fraction(self.lower):
            found: list[float] = (float(self.lower) + steps * self.unit).tolist()  # one rounding, of the sum of two floats
            return found
        return [self.place(step) for step in steps.tolist()]


def parts_of(columns: list[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.int64]]:
    """Numbers of each row, at most 2^31: the steps, and both halves of their products."""
    products = columns[0] * columns[-1]
    return [*columns, products >> STEP_BITS, products & _LOW]


@dataclass(frozen=True, slots=True)
class Moments:
    """Exact sums over rows of steps k of one column, or k and l of two.

    Attributes
    ----------
    n : int
        Rows.
    sums : tuple of int
        Σk; of two columns Σk and Σl.
    product : int
        Σk², or Σk·l.
    """

    n: int
    sums: tuple[int, ...]
    product: int

    def about(self, centres: tuple[int, ...]) -> int:
        """Σ(k − c)², or Σ(k − c)(l − d): the same as if every row had been moved, because all are integers."""
        c, d = centres[0], centres[-1]
        return self.product - d * self.sums[0] - c * self.sums[-1] + self.n * c * d

    def centred(self) -> int:
        """n·Σkl − Σk·Σl: n² times the covariance, in squared steps."""
        return self.n * self.product - self.sums[0] * self.sums[-1]
