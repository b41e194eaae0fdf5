"""Rows that come in the same order at every attempt are known by their places; behind anything else by their names."""

from __future__ import annotations

import collections
import hashlib
from pathlib import Path

import pytest

from dpcore.spark import privatize, repeated_rows
from dpcore.spark.noise_plans import NoisePlan
from dpcore.spark.noise_tasks import FILE
from dpcore.spark.privatising import job_of
from dpcore.spark.row_order import comes_in_order
from support.spark_noise import is_complete, job, rows_of, write_input


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four files."""
    return write_input(tmp_path_factory.mktemp("people") / "in")


@pytest.fixture
def seeing(monkeypatch):
    """A Spark with checksums, whichever runs the test; `test_repeated_rows` has what others refuse."""
    monkeypatch.setattr(repeated_rows, "notices", lambda session: True)


@pytest.fixture(scope="module")
def people(spark, folder):
    return spark.read.parquet(folder)


def has_names(frame) -> bool:
    """Whether the workers get the names of the rows."""
    return FILE in NoisePlan(frame, job_of(job())).rows(None)[0].columns


IN_ORDER = {
    "files": lambda frame: frame,
    "a condition and a column": lambda frame: frame.where("id % 3 > 0").withColumn("age", frame.age + 1).alias("other"),
    "a view": lambda frame: frame.sparkSession.sql("SELECT * FROM {frame} WHERE smoker", frame=frame),
    "a mean in a condition": lambda frame: frame.sparkSession.sql("SELECT * FROM {f} WHERE age > (SELECT avg(age) FROM {f})", f=frame),
}
IN_NO_ORDER = {
    "a shuffle": lambda frame: frame.repartition(3),
    "a shuffle by value": lambda frame: frame.repartition(3, "id"),
    "an order": lambda frame: frame.orderBy("age"),
    "an order within parts": lambda frame: frame.sortWithinPartitions("age"),
    "a limit": lambda frame: frame.limit(2000),
    "a condition of chance": lambda frame: frame.where("rand() < 0.5"),
}


@pytest.mark.parametrize("way", IN_ORDER)
def test_parts_of_files_need_no_names(people, way):
    frame = IN_ORDER[way](people)
    assert comes_in_order(frame)
    assert not has_names(frame)
    assert NoisePlan(frame, job_of(job())).rows(None)[1]


@pytest.mark.parametrize("way", IN_NO_ORDER)
def test_rows_in_no_order_keep_their_names(people, seeing, way):
    frame = IN_NO_ORDER[way](people)
    assert not comes_in_order(frame)
    assert has_names(frame)


def test_a_condition_on_another_table_gives_no_order(people):
    frame = people.sparkSession.sql("SELECT * FROM {f} WHERE id IN (SELECT id + 1 FROM {f})", f=people)
    assert not comes_in_order(frame)
    assert not NoisePlan(frame, job_of(job())).rows(None)[1]


SECRETLY = "hash(aes_encrypt(string(id), '0000111122223333')) % 2 = 0"
"""A condition of chance: the vector of the cipher is drawn anew, though Spark counts the function as determined."""


def test_where_chance_or_code_of_others_takes_part_no_attempt_is_covered(people, seeing):
    from pyspark.sql.functions import udf

    ours = udf(lambda number: number > 3, "boolean")("id")
    assert len({people.where(SECRETLY).count() for _ in range(8)}) > 1  # the same eight times with probability 10^-13
    for frame in (people.where(ours), people.withColumn("smoker", ours), people.where(SECRETLY), people.where("rand() < 0.5")):
        assert not comes_in_order(frame)
        assert not comes_in_order(frame.repartition(2))
        assert not NoisePlan(frame, job_of(job())).rows(None)[1]
        assert not NoisePlan(frame.repartition(2), job_of(job())).rows(None)[1]
    assert NoisePlan(people.repartition(2), job_of(job())).rows(None)[1]


def test_options_that_leave_out_files_give_no_order(spark, folder):
    for name in ("ignoreCorruptFiles", "ignoremissingfiles"):
        frame = spark.read.option(name, "true").parquet(folder)
        assert not comes_in_order(frame)
        assert has_names(frame)


def test_a_cache_gives_no_order_from_when_it_is_made(people):
    plan = NoisePlan(people.where("id >= 0"), job_of(job()))
    assert FILE not in plan.rows(None)[0].columns
    cached = plan.frame.cache()
    try:
        assert cached.count()
        assert not comes_in_order(cached.select("id"))
        assert FILE in plan.rows(None)[0].columns
    finally:
        cached.unpersist()


@pytest.mark.parametrize("way", IN_ORDER)
def test_attempts_at_a_partition_have_the_same_rows_in_the_same_order(people, tmp_path, way):
    """What the order is claimed for, seen from outside: each attempt writes down its rows, and the first ones fail."""
    seen = tmp_path / "seen"
    seen.mkdir()
    marks = str(seen)

    def look(batches):
        from pyspark import TaskContext

        context, digest = TaskContext.get(), hashlib.sha256()
        for batch in batches:
            digest.update(repr(batch.to_pylist()).encode())
            yield batch
        Path(marks, f"{context.partitionId()}-{context.attemptNumber()}").write_text(digest.hexdigest())
        if context.attemptNumber() == 0:
            raise RuntimeError("a fault on purpose")

    rows = NoisePlan(IN_ORDER[way](people), job_of(job())).rows(None)[0]
    rows.mapInArrow(look, rows.schema).write.format("noop").mode("overwrite").save()
    found = collections.defaultdict(set)
    for path in seen.iterdir():
        found[path.name.partition("-")[0]].add(path.read_text())
    assert len(list(seen.iterdir())) >= 2 * len(found) >= 4
    assert all(len(each) == 1 for each in found.values())


def test_both_ways_are_complete_and_cover_attempts(people, tmp_path):
    for name, frame in {"in order": people, "in none": people.repartition(3, "id")}.items():
        assert privatize(frame, job()).write(tmp_path / name).covers_attempts
        assert is_complete(rows_of(tmp_path / name))
