"""An answer for each of several declared groups of rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._exact.intervals import fraction_up

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from dpcore.batch.release.answers import Answer, Noise
    from dpcore.batch.release.cells import Cells, Declared
    from dpcore.batch.release.queries import Query
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tallies:
    """The statistic of each group."""

    groups: list[Any]

    def __add__(self, other: Tallies) -> Tallies:
        return Tallies([one + another for one, another in zip(self.groups, other.groups, strict=True)])


@dataclass(frozen=True, slots=True)
class ColumnGroups:
    """The groups of a column."""

    column: str
    groups: Declared

    @property
    def size(self) -> int:
        """Number of groups."""
        return self.groups.size

    @property
    def names(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def codes(self, batch: pa.RecordBatch) -> Array:
        """The group of each row, and `size` for rows of none."""
        return self.groups.read(batch.column(self.column))

    def declared(self) -> dict[str, Any]:
        """The column and the groups, as the document has them."""
        return {"group_by": self.column, "groups": self.groups.categories.listed()}


@dataclass(frozen=True, slots=True)
class GroupedAnswer:
    """The answers of a query to each group; a row of no declared group counts nowhere.

    Attributes
    ----------
    each : Answer
        The answer to one group, calibrated for all of them together.
    column : str
        Holds the group of each row.
    groups : Declared
        The groups.
    parts : int
        How often ρ of one group counts: 1 where the noise of all groups is calibrated together.
    """

    each: Answer
    column: str
    groups: Declared
    parts: int

    @property
    def section(self) -> Query:
        """The query of the job."""
        return self.each.section

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The columns of each group's answer, and that of the groups."""
        return (*self.each.reads, (self.column, self.groups))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise for each group."""
        return self.each.noise

    @property
    def rho(self) -> float | None:
        """ρ of all groups together."""
        rho = self.each.rho
        return None if rho is None else fraction_up(self.parts * Fraction(rho))

    def declared(self) -> dict[str, Any]:
        """The groups, and what the query declares."""
        return {"group_by": self.column, "groups": self.groups.categories.listed(), **self.each.declared()}

    def tally(self, rows: int, read: list[Array]) -> Tallies:
        """The statistic of each group."""
        *values, codes = read
        nothing = self.each.tally(0, [each[:0] for each in values])
        # Sixteen bits are sorted by their digits, in linear time.
        order = np.argsort(codes.astype(np.uint16), kind="stable") if rows else codes[:0]
        ends = np.cumsum(np.bincount(codes, minlength=self.groups.size + 1)) if rows else np.zeros(self.groups.size + 1, np.int64)
        starts = np.concatenate([[0], ends[:-1]])
        found = []
        for start, end in zip(starts[:-1].tolist(), ends[:-1].tolist(), strict=True):
            index = order[start:end]
            found.append(self.each.tally(end - start, [each[index] for each in values]) if end > start else nothing)
        return Tallies(found)

    def release(self, tally: Tallies, rng: Stream | None) -> dict[str, Any]:
        """For each key of an answer the list over groups."""
        answers = [self.each.release(one, rng) for one in tally.groups]
        return {key: [answer[key] for answer in answers] for key in answers[0]}

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard error for one group, whose number of rows is not known."""
        return self.each.expected_error(None)
