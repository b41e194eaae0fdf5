"""`synthetic`: a table of made-up rows, drawn from noisy histograms of declared columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.batch.release.cells import Binned, Declared
from dpcore.batch.release.kinds.base import Kind, as_parameter
from dpcore.batch.release.reads import celled, check_stand_ins
from dpcore.batch.release.synthetic import SyntheticAnswer
from dpcore.batch.release.table import TableColumn
from dpcore.errors import ParameterError
from dpcore.pages.printable import check_no_formula

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.kinds.base import Asked, Columns
    from dpcore.batch.release.queries import SyntheticColumn, SyntheticQuery


class Synthetic(Kind):
    """A table, and its noisy histograms."""

    names = ("synthetic",)

    def columns(self, position: int, query: SyntheticQuery) -> Columns:
        """The cells of each column."""
        return tuple((column.name, celled(position, query, column)) for column in query.columns)

    def answer(self, query: SyntheticQuery, asked: Asked) -> Answer:
        """With the sensitivity of all histograms together."""
        columns = []
        for section, (name, cells) in zip(query.columns, asked.read.cells, strict=True):
            if not isinstance(cells, Binned | Declared):
                raise AssertionError(name)  # noqa: TRY004
            check_stand_ins(section, cells, skips=False)
            whole = isinstance(cells, Binned) and (asked.integers.get(name, False) if section.integers is None else section.integers)
            if whole:
                _check_integers(section)
            columns.append(TableColumn(name, cells, whole))
            if Path(query.output).suffix.lower() == ".csv":
                check_no_formula("the name of a column of the table", [name])
                if isinstance(cells, Declared) and cells.categories.are_text:
                    check_no_formula(f"a category of column {name!r}", map(str, cells.categories.listed()))
        return SyntheticAnswer.made(query, tuple(columns), asked.bound, asked.relation)


def _check_integers(section: SyntheticColumn) -> None:
    """Raise `ParameterError` if a bin of a column of integers has none."""
    try:
        as_parameter(section.check_integers)
    except ParameterError as error:
        raise ParameterError(f"column {section.name!r}: {error}") from None
