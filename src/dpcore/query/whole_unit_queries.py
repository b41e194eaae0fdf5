"""What queries about whole units share: how they read units, and statistics that need all rows of a unit at once.

What one unit can change is bounded here by the query itself, and not by `max_rows_per_unit`: all rows of a unit are looked at. Counting the
units in groups is the exception, where the rows that take part say in how many groups a unit is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.query.estimators import OneDraw
from dpcore.query.statistics import Statistic
from dpcore.query.unit_statistics import Gathered
from dpcore.tables.types.different import WANTED, compared_as, different, sort_of
from dpcore.tables.types.plain import unit_type
from dpcore.tables.types.whole_arrays import decoded
from dpcore.tables.units.contributions import compared, compared_type

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.query.encoders import Encoder
    from dpcore.query.query_sections import ReleasePrivacy
    from dpcore.query.reads import Read
    from dpcore.query.statistics import ReadRows
    from dpcore.query.unit_statistics import Gathering

    Array = npt.NDArray[Any]


class Compared:
    """An Arrow array of which rows are taken as of a NumPy array."""

    __slots__ = ("values",)

    def __init__(self, values: pa.Array) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Compared:
        if isinstance(rows, slice):
            return Compared(self.values[rows])
        rows = np.asarray(rows)
        return Compared(self.values.filter(pa.array(rows)) if rows.dtype == np.bool_ else self.values.take(pa.array(rows)))


@dataclass(frozen=True, slots=True)
class UnitCells:
    """The unit of each row; null where a row names none."""

    kind: pa.DataType | None = None

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return "an integer, a string, a date or a timestamp"

    @property
    def compared_as(self) -> pa.DataType:
        """The type in which units are compared."""
        return compared_type(pa.binary() if self.kind is None else self.kind)

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing: the job says what is done with rows that name no unit."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:  # noqa: ARG002
        """Accept any type: that of the unit is checked for the whole job."""
        return True

    def for_type(self, dtype: pa.DataType | None) -> Self:
        """For a column of this type."""
        return type(self)(pa.binary() if dtype is None else unit_type(dtype))

    def read(self, cells: pa.Array) -> Any:
        """The units."""
        return Compared(compared(decoded(cells).cast(self.kind or pa.binary())))


@dataclass(frozen=True, slots=True)
class DifferentCells:
    """Values that are compared; null where there is none."""

    sort: str | None = None

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return WANTED if self.sort is None else f"{WANTED}, in all files the same sort of values"

    @property
    def compared_as(self) -> pa.DataType:
        """The type in which values are compared."""
        return compared_as(self._sort)

    @property
    def _sort(self) -> str:
        return "nothing" if self.sort is None else self.sort

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing: rows without a value count nowhere."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether its values can be compared with those of the column it was fitted to."""
        found = sort_of(dtype)
        return found is not None and (self.sort is None or found in {self.sort, "nothing"})

    def for_type(self, dtype: pa.DataType | None) -> Self:
        """For a column of this type."""
        return type(self)(sort_of(dtype))

    def read(self, cells: pa.Array) -> Any:
        """The values."""
        return Compared(different(cells, self._sort))


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
    """

    name: str
    unit: UnitCells | None
    nameless: bool

    @classmethod
    def of(cls, privacy: ReleasePrivacy, read: Read) -> tuple[Whole, tuple[Encoder, ...]]:
        """What answers to a query about units depend on, and how it reads its other columns."""
        units = [cells for _, cells in read.cells if isinstance(cells, UnitCells)]
        whole = cls(privacy.unit, units[0] if units else None, privacy.null_rows_are_units)
        return whole, tuple(cells for _, cells in read.cells[len(units) :])

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        """The unit, if it is a column."""
        return () if self.unit is None else ((self.name, self.unit),)

    @property
    def compared_as(self) -> pa.DataType:
        """The type in which units are compared."""
        if self.unit is None:
            raise AssertionError("the unit is the row")
        return self.unit.compared_as


@dataclass(frozen=True, slots=True)
class OfUnits(Statistic, ABC):
    """Base of the statistics that need all rows of a unit at once: rows are gathered in their order.

    The unit is the first column that is read, if it is a column.

    Attributes
    ----------
    whole : Whole
        What the job says of units.
    groups : int
        Number of groups.
    is_grouped : bool
        Whether there are groups; otherwise all rows are in one.
    """

    whole: Whole
    groups: int
    is_grouped: bool

    in_order = True

    @property
    def of_all_rows(self) -> bool:
        """What a unit can change is bounded by the statistic itself."""
        return True

    @property
    @abstractmethod
    def gathered(self) -> Gathering:
        """What is computed of all rows, once they are there."""

    def zero(self, spill: Path) -> Gathered:
        return Gathered(self.gathered, spill)

    def add(self, total: Gathered, selected: pa.RecordBatch) -> None:
        total += selected

    def finish(self, total: Gathered, threads: int) -> Any:
        return total.made(threads)

    def _batch(self, rows: ReadRows, columns: list[Any], taken: Array | None = None) -> pa.RecordBatch:
        """Rows that are in a group, with their groups behind the columns, and words behind these if there are some."""
        groups = np.zeros(rows.n, np.int32) if rows.codes is None else np.asarray(rows.codes).astype(np.int32)
        kept = groups < self.groups
        if taken is not None:
            kept &= taken
        columns = [*columns, groups, *([] if rows.words is None else [rows.words])]
        arrays = [each.values if isinstance(each, Compared) else pa.array(each) for each in columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.gathered.schema)
        return batch if kept.all() else batch.filter(pa.array(kept))


class OfWholeUnits(OneDraw, ABC):
    """Base of the answers about whole units."""

    __slots__ = ()
    whole: Whole
