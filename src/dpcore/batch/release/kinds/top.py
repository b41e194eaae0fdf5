"""`top_s`: the s most frequent of declared candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.answer_lines import numbers_of
from dpcore.batch.release.cells import Declared
from dpcore.batch.release.choices import TopAnswer
from dpcore.batch.release.group_tallies import PairTallies
from dpcore.batch.release.kinds.base import StatisticKind
from dpcore.batch.release.reads import listed
from dpcore.batch.release.words import declared_parts, of_column, sentence_of, size
from dpcore.batch.tables.categories import declared_by
from dpcore.errors import JobError
from dpcore.pages.numbers import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns, Entry, Line
    from dpcore.batch.release.queries import TopQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Top(StatisticKind):
    """Labels, and their noisy counts if wanted."""

    names = ("top_s",)
    cells_are = "candidates"
    form, form_of_groups = "chosen", "lines"
    has_labels = True
    is_choice = True

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

    def question(self, query: Entry) -> str:
        """How many are chosen."""
        chosen = query["s"] if query.get("groups") is not None else len(query["value"])
        return f"The {f'{chosen} ' if chosen > 1 else ''}most frequent of the declared values{of_column(query)}"

    def declared(self, query: Entry) -> str:
        """With the number of candidates."""
        parts = declared_parts(query)
        if query.get("candidates") is not None:
            parts.append(f"{size(query['candidates'])} candidates were declared")
        return sentence_of(parts)

    def heads(self, query: Entry) -> list[str]:
        """The places."""
        return [f"place {place}" for place in range(1, query["s"] + 1)]

    def lines(self, query: Entry) -> Iterator[Line]:
        """A line for each place, or for each count."""
        labels = [plain_name(label) for label in query["value"]]
        if "counts" in query:
            yield from numbers_of(labels, query["counts"], query["stderr"], query["interval"], query)
        else:
            yield from ((f"place {place}", label) for place, label in enumerate(labels, 1))
