"""How a source reads a cell alone and in any company: the registry of sources, types and cells, and the comparison.

A `Column` is a type of a source and a zoo of cells that it can hold. `support/cells/` has one module for the columns of each library, which
adds them with `register`. Nothing here knows how a source reads: it sees the batches that reach the engine, and the answers to questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dpcore import PrivateTable
from dpcore.errors import JobError
from dpcore.frames.inputs import FrameInput
from dpcore.frames.sources import source_of

NAME = "cell"
SURE = 1e6
"""An ε with which counts have no noise but once in e^1000000."""

Frame = Callable[[Sequence[Any]], object]
Read = Callable[[object, int], Iterator[pa.RecordBatch]]
Reading = bytes | str | bool | tuple[object, ...] | None


def batches_of(frame: object, rows: int) -> Iterator[pa.RecordBatch]:
    """The batches of at most so many rows that a frame in memory gives to the engine."""
    source = source_of(frame)
    if isinstance(source, str):
        raise TypeError("a path has no batches of its own; its column has a `read`")
    yield from FrameInput.of(source)._passes.source.batches([NAME], rows)


def type_of(frame: object) -> pa.DataType:
    """The type of the column, as a plan knows it before a row is read."""
    return source_of(frame).info().types[NAME]


@dataclass(frozen=True)
class Column:
    """A type of a source.

    Attributes
    ----------
    source, type : str
        The source, as its module calls it, and the type, as its library calls it.
    frame : callable
        Makes a frame whose column `cell` has some cells, and a type that does not depend on them.
    cells : dict
        The zoo.
    read : callable
        The batches of a frame.
    beside : tuple of str
        Cells beside which each other one is read, before and behind it; without any each is read beside the next one.
    is_refused : bool
        Whether no query takes the type.
    """

    source: str
    type: str
    frame: Frame = field(repr=False)
    cells: Mapping[str, Any] = field(repr=False)
    read: Read = field(default=batches_of, repr=False)
    beside: tuple[str, ...] = ()
    is_refused: bool = False

    @property
    def name(self) -> str:
        """For messages and names of tests."""
        return f"{self.source}: {self.type}"


COLUMNS: dict[str, Column] = {}
"""All columns, by name."""
SOURCES: dict[str, str] = {}
"""The name of each class of source in `src`, and the prefix of the names of its columns."""
TYPES: dict[str, Callable[[], set[str]]] = {}
"""For each library what lists the types that it has, by their name in `LISTED`."""
LISTED: dict[str, dict[str, str]] = {}
"""For each library its types, and the columns that have them, or why there is none."""


def register(column: Column) -> None:
    """Add a column."""
    if column.name in COLUMNS:
        raise ValueError(f"{column.name} is there already")
    COLUMNS[column.name] = column


def triples() -> int:
    """How many triples of a source, a type and a cell are read."""
    return sum(len(column.cells) for column in COLUMNS.values())


# What a cell was read as


def readings(batch: pa.RecordBatch) -> list[Reading]:
    """What each cell of the column is, independently of how its type stores it."""
    cells = batch.column(NAME)
    return [reading(cells.slice(place, 1)) for place in range(len(cells))]


def reading(cell: pa.Array) -> Reading:
    """What a cell is."""
    kind = cell.type
    if isinstance(cell, pa.ExtensionArray):
        return reading(cell.storage)
    if pa.types.is_dictionary(kind):
        place = cell.indices[0].as_py()
        return None if place is None else reading(cell.dictionary.slice(place, 1))
    if pa.types.is_null(kind) or (not pa.types.is_union(kind) and not cell.is_valid()[0].as_py()):
        return None
    if pa.types.is_run_end_encoded(kind):
        return reading(cell.values.slice(cell.find_physical_offset(), 1))
    if kind in {pa.string(), pa.large_string()}:
        return bytes(cell.view(pa.binary() if kind == pa.string() else pa.large_binary())[0].as_py())
    if kind == pa.string_view():
        return bytes(cell.view(pa.binary_view())[0].as_py())
    if kind == pa.bool_():
        return bool(cell[0].as_py())
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_interval(kind):
        width = kind.bit_width // 8
        return cell.buffers()[1].to_pybytes()[cell.offset * width :][:width]
    if pa.types.is_struct(kind):
        return tuple(reading(cell.field(place)) for place in range(kind.num_fields))
    return repr(cell[0].as_py())


def read(column: Column, order: Sequence[int], rows: int) -> list[Reading]:
    """What the cells with these numbers are read as, in batches of at most so many rows."""
    cells = list(column.cells.values())
    return [each for batch in column.read(column.frame([cells[place] for place in order]), rows) for each in readings(batch)]


def companies(n: int, beside: Sequence[int]) -> Iterator[tuple[Sequence[int], int]]:
    """Orders of n cells, and the most rows of a batch: forwards, backwards, shuffled, repeated, and in twos."""
    shuffled = random.Random(28).sample(range(n), n)
    for order in (range(n), range(n - 1, -1, -1), shuffled, [*range(n), *shuffled]):
        for rows in (1, 3, 7, 1 << 18):
            yield order, rows
    for place in range(n):
        for other in beside or [(place + 1) % n]:
            yield (place, other), 2
            yield (other, place), 2


Reader = Callable[[Column, Sequence[int], int], list[Reading]]


def outcome(reader: Reader, column: Column, order: Sequence[int], rows: int) -> list[object]:
    """What cells are read as; an error is what all of them are read as."""
    try:
        return list(reader(column, order, rows))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"] * len(order)


def differences(column: Column, reader: Reader = read) -> list[str]:
    """The companies in which a cell is read otherwise than alone, or not at all."""
    names = list(column.cells)
    alone = [outcome(reader, column, [place], 1)[:1] for place in range(len(names))]
    found = [f"{names[place]} alone: {told}" for place, told in enumerate(alone) if not told or _is_error(told[0])]
    for order, rows in companies(len(names), [names.index(name) for name in column.beside]):
        together = outcome(reader, column, order, rows)
        wanted = [told for place in order for told in alone[place]]
        if together != wanted:
            what = next((names[place] for place, one, other in zip(order, together, wanted, strict=False) if one != other), "the number")
            found.append(f"{what}, in batches of {rows} rows among {', '.join(names[place] for place in order[:8])}")
    return found


def _is_error(told: object) -> bool:
    return isinstance(told, str) and "Error" in told.partition(":")[0]


# What questions answer

TEXTS = ["", "a", "5", "1001", "1.5", "True", "2024-01-31", "nan", "é"]
WHOLE = [-1, 0, 1, 5, 7, 127, 255, 2**31, 2**53 + 1]
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "present": lambda table: table.count(NAME, epsilon=SURE, missing="skip"),
    "texts": lambda table: table.histogram(NAME, epsilon=SURE, categories=TEXTS, missing="skip", unknown="skip"),
    "whole numbers": lambda table: table.histogram(NAME, epsilon=SURE, categories=WHOLE, missing="skip", unknown="skip"),
    "answers": lambda table: table.histogram(NAME, epsilon=SURE, categories=[False, True], missing="skip", unknown="skip"),
    "numbers": lambda table: table.histogram(NAME, epsilon=SURE, edges=[-10.0, -1.0, 0.0, 1.0, 2.0, 300.0, 2.0**40], missing="skip"),
    "dates": lambda table: table.histogram(
        NAME, epsilon=SURE, edges=["1970-01-01", "2024-01-31", "2024-02-01", "2030-01-01"], missing="skip"
    ),
    "instants": lambda table: table.histogram(
        NAME, epsilon=SURE, edges=["1970-01-01T00:00:00Z", "2024-01-31T00:00:00Z", "2024-01-31T12:00:00Z"], missing="skip"
    ),
    "times": lambda table: table.histogram(NAME, epsilon=SURE, edges=["00:00:00", "12:00:00", "23:59:59"], missing="skip"),
    "durations": lambda table: table.histogram(NAME, epsilon=SURE, edges=["-P1D", "PT0S", "PT1H", "P1D"], missing="skip"),
}
"""Counts of rows, so that the answer about some rows is the sum of those about each of them."""


def accepted(column: Column) -> list[str]:
    """The questions that the schema of the column allows, asked of a frame without rows; names of folders are schema."""
    frame = column.frame([])
    if _is_folders(frame):
        frame = column.frame(list(column.cells.values()))
    table = PrivateTable(frame)
    return [name for name, question in QUESTIONS.items() if _is_planned(table, question)]


def _is_planned(table: PrivateTable, question: Callable[[Any], Any]) -> bool:
    """Whether a question is not refused before a row is read."""
    try:
        question(_Planning(table))
    except JobError:
        return False
    return True


def _is_folders(frame: object) -> bool:
    return isinstance(frame, str) and frame.endswith("-integers")


class _Planning:
    """A table whose methods plan what they are asked."""

    def __init__(self, table: PrivateTable) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *args, **keys: self._table.plan(name, *args, **keys)


def answers(frame: object, names: Sequence[str]) -> dict[str, list[int]]:
    """The answers to some questions about a frame, asked at once; those of folders one by one, as a job says what their names are."""
    if _is_folders(frame) and len(names) > 1:
        return {name: answers(frame, [name])[name] for name in names}
    with PrivateTable(frame).batch(epsilon=SURE * (len(names) + 1)) as batch:
        handles = {name: QUESTIONS[name](batch) for name in names}
    return {name: [*map(int, getattr(each.value, "flat", [each.value]))] for name, each in handles.items()}


def unanswered(column: Column) -> list[str]:
    """What goes wrong with questions about all cells of a column: answers that are not the sum of those about each cell."""
    names, cells = accepted(column), list(column.cells.values())
    if not names:
        return [] if column.is_refused else ["no question takes the type"]
    if column.is_refused:
        return [f"{name} takes the type" for name in names]
    together = answers(column.frame(cells), names)
    found = []
    for company in halves(len(cells)):
        parts = [answers(column.frame([cells[place] for place in part]), names) for part in company]
        for name in names:
            wanted = [sum(each) for each in zip(*(part[name] for part in parts), strict=True)]
            if together[name] != wanted:
                found.append(f"{name}: {together[name]} of all, {wanted} of {' and '.join(map(str, company))}")
    return found


def halves(n: int) -> list[list[list[int]]]:
    """Companies into which n cells part: each cell alone; of many cells so many pairs of companies that any two cells are parted by one."""
    if n <= FEW:
        return [[[place] for place in range(n)]]
    bits = range((n - 1).bit_length())
    return [[[place for place in range(n) if place >> bit & 1 == side] for side in (0, 1)] for bit in bits]


FEW = 6
"""Cells that are asked about one by one."""
