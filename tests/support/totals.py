"""The exact statistics of answers, from rows as they have read them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.query.statistics import Measure, ReadRows, SumsOfGroups

Array = npt.NDArray[Any]
NOWHERE = Path("/nonexistent")


def total_of(
    measure: Measure, columns: list[Any], codes: Any = None, words: Any = None, *, rows: int | None = None, spill: Path = NOWHERE
) -> Any:
    """The statistic of rows of which these columns were read, with the group of each if there are groups."""
    statistic = measure.statistic
    codes = None if codes is None else np.asarray(codes).astype(np.int32)
    n = len((columns or [codes])[0]) if rows is None else rows
    total = statistic.zero(spill)
    statistic.add(total, statistic.select(ReadRows(n, columns, codes, words)))
    return statistic.finish(total, 1)


def total_of_cells(answer: Any, batch: Any) -> Any:
    """The statistic of an answer on a batch, whose cells are read."""
    measure = answer.measure
    codes = None if measure.grouping is None else measure.grouping.codes(batch)
    return total_of(measure, [cells.read(batch.column(name)) for name, cells in measure.reads], codes, rows=len(batch))


def in_many_groups(total: Any, groups: int) -> Any:
    """The statistic of so many groups, each with the rows of the first."""
    if isinstance(total, SumsOfGroups):
        many = copy.copy(total)
        many.totals = in_many_groups(total.totals, groups)
        return many
    return np.repeat([total[0], np.zeros_like(total[0])], [groups, 1], axis=0)
