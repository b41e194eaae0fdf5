"""`histogram`: rows in each declared category or bin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.answer_lines import numbers_of
from dpcore.batch.release.answers import Answer, HistogramAnswer
from dpcore.batch.release.group_tallies import PairTallies
from dpcore.batch.release.kinds.base import StatisticKind
from dpcore.batch.release.reads import celled, check_stand_ins
from dpcore.batch.release.words import cell_names, of_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns, Entry, Line
    from dpcore.batch.release.queries import HistogramQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Histogram(StatisticKind):
    """Rows in each cell, with discrete noise for all of them together."""

    names = ("histogram",)
    cells_are = "categories or bins"
    form, form_of_groups = "cells", "lines"
    measured = "unit_of_bins"
    counts_rows = True
    maps_cells = True

    def columns(self, position: int, query: HistogramQuery) -> Columns:
        """The cells of the column."""
        return ((query.column, celled(position, query, query)),)

    def each(self, query: HistogramQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:  # noqa: ARG002
        """With the sensitivity of all cells of all groups: those of groups are cells too."""
        cells: Any = columns[0][1]
        check_stand_ins(query, cells, skips=True)
        return HistogramAnswer.made(query, cells, bound, relation)

    def tallies(self, each: HistogramAnswer) -> GroupTallies[Any]:
        """Rows of each pair of a group and a cell."""
        return PairTallies(each)

    def question(self, query: Entry) -> str:
        """How many rows each cell has."""
        parts = "bin" if query.get("edges") is not None else "declared value"
        return f"How many rows fall into each {parts}{of_column(query)}"

    def heads(self, query: Entry) -> list[str]:
        """The cells."""
        return list(cell_names({**query, "groups": None}))

    def keys(self, query: Entry) -> dict[str, list[Any]]:
        """The edges of each bin, or the categories."""
        if query.get("edges") is not None:
            return {"left": list(query["edges"][:-1]), "right": list(query["edges"][1:])}
        return {str(query["column"]): list(query["categories"])}

    def lines(self, query: Entry) -> Iterator[Line]:
        """A line for each cell."""
        yield from numbers_of(cell_names(query), query["value"], query["stderr"], query["interval"], query)
