"""Means of several numbers a person: one of them, or a sign of each."""

from __future__ import annotations

import itertools
import math
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import Probability, complement, logistic_complement, tilted
from dpcore._validation import REAL_DTYPES, check_array, check_choice, check_integer, check_out, check_real, check_threads, plain_number
from dpcore.errors import DataError, ParameterError
from dpcore.local._error_curves import Spread, widest_share
from dpcore.local._hypercube import hypercube, law_of_signs
from dpcore.local._limits import CERTAIN, SharesLimits
from dpcore.local._mechanism import LocalMechanism, open_stream
from dpcore.local._one_bit import check_bounds, check_reach, expansion
from dpcore.local._parameters import MAX_ENUMERATED_OUTPUTS, check_channel_size, check_epsilon
from dpcore.local._reports import check_rows, check_structured
from dpcore.local.estimates import Aggregate, Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dpcore.rng import Stream

    Reals = npt.NDArray[np.float64]

METHODS = ("sample", "hypercube")
MAX_COORDINATES = {"sample": 2**16, "hypercube": 2**12}
Bound = float | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class VectorMean(LocalMechanism):
    r"""The means of d bounded numbers of each person: a bit about one of them, drawn at random, or a sign of each.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, about all d numbers of a person together, in [2^−20, 700].
    lower, upper : float, or sequence of d floats
        Bounds of every number, or of each; lower < upper. Numbers outside are clamped. Choose them by what you know about the subject,
        never from the data.
    d : int
        How many numbers a person has: in [1, 2^16], with "hypercube" in [1, 2^12].
    method : {"sample", "hypercube"}, default "sample"
        What is reported; see Notes.
    missing : float, or sequence of d floats, optional
        Number to use for NaN, within the bounds. By default NaN raises `DataError`.

    Attributes
    ----------
    privacy : Privacy
        (ε, 0).
    agreements : int
        With "hypercube" a, the least number of coordinates in which a favoured report agrees with the corner; 0 with "sample".
    z0 : float
        What a report of one coordinate stands for is ±z0, in units in which the bounds are ±1.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    "sample": a coordinate is drawn uniformly, without regard to the numbers, and one bit about it is reported as `BoundedMean` does,
    z0 = (e^ε + 1)/(e^ε − 1). The report is the index and the bit.

    "hypercube": each number is first rounded to one of its bounds at random, with its mean kept. Of the 2^d vectors of signs, those that
    agree with this corner in at least a coordinates are e^ε times as likely as the others. With N of them,
    z0 = ((e^ε − 1)N + 2^d)/((e^ε − 1)·C(d − 1, a − 1)); a > d/2 is the one with the least z0. The report is d signs.

    Guarantee: P(y\|x) ≤ e^ε P(y\|x'), with equality at opposite bounds. The probabilities are exact for every float64 x.

    Per user, in units in which the bounds are ±1, the variance of the estimate of a coordinate of mean 0 is d((e^ε + 1)/(e^ε − 1))² with
    "sample" and z0² with "hypercube". For small ε and odd d, where a is the majority (d + 1)/2, the second is 1.33 (d = 3) to π/2 (large d)
    times the first; for even d it is 2 (d = 2) to π/2 times. As long as a is the majority, this holds at every ε for odd d. But from ε = 1
    on a larger a is better, and from ε = 1.4 (d = 2) or 2 (other d) on the hypercube has the smaller variance: at ε = 4 about 0.4 times, at
    ε = 8 0.13 times that of "sample", which never falls below d. d bits of `BoundedMean`, one about each number at ε/d, have d times the
    variance of "sample" for small ε.

    At even d the law of "hypercube" is not that of the source. There, vectors that agree in exactly d/2 coordinates belong to both halves,
    so they are e^ε + 1 times as likely as some others, and ε does not hold.

    A report with "sample" is 5 bytes: `privatize` returns a structured array of dtype [("index", "<u4"), ("bit", "?")]. With "hypercube" it
    is ⌈d/8⌉ bytes of packed bits, least significant bit first.

    Cost: "sample" about 10 ns a record and one look at each number for NaN; "hypercube" about 3 ns a number and 50 ns a record. The law of
    "hypercube" is counted at the first call for an ε and d: 5 ms for d = 100, a second for d = 4,096.

    Source: Duchi, Jordan & Wainwright (2018) for "hypercube" with the majority; Nguyên et al. (2016) for "sample".

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import VectorMean
    >>> records = np.tile([1.0, 4.0, 9.0], (200_000, 1))
    >>> mechanism = VectorMean(epsilon=1.0, lower=0.0, upper=10.0, d=3)
    >>> estimate = mechanism.estimate(mechanism.privatize(records))
    >>> bool(np.all(np.abs(estimate.value - [1.0, 4.0, 9.0]) < 0.6))
    True
    >>> signs = VectorMean(epsilon=4.0, lower=0.0, upper=10.0, d=3, method="hypercube")
    >>> signs.privatize(records).shape, bool(signs.variance() < VectorMean(4.0, 0.0, 10.0, d=3).variance())
    ((200000, 1), True)
    """

    epsilon: float
    lower: Bound
    upper: Bound
    d: int = field(kw_only=True)
    method: Literal["sample", "hypercube"] = field(default="sample", kw_only=True)
    missing: Bound | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        check_choice("method", self.method, METHODS)
        object.__setattr__(self, "d", check_integer("d", self.d, low=1, high=MAX_COORDINATES[self.method]))
        for name in ("lower", "upper", "missing"):
            object.__setattr__(self, name, _bound(name, getattr(self, name), self.d))
        for low, high, missing in self._distinct():
            check_bounds(low, high, missing)
            check_reach(abs(low) + abs(high) + (high - low) / 2 * self.z0)

    def _distinct(self) -> list[tuple[float, float, float | None]]:
        """Bounds of each coordinate, or once if they are the same for all."""
        given = (self.lower, self.upper, self.missing)
        n = self.d if any(isinstance(bound, tuple) for bound in given) else 1
        return list(zip(*(bound if isinstance(bound, tuple) else itertools.repeat(bound, n) for bound in given), strict=True))

    @property
    def agreements(self) -> int:
        """a, or 0 with "sample"."""
        return 0 if self.method == "sample" else hypercube(self.epsilon, self.d).agreements

    @property
    def z0(self) -> float:
        """What a report stands for in scaled units."""
        return expansion(self.epsilon) if self.method == "sample" else float(1 / hypercube(self.epsilon, self.d).gain)

    def _middle_and_half(self) -> tuple[Reals, Reals]:
        low, high = (np.array(np.broadcast_to(bound, self.d), np.float64) for bound in (self.lower, self.upper))
        half = (high - low) / 2
        return low + half, half

    def _rarest(self) -> float:
        """The least probability of a sign."""
        if self.method == "sample":
            return float(logistic_complement(self.epsilon))
        return float((1 - hypercube(self.epsilon, self.d).gain) / 2)

    def variance(self, mean: Any = None) -> Any:
        """Return the variance of one user's contribution to the estimated mean of a coordinate.

        Parameters
        ----------
        mean : float, or array_like of float, shape (d,), optional
            Means of the clamped numbers, within the bounds; by default the middle, where the variance is largest.

        Returns
        -------
        float, or ndarray of float64, shape (d,)
            With "sample" d((half·z0)² − (mean − middle)²), with "hypercube" (half·z0)² − (mean − middle)², half = (upper − lower)/2; that
            of the population, and an upper bound for the sample. Infinite where it leaves the range of float64. An array if the bounds
            or the means are.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a mean is outside the bounds.

        Notes
        -----
        With "sample", n_j of n reports are about coordinate j, and given n_j the variance of the estimate is that of d·n_j users. As n_j is
        random, it is 1 + (d − 1)/n times the variance for n users, up to terms of order (d/n)².
        """
        middle, half = self._middle_and_half()
        tilt = np.zeros(1 if mean is None else self.d)
        if mean is not None:
            means = check_array("mean", mean, REAL_DTYPES).astype(np.float64)
            if means.shape not in {(), (self.d,)}:
                raise ParameterError(f"mean must be a number, or d = {self.d} of them, got shape {means.shape}")
            outside = ~(np.abs(means - middle) <= half * (1 + 2.0**-50))
            if outside.any():
                j = int(outside.argmax())
                bound, wrong = (float(np.broadcast_to(x, self.d)[j]) for x in (half, means))
                low, high = float(middle[j]) - bound, float(middle[j]) + bound
                raise ParameterError(f"mean must be within the bounds, in [{low!r}, {high!r}], got {wrong!r} for coordinate {j}")
            tilt = np.clip((means - middle) / half, -1.0, 1.0)
        z0 = self.z0
        with np.errstate(over="ignore"):
            found = (half * half) * ((z0 - tilt) * (z0 + tilt)) * (self.d if self.method == "sample" else 1)
        several = isinstance(self.lower, tuple) or isinstance(self.upper, tuple) or np.ndim(mean) > 0
        return found if several else float(found[0])

    ESTIMATES = "mean of each coordinate"
    FALLS = True

    def _spread(self, at: float | None, target: str) -> Spread:
        """The largest one of all coordinates."""
        if at is not None:
            raise ParameterError(f"at must be None for VectorMean, whose plan is for the worst means, got {at!r}")
        z0, d, is_sample = self.z0, self.d, self.method == "sample"
        _, half = self._middle_and_half()
        return Spread(
            float(np.max(self.variance())),
            f"{'d' if is_sample else '1'}·(half·z0)², half the largest (upper − lower)/2",
            exact=not is_sample and target == "population",
            width=None if is_sample else lambda n, confidence: 2 * float(half.max()) * z0 * widest_share(n, confidence, CERTAIN),
            why="whose reports are about a random number of coordinates",
            excess=(lambda n: _of_random_sizes(n, d, z0)) if is_sample else lambda _: 1.0,
        )

    def privatize(self, records: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Report on every record.

        Parameters
        ----------
        records : array_like of float, shape (..., d)
            The numbers of each person along the last axis; clamped to the bounds.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        out : ndarray, optional
            Array to write the reports to, of their shape and dtype, C-contiguous.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.

        Returns
        -------
        ndarray
            With "sample" of shape (...) and dtype [("index", "<u4"), ("bit", "?")]; with "hypercube" uint8 of shape (..., ⌈d/8⌉).

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit.
        DataError
            If any number is NaN and `missing` is not set, whether it would be looked at or not. Nothing is written then.
        """
        bounds, is_sample = (self.lower, self.upper, self.missing), self.method == "sample"
        position = None
        if rng is None and out is None and threads is None:
            if is_sample:
                law = _backend.sampling_law(self.d, bounds, self.epsilon)
            else:
                law = _backend.hypercube_law(self.d, bounds, law_of_signs(self.epsilon, self.d))
            found = law.respond(records)
            if isinstance(found, np.ndarray):
                return found
            position = found
        values = check_array("records", records, REAL_DTYPES)
        if values.ndim < 1 or values.shape[-1] != self.d:
            raise ParameterError(f"records must have shape (..., d) with d = {self.d}, got {values.shape}")
        shape = values.shape[:-1] if is_sample else (*values.shape[:-1], (self.d + 7) // 8)
        result = None if out is None else check_out(out, _backend.VECTOR_REPORT if is_sample else np.uint8, shape)
        if result is not None and not result.flags.c_contiguous:
            raise ParameterError("out must be C-contiguous, got a strided array")
        stream = open_stream(rng, threads)
        if self.missing is None:
            _backend.check_no_nan(values, threads)
        values = _backend.separate(values, result)
        position = stream.position() if position is None else position
        if is_sample:
            return _backend.sampled_response(values, bounds, self.epsilon, position, threads=threads, out=result)
        return _backend.hypercube_response(values, bounds, law_of_signs(self.epsilon, self.d), position, threads=threads, out=result)

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count reports; counts of several sets of reports can be added.

        Parameters
        ----------
        reports : array_like
            What `privatize` made.
        threads : int, optional
            Number of threads; None chooses it by the number of reports and of processors.

        Returns
        -------
        Aggregate
            With "hypercube" counts[j] is the number of reports in which sign j is +, shape (d,). With "sample" counts[1, j] and
            counts[0, j] are the numbers of reports about coordinate j with the sign + and −, shape (2, d).

        Raises
        ------
        ParameterError, ParameterTypeError
            If the reports have another shape or dtype.
        DataError
            If a report is not one that the mechanism can make; the message names it by its position.
        """
        check_threads(threads)
        if self.method == "sample":
            pairs = check_structured(reports, _backend.VECTOR_REPORT)
            return Aggregate(self, len(pairs), _backend.pair_counts(pairs, self.d, threads=threads))
        if isinstance(reports, np.ndarray) and reports.ndim > 2:
            reports = reports.reshape(math.prod(reports.shape[:-1]), reports.shape[-1])
        rows = check_rows(reports, self.d, "d")
        return Aggregate(self, len(rows), _backend.column_counts(rows, self.d, threads=threads))

    def _estimate(self, counted: Aggregate, target: str) -> Estimate:  # noqa: ARG002  the same for both, as for one bit
        middle, half = self._middle_and_half()
        counts = np.asarray(counted.counts, np.int64)
        ones, n = (counts[1], counts.sum(axis=0)) if self.method == "sample" else (counts, np.full(self.d, counted.n))
        z0 = self.z0
        reach = half * z0
        asked = np.maximum(n, 1)
        share = np.where(n > 0, ones / asked, 0.5)
        # no record makes a sign rarer than this, so a few reports that agree do not pass for certainty
        rarest = self._rarest()
        possible = np.maximum(np.minimum(share, 1 - share), rarest)
        stderr = np.where(n > 0, 2 * reach * np.sqrt(possible * (1 - possible) / asked), np.inf)
        limits = SharesLimits(ones.copy(), n, middle, reach)
        return Estimate(middle + reach * (2 * share - 1), stderr, counted.n, self.privacy, limits=limits)

    def channel(self, points: Any = None) -> Reals:
        """Return the rows P(report|x) of some inputs.

        Parameters
        ----------
        points : array_like of float, shape (m, d), optional
            Inputs; by default the 2^d corners of the bounds, of which bit j of number i tells whether coordinate j is at its upper bound.

        Returns
        -------
        ndarray of float64
            With "sample" of shape (m, 2d), column 2·index + bit; with "hypercube" of shape (m, 2^d), whose columns are the reports read as
            numbers: bit j is sign j. Each entry is the float64 nearest to the exact probability.

        Raises
        ------
        ParameterError
            If there are more than 2^12 reports or corners, or more than 2^26 entries.
        DataError
            If a point is NaN and `missing` is not set.
        """
        outputs = 2 * self.d if self.method == "sample" else 2 ** min(self.d, 63)
        inputs = 2 ** min(self.d, 63) if points is None else 1
        if max(outputs, inputs) > MAX_ENUMERATED_OUTPUTS:
            raise ParameterError(f"d = {self.d} gives too many reports or corners; at most 2**12 = {MAX_ENUMERATED_OUTPUTS} are listed")
        places = self._places(points)
        check_channel_size(len(places), outputs)
        rows = [self._sample_row(row) if self.method == "sample" else self._hypercube_row(row) for row in places]
        return np.array(rows, np.float64).reshape(len(places), outputs)

    def _places(self, points: Any) -> list[list[Fraction]]:
        """Where each number lies between its bounds, in [0, 1]."""
        if points is None:
            return [[Fraction(i >> j & 1) for j in range(self.d)] for i in range(2**self.d)]
        array = check_array("points", points, REAL_DTYPES)
        if array.ndim not in {1, 2} or array.shape[-1] != self.d:
            raise ParameterError(f"points must have shape (m, d) with d = {self.d}, got {array.shape}")
        bounds = self._distinct() * (1 if len(self._distinct()) == self.d else self.d)
        return [[_place(x, *bounds[j]) for j, x in enumerate(row)] for row in array.reshape(-1, self.d).tolist()]

    def _sample_row(self, places: Sequence[Fraction]) -> list[float]:
        plus = [tilted(self.epsilon, 2 * t - 1) for t in places]
        return [float(_scaled(p, Fraction(1, self.d), negated=not bit)) for p in plus for bit in (0, 1)]

    def _hypercube_row(self, places: Sequence[Fraction]) -> list[float]:
        law = hypercube(self.epsilon, self.d)
        row, rest = [], Fraction(2**self.d - law.likely)
        for report in range(2**self.d):
            chance = _favoured([t if report >> j & 1 else 1 - t for j, t in enumerate(places)], law.agreements)
            # favoured reports have weight e^ε, others 1; the weights sum to N e^ε + 2^d − N
            row.append(float(Probability(1 - chance, chance, rest, Fraction(law.likely), Fraction(self.epsilon))))
        return row


def _of_random_sizes(n: int, d: int, z0: float) -> float:
    """What drawing the coordinate adds: a bound of n/d·(E[1/N; N > 0] + P(N = 0)/z0²) for N ~ Bin(n, 1/d).

    1/N ≤ 1/(N + 1) + 3/((N + 1)(N + 2)) for N ≥ 1, whose means are at most d/(n + 1) and 3d²/((n + 1)(n + 2)). Without a report about a
    coordinate, its estimate is the middle, off by half the width at most, which is 1/z0 of the reach.
    """
    nothing = math.exp(n * math.log1p(-1 / d)) if d > 1 else 0.0
    return n / (n + 1) + 3 * d * n / ((n + 1.0) * (n + 2)) + n / d * nothing / (z0 * z0)


def _bound(name: str, value: Any, d: int) -> Any:
    """Return a bound as a float, or as a tuple of d floats if it is a sequence; only `missing` may be None."""
    if value is None and name == "missing":
        return None
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        if len(value) != d or getattr(value, "ndim", 1) != 1:
            raise ParameterError(f"{name} must be a number, or d = {d} of them, got {getattr(value, 'shape', len(value))}")
        return tuple(check_real(name, plain_number(x), low=-math.inf, high=math.inf) for x in value)
    return check_real(name, value, low=-math.inf, high=math.inf)


def _place(x: float, low: float, high: float, missing: float | None) -> Fraction:
    """Where a number, clamped, lies between its bounds."""
    x = missing if math.isnan(x) and missing is not None else x
    if math.isnan(x):
        raise DataError("points must not hold NaN unless `missing` names a number for it")
    return (Fraction(min(max(x, low), high)) - Fraction(low)) / (Fraction(high) - Fraction(low))


def _scaled(p: Probability, factor: Fraction, *, negated: bool) -> Probability:
    """p, or 1 − p, times a factor in (0, 1]."""
    p = complement(p) if negated else p
    return Probability(p.a * factor, p.b * factor, p.c, p.d, p.exponent)


def _favoured(chances: Sequence[Fraction], least: int) -> Fraction:
    """The probability that at least so many of independent events of these probabilities occur."""
    law = [Fraction(1)]
    for p in chances:
        law = [(law[k] if k < len(law) else 0) * (1 - p) + (law[k - 1] * p if k else 0) for k in range(len(law) + 1)]
    return sum(law[least:], Fraction(0))
