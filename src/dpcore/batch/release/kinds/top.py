"""`top_s`: the s most frequent of declared candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.cells import Declared
from dpcore.batch.release.choices import TopAnswer
from dpcore.batch.release.group_tallies import PairTallies
from dpcore.batch.release.kinds.base import StatisticKind
from dpcore.batch.release.reads import listed
from dpcore.batch.tables.categories import declared_by
from dpcore.errors import JobError

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns
    from dpcore.batch.release.queries import TopQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Top(StatisticKind):
    """Labels, and their noisy counts if wanted."""

    names = ("top_s",)
    cells_are = "candidates"

    def columns(self, position: int, query: TopQuery) -> Columns:
        """The candidates."""
        categories = listed(position, query, declared_by(query.candidates, query.candidates_file, query.k))
        if query.s > categories.k:
            raise JobError(f"query[{position}] ({query.name!r}): s must be at most the number of candidates, {categories.k}, got {query.s}")
        return ((query.column, Declared(categories, skip=True)),)

    def each(self, query: TopQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:
        """With the sensitivity of one candidate's count."""
        cells: Any = columns[0][1]
        return TopAnswer.made(query, cells, bound, relation, groups)

    def tallies(self, each: TopAnswer) -> GroupTallies[Any]:
        """Rows of each pair of a group and a candidate."""
        return PairTallies(each)
