"""`sum`: the exact sum of clamped numbers, of rows or with a bound for each unit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError
from dpcore.mechanisms import Laplace
from dpcore.query.encoders import Present
from dpcore.query.estimators import OneSum, given
from dpcore.query.fields import SKIP, Bound, NumberOrSkip
from dpcore.query.kinds.base import NumberKind
from dpcore.query.methods import InPython, Method
from dpcore.query.noise import around, noisy_sums, real_noise
from dpcore.query.query_sections import BOUNDED_KEYS, INSTEAD, OF_ONE, AddsUp, BoundedQuery
from dpcore.query.reads import clamped
from dpcore.query.unit_statistics import BoundedSums
from dpcore.query.whole_unit_queries import OfUnits, OfWholeUnits, Whole
from dpcore.sums import ExactSum, clamped_sum
from dpcore.tables.fields import Name, Positive
from dpcore.tables.units.scaling import MOST_BITS

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from dpcore.mechanisms import Gaussian
    from dpcore.privacy import Relation
    from dpcore.query.encoders import Clamped, Encoder
    from dpcore.query.estimators import Estimator
    from dpcore.query.kinds.base import Columns, Entry, QueryContext
    from dpcore.query.rehearsal_columns import Seen
    from dpcore.query.sensitivity import Contribution, Sensitivity
    from dpcore.query.statistics import ReadRows, SumsOfGroups
    from dpcore.query.unit_statistics import Gathering
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    RealNoise = Laplace | Gaussian


SUM_LIMITS = 2.0**-800, 2.0**800


OF_ONE_IN_SUM = f"{OF_ONE} Required without `max_sum_per_unit` or `bounds`."


class SumQuery(AddsUp, BoundedQuery):
    """`kind = "sum"`: the sum of the clamped numbers."""

    kind: Literal["sum"]
    column: Annotated[Name, Field(description="Column of numbers or durations.")]
    lower: Annotated[Bound, InPython("Bound", "float or duration"), Field(description=OF_ONE_IN_SUM)]
    upper: Annotated[Bound, InPython("Bound", "float or duration"), Field(description=OF_ONE_IN_SUM)]
    missing: Annotated[NumberOrSkip | None, Field(description=f"{INSTEAD}. Required with a ledger.")] = None
    max_sum_per_unit: Annotated[
        Positive | None,
        Field(
            description="Bound of the sum of the absolute values of one unit, which are scaled down if it is larger; rows are then not "
            "left out."
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _bounds_follow_from_the_sum(cls, given: Any) -> Any:
        """No number counts more than the sum may."""
        if not isinstance(given, Mapping):
            return given
        most: Any = given.get("max_sum_per_unit")
        if type(most) not in {int, float} or not most > 0:
            return given
        if "bounds" in given:
            raise ValueError("bounds are not found privately for a sum with max_sum_per_unit, which bounds each unit; leave bounds out")
        return {"lower": -most, "upper": most, **given}

    def check_unit(self, unit: str) -> None:
        """Raise ValueError unless it can be asked about units of this kind."""
        if unit == "row" and self.max_sum_per_unit is not None:
            raise ValueError('max_sum_per_unit is for jobs whose unit is a column; with unit = "row" lower and upper bound each row')

    @property
    def is_about_units(self) -> bool:
        return self.max_sum_per_unit is not None

    def _check_sort(self, sort: str | None) -> None:
        if sort not in {None, "duration"}:
            raise ValueError(f"a sum of values like lower = {self.lower!r} means nothing; only durations can be added up")
        if sort is not None and self.max_sum_per_unit is not None:
            raise ValueError(f"max_sum_per_unit is for numbers, got lower = {self.lower!r}")


class Sum(NumberKind):
    """The sum, with real noise."""

    names, fields = ("sum",), (SumQuery,)
    methods = (
        Method(
            "sum",
            "Add up the numbers of a column, each clamped to [lower, upper].",
            "The noisy sum, for each group if there are groups.",
            (*BOUNDED_KEYS[:2], "max_sum_per_unit", *BOUNDED_KEYS[2:]),
        ),
    )
    measured = "unit_of_measure"

    def uses_all_rows(self, query: Entry) -> bool:
        return query.get("max_sum_per_unit") is not None

    def columns(self, position: int, query: SumQuery) -> Columns:  # noqa: ARG002
        return clamped(query)

    def estimator(self, query: SumQuery, asked: QueryContext) -> Estimator:
        """Of rows, or of units with a bounded part each."""
        if not query.is_about_units:
            return super().estimator(query, asked)
        whole, (cells, *_) = Whole.of(asked.privacy, asked.read)
        numbers: Any = cells
        return replace(
            UnitSumEstimator.calibrate(query, numbers, whole, asked.bound, asked.relation, asked.groups), grouping=asked.read.groups
        )

    def unclamped(self, query: SumQuery, seen: Seen) -> SumQuery:
        found: SumQuery = super().unclamped(query, seen)
        if query.max_sum_per_unit is None:
            return found
        most = max(abs(found.lower), abs(found.upper)) * seen.rows
        return found.model_copy(update={"max_sum_per_unit": max(float(most), float(query.max_sum_per_unit))})

    def calibrate(self, query: SumQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """With the sensitivity of one sum, or of sums for groups."""
        cells: Any = columns[0][1]
        return SumEstimator.calibrate(query, cells, bound, relation, groups)


@dataclass(frozen=True, slots=True)
class SumEstimator(OneSum):
    """The exact sum of clamped numbers, with real noise."""

    @classmethod
    def calibrate(cls, section: SumQuery, cells: Clamped, bound: Contribution, relation: Relation, groups: int = 0) -> SumEstimator:
        """Calibrate it, for one of so many groups if there are any."""
        clamped_sum(np.empty(0), section.lower, section.upper)
        sensitivity = (bound.totals if groups else bound.total)(section.lower, section.upper)
        return cls(section, cells, real_noise(section.epsilon, section.delta, sensitivity, relation))

    def release_each(self, total: SumsOfGroups, rng: Stream | None) -> dict[str, Any]:
        return around(np.asarray(noisy_sums(total.sums, self.mechanism, rng)), self.mechanism, self.section.confidence)


@dataclass(frozen=True, slots=True)
class UnitSumEstimator(OfWholeUnits):
    """A sum to which each unit adds at most C in absolute value, over all of its rows and groups.

    Numbers are clamped, and become whole steps by dropping what is beyond the last step toward zero. If the absolute values of a unit's
    steps sum to more than `most`, they are scaled down to it in integers (`scaling.py`).
    """

    section: SumQuery
    cells: Clamped
    whole: Whole
    mechanism: RealNoise
    step: float
    most: int

    @classmethod
    def calibrate(
        cls, section: SumQuery, cells: Clamped, whole: Whole, bound: Contribution, relation: Relation, groups: int
    ) -> UnitSumEstimator:
        """Calibrate it, for so many groups if there are any."""
        step, most = steps_of(float(section.max_sum_per_unit or 0.0))
        reach = most * Fraction(step)
        low, high = (reach if end > 0 else -reach if end < 0 else Fraction(0) for end in (section.lower, section.upper))
        # One term for each unit, that may be there or not: n is not what the table's rows say.
        part = replace(bound, rows=1, n_is_public=False, groups=None)
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
        sensitivity: Sensitivity = (part.totals if groups else part.total)(float(low), float(high))
        return cls(section, cells, whole, real_noise(section.epsilon, section.delta, sensitivity, relation), step, most)

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        """The unit and the column, and where it has numbers if other rows are skipped."""
        column = (str(self.section.column), self.cells)
        there = ((str(self.section.column), Present(self.cells)),) if self.section.missing == SKIP else ()
        return (*self.whole.reads, column, *there)

    def parameters(self) -> dict[str, Any]:
        return given(self.section, "lower", "upper", "missing", "max_sum_per_unit")

    @property
    def statistic(self) -> UnitSumsOf:
        section = self.section
        return UnitSumsOf(self.whole, self.groups, self.grouping is not None, section.lower, section.upper, self.step, self.most)

    def release_each(self, total: Array, rng: Stream | None) -> dict[str, Any]:
        law: Literal["laplace", "gaussian"] = "laplace" if isinstance(self.mechanism, Laplace) else "gaussian"
        noisy = self._pairs(total).noisy(law, self.mechanism.scale, rng=rng, threads=1)
        return around(np.asarray(noisy, np.float64), self.mechanism, self.section.confidence)

    def _pairs(self, total: Array) -> ExactSum:
        """Sums of steps as pairs of float64 that hold them exactly: at most 100 bits."""
        high = [float(each) for each in total]
        low = [float(each - int(near)) for each, near in zip(total, high, strict=True)]
        if any(int(near) + int(rest) != each for near, rest, each in zip(high, low, total, strict=True)):
            raise AssertionError("a pair of floats does not hold the sum")
        return ExactSum(np.array(high) * self.step, np.array(low) * self.step, self.step, 1, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class UnitSumsOf(OfUnits):
    """The sum of each group in whole steps, of which the absolute values of a unit's sum to at most so many."""

    lower: float
    upper: float
    step: float
    most: int

    @property
    def gathered(self) -> Gathering:
        return BoundedSums(self.whole.compared_as, self.groups, self.most, self.whole.nameless)

    def united(self, total: Array, places: npt.NDArray[np.int64], groups: int) -> Array:
        united = np.zeros(groups, object)
        np.add.at(united, places, total)
        return united

    def steps(self, numbers: Array) -> npt.NDArray[np.int64]:
        """Numbers that are not NaN in whole steps, cut toward zero."""
        reach = self.step * self.most
        # Twice: bounds that are all beyond the reach must not move a number beyond it.
        inside = np.clip(np.clip(numbers.astype(np.float64), self.lower, self.upper), -reach, reach)
        return np.trunc(inside / self.step).astype(np.int64)

    def select(self, rows: ReadRows) -> pa.RecordBatch:
        unit, numbers, *there = rows.columns
        return self._batch(rows, [unit, self.steps(numbers)], there[0] if there else None)


def steps_of(most: float) -> tuple[float, int]:
    """The step of sums of at most `most`, a power of two, and how many there are in it: between 2^49 and 2^50."""
    if not SUM_LIMITS[0] <= most <= SUM_LIMITS[1]:
        raise ParameterError(f"max_sum_per_unit must be in [{SUM_LIMITS[0]!r}, {SUM_LIMITS[1]!r}], got {most!r}")
    step = math.ldexp(1.0, math.frexp(most)[1] - MOST_BITS)
    return step, math.floor(Fraction(most) / Fraction(step))
