"""Tables of many files are looked at in one call of Java, and found as they are; partitions follow from the size of the input."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import JobError, StorageError
from dpcore.spark import partitions, privatize
from dpcore.spark.jvm_files import MANY, DriverFiles
from dpcore.spark.parquet_columns import check_columns
from dpcore.spark.snapshots import names_of, pinned
from support.spark import settings

ODD = ["a b", "c%20d", "é", "x#y", "q?z", "p[1]", "semi;colon", "back\\slash", "line\nend", "=", "+plus", "{brace}"]


def table(start, rows=20):
    places = range(start, start + rows)
    return pa.table(
        {"person": [place % 37 for place in places], "v": [float(place % 5) for place in places], "g": [str(i % 3) for i in places]}
    )


@pytest.fixture
def folder(tmp_path):
    """Some folders with many files, and some with few."""
    for number in range(3 * MANY):
        place = tmp_path / "in" / ("many" if number < 2 * MANY else f"few-{number}")
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(20 * number), place / f"{number:02}-{ODD[number % len(ODD)]}.parquet")
    (tmp_path / "in" / "many" / "beside.txt").write_text("no table")
    return tmp_path / "in"


def read(spark, folder):
    return spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet").parquet(f"file:{folder}")


def looked_at(folder):
    """Size and time of each file, by the operating system of this machine."""
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns // 10**6) for path in folder.rglob("*.parquet")}


def by_name(files):
    return {Path(unquote(urlsplit(name).path)).name: value for name, value in files.items()}


def test_all_files_are_found_with_their_sizes_and_times(spark, folder):
    frame = read(spark, folder)
    found = pinned(frame)
    assert by_name(found.files) == looked_at(folder)
    assert sorted(found.files) == names_of(frame) == sorted(frame.inputFiles())
    found.check(frame)
    assert pinned(spark.range(3)).files == {}


@pytest.mark.parametrize("where", ["many", f"few-{2 * MANY}"])
@pytest.mark.parametrize("how", ["longer", "later", "gone"])
def test_a_file_that_changes_among_many_is_seen(spark, folder, where, how):
    frame = read(spark, folder)
    before = pinned(frame)
    place = min((folder / where).glob("*.parquet"))
    if how == "gone":
        place.unlink()
    elif how == "longer":
        time = place.stat().st_mtime_ns
        place.write_bytes(place.read_bytes() + b"more")
        os.utime(place, ns=(time, time))
    else:
        os.utime(place, ns=(1, 10**15))
    with pytest.raises(StorageError, match="changed while it was read"):
        before.check(frame)
    if how == "gone":
        with pytest.raises(StorageError, match="is gone"):
            pinned(frame)


def test_files_that_appear_beside_those_of_a_table_are_no_part_of_it(spark, folder):
    frame = read(spark, folder)
    before = pinned(frame)
    pq.write_table(table(0), folder / "many" / "new.parquet")
    assert pinned(frame) == before
    before.check(frame)


def test_all_footers_are_read(spark, folder):
    frame = read(spark, folder)
    assert DriverFiles(spark.sparkContext).columns([frame._jdf.inputFiles()]) == [(1, ("person", "v", "g"))]
    check_columns(frame)
    names = sorted(frame.inputFiles())
    last = Path(unquote(urlsplit(names[-1]).path))
    pq.write_table(table(0).rename_columns(["person", "v w", "é,"]), last)
    with pytest.raises(JobError, match=rf"file 1 .* has a column 'g' and file {len(names)} has not"):
        check_columns(read(spark, folder))
    assert DriverFiles(spark.sparkContext).columns([frame._jdf.inputFiles()])[1] == (len(names), ("person", "v w", "é,"))


@pytest.mark.parametrize(("count", "limit", "expected"), [(3, 20_000, 3), (7, 20_000, 7), (7, 5, 5)])
def test_partitions_behind_a_shuffle_are_those_of_the_input_unless_somebody_says(spark, tmp_path, monkeypatch, count, limit, expected):
    pq.write_table(pa.concat_tables([table(start) for start in range(0, 4000, 20)]), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet")).repartition(count)
    monkeypatch.setattr(partitions, "MOST_SHUFFLED", limit)
    column = {"name": "v", "mechanism": "laplace", "epsilon": 1.0, "lower": 0.0, "upper": 5.0, "missing": 0.0}
    local = {"version": 1, "privacy": {"max_epsilon": 1.0, "unit": "person", "max_rows_per_unit": 1}, "column": [column]}
    with settings(spark, spark_sql_shuffle_partitions="200"):
        assert privatize(frame, local).write(tmp_path / "free").files == expected
    with settings(spark, spark_sql_shuffle_partitions="6"):
        assert privatize(frame, local).write(tmp_path / "said").files == 6
