"""`synthetic`: a table of made-up rows, drawn from noisy histograms of declared columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.batch.release.cells import Binned, Declared
from dpcore.batch.release.kinds.base import Kind, as_parameter
from dpcore.batch.release.reads import celled, check_stand_ins
from dpcore.batch.release.synthetic import SyntheticAnswer
from dpcore.batch.release.table import TableColumn
from dpcore.batch.release.words import STAND_INS, declared_parts, sentence_of, stand_in
from dpcore.errors import ParameterError
from dpcore.pages.numbers import plain_number
from dpcore.pages.printable import check_no_formula

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.kinds.base import Asked, Columns, Entry, Line
    from dpcore.batch.release.queries import SyntheticColumn, SyntheticQuery


class Synthetic(Kind):
    """A table, and its noisy histograms."""

    names = ("synthetic",)
    column_key = "columns"
    form = "synthetic"

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

    def question(self, query: Entry) -> str:
        """The columns of the table."""
        return f"A table of made-up rows with {_columns_in_words(query)}"

    def declared(self, query: Entry) -> str:
        """With what stands for values of each column."""
        parts = declared_parts(query)
        for column in query["columns"]:
            parts += [f"{word} of {column['name']} count as {stand_in(column, key)}" for key, word in STAND_INS if key in column]
        return sentence_of(parts)

    def lines(self, query: Entry) -> Iterator[Line]:
        """The rows of the table."""
        yield f"rows in {query['value']['path']}", plain_number(query["value"]["rows"])


def _check_integers(section: SyntheticColumn) -> None:
    """Raise `ParameterError` if a bin of a column of integers has none."""
    try:
        as_parameter(section.check_integers)
    except ParameterError as error:
        raise ParameterError(f"column {section.name!r}: {error}") from None


def _columns_in_words(query: Entry) -> str:
    """The columns, and which of them are drawn together."""
    names = [column["name"] for column in query["columns"]]
    if len(names) == 1:
        return f"the column {names[0]}"
    listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    together = [" and ".join(group) for group in query["joint"] if len(group) > 1]
    if len(query["joint"]) == 1:
        return f"the columns {listed}, drawn together"
    return f"the columns {listed}, drawn independently" + (f" but for {'; '.join(together[:4])}" if together else "")
