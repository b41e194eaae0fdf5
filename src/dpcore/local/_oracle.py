"""Frequency oracles: the steps that a call takes, shared by all; each oracle adds its probabilities, kernel and type of report."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np

from dpcore import _backend
from dpcore._validation import check_choice, check_out, check_real, check_threads
from dpcore.errors import DataError, ParameterError
from dpcore.local._error_curves import Spread, frequency_spread
from dpcore.local._labels import check_categories_of, check_labels, codes_of, unknown_code
from dpcore.local._mechanism import LocalMechanism, check_codes, check_unknown, open_stream
from dpcore.local._parameters import check_categories, check_epsilon
from dpcore.local._support import Support, support_variance
from dpcore.local.estimates import TARGETS, Aggregate, Estimate, frequencies
from dpcore.rng import is_constant_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from dpcore.local.estimates import Target
    from dpcore.rng import Stream

COUNTED_AT_ONCE = 2**30
"""Reports times categories that are counted between two calls of `progress`: about a tenth of a second of local hashing."""
Single = TypeVar("Single")
"""The report of a single record."""
Many = TypeVar("Many", bound="npt.NDArray[Any]")
"""Reports of an array of records."""


class FrequencyOracle(LocalMechanism, Generic[Single, Many]):
    """A mechanism for one of k categories, each of whose reports supports some of them."""

    __slots__ = ()

    HAS_CONSTANT_WORK = False

    k: int
    unknown: int | None
    categories: tuple[str, ...] | None

    @classmethod
    def from_categories(cls, epsilon: float, categories: Iterable[str], *, unknown: str | None = None) -> Self:
        """Make the mechanism for labelled categories, whose records are strings.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε of one report, in [2^−20, 700].
        categories : iterable of str
            The labels, distinct, between 2 and 2^24. Codes and estimates are in their order. List them from what you know about
            the subject, never from the data: a list taken from the data reveals which labels occur.
        unknown : str, optional
            Label to use for all others and for missing values. By default they raise `DataError`.

        Returns
        -------
        FrequencyOracle
            The mechanism with k = number of labels. `privatize` takes strings, arrays of strings or of objects, and categoricals of pandas;
            codes as well. Estimates carry the labels in `categories`.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Examples
        --------
        >>> from dpcore.local import KaryResponse
        >>> mechanism = KaryResponse.from_categories(2.0, ["north", "south", "other"], unknown="other")
        >>> reports = mechanism.privatize(["north", "south", "south", "west"])
        >>> reports.shape, mechanism.estimate(reports).categories
        ((4,), ('north', 'south', 'other'))
        """
        return cls._labelled(epsilon, categories, unknown)

    @classmethod
    def _labelled(cls, epsilon: float, categories: object, unknown: object, **options: Any) -> Self:
        labels = check_labels(categories)
        make: Any = cls
        mechanism: Self = make(epsilon, k=len(labels), unknown=unknown_code(unknown, labels), categories=labels, **options)
        return mechanism

    def _settle(self) -> None:
        """Check the parameters that all oracles have."""
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "k", check_categories(self.k))
        object.__setattr__(self, "unknown", check_unknown(self.unknown, self.k))
        object.__setattr__(self, "categories", check_categories_of(self.categories, self.k))

    # What an oracle gives

    @property
    @abstractmethod
    def support(self) -> Support:
        """Probabilities that a report supports the true category and another one."""

    @abstractmethod
    def _report_type(self, codes: npt.NDArray[Any]) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype of the reports of these codes; raises if the codes do not suit the mechanism."""

    @abstractmethod
    def _law(self) -> _backend.Law:
        """The kernels' law."""

    @abstractmethod
    def _respond(
        self, codes: npt.NDArray[Any], position: _backend.Position, *, threads: int | None, out: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any]:
        """Call the kernel."""

    def _constant_reports(
        self, codes: npt.NDArray[np.int64], position: _backend.Position, threads: int | None, shape: tuple[int, ...], dtype: Any
    ) -> npt.NDArray[Any]:
        """The reports of codes in [0, k) with work that depends on k and on their number alone."""
        raise NotImplementedError

    @abstractmethod
    def _check_reports(self, reports: object) -> npt.NDArray[Any]:
        """Return reports as an array whose first axis has an entry for each, else raise."""

    @abstractmethod
    def _count(self, reports: npt.NDArray[Any], threads: int | None) -> npt.NDArray[np.int64]:
        """The counts that `aggregate` returns."""

    def _given(self, reports: npt.NDArray[Any], records: Any, *, single: bool, out: npt.NDArray[Any] | None) -> Any:  # noqa: ARG002
        """Reports as `privatize` returns them."""
        return reports

    def _support_counts(self, counted: Aggregate) -> Any:
        """Count the reports that support each category."""
        return counted.counts

    # What all of them do

    @overload
    def privatize(  # type: ignore[overload-overlap]  # a string is an array, too
        self, records: int | np.integer[Any] | str, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...
    ) -> Single: ...
    @overload
    def privatize(
        self, records: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[Any] | None = ..., threads: int | None = ...
    ) -> Many: ...
    def privatize(self, records: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Randomise every record.

        Parameters
        ----------
        records : array_like of int or of str
            Codes in [0, k). A mechanism made by `from_categories` takes labels as well: strings, arrays of strings or of objects, and
            categoricals of pandas.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        out : ndarray, optional
            Array to write the reports to, of their shape and dtype. It must be C-contiguous, except for `KaryResponse`.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.

        Returns
        -------
        int or ndarray
            The reports. The notes of each mechanism state their shape and dtype.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a code is outside [0, k) or a label is none of the categories, and `unknown` is not set. The message names the position,
            never the value. Nothing is written then.

        Notes
        -----
        Cost: that of the mechanism. Labels take about 0.3 µs each to look up, those of a categorical about 30 ns. Their codes are kept in
        memory that is wiped; Python's own strings are not.
        """
        position = None
        if rng is None and out is None and threads is None:
            few = np.array(records) if type(records) is int else records
            found = self._law().respond(few)
            if isinstance(found, np.ndarray):
                return found if few.ndim else self._given(found, records, single=True, out=None)
            position = found
        codes = codes_of(records, self.categories)
        shape, dtype = self._report_type(codes)
        result = None if out is None else self._check_out(out, shape, dtype)
        constant = rng if rng is not None and self.HAS_CONSTANT_WORK and is_constant_work(rng) else None
        stream = open_stream(None if constant else rng, threads)
        codes = _backend.separate(check_codes(codes, self.k, self.unknown, threads, labelled=self.categories is not None), result)
        if constant:
            reports = self._constant_reports(_known(codes, self.k, self.unknown), constant.position(), threads, shape, dtype)
            if result is not None:
                result[...] = reports
                reports = result
        else:
            reports = self._respond(codes, stream.position() if position is None else position, threads=threads, out=result)
        return self._given(reports, records, single=codes.ndim == 0, out=result)

    def _check_out(self, out: object, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        array = check_out(out, dtype, shape)
        if not array.flags.c_contiguous:
            raise ParameterError("out must be C-contiguous for this mechanism, got a strided array")
        return array

    def aggregate(self, reports: Any, *, threads: int | None = None, progress: Callable[[int, int], object] | None = None) -> Aggregate:
        """Count reports; counts of several sets of reports can be added.

        Parameters
        ----------
        reports : array_like
            What `privatize` made.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.
        progress : callable, optional
            Called as `progress(done, total)` with numbers of reports while they are counted.

        Returns
        -------
        Aggregate
            counts[v] is the number of reports that support category v, shape (k,). For `HadamardResponse`, counts[r] is the
            sum of the signs reported for row r, shape (K,); for `ProjectiveGeometryResponse`, counts[y] is how often point y was
            reported.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the reports have another shape or dtype.
        DataError
            If a report is not one that the mechanism can make; the message names it by its position.
        """
        check_threads(threads)
        checked = self._check_reports(reports)
        counts = self._count(checked, threads) if progress is None else self._count_in_parts(checked, threads, progress)
        return Aggregate(self, len(checked), counts)

    def _count_in_parts(
        self, reports: npt.NDArray[Any], threads: int | None, progress: Callable[[int, int], object]
    ) -> npt.NDArray[np.int64]:
        """Count reports part by part, and report the progress after each part."""
        n, size = len(reports), max(1, COUNTED_AT_ONCE // self.k)
        counts = self._count(reports[:0], threads)
        for start in range(0, n, size):
            try:
                counts += self._count(reports[start : start + size], threads)
            except DataError:
                self._count(reports, threads)  # raises with the position among all of them
                raise
            progress(min(start + size, n), n)
        return counts

    def variance(self, f: float = 0.0, target: Target = "sample") -> float:
        """Return the variance of one user's contribution to the estimated frequency of a category.

        Parameters
        ----------
        f : float, default 0.0
            The category's frequency, in [0, 1].
        target : {"sample", "population"}, default "sample"
            Frequency among the records themselves, or in the distribution that they were drawn from.

        Returns
        -------
        float
            The variance; the standard error for n users is its root divided by √n.
        """
        return support_variance_of(f, self.support, target)

    ESTIMATES = "frequency of a category"

    def _spread(self, at: float | None, target: str) -> Spread:
        return frequency_spread(self.support, at, target)

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:
        counts = self._support_counts(counted)
        return frequencies(counts, counted.n, self.support, target=target, privacy=self.privacy, categories=self.categories)


def support_variance_of(f: object, support: Support, target: object) -> float:
    """Check f and the target, and give the variance of one user's contribution."""
    return float(support_variance(check_real("f", f, low=0.0, high=1.0), support, check_choice("target", target, TARGETS)))


def _known(codes: npt.NDArray[Any], k: int, unknown: int | None) -> npt.NDArray[np.int64]:
    """The codes as int64, `unknown` instead of those outside [0, k), in memory that is wiped; chosen without a branch on a record."""
    known = _backend.wiped_copy(codes, np.int64)
    if unknown is not None:
        np.copyto(known, unknown, where=(known < 0) | (known >= k))
    return known
