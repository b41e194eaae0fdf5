"""Which different values the rows of a task have, where one machine would count them: only all tasks together can."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.batch.release.people import ValuesAnswer
from dpcore.batch.tables.by_unit import PARTS, Numbering
from dpcore.batch.tables.whole_units import ChosenValueCounts, ValueCounts

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.batch.tables.by_unit import ByUnit

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ListedValues(ValuesAnswer):
    """A query for different values that lists them."""

    @classmethod
    def of(cls, answer: ValuesAnswer) -> ListedValues:
        """The same query."""
        return cls(**{each.name: getattr(answer, each.name) for each in fields(answer)})

    @property
    def statistic(self) -> Any:
        """The values."""
        counted: Any = ValuesAnswer.statistic.__get__(self)
        return _Listing(counted)


@dataclass(frozen=True, slots=True)
class _Listing:
    """Pairs of a value and a group, each at least once: those that units keep."""

    counted: ValueCounts | ChosenValueCounts

    @property
    def schema(self) -> pa.Schema:
        """What it needs of each row."""
        return self.counted.schema

    def made(self, parts: ByUnit, spill: Path, threads: int) -> list[tuple[pa.Array, Array]]:  # noqa: ARG002
        """Values and groups."""
        if isinstance(self.counted, ChosenValueCounts):
            return [each for each in self.counted.kept_values(parts, spill) if len(each[0])]
        return [_different(piece) for part in range(PARTS) for piece in parts.pieces(part)]


def _different(rows: pa.RecordBatch) -> tuple[pa.Array, Array]:
    """The different pairs among rows of values and groups."""
    values, groups = Numbering(), rows.column(1).to_numpy().astype(np.int64)
    most = int(groups.max(initial=0)) + 1
    pairs = np.unique(values.of(rows.column(0)) * most + groups)
    if values.names is None:
        raise AssertionError("a piece has rows")
    return values.names.take(pa.array(pairs // most)), pairs % most
