"""`geometric_mean`: e to the mean of logarithms, which are whole steps of a grid.

The logarithm of a number in [lower, upper] becomes the nearest multiple of a power of two, its step. No logarithm of a row is computed: the
step changes where the number passes e^((j + 1/2)·unit), and these points are known exactly before any row is read. So a row's step is the
same on every machine, and the mean of the steps is an ordinary `mean`, of numbers between two of them. docs/exactness.md has the proof.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import Interval, exp, floor, log, power_of_two
from dpcore.pages.numbers import plain_number
from dpcore.query.encoders import Clamped, OfNumbers, Present
from dpcore.query.estimators import AT_LEAST, Estimator, given
from dpcore.query.fields import NumberOrSkip, check_bounds
from dpcore.query.kinds.base import NumberKind
from dpcore.query.kinds.mean import Mean, MeanQuery
from dpcore.query.methods import KNOWN, Method
from dpcore.query.prose import declared_parts, sentence_of
from dpcore.query.query_sections import INSTEAD, GroupedQuery, skips
from dpcore.query.rehearsal_columns import NoTruthError
from dpcore.tables.fields import Name, Positive

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from dpcore.privacy import Relation
    from dpcore.query.assumed import Assumed
    from dpcore.query.encoders import Encoder
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.noise import Noise
    from dpcore.query.rehearsal_columns import Seen
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]

STEP_BITS = 16
"""There are between 2^15 and 2^16 steps from `lower` to `upper`."""
LEAST_RATIO = 1 + Fraction(1, 2**20)
"""Of upper to lower: points between steps are then some thousand floats apart. All have 53 bits, as no lower bound is below 2^-1022."""
PRECISION = 192
_FINE = 256
_SLACK = 2.0**-6
"""Of a step, by which floats of logarithms are off at most: it is at least 2^-42, and they are off by less than 2^-43."""
_LN2 = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""ln 2 in two parts; multiples of the first one up to 2^20 are exact."""


POSITIVE = f"Bounds of one number, 0 < lower < upper. Smaller numbers, also zero and negative ones, count as lower. {KNOWN}"


class GeometricMeanQuery(GroupedQuery):
    """`kind = "geometric_mean"`: that of the numbers, clamped to positive bounds."""

    kind: Literal["geometric_mean"]
    column: Annotated[Name, Field(description="Column of numbers.")]
    lower: Annotated[Positive, Field(description=POSITIVE)]
    upper: Annotated[Positive, Field(description=POSITIVE)]
    missing: Annotated[NumberOrSkip | None, Field(description=f"{INSTEAD}. Required with a ledger.")] = None

    @model_validator(mode="after")
    def _bounds_are_apart(self) -> Self:
        check_bounds(self.lower, self.upper, self.missing)
        if Fraction(self.upper) < LEAST_RATIO * Fraction(self.lower):
            raise ValueError(f"upper must be at least lower·(1 + 2^-20), got lower = {self.lower!r} and upper = {self.upper!r}")
        return self


class GeometricMean(NumberKind):
    """The geometric mean of clamped numbers."""

    names, fields = ("geometric_mean",), (GeometricMeanQuery,)
    methods = (
        Method(
            "geometric_mean",
            "Compute the geometric mean of the numbers of a column, each clamped to [lower, upper].",
            "The noisy geometric mean, for each group if there are groups.",
            ("lower", "upper", "delta", "missing"),
        ),
    )
    measured = "unit_of_measure"
    is_between_bounds = True

    def columns(self, position: int, query: GeometricMeanQuery) -> Columns:  # noqa: ARG002
        """Logarithms, and where there is a number if other rows are skipped."""
        missing = query.lower if skips(query) else query.missing
        reals = Clamped((query.lower, query.upper), None if missing is None else float(missing), are_floats=True)
        logs: tuple[str, Encoder] = (query.column, Logarithms(reals, log_steps(query.lower, query.upper)))
        return (logs, (query.column, Present(reals))) if skips(query) else (logs,)

    def calibrate(self, query: GeometricMeanQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """The mean of the logarithms, between those of the bounds."""
        steps = log_steps(query.lower, query.upper)
        shared: dict[str, Any] = {key: getattr(query, key) for key in ("name", "column", "epsilon", "delta", "confidence", "missing")}
        logs = MeanQuery.model_construct(kind="mean", lower=steps.ends[0], upper=steps.ends[1], **shared)
        return GeometricMeanEstimator(query, columns, Mean().calibrate(logs, columns, bound, relation, groups), steps)

    def unclamped(self, query: GeometricMeanQuery, seen: Seen) -> GeometricMeanQuery:
        values = seen.values(query.column, query.lower)
        if values[0] <= 0:
            raise NoTruthError(f"{query.column!r} holds numbers that are not positive, which have no geometric mean")
        return query.model_copy(update={"lower": min(float(values[0]), query.lower), "upper": max(float(values[-1]), query.upper)})

    def declared(self, query: Entry) -> str:
        return sentence_of([*declared_parts(query), f"their logarithms count in steps of {plain_number(query['log_step'], 4)}"])


@dataclass(frozen=True, slots=True)
class GeometricMeanEstimator(Estimator):
    """Exponentials of a noisy mean of logarithms.

    Attributes
    ----------
    section : GeometricMeanQuery
        The query.
    reads : tuple of (str, Cells)
        The logarithms, and where there is a number if other rows are skipped.
    mean : Estimator
        That of the logarithms.
    steps : LogSteps
        The steps in which they are counted.
    """

    section: GeometricMeanQuery
    reads: tuple[tuple[str, Encoder], ...]
    mean: Estimator
    steps: LogSteps

    @property
    def logs(self) -> Estimator:
        """The answer about logarithms, for the same groups."""
        return replace(self.mean, grouping=self.grouping)

    @property
    def noise(self) -> tuple[Noise, ...]:
        return self.mean.noise

    @property
    def rho(self) -> float | None:
        return self.mean.rho

    def parameters(self) -> dict[str, Any]:
        """The bounds, and the step of logarithms, whose rounding the interval includes."""
        return given(self.section, "lower", "upper", "missing") | {"log_step": self.steps.unit} | AT_LEAST

    def half_width(self, assumed: Assumed) -> float | None:
        """At the assumed mean, or at the upper bound: logarithms that are off by h are a factor e^h."""
        logs = replace(assumed, numbers={key: value for key, value in assumed.numbers.items() if key == "n"})
        off = self.logs.half_width(logs)
        if off is None:
            return None
        at = min(assumed.numbers.get("mean", float(self.section.upper)), float(self.section.upper))
        most = float(self.section.upper) - float(self.section.lower)
        return most if off > 700 else min(at * math.expm1(off + self.steps.unit), most)

    @property
    def statistic(self) -> Statistic:
        """The exact sum of logarithms, and the number of rows."""
        return self.logs.statistic

    def release(self, total: Any, rng: Stream | None) -> dict[str, Any]:
        """Exponentials of what is released about logarithms; of no rows there is none."""
        said = self.logs.release(total, rng)
        if said["value"] is None:
            return said
        off = self.steps.unit * (0.5 + _SLACK)
        ends = np.asarray(said["interval"], np.float64).reshape(-1, 2) + np.array([-off, off])
        value = self._numbers(np.asarray(said["value"], np.float64))
        interval = self._numbers(ends).reshape(*value.shape, 2)
        return {**said, "value": value.tolist(), "stderr": (value * np.asarray(said["stderr"])).tolist(), "interval": interval.tolist()}

    def _numbers(self, logs: Array) -> Array:
        """Exponentials, clamped to the bounds, which costs nothing."""
        return np.clip(exponentials(np.clip(logs, *self.steps.ends)), self.section.lower, self.section.upper)


@dataclass(frozen=True, slots=True)
class Logarithms(OfNumbers):
    """Logarithms of numbers, each rounded to a whole step; numbers outside of the bounds count as these.

    Attributes
    ----------
    reals : Reals
        The numbers.
    steps : LogSteps
        The steps.
    """

    reals: Clamped
    steps: LogSteps

    def missing_keys(self) -> tuple[str, ...]:
        """Return the keys that the numbers lack."""
        return self.reals.missing_keys()

    def read(self, cells: pa.Array) -> Array:
        """The logarithms, which float64 holds."""
        logs: Array = self.steps.of(self.reals.read(cells)) * self.steps.unit
        return logs


# Steps


@dataclass(frozen=True, slots=True, eq=False)
class LogSteps:
    """Whole steps from the logarithm of `lower` to that of `upper`.

    The bits of positive floats are integers in their order. From `lower` on they are divided into ranges of equal length, short enough to
    hold one point each at most: a table says how many points are below a number's range, and one comparison tells the rest.

    Attributes
    ----------
    bounds : tuple of float
        `lower` and `upper`.
    unit : float
        One step, a power of two.
    first : int
        The step that is nearest to ln(lower).
    points : ndarray of float64
        The least number of each further step: the smallest float above e^((first + i + 1/2)·unit).
    """

    bounds: tuple[float, float]
    unit: float
    first: int
    points: npt.NDArray[np.float64]
    _next: npt.NDArray[np.float64]
    _range_bits: int
    _below: npt.NDArray[np.int32]

    def __reduce__(self) -> tuple[Any, tuple[float, float]]:
        return log_steps, self.bounds  # which is computed anew sooner than sent

    @property
    def ends(self) -> tuple[float, float]:
        """The first and the last step, as logarithms."""
        return self.first * self.unit, (self.first + len(self.points)) * self.unit

    def of(self, numbers: Array) -> npt.NDArray[np.int64]:
        """The step of each number, clamped to the bounds."""
        clamped = np.clip(numbers.astype(np.float64, copy=False), *self.bounds)
        ranges = clamped.view(np.int64) - np.float64(self.bounds[0]).view(np.int64)
        ranges >>= self._range_bits
        below = self._below[ranges]
        steps: npt.NDArray[np.int64] = np.add(below, clamped >= self._next[below], dtype=np.int64)
        steps += self.first
        return steps


@functools.lru_cache(maxsize=64)
def log_steps(lower: float, upper: float) -> LogSteps:
    """The steps between two bounds."""
    m, e = (log(Interval.of(upper, PRECISION)) - log(Interval.of(lower, PRECISION))).low
    exponent = m.bit_length() + int(e) - STEP_BITS
    first, last = _nearest_step(lower, exponent), _nearest_step(upper, exponent)
    points = np.array(_points(first, last - first, exponent))
    ends, places = np.array([lower, upper]).view(np.int64), points.view(np.int64)
    range_bits = int(np.diff(places).min()).bit_length() - 1
    ranges = np.arange(((ends[1] - ends[0]) >> range_bits) + 1) << range_bits
    below = np.searchsorted(places - ends[0], ranges).astype(np.int32)
    return LogSteps((lower, upper), math.ldexp(1.0, exponent), first, points, np.append(points, math.inf), range_bits, below)


def _nearest_step(number: float, exponent: int) -> int:
    """The multiple of 2^exponent that is nearest to ln(number): no float but 1 has a logarithm that is in the middle between two."""
    precision = PRECISION
    while True:
        step = log(Interval.of(number, precision)) * power_of_two(-exponent, precision) + Fraction(1, 2)
        if floor(step.low) == floor(step.high):
            return floor(step.low)
        precision *= 2


def _points(first: int, count: int, exponent: int, precision: int = PRECISION) -> tuple[float, ...]:
    """The smallest float above e^((first + i + 1/2)·2^exponent), for i = 0, …, count − 1.

    Each is the product of one of few coarse powers and one of few fine ones. No float is a power of e, but for 1.
    """

    def power(halves: int) -> tuple[int, int]:
        m, e = exp(Interval.of(halves, precision) * power_of_two(exponent - 1, precision)).low
        return m, int(e)

    coarse = [power(2 * (first + i) + 1) for i in range(0, count, _FINE)]
    fine = [power(2 * i) for i in range(min(count, _FINE))]
    found = []
    for i in range(count):
        (m, e), (n, f) = coarse[i // _FINE], fine[i % _FINE]
        product = m * n
        shift = product.bit_length() - 53
        below = product >> shift
        # Each factor is too small by less than 2^(8 - precision) of itself.
        if (product + (product >> (precision - 10)) + 1) >> shift != below:
            return _points(first, count, exponent, 2 * precision)
        found.append(math.ldexp(below + 1, e + f + shift))
    return tuple(found)


def exponentials(logs: Array) -> Array:
    """e^x to within 2^-50 of itself, by operations that IEEE 754 rounds: equal on every machine, as `numpy.exp` is not."""
    twos = np.rint(logs / (_LN2[0] + _LN2[1]))
    rest = (logs - twos * _LN2[0]) - twos * _LN2[1]
    series = np.ones_like(rest)
    for i in range(16, 0, -1):
        series = 1.0 + rest / i * series
    with np.errstate(over="ignore"):
        numbers: Array = np.ldexp(series, twos.astype(np.int64))
    return numbers
