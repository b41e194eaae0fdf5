"""Any finite channel, given by its rows of probabilities."""

from __future__ import annotations

import math
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._series import SeriesT, like
from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_choice, check_out, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local._exact_rows import exact_rows, exceeds, largest_ratio, level, mixed
from dpcore.local._functionals import largest_variance, left_inverse, mean_estimate, means_estimate, spreads, worst_spread
from dpcore.local._labels import check_categories_of, check_labels, codes_of, unknown_code
from dpcore.local._mechanism import LocalMechanism, check_codes, check_unknown, open_stream
from dpcore.local._parameters import check_channel_size, check_epsilon
from dpcore.local.estimates import Aggregate, Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from dpcore.local._error_curves import Spread
    from dpcore.rng import Stream

MOST_INVERTED = 2**11
"""Largest number of inputs whose frequencies are estimated: a pseudo-inverse takes the third power of it."""


@dataclass(frozen=True, slots=True, eq=False)
class FiniteChannel(LocalMechanism):
    r"""A finite channel: reports outcome z of record x with probability Q(x, z), for any matrix Q.

    Parameters
    ----------
    rows : array_like, shape (X, K)
        Q, with a row for each input 0 … X − 1 and a column for each outcome 0 … K − 1; 1 ≤ X ≤ 2^24, 1 ≤ K ≤ 2^16. Integers or
        `fractions.Fraction` with rows of one common sum, by which they are divided; or floats with rows that sum to 1 within 1e-9·K, which
        are rounded to exact rows as the notes say.
    epsilon : float, "exact" or None, default "exact"
        "exact" takes the level of the rows, rounded up to a float, and refuses rows without one. A number in [0, ∞) is the level that you
        claim: rows that exceed it, however little, are refused; see `at_level`. None claims no level and takes any rows.
    values : sequence of float, shape (K,), optional
        Numbers v that the outcomes stand for, of magnitude up to 2^500. `estimate` then
        estimates the mean of v(report), and otherwise the frequencies of the inputs.
    unknown : int, optional
        Input to use for codes outside [0, X). By default such a code raises `DataError`.
    categories : sequence of str, optional
        Labels of the inputs; see `from_categories`.

    Attributes
    ----------
    rows : ndarray of int64 or of Python integers, shape (X, K)
        Numerators of the exact rows, read-only, divided by what all of them have in common.
    denominator : int
        The sum of every row: Q(x, z) = rows[x, z]/denominator.
    epsilon : float
        The level ε: the claimed one, or the least float ≥ ln max Q(x, z)/Q(x', z); infinite if None was given and no finite one holds.
    mixed : float
        Share of a private law that `at_level` mixed into the rows, rounded up; otherwise 0.
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, if the rows have no finite level or exceed the claimed one, or if their
        tables would be too large: X times the cells of an input must be at most 2^26. An input has the least power of two ≥ 4K cells, at
        most 2^17.

    Notes
    -----
    Guarantee: Q(x, z) ≤ e^ε·Q(x', z) for all inputs x, x' and outcomes z. It is checked on the exact rows, with certified bounds of
    logarithms, and reports follow these rows exactly: a uniform number is compared with the ends of the outcomes by as many bits as it
    takes. So a report has probability rows[x, z]/denominator, and not that of a float near it.

    Floats are rounded to multiples of 2^−62, or finer if an entry is below 2^−32: 31 bits of the least positive one are kept. What a row
    then lacks of 1 is spread over its entries in proportion, and the last units go to the largest one. Zeros stay zeros. The level is
    computed afterwards. So rows that meet a level e^ε as floats may exceed it by rounding, and are refused at that ε.

    A report is a code of the smallest unsigned dtype, uint8 or uint16, of the shape of the records; a Python int for a single record; a
    Series for a Series.

    Cost: 1 to 2 ns a record while the tables fit the cache; they take 4 bytes a cell and 8 an entry, and are made for the first records.
    With integers beyond 64 bits, 2 µs an entry to make, for at most 2^22 entries.

    Source: Steinberger (2019), Definition 1.4; the guide table is Chen & Asau (1974).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import FiniteChannel
    >>> channel = FiniteChannel([[3, 2, 1], [2, 2, 2], [1, 2, 3]], values=[-3.0, 0.0, 3.0])
    >>> channel.denominator, round(channel.epsilon, 4)
    (6, 1.0986)
    >>> reports = channel.privatize(np.repeat([0, 1, 2], [20_000, 30_000, 50_000]))
    >>> reports.dtype, bool(abs(channel.estimate(reports).value - 0.3) < 0.05)  # the mean of −1, 0, 1
    (dtype('uint8'), True)
    >>> FiniteChannel([[0.5, 0.5], [0.25, 0.75]], epsilon=0.6)
    Traceback (most recent call last):
    ...
    dpcore.errors.ParameterError: epsilon must be at least 0.6931471805599454, the level of the rows, got 0.6: use FiniteChannel.at_level
    """

    rows: Any
    epsilon: Any = field(default="exact", kw_only=True)
    values: tuple[float, ...] | None = field(default=None, kw_only=True)
    unknown: int | None = field(default=None, kw_only=True)
    categories: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)
    denominator: int = field(init=False, repr=False)
    mixed: float = field(default=0.0, init=False)
    _table: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        rows, denominator = exact_rows(self.rows)
        self._set(rows=rows, denominator=denominator, epsilon=_checked_level(rows, self.epsilon))
        if self.values is not None:
            values = check_array("values", self.values, REAL_DTYPES).astype(np.float64)
            if values.shape != (rows.shape[1],) or not (np.abs(values) <= 2.0**500).all():
                wrong = f"shape {values.shape}" if values.shape != (rows.shape[1],) else repr(_first(values, np.abs(values) <= 2.0**500))
                raise ParameterError(f"values must be {rows.shape[1]} numbers of magnitude up to 2**500, one for each outcome, got {wrong}")
            self._set(values=tuple(values.tolist()))
        self._set(unknown=check_unknown(self.unknown, self.inputs), categories=check_categories_of(self.categories, self.inputs))

    def _set(self, **settled: Any) -> None:
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @classmethod
    def at_level(
        cls,
        rows: npt.ArrayLike,
        epsilon: float,
        *,
        toward: npt.ArrayLike | None = None,
        values: Sequence[float] | None = None,
        unknown: int | None = None,
        categories: Sequence[str] | None = None,
    ) -> Self:
        r"""Make the channel with rows that are mixed with a private law until their level is at most ε.

        Parameters
        ----------
        rows : array_like, shape (X, K)
            As for the class.
        epsilon : float
            The level ε, in [2^−20, 700].
        toward : array_like, shape (K,), optional
            Law of the outcomes to mix with, as the rows are given; by default the mean of the rows.
        values, unknown, categories
            As for the class.

        Returns
        -------
        FiniteChannel
            That of the rows as they are, if their level is at most ε. Otherwise that of (1 − λ)·rows + λ·toward, rounded to multiples of
            2^−62 or finer, where λ = `mixed` is the least share that makes up for the excess and for this rounding: at most 2(1 +
            e^ε)·2^−62/((e^ε − 1)·toward) more than the excess alone takes, for the outcome that needs most.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type; if `toward` is 0 where rows differ too much; or if there are more
            than 2^22 entries.

        Notes
        -----
        Cost: about 5 µs an entry where something must be mixed.

        Examples
        --------
        >>> import math
        >>> from dpcore.local import FiniteChannel
        >>> p = math.e / (1 + math.e)  # as floats, p/(1 − p) is above e
        >>> channel = FiniteChannel.at_level([[p, 1 - p], [1 - p, p]], 1.0)
        >>> channel.epsilon, 0 < channel.mixed < 1e-15
        (1.0, True)
        """
        epsilon = check_epsilon(epsilon)
        exact, denominator = exact_rows(rows)
        options: dict[str, Any] = {"values": values, "unknown": unknown, "categories": categories}
        if not exceeds(largest_ratio(exact), epsilon):
            return cls(exact, epsilon=epsilon, **options)
        law, total = (exact.astype(object).sum(axis=0), len(exact) * denominator) if toward is None else _law(toward, exact.shape[1])
        private, share = mixed(exact, denominator, epsilon, law, total)
        channel = cls(private, epsilon=epsilon, **options)
        channel._set(mixed=math.nextafter(float(share), 1.0))
        return channel

    @classmethod
    def from_categories(
        cls,
        rows: npt.ArrayLike,
        categories: Iterable[str],
        *,
        epsilon: float | str | None = "exact",
        values: Sequence[float] | None = None,
        unknown: str | None = None,
    ) -> Self:
        """Make the channel for labelled inputs, whose records are strings.

        Parameters
        ----------
        rows : array_like, shape (X, K)
            As for the class.
        categories : iterable of str
            The labels of the X inputs, distinct; see `KaryResponse.from_categories`.
        epsilon, values
            As for the class.
        unknown : str, optional
            Label to use for all others and for missing values. By default they raise `DataError`.

        Returns
        -------
        FiniteChannel
            The channel; its `privatize` takes labels or codes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Examples
        --------
        >>> from dpcore.local import FiniteChannel
        >>> channel = FiniteChannel.from_categories([[3, 1], [2, 2], [1, 3]], ["never", "sometimes", "daily"])
        >>> channel.privatize(["daily", "never"]).shape
        (2,)
        """
        labels = check_labels(categories)
        return cls(
            rows, epsilon=epsilon, values=values, unknown=unknown_code(unknown, labels), categories=labels,  # type: ignore[arg-type]
        )  # fmt: skip

    @property
    def inputs(self) -> int:
        """X."""
        return len(self.rows)

    @property
    def outcomes(self) -> int:
        """K."""
        return int(self.rows.shape[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FiniteChannel):
            return NotImplemented
        return self is other or (self._key() == other._key() and np.array_equal(self.rows, other.rows))

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.rows.shape, self.denominator, self.epsilon, self.mixed, self.values, self.unknown, self.categories

    def __reduce__(self) -> tuple[Any, ...]:
        epsilon = None if math.isinf(self.epsilon) else self.epsilon
        return _again, (self.rows, epsilon, self.values, self.unknown, self.categories, self.mixed)

    def __repr__(self) -> str:
        shape = f"{self.inputs} × {self.outcomes} rows, epsilon={self.epsilon!r}"
        more = "".join(f", {name}={getattr(self, name)!r}" for name in ("values", "unknown") if getattr(self, name) is not None)
        return f"FiniteChannel({shape}{more}" + (f", mixed={self.mixed!r})" if self.mixed else ")")

    @overload
    def privatize(  # type: ignore[overload-overlap]  # a string is an array, too
        self, records: int | np.integer[Any] | str, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...
    ) -> int: ...
    @overload
    def privatize(self, records: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def privatize(
        self, records: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[Any] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[Any]: ...
    def privatize(self, records: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Report an outcome for every record.

        Parameters
        ----------
        records : array_like of int or of str
            Codes in [0, X), any shape; or labels, for a channel made by `from_categories`.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        out : ndarray of uint8 or uint16, optional
            Array to write the reports to, of the shape of the records: uint8 for K ≤ 256, otherwise uint16.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.

        Returns
        -------
        int or ndarray
            Codes of outcomes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If a code is outside [0, X) or a label is none of the categories, and `unknown` is not set. The message names the position,
            never the value. Nothing is written then.
        """
        codes = codes_of(records, self.categories)
        result = None if out is None else check_out(out, self._report_dtype, codes.shape)
        stream = open_stream(rng, threads)
        codes = check_codes(codes, self.inputs, self.unknown, threads, labelled=self.categories is not None)
        codes = _backend.separate(codes, result)
        reports = _backend.channel_response(codes, self._drawn_from(), self.unknown, stream.position(), threads=threads, out=result)
        if out is not None:
            return reports
        return int(reports) if codes.ndim == 0 else like(records, reports)

    @property
    def _report_dtype(self) -> Any:
        return np.uint8 if self.outcomes <= 2**8 else np.uint16

    def _drawn_from(self) -> _backend.ChannelTable:
        if self._table is None:
            self._set(_table=_backend.ChannelTable(self.rows, self.denominator))
        table: _backend.ChannelTable = self._table
        return table

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count reports; counts of several sets of reports can be added.

        Parameters
        ----------
        reports : array_like of int
            What `privatize` made, any shape.
        threads : int, optional
            Number of threads; None chooses it by the number of reports and of processors.

        Returns
        -------
        Aggregate
            counts[z] is the number of reports of outcome z, shape (K,).

        Raises
        ------
        ParameterError, ParameterTypeError
            If the reports have another dtype.
        DataError
            If a report is not an outcome; the message names it by its position.
        """
        codes = check_array("reports", reports, INTEGER_DTYPES).reshape(-1)
        return Aggregate(self, codes.size, _backend.code_counts(codes, self.outcomes, threads=threads))

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:  # noqa: ARG002  the population's, which also holds for the sample
        counts = np.asarray(counted.counts)
        if self.values is not None:
            return mean_estimate(counts, counted.n, np.array(self.values), _least_spread_of(self), self.privacy)
        weights = self._inverse()
        least_each = spreads(self.channel(), weights).min(axis=1)
        return means_estimate(counts, counted.n, weights, least_each, self.privacy, self.categories)

    def _inverse(self) -> npt.NDArray[np.float64]:
        """Numbers for the outcomes, a row for each input, whose mean is the frequency of the input."""
        if self.inputs > MOST_INVERTED:
            raise ParameterError(
                f"values must be given for a channel of more than {MOST_INVERTED} inputs, whose frequencies are not estimated; "
                f"this one has {self.inputs}"
            )
        weights = _inverse_of(self)
        if weights is None:
            raise ParameterError(
                "values must be given for this channel: different frequencies of the inputs give the same law of the outcomes, so that "
                "they do not follow from reports"
            )
        return weights

    ESTIMATES = "mean or frequencies"
    FALLS = True  # the rows stay, and with them the variance

    def _spread(self, at: float | None, target: str) -> Spread:
        if at is not None:
            raise ParameterError(f"at must be None for a FiniteChannel, which is planned for the worst law of its inputs, got {at!r}")
        rows = self._inverse() if self.values is None else np.array([self.values])
        return worst_spread(self.channel(), rows, exact=target == "population")

    def _with_epsilon(self, epsilon: float) -> FiniteChannel:
        if exceeds(largest_ratio(self.rows), epsilon):
            raise ParameterError(f"epsilon must be at least {level(largest_ratio(self.rows))!r}, the level of the rows, got {epsilon!r}")
        return self

    def variance(self, law: npt.ArrayLike | None = None) -> float:
        """Return the variance of one user's contribution to the estimated mean of `values`.

        Parameters
        ----------
        law : array_like of float, shape (X,), optional
            Law of the records; by default the one with the largest variance.

        Returns
        -------
        float
            Σ law·Q v² − (Σ law·Q v)². The standard error for n users is its root divided by √n.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the channel has no values, or `law` is not a law of its inputs.
        """
        if self.values is None:
            raise ParameterError("values must be given to the channel: the variance is that of their mean")
        matrix, values = self.channel(), np.array(self.values)
        if law is None:
            return largest_variance(matrix, values)
        masses = check_array("law", law, REAL_DTYPES).astype(np.float64)
        if masses.shape != (self.inputs,):
            raise ParameterError(f"law must be {self.inputs} masses, one for each input, got shape {masses.shape}")
        if not (masses >= 0).all():
            raise ParameterError(f"law must have masses ≥ 0, got {_first(masses, masses >= 0)!r}")
        if not abs(math.fsum(masses) - 1) <= 1e-9 * self.inputs:
            raise ParameterError(f"law must have masses that sum to 1 within {1e-9 * self.inputs:.1e}, got {math.fsum(masses)!r}")
        outcomes = masses @ matrix
        return float(spreads(outcomes[None] / outcomes.sum(), values[None])[0, 0])

    def channel(self) -> npt.NDArray[np.float64]:
        """Return the matrix Q.

        Returns
        -------
        ndarray of float64, shape (X, K)
            Each entry is the float64 nearest to the exact probability.

        Raises
        ------
        ParameterError
            If it would have more than 2^26 entries.
        """
        check_channel_size(self.inputs, self.outcomes)
        if self.rows.dtype == np.int64 and not self.denominator & (self.denominator - 1):
            # one rounding, to float64; the division by a power of two is exact
            matrix: npt.NDArray[np.float64] = np.ldexp(self.rows.astype(np.float64), 1 - self.denominator.bit_length())
            return matrix
        return np.array([[weight / self.denominator for weight in row] for row in self.rows.tolist()])


@lru_cache(maxsize=16)
def _least_spread_of(channel: FiniteChannel) -> float:
    """The least variance of the values of one report."""
    return float(spreads(channel.channel(), np.array([channel.values])).min())


@lru_cache(maxsize=16)
def _inverse_of(channel: FiniteChannel) -> npt.NDArray[np.float64] | None:
    found = left_inverse(channel.channel())
    if found is not None:
        found.flags.writeable = False
    return found


def _again(rows: Any, epsilon: float | None, values: Any, unknown: int | None, categories: Any, share: float) -> FiniteChannel:
    channel = FiniteChannel(rows, epsilon=epsilon, values=values, unknown=unknown, categories=categories)
    object.__setattr__(channel, "mixed", share)
    return channel


def _first(numbers: npt.NDArray[np.float64], good: npt.NDArray[np.bool_]) -> float:
    """The first number that is not good."""
    return float(numbers[~good][0])


def _checked_level(rows: npt.NDArray[Any], epsilon: object) -> float:
    """The level to store."""
    ratio = largest_ratio(rows)
    if epsilon is None:
        return level(ratio)
    if isinstance(epsilon, str):
        check_choice("epsilon", epsilon, ("exact",))
        if ratio is None:
            raise ParameterError(
                "rows must have a finite level, but one input excludes an outcome that another one can give: use FiniteChannel.at_level, "
                "or epsilon=None to claim no level"
            )
        return level(ratio)
    claimed = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_high=False)
    if exceeds(ratio, claimed):
        raise ParameterError(
            f"epsilon must be at least {level(ratio)!r}, the level of the rows, got {claimed!r}: use FiniteChannel.at_level"
        )
    return claimed


def _law(toward: object, outcomes: int) -> tuple[npt.NDArray[Any], int]:
    """The law to mix with as integers, and their sum."""
    given = np.asarray(toward, object if isinstance(toward, list | tuple) else None)
    if given.shape != (outcomes,):
        raise ParameterError(f"toward must be {outcomes} probabilities, one for each outcome, got shape {given.shape}")
    try:
        law, total = exact_rows([given.tolist()])
    except (ParameterError, ParameterTypeError) as error:
        raise type(error)(f"toward must be a law of the outcomes: as a matrix of one row, {error}") from None
    return law[0], total
