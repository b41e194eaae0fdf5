"""Sequentially interactive protocols: how a record is randomised may depend on earlier reports, never on earlier records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import complement, logistic_complement
from dpcore._validation import REAL_DTYPES, check_array, check_positive, check_real
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local._mechanism import LocalMechanism, open_stream, place
from dpcore.local._one_bit import check_bounds
from dpcore.local._parameters import check_epsilon
from dpcore.local.additive import LocalDiscreteGaussian, LocalDiscreteLaplace, LocalGaussian, LocalLaplace
from dpcore.local.binary import BinaryResponse
from dpcore.local.bounded import BoundedMean
from dpcore.local.channel import BinaryChannel
from dpcore.local.finite import FiniteChannel
from dpcore.local.hadamard import HadamardResponse
from dpcore.local.hashing import LocalHashing
from dpcore.local.kary import KaryResponse
from dpcore.local.projective import ProjectiveGeometryResponse
from dpcore.local.subset import SubsetSelection
from dpcore.local.unary import UnaryEncoding
from dpcore.privacy import LocallyGuaranteed, Privacy

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream

Choose = Callable[[Sequence[Any]], LocalMechanism]
CHANNELS: frozenset[type[LocalMechanism]] = frozenset(
    {
        BinaryChannel,
        BinaryResponse,
        BoundedMean,
        FiniteChannel,
        HadamardResponse,
        KaryResponse,
        LocalDiscreteGaussian,  # refused later, for its δ
        LocalDiscreteLaplace,
        LocalGaussian,
        LocalHashing,
        LocalLaplace,
        ProjectiveGeometryResponse,
        SubsetSelection,
        UnaryEncoding,
    }
)
"""Types that `SequentialChannel` accepts. A subclass could do anything with a record, even if its `privacy` claims otherwise."""


class History(Sequence[Any]):
    """The first n reports of a growing list, read-only: a tuple for every record would cost the square of their number."""

    __slots__ = ("_n", "_reports")

    def __init__(self, reports: list[Any]) -> None:
        self._reports, self._n = reports, len(reports)

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        positions = range(self._n)[index]
        return self._reports[positions] if isinstance(positions, int) else tuple(self._reports[i] for i in positions)

    def __repr__(self) -> str:
        return f"History({self[:]!r})"


@dataclass(frozen=True, slots=True)
class SequentialChannel(LocallyGuaranteed):
    r"""A sequentially interactive channel: `choose` picks the channel of record i from the reports of records 1 … i − 1.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of every record's report, in [2^−20, 700].
    choose : callable
        Takes the reports so far, a read-only sequence, and returns a mechanism of this package with δ = 0 and a privacy loss of at most ε.
        A subclass is refused, and so is a `BinaryChannel` of a callable, because their code would see the record.

    Attributes
    ----------
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: the joint law of all reports is ε-DP in each record, because every conditional channel is. Each choice is checked, whatever
    the reports.

    Cost: some tens of microseconds a record, in Python.

    Source: Steinberger (2019), Definition 1.9 and Korollar 1.10.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse, KaryResponse, SequentialChannel
    >>> def choose(reports):
    ...     return KaryResponse(1.0, k=3) if reports and reports[-1] else BinaryResponse(1.0)
    >>> len(SequentialChannel(1.0, choose).privatize([1, 0, 1, 1]))
    4
    """

    epsilon: float
    choose: Choose

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if not callable(self.choose):
            raise ParameterTypeError(f"choose must be a function of the reports so far, got {type(self.choose).__name__}")

    @property
    def privacy(self) -> Privacy:
        """Guarantee of each record: (ε, 0)."""
        return Privacy(self.epsilon)

    def channel(self, history: Sequence[Any]) -> LocalMechanism:
        """Return the conditional channel after some reports.

        Parameters
        ----------
        history : sequence
            Reports so far.

        Returns
        -------
        LocalMechanism
            What `choose` picks.

        Raises
        ------
        ParameterError, ParameterTypeError
            If it is not a mechanism of this package, or not ε-DP.
        """
        mechanism: Any = self.choose(history if isinstance(history, History) else tuple(history))
        if type(mechanism) not in CHANNELS:
            names = ", ".join(sorted(channel.__name__ for channel in CHANNELS))
            raise ParameterTypeError(f"choose must return exactly one of {names}, got {type(mechanism).__name__}")
        if isinstance(mechanism, BinaryChannel) and not isinstance(mechanism.phi, tuple):
            raise ParameterTypeError(
                "choose must return a BinaryChannel with a table phi, got one with a callable, which would see the record"
            )
        privacy = mechanism.privacy
        if privacy.delta > 0 or privacy.epsilon > self.epsilon:
            raise ParameterError(f"choose must return a mechanism with epsilon ≤ {self.epsilon!r} and delta = 0, got {privacy!r}")
        return cast("LocalMechanism", mechanism)

    def privatize(self, records: Sequence[Any] | npt.NDArray[Any], *, rng: Stream | None = None, threads: int | None = None) -> list[Any]:
        """Randomise the records one after the other.

        Parameters
        ----------
        records : sequence
            Records, each a single value that suits its mechanism. A vector is refused: it would cost ε for each of its items.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator. Each record is a separate call.
        threads : int, optional
            Passed on; a single record needs one.

        Returns
        -------
        list
            Reports. Those that are arrays are read-only, because `choose` has seen them.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit, or a choice is not ε-DP. The record of that choice has not been read then.
        DataError
            If a record does not suit its mechanism, or is an array.

        Notes
        -----
        Cost: some tens of microseconds a record: each is a separate call, and `choose` is Python code.
        """
        stream = open_stream(rng, threads)
        given: object = records
        if not isinstance(given, Iterable) or (isinstance(given, np.ndarray) and given.ndim == 0):
            raise ParameterTypeError(f"records must be a sequence or a vector of records, got {type(records).__name__}")
        reports: list[Any] = []
        for position, record in enumerate(given):
            mechanism: Any = self.channel(History(reports))
            if not _is_single(record):
                raise DataError(
                    f"records must hold single values, for each of which ε is spent; the record at index {position} is an array"
                )
            report = mechanism.privatize(record, rng=stream, threads=threads)
            if isinstance(report, np.ndarray):
                report.setflags(write=False)
            reports.append(report)
        return reports


def _is_single(record: Any) -> bool:
    try:
        return np.ndim(record) == 0
    except ValueError:  # nested sequences of different lengths
        return False


@dataclass(frozen=True, slots=True, eq=False)
class QuantileEstimate(LocallyGuaranteed):
    """A quantile that a sequential protocol found.

    Attributes
    ----------
    value : float
        Estimate of the quantile.
    reports : ndarray of bool, shape (n,)
        The answers, in order; `value` is a function of them alone.
    privacy : Privacy
        Guarantee of each answer: (ε, 0).
    """

    value: float
    reports: npt.NDArray[np.bool_]
    privacy: Privacy

    @property
    def n(self) -> int:
        """Number of reports."""
        return len(self.reports)


@dataclass(frozen=True, slots=True)
class SequentialQuantile(LocallyGuaranteed):
    r"""A quantile by stochastic approximation: each record answers by randomised response whether it is at most the current guess.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    lower, upper : float
        Bounds of the guess, lower < upper.
    q : float
        Level of the quantile, in (0, 1); ½ is the median.
    step : float, optional
        First step γ, positive. By default (upper − lower)/2·(e^ε − 1)/(e^ε + 1): an answer then moves the guess by at most
        half the range.
    start : float, optional
        First guess, in [lower, upper]; by default the middle.

    Attributes
    ----------
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: each answer is ε-DP given the earlier ones (Steinberger, 2019, Definition 1.9 and Korollar (corollary) 1.10).

    Let B_i be the unbiased value of the i-th answer. The guesses are θ_{i+1} = clamp(θ_i − γ·i^(−5/8)·(B_i − q)), and the estimate is the
    mean of their last half. It is consistent if the density f is positive at the quantile θ. Its standard error tends to
    √(2(q(1 − q) + e^ε/(e^ε − 1)²)/n)/f(θ), for any step. Until the guesses reach the quantile, the estimate is biased towards the
    start. For a median in bounds 20 to 100 standard deviations apart that takes about 10³ records at ε = 4, 10⁴ at ε = 1 and 10⁵ to 10⁶ at
    ε = 0.1; quantiles near 0 or 1 take more.

    Cost: about 20 ns a record, 10 ns to replay a report. The recursion runs on one thread.

    Source: Robbins & Monro (1951); Polyak & Juditsky (1992); Liu et al. (2023), for the locally private form.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import SequentialQuantile
    >>> ages = np.random.default_rng(1).uniform(20, 60, 100_000)
    >>> bool(abs(SequentialQuantile(2.0, 0.0, 100.0, q=0.5).privatize(ages).value - 40) < 2)
    True
    """

    epsilon: float
    lower: float
    upper: float
    q: float = field(kw_only=True)
    step: float | None = field(default=None, kw_only=True)
    start: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        epsilon = check_epsilon(self.epsilon)
        q = check_real("q", self.q, low=0.0, high=1.0, include_low=False, include_high=False)
        lower, upper, _ = check_bounds(self.lower, self.upper, None)
        start = lower + (upper - lower) / 2 if self.start is None else check_real("start", self.start, low=lower, high=upper)
        flip = float(logistic_complement(epsilon))
        step = (upper - lower) / 2 * (1 - 2 * flip) if self.step is None else check_positive("step", self.step)
        settled = {"epsilon": epsilon, "lower": lower, "upper": upper, "q": q, "step": step, "start": start}
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def privacy(self) -> Privacy:
        """Guarantee of each record: (ε, 0)."""
        return Privacy(self.epsilon)

    def _law(self) -> tuple[float, ...]:
        flip = logistic_complement(self.epsilon)
        p, q = float(complement(flip)), float(flip)
        values = (self.q, self.lower, self.upper, self.start, self.step, (1 - q) / (p - q), -q / (p - q))
        return tuple(float(v) for v in values if v is not None)

    def privatize(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> QuantileEstimate:
        """Randomise the records one after the other.

        Parameters
        ----------
        records : array_like of float, shape (n,)
            Records, without NaN.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        threads : int, optional
            Number of threads that draw the flips; the recursion runs on one.

        Returns
        -------
        QuantileEstimate
            The reports and the estimate.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `records` is not a vector of real numbers, or another argument does not fit.
        DataError
            If a record is NaN.
        """
        values = check_array("records", records, REAL_DTYPES)
        if values.ndim != 1:
            raise ParameterError(f"records must be a vector, in the order in which the records are asked, got shape {values.shape}")
        stream = open_stream(rng, threads)
        if values.dtype.kind == "f" and values.size and np.isnan(values.min()):
            raise DataError(f"records must not hold NaN; the number at {place(values, int(np.isnan(values).argmax()))} is NaN")
        flips = _backend.wiped_empty(len(values), np.bool_)  # with them the answers could be read off the reports
        flip = logistic_complement(self.epsilon)
        _backend.flip_bools(flips, flip, stream.position(), threads=threads, out=flips)
        bits = np.empty(len(values), np.bool_)
        return QuantileEstimate(_backend.sequential_quantile(self._law(), values, flips, bits), bits, self.privacy)

    def estimate(self, reports: Any) -> QuantileEstimate:
        """Estimate from the reports alone, as the collector of the reports does.

        Parameters
        ----------
        reports : array_like of bool, shape (n,)
            The reports in order.

        Returns
        -------
        QuantileEstimate
            The estimate that `privatize` returned with these reports.
        """
        answers = _backend.contiguous(check_array("reports", reports, ("bool",)))
        if answers.ndim != 1:
            raise ParameterError(f"reports must be a vector, got shape {answers.shape}")
        return QuantileEstimate(_backend.sequential_quantile(self._law(), None, None, answers.copy()), answers, self.privacy)
