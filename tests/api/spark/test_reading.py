"""Tables come to Spark with the units that they have: no two become one, and none is lost."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from dpcore.errors import DataError, JobError
from dpcore.jobs.release_job import parse_release_job
from dpcore.query.in_memory import make_unwritten_plan
from dpcore.spark.parquet_columns import check_same
from dpcore.spark.part_input import PartInput
from dpcore.spark.part_tasks import PartJob
from dpcore.spark.reading import folder_types
from dpcore.tables.pieces import FileInfo

COUNT = {"name": "n", "kind": "count", "epsilon": 1.0}


def test_folders_have_the_types_of_the_local_engine():
    def of(*values, path="s3a://bucket/t"):
        return folder_types(path, [f"s3a://bucket/t/u={value}/part-0.parquet" for value in values], {})

    assert of("007", "7") == {"u": pa.string()}
    assert of("70", "7") == {"u": pa.int64()}
    assert of("2024-01-02") == {"u": pa.date32()}
    assert of("a%2520b", "7") == {"u": pa.string()}
    assert of("7", path="s3a://bucket/t/u=7") == {}
    assert of("7", path="s3a://bucket/*") == {"u": pa.int64()}
    assert folder_types("s3a://bucket", ["s3a://bucket/u=1/x.parquet"], {}) == {"u": pa.int64()}
    assert folder_types("s3a://bucket/t/x.parquet", ["s3a://bucket/t/x.parquet"], {}) == {}


def test_files_with_other_columns_are_refused():
    check_same([(1, ("u", "x")), (2, ("x", "u"))])
    check_same([])
    for other in (("U",), (), ("u", "x")):
        with pytest.raises(JobError, match=r"file [13].* has a column .* and file [13] has not"):
            check_same([(1, ("u",)), (3, other)])


def part_job(names, info, **privacy):
    privacy = {"max_epsilon": 1.0, "unit": "u", "max_rows_per_unit": 1} | privacy
    job = {"version": 1, "input": {"path": "f.csv"}, "output": {"path": os.devnull}, "privacy": privacy, "query": [COUNT]}
    plan = make_unwritten_plan(parse_release_job(job), PartInput.of(info, []))
    return PartJob.of(plan, [answer.measure for answer in plan.estimators], info)


@pytest.mark.parametrize("rows", [1, 2])
def test_units_of_a_csv_that_spark_could_not_read_as_they_are_end_the_job(rows):
    info = FileInfo(("u", "x"), None, None)
    job = part_job(("u", "x"), info, max_rows_per_unit=rows)
    good = pa.record_batch({"u": ["a", None, "ü"], "x": ["1", "\ufffd", "1"]})
    assert job.added_up([good]).rows == 3
    with pytest.raises(DataError, match="not UTF-8"):
        job.added_up([good, pa.record_batch({"u": ["b", "\ufffd"], "x": ["1", "1"]})])
