"""Noise on a clamped number: code that the four mechanisms share."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from dpcore import _backend, noise
from dpcore._series import SeriesT
from dpcore._spread import noise_variance
from dpcore._validation import check_array, check_integer, check_real, check_threads
from dpcore.errors import DataError, ParameterError
from dpcore.local._error_curves import Spread
from dpcore.local._limits import MeanLimits
from dpcore.local._mean_intervals import noise_width
from dpcore.local._mechanism import LocalMechanism
from dpcore.local._one_bit import check_bounds
from dpcore.local.estimates import Aggregate, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpcore._exact.pending import Kind
    from dpcore.local._mechanism import Real
    from dpcore.rng import Stream

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
BLOCK = 1 << 13
PART = 22
"""Sums of BLOCK products of parts of 22 bits stay below 2^57; see `moments`."""
NEAR = 2**51
SHORT, FLOAT_PART = 20, 18
"""Sums of BLOCK products of parts of so many bits stay below 2^53; see `float_moments`."""


@lru_cache(maxsize=1024)
def range_width(lower: float, upper: float) -> float:
    """Return upper − lower, rounded up: a sensitivity must not be understated by a rounding."""
    exact, width = Fraction(upper) - Fraction(lower), upper - lower
    return math.nextafter(width, math.inf) if math.isfinite(width) and Fraction(width) < exact else width


@lru_cache(maxsize=1024)
def _middle(lower: float, upper: float, grid: float, *, integral: bool) -> tuple[int, Fraction]:
    """The middle of the range in units of the grid, rounded, and what the rounding took off. For floats the first is a float64."""
    exact, step = (Fraction(lower) + Fraction(upper)) / 2, Fraction(grid)
    steps = round(exact / step)
    if not integral and abs(steps) >= 2**53:
        steps = int(Fraction(float(exact)) / step)  # from there on, floats are multiples of the grid already
    return steps, exact / step - steps


def moments(d: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Σd and Σd² of at most BLOCK integers, exactly.

    d = a·2^44 + b·2^22 + c with −2^19 ≤ a < 2^19 and 0 ≤ b, c < 2^22: products of two parts are below 2^44 in magnitude, sums of
    BLOCK = 2^13 of them below 2^57, so nothing overflows int64; the sums are put together as Python integers.
    """
    low = 2**PART - 1
    a, b, c = d >> 2 * PART, d >> PART & low, d & low
    total = (int(a.sum()) << 2 * PART) + (int(b.sum()) << PART) + int(c.sum())
    squares = (int(a @ a) << 4 * PART) + (int(a @ b) << 3 * PART + 1) + (2 * int(a @ c) + int(b @ b) << 2 * PART)
    return total, squares + (int(b @ c) << PART + 1) + int(c @ c)


def calibrated(make: Callable[..., Mechanism], *parameters: float) -> Mechanism:
    """The mechanism whose noise this is; that of plain numbers is kept, because a local mechanism is made of little else."""
    if {*map(type, parameters)} <= {float, int}:
        kept: Mechanism = _kept(make, *parameters)
        return kept
    return make(*parameters)


@lru_cache(maxsize=1024)
def _kept(make: Callable[..., Any], *parameters: float) -> Any:
    return make(*parameters)


def float_moments(d: npt.NDArray[np.float64]) -> tuple[int, int]:
    """Σd and Σd² of at most BLOCK floats that are integers of magnitude below 2^53, exactly.

    With |d| ≤ 2^20 every partial sum is below 2^53. Otherwise d = a·2^36 + b·2^18 + c, where a, b and c are integers of magnitude at most
    2^17, since each rest is exact: products are at most 2^34 and sums of them at most 2^47. Exact partial sums do not depend on the order
    of additions, so vector units may add as they like.
    """
    if not d.size:
        return 0, 0
    if max(d.max(), -d.min()) <= 2.0**SHORT:
        return int(d.sum()), int(d @ d)
    a = np.rint(d * 2.0 ** (-2 * FLOAT_PART))
    rest = d - a * 2.0 ** (2 * FLOAT_PART)
    b = np.rint(rest * 2.0**-FLOAT_PART)
    c = rest - b * 2.0**FLOAT_PART
    total = (int(a.sum()) << 2 * FLOAT_PART) + (int(b.sum()) << FLOAT_PART) + int(c.sum())
    squares = (int(a @ a) << 4 * FLOAT_PART) + (int(a @ b) << 3 * FLOAT_PART + 1) + (2 * int(a @ c) + int(b @ b) << 2 * FLOAT_PART)
    return total, squares + (int(b @ c) << FLOAT_PART + 1) + int(c @ c)


Single = TypeVar("Single", float, int)
Mechanism = TypeVar("Mechanism")


class Additive(LocalMechanism, Generic[Single]):
    """Noise on a clamped number: the base class of the four mechanisms."""

    __slots__ = ()
    FALLS = True

    lower: float
    upper: float
    missing: float | None
    scale: float
    grid: float

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """Name of the noise function."""

    @property
    def integral(self) -> bool:
        """Whether the mechanism takes and returns integers."""
        return self.kind.startswith("discrete")

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of one number."""
        return noise_variance(self.kind, self.scale)

    def _spread(self, at: float | None, target: str) -> Spread:
        if at is not None:
            at = check_real("at", at, low=self.lower, high=self.upper)
        # products, since powers raise where they leave the range of float64; differences, since squares of the bounds cancel
        half = (self.upper - self.lower) / 2
        records = half * half if at is None else (self.upper - at) * (at - self.lower)
        sample = target == "sample"
        words = "variance of the noise" + ("" if sample else " + (upper − lower)²/4" if at is None else " + (upper − mean)(mean − lower)")
        return Spread(
            self.noise_variance + (0.0 if sample else records),
            words,
            exact=True,
            width=self._widest if sample else None,
            why="whose intervals for a population follow the spread of the reports",
        )

    def _widest(self, n: int, confidence: float) -> float:
        return 2 * self.grid * noise_width(self.kind, self.scale / self.grid, n, (1 - confidence) / 2) / n

    def _settle(self, scale: float) -> None:
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "grid", 1.0 if self.integral else noise.default_grid(scale))

    def _settle_reals(self) -> float:
        lower, upper, missing = check_bounds(self.lower, self.upper, self.missing)
        for name, value in (("lower", lower), ("upper", upper), ("missing", missing)):
            object.__setattr__(self, name, value)
        return range_width(lower, upper)

    def _settle_integers(self) -> int:
        lower, upper = (check_integer(n, v, low=INT64_MIN, high=INT64_MAX) for n, v in (("lower", self.lower), ("upper", self.upper)))
        if not lower < upper:
            raise ParameterError(f"lower must be less than upper, got lower {lower} and upper {upper}")
        missing = None if self.missing is None else check_integer("missing", self.missing, low=lower, high=upper)
        for name, value in (("lower", lower), ("upper", upper), ("missing", missing)):
            object.__setattr__(self, name, value)
        return upper - lower

    @overload
    def privatize(self, records: Real, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> Single: ...
    @overload
    def privatize(self, records: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def privatize(
        self, records: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[Any] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[Any]: ...
    def privatize(self, records: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Clamp every number to the bounds and add separate noise.

        Parameters
        ----------
        records : array_like
            Real numbers, or integers for the discrete kinds; any shape.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        out : ndarray of float64, float32 or int64, optional
            Of the shape of `records`; may be `records` itself. In float32, each report is rounded to the nearest one, which is
            post-processing; `estimate` takes the unrounded reports only.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.

        Returns
        -------
        number or ndarray
            float64, or int64 for the discrete kinds; a Python number for a scalar.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a number is NaN and `missing` is not set. An `out` that is `records` has not been changed; another one may hold reports of
            records before the one that is refused, and these count as made.
        EntropyError
            If the operating system gives no randomness. Nothing is written then.
        """
        # Clamped where noise is added, block by block: neither `out` nor a result that a failure leaves behind ever holds a record.
        bounds = (self.lower, self.upper, self.missing)
        if self.integral:
            return noise.int_noise(self.kind, records, self.scale, rng, out, threads, bounds)
        return noise.float_noise(self.kind, records, self.scale, self.grid, rng, out, threads, bounds)

    @property
    def _centre(self) -> int:
        """The middle of the range in units of the grid, rounded: sums around it stay small. For floats it is a float64."""
        return _middle(self.lower, self.upper, self.grid, integral=self.integral)[0]

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Sum reports and their squares, exactly.

        Parameters
        ----------
        reports : array_like
            What `privatize` made, any shape.
        threads : int, optional
            Not used; the sums are exact on one thread.

        Returns
        -------
        Aggregate
            counts = (Σd, Σd²) as Python integers, d = report/grid − c with c the middle of the range in units of the grid, rounded.

        Raises
        ------
        DataError
            If a report is not a multiple of the grid.
        """
        check_threads(threads)
        values = check_array("reports", reports, ("int64",) if self.integral else ("float64",))
        flat, centre = values.reshape(-1), self._centre

        def far(start: int, stop: int) -> tuple[int, int]:
            block = flat[start:stop]
            return around(block, centre) if self.integral else self._float_sums(block, centre, start)

        return Aggregate(self, flat.size, _backend.moments(flat, centre, self.grid, far))

    def _float_sums(self, block: npt.NDArray[np.float64], centre: int, start: int) -> tuple[int, int]:
        """Σd and Σd² of a block of floats.

        The grid is a power of two, so that quotients are exact. Of a multiple of the grid the quotient is an integer, as is the centre, and
        both are float64s: a difference below 2^53 is exact, and adding the centre again gives the report back. Of anything else it cannot.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            steps = block / self.grid - float(centre)
            near = (np.abs(steps) < 2.0**53) & (np.rint(steps) == steps) & ((steps + float(centre)) * self.grid == block)
        if near.all():
            return float_moments(steps)
        steps[~near] = 0
        total, squares = float_moments(steps)
        for i in np.flatnonzero(~near).tolist():
            far = self._far_steps(float(block[i]), start + i) - centre
            total, squares = total + far, squares + far * far
        return total, squares

    def _far_steps(self, report: float, index: int) -> int:
        """A report in units of the grid, of any size; noise never makes one this large, but a report may come from anyone."""
        steps = Fraction(report) / Fraction(self.grid) if math.isfinite(report) else None
        if steps is None or steps.denominator != 1:
            raise DataError(f"reports must be finite multiples of the grid {self.grid!r}; the one at index {index} is not")
        return steps.numerator

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:
        total, squares = (int(count) for count in counted.counts)
        n, grid = counted.n, self.grid
        centre, middle = _middle(self.lower, self.upper, grid, integral=self.integral)
        value = float(Fraction(centre * n + total, n) * Fraction(grid))
        # Spread in units of the grid, a power of two: squares of the numbers themselves may leave the range of float64.
        scale, half = self.scale / grid, (self.upper - self.lower) / grid / 2
        variance, squared = noise_variance(self.kind, scale), None
        if target == "population":
            # for a single report, only the bounds limit the variance
            squared = _nearest(squares * n - total * total, n * (n - 1)) if n > 1 else variance + half * half
            variance = squared
        limits = MeanLimits(value, grid, self.kind, scale, n, _nearest(*(total - n * middle).as_integer_ratio()), half, squared)
        return Estimate(value, grid * math.sqrt(variance / n), n, self.privacy, limits=limits)


def around(block: npt.NDArray[np.int64], centre: int) -> tuple[int, int]:
    """Σ(x − c) and Σ(x − c)² of a block of integers, whose differences need not fit int64."""
    if abs(centre) < NEAR and len(block) and block.min() > -NEAR and block.max() < NEAR:
        return float_moments(block.astype(np.float64) - float(centre))
    total, squares = moments(block)
    n = len(block)
    return total - n * centre, squares - 2 * centre * total + n * centre * centre


def _nearest(numerator: int, denominator: int) -> float:
    """The float64 nearest to the quotient, infinite beyond its range."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf
