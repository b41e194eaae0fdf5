"""Thousands of small files: what is done once for many of them, and what is still done for each."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore import PrivateTable
from dpcore.batch import JobError, StorageError, make_release_plan, parse_release_job
from dpcore.query.run import run
from dpcore.tables import held, inputs, sources
from dpcore.tables.discovery import discover
from dpcore.tables.held import HeldInputs
from dpcore.tables.pieces import Cut
from dpcore.tables.rows import read_rows
from support.frames import keyed

TYPES = {"person": pa.int64(), "cost": pa.float64(), "place": pa.string()}
UNIT = {"person": pa.int64()}
FILES = 12


def rows(n, seed):
    draws = np.random.default_rng(seed)
    places = np.array(["north", "south", "a longer name"])
    return pa.table({"person": draws.integers(0, 40, n), "cost": draws.random(n) * 100, "place": pa.array(places[draws.integers(0, 3, n)])})


@pytest.fixture
def folder(tmp_path):
    """Files of a few rows, one of none, one of several row groups and one larger than the others."""
    place = tmp_path / "in"
    place.mkdir()
    for number in range(FILES):
        size = 0 if number == 5 else 3000 if number == 7 else 20 + number
        pq.write_table(rows(size, number), place / f"{number:02}.parquet", row_group_size=500 if number == 7 else None)
    return place


def read(source, types, most=1 << 16):
    """All rows, text as text: a reader may leave it in dictionaries."""
    schema = pa.schema(list(types.items()))
    pieces = read_rows(source, types, Cut(most, use_threads=False))
    return pa.concat_tables([schema.empty_table(), *(pa.Table.from_batches([each.batch]).cast(schema) for each in pieces)])


def holding(folder):
    """The files, as several passes read them."""
    return HeldInputs.of(discover(str(folder)), TYPES)


@pytest.fixture
def opened(monkeypatch):
    """The names of the files that were opened, in order."""
    found = []

    def noted(path, *args, opened=sources.opened):
        found.append(path.name)
        return opened(path, *args)

    monkeypatch.setattr(sources, "opened", noted)
    return found


@pytest.mark.parametrize("most", [7, 1 << 16])
def test_a_second_pass_has_the_rows_of_the_first_and_opens_nothing(folder, opened, most):
    source = holding(folder)
    assert read(source, UNIT, most) == read(discover(str(folder)), UNIT)
    first = len(opened)
    for types in (TYPES, {"place": pa.string(), "person": pa.int64()}):
        assert read(source, types, most) == pq.read_table(folder).select(list(types))
        assert len(opened) == first


def test_a_pass_over_other_columns_reads_them(folder):
    source = HeldInputs.of(discover(str(folder)), UNIT)
    assert read(source, UNIT) == pq.read_table(folder).select(["person"])
    assert read(source, TYPES) == pq.read_table(folder)


def written_again(path):
    pq.write_table(rows(20, 99), path)


def replaced(path):
    state = path.stat()
    other = path.with_suffix(".new")
    shutil.copy(path, other)
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(path)


def touched(path):
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def cut_short(path):
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("change", [written_again, replaced, touched, cut_short])
@pytest.mark.parametrize("passes", [0, 1], ids=["before it is read", "once it is held"])
def test_a_file_that_changes_ends_the_job(folder, change, passes):
    source = holding(folder)
    for path in source.paths:
        source.inspect(path)
    for _ in range(passes):
        read(source, UNIT)
    change(folder / "03.parquet")
    with pytest.raises(StorageError, match=r"03\.parquet: the input changed while it was read"):
        read(source, TYPES)


def test_a_file_that_is_gone_ends_the_job(folder):
    source = holding(folder)
    read(source, UNIT)
    (folder / "03.parquet").unlink()
    with pytest.raises(StorageError, match=r"03\.parquet: cannot be read"):
        read(source, TYPES)


def test_a_file_that_was_not_read_to_its_end_is_not_held(folder):
    source = holding(folder)
    for _ in zip(range(1), source.pieces(source.paths[7], UNIT, Cut(100, use_threads=False)), strict=False):
        pass
    assert read(source, TYPES) == pq.read_table(folder)


@pytest.mark.parametrize("room", [0, 5000, 40_000])
def test_what_has_no_room_is_read_again(folder, opened, room):
    source = holding(folder)
    source._rows.left = room
    assert read(source, UNIT) == pq.read_table(folder).select(["person"])
    kept = sum(piece.batch.get_total_buffer_size() for pieces in source._rows.pieces.values() for piece in pieces)
    assert kept == room - source._rows.left <= room
    first = len(opened)
    assert read(source, TYPES) == pq.read_table(folder)
    assert len(opened) == first + FILES - len(source._rows.pieces)


def test_a_larger_file_is_read_again(folder, monkeypatch):
    monkeypatch.setattr(held, "FILE_BYTES", 10_000)
    source = holding(folder)
    read(source, UNIT)
    assert {path.name for path in source._rows.pieces} == {f"{each:02}.parquet" for each in range(FILES)} - {"07.parquet"}
    assert read(source, TYPES) == pq.read_table(folder)


def job(folder, queries, **privacy):
    return {
        "version": 1,
        "input": {"path": str(folder)},
        "output": {"path": str(folder.parent / "answers.json")},
        "privacy": {"max_epsilon": 100.0, **privacy},
        "query": [{"epsilon": 1.0, **query} for query in queries],
    }


MEAN = {"name": "cost", "kind": "mean", "column": "cost", "lower": 0.0, "upper": 100.0, "missing": 0.0}
QUERIES = [MEAN, {"name": "rows", "kind": "count"}, {"name": "places", "kind": "count", "group_by": "place", "groups": ["north", "south"]}]


@pytest.mark.parametrize("unit", [{}, {"unit": "person", "max_rows_per_unit": 2}])
def test_answers_do_not_depend_on_what_is_held_or_known(folder, monkeypatch, unit):
    keyed_job = {**job(folder, QUERIES, **unit), "testing": {"key_hex": "07" * 32}}
    first = run(make_release_plan(parse_release_job(keyed_job)))
    monkeypatch.setattr(held, "FILE_BYTES", -1)
    monkeypatch.setattr(inputs, "KNOWN_BYTES", 0)
    second = run(make_release_plan(parse_release_job(keyed_job), overwrite=True))
    assert first["queries"] == second["queries"]


def test_each_file_is_opened_twice(folder, opened):
    """Once for the plan, and once for all passes."""
    run(make_release_plan(parse_release_job(job(folder, QUERIES, unit="person", max_rows_per_unit=2))))
    assert sorted(opened) == sorted([f"{number:02}.parquet" for number in range(FILES)] * 2)


# Files that are not like the one before


def numbers_as_text(table):
    return table.set_column(1, "cost", table.column("cost").cast(pa.string()))


def without_a_column(table):
    return table.drop_columns(["cost"])


def of_another_unit(table):
    return table.set_column(0, "person", table.column("person").cast(pa.string()))


def with_a_name_twice(table):
    return table.append_column("cost", table.column("cost"))


@pytest.mark.parametrize("number", [1, FILES - 1])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (numbers_as_text, "column 'cost' has type string, but 'cost' (mean) takes"),
        (without_a_column, "there is no column 'cost'"),
        (of_another_unit, "privacy.unit = 'person' has type string, but the files before have it as int64"),
        (with_a_name_twice, "2 columns are named 'cost'"),
    ],
)
def test_every_file_is_checked(folder, number, change, said):
    path = folder / f"{number:02}.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(JobError) as raised:
        make_release_plan(parse_release_job(job(folder, [MEAN], unit="person", max_rows_per_unit=2)))
    assert str(raised.value).startswith(f"{path}: {said}")


def test_rows_of_all_files_are_counted(folder):
    plan = make_release_plan(parse_release_job(job(folder, [MEAN])))
    assert plan.rows == pq.read_table(folder).num_rows


# Links and logs


@pytest.mark.skipif(os.name != "posix", reason="links are the subject")
def test_a_link_to_a_file_of_a_table_with_a_log_is_refused(folder, tmp_path):
    lake = tmp_path / "lake" / "inner"
    lake.mkdir(parents=True)
    (tmp_path / "lake" / "_delta_log").mkdir()
    pq.write_table(rows(5, 1), lake / "one.parquet")
    (folder / "link.parquet").symlink_to(lake / "one.parquet")
    with pytest.raises(JobError, match=r"lake is a table of Delta Lake"):
        discover(str(folder))
    (folder / "link.parquet").unlink()
    (tmp_path / "way").symlink_to(lake, target_is_directory=True)
    with pytest.raises(JobError, match=r"lake is a table of Delta Lake"):
        discover(str(tmp_path / "way" / "one.parquet"))


# Several questions


def ask(batch):
    return batch.mean("cost", lower=0, upper=100, missing=0, epsilon=1.0)


def test_a_batch_finds_its_files_when_it_begins_and_when_it_ends(folder, opened):
    with keyed(folder).batch(epsilon=3) as batch:
        results = [ask(batch) for _ in range(3)]
        assert len(opened) == FILES
    assert len(opened) == 3 * FILES
    assert len({result.value for result in results}) == 3


def test_a_batch_sees_that_a_file_has_changed(folder):
    path = folder / "03.parquet"
    with PrivateTable(folder).batch(epsilon=3) as batch:
        ask(batch)
        whole = pq.read_table(path)
        pq.write_table(numbers_as_text(whole), path)
        with pytest.raises(JobError, match=r"03\.parquet.*column 'cost' has type string"):
            ask(batch)
        pq.write_table(whole, path)
        pq.write_table(rows(4, 50), folder / "more.parquet")
        result = ask(batch)
    assert result.plan.document["input"]["files"] == FILES + 1


def test_a_batch_does_not_read_its_input_as_categories(folder):
    """Messages about a file of categories quote it."""
    source = folder / "00.parquet"
    with PrivateTable(source).batch(epsilon=3) as batch:
        ask(batch)
        with pytest.raises(JobError, match="the same file as"):
            batch.mode("place", candidates_file=str(source), epsilon=1.0)
