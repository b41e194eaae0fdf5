"""One column of a job, made ready: its mechanism's scale, the types it takes, and the noise on one batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from dpcore import mechanisms, noise
from dpcore.batch.errors import JobError
from dpcore.batch.job import (
    INT64_MAX,
    INT64_MIN,
    DiscreteGaussianColumn,
    DiscreteLaplaceColumn,
    GaussianColumn,
    JobColumn,
    LaplaceColumn,
)
from dpcore.errors import DataError, ParameterError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpcore.rng import Stream

    Sampler = Callable[..., Any]

INTEGER_TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
REAL_TYPES = (pa.float16(), pa.float32(), pa.float64(), *INTEGER_TYPES)
# A DataType's own to_pandas_dtype needs pandas in older pyarrow.
_NUMPY_TYPES = {
    kind: np.dtype({"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(kind), str(kind))) for kind in REAL_TYPES
}


class CellError(DataError):
    """A cell that the column's declaration does not cover; `row` counts from the start of the array."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(f"row {row}: {problem}")
        self.row = row
        self.problem = problem


@dataclass(frozen=True, slots=True)
class NoisyColumn:
    """A column with everything its noise depends on.

    Attributes
    ----------
    name, mechanism, lower, upper, missing
        As in the job.
    privacy : Privacy
        Guarantee of one cell.
    scale : float
        Noise scale for sensitivity upper − lower: Laplace b, Gaussian σ.
    grid : float
        The outputs are multiples of it.
    integral : bool
        Whether the mechanism takes and gives int64; else it gives float64.
    """

    name: str
    mechanism: str
    privacy: Privacy
    lower: float
    upper: float
    missing: float | None
    scale: float
    grid: float
    integral: bool
    sampler: Sampler

    @property
    def accepted_types(self) -> tuple[pa.DataType, ...]:
        """Types that the input column may have."""
        return INTEGER_TYPES if self.integral else REAL_TYPES

    @property
    def output_type(self) -> pa.DataType:
        """int64 for integer mechanisms, else float64."""
        return pa.int64() if self.integral else pa.float64()

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        return noise_variance(self.mechanism, self.scale)

    def privatize(self, values: pa.Array, rng: Stream | None) -> pa.Array:
        """Clamp, fill what is missing, add noise.

        Parameters
        ----------
        values : pyarrow.Array of shape (n,)
            Of one of `accepted_types`.
        rng : Stream or None
            None is the secure source.

        Returns
        -------
        pyarrow.Array of shape (n,)
            Of `output_type`, without nulls.

        Raises
        ------
        CellError
            If a cell is null or NaN and the job declares no `missing`.
        """
        n = len(values)
        buffer = pa.allocate_buffer(8 * n)
        if n:
            dtype = np.int64 if self.integral else np.float64
            out = np.frombuffer(buffer, dtype=dtype)
            # One thread: the engine already runs one batch per core.
            self.sampler(self._clamped(values, out), self.scale, rng=rng, out=out, threads=1)
        return pa.Array.from_buffers(self.output_type, n, [None, buffer], null_count=0)

    def _clamped(self, values: pa.Array, out: NDArray[Any]) -> NDArray[Any]:
        """The declared range of `values`, in `out` where its dtype allows, else as int64."""
        view = _buffer_view(values)
        exact = view.dtype.kind in "iu" and _are_int64(self.lower, self.upper, self.missing)
        # Integers keep their unit beyond 2^53 when every declared value is an integer too.
        target = np.empty(len(view), dtype=np.int64) if exact and not self.integral else out
        lower, upper = (int(self.lower), int(self.upper)) if exact else (self.lower, self.upper)
        if view.dtype == np.uint64 and exact:
            # Values from 2^63 on would turn negative on their way into int64.
            np.copyto(target, np.minimum(view, np.uint64(INT64_MAX)), casting="same_kind")
            np.clip(target, lower, upper, out=target)
        elif view.dtype == target.dtype:
            np.clip(view, lower, upper, out=target)
        else:
            np.copyto(target, view, casting="same_kind")
            np.clip(target, lower, upper, out=target)
        self._fill_missing(values, target)
        return target

    def _fill_missing(self, values: pa.Array, clamped: NDArray[Any]) -> None:
        # The minimum is NaN if any value is: one fast pass instead of a mask.
        has_nan = clamped.dtype.kind == "f" and bool(np.isnan(clamped.min()))
        if not has_nan and values.null_count == 0:
            return
        absent = np.isnan(clamped) if has_nan else np.zeros(len(clamped), dtype=np.bool_)
        if values.null_count:
            # What the buffer holds under a null is arbitrary, a NaN included.
            absent |= values.is_null().to_numpy(zero_copy_only=False)
        if self.missing is None:
            raise CellError(int(absent.argmax()), "null or NaN, and the job declares no `missing` for this column")
        clamped[absent] = self.missing


def _buffer_view(values: pa.Array) -> NDArray[Any]:
    """The values buffer of a primitive array, without a copy; what it holds under a null is arbitrary."""
    whole = np.frombuffer(values.buffers()[1], dtype=_NUMPY_TYPES[values.type])
    return whole[values.offset : values.offset + len(values)]


def _are_int64(*numbers: float | None) -> bool:
    return all(number is None or (float(number).is_integer() and INT64_MIN <= number <= INT64_MAX) for number in numbers)


def _range_width(lower: float, upper: float) -> float:
    """Return upper − lower, rounded up: a sensitivity must not be understated by a rounding."""
    exact = Fraction(upper) - Fraction(lower)
    width = upper - lower
    return float(np.nextafter(width, np.inf)) if np.isfinite(width) and Fraction(width) < exact else width


def noise_variance(mechanism: str, scale: float) -> float:
    """Variance of the noise of a job mechanism.

    Laplace: 2b². Gaussian: σ². Discrete Laplace with ratio r = e^(−1/b): 2r/(1 − r)² = 1/(2 sinh²(1/(2b))). Discrete Gaussian: the
    sum over its law, which from σ = 4 on is σ² to the last bit.
    """
    if mechanism == "laplace":
        return 2 * scale**2
    if mechanism == "discrete_laplace":
        # Beyond 350 the variance is below 10^-303, and the square would overflow.
        return 0.5 / math.sinh(min(0.5 / scale, 350.0)) ** 2
    if mechanism == "discrete_gaussian" and scale < 4:
        squares = np.arange(-64.0, 65.0) ** 2
        weights = np.exp(-squares / (2 * scale**2))
        return float(squares @ weights / weights.sum())
    return scale**2


def ready(position: int, column: JobColumn) -> NoisyColumn:
    """Calibrate the mechanism of `column`, the `[[column]]` entry number `position`.

    Each record's cell is a query of its own with sensitivity upper − lower (local DP), so the scale of a single answer is used for
    every element. That is why the discrete Gaussian takes the exact calibration, which is for one integer query, and why the
    samplers are called rather than `release`, which treats its array as one answer.

    Raises
    ------
    JobError
        If the mechanism refuses ε, δ or the range.
    """
    try:
        scale, sampler = _calibrated(column)
        grid = 1.0 if sampler in (noise.discrete_laplace, noise.discrete_gaussian) else noise.default_grid(scale)
    except ParameterError as error:
        raise JobError(f"column[{position}] ({column.name!r}, {column.mechanism}): {error}") from None
    return NoisyColumn(
        name=column.name,
        mechanism=column.mechanism,
        privacy=column.privacy,
        lower=column.lower,
        upper=column.upper,
        missing=column.missing,
        scale=scale,
        grid=grid,
        integral=isinstance(column, DiscreteLaplaceColumn | DiscreteGaussianColumn),
        sampler=sampler,
    )


def _calibrated(column: JobColumn) -> tuple[float, Sampler]:
    match column:
        case LaplaceColumn():
            return mechanisms.Laplace(column.epsilon, _range_width(column.lower, column.upper)).scale, noise.laplace
        case GaussianColumn():
            width = _range_width(column.lower, column.upper)
            return mechanisms.Gaussian(column.epsilon, column.delta, width).scale, noise.gaussian
        case DiscreteLaplaceColumn():
            return mechanisms.DiscreteLaplace(column.epsilon, column.upper - column.lower).scale, noise.discrete_laplace
        case DiscreteGaussianColumn():
            width = column.upper - column.lower
            exact = mechanisms.DiscreteGaussian(column.epsilon, column.delta, width, calibration="exact")
            return exact.scale, noise.discrete_gaussian
        case _:
            assert_never(column)
