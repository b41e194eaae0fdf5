"""What queries about whole units share: how they read units, and statistics that need all rows of a unit at once.

What one unit can change is bounded here by the query itself, and not by `max_rows_per_unit`: all rows of a unit are looked at. Counting the
units in groups is the exception, where the rows that take part say in how many groups a unit is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.batch.release.answers import OneDraw
from dpcore.batch.release.people_cells import Compared, UnitCells
from dpcore.batch.release.statistics import Statistic
from dpcore.batch.tables.whole_units import Gathered

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.reads import Read
    from dpcore.batch.release.release_privacy import ReleasePrivacy
    from dpcore.batch.release.statistics import ReadRows
    from dpcore.batch.tables.whole_units import Gathering

    Array = npt.NDArray[Any]


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
    def of(cls, privacy: ReleasePrivacy, read: Read) -> tuple[Whole, tuple[Cells, ...]]:
        """What answers to a query about units depend on, and how it reads its other columns."""
        units = [cells for _, cells in read.cells if isinstance(cells, UnitCells)]
        whole = cls(privacy.unit, units[0] if units else None, privacy.null_rows_are_units)
        return whole, tuple(cells for _, cells in read.cells[len(units) :])

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
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
        """No rows."""
        return Gathered(self.gathered, spill)

    def add(self, total: Gathered, selected: pa.RecordBatch) -> None:
        """Gather rows."""
        total += selected

    def finish(self, total: Gathered, threads: int) -> Any:
        """What is computed of them."""
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
