"""Exact sums: integers in units of a grid, whose sensitivity holds in the arithmetic that computes them.

A sum of floats depends on the order of its terms, and one record can move it by more than the formula says (Casacuberta et al., 2022).
Here every value is first clamped and rounded to a grid, by one fixed function of that value alone. The rounded values are added as
integers, without error. So the result does not depend on the order, on threads or on chunks, and one record moves it by at most
`ExactSum.sensitivity`. `ExactSum.noisy` adds noise to that exact number. See docs/exactness.md, "Exact sums".
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_choice, check_real, check_scale, check_threads
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.noise import FLOAT_SCALE
from dpcore.privacy import Relation
from dpcore.rng import Stream, resolve

__all__ = ["ExactSum", "clamped_sum", "clipped_sum", "grid_of"]

GRID_BITS = 50
"""The grid is 2^(⌊log2 M⌋ − 50) for the larger bound M: fine enough for 15 digits, coarse enough that 2^11 values fit into an int64."""
SMALLEST_BOUND, LARGEST_BOUND = 2.0**-900, 2.0**900
_MOST_ROWS = 2**53
Sums: TypeAlias = float | npt.NDArray[np.float64]


def grid_of(bound: float) -> float:
    """Return the grid of sums whose larger bound is `bound`: 2^(⌊log2 bound⌋ − 50).

    Parameters
    ----------
    bound : float
        Largest magnitude of a clamped value, in [2^-900, 2^900].

    Returns
    -------
    float
        A power of two.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the bound is out of range or not a number.

    Notes
    -----
    Cost: less than a microsecond.

    Examples
    --------
    >>> grid_of(1.0) == 2.0**-50
    True
    """
    bound = check_real("bound", bound, low=SMALLEST_BOUND, high=LARGEST_BOUND)
    return math.ldexp(1.0, math.frexp(bound)[1] - 1 - GRID_BITS)


@dataclass(frozen=True, slots=True, eq=False)
class ExactSum:
    r"""A sum, or one for each column, as an exact integer in units of a grid.

    `clipped_sum` and `clamped_sum` make it. Two sums with the same grid and bounds are added with ``+``; sums are equal if all fields are.

    Attributes
    ----------
    high, low : float, or ndarray of float64 of shape (d,)
        The sum is exactly high + low; `high` is the float64 nearest to it. Arrays are read-only.
    grid : float
        Power of two of which the sum is a multiple.
    n : int
        Number of records that were added.
    lower, upper : float
        Bounds to which each value was clamped: the given ones, rounded inward to the grid.

    Notes
    -----
    Guarantee: for neighbouring data, each coordinate differs by at most `sensitivity(relation)`, exactly.

    Examples
    --------
    >>> total = clipped_sum([0.5, 2.0, -7.0], radius=1.0)
    >>> total.high, total.low, total.n, total.sensitivity()
    (0.5, 0.0, 3, 2.0)
    >>> total + clipped_sum([0.25], radius=1.0) == clipped_sum([-7.0, 0.25, 0.5, 2.0], radius=1.0)
    True
    """

    high: Sums
    low: Sums
    grid: float
    n: int
    lower: float
    upper: float

    @property
    def radius(self) -> float:
        """Largest magnitude of a clamped value."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def integers(self) -> int | tuple[int, ...]:
        """The exact sum in units of the grid: one integer, or a tuple of d."""
        if isinstance(self.high, float):
            return int(self.high / self.grid) + int(self.low / self.grid)
        pairs = zip((self.high / self.grid).tolist(), (np.asarray(self.low) / self.grid).tolist(), strict=True)
        return tuple(int(high) + int(low) for high, low in pairs)

    def sensitivity(self, relation: Relation = "replace") -> float:
        """Return the most by which one record moves one coordinate.

        Parameters
        ----------
        relation : {"replace", "add_remove"}, default "replace"
            Which data sets are neighbours.

        Returns
        -------
        float
            upper − lower, or for "add_remove" the larger magnitude of the bounds. Exact: both are multiples of the grid.
        """
        if check_choice("relation", relation, ("replace", "add_remove")) == "replace":
            return self.upper - self.lower
        return self.radius

    def rounded(self) -> tuple[Sums, float]:
        r"""Return the sums as float64 numbers, with the sensitivity under replacement of these rounded numbers.

        Returns
        -------
        values : float or ndarray of float64 of shape (d,)
            The multiple of G nearest to each sum (the upper one of two), where G is the least power of two for which all sums of n records
            fit into 53 bits. If G is the grid, these are the exact sums.
        sensitivity : float
            upper − lower, rounded up to a multiple of G: the most by which replacing one record moves a value, or its magnitude.

        Notes
        -----
        Use it for functions that take float64, such as `dpcore.selection.top_s`. `high` has no such sensitivity: float64 is finer for
        smaller numbers, so that rounding can move two neighbouring sums apart. Rounding to multiples of one G commutes with shifts by
        multiples of G and is monotone; the bound follows. n must be the same for neighbours, so adding and removing records is not covered.

        Examples
        --------
        >>> clipped_sum([0.5, 2.0, -7.0], radius=1.0).rounded()
        (0.5, 2.0)
        """
        steps = max(1, self.n) * int(self.radius / self.grid)
        coarse = math.ldexp(self.grid, max(0, steps.bit_length() - 53))  # not a power of floats, which is exact in one rounding mode only
        whole = np.floor(np.asarray(self.high) / coarse)
        # exact: both parts are multiples of the grid below 2^53 steps, and so is each sum below
        rest = (np.asarray(self.high) - whole * coarse) + self.low
        values = (whole + np.floor(rest / coarse + 0.5)) * coarse
        sensitivity = math.ceil(self.sensitivity() / coarse) * coarse
        return (float(values), sensitivity) if isinstance(self.high, float) else (values, sensitivity)

    def noisy(
        self, noise: Literal["laplace", "gaussian"], scale: float | npt.ArrayLike, *, rng: Stream | None = None, threads: int | None = None
    ) -> Sums:
        r"""Release the exact sum plus noise, correctly rounded.

        Parameters
        ----------
        noise : {"laplace", "gaussian"}
            Law of the noise.
        scale : float or array_like
            Laplace b or Gaussian σ, in [2^-960, 2^960]; an array must broadcast against the d sums.
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        float or ndarray of float64
            The float64 nearest to the multiple of 2^(⌊log2 scale⌋ − 25) nearest to high + low + noise.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is out of range or of the wrong type.
        EntropyError
            If the operating system gives no randomness.

        Notes
        -----
        Guarantee: that of `dpcore.noise.laplace` or `dpcore.noise.gaussian` at this scale, for the exact sum, which is not rounded to
        float64 before the noise is added.

        Examples
        --------
        >>> total = clipped_sum([0.5, 2.0, -7.0], radius=1.0)
        >>> epsilon = 0.5
        >>> isinstance(total.noisy("laplace", total.sensitivity() / epsilon), float)
        True
        """
        check_choice("noise", noise, ("laplace", "gaussian"))
        high, low = np.asarray(self.high, np.float64), np.asarray(self.low, np.float64)
        scales = check_scale(scale, low=FLOAT_SCALE[0], high=FLOAT_SCALE[1], shape=high.shape)
        check_threads(threads)
        stream = resolve(rng)
        grid = _backend.default_grid(scales) if isinstance(scales, float) else None
        result = _backend.noisy_pairs(noise, high, low, scales, grid, stream.position(), threads=threads)
        return float(result[()]) if isinstance(self.high, float) else result

    def __add__(self, other: object) -> ExactSum:
        if not isinstance(other, ExactSum):
            return NotImplemented
        if self._frame() != other._frame() or np.shape(self.high) != np.shape(other.high):
            raise ParameterError(
                f"sums must have equal bounds, grids and shapes to be merged, got {self._frame()} of shape {np.shape(self.high)} "
                f"and {other._frame()} of shape {np.shape(other.high)}"
            )
        if self.n + other.n > _MOST_ROWS:
            raise ParameterError(f"a sum must have at most 2**53 records, got {self.n + other.n}")
        high, error = _two_sum(self.high, other.high)
        # |sum| <= 2^104 steps: the low parts are integers below 2^51 steps, and add without rounding
        high, low = _two_sum(high, error + (self.low + other.low))
        if not isinstance(high, float):
            high.flags.writeable = low.flags.writeable = False
        return ExactSum(high, low, self.grid, self.n + other.n, self.lower, self.upper)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSum):
            return NotImplemented
        same = self._frame() == other._frame() and self.n == other.n
        return same and np.array_equal(self.high, other.high) and np.array_equal(self.low, other.low)

    def __hash__(self) -> int:
        return hash((*self._frame(), self.n, np.shape(self.high)))

    def _frame(self) -> tuple[float, float, float]:
        return self.grid, self.lower, self.upper


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum and its error, exactly (Knuth, 1997)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def clipped_sum(records: npt.ArrayLike, radius: float, *, threads: int | None = None) -> ExactSum:
    r"""Add values, each clipped to [−R, R], exactly.

    Parameters
    ----------
    records : array_like
        (n,) or (n, d) real numbers of any strides: float64 or narrower, or integers up to int64 (one beyond 2^53 enters as the nearest
        float64). Infinities clip.
    radius : float
        R in [2^-900, 2^900]; rounded down to the grid, which takes off less than 2^-50 of it.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    ExactSum
        The sum, or one for each column.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.
    DataError
        If a value is NaN; the message has its index.

    Notes
    -----
    Each value x becomes the multiple of g = 2^(⌊log2 R⌋ − 50) nearest to clamp(x, −R, R), ties to even; these are added as integers.

    Guarantee: replacing one record moves each coordinate by at most 2R, adding or removing one by at most R, in exact arithmetic.
    Rounding moves a sum by at most n·g/2 from the exact clipped one.

    Cost: one pass over the array, at memory speed.

    Source: Casacuberta et al. (2022); Private inference (chapter 9), Algorithm 9.2.1, line 1.

    Examples
    --------
    >>> import numpy as np
    >>> clipped_sum(np.array([[1.0, 10.0], [2.0, -30.0]]), radius=4.0).high
    array([3., 0.])
    """
    radius = check_real("radius", radius, low=SMALLEST_BOUND, high=LARGEST_BOUND)
    return _exact_sum(_check_rows(records), *_on_grid(-radius, radius), threads)


def clamped_sum(records: npt.ArrayLike, lower: float, upper: float, *, threads: int | None = None) -> ExactSum:
    r"""Add values, each clamped to [lower, upper], exactly.

    Parameters
    ----------
    records : array_like
        As for `clipped_sum`.
    lower, upper : float
        Bounds, lower < upper, the larger magnitude M in [2^-900, 2^900]; each is rounded inward to the grid 2^(⌊log2 M⌋ − 50).
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    ExactSum
        The sum, or one for each column.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or no multiple of the grid lies between the bounds.
    DataError
        If a value is NaN; the message has its index.

    Notes
    -----
    Guarantee: replacing one record moves each coordinate by at most upper − lower, adding or removing one by at most M.

    Cost: one pass over the array, at memory speed.

    Examples
    --------
    >>> clamped_sum([3, 50, 99], lower=0, upper=60).high
    113.0
    """
    lower = check_real("lower", lower, low=-LARGEST_BOUND, high=LARGEST_BOUND)
    upper = check_real("upper", upper, low=-LARGEST_BOUND, high=LARGEST_BOUND)
    return _exact_sum(_check_rows(records), *_on_grid(lower, upper), threads)


@lru_cache(maxsize=1024)
def _on_grid(lower: float, upper: float) -> tuple[float, float, float]:
    """Bounds rounded inward to the grid, and the grid."""
    if not lower < upper:
        raise ParameterError(f"lower must be below upper, got {lower!r} and {upper!r}")
    bound = max(abs(lower), abs(upper))
    if bound < SMALLEST_BOUND:
        raise ParameterError(f"lower or upper must have a magnitude of at least {SMALLEST_BOUND!r}, got {lower!r} and {upper!r}")
    grid = grid_of(bound)
    inner = math.ceil(lower / grid) * grid, math.floor(upper / grid) * grid
    if inner[0] > inner[1]:
        raise ParameterError(f"lower and upper must have a multiple of the grid {grid!r} between them, got {lower!r} and {upper!r}")
    return *inner, grid


def _check_rows(records: npt.ArrayLike) -> npt.NDArray[Any]:
    array = check_array("records", records, REAL_DTYPES)
    if array.ndim not in {1, 2}:
        raise ParameterTypeError(f"records must have shape (n,) or (n, d), got {array.ndim} dimensions")
    return array


def _exact_sum(records: npt.NDArray[Any], lower: float, upper: float, grid: float, threads: int | None) -> ExactSum:
    check_threads(threads)
    rows = records[:, np.newaxis] if records.ndim == 1 else records
    high, low = _backend.column_sums(rows, lower, upper, grid, threads=threads)
    if records.ndim == 1:
        return ExactSum(float(high[0]), float(low[0]), grid, len(records), lower, upper)
    high.flags.writeable = low.flags.writeable = False
    return ExactSum(high, low, grid, len(records), lower, upper)


def __dir__() -> list[str]:
    return __all__
