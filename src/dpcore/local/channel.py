"""The binary channel of a function: one bit about a record, by a table or a callable."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._series import SeriesT, like
from dpcore._validation import REAL_DTYPES, check_array, check_out, check_positive, check_real, check_unmasked, dtype_words
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local._labels import check_categories_of, check_labels, codes_of, unknown_code
from dpcore.local._mechanism import check_codes, check_unknown, open_stream, place
from dpcore.local._one_bit import LARGEST, OneBit, check_reach, expansion, two_columns, vector_of
from dpcore.local._parameters import check_epsilon
from dpcore.local.estimates import Aggregate, Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from dpcore.local._error_curves import Spread
    from dpcore.local._mechanism import Real
    from dpcore.rng import Stream

BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class BinaryChannel(OneBit):
    r"""The binary channel of a bounded function φ: ±z0 with probability ½(1 ± φ(x)/z0), z0 = ‖φ‖∞(e^ε + 1)/(e^ε − 1).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    phi : sequence of float, or callable
        The table φ(0) … φ(m − 1) of a function of codes, not all zero; or a vectorised function, which takes an array and returns floats of
        the same shape.
    bound : float, optional
        ‖φ‖∞ of a callable, for which it is required. Values are clamped to [−bound, bound]. The supremum is never taken from the data.
    unknown : int, optional
        Code to use for codes outside the table. By default they raise `DataError`.
    categories : sequence of str, optional
        Labels of the codes; see `from_categories`.
    missing : float, optional
        Number to use where a callable returns NaN, in [−bound, bound]. By default NaN raises `DataError`.

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
    Guarantee: P(y\|x) ≤ e^ε P(y\|x'), with equality if φ reaches both ±‖φ‖∞.

    The mean of the ±z0 is unbiased for the mean of φ. Steinberger calls the channel α-BM, with α for ε.

    Cost: about 1 ns a record, and the time of a callable.

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
    categories: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)

    @classmethod
    def from_categories(cls, epsilon: float, categories: Iterable[str], phi: Sequence[float], *, unknown: str | None = None) -> Self:
        """Make the channel of a function of labelled categories, whose records are strings.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε of one report, in [2^−20, 700].
        categories : iterable of str
            The labels, distinct; see `KaryResponse.from_categories`.
        phi : sequence of float
            The function's values, one for each label.
        unknown : str, optional
            Label to use for all others and for missing values. By default they raise `DataError`.

        Returns
        -------
        BinaryChannel
            The channel; its `privatize` takes labels or codes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Examples
        --------
        >>> from dpcore.local import BinaryChannel
        >>> channel = BinaryChannel.from_categories(1.0, ["never", "sometimes", "daily"], [0.0, 1.0, 7.0])
        >>> channel.privatize(["daily", "never"]).shape
        (2,)
        """
        labels = check_labels(categories)
        return cls(epsilon, phi, unknown=unknown_code(unknown, labels), categories=labels)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if callable(self.phi):
            self._settle_function()
        else:
            self._settle_table()
        check_reach(self.z0)

    def _settle_function(self) -> None:
        if self.bound is None:
            raise ParameterError(
                "bound is required with a callable phi: give the largest value that |phi| can have, which is never taken from the data"
            )
        if self.unknown is not None or self.categories is not None:
            raise ParameterError("unknown and categories are for a table phi; a callable decides what it makes of a record")
        bound = check_real("bound", check_positive("bound", self.bound), low=2.0**-960, high=LARGEST)
        object.__setattr__(self, "bound", bound)
        if self.missing is not None:
            object.__setattr__(self, "missing", check_real("missing", self.missing, low=-bound, high=bound))

    def _settle_table(self) -> None:
        if self.bound is not None or self.missing is not None:
            raise ParameterError(
                "bound and missing are for a callable phi: leave them out with a table, which has a known maximum and no NaN"
            )
        values = check_array("phi", self.phi, REAL_DTYPES)
        if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all() or not values.any():
            raise ParameterError(f"phi must be a vector of at least two finite numbers, not all zero, got {self.phi!r}")
        object.__setattr__(self, "phi", tuple(float(v) for v in values))
        object.__setattr__(self, "unknown", check_unknown(self.unknown, len(values)))
        object.__setattr__(self, "categories", check_categories_of(self.categories, len(values)))

    @property
    def norm(self) -> float:
        """‖φ‖∞: the bound of a callable, the largest magnitude of a table."""
        return max(map(abs, self.phi)) if isinstance(self.phi, tuple) else float(self.bound or 0.0)

    @property
    def z0(self) -> float:
        """norm·(e^ε + 1)/(e^ε − 1)."""
        return self.norm * expansion(self.epsilon)

    def variance(self, mean: float | None = None) -> float:
        """Return the variance of one user's contribution to the estimated mean of φ.

        Parameters
        ----------
        mean : float, optional
            Mean of φ, in [−norm, norm]; by default 0, where the variance is largest.

        Returns
        -------
        float
            z0² − mean², that of the population, and an upper bound for the sample.
        """
        return self._variance(mean, 0.0, self.norm, self.z0)

    ESTIMATES = "mean of φ"

    def _spread(self, at: float | None, target: str) -> Spread:
        words = "(norm·(e^ε + 1)/(e^ε − 1))²" + ("" if at is None else " − mean²")
        return self._spread_of_mean(at, target, self.variance(at), self.z0, words)

    def _tilts(self) -> tuple[Fraction, ...]:
        table = self.phi if isinstance(self.phi, tuple) else ()
        norm = Fraction(self.norm)
        return tuple(Fraction(value) / norm for value in table)

    @overload
    def privatize(  # type: ignore[overload-overlap]  # a string is an array, too
        self, records: Real | str, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...
    ) -> bool: ...
    @overload
    def privatize(self, records: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def privatize(
        self, records: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.bool_] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.bool_]: ...
    def privatize(self, records: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Report one bit about every record.

        Parameters
        ----------
        records : array_like
            Codes of the table, any shape, or labels of a channel made by `from_categories`; or what the callable takes.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        out : ndarray of bool, optional
            Of the shape of `records`.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.

        Returns
        -------
        bool or ndarray of bool
            True stands for +z0.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit, or the callable returns another shape.
        DataError
            If a code is outside the table or a label is none of the categories, and `unknown` is not set; or if the callable returns NaN
            and `missing` is not set. The message names the position, never the value.
        """
        stream = open_stream(rng, threads)
        if callable(self.phi):
            reports = self._respond(records, stream, out, threads)
        else:
            codes = codes_of(records, self.categories)
            result = None if out is None else check_out(out, np.bool_, codes.shape)
            codes = check_codes(codes, len(self.phi), self.unknown, threads, labelled=self.categories is not None)
            codes = _backend.separate(codes, result)
            reports = _backend.table_response(
                codes, self.epsilon, self._tilts(), self.unknown, stream.position(), threads=threads, out=result
            )
        if out is not None:
            return reports
        return bool(reports) if reports.ndim == 0 else like(records, reports)

    def _respond(self, given: Any, stream: Stream, out: npt.NDArray[np.bool_] | None, threads: int | None) -> npt.NDArray[np.bool_]:
        """Reports of a callable, block by block, so that the values of φ never exist all at once; `out` is written last."""
        records = _array("records", given)
        if out is not None:
            check_out(out, np.bool_, records.shape)
        flat, reports = records.reshape(-1), np.empty(records.size, np.bool_)
        position = stream.position()
        for start in range(0, flat.size, BLOCK):
            values = self._evaluate(flat[start : start + BLOCK])
            if self.missing is None and np.isnan(values).any():
                index = place(records, start + int(np.isnan(values).argmax()))
                raise DataError(f"phi must not return NaN unless `missing` names a number for it; it does for the record at {index}")
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
                f"phi must return real numbers of the shape of its argument, got {dtype_words(found.dtype)} of shape {found.shape}"
            )
        return found.astype(np.float64, copy=False)

    def privatize_packed(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> npt.NDArray[np.uint8]:
        """Report as `privatize` does, with eight reports in a byte.

        Parameters
        ----------
        records : array_like
            Records, any shape, read in C order.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.

        Returns
        -------
        ndarray of uint8, shape (⌈n/8⌉,)
            Packed reports, least significant bit first; the bits beyond n are 0.
        """
        return np.packbits(np.atleast_1d(self.privatize(records, rng=rng, threads=threads)), bitorder="little")

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:  # noqa: ARG002  the same for both, see _mean
        return self._mean(counted, 0.0, self.z0)

    def channel(self, points: Any = None) -> npt.NDArray[np.float64]:
        """Return the rows P(−z0), P(+z0).

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
            raise ParameterError("points is required with a callable phi, whose inputs cannot be listed")
        values = [min(max(v, -self.norm), self.norm) for v in self._evaluate(vector_of(_array("points", points))).tolist()]
        if any(map(math.isnan, values)):
            raise ParameterError("points must not hold inputs at which phi is NaN")
        return two_columns(self.epsilon, [Fraction(v) / Fraction(self.norm) for v in values])


def _array(name: str, value: Any) -> npt.NDArray[Any]:
    """Return the argument or the result of a callable as an array of any dtype."""
    check_unmasked(name, value)
    try:
        return np.asarray(value)
    except ValueError:
        raise ParameterTypeError(
            f"{name} must be an array or become one, got {type(value).__name__} with items of different lengths"
        ) from None
