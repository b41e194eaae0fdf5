"""The shape of an output is public: it follows from the schema, the settings and the number of rows.

With a test key the noise of a cell depends on its place alone. Two tables that a job takes for one another (they differ in a column that
it drops, or by a value beyond the same bound) must then come out as the same bytes, whatever the formats; tables that differ in one value
may differ in the report of that row only.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcore import _backend
from dpcore.tables import rows
from dpcore.tables.formats import csv as csv_input
from dpcore.tables.output import writers
from support.jobs import FORMATS
from support.shapes import JOB, KEEP, ROWS, SAME, Shapes, people, with_cell

PAIRS = [(source, target) for source in FORMATS for target in FORMATS]
TEXTS = st.one_of(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30), st.integers(0, 3000).map("y".__mul__))
DROPPED = {"diary": TEXTS, "salary": st.integers(-(2**62), 2**62)}
LOUD = {
    "visits": st.integers(-(2**62), 2**62),
    "income": st.floats(allow_nan=False, width=32),
    "smoker": st.booleans(),
    "region": TEXTS,
    "town": st.integers(0, 10**12),
    "taste": TEXTS,
    "shop": st.integers(0, 10**12),
}


@pytest.fixture(params=PAIRS, ids="-".join)
def shapes(request, tmp_path, monkeypatch):
    return Shapes(tmp_path, *request.param, monkeypatch)


@st.composite
def neighbours(draw, cells):
    """A table, and one in which a cell has another value."""
    row, name = draw(st.integers(0, ROWS - 1)), draw(st.sampled_from(sorted(cells)))
    one, two = draw(cells[name])
    return row, name, with_cell(people(), row, name, one), with_cell(people(), row, name, two)


def silent(tables, shapes):
    _, name, one, two = tables
    assert shapes.run(one) == shapes.run(two), name


def loud(tables, shapes):
    row, _, one, two = tables
    found = []
    for table in (one, two):
        shapes.run(table)
        rows = shapes.rows()
        found.append((shapes.shape(), rows.slice(0, row), rows.slice(row + 1), rows.select(KEEP)))
    assert found[0] == found[1]


def pairs(cells):
    return st.tuples(cells, cells)


ALIKE = {name: st.sampled_from(groups).map(st.sampled_from).flatmap(pairs) for name, groups in SAME.items()}
ALIKE |= {name: pairs(st.one_of(st.none(), cells)) for name, cells in DROPPED.items()}
DIFFERENT = {name: pairs(st.one_of(st.none(), cells)) for name, cells in LOUD.items()}
MANY = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


@pytest.mark.some(3)
@settings(max_examples=3, **MANY)
@given(tables=neighbours(ALIKE))
def test_tables_that_a_job_takes_for_one_another_come_out_as_the_same_bytes(shapes, tables):
    silent(tables, shapes)


@pytest.mark.some(2)
@settings(max_examples=2, **MANY)
@given(tables=neighbours(DIFFERENT))
def test_one_value_moves_the_report_of_its_row_and_nothing_else(shapes, tables):
    loud(tables, shapes)


@pytest.mark.long
@settings(max_examples=60, **MANY)
@given(tables=neighbours(ALIKE))
def test_many_tables_that_a_job_takes_for_one_another_come_out_as_the_same_bytes(shapes, tables):
    silent(tables, shapes)


@pytest.mark.long
@settings(max_examples=60, **MANY)
@given(tables=neighbours(DIFFERENT))
def test_many_values_move_the_report_of_their_row_and_nothing_else(shapes, tables):
    loud(tables, shapes)


@pytest.mark.some(3)
def test_a_longer_cell_in_a_column_that_no_job_names_moves_no_part_of_the_output(shapes):
    silent((0, "diary", with_cell(people(), 0, "diary", "5"), with_cell(people(), 0, "diary", "5" + "0" * 1500)), shapes)
    silent((0, "salary", with_cell(people(), 0, "salary", 5), with_cell(people(), 0, "salary", 500_000_000)), shapes)


@pytest.mark.long
def test_the_output_does_not_depend_on_the_cut_of_the_input(shapes):
    outputs = [shapes.run(people(), piece_rows, input_rows) for piece_rows, input_rows in ((None, ROWS), (3, 70), (33, 7), (ROWS, 89))]
    assert all(output == outputs[0] for output in outputs[1:])


@pytest.mark.parametrize("target", FORMATS)
def test_the_output_does_not_depend_on_the_format_of_the_input(tmp_path, monkeypatch, target):
    outputs = [Shapes(tmp_path / source, source, target, monkeypatch).run(people()) for source in make_folders(tmp_path)]
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]


def make_folders(folder):
    for name in FORMATS:
        (folder / name).mkdir()
    return FORMATS


class AsItComes:
    """Passes every batch on as it arrives, as the writers once did."""

    def __init__(self, *_):
        pass

    def add(self, batch):
        return [batch] if len(batch) else []

    def rest(self):
        return []


def by_blocks(text, most):
    """Hand over the records that a block of text completes, as readers of CSV commonly do."""
    text._read()
    found = _backend.split_records(text._buffer, text._columns, text._wanted, most, final=text._ended)
    text._buffer = text._buffer[found.behind :]
    return found


def as_they_come(monkeypatch):
    """Neither the reader joins pieces nor the writer cuts rows anew."""
    monkeypatch.setattr(writers, "Recut", AsItComes, raising=False)
    monkeypatch.setattr(rows, "joined", lambda pieces, _most: (piece for piece, _ in pieces))


def test_a_writer_that_follows_the_rows_of_the_input_is_caught(tmp_path, monkeypatch):
    shapes = Shapes(tmp_path, "csv", "arrow", monkeypatch)
    as_they_come(monkeypatch)
    monkeypatch.setattr(csv_input._Text, "_next", by_blocks)
    found = []
    for cell in ("", "z" * 1500):
        shapes.run(with_cell(people(), 0, "diary", cell))
        found.append(shapes.shape())
    assert found[0] != found[1]


@pytest.mark.parametrize("target", ["parquet", "arrow"])
def test_a_writer_that_follows_the_parts_of_the_input_is_caught(tmp_path, monkeypatch, target):
    shapes = Shapes(tmp_path, "parquet", target, monkeypatch)
    as_they_come(monkeypatch)
    assert shapes.run(people(), input_rows=70) != shapes.run(people(), input_rows=40)


def test_every_column_of_the_job_has_cells_that_it_takes_for_one_another():
    assert set(SAME) == set(LOUD) == set(JOB)
