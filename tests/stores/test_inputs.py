"""Inputs in an object store: the answer is that of the same files on this machine."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from dpcore.batch import estimate
from dpcore.pages.numbers import json_text
from support.jobs import COLUMNS, FORMATS, people, write_table
from support.stores import Store

JOB = {"visits": COLUMNS["visits"], "age": COLUMNS["age"]}
SUMS = {"all": {"kind": "sum", "column": "visits", "lower": 0, "upper": 20, "missing": 0, "epsilon": 1.0}}


def said(place):
    document = json.loads(place.target.read_text(encoding="utf-8"))
    return {key: value for key, value in document.items() if key not in {"run", "input", "job"}}


@pytest.mark.parametrize("ending", FORMATS)
def test_an_object_gives_what_its_file_gives(place, store: Store, ending):
    place.source = write_table(people(3000), place.folder / f"in.{ending}", row_group_rows=700)
    place.write_job(JOB, keep=["state", "note"])
    assert place.privatize().code == 0
    local = place.target.read_bytes()
    place.source = store.put(f"deep/er/in.{ending}", place.source)
    place.write_job(JOB, keep=["state", "note"])
    assert place.privatize("--overwrite").code == 0
    assert place.target.read_bytes() == local


@pytest.mark.parametrize("unit", ["row", "person"])
def test_folders_and_globs_give_what_those_of_files_give(counter, store: Store, unit):
    table = people(900)
    for part in range(3):
        write_table(table.slice(part * 300, 300), counter.folder / f"parts/y{part % 2}/{part}.parquet", row_group_rows=100)
    (counter.folder / "parts/_SUCCESS").touch()
    (counter.folder / "parts/.hidden.parquet").write_bytes(b"no table")
    privacy = {"max_epsilon": 1.0} | ({} if unit == "row" else {"unit": unit, "max_rows_per_unit": 2})
    address = store.put_folder(counter.folder / "parts", "parts")
    answers = []
    for root in (counter.folder / "parts", address):
        for way in ("", "/*/*.parquet", "/**/*.parquet", "/y[01]/?.parquet"):
            counter.source = f"{root}{way}"
            counter.write_release(SUMS, privacy=privacy)
            done = counter.release("--overwrite")
            assert done.code == 0, done.said
            answers.append(said(counter))
    assert all(answer == answers[0] for answer in answers)


def test_estimates_of_objects_are_those_of_files(place, store: Store):
    write_table(people(2000), place.source)
    for ending, more in (("parquet", {}), ("csv", {}), ("arrow", {"shards": 3})):
        place.target = place.folder / "out" / f"t.{ending}"
        place.write_job(JOB, **more)
        assert place.privatize("--overwrite").code == 0
        name = "t.shards.json" if more else place.target.name
        address = store.put_folder(place.target.parent, f"of-{ending}")
        local, remote, globbed = (
            estimate(way).document()["columns"] for way in (place.target.parent / name, f"{address}/{name}", f"{address}/*.{ending}")
        )
        assert json_text(local) == json_text(remote) == json_text(globbed)


def test_folders_of_columns_are_columns_in_a_store_too(counter, store: Store):
    for year, region in ((2023, "a%20b"), (2024, "a%20b"), (2024, "c")):
        write_table(people(50 + year - 2000), counter.folder / f"t/year={year}/region={region}/x.parquet")
    address = store.put_folder(counter.folder / "t", "t")
    sums = {
        "n": {"kind": "count", "group_by": ["year", "region"], "groups": {"year": [2023, 2024], "region": ["a b", "c"]}, "epsilon": 1.0}
    }
    answers = []
    for source in (counter.folder / "t", address):
        counter.source = source
        counter.write_release(sums)
        assert counter.release("--overwrite").code == 0
        answers.append(said(counter))
    assert answers[0] == answers[1]


def test_what_is_not_there_is_named(place, store: Store):
    store.put("there/x.parquet", b"")
    for way in (store.address("absent.parquet"), f"{store.scheme}://no-such-bucket/x.parquet", store.address("there/*.csv")):
        place.source = way
        place.write_job(JOB)
        done = place.privatize()
        assert done.code == 4
        assert way in done.err
        assert place.left_behind() == []


@pytest.mark.parametrize(
    ("log", "kind"), [("_delta_log/0.json", "Delta Lake"), ("metadata/v1.metadata.json", "Iceberg"), (".hoodie/h", "Hudi")]
)
def test_a_table_with_a_log_is_refused_wherever_it_is_entered(place, store: Store, log, kind):
    store.put(f"t/{log}", b"")
    store.put("t/2024/jan.parquet", write_table(people(5), place.folder / "in.parquet"))
    for way in (*(() if kind == "Delta Lake" else ("t",)), "t/2024", "t/2024/*.parquet", "t/2024/jan.parquet"):
        place.source = store.address(way)
        place.write_job(JOB)
        done = place.privatize()
        assert (done.code, done.out) == (2, "")
        assert f"{store.address('t')} is a table of {kind}" in done.err


@pytest.mark.parametrize(
    "address", ["s3://key:secret@bucket/x.parquet", "s3:///x.parquet", "s3://bucket/a//b.parquet", "s3://bucket/../b.csv"]
)
def test_addresses_that_no_store_has_are_refused(place, store: Store, address):
    place.source = address
    place.write_job(JOB)
    done = place.privatize()
    assert (done.code, done.out) == (2, "")
    assert "secret" not in done.err


def test_a_damaged_object_is_named_by_its_row_group(place, store: Store):
    from support.jobs import damage

    write_table(people(3000), place.source, row_group_rows=1000)
    damage(place.source, 1, "visits")
    place.source = store.put("in.parquet", place.source)
    place.write_job(JOB)
    done = place.privatize()
    assert done.code == 4
    assert f"{place.source}: row group 1 of 3" in done.err
    assert place.left_behind() == []


def test_a_frame_may_be_an_address(store: Store, tmp_path):
    from dpcore import PrivateTable
    from dpcore.testing import KeyedRandom

    path = write_table(pa.table({"x": list(range(100))}), tmp_path / "x.parquet")
    address = store.put("x.parquet", path)
    key = bytes(32)
    answers = [PrivateTable(each, rng=KeyedRandom(key)).sum("x", epsilon=1.0, lower=0, upper=100).value for each in (str(path), address)]
    assert answers[0] == answers[1]
