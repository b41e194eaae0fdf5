"""Grids of numbers: points between which cells lie, whole steps, and powers of two."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.errors import JobError, ParameterError
from dpcore.tables.fields import INT64_MAX, INT64_MIN
from dpcore.tables.types.categories import null_mask, value_type
from dpcore.tables.types.decimals import counted, digits_of, fitting_digits, reach_of, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Mask = npt.NDArray[np.bool_]


MOST_IN_FLOATS = 2**53
"""Integers below it are floats, and rounding a larger one to a float moves it past none of them."""
FEW_POINTS = 16


class Points:
    """Increasing numbers p, and where others lie among them; if they are few or about evenly spaced, many times faster than a search.

    With few points each number is compared with all of them. If they are evenly spaced, a number's place is guessed from its distance to
    the first: as no point is further than a quarter of a step from its even place, the guess is off by one at most, and comparing with the
    points beside it makes it exact.
    """

    __slots__ = ("_padded", "_points", "_step")

    def __init__(self, points: tuple[float, ...]) -> None:
        self._points = np.array(points, np.float64)
        self._padded = np.concatenate([[-np.inf], self._points, [np.inf]])
        self._step = _even_step(self._points)

    def below(self, x: Array) -> Array:
        """Count the points that are less than each number."""
        return self._places(x, counts_equal=False)

    def not_above(self, x: Array) -> Array:
        """Count the points that are at most each number."""
        return self._places(x, counts_equal=True)

    def _places(self, x: Array, *, counts_equal: bool) -> Array:
        few = len(self._points) < FEW_POINTS
        if not few and self._step is None:
            return np.searchsorted(self._points, x, side="right" if counts_equal else "left")
        if not len(self._points):
            return np.zeros(len(x), np.intp)
        return _backend.places(x, self._padded, 0.0 if few else self._step or 0.0, counts_equal=counts_equal)


def _even_step(points: npt.NDArray[np.float64]) -> float | None:
    """The step of points that are about evenly spaced; None for others, or if its arithmetic would not be that of small numbers."""
    if len(points) < FEW_POINTS:
        return None
    step = float((points[-1] / 2 - points[0] / 2) / (len(points) - 1) * 2)
    far = max(abs(points[0]), abs(points[-1]))
    if not (2.0**-900 < step and far < min(2.0**900, 2.0**40 * step)):  # noqa: SIM300
        return None
    even = points[0] + step * np.arange(len(points))
    return step if np.abs(points - even).max() < step / 4 else None


def needs_steps(dtype: pa.DataType, points: Iterable[float]) -> bool:
    """Whether a column is compared with points in whole steps: decimals, and integers if a point has more than 53 bits.

    Rounding another integer to float64 moves it past no point.
    """
    if pa.types.is_integer(value_type(dtype)):
        return any(abs(point) >= MOST_IN_FLOATS for point in points)
    return digits_of(dtype) is not None


@dataclass(frozen=True, slots=True)
class ExactPoints:
    """The same for decimals, and for integers of more than 53 bits, which are compared with the points without rounding.

    Cells are counted in steps of 10^-digits. A point p is at most a number x of whole steps if ⌈p⌉ ≤ x in steps, and less than x if
    ⌊p⌋ < x. Where 10^-digits is more than the column's step, all points are whole steps, and x is rounded down for the first comparison
    and up for the second one: nothing changes its place. Points beyond all numbers of the column are only counted.
    """

    digits: int
    counts_equal: bool
    _below: int
    _steps: npt.NDArray[np.int64] = field(repr=False, compare=False)
    _floats: Points | None = field(repr=False, compare=False)

    @classmethod
    def of(cls, points: tuple[float, ...], dtype: pa.DataType, *, counts_equal: bool) -> ExactPoints:
        """Points for a column of a type; raises `JobError` if 64 bits do not hold all of them."""
        own, reach = digits_of(dtype) or 0, reach_of(dtype)
        inside = [each for each in points if -reach < each < reach]
        fine = fitting_digits(max(abs(inside[0]), abs(inside[-1])) if inside else 0.0, own)
        exact = [counted(each, fine) for each in inside]
        if fine < own and not all(is_whole for _, is_whole in exact):
            raise JobError(
                f"numbers between {points[0]!r} and {points[-1]!r} have too many digits to be compared with a column of type {dtype} in 64 "
                "bits; write fewer digits"
            )
        whole = np.array([each + (counts_equal and not is_whole) for each, is_whole in exact], np.int64)
        small = not len(whole) or max(abs(int(whole[0])), abs(int(whole[-1]))) < MOST_IN_FLOATS
        floats = Points(tuple(map(float, whole.tolist()))) if small else None
        return cls(fine, counts_equal, sum(each <= -reach for each in points), whole, floats)

    def places(self, cells: pa.Array) -> tuple[Array, Mask | None]:
        """How many points are at most each cell, or less than it; and where a cell is null, None if nowhere."""
        numbers = steps(cells, self.digits, "down" if self.counts_equal else "up")
        absent = null_mask(numbers)
        x = np.asarray((numbers if absent is None else numbers.fill_null(0)).to_numpy())
        places = self._places(x)
        return places.astype(np.intp) + self._below if self._below else places, absent

    def _places(self, x: npt.NDArray[np.int64]) -> Array:
        if not len(self._steps):
            return np.zeros(len(x), np.intp)
        if self._floats is None:
            return np.searchsorted(self._steps, x, side="right" if self.counts_equal else "left")
        near = np.clip(x, self._steps[0] - 1, self._steps[-1] + 1).astype(np.float64)
        return self._floats.not_above(near) if self.counts_equal else self._floats.below(near)


STEP_BITS = 31
"""Products of two numbers of at most 2^31 steps are below 2^63."""
MOST_STEPS = 2.0**STEP_BITS
WIDTHS = 2.0**-400, 2.0**400
"""Widths upper − lower whose products and scales float64 holds."""
CACHED = 1 << 13
"""Rows whose steps, or bins, stay in the cache while they are added up."""
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


LEAST, MOST = -32, 64
"""Exponents of the smallest and of the largest end of a bin."""
OCTAVES = MOST - LEAST + 1
"""Bins on each side of 0."""
EDGES = (
    *(-(2.0**exponent) for exponent in range(MOST, LEAST - 1, -1)),
    0.0,
    *(2.0**exponent for exponent in range(LEAST, MOST + 1)),
)
"""The ends of all bins, in order."""
LOG_BINS = len(EDGES) - 1
WIDEST = EDGES[0], EDGES[-1]
POINTS = 64
"""Points of the grid for quantiles in each power of two; fewer if there are many groups."""
FEWEST_POINTS = len(EDGES)
"""Points of the grid with one in each power of two."""


def log_grid(points: int = POINTS) -> tuple[float, ...]:
    """The points among which quantiles are chosen: so many in each power of two, evenly."""
    above = [math.ldexp(1 + place / points, exponent) for exponent in range(LEAST, MOST) for place in range(points)]
    above.append(2.0**MOST)
    return (*(-point for point in reversed(above)), 0.0, *above)


def rows_of(numbers: Array) -> Array:
    """Rows in each bin."""
    found: Array = np.zeros(LOG_BINS, np.int64)
    for start in range(0, len(numbers), CACHED):
        found += np.bincount(bins_of(numbers[start : start + CACHED]), minlength=LOG_BINS)
    return found


def bins_of(numbers: Array) -> Array:
    """The bin of each number; those beyond the widest bounds are in the last one of their side."""
    x = np.clip(numbers.astype(np.float64), *WIDEST)
    size = np.abs(x)
    octave = np.frexp(size)[1] - LEAST
    octave[size >= WIDEST[1]] = OCTAVES - 1
    octave[size < 2.0**LEAST] = 0
    codes: Array = np.where(x < 0, OCTAVES - 1 - octave, OCTAVES + octave)
    return codes
