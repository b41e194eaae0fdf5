"""What an output may not replace: what the job reads, and its ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcore.accounting import Ledger
from dpcore.batch import parse_job
from dpcore.errors import JobError
from dpcore.spark.folders import check_folder
from dpcore.spark.output_places import check_address_is_apart, check_folder_is_apart, input_places

JOB = {"version": 1, "privacy": {"max_epsilon": 1.0}, "column": [{"name": "smoker", "mechanism": "binary", "epsilon": 1.0, "missing": 0}]}


def job_of(source="a Spark frame", ledger=None):
    beside = {} if ledger is None else {"ledger": {"path": str(ledger)}}
    return parse_job(JOB | {"input": {"path": str(source), "dataset": "d"}, "output": {"path": "out.parquet"}} | beside)


@pytest.mark.parametrize("name", ["people/a.parquet", "people/year=2020/a%20b.parquet"])
def test_a_folder_that_is_or_holds_a_file_of_the_input_is_no_output(tmp_path, name):
    address = (tmp_path / "in").as_uri() + f"/{name}"
    for folder in (tmp_path, tmp_path / "in", tmp_path / "in/people", tmp_path / "in/../in/people"):
        with pytest.raises(JobError, match="a file of the input"):
            check_folder_is_apart(folder, job_of(), [address])
    for folder in (tmp_path / "in/peop", tmp_path / "out", tmp_path / "in/people/out"):
        check_folder_is_apart(folder, job_of(), [address])


def test_links_and_escapes_are_looked_through(tmp_path):
    (tmp_path / "in dir").mkdir()
    (tmp_path / "in dir/a.parquet").touch()
    (tmp_path / "link").symlink_to(tmp_path / "in dir")
    (place,) = input_places([f"{tmp_path.as_uri()}/link/a.parquet"])
    assert place[1] == tmp_path / "link/a.parquet"
    with pytest.raises(JobError, match="would replace"):
        check_folder_is_apart(tmp_path / "in dir", job_of(), [f"{tmp_path.as_uri()}/link/a.parquet"])
    assert input_places(["hdfs://host/in/a.parquet"]) == []


def test_a_folder_with_the_ledger_is_no_output(tmp_path):
    (tmp_path / "out").mkdir()
    ledger = tmp_path / "out/ledger.csv"
    Ledger.create(ledger, epsilon=1.0)
    check_folder(tmp_path / "out", overwrite=True)  # its ending is that of a table
    with pytest.raises(JobError, match="ledger"):
        check_folder_is_apart(tmp_path / "out", job_of(ledger=ledger), [])
    check_folder_is_apart(tmp_path / "other", job_of(ledger=ledger), [])


def test_the_input_of_the_job_is_no_output_and_holds_none(tmp_path):
    (tmp_path / "in").mkdir()
    for folder, words in ((tmp_path / "in", "input"), (tmp_path / "in/out", "inside the input"), (tmp_path, "input.path")):
        with pytest.raises(JobError, match=words):
            check_folder_is_apart(folder, job_of(tmp_path / "in"), [])
    check_folder_is_apart(tmp_path / "out", job_of("hdfs://host/in"), [])


@pytest.mark.parametrize("address", ["s3a://b/in", "s3://b/in/", "S3N://b//in/a b.parquet"])
def test_an_address_that_is_or_holds_a_file_of_the_input_is_no_output(address):
    with pytest.raises(JobError, match="a file of the input"):
        check_address_is_apart(address, ["s3a://b/in/a%20b.parquet"])
    check_address_is_apart(f"{address}/other", ["s3a://b/in/a%20b.parquet", "file:/in/a.parquet"])


@pytest.mark.parametrize(("name", "goes"), [(".part-0.parquet.crc", True), ("_SUCCESS", True), (".secret", False), (".env", False)])
def test_only_files_of_tables_are_replaced_unseen(tmp_path, name, goes):
    Path(tmp_path, name).touch()
    if goes:
        check_folder(tmp_path, overwrite=True)
        return
    with pytest.raises(JobError, match="no file of a table"):
        check_folder(tmp_path, overwrite=True)
