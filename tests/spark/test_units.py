"""Units choose the same rows, groups and values on Spark as on one machine, for cells of all types that both have, and of text."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dpcore.spark import release
from support.jobs import write_table
from support.units_by_value import PRIVACY, QUERIES, TABLE, answers, job_of, shuffled


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_table(TABLE, tmp_path_factory.mktemp("units") / "in.parquet")


def released(frame, job):
    """The numbers of all queries."""
    found = release(frame, job, overwrite=True)
    return [found[query["name"]].document["value"] for query in QUERIES]


def test_a_shuffled_frame_gives_the_bits_of_the_file(spark, source):
    write_table(shuffled(TABLE), source.parent / "shuffled.parquet", row_group_rows=50)
    frame = spark.read.parquet(str(source.parent / "shuffled.parquet")).repartition(3)
    assert released(frame, job_of(source)) == answers(source)


def test_text_gives_the_bits_of_the_file(spark, source):
    text = write_table(shuffled(TABLE), source.parent / "in.csv")
    assert released(None, job_of(text)) == answers(source)


def test_without_a_key_units_keep_as_many_rows_as_they_may(spark, source):
    job = job_of(source, privacy={"max_epsilon": 1e9, **PRIVACY, "max_rows_per_unit": 3}, query=[{**QUERIES[0], "epsilon": 1e5}])
    del job["testing"], job["privacy"]["max_groups_per_unit"]
    kept = sum(min(rows, 3) for person, rows in Counter(TABLE.column("person").to_pylist()).items() if person is not None)
    assert np.round(release(spark.read.parquet(str(source)), job, overwrite=True).value) == kept
