"""How queries about whole units read the unit, and values that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.batch.expressions.whole_arrays import decoded
from dpcore.batch.tables.contributions import compared, compared_type
from dpcore.batch.tables.different import WANTED, compared_as, different, sort_of
from dpcore.batch.tables.plain import unit_type

if TYPE_CHECKING:
    from typing import Self


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

    def lacks(self) -> tuple[str, ...]:
        """Return nothing: the job says what is done with rows that name no unit."""
        return ()

    def accepts(self, kind: pa.DataType) -> bool:  # noqa: ARG002
        """Accept any type: that of the unit is checked for the whole job."""
        return True

    def fitted(self, kind: pa.DataType | None) -> Self:
        """For a column of this type."""
        return type(self)(pa.binary() if kind is None else unit_type(kind))

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

    def lacks(self) -> tuple[str, ...]:
        """Return nothing: rows without a value count nowhere."""
        return ()

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether its values can be compared with those of the column it was fitted to."""
        found = sort_of(kind)
        return found is not None and (self.sort is None or found in {self.sort, "nothing"})

    def fitted(self, kind: pa.DataType | None) -> Self:
        """For a column of this type."""
        return type(self)(sort_of(kind))

    def read(self, cells: pa.Array) -> Any:
        """The values."""
        return Compared(different(cells, self._sort))
