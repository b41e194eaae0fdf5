"""What all local mechanisms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._validation import (
    INTEGER_DTYPES,
    check_array,
    check_choice,
    check_integer,
    check_out,
    check_real,
    check_threads,
    check_unmasked,
)
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local._support import Support, support_variance
from dpcore.local.estimates import (
    TARGETS,
    Aggregate,
    Estimate,
    check_same_mechanism,
    frequencies,
)
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.local.estimates import Target
    from dpcore.rng import Stream


class LocalMechanism(ABC):
    """A channel that each record goes through on its own, and the estimator that belongs to it."""

    __slots__ = ()

    epsilon: float

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one report: (ε, 0)."""
        return Privacy(self.epsilon)

    @abstractmethod
    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count reports; see the mechanism."""

    @abstractmethod
    def _estimate(self, counted: Aggregate, target: str) -> Estimate: ...

    def estimate(self, reports: Any, *, target: Target = "population") -> Estimate:
        """Estimate from reports, without bias and with confidence intervals.

        Parameters
        ----------
        reports : array_like or Aggregate
            What `privatize` made, or what `aggregate` made of it.
        target : {"population", "sample"}, default "population"
            What the standard error and the intervals are for: the distribution of the records, or the records themselves.

        Returns
        -------
        Estimate
            Value, standard error, and intervals at any confidence.

        Raises
        ------
        ParameterError, ParameterTypeError
            If there are no reports, they are of another mechanism, or a parameter is outside its range.
        DataError
            If a report is not one that the mechanism can make.
        """
        check_choice("target", target, TARGETS)
        counted = reports if isinstance(reports, Aggregate) else self.aggregate(reports)
        check_same_mechanism(self, counted.mechanism)
        if counted.n < 1:
            raise ParameterError(f"reports must be at least one, got {counted.n}")
        return self._estimate(counted, target)


class FrequencyOracle(LocalMechanism):
    """A mechanism for one of k categories, each of whose reports supports some of them."""

    __slots__ = ()

    k: int
    unknown: int | None

    @property
    @abstractmethod
    def support(self) -> Support:
        """Probabilities that a report supports the true category and another one."""

    def variance(self, f: float = 0.0, target: Target = "sample") -> float:
        """Give the variance of one user's contribution to the estimated frequency of a category.

        Parameters
        ----------
        f : float, default 0.0
            The category's frequency, in [0, 1].
        target : {"sample", "population"}, default "sample"
            Of the records themselves, or of what they were drawn from.

        Returns
        -------
        float
            The standard error for n users is its root divided by √n.
        """
        return support_variance_of(f, self.support, target)

    def _support_counts(self, counted: Aggregate) -> Any:
        return counted.counts

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:
        return frequencies(self._support_counts(counted), counted.n, self.support, target=target, privacy=self.privacy)


def support_variance_of(f: object, support: Support, target: object) -> float:
    """Check f and the target, and give the variance of one user's contribution."""
    return float(support_variance(check_real("f", f, low=0.0, high=1.0), support, check_choice("target", target, TARGETS)))


def open_stream(rng: Stream | None, threads: object) -> Stream:
    """Check what every drawing method takes besides its data; returns the source of randomness."""
    check_threads(threads)
    return resolve(rng)


def separate(values: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return values that stay as they are whatever is written to `out`.

    Where the two overlap otherwise than item on item that is a copy, which is wiped when it goes.
    """
    if out is None or not np.may_share_memory(values, out):
        return values
    in_place = out.dtype.itemsize == values.dtype.itemsize and out.strides == values.strides and out.ctypes.data == values.ctypes.data
    return values if in_place else _backend.wiped_copy(values)


def check_unknown(value: object, k: int) -> int | None:
    """Return the category that stands for unknown codes, or None."""
    return None if value is None else check_integer("unknown", value, low=0, high=k - 1)


def check_codes(records: object, k: int, unknown: int | None, threads: int | None = None) -> npt.NDArray[Any]:
    """Return codes as an integer array whose items are in [0, k), or are to be replaced; raises at the first other one."""
    codes = check_array("records", records, INTEGER_DTYPES)
    if unknown is None:
        position = _backend.first_outside(codes, k, threads)
        if position >= 0:
            raise DataError(
                f"records must hold codes in [0, {k - 1}] unless `unknown` names one for others; the one at {place(codes, position)} is not"
            )
    return codes


def place(array: npt.NDArray[Any], position: int) -> str:
    index = tuple(int(i) for i in np.unravel_index(position, array.shape)) if array.ndim else ()
    return f"index {index}"


def check_report_out(out: object, dtype: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return `out` if it is a contiguous array that reports can be written to."""
    array = check_out(out, dtype, shape)
    if not array.flags.c_contiguous:
        raise ParameterError("out must be C-contiguous for this mechanism, got a strided array")
    return array


def check_packed(name: str, bits: object, n: object) -> tuple[npt.NDArray[np.uint8], int]:
    """Return packed bits and their number if the bytes are as many as that takes."""
    array = check_array(name, bits, ("uint8",))
    n = check_integer("n", n, low=0)
    if array.ndim != 1 or len(array) != (n + 7) // 8:
        raise ParameterError(f"{name} must be a vector of ⌈n/8⌉ = {(n + 7) // 8} bytes for n = {n}, got shape {array.shape}")
    return _backend.contiguous(array), n


def check_rows(reports: object, k: int) -> npt.NDArray[np.uint8]:
    """Return packed reports of k bits each, shape (n, ⌈k/8⌉); a single one may be a vector. Padding bits must be 0."""
    array = check_array("reports", reports, ("uint8",))
    array = array.reshape(1, -1) if array.ndim == 1 else array
    width = (k + 7) // 8
    if array.ndim != 2 or array.shape[1] != width:
        raise ParameterError(f"reports must have shape (n, {width}) for k = {k}, got {array.shape}")
    if k % 8:
        last = array[:, -1] >= 1 << (k % 8)
        if last.any():
            raise DataError(f"reports must be ones that the mechanism can make; row {int(last.argmax())} has bits beyond k = {k}")
    return array


def check_structured(reports: object, dtype: Any) -> npt.NDArray[Any]:
    """Return structured reports as a vector."""
    check_unmasked("reports", reports)
    if not isinstance(reports, np.ndarray | np.void) or reports.dtype != dtype:
        found = reports.dtype if isinstance(reports, np.ndarray | np.void) else type(reports).__name__
        raise ParameterTypeError(f"reports must have dtype {dtype}, got {found}")
    return np.asarray(reports).reshape(-1)
