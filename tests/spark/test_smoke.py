"""Spark in brief: a session with encryption starts, its workers have dpcore, and a job shows how far it is."""

from __future__ import annotations

import pytest

from dpcore.errors import DataError, StorageError
from dpcore.spark import make_session
from dpcore.spark.settings import check
from dpcore.spark.watching import watched
from dpcore.spark.workers import check_workers, stamp


def test_a_session_of_two_processes_is_set_as_the_protocol_needs_it(spark):
    check(spark, expressions=True)
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.network.crypto.enabled") == conf.get("spark.io.encryption.enabled") == "true"
    assert make_session() is spark


def test_workers_answer_before_anything_is_spent(spark):
    assert sum(check_workers(spark).values()) >= 4


def test_progress_ends_at_one_and_errors_of_tasks_keep_their_words(spark):
    seen = []
    frame = spark.range(0, 4000, 1, 8)
    assert watched(spark, frame.count, lambda done, total: seen.append(done / total)) == 4000
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    own = stamp()

    def refuse(batches):
        own.check()
        for _ in batches:
            raise DataError("column 'age': row 5 is missing")
        yield

    with pytest.raises(DataError, match=r"^column 'age': row 5 is missing$"):
        watched(spark, lambda: frame.mapInArrow(refuse, frame.schema).count())


def test_messages_of_spark_that_quote_cells_are_not_shown(spark, capfd):
    with pytest.raises(StorageError, match="CAST_INVALID_INPUT") as caught:
        watched(spark, lambda: spark.sql("SELECT CAST('a private word' AS INT)").collect())
    assert "private" not in str(caught.value)
    assert "private word" not in "".join(capfd.readouterr())
