"""`count_distinct`: how many units there are, or how many different values of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.cells import Declared
from dpcore.batch.release.kinds.base import Kind
from dpcore.batch.release.people import UnitsAnswer, ValuesAnswer, Whole
from dpcore.batch.release.people_cells import DifferentCells
from dpcore.batch.release.reads import listed
from dpcore.batch.release.words import of_column
from dpcore.batch.tables.categories import declared_by

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.kinds.base import Asked, Columns, Entry
    from dpcore.batch.release.queries import CountDistinctQuery


class CountDistinct(Kind):
    """Different units or values, with discrete noise for what the query itself lets one unit change."""

    names = ("count_distinct",)

    def columns(self, position: int, query: CountDistinctQuery) -> Columns:
        """The column of the values, declared or whatever they are."""
        if query.column is None:
            return ()
        declared = declared_by(query.categories, query.categories_file, query.k)
        cells = DifferentCells() if declared is None else Declared(listed(position, query, declared), skip=True)
        return ((query.column, cells),)

    def answer(self, query: CountDistinctQuery, asked: Asked) -> Answer:
        """Units, or values of a column."""
        whole, cells = Whole.of(asked.job, asked.read)
        if not cells:
            return UnitsAnswer.made(query, whole, asked.bound, asked.relation)
        values: Any = cells[0]
        return ValuesAnswer.made(query, values, whole, asked.bound, asked.relation)

    def question(self, query: Entry) -> str:
        """How many units or values there are."""
        if not query.get("column"):
            return "How many units there are"
        among = " of those declared" if any(query.get(key) is not None for key in ("categories", "categories_file", "k")) else ""
        return f"How many different values{of_column(query)} occur{among}"
