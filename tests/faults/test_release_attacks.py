"""Attacks on releases: by who writes the job, who wants an answer that is not paid for, and by who owns a row of the table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.encoders import Clamped
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.sql import derivation
from dpcore.tables.sql.derivation import Deriving
from support.jobs import toml, write_table
from support.releases import Counter

VIEWS = [pa.string_view(), pa.binary_view()] if hasattr(pa, "string_view") else []


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def answers(place, queries, more="", **settings):
    """What a job answers, nearly without noise."""
    place.write_release(queries, epsilon=1e5, privacy={"max_epsilon": 1e9}, **settings)
    place.job.write_text(more + place.job.read_text())
    found = run(make_release_plan(load_release_job(place.job), overwrite=True))
    return {query["name"]: query["value"] for query in found["queries"]}


# Who writes the job names files


SECRET = "Ann Example"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["*", "i?", "i[n]", ""])
def test_the_input_is_no_public_table_under_any_name(place, name, ending):
    """What messages say about public tables is not paid for: they quote groups that come twice, and count keys that do."""
    place.folder.joinpath(f"all.{ending}").mkdir()
    place.source = place.folder / f"all.{ending}" / f"in.{ending}"
    write_table(pa.table({"person": [SECRET, SECRET], "x": [1, 2]}), place.source)
    path = str(place.source.with_name(f"{name}.{ending}") if name else place.source.parent)
    for query, more in (
        ({"kind": "count", "group_by": ["person"], "groups": path}, ""),
        ({"kind": "count"}, f'[[lookup]]\npath = {toml(path)}\nkey = "person"\ncolumns = ["y"]\n'),
    ):
        place.write_release({"it": query})
        place.job.write_text(place.job.read_text() + more)
        done = place.release()
        assert done.code == 2
        assert "by its own name" in done.err
        assert SECRET not in done.err
        assert "repeated" not in done.err
        assert not place.target.exists()


# No number of rows decides whether a job ends


LONG = [("pad", "lpad(CAST(x AS VARCHAR), 256, 'z')"), ("long", f"concat({', '.join(['pad'] * 16)})")]


def derived(sections):
    return "".join(f"[[derive]]\nname = {toml(name)}\nsql = {toml(sql)}\n" for name, sql in sections)


@pytest.mark.parametrize("unit", [{}, {"unit": "person", "max_rows_per_unit": 1, "max_groups_per_unit": 1}])
def test_texts_that_rows_make_have_a_bounded_size_together(place, unit, monkeypatch):
    """Arrow refuses a column of 2^31 bytes: a job that makes long texts of some rows would end for so many of them and no fewer."""
    most = 1 << 20
    monkeypatch.setattr(derivation, "MADE_BYTES", most)
    seen = []

    def of(self, rows, whole=Deriving.of):
        found = whole(self, rows)
        seen.append(sum(column.nbytes for name, column in zip(found.rows.batch.schema.names, found.rows.batch.columns, strict=True)
                        if name == "long"))  # fmt: skip
        return found

    monkeypatch.setattr(Deriving, "of", of)
    write_table(pa.table({"x": np.arange(1000), "person": np.arange(1000)}), place.source)
    query = {"kind": "count", "group_by": "long", "groups": [f"{'z' * 255}7" * 16, "b"]}
    place.write_release({"it": query}, epsilon=1e5, privacy={"max_epsilon": 1e9, **unit})
    place.job.write_text(place.job.read_text() + derived(LONG))
    found = run(make_release_plan(load_release_job(place.job), overwrite=True))
    assert found["queries"][0]["value"] == [1, 0]
    assert len(seen) > 3
    assert max(seen) <= most


@pytest.mark.long
@pytest.mark.parametrize("rows", [30_000, 40_000])
def test_texts_of_two_gigabytes_end_no_job(place, rows):
    sections = [("pad", "lpad(CAST(x AS VARCHAR), 256, '\U0001f600')"), ("long", f"concat({', '.join(['pad'] * 60)})")]
    write_table(pa.table({"x": np.arange(rows)}), place.source)
    place.write_release({"it": {"kind": "histogram", "column": "long", "categories": ["a", "b"], "missing": "a", "unknown": "b"}})
    place.job.write_text(place.job.read_text() + derived(sections))
    run(make_release_plan(load_release_job(place.job), overwrite=True), threads=8)  # The memory of a database was too little for them.


# No cell decides on another row, or ends a job


@pytest.mark.parametrize("missing", [0, 0.5])
def test_a_null_does_not_change_how_integers_beside_it_are_read(missing):
    """Integers that are filled with 0.5 are floats: then all of them are, and not only those in a piece with a null."""
    cells = Clamped((0, 2**62), missing)
    values = [2**30, 2**53 + 1, 2**62 - 1]
    alone, beside = cells.read(pa.array([0, *values])), cells.read(pa.array([None, *values]))
    assert alone.dtype == beside.dtype
    assert alone[1:].tolist() == beside[1:].tolist()


@pytest.mark.some(2)
@pytest.mark.skipif(not VIEWS, reason="pyarrow has no views")
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("where", ["x < 3", "x < 9", "v = 'a'"])
def test_views_that_are_no_text_end_no_job(place, where, labels):
    """Bytes that are not UTF-8 in a view ended a job as damage of its file; and a condition that left out any row ended it, too."""
    place.source = place.folder / "in.arrow"
    texts = pa.array([b"a", b"\xff\xfe", b"b" * 40, b"", None], pa.binary_view())
    view = texts.view(pa.string_view())
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3], pa.int8()), view) if labels else view
    write_table(pa.table({"v": column, "bytes": texts, "x": [0, 1, 2, 3, 4]}), place.source)
    queries = {
        "there": {"kind": "count", "column": "v", "missing": "skip"},
        "bytes": {"kind": "count", "column": "bytes", "missing": "skip"},
        "a": {"kind": "count", "column": "v", "categories": ["a", "b"]},
        "different": {"kind": "count_distinct", "column": "v"},
        "groups": {"kind": "count", "group_by": "v", "groups": ["a", "z"]},
    }
    found = answers(place, queries, f"where = {toml(where)}\n")
    rows = {"x < 3": 3, "x < 9": 4, "v = 'a'": 1}[where]
    assert found == {"there": rows, "bytes": 4 if rows == 4 else rows, "a": 1, "different": rows, "groups": [1, 0]}


@pytest.mark.skipif(not VIEWS, reason="pyarrow has no views")
def test_a_view_can_be_the_unit_in_a_dictionary(place):
    place.source = place.folder / "in.arrow"
    names = pa.array([b"a", b"\xff", b"c"], pa.binary_view()).view(pa.string_view())
    write_table(pa.table({"person": pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 2, 2, 2], pa.int8()), names)}), place.source)
    place.write_release({"it": {"kind": "count"}}, epsilon=1e5, privacy={"max_epsilon": 1e9, "unit": "person", "max_rows_per_unit": 1})
    assert run(make_release_plan(load_release_job(place.job)))["queries"][0]["value"] == 3


def test_a_dictionary_without_a_value_is_null_in_an_expression(place):
    place.source = place.folder / "in.arrow"
    write_table(pa.table({"v": pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.nulls(1)), "x": [1, 2]}), place.source)
    assert answers(place, {"it": {"kind": "count"}}, 'where = "v IS NULL"\n') == {"it": 2}
