"""A cell is read alike alone and in any company, whatever it is, by every source; and what is read is all that there is."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("polars")

import pyarrow as pa

import dpcore.frames
import support.cells
from support.cells.objects import CALLED
from support.locality import COLUMNS, LISTED, SOURCES, TYPES, Column, Reading, differences, reading, triples, unanswered

for _module in pkgutil.iter_modules(support.cells.__path__):
    importlib.import_module(f"support.cells.{_module.name}")

ASKED = {
    "arrow table": ("string", "string_view", "dictionary<string, int8>", "double", "decimal128(20, 3)", "timestamp[us]", "extension json"),
    "csv": ("text",),
    "dataset of files": ("int8 and int64", "string in parquet", "decimal128(20, 3) in arrow"),
    "several files": ("int32 and int64", "dictionary<string, int8>"),
    "duckdb": ("VARCHAR", "ENUM", "UUID", "HUGEINT", "TIMESTAMP"),
    "pandas": ("object", "string of python", "category of object", "Float64", "Sparse[object]", "period[M]"),
    "arrow chunk a cell": ("dictionary<string, int32>", "dictionary of many"),
    "pandas level": ("object", "int64", "datetime64[ns]", "arrow dictionary in chunks"),
    "pandas chunk a cell": ("arrow string", "arrow dictionary<string, int32>", "arrow dictionary<null, int8>", "arrow dictionary of many"),
    "polars": ("String", "Categorical", "Object", "Float64"),
    "polars lazy": ("String", "Decimal"),
}
"""Columns of which questions are asked in each run; all are asked about in a long one."""
LIBRARIES = sorted({column.source for column in COLUMNS.values()})
LONG = {
    "pandas index chunk a cell",
    "arrow file in parts",
    "parquet",
    "parquet in groups of two rows",
    "parquet in small pages",
    "arrow file in batches of two rows",
}
"""Sources that take long; each run reads Parquet as several files, as a dataset and by other ways."""


def columns(source: str) -> list[Column]:
    return [column for column in COLUMNS.values() if column.source == source]


def found_in(source: str, check: Any) -> list[str]:
    return [f"{column.name}: {told}" for column in columns(source) for told in check(column)[:3]]


@pytest.mark.some(2)
@pytest.mark.parametrize("source", [pytest.param(each, marks=pytest.mark.long) if each in LONG else each for each in LIBRARIES])
def test_a_cell_is_read_alike_in_any_company(source):
    CALLED.clear()
    assert not found_in(source, lambda column: [] if column.is_refused else differences(column))
    assert not CALLED, "a method of a cell was called"


def check_answers(names: Sequence[str]) -> None:
    CALLED.clear()
    assert not [f"{name}: {told}" for name in names for told in unanswered(COLUMNS[name])[:3]]
    assert not CALLED, "a method of a cell was called"


@pytest.mark.long
@pytest.mark.parametrize("source", ASKED)
def test_the_answer_about_all_is_the_sum_of_those_about_parts(source):
    check_answers([f"{source}: {kind}" for kind in ASKED[source]])


@pytest.mark.long
@pytest.mark.parametrize("source", LIBRARIES)
def test_the_answer_about_all_is_the_sum_of_those_about_parts_for_every_type(source):
    check_answers([column.name for column in columns(source)])


# Everything is in a list


def test_every_class_of_source_is_in_the_list():
    found = set()
    for module in pkgutil.iter_modules(dpcore.frames.__path__, "dpcore.frames."):
        for name, kind in vars(importlib.import_module(module.name)).items():
            is_source = isinstance(kind, type) and all(hasattr(kind, method) for method in ("batches", "info", "evaluated"))
            if is_source and not getattr(kind, "_is_protocol", False):
                found.add(name)
    assert found == set(SOURCES)
    for name, source in SOURCES.items():
        assert any(column.source.startswith(source) for column in COLUMNS.values()), name


@pytest.mark.parametrize("library", TYPES)
def test_every_type_of_a_library_is_in_the_list(library):
    assert TYPES[library]() - set(LISTED[library]) == set()


def test_how_much_is_read(record_property):
    """So many triples of a source, a type and a cell; fewer would mean that some fell out of the lists."""
    record_property("triples", triples())
    print(f"{triples()} triples of a source, a type and a cell in {len(COLUMNS)} columns")
    assert triples() >= 9000
    assert len(COLUMNS) >= 800


# Readers that the harness rejects


def _twin(read: Any) -> Any:
    """A reader that is given the objects of each piece of a column of objects."""

    def reader(column: Column, order: Sequence[int], rows: int) -> list[Reading]:
        cells = [list(column.cells.values())[place] for place in order]
        pieces = [cells[start : start + rows] for start in range(0, len(cells), rows)]
        return [reading(each.slice(place, 1)) for piece in pieces for each in [read(piece)] for place in range(len(each))]

    return reader


ZOO: dict[str, Any] = {
    "text": "a",
    "null": None,
    "number": 5,
    "bytes": b"a",
    "scalar": pa.scalar("1001", pa.large_string()),
    "odd": object(),
}
"""Objects that Arrow can be asked about: others end the process."""
OBJECTS = Column("broken twin", "object", lambda cells: cells, ZOO, beside=tuple(ZOO))


def _by_cell(cell: Any) -> str | None:
    return cell if isinstance(cell, str) else cell.decode() if isinstance(cell, bytes) else str(cell) if type(cell) is int else None


def _each(piece: list[Any]) -> pa.Array:
    return pa.array(list(map(_by_cell, piece)), pa.large_string())


def _chosen_by_the_piece(piece: list[Any]) -> pa.Array:
    """As dpcore did once: Arrow's reader if it takes all cells of a piece, another one if not."""
    try:
        return pa.array(piece, pa.large_string(), from_pandas=True)
    except pa.ArrowException:
        return _each(piece)


def _cast_at_once(piece: list[Any]) -> pa.Array:
    """Missing, all of them, if one is no number."""
    texts = _each(piece)
    try:
        return texts.cast(pa.float64()).cast(pa.large_string())
    except pa.ArrowException:
        return pa.nulls(len(piece), pa.large_string())


def _ended_by_a_cell(piece: list[Any]) -> pa.Array:
    return pa.array(piece, pa.large_string(), from_pandas=True)


def _by_the_one_before(piece: list[Any]) -> pa.Array:
    """A null is filled with the cell before it."""
    found = _each(piece).to_pylist()
    return pa.array([found[place - 1] if cell is None and place else cell for place, cell in enumerate(found)], pa.large_string())


def _joins_chunks(column: Column, order: Sequence[int], rows: int) -> list[Reading]:
    """As dpcore did once: the chunks of each piece become one, and so do their dictionaries."""
    cells = list(column.cells.values())
    chunked = pa.table(column.frame([cells[place] for place in order])).column(0)
    pieces = [chunked.slice(start, rows).combine_chunks() for start in range(0, len(chunked), rows)]
    return [reading(piece.slice(place, 1)) for piece in pieces for place in range(len(piece))]


def test_a_reader_of_each_cell_passes():
    assert differences(OBJECTS, _twin(_each)) == []


@pytest.mark.parametrize("twin", [_chosen_by_the_piece, _cast_at_once, _ended_by_a_cell, _by_the_one_before])
def test_other_readers_are_rejected(twin):
    assert differences(OBJECTS, _twin(twin))


@pytest.mark.parametrize("kind", ["dictionary<string, int32>", "dictionary<null, int8>", "dictionary of many"])
def test_a_reader_that_joins_chunks_is_rejected(kind):
    """A null among the labels, or more of them than their numbers can tell apart, ended the question for all rows."""
    assert differences(COLUMNS[f"pandas chunk a cell: arrow {kind}"], _joins_chunks)
    assert not differences(COLUMNS[f"pandas chunk a cell: arrow {kind}"])
