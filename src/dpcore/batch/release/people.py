"""Answers about whole units: how many there are, how many different values, and sums of which each unit has a bounded part.

What one unit can change is bounded here by the query itself, and not by `max_rows_per_unit`: all rows of a unit are looked at. Counting the
units in groups is the exception, where the rows that take part say in how many groups a unit is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from dpcore.batch.release.answers import (
    Noise,
    OneDraw,
    described,
    given,
    half_width_of,
    integer_noise,
    real_noise,
    standard_deviation,
)
from dpcore.batch.release.cells import Declared, Present, Reals
from dpcore.batch.release.people_cells import Compared, DifferentCells, UnitCells
from dpcore.batch.release.query_fields import SKIP
from dpcore.batch.tables.scaling import MOST_BITS
from dpcore.batch.tables.whole_units import BoundedSums, ChosenValueCounts, Gathered, UnitCounts, ValueCounts
from dpcore.errors import ParameterError
from dpcore.mechanisms import Laplace
from dpcore.sums import ExactSum

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    import numpy.typing as npt

    from dpcore.batch.release.answers import IntegerNoise, RealNoise
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.job import ReleaseJob
    from dpcore.batch.release.queries import CountDistinctQuery, SumQuery
    from dpcore.batch.release.reads import Read
    from dpcore.batch.release.sensitivity import Contribution, Sensitivity
    from dpcore.batch.tables.whole_units import Statistic
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]

SUM_LIMITS = 2.0**-800, 2.0**800


@dataclass(frozen=True, slots=True)
class Whole:
    """The part of a job that answers about whole units depend on.

    Attributes
    ----------
    name : str
        The column that holds the unit.
    unit : UnitCells or None
        How the unit is read; None if the unit is the row.
    nameless : bool
        Whether a row that names no unit is one by itself.
    grouping : Any
        The groups, if there are some.
    """

    name: str
    unit: UnitCells | None
    nameless: bool
    grouping: Any = None

    @classmethod
    def of(cls, job: ReleaseJob, read: Read) -> tuple[Whole, tuple[Cells, ...]]:
        """What answers to a query about units depend on, and how it reads its other columns."""
        units = [cells for _, cells in read.cells if isinstance(cells, UnitCells)]
        whole = cls(job.privacy.unit, units[0] if units else None, job.privacy.null_rows_are_units, read.groups)
        return whole, tuple(cells for _, cells in read.cells[len(units) :])

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The unit, if it is a column."""
        return () if self.unit is None else ((self.name, self.unit),)

    @property
    def groups(self) -> int:
        """Number of groups; 1 without groups."""
        return 1 if self.grouping is None else int(self.grouping.size)


class OfWholeUnits(OneDraw, ABC):
    """Base of the answers about whole units.

    `run` gives `tally` what `reads` read of all rows, or of the rows that take part if `of_kept_rows`: the unit first, if it is a column.
    Behind it come the group of each row, if there are groups, and a random word, if it `draws_words`. It adds up what `gathering` makes.
    """

    __slots__ = ()
    section: Any
    whole: Whole
    mechanism: IntegerNoise | RealNoise

    of_kept_rows = False
    draws_words = False

    @property
    def grouping(self) -> Any:
        """The groups, if there are some."""
        return self.whole.grouping

    @property
    def keyed_by(self) -> Any:
        """The groups, if there are some."""
        return self.whole.grouping

    def of_groups(self, grouping: Any) -> Self:
        """The same for groups whose keys are known now."""
        return replace(self, whole=replace(self.whole, grouping=grouping))  # type: ignore[type-var]

    @property
    @abstractmethod
    def statistic(self) -> Statistic:
        """What is computed of all rows at once."""

    def gathering(self, spill: Path) -> Gathered:
        """Gather rows in a folder."""
        return Gathered(self.statistic, spill)

    def _grouped(self, read: list[Any]) -> tuple[list[Any], Array]:
        """What was read, and the group of each row: one behind the last for rows of none."""
        if self.grouping is None:
            return read, np.zeros(len(read[0]), np.int32)
        return read[:-1], np.asarray(read[-1]).astype(np.int32)

    def _rows(self, columns: list[Any], groups: Array, taken: Array | None = None) -> pa.RecordBatch:
        """Rows that are in a group, in the order of the schema."""
        kept = groups < self.whole.groups
        if taken is not None:
            kept &= taken
        arrays = [each.values if isinstance(each, Compared) else pa.array(each) for each in columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.statistic.schema)
        return batch if kept.all() else batch.filter(pa.array(kept))

    def _said(self, values: Array) -> dict[str, Any]:
        """Noisy numbers with their intervals."""
        width, deviation = half_width_of(self.mechanism, 1 - self.section.confidence), standard_deviation(self.mechanism)
        if self.grouping is None:
            value = values[0].item()
            return {"value": value, "stderr": deviation, "interval": [value - width, value + width]}
        interval = np.stack([values - width, values + width], axis=-1)
        return {"value": values.tolist(), "stderr": [deviation] * len(values), "interval": interval.tolist()}


class _Counts(OfWholeUnits):
    """Base of the answers that count what is different."""

    __slots__ = ()

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """The noisy counts."""
        return self._said(np.asarray(self.mechanism.release(np.asarray(tally, np.int64), rng=rng, threads=1)))


@dataclass(frozen=True, slots=True)
class UnitsAnswer(_Counts):
    """How many units have a row, with discrete noise: one unit counts once, in each of the groups that it touches."""

    section: CountDistinctQuery
    whole: Whole
    mechanism: IntegerNoise

    @classmethod
    def made(cls, section: CountDistinctQuery, whole: Whole, bound: Contribution, relation: Relation) -> UnitsAnswer:
        """Calibrate it."""
        sensitivity = replace(bound, rows=1).count if whole.grouping is None else bound.units(whole.groups)
        return cls(section, whole, integer_noise(section.epsilon, section.delta, sensitivity, relation))

    @property
    def of_kept_rows(self) -> bool:  # type: ignore[override]
        """Whether a unit is only in the groups of the rows that take part."""
        return self.grouping is not None

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The unit."""
        return self.whole.reads

    def declared(self) -> dict[str, Any]:
        """The groups."""
        return {} if self.grouping is None else dict(self.grouping.declared())

    @property
    def statistic(self) -> Statistic:
        """The units in each group."""
        return UnitCounts(_kind_of(self.whole), self.whole.groups, self.whole.nameless)

    def tally(self, rows: int, read: list[Any]) -> pa.RecordBatch:  # noqa: ARG002
        """Unit and group of some rows."""
        read, groups = self._grouped(read)
        return self._rows([*read, groups], groups)


@dataclass(frozen=True, slots=True)
class ValuesAnswer(_Counts):
    """How many different values rows have, with discrete noise.

    A unit takes part with at most k pairs of a group and a value, and so moves the count by at most k, those of all groups together by at
    most k under `add_remove` and 2k under `replace` (`sensitivity.py`).
    """

    section: CountDistinctQuery
    cells: Declared | DifferentCells
    whole: Whole
    mechanism: IntegerNoise

    counts_values = True

    @classmethod
    def made(
        cls, section: CountDistinctQuery, cells: Declared | DifferentCells, whole: Whole, bound: Contribution, relation: Relation
    ) -> ValuesAnswer:
        """Calibrate it."""
        if isinstance(cells, Declared) and cells.size * whole.groups > 2**27:
            raise ParameterError(f"there are {cells.size} categories in {whole.groups} groups, and at most {2**27} pairs are allowed")
        part = replace(bound, rows=section.max_values_per_unit or 1, groups=None)
        sensitivity = part.count if whole.grouping is None else part.cells
        return cls(section, cells, whole, integer_noise(section.epsilon, section.delta, sensitivity, relation))

    @property
    def draws_words(self) -> bool:  # type: ignore[override]
        """Whether units choose among their values."""
        return self.whole.unit is not None

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The unit and the column."""
        return (*self.whole.reads, (str(self.section.column), self.cells))

    def declared(self) -> dict[str, Any]:
        """The values, as far as they are declared, and how many a unit may add."""
        groups = {} if self.grouping is None else dict(self.grouping.declared())
        return {**groups, **given(self.section, "categories", "categories_file", "k", "max_values_per_unit")}

    @property
    def statistic(self) -> Statistic:
        """The different values in each group."""
        kind, codes = (pa.int64(), self.cells.size) if isinstance(self.cells, Declared) else (self.cells.compared_as, None)
        if self.whole.unit is None:
            return ValueCounts(kind, self.whole.groups)
        most = self.section.max_values_per_unit or 1
        return ChosenValueCounts(self.whole.unit.compared_as, kind, self.whole.groups, most, self.whole.nameless, codes)

    def tally(self, rows: int, read: list[Any]) -> pa.RecordBatch:  # noqa: ARG002
        """Rows with a value."""
        words, read = ([read[-1]], read[:-1]) if self.draws_words else ([], read)
        read, groups = self._grouped(read)
        *units, values = read
        if isinstance(self.cells, Declared):
            values = values.astype(np.int64)
            there = (values >= 0) & (values < self.cells.size)
        else:
            there = np.asarray(values.values.is_valid().to_numpy(zero_copy_only=False))
        return self._rows([*units, values, groups, *words], groups, there)


@dataclass(frozen=True, slots=True)
class UnitSumAnswer(OfWholeUnits):
    """A sum to which each unit adds at most C in absolute value, over all of its rows and groups.

    Numbers are clamped, and become whole steps by dropping what is beyond the last step toward zero. If the absolute values of a unit's
    steps sum to more than `most`, they are scaled down to it in integers (`scaling.py`).
    """

    section: SumQuery
    cells: Reals
    whole: Whole
    mechanism: RealNoise
    step: float
    most: int

    @classmethod
    def made(cls, section: SumQuery, cells: Reals, whole: Whole, bound: Contribution, relation: Relation) -> UnitSumAnswer:
        """Calibrate it."""
        step, most = steps_of(float(section.max_sum_per_unit or 0.0))
        reach = most * Fraction(step)
        low, high = (reach if end > 0 else -reach if end < 0 else Fraction(0) for end in (section.lower, section.upper))
        # One term for each unit, that may be there or not: n is not what the table's rows say.
        part = replace(bound, rows=1, n_is_public=False, groups=None)
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
        sensitivity: Sensitivity = (part.total if whole.grouping is None else part.totals)(float(low), float(high))
        return cls(section, cells, whole, real_noise(section.epsilon, section.delta, sensitivity, relation), step, most)

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The unit and the column, and where it has numbers if other rows are skipped."""
        column = (str(self.section.column), self.cells)
        there = ((str(self.section.column), Present(self.cells)),) if self.section.missing == SKIP else ()
        return (*self.whole.reads, column, *there)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise of the draw."""
        return (described(self.mechanism),)

    def declared(self) -> dict[str, Any]:
        """The bounds."""
        groups = {} if self.grouping is None else dict(self.grouping.declared())
        return {**groups, **given(self.section, "lower", "upper", "missing", "max_sum_per_unit")}

    @property
    def statistic(self) -> Statistic:
        """The sums in steps."""
        return BoundedSums(_kind_of(self.whole), self.whole.groups, self.most, self.whole.nameless)

    def steps(self, numbers: Array) -> npt.NDArray[np.int64]:
        """Numbers that are not NaN in whole steps, cut toward zero."""
        reach = self.step * self.most
        # Twice: bounds that are all beyond the reach must not move a number beyond it.
        inside = np.clip(np.clip(numbers.astype(np.float64), self.section.lower, self.section.upper), -reach, reach)
        return np.trunc(inside / self.step).astype(np.int64)

    def tally(self, rows: int, read: list[Any]) -> pa.RecordBatch:  # noqa: ARG002
        """Units, steps and groups of some rows."""
        read, groups = self._grouped(read)
        unit, numbers, *there = read
        return self._rows([unit, self.steps(numbers), groups], groups, there[0] if there else None)

    def release(self, tally: list[int], rng: Stream | None) -> dict[str, Any]:
        """The noisy sums."""
        law: Literal["laplace", "gaussian"] = "laplace" if isinstance(self.mechanism, Laplace) else "gaussian"
        noisy = self._pairs(tally).noisy(law, self.mechanism.scale, rng=rng, threads=1)
        return self._said(np.atleast_1d(np.asarray(noisy, np.float64)))

    def _pairs(self, tally: list[int]) -> ExactSum:
        """Sums of steps as pairs of float64 that hold them exactly: at most 100 bits."""
        high = [float(total) for total in tally]
        low = [float(total - int(near)) for total, near in zip(tally, high, strict=True)]
        if any(int(near) + int(rest) != total for near, rest, total in zip(high, low, tally, strict=True)):
            raise AssertionError("a pair of floats does not hold the sum")
        pair = (np.array(high) * self.step, np.array(low) * self.step)
        if self.grouping is None:
            return ExactSum(float(pair[0][0]), float(pair[1][0]), self.step, 1, 0.0, 0.0)
        return ExactSum(*pair, self.step, 1, 0.0, 0.0)


def steps_of(most: float) -> tuple[float, int]:
    """The step of sums of at most `most`, a power of two, and how many there are in it: between 2^49 and 2^50."""
    if not SUM_LIMITS[0] <= most <= SUM_LIMITS[1]:
        raise ParameterError(f"max_sum_per_unit must be in [{SUM_LIMITS[0]!r}, {SUM_LIMITS[1]!r}], got {most!r}")
    step = math.ldexp(1.0, math.frexp(most)[1] - MOST_BITS)
    return step, math.floor(Fraction(most) / Fraction(step))


def _kind_of(whole: Whole) -> pa.DataType:
    if whole.unit is None:
        raise AssertionError("the unit is the row")
    return whole.unit.compared_as
