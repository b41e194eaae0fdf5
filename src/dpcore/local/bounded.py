"""Bounded means, and the binary channel of a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_out, check_positive, check_real, check_unmasked
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local._mechanism import check_codes, check_unknown, open_stream, place, separate
from dpcore.local._one_bit import LARGEST, OneBit, check_bounds, check_reach, expansion, two_columns
from dpcore.local._parameters import check_epsilon
from dpcore.local.estimates import Aggregate, Estimate

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream

BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class BoundedMean(OneBit):
    r"""One bit about a bounded number: +z0 with probability ½(1 + T/z0), else −z0, T the number clamped and scaled to [−1, 1].

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    lower, upper : float
        Bounds, lower < upper; values outside are clamped to them. They come from knowledge of the subject, never from the data.
    missing : float, optional
        What NaN stands for, in [lower, upper]; without it NaN raises.

    Attributes
    ----------
    privacy : Privacy
        (ε, 0).
    z0 : float
        (e^ε + 1)/(e^ε − 1), in scaled units.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y\|x) ≤ e^ε P(y\|x'), with equality at the two bounds; the probability is exact for every float64 x. The mean of the ±z0
    is unbiased for the mean of T; its variance a user is z0² − T² ≤ z0². Cost: about 1 ns a record.
    Source: Steinberger (2019), Beispiel 1.7 (b).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import BoundedMean
    >>> mechanism = BoundedMean(epsilon=1.0, lower=0.0, upper=10.0)
    >>> reports = mechanism.privatize(np.full(100_000, 4.0))
    >>> bool(abs(mechanism.estimate(reports).value - 4.0) < 0.4)
    True
    """

    epsilon: float
    lower: float
    upper: float
    missing: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        lower, upper, missing = check_bounds(self.lower, self.upper, self.missing)
        for name, value in (("lower", lower), ("upper", upper), ("missing", missing)):
            object.__setattr__(self, name, value)
        check_reach(abs(lower) + abs(upper) + (upper - lower) / 2 * self.z0)

    @property
    def z0(self) -> float:
        """(e^ε + 1)/(e^ε − 1)."""
        return expansion(self.epsilon)

    def variance(self, mean: float | None = None) -> float:
        """Give the variance of one user's contribution to the estimated mean.

        Parameters
        ----------
        mean : float, optional
            Mean of the clamped numbers, in [lower, upper]; by default the middle, where the variance is largest.

        Returns
        -------
        float
            ((upper − lower)/2·z0)² − (mean − middle)², that of the population; for the sample at hand an upper bound. Infinite
            where it leaves the range of float64.
        """
        half = (self.upper - self.lower) / 2
        return self._variance(mean, self.lower + half, half, half * self.z0)

    def privatize(
        self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[np.bool_] | None = None, threads: int | None = None
    ) -> Any:
        """Report one bit about every number.

        Parameters
        ----------
        records : array_like
            Real numbers, any shape; clamped to the bounds.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of bool, optional
            Of the shape of `records`.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        bool or ndarray of bool
            True stands for +z0.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a number is NaN and `missing` is not set; nothing is written then.
        """
        values = check_array("records", records, REAL_DTYPES)
        result = None if out is None else check_out(out, np.bool_, values.shape)
        stream = open_stream(rng, threads)
        values = separate(values, result)
        reports = _backend.bounded_response(
            values, self.lower, self.upper, self.epsilon, self.missing, stream.position(), threads=threads, out=result
        )
        return bool(reports) if np.ndim(records) == 0 and out is None else reports

    def privatize_packed(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> npt.NDArray[np.uint8]:
        """Report as `privatize` does, eight reports a byte.

        Parameters
        ----------
        records : array_like
            Real numbers, any shape, read in C order.
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        ndarray of uint8, shape (⌈n/8⌉,)
            Packed reports, least significant bit first; the bits beyond n are 0.
        """
        return np.packbits(np.atleast_1d(self.privatize(records, rng=rng, threads=threads)), bitorder="little")

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:  # noqa: ARG002  the same for both, see _mean
        half = (self.upper - self.lower) / 2
        return self._mean(counted, self.lower + half, half * self.z0)

    def channel(self, points: Any = None) -> npt.NDArray[np.float64]:
        """Give the rows P(−z0), P(+z0) of some inputs.

        Parameters
        ----------
        points : array_like of float, shape (m,), optional
            Inputs; by default the two bounds.

        Returns
        -------
        ndarray of float64, shape (m, 2)
            Each entry is the float64 nearest to the exact probability.
        """
        inputs = [self.lower, self.upper] if points is None else _vector(check_array("points", points, REAL_DTYPES)).tolist()
        inputs = [self.missing if math.isnan(x) and self.missing is not None else x for x in inputs]
        if any(map(math.isnan, inputs)):
            raise ParameterError("points must not hold NaN unless `missing` says what it stands for")
        low, high = Fraction(self.lower), Fraction(self.upper)
        clamped = [Fraction(min(max(x, self.lower), self.upper)) for x in inputs]
        return two_columns(self.epsilon, [(2 * x - low - high) / (high - low) for x in clamped])


@dataclass(frozen=True, slots=True)
class BinaryChannel(OneBit):
    r"""The α-BM channel of a bounded function φ: ±z0 with probability ½(1 ± φ(x)/z0), z0 = ‖φ‖∞(e^ε + 1)/(e^ε − 1).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    phi : sequence of float, or callable
        Either the table φ(0) … φ(m − 1) of a function on codes, not all zero; or a vectorised function, which takes an array and returns
        floats of its shape.
    bound : float, optional
        ‖φ‖∞ of a callable, which requires it: its values are clamped to [−bound, bound]. A supremum is never taken from data.
    unknown : int, optional
        Code that stands for others outside the table; without it they raise.
    missing : float, optional
        What a callable's NaN stands for, in [−bound, bound]; without it NaN raises.

    Attributes
    ----------
    privacy : Privacy
        (ε, 0).
    norm : float
        ‖φ‖∞.
    z0 : float
        norm·(e^ε + 1)/(e^ε − 1).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y\|x) ≤ e^ε P(y\|x'), with equality if φ reaches both ±‖φ‖∞. The mean of the ±z0 is unbiased for E φ.
    Source: Steinberger (2019), Definition 3.12.

    Examples
    --------
    >>> from dpcore.local import BinaryChannel
    >>> BinaryChannel(1.0, [0.0, 1.0, -2.0]).channel().round(4).tolist()
    [[0.5, 0.5], [0.3845, 0.6155], [0.7311, 0.2689]]
    """

    epsilon: float
    phi: tuple[float, ...] | Callable[[Any], Any]
    bound: float | None = field(default=None, kw_only=True)
    unknown: int | None = field(default=None, kw_only=True)
    missing: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if callable(self.phi):
            self._settle_function()
        else:
            self._settle_table()
        check_reach(self.z0)

    def _settle_function(self) -> None:
        if self.bound is None:
            raise ParameterError("bound is required with a callable phi: its supremum is never taken from data")
        if self.unknown is not None:
            raise ParameterError("unknown is for a table phi; a callable decides itself what it makes of a record")
        bound = check_real("bound", check_positive("bound", self.bound), low=2.0**-960, high=LARGEST)
        object.__setattr__(self, "bound", bound)
        if self.missing is not None:
            object.__setattr__(self, "missing", check_real("missing", self.missing, low=-bound, high=bound))

    def _settle_table(self) -> None:
        if self.bound is not None or self.missing is not None:
            raise ParameterError("bound and missing are for a callable phi; a table has its own maximum and codes are never NaN")
        values = check_array("phi", self.phi, REAL_DTYPES)
        if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all() or not values.any():
            raise ParameterError(f"phi must be a vector of at least two finite numbers, not all zero, got {self.phi!r}")
        object.__setattr__(self, "phi", tuple(float(v) for v in values))
        object.__setattr__(self, "unknown", check_unknown(self.unknown, len(values)))

    @property
    def norm(self) -> float:
        """‖φ‖∞: the bound of a callable, the largest magnitude of a table."""
        return max(map(abs, self.phi)) if isinstance(self.phi, tuple) else float(self.bound or 0.0)

    @property
    def z0(self) -> float:
        """norm·(e^ε + 1)/(e^ε − 1)."""
        return self.norm * expansion(self.epsilon)

    def variance(self, mean: float | None = None) -> float:
        """Give z0² − mean², the variance of one user's contribution at E φ = `mean`; by default 0, see `BoundedMean.variance`."""
        return self._variance(mean, 0.0, self.norm, self.z0)

    def _tilts(self) -> tuple[Fraction, ...]:
        table = self.phi if isinstance(self.phi, tuple) else ()
        norm = Fraction(self.norm)
        return tuple(Fraction(value) / norm for value in table)

    def privatize(
        self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[np.bool_] | None = None, threads: int | None = None
    ) -> Any:
        """Report one bit about every record.

        Parameters
        ----------
        records : array_like
            Codes of the table, any shape; or what the callable takes.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of bool, optional
            Of the shape of `records`.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        bool or ndarray of bool
            True stands for +z0.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit, or the callable returns another shape.
        DataError
            If a code is outside the table and `unknown` is not set, or the callable gives NaN and `missing` is not set.
        """
        stream = open_stream(rng, threads)
        if callable(self.phi):
            reports = self._respond(records, stream, out, threads)
        else:
            codes = check_array("records", records, INTEGER_DTYPES)
            result = None if out is None else check_out(out, np.bool_, codes.shape)
            codes = separate(check_codes(codes, len(self.phi), self.unknown, threads), result)
            reports = _backend.table_response(
                codes, self.epsilon, self._tilts(), self.unknown, stream.position(), threads=threads, out=result
            )
        return bool(reports) if np.ndim(records) == 0 and out is None else reports

    def _respond(self, given: Any, stream: Stream, out: npt.NDArray[np.bool_] | None, threads: int | None) -> npt.NDArray[np.bool_]:
        """The reports of a callable, block by block, so that no array of its values is made; `out` is written when all are there."""
        records = _array("records", given)
        if out is not None:
            check_out(out, np.bool_, records.shape)
        flat, reports = records.reshape(-1), np.empty(records.size, np.bool_)
        position = stream.position()
        for start in range(0, flat.size, BLOCK):
            values = self._evaluate(flat[start : start + BLOCK])
            if self.missing is None and np.isnan(values).any():
                index = place(records, start + int(np.isnan(values).argmax()))
                raise DataError(f"phi must not give NaN unless `missing` says what it stands for; it does for the record at {index}")
            here = position._replace(first_element=position.first_element + start)
            part = reports[start : start + BLOCK]
            _backend.bounded_response(values, -self.norm, self.norm, self.epsilon, self.missing, here, threads=threads, out=part)
        if out is None:
            return reports.reshape(records.shape)
        out[...] = reports.reshape(records.shape)
        return out

    def _evaluate(self, records: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        phi: Any = self.phi
        found = _array("what phi returns", phi(records))
        if found.shape != records.shape or found.dtype.kind not in "iuf":
            raise ParameterError(
                f"phi must return real numbers of the shape of its argument, got {found.dtype.name} of shape {found.shape}"
            )
        return found.astype(np.float64, copy=False)

    def privatize_packed(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> npt.NDArray[np.uint8]:
        """Report as `privatize` does, eight reports a byte; see `BoundedMean.privatize_packed`."""
        return np.packbits(np.atleast_1d(self.privatize(records, rng=rng, threads=threads)), bitorder="little")

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:  # noqa: ARG002  the same for both, see _mean
        return self._mean(counted, 0.0, self.z0)

    def channel(self, points: Any = None) -> npt.NDArray[np.float64]:
        """Give the rows P(−z0), P(+z0).

        Parameters
        ----------
        points : array_like, shape (m,), optional
            Inputs of a callable, which requires them; a table lists its codes.

        Returns
        -------
        ndarray of float64, shape (m, 2)
            Each entry is the float64 nearest to the exact probability.
        """
        if not callable(self.phi):
            return two_columns(self.epsilon, list(self._tilts()))
        if points is None:
            raise ParameterError("points is required with a callable phi: its inputs cannot be listed")
        values = [min(max(v, -self.norm), self.norm) for v in self._evaluate(_vector(_array("points", points))).tolist()]
        if any(map(math.isnan, values)):
            raise ParameterError("points must not be where phi is NaN")
        return two_columns(self.epsilon, [Fraction(v) / Fraction(self.norm) for v in values])


def _array(name: str, value: Any) -> npt.NDArray[Any]:
    """Return what a callable takes or gives as an array, of whatever dtype."""
    check_unmasked(name, value)
    try:
        return np.asarray(value)
    except ValueError:
        raise ParameterTypeError(
            f"{name} must be an array or become one, got {type(value).__name__} with items of different lengths"
        ) from None


def _vector(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if points.ndim > 1:
        raise ParameterError(f"points must be a single one or a vector, got shape {points.shape}")
    return points.reshape(-1)
