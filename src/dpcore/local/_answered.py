"""Randomisers of records of which some have no answer. Whether there is one is protected, too; estimates are about those who answered.

docs/exactness-local.md ("Records without an answer") proves the guarantees.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._validation import check_choice
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local._additive import Additive, range_width
from dpcore.local._limits import CERTAIN, FrequencyLimits
from dpcore.local._mechanism import LocalMechanism, open_stream
from dpcore.local._one_bit import check_bounds
from dpcore.local._oracle import FrequencyOracle
from dpcore.local._parameters import EPSILON_HIGH, EPSILON_LOW
from dpcore.local._support import Support, support_variance
from dpcore.local.binary import BinaryResponse
from dpcore.local.bounded import BoundedMean
from dpcore.local.estimates import TARGETS, Aggregate, Estimate, check_same_mechanism, frequencies
from dpcore.local.kary import KaryResponse
from dpcore.rng import StreamPosition

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.local._limits import Limits, Reals
    from dpcore.privacy import Privacy
    from dpcore.rng import Stream

    Answers = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]

PART = 0.2
"""The part of an interval's error probability that goes to the share of answers; the rest goes to what is divided by it."""
CLEAR = 3.0
"""Standard errors by which the share of answers has to differ from 0 for an estimate that may lie outside of what is possible."""
DOWN, UP, NONE = range(3)
"""Codes of a number that is rounded to a bound at random."""


class Answered(LocalMechanism):
    """A randomiser of records that may have no answer."""

    __slots__ = ()

    @abstractmethod
    def _none(self, counted: Aggregate, target: str) -> Estimate:
        """The share of records without an answer."""

    def unanswered(self, reports: Any, *, target: str = "population") -> Estimate:
        """Estimate the share of records without an answer, as `estimate` does the rest."""
        check_choice("target", target, TARGETS)
        counted = reports if isinstance(reports, Aggregate) else self.aggregate(reports)
        check_same_mechanism(self, counted.mechanism)
        if counted.n < 1:
            raise ParameterError(f"reports must hold at least one, got {counted.n}")
        return self._none(counted, target)


# Categories


@dataclass(frozen=True, slots=True)
class AnsweredShares(Answered):
    """A category, or none: the last category of an oracle is "no answer".

    Attributes
    ----------
    oracle : FrequencyOracle
        For one category more than there are answers.
    """

    oracle: FrequencyOracle[Any, Any]
    epsilon: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", self.oracle.epsilon)

    @property
    def none(self) -> int:
        """The code of "no answer"."""
        return self.oracle.k - 1

    def privatize(self, codes: npt.NDArray[Any], *, rng: Stream | None = None, threads: int | None = None) -> Any:
        """Randomise every code; k − 1 is "no answer"."""
        return self.oracle.privatize(codes, rng=rng, threads=threads)

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count reports, as the oracle does."""
        counted = self.oracle.aggregate(reports, threads=threads)
        return Aggregate(self, counted.n, counted.counts)

    def variance(self, f: float = 0.0) -> float:
        """Variance of one record's contribution if everybody answers."""
        return self.oracle.variance(f)

    def _supports(self, counted: Aggregate) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = self.oracle._support_counts(Aggregate(self.oracle, counted.n, counted.counts))  # noqa: SLF001
        return found

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:
        disjoint = isinstance(self.oracle, KaryResponse)
        law = _Shares(self._supports(counted), counted.n, self.oracle.support, target, disjoint=disjoint)
        return Estimate(law.value(), law.stderr(), counted.n, self.privacy, limits=law)

    def _none(self, counted: Aggregate, target: str) -> Estimate:
        return frequencies(int(self._supports(counted)[-1]), counted.n, self.oracle.support, target=target, privacy=self.privacy)


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    """Shares among those who answered, from the numbers of reports that support each category; the last is "no answer"."""

    counts: npt.NDArray[np.int64]
    n: int
    support: Support
    target: str
    disjoint: bool = field(kw_only=True)

    @property
    def _frequencies(self) -> Reals:
        p, q, _ = self.support
        found: Reals = (self.counts / self.n - q) / (p - q)
        return found

    def _answered(self) -> tuple[float, float]:
        """The estimated share of those who answered, and its standard error."""
        none = float(self._frequencies[-1])
        spread = float(support_variance(min(max(none, 0.0), 1.0), self.support, self.target))
        return 1 - none, math.sqrt(spread / self.n)

    def value(self) -> Reals:
        """f_j/(1 − f_none); where hardly anybody answered, the nearest possible number."""
        answered, error = self._answered()
        return _quotient(self._frequencies[:-1], answered, error, (0.0, 1.0))

    def stderr(self) -> Reals:
        """To first order in the errors of both frequencies."""
        answered, _ = self._answered()
        p, q, _ = self.support
        part, share = max(answered, 1 / self.n), np.clip(self.value(), 0.0, 1.0)
        if self.disjoint and self.target == "sample":
            spread = self._spread_of_sample(share, min(max(answered, 0.0), 1.0)) / (p - q) ** 2
        elif self.disjoint:
            # W = 1[report = j] + r·1[report = none]: its mean does not depend on r = f_j/(1 − f_none).
            seen = np.clip(self.counts / self.n, q, p)
            mean, squares = seen[:-1] + share * seen[-1], seen[:-1] + share**2 * seen[-1]
            spread = (squares - mean * mean) / (p - q) ** 2
        else:
            known = np.clip(self._frequencies, 0.0, 1.0)
            spread = support_variance(known[:-1], self.support, self.target)
            spread = spread + share**2 * support_variance(known[-1], self.support, self.target)
        found: Reals = np.sqrt(np.maximum(spread, 0.0) / self.n) / part
        return found

    def _spread_of_sample(self, share: Reals, answered: float) -> Reals:
        """Mean variance of W, as above, of the reports of given records: of the category itself, of others and of no answer."""
        p, q, _ = self.support
        own = p + share**2 * q - (p + share * q) ** 2
        other = q + share**2 * q - (q + share * q) ** 2
        none = q + share**2 * p - (q + share * p) ** 2
        found: Reals = answered * (share * own + (1 - share) * other) + (1 - answered) * none
        return found

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (k, 2): two intervals, which together miss with the probability that is left."""
        fails = 1 - confidence
        none = FrequencyLimits(self.counts[-1:], self.n, self.support, self.target)(1 - PART * fails)[0]
        least, most = np.clip(1 - none[::-1], 0.0, 1.0)
        ends = self._by_reports(1 - (1 - PART) * fails, least, most) if self.disjoint else self._by_frequencies(fails, least, most)
        ends, value = np.clip(ends, 0.0, 1.0), self.value()
        return np.stack([np.minimum(ends[:, 0], value), np.maximum(ends[:, 1], value)], axis=-1)

    def _by_frequencies(self, fails: float, least: float, most: float) -> Reals:
        """f_j/(1 − f_none) grows with both frequencies."""
        own = np.clip(FrequencyLimits(self.counts[:-1], self.n, self.support, self.target)(1 - (1 - PART) * fails), 0.0, 1.0)
        lower = own[:, 0] / most if most > 0 else np.zeros(len(own))
        upper = own[:, 1] / least if least > 0 else np.ones(len(own))
        return np.stack([lower, upper], axis=-1)

    def _by_reports(self, confidence: float, least: float, most: float) -> Reals:
        """Of the reports that are a category, a share π_j is the j-th. f_j/(1 − f_none) = π_j + κ(kπ_j − 1), κ = q/((p − q)(1 − f_none)).

        It grows with π_j. Where many answer, κ is small or known well, so hardly anything is lost by the second interval.
        """
        k, categories = len(self.counts) - 1, self.n - int(self.counts[-1])
        if not categories or not least > 0:
            return np.tile([0.0, 1.0], (k, 1))
        p, q, _ = self.support
        some = FrequencyLimits(self.counts[:-1], categories, CERTAIN, "population")(confidence)
        few, many = (q / ((p - q) * answered) for answered in (most, least))
        tilts = k * some - 1
        lower = some[:, 0] + np.where(tilts[:, 0] < 0, many, few) * tilts[:, 0]
        upper = some[:, 1] + np.where(tilts[:, 1] < 0, few, many) * tilts[:, 1]
        return np.stack([lower, upper], axis=-1)


# Numbers of which one bit is reported


@dataclass(frozen=True, slots=True)
class AnsweredMean(Answered):
    """The mean of bounded numbers, from one of three reports: near the upper bound, near the lower one, or no answer.

    A number is rounded at random to a bound, without a bias, and k-ary response with k = 3 randomises which one, or that there is none.

    Attributes
    ----------
    epsilon : float
        Privacy loss of one report.
    lower, upper : float
        The bounds.
    """

    epsilon: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        lower, upper, _ = check_bounds(self.lower, self.upper, None)
        for name, value in (("lower", lower), ("upper", upper), ("epsilon", self.shares.epsilon)):
            object.__setattr__(self, name, value)

    @property
    def shares(self) -> AnsweredShares:
        """What randomises the three codes."""
        return AnsweredShares(KaryResponse(self.epsilon, k=3))

    @property
    def rounding(self) -> BoundedMean:
        """What rounds a number at random: e^−700 is the most by which a probability differs."""
        return BoundedMean(EPSILON_HIGH, self.lower, self.upper, missing=self.lower)

    def privatize(self, records: Answers, *, rng: Stream | None = None, threads: int | None = None) -> npt.NDArray[np.uint8]:
        """Report a code for each pair of a number and whether there is one."""
        numbers, answered = records
        rounding, response = _two_streams(rng, threads)
        codes = self.rounding.privatize(numbers, rng=rounding, threads=threads).astype(np.uint8)
        codes[~answered] = NONE
        reports: npt.NDArray[np.uint8] = self.shares.privatize(codes, rng=response, threads=threads)
        return reports

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count the three codes."""
        counted = self.shares.aggregate(reports, threads=threads)
        return Aggregate(self, counted.n, counted.counts)

    def variance(self) -> float:
        """Variance of one record's contribution at the middle of the range, if everybody answers."""
        half, (p, q, _) = (self.upper - self.lower) / 2, self.shares.oracle.support
        return half * half * (p + q) / (p - q) ** 2

    def _of_shares(self, counted: Aggregate) -> Aggregate:
        return Aggregate(self.shares, counted.n, counted.counts)

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:  # noqa: ARG002  the same for both
        # As of other one-bit means: those of the population, which are no shorter than those of the sample.
        found = self.shares.estimate(self._of_shares(counted), target="population")
        width = self.upper - self.lower
        share, error = float(np.asarray(found.value)[UP]), float(np.asarray(found.stderr)[UP])
        limits = _OfOne(found.limits, UP, self.lower, width)
        return Estimate(self.lower + width * share, width * error, counted.n, self.privacy, limits=limits)

    def _none(self, counted: Aggregate, target: str) -> Estimate:
        return self.shares.unanswered(self._of_shares(counted), target=target)

    def channel(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the rows P(down), P(up), P(none) of some numbers, and in the last row of no answer."""
        tilt = (np.clip(points, self.lower, self.upper) - self.lower) / (self.upper - self.lower)
        inputs = np.zeros((len(tilt) + 1, 3))
        inputs[:-1, DOWN], inputs[:-1, UP], inputs[-1, NONE] = 1 - tilt, tilt, 1.0
        found: npt.NDArray[np.float64] = inputs @ self.shares.oracle.channel()  # type: ignore[attr-defined]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _OfOne:
    """The limits of one share, as limits of lower + width·share."""

    limits: Limits
    place: int
    lower: float
    width: float

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (2,)."""
        ends: Reals = self.lower + self.width * self.limits(confidence)[self.place]
        return ends


# Numbers with noise


@dataclass(frozen=True, slots=True)
class AnsweredNumbers(Answered):
    """A number with noise, or that of the middle of the range where there is none; and a randomised bit that says whether there is one.

    Attributes
    ----------
    noise : Additive
        The mechanism of a number, with its whole ε and δ.
    middle : float or int
        What stands for no answer.
    bit : BinaryResponse
        The mechanism of the bit. Its ε is ε(1 − D/R): R is the width of the range, and D the largest distance from the middle.
    """

    noise: Additive[Any]
    epsilon: float = field(init=False, repr=False, compare=False)
    middle: float = field(init=False, repr=False, compare=False)
    bit: BinaryResponse = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lower, upper = self.noise.lower, self.noise.upper
        low, high = Fraction(lower), Fraction(upper)
        middle = int(lower) + (int(upper) - int(lower)) // 2 if self.noise.integral else float(lower + (upper - lower) / 2)
        width = Fraction(upper - lower if self.noise.integral else range_width(lower, upper))
        farthest = max(high - Fraction(middle), Fraction(middle) - low)
        left = Fraction(self.noise.epsilon) * (1 - farthest / width)
        own = float(left)
        own = math.nextafter(own, 0.0) if Fraction(own) > left else own
        if own < EPSILON_LOW:
            raise ParameterError(
                f"epsilon must leave {EPSILON_LOW!r} for the bit that says whether there is an answer, got {own!r} with lower {lower!r} "
                f"and upper {upper!r}; for two values take mechanism 'binary' with categories"
            )
        for name, value in (("epsilon", self.noise.epsilon), ("middle", middle), ("bit", BinaryResponse(min(own, EPSILON_HIGH)))):
            object.__setattr__(self, name, value)

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one report, which is the pair."""
        return self.noise.privacy

    @property
    def grid(self) -> float:
        """The grid of the numbers."""
        return self.noise.grid

    @property
    def scale(self) -> float:
        """The scale of the noise."""
        return self.noise.scale

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the reports."""
        return np.dtype([("value", np.int64 if self.noise.integral else np.float64), ("answered", np.bool_)])

    def privatize(self, records: Answers, *, rng: Stream | None = None, threads: int | None = None) -> npt.NDArray[Any]:
        """Report a pair for each pair of a number, the middle where there is none, and whether there is one."""
        numbers, answered = records
        adding, flipping = _two_streams(rng, threads)
        reports = np.empty(numbers.shape, self.dtype)
        bounds = (self.noise.lower, self.noise.upper, self.middle)
        # Whatever stands where there is no answer. Rounded to another type, the middle would be farther from a bound than the bit allows.
        if numbers.dtype not in (np.float64, np.int64) or (middle := numbers.dtype.type(self.middle)) != self.middle:
            raise ParameterTypeError(f"numbers must be of a type that holds {self.middle!r}, float64 or int64, got {numbers.dtype}")
        known = np.where(answered, numbers, middle)
        reports["value"] = _noised(self.noise, known, bounds, adding, threads)
        reports["answered"] = self.bit.privatize(answered, rng=flipping, threads=threads)
        return reports

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Sum the numbers and their squares, as the mechanism of the noise does, and count the bits."""
        counted = self.noise.aggregate(np.ascontiguousarray(reports["value"]), threads=threads)
        return Aggregate(self, counted.n, (*map(int, counted.counts), int(np.count_nonzero(reports["answered"]))))

    def _parts(self, counted: Aggregate, target: str) -> tuple[Estimate, Estimate]:
        """The mean of all records, where no answer counts as the middle, and the share of answers."""
        *sums, bits = counted.counts
        whole = self.noise._estimate(Aggregate(self.noise, counted.n, tuple(sums)), target)  # noqa: SLF001  sums of its own reports
        return whole, frequencies(int(bits), counted.n, self.bit.support, target=target, privacy=self.bit.privacy)

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:
        whole, share = self._parts(counted, target)
        middle, answered, error = float(self.middle), float(share.value), float(share.stderr)
        ends = (self.noise.lower - middle, self.noise.upper - middle)
        away = float(_quotient(np.array(float(whole.value) - middle), answered, error, ends))
        possible = min(max(away, ends[0]), ends[1])
        # Numbers and bits of a population vary together: both are 0 where there is no answer.
        known = min(max(answered, 0.0), 1.0)
        shared = 2 * known * (1 - known) / counted.n if target == "population" else 0.0
        spread = float(whole.stderr) ** 2 + possible**2 * (error**2 - shared)
        stderr = math.sqrt(max(spread, 0.0)) / max(answered, 1 / counted.n)
        limits = _MeanOfAnswered(whole.limits, share.limits, middle, ends, middle + away)
        return Estimate(middle + away, stderr, counted.n, self.privacy, limits=limits)

    def _none(self, counted: Aggregate, target: str) -> Estimate:
        _, share = self._parts(counted, target)
        return Estimate(1 - float(share.value), share.stderr, counted.n, self.privacy, limits=_Rest(share.limits))


@dataclass(frozen=True, slots=True, eq=False)
class _MeanOfAnswered:
    """Limits of middle + (mean − middle)/share, of two intervals which together miss with the probability that is left."""

    mean: Limits
    share: Limits
    middle: float
    ends: tuple[float, float]
    value: float

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (2,)."""
        fails = 1 - confidence
        least, most = np.clip(self.share(1 - PART * fails), 0.0, 1.0)
        lower, upper = self.mean(1 - (1 - PART) * fails) - self.middle
        if least > 0:
            lower = lower / (least if lower < 0 else most)
            upper = upper / (most if upper < 0 else least)
        else:
            lower, upper = self.ends
        lower, upper = (self.middle + min(max(end, self.ends[0]), self.ends[1]) for end in (lower, upper))
        return np.array([min(lower, self.value), max(upper, self.value)])


@dataclass(frozen=True, slots=True, eq=False)
class _Rest:
    """Limits of one minus a share."""

    limits: Limits

    def __call__(self, confidence: float, /) -> Reals:
        """Return the ends, shape (2,)."""
        ends: Reals = 1 - self.limits(confidence)[::-1]
        return ends


def _quotient(part: Reals, answered: float, error: float, possible: tuple[float, float]) -> Reals:
    """part/answered; clamped to what is possible where the share of answers may be 0."""
    if answered > CLEAR * error:
        return part / answered
    return np.clip(part / max(answered, 2.0**-60), *possible)


def _noised(noise: Additive[Any], numbers: npt.NDArray[Any], bounds: Any, rng: Stream, threads: int | None) -> npt.NDArray[Any]:
    from dpcore import noise as kernels

    add: Any = kernels.int_noise if noise.integral else kernels.float_noise
    more = () if noise.integral else (noise.grid,)
    found: npt.NDArray[Any] = add(noise.kind, numbers, noise.scale, *more, rng, None, threads, bounds)
    return found


@dataclass(frozen=True, slots=True)
class _At:
    """A stream with one position."""

    at: StreamPosition
    secure: bool

    def position(self) -> StreamPosition:
        """Return it."""
        return self.at


def _two_streams(rng: Stream | None, threads: int | None) -> tuple[_At, _At]:
    """Streams of two draws whose words no other draw has. The second key follows from the first, and not from where rows are cut."""
    stream = open_stream(rng, threads)
    key, nonce, element, *_ = stream.position()
    first = StreamPosition(key, nonce, element, secure=stream.secure)
    second = _backend.derived_key(first._replace(first_element=0), 1)
    return _At(first, stream.secure), _At(first._replace(key=second), stream.secure)
