"""Groups whose keys only the data know: before a selection has released keys, and after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.batch.release.group_fields import MAX_GROUPS
from dpcore.batch.release.grouping import Grouping, Wanted
from dpcore.batch.tables.keys import KeyColumn, encoded, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from dpcore.batch.tables.keys import Key

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """The released keys of one column, as the groups that they are from then on.

    Attributes
    ----------
    column : KeyColumn
        The column.
    parts : pyarrow.Array
        Its released values as bytes, in order.
    numbers : ndarray of uint64
        The same as numbers, if the column is no text.
    """

    column: KeyColumn
    parts: pa.Array
    numbers: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, column: KeyColumn, parts: pa.Array) -> KeyGroups:
        """The groups of these values."""
        return cls(column, parts, np.empty(0, np.uint64) if column.is_text else column.numbers_of(parts))

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.parts)

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return self.column.wanted

    def lacks(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether it can hold keys."""
        return self.column.accepts(kind)

    def fitted(self, kind: pa.DataType | None) -> KeyGroups:  # noqa: ARG002
        """Return the same groups: they were found in columns of this type."""
        return self

    def read(self, cells: pa.Array) -> Array:
        """The code of each row."""
        if not self.column.is_text:
            return self._found(*self.column.numbers(cells))
        found: Array = pc.fill_null(pc.index_in(self.column.encoded(cells), value_set=self.parts, skip_nulls=True), self.size).to_numpy()
        return found

    def _found(self, numbers: npt.NDArray[np.uint64], absent: npt.NDArray[np.bool_]) -> Array:
        """The places of numbers, which a search finds sooner than a hash table that is made for each piece."""
        places = np.searchsorted(self.numbers, numbers)
        known = np.append(self.numbers, np.uint64(0))[places] == numbers
        return np.where(known & ~absent & (places < self.size), places, self.size)

    def keys(self) -> list[Key | list[float] | None]:
        """The values."""
        return [self.column.value(part) for part in self.parts.to_pylist()]


@dataclass(frozen=True, slots=True)
class PrivateGrouping:
    """Groups by columns whose keys are not known before a selection.

    Attributes
    ----------
    columns : tuple of (str, KeyColumn)
        Each column, and how its cells are keys.
    listed : bool
        Whether the job lists the columns, and documents have the keys by column.
    """

    columns: tuple[tuple[str, KeyColumn], ...]
    listed: bool

    @classmethod
    def by(cls, names: Sequence[str], *, listed: bool) -> PrivateGrouping:
        """Before the types of the columns are known."""
        return cls(tuple((name, KeyColumn(name)) for name in names), listed)

    @property
    def size(self) -> int:
        """The largest number of groups that is ever released: noise must be enough for it."""
        return MAX_GROUPS

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(name for name, _ in self.columns)

    @property
    def key_type(self) -> pa.DataType:
        """Type of what says which group a row is in."""
        return pa.binary()

    def fitted(self, kind: Callable[[str], pa.DataType | None]) -> PrivateGrouping:
        """The same groups for columns of these types."""
        return replace(self, columns=tuple((name, column.fitted(kind(name))) for name, column in self.columns))

    def keyed(self, batch: pa.RecordBatch) -> pa.Array:
        """The key of each row, as bytes; null in no group."""
        return encoded([column for _, column in self.columns], [batch.column(name) for name in self.names])

    def codes(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Not known yet: answers have the groups of `released` when rows are added up."""
        raise AssertionError(self.names, len(batch))

    def declared(self) -> dict[str, Any]:
        """What the document has before the keys are known."""
        return {"group_by": list(self.names) if self.listed else self.names[0], "groups": "private"}

    def released(self, keys: Sequence[bytes]) -> Grouping:
        """The groups of these keys, which are in order."""
        columns = [column for _, column in self.columns]
        parts = [parts_of(columns, key) for key in keys]
        found = [pa.array(sorted({each[place] for each in parts}), pa.binary()) for place in range(len(columns))]
        made = tuple((column.name, KeyGroups.of(column, values)) for column, values in zip(columns, found, strict=True))
        if len(columns) == 1:
            return Grouping(made, None, self.listed, released=True)
        columns_of_parts = (pa.array([each[place] for each in parts], pa.binary()) for place in range(len(columns)))
        codes = [pc.index_in(part, value_set=values) for part, values in zip(columns_of_parts, found, strict=True)]
        wanted = Wanted.among([len(values) for values in found], np.stack(codes, axis=1).astype(np.int64))
        return Grouping(made, wanted, self.listed, released=True)
