"""`count`: rows, all or some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore.batch.jobfile.times import Timed
from dpcore.batch.release.answers import Answer, OneDraw, around, given, half_width_of, integer_noise, interval_around, standard_deviation
from dpcore.batch.release.cells import Declared, Held, Within
from dpcore.batch.release.kinds.base import StatisticKind
from dpcore.batch.release.query_fields import SKIP
from dpcore.batch.release.reads import listed
from dpcore.batch.release.words import declared_parts, sentence_of
from dpcore.batch.tables.categories import declared_by
from dpcore.pages.numbers import plain_name, plain_range

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release.answers import IntegerNoise
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    Counts = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.int32]
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns, Entry
    from dpcore.batch.release.queries import CountQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


FREE = "the number of rows is public, because neighbouring tables have equally many: this answer costs nothing"


class Count(StatisticKind):
    """Rows, with discrete noise; all of them without noise where their number is public."""

    names = ("count",)
    counts_rows = True
    may_be_free = True

    def columns(self, position: int, query: CountQuery) -> Columns:
        """The column of the condition."""
        return () if query.column is None else ((query.column, self._condition(position, query)),)

    @staticmethod
    def _condition(position: int, query: CountQuery) -> Cells:
        if query.missing == "skip":
            return Held()
        if query.categories is None:
            return Within(_end(query.lower), _end(query.upper))
        return Declared(listed(position, query, declared_by(query.categories)), skip=True)

    def each(self, query: CountQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:
        """With the sensitivity of one count, or of a histogram."""
        cells: Any = columns[0][1] if columns else None
        if cells is None and bound.n_is_public and not groups:
            return PublicCountAnswer(query)
        return CountAnswer.made(query, cells, bound, relation, groups)

    def tallies(self, each: CountAnswer) -> GroupTallies[Any]:
        """Rows of each group."""
        return CountTallies(each)

    def question(self, query: Entry) -> str:
        """How many rows there are, or have something."""
        column = query.get("column")
        if query.get("missing") == SKIP:
            return f"How many rows have a value of {column}"
        return f"How many rows have {column} {_condition_in_words(query)}" if column else "How many rows there are"

    def declared(self, query: Entry) -> str:
        """Without the bounds, which are the question."""
        return sentence_of(declared_parts(query, clamps=False))


@dataclass(frozen=True, slots=True)
class CountAnswer(OneDraw):
    """Rows, all or some, with discrete noise of sensitivity m."""

    section: CountQuery
    cells: Within | Declared | Held | None
    mechanism: IntegerNoise

    @classmethod
    def made(
        cls, section: CountQuery, cells: Within | Declared | Held | None, bound: Contribution, relation: Relation, groups: int = 0
    ) -> CountAnswer:
        """Calibrate it, for one of so many groups if there are any."""
        return cls(section, cells, integer_noise(section.epsilon, section.delta, bound.cells if groups else bound.count, relation))

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The column of the condition."""
        return () if self.cells is None or self.section.column is None else ((self.section.column, self.cells),)

    def declared(self) -> dict[str, Any]:
        """The condition."""
        return given(self.section, "categories", "lower", "upper", "missing")

    def tally(self, rows: int, read: list[Array]) -> int:
        """Count the rows that match."""
        if not read:
            return rows
        return int(np.count_nonzero(read[0] < self.cells.size if isinstance(self.cells, Declared) else read[0]))

    def release(self, tally: int, rng: Stream | None) -> dict[str, Any]:
        """The noisy number."""
        value = int(self.mechanism.release(tally, rng=rng, threads=1))
        width = half_width_of(self.mechanism, 1 - self.section.confidence)
        return {"value": value, "stderr": standard_deviation(self.mechanism), "interval": interval_around(value, width)}


@dataclass(frozen=True, slots=True)
class PublicCountAnswer(Answer):
    """The number of all rows where it is public, because neighbours have equally many: no noise, and nothing is spent."""

    section: CountQuery

    @property
    def reads(self) -> tuple[()]:
        """No column."""
        return ()

    @property
    def rho(self) -> float | None:
        """0: nothing is spent."""
        return 0.0

    def tally(self, rows: int, read: list[Array]) -> int:  # noqa: ARG002
        """All rows."""
        return rows

    def release(self, tally: int, rng: Stream | None) -> dict[str, Any]:  # noqa: ARG002
        """The number itself."""
        return {"value": tally, "stderr": 0.0, "interval": [tally, tally], "note": FREE}

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """0: there is no noise."""
        return 0.0


@dataclass(frozen=True, slots=True)
class CountTallies:
    """Rows of each group, all or some."""

    answer: CountAnswer

    def nothing(self, groups: int) -> Counts:
        """No rows."""
        return np.zeros(groups + 1, np.int64)

    def add(self, tally: Counts, codes: Codes, read: list[Array]) -> None:
        """Count rows."""
        if read:
            cells = self.answer.cells
            codes = codes[read[0] < cells.size if isinstance(cells, Declared) else read[0]]
        _backend.add_code_counts(tally, codes)

    def release(self, tally: Counts, rng: Stream | None) -> dict[str, Any]:
        """The noisy numbers."""
        answer = self.answer
        return around(answer.mechanism.release(tally[:-1], rng=rng, threads=1), answer.mechanism, answer.section.confidence)


def _end(bound: float | None) -> float:
    """A bound of a count: a date or time as it is, any number as a float."""
    return bound if isinstance(bound, Timed) else float(bound or 0.0)


def _condition_in_words(query: Entry) -> str:
    """Describe the rows that a count is about."""
    labels = query.get("categories")
    if not labels:
        return f"from {plain_range(query.get('lower'), query.get('upper'))}"
    more = ", …" if len(labels) > 5 else ""
    return ("equal to " if len(labels) == 1 else "equal to one of ") + ", ".join(map(plain_name, labels[:5])) + more
