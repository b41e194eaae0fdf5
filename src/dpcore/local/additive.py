"""Mechanisms that clamp a number and add noise to it."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend, mechanisms, noise
from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_integer, check_out, check_threads
from dpcore.errors import DataError, ParameterError
from dpcore.local._limits import MeanLimits
from dpcore.local._mean_intervals import noise_variance
from dpcore.local._mechanism import LocalMechanism, open_stream, separate
from dpcore.local._one_bit import check_bounds
from dpcore.local.estimates import Aggregate, Estimate
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore._exact.pending import Kind
    from dpcore.rng import Stream

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
BLOCK = 1 << 14
PART = 22
"""Sums of BLOCK products of parts of 22 bits stay below 2^58; see `moments`."""


def range_width(lower: float, upper: float) -> float:
    """Return upper − lower, rounded up: a sensitivity must not be understated by a rounding."""
    exact, width = Fraction(upper) - Fraction(lower), upper - lower
    return math.nextafter(width, math.inf) if math.isfinite(width) and Fraction(width) < exact else width


def moments(d: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Σd and Σd² of at most BLOCK integers, exactly.

    d = a·2^44 + b·2^22 + c with −2^19 ≤ a < 2^19 and 0 ≤ b, c < 2^22: products of two parts are below 2^44 in magnitude, sums of
    BLOCK = 2^14 of them below 2^58, so nothing overflows int64; the sums are put together as Python integers.
    """
    low = 2**PART - 1
    a, b, c = d >> 2 * PART, d >> PART & low, d & low
    total = (int(a.sum()) << 2 * PART) + (int(b.sum()) << PART) + int(c.sum())
    squares = (int(a @ a) << 4 * PART) + (int(a @ b) << 3 * PART + 1) + (2 * int(a @ c) + int(b @ b) << 2 * PART)
    return total, squares + (int(b @ c) << PART + 1) + int(c @ c)


class Additive(LocalMechanism):
    """Noise on a clamped number: what the four kinds share."""

    __slots__ = ()

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
        """Whether the mechanism takes and gives integers."""
        return self.kind.startswith("discrete")

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of one number."""
        return noise_variance(self.kind, self.scale)

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

    def privatize(self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[Any] | None = None, threads: int | None = None) -> Any:
        """Clamp every number to the bounds and add noise of its own.

        Parameters
        ----------
        records : array_like
            Real numbers, or integers for the discrete kinds; any shape.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of float64 or int64, optional
            Of the shape of `records`; may be `records` itself.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        number or ndarray
            float64, or int64 for the discrete kinds; a Python number for a scalar.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a number is NaN and `missing` is not set; nothing is written then.
        EntropyError
            If the operating system gives no randomness; nothing is written then.
        """
        values = check_array("records", records, (*INTEGER_DTYPES, "uint64") if self.integral else (*REAL_DTYPES, "uint64"))
        dtype: type = np.int64 if self.integral else np.float64
        result = None if out is None else check_out(out, dtype, values.shape)
        stream = open_stream(rng, threads)
        values = separate(values, result)
        bounds = _backend.Bounds(self.lower, self.upper, self.missing)
        # Clamped where noise is added, block by block: neither `out` nor a result that a failure leaves behind ever holds a record.
        released: npt.NDArray[Any]
        if self.integral:
            released = _backend.int_noise(self.kind, values, self.scale, stream.position(), out=result, threads=threads, bounds=bounds)
        else:
            released = _backend.float_noise(
                self.kind,
                values,
                self.scale,
                self.grid,
                stream.position(),
                out=result,
                threads=threads,
                bounds=bounds,
            )
        return released.item() if np.ndim(records) == 0 and out is None else released

    @property
    def _centre(self) -> int:
        """The middle of the range in units of the grid, rounded: sums around it stay small. For floats it is a float64."""
        middle, grid = (Fraction(self.lower) + Fraction(self.upper)) / 2, Fraction(self.grid)
        steps = round(middle / grid)
        # From 2^53 steps on, floats are multiples of the grid already.
        return steps if self.integral or abs(steps) < 2**53 else int(Fraction(float(middle)) / grid)

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Sum reports and their squares, exactly.

        Parameters
        ----------
        reports : array_like
            What `privatize` made, any shape.
        threads : int, optional
            Not used.

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
        flat, centre, total, squares = values.reshape(-1), self._centre, 0, 0
        for start in range(0, flat.size, BLOCK):
            block = flat[start : start + BLOCK]
            block_total, block_squares = _around(block, centre) if self.integral else self._float_sums(block, centre, start)
            total, squares = total + block_total, squares + block_squares
        return Aggregate(self, flat.size, (total, squares))

    def _float_sums(self, block: npt.NDArray[np.float64], centre: int, start: int) -> tuple[int, int]:
        """Σd and Σd² of a block of floats.

        The grid is a power of two, so that quotients are exact. Of a multiple of the grid the quotient is an integer, as is the centre, and
        both are float64s: a difference below 2^53 is exact, and adding the centre again gives the report back. Of anything else it cannot.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            steps = block / self.grid - float(centre)
            d = steps.astype(np.int64)
            near = (np.abs(steps) < 2.0**53) & ((d + float(centre)) * self.grid == block)
        if near.all():
            return moments(d)
        d[~near] = 0
        total, squares = moments(d)
        for i in np.flatnonzero(~near).tolist():
            far = self._far_steps(float(block[i]), start + i) - centre
            total, squares = total + far, squares + far * far
        return total, squares

    def _far_steps(self, report: float, index: int) -> int:
        """A report in units of the grid, however large; noise never takes one there, but a report may come from anyone."""
        steps = Fraction(report) / Fraction(self.grid) if math.isfinite(report) else None
        if steps is None or steps.denominator != 1:
            raise DataError(f"reports must be finite multiples of the grid {self.grid!r}; the one at index {index} is not")
        return steps.numerator

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:
        total, squares = (int(count) for count in counted.counts)
        n, grid = counted.n, self.grid
        value = float((self._centre + Fraction(total, n)) * Fraction(grid))
        # Spread in units of the grid, a power of two: squares of the numbers themselves may leave the range of float64.
        scale, half = self.scale / grid, (self.upper - self.lower) / grid / 2
        variance, squared = noise_variance(self.kind, scale), None
        if target == "population":
            # of a single report nothing is known but what bounds allow
            squared = _nearest((squares - Fraction(total * total, n)) / (n - 1)) if n > 1 else variance + half * half
            variance = squared
        middle = (Fraction(self.lower) + Fraction(self.upper)) / 2 / Fraction(grid) - self._centre
        limits = MeanLimits(value, grid, self.kind, scale, n, _nearest(total - n * middle), half, squared)
        return Estimate(value, grid * math.sqrt(variance / n), n, self.privacy, limits=limits)


def _around(block: npt.NDArray[np.int64], centre: int) -> tuple[int, int]:
    """Σ(x − c) and Σ(x − c)² of a block of integers, whose differences need not fit int64."""
    total, squares = moments(block)
    n = len(block)
    return total - n * centre, squares - 2 * centre * total + n * centre * centre


def _nearest(number: Fraction) -> float:
    """The nearest float64, infinite beyond its range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class LocalLaplace(Additive):
    r"""Laplace noise on every number: T(x) + Laplace((upper − lower)/ε), T clamping to [lower, upper].

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, positive and finite.
    lower, upper : float
        Bounds, lower < upper, from knowledge of the subject, never from the data.
    missing : float, optional
        What NaN stands for, in [lower, upper]; without it NaN raises.

    Attributes
    ----------
    scale, grid : float
        The noise's b, at least (upper − lower)/ε, and the grid of the reports.
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y ∈ A\|x) ≤ e^ε P(y ∈ A\|x') for the released floats. Source: Steinberger (2019), Beispiel 1.7 (c).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import LocalLaplace
    >>> mechanism = LocalLaplace(epsilon=1.0, lower=0.0, upper=10.0)
    >>> mechanism.scale
    10.0
    >>> bool(abs(mechanism.estimate(mechanism.privatize(np.full(100_000, 4.0))).value - 4.0) < 0.4)
    True
    """

    epsilon: float
    lower: float
    upper: float
    missing: float | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_reals()
        calibrated = mechanisms.Laplace(self.epsilon, width)
        object.__setattr__(self, "epsilon", calibrated.epsilon)
        self._settle(calibrated.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "laplace"


@dataclass(frozen=True, slots=True)
class LocalGaussian(Additive):
    r"""Gaussian noise on every number, calibrated exactly for sensitivity upper − lower.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one report, ε positive and finite, δ in (0, 1).
    lower, upper : float
        Bounds, lower < upper; numbers outside are clamped.
    missing : float, optional
        What NaN stands for, in [lower, upper]; without it NaN raises.

    Attributes
    ----------
    scale, grid : float
        The noise's σ, and the grid of the reports.
    privacy : Privacy
        (ε, δ).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: as `dpcore.mechanisms.Gaussian`, for each report. Source: Balle & Wang (2018).

    Examples
    --------
    >>> from dpcore.local import LocalGaussian
    >>> round(LocalGaussian(1.0, 1e-5, 0.0, 1.0).scale, 4)
    3.7306
    """

    epsilon: float
    delta: float
    lower: float
    upper: float
    missing: float | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_reals()
        calibrated = mechanisms.Gaussian(self.epsilon, self.delta, width)
        object.__setattr__(self, "epsilon", calibrated.epsilon)
        object.__setattr__(self, "delta", calibrated.delta)
        self._settle(calibrated.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "gaussian"

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one report: (ε, δ)."""
        return Privacy(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class LocalDiscreteLaplace(Additive):
    r"""Integer Laplace noise on every integer, with ratio e^(−ε/(upper − lower)).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, positive and finite.
    lower, upper : int
        Bounds, lower < upper; integers outside are clamped.
    missing : int, optional
        Recorded for callers whose data mark missing numbers; in [lower, upper].

    Attributes
    ----------
    scale, grid : float
        The noise's t, at least (upper − lower)/ε, and 1.
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y\|x) ≤ e^ε P(y\|x'). Source: Ghosh, Roughgarden & Sundararajan (2009).

    Examples
    --------
    >>> from dpcore.local import LocalDiscreteLaplace
    >>> LocalDiscreteLaplace(1.0, 0, 20).scale
    20.0
    """

    epsilon: float
    lower: int
    upper: int
    missing: int | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_integers()
        calibrated = mechanisms.DiscreteLaplace(self.epsilon, width)
        object.__setattr__(self, "epsilon", calibrated.epsilon)
        self._settle(calibrated.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "discrete_laplace"


@dataclass(frozen=True, slots=True)
class LocalDiscreteGaussian(Additive):
    r"""Integer Gaussian noise on every integer, calibrated exactly for sensitivity upper − lower.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one report, ε positive and finite, δ in (0, 1).
    lower, upper : int
        Bounds, lower < upper; integers outside are clamped.
    missing : int, optional
        Recorded for callers whose data mark missing numbers; in [lower, upper].

    Attributes
    ----------
    scale, grid : float
        The noise's σ, and 1.
    privacy : Privacy
        (ε, δ).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: as `dpcore.mechanisms.DiscreteGaussian` with method="exact", for each report: one integer query.
    Source: Canonne, Kamath & Steinke (2020).

    Examples
    --------
    >>> from dpcore.local import LocalDiscreteGaussian
    >>> LocalDiscreteGaussian(1.0, 1e-6, 0, 1).privacy
    Privacy(epsilon=1.0, delta=1e-06, relation='replace')
    """

    epsilon: float
    delta: float
    lower: int
    upper: int
    missing: int | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_integers()
        calibrated = mechanisms.DiscreteGaussian(self.epsilon, self.delta, width, method="exact")
        object.__setattr__(self, "epsilon", calibrated.epsilon)
        object.__setattr__(self, "delta", calibrated.delta)
        self._settle(calibrated.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "discrete_gaussian"

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one report: (ε, δ)."""
        return Privacy(self.epsilon, self.delta)
