"""What a rehearsal looks up in its public table: which numbers a column holds, and how many rows a query is about.

Both would be leaks for a private table. Rehearsals are the only callers, and the table that they read is public by their user's word.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.query.encoders import Clamped, Present
from dpcore.query.statistics import Measure, Statistic
from dpcore.tables.types.timed import Timed, sort_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.query.statistics import ReadRows

    Floats = npt.NDArray[np.float64]
    Pass = Callable[[Measure], Any]


class NoTruthError(Exception):
    """The true answer of a query is not defined, or not known; the message says why."""


@dataclass(frozen=True, slots=True)
class ValuesOf(Statistic):
    """The different numbers of a column, in order."""

    def zero(self, spill: Path) -> list[Floats]:  # noqa: ARG002
        return []

    def add(self, total: list[Floats], selected: ReadRows) -> None:
        total.append(np.unique(selected.held().columns[0].astype(np.float64)))

    def finish(self, total: list[Floats], threads: int) -> Floats:  # noqa: ARG002
        return np.unique(np.concatenate([*total, np.empty(0)]))


@dataclass(frozen=True, slots=True)
class RowsOf(Statistic):
    """How many rows there are: in some group, and in none."""

    groups: int

    def zero(self, spill: Path) -> npt.NDArray[np.int64]:  # noqa: ARG002
        return np.zeros(2, np.int64)

    def add(self, total: npt.NDArray[np.int64], selected: ReadRows) -> None:
        outside = 0 if selected.codes is None else int(np.count_nonzero(selected.codes >= self.groups))
        total += (selected.n - outside, outside)


class Seen:
    """What the rows that a query is about hold.

    Parameters
    ----------
    measured : callable
        Makes a pass over these rows.
    rows : int
        Rows of the table.
    groups : int
        Groups that the query is answered for.

    Attributes
    ----------
    rows, groups : int
        As given.
    """

    def __init__(self, measured: Pass, rows: int, groups: int) -> None:
        self.rows, self.groups = rows, groups
        self._measured = measured
        self._found: dict[str, Floats] = {}

    def values(self, column: str, like: float) -> Floats:
        """The different numbers of a column in order, dates and times as days or microseconds if `like` is one of that sort.

        Parameters
        ----------
        column : str
            Its name.
        like : float
            A bound of the query.

        Raises
        ------
        NoTruthError
            If one of them is infinite, or there is none.
        """
        if column not in self._found:
            reals = Clamped((like, like), like, are_floats=True)
            self._found[column] = self._measured(Measure(((column, reals), (column, Present(reals))), ValuesOf()))
        found = self._found[column]
        if not found.size:
            raise NoTruthError(f"no row has a number in {column!r}")
        if not np.isfinite(found).all():
            raise NoTruthError(f"{column!r} holds infinite numbers")
        return found

    def bounds(self, column: str, lower: float, missing: Any = None) -> tuple[float, float]:
        """Whole numbers between which all numbers of a column lie, and what stands for missing ones if that is a number.

        They do not depend on the declared bounds: the noise that is left in a true answer is in proportion to their distance.
        """
        values = self.values(column, lower)
        known = [*values[[0, -1]].tolist(), *([] if missing is None or isinstance(missing, str) else [float(missing)])]
        low, high = math.floor(min(known)), math.ceil(max(known))
        return like(lower, low), like(lower, high + (high == low))


def like(bound: float, number: float) -> float:
    """A number of the sort of a bound: a date or time, an integer or a float."""
    sort = sort_of(bound)
    if sort is not None:
        return Timed.of(sort, int(number))
    return int(number) if isinstance(bound, int) else float(number)
