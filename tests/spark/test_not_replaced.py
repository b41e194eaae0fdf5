"""What a job on Spark may not replace, and what it is refused for before it spends anything."""

from __future__ import annotations

import pytest

from dpcore.accounting import Ledger
from dpcore.errors import JobError, StorageError
from dpcore.spark import privatize, release
from dpcore.spark.snapshots import with_names
from support.spark_noise import job, rows_of, write_input

COUNT = {"version": 1, "privacy": {"max_epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "epsilon": 1.0}]}


def charged(path) -> dict:
    Ledger.create(path, epsilon=100.0)
    return {"input": {"path": "people", "dataset": "d"}, "ledger": {"path": str(path)}}


def test_a_job_replaces_neither_its_input_nor_its_ledger(spark, tmp_path):
    source = tmp_path / "in"
    frame = spark.read.parquet(write_input(source))
    before = {path: path.read_bytes() for path in source.iterdir()}
    for place in (source, tmp_path):
        with pytest.raises(JobError, match="would replace"):
            privatize(frame, job()).write(place, overwrite=True)
    with pytest.raises(JobError, match="would replace"):
        privatize(frame, job()).write(source, overwrite=True, committer="spark")
    (file, *_) = sorted(path for path in before if path.suffix == ".parquet")
    with pytest.raises(JobError, match="the same file"):
        release(frame, COUNT | {"output": {"path": str(file)}}, overwrite=True)
    (tmp_path / "out").mkdir()
    ledger = tmp_path / "out" / "ledger.csv"
    with pytest.raises(JobError, match="ledger"):
        privatize(frame, job() | charged(ledger)).write(ledger.parent, overwrite=True)
    assert Ledger(ledger).spent.epsilon == 0
    assert {path: path.read_bytes() for path in source.iterdir()} == before


def test_a_job_does_not_replace_files_whose_rows_are_in_a_cache(spark, tmp_path):
    source = tmp_path / "in"
    people = spark.read.parquet(write_input(source)).where("id >= 0").cache()
    try:
        assert people.count()
        frame = people.withColumn("more", people.id)
        assert frame.inputFiles() == []
        with pytest.raises(JobError, match="would replace"):
            privatize(frame, job()).write(source, overwrite=True)
        assert len(list(source.glob("in-*.parquet"))) == 4
        with pytest.raises(StorageError, match=r"the input changed while it was read|a file of the input is gone"):
            privatize(frame, job()).write(tmp_path / "out", progress=lambda *_: (source / "in-0.parquet").unlink(missing_ok=True))
        assert not (tmp_path / "out").exists()
    finally:
        people.unpersist()


def test_names_that_differ_by_case_are_two_columns_whatever_the_session_says(spark, tmp_path):
    frame = spark.read.parquet(write_input(tmp_path / "in"))
    spark.conf.set("spark.sql.caseSensitive", "false")
    try:
        names = [name.upper() if name == "id" else name for name in frame.columns]
        both = frame.selectExpr("*", "id + 1000000 AS other").toDF(*names, "id")
        privatize(frame, job()).write(tmp_path / "one")
        written = privatize(both, job()).write(tmp_path / "two")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert written.covers_attempts
    one, two = rows_of(tmp_path / "one"), rows_of(tmp_path / "two")
    assert sorted(each - 1_000_000 for each in two["id"].to_pylist()) == sorted(one["id"].to_pylist())


def test_the_settings_of_the_session_count_while_it_writes(spark, tmp_path):
    pending = privatize(spark.read.parquet(write_input(tmp_path / "in")), job())
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        with pytest.raises(JobError, match="adaptive"):
            pending.write(tmp_path / "out")
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
    assert pending.write(tmp_path / "out").rows


def test_rows_have_names_only_where_each_is_one_row_of_a_file(spark, tmp_path):
    frame = spark.read.parquet(write_input(tmp_path / "in"))
    named = [frame.where("id > 3").repartition(3).orderBy("id"), frame.alias("other").withColumn("more", frame.id)]
    unnamed = [frame.join(spark.range(9), "id"), frame.selectExpr("*", "explode(array(1, 2)) AS n"), frame.groupBy("id", "age").count()]
    assert all(with_names(each, ["id"]) is not None for each in named)
    assert all(with_names(each, ["id"]) is None for each in unnamed)
