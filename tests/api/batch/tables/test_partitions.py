"""Folders named `column=value`: each is a column of the rows below it, and no message shows its values."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from dpcore import PrivateTable
from dpcore.batch import JobError
from dpcore.tables.discovery import discover
from dpcore.tables.inputs import narrowest
from dpcore.tables.pieces import Cut, FileInfo
from dpcore.tables.rows import read_rows
from support.jobs import COLUMNS, Workplace, read_table, write_table
from support.releases import Counter

TABLE = pa.table({"visits": pa.array([1, 2, 3, 4, 5]), "note": ["a", "b", "c", "d", None]})
VISITS = {"visits": COLUMNS["visits"]}


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


@pytest.fixture
def counter(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def folders(root, *names, ending="parquet", table=TABLE):
    for name in names:
        write_table(table, root / name / f"x.{ending}")
    return root


def column(root, name, declared=None):
    inputs = discover(str(root), declared=declared)
    kind = inputs.inspect(inputs.paths[0]).types[name]
    return kind, [value for rows in read_rows(inputs, {name: kind}, Cut(3)) for value in rows.batch.column(name).to_pylist()]


def each(*values):
    return [value for value in values for _ in range(5)]


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (("1", "-20", "3000"), pa.int64(), (-20, 1, 3000)),
        (("01", "02"), pa.string(), ("01", "02")),
        (("2024-02-29", "2025-01-01"), pa.date32(), (dt.date(2024, 2, 29), dt.date(2025, 1, 1))),
        (("2023-02-29",), pa.string(), ("2023-02-29",)),
        (("1", "__HIVE_DEFAULT_PARTITION__"), pa.int64(), (1, None)),
        (("__HIVE_DEFAULT_PARTITION__",), pa.null(), (None,)),
        (("a%2Fb", "%C3%A4 =x", ""), pa.string(), ("", "ä =x", "a/b")),
        ((str(2**63 - 1),), pa.int64(), (2**63 - 1,)),
        ((str(2**63),), pa.string(), (str(2**63),)),
        (("-0",), pa.string(), ("-0",)),
    ],
)
def test_a_type_is_that_of_all_values_as_they_are_written(tmp_path, texts, kind, values):
    found, cells = column(folders(tmp_path, *(f"k={text}" for text in texts)), "k")
    assert found == kind
    assert sorted(map(str, cells)) == sorted(map(str, each(*values)))


def test_what_a_job_declares_goes_first(tmp_path):
    folders(tmp_path / "a", "k=1", "k=12")
    folders(tmp_path / "b", "k=01", "k=12")
    assert column(tmp_path / "a", "k", {"k": "text"})[0] == pa.string()
    assert column(tmp_path / "b", "k", {"k": "integer"}) == (pa.int64(), each(1, 12))


@pytest.mark.parametrize("other", ["x", "1.5", "", str(2**63), "-", "1 "])
def test_no_folder_decides_how_others_of_a_declared_column_are_read(tmp_path, other):
    """Once it made all of them text, and the job was refused."""
    folders(tmp_path, "k=01", "k=12", f"k={other}")
    kind, cells = column(tmp_path, "k", {"k": "integer"})
    assert (kind, sorted(map(str, cells))) == (pa.int64(), sorted(map(str, each(1, 12, None))))
    counts = PrivateTable(str(tmp_path)).histogram("k", categories=[1, 12, 99], missing=99, unknown=99, epsilon=1e6).value
    assert counts.tolist() == [5, 5, 5]


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_groups_filters_units_and_kept_columns_may_be_folders(place, counter, ending):
    root = folders(counter.folder / "t", "region=north/year=2023", "region=north/year=2024", "region=s%20t/year=2024", ending=ending)
    (root / "_SUCCESS").touch()
    (root / "region=north/.part.crc").touch()
    write_table(TABLE, root / "_temporary" / f"x.{ending}")
    counter.source = place.source = root
    north = {"kind": "count", "group_by": "region", "groups": ["north", "s t"], "epsilon": 1000.0}
    counter.write_release(
        {"by region": north, "late": {"kind": "count", "where": "year >= 2024", "epsilon": 1000.0} if ending != "csv" else north}
    )
    done = counter.release()
    assert done.code == 0, done.said
    queries = json.loads(counter.target.read_text(encoding="utf-8"))["queries"]
    assert queries[0]["value"] == [10, 5]
    assert ending == "csv" or queries[1]["value"] == 10
    place.target = place.folder / f"kept.{ending}"
    place.write_job(VISITS, keep=["region", "year"])
    assert place.privatize().code == 0
    kept = read_table(place.target)
    assert kept.column("region").to_pylist() == each("north", "north", "s t")
    assert [str(year) for year in kept.column("year").to_pylist()] == each("2023", "2024", "2024")


def test_a_unit_may_be_a_folder(counter):
    counter.source = folders(counter.folder / "t", *(f"person={name}" for name in "abcd"))
    counter.write_release(
        {"rows": {"kind": "count", "epsilon": 1000.0}}, privacy={"max_epsilon": 1e4, "unit": "person", "max_rows_per_unit": 3}
    )
    done = counter.release()
    assert done.code == 0, done.said
    assert json.loads(counter.target.read_text(encoding="utf-8"))["queries"][0]["value"] == 12


def test_a_local_job_must_name_every_column_of_folders(place):
    place.source = folders(place.folder / "t", "region=north/year=2023", "region=south/year=2023")
    for keep, named in (((), "'region'"), (("region",), "'year'")):
        place.write_job(VISITS, keep=keep)
        done = place.privatize()
        assert (done.code, place.left_behind()) == (2, [])
        assert f"its folders are a column, {named}, that the job does not name" in done.err
        assert "north" not in done.err
    noised = {"mechanism": "kary", "epsilon": 1.0, "categories": ["north", "south"], "missing": "north", "unknown": "south"}
    place.write_job(VISITS | {"region": noised}, keep=["year"])
    assert place.privatize().code == 0
    assert set(read_table(place.target).column("region").to_pylist()) <= {"north", "south"}


def test_one_folder_by_its_name_has_no_such_column(place):
    place.source = folders(place.folder / "t", "region=north", "region=south") / "region=north"
    place.write_job(VISITS)
    assert place.privatize().code == 0
    assert read_table(place.target).column_names == ["visits"]
    place.source = place.folder / "t" / "region=*" / "*.parquet"
    place.write_job(VISITS, keep=["region"])
    assert place.privatize("--overwrite").code == 0
    assert read_table(place.target).column("region").to_pylist() == each("north", "south")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a=secret", "."), "(a; none)"),
        (("a=secret/b=1", "b=1/a=secret"), "(a/b; b/a)"),
        (("a=secret", "b=secret"), "(a; b)"),
        (("a=secret/a=1",), "the column 'a' more than once"),
        (("visits=secret",), "the column 'visits' is in the file and in the names of its folders"),
        (("a=secret%FF",), "is not UTF-8"),
    ],
)
def test_folders_that_disagree_are_refused_without_a_value(place, names, words):
    place.source = folders(place.folder / "t", *names)
    place.write_job(VISITS, keep=["a"])
    done = place.privatize()
    assert (done.code, place.left_behind()) == (2, [])
    assert words in done.err
    assert "secret" not in done.said


def test_messages_about_files_show_no_value(place):
    place.source = folders(place.folder / "t", "a=secret", "a=hidden")
    (place.source / "a=secret" / "x.parquet").write_bytes(b"no table")
    place.write_job(VISITS, keep=["a"])
    done = place.privatize()
    assert done.code == 4
    assert f"{place.source}/a=…/x.parquet (file 2 of 2): cannot be read as Parquet" in done.err
    assert "secret" not in done.said
    (place.source / "a=secret" / "x.parquet").unlink()
    write_table(pa.table({"visits": ["text"]}), place.source / "a=secret" / "x.parquet")
    done = place.privatize()
    assert done.code == 2
    assert "secret" not in done.said


def test_a_file_without_columns_of_its_own_to_read_is_counted(tmp_path):
    folders(tmp_path, "a=1", "a=2", ending="csv")
    inputs = discover(str(tmp_path))
    assert [rows.batch.column("a").to_pylist() for rows in read_rows(inputs, {"a": pa.binary()}, Cut(1 << 10))] == [each(b"1", b"2")]
    with pytest.raises(JobError, match="no columns"):
        narrowest(tmp_path, FileInfo((), pa.schema([]), 0))
