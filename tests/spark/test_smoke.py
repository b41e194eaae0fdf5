"""Spark in brief: a session with encryption starts, its workers have dpcore, and a job shows how far it is."""

from __future__ import annotations

import pytest

from dpcore.batch import estimate as local_estimate
from dpcore.errors import DataError, JobError, StorageError
from dpcore.spark import estimate, make_session, privatize
from dpcore.spark.settings import check
from dpcore.spark.watching import watched
from dpcore.spark.workers import check_workers, stamp
from support.spark_noise import is_complete, job, rows_of, write_input


@pytest.mark.long
def test_a_session_of_two_processes_is_set_as_the_protocol_needs_it(spark):
    check(spark)
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.network.crypto.enabled") == conf.get("spark.io.encryption.enabled") == "true"
    assert make_session() is spark


@pytest.mark.long
def test_workers_answer_before_anything_is_spent(spark):
    assert sum(check_workers(spark).levels.values()) >= 4


@pytest.mark.long
def test_progress_ends_at_one_and_errors_of_tasks_keep_their_words(spark):
    seen = []
    frame = spark.range(0, 4000, 1, 8)
    assert watched(spark, frame.count, lambda done, total: seen.append(done / total)) == 4000
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    own = stamp()

    def refuse(batches):
        with own.guarding():
            for _ in batches:
                raise DataError("column 'age': row 5 is missing")
            yield

    with pytest.raises(DataError, match=r"^column 'age': row 5 is missing$"):
        watched(spark, lambda: frame.mapInArrow(refuse, frame.schema).count())


@pytest.mark.long
def test_messages_of_spark_that_quote_cells_are_not_shown(spark, capfd):
    with pytest.raises(StorageError, match="CAST_INVALID_INPUT") as caught:
        watched(spark, lambda: spark.sql("SELECT CAST('a private word' AS INT)").collect())
    assert "private" not in str(caught.value)
    assert "private word" not in "".join(capfd.readouterr())


@pytest.mark.long
def test_a_frame_gets_its_noise_while_it_is_written_and_estimates_are_those_of_one_machine(spark, tmp_path):
    frame = spark.read.parquet(write_input(tmp_path / "in"))
    written = privatize(frame, job()).write(tmp_path / "out")
    assert written.covers_attempts
    assert is_complete(rows_of(tmp_path / "out"))
    assert repr(estimate(tmp_path / "out").document()) == repr(local_estimate(tmp_path / "out").document())
    with pytest.raises(JobError, match="append"):
        privatize(frame, job()).write(tmp_path / "out", mode="append")
