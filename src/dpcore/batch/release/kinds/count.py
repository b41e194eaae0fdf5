"""`count`: rows, all or some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.jobfile.times import Timed
from dpcore.batch.release.answers import Answer, CountAnswer, PublicCountAnswer
from dpcore.batch.release.cells import Declared, Held, Within
from dpcore.batch.release.group_tallies import CountTallies
from dpcore.batch.release.kinds.base import StatisticKind
from dpcore.batch.release.query_fields import SKIP
from dpcore.batch.release.reads import listed
from dpcore.batch.release.words import declared_parts, sentence_of
from dpcore.batch.tables.categories import declared_by
from dpcore.pages.numbers import plain_name, plain_range

if TYPE_CHECKING:
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns, Entry
    from dpcore.batch.release.queries import CountQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


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
