"""Ways in which a record gets two noises: each happens with naive code, and is refused or leaves one noise with dpcore.spark."""

from __future__ import annotations

import collections
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore._disk.locks import NameLock
from dpcore.errors import JobError
from dpcore.rng import JobKey
from dpcore.spark import privatize
from dpcore.spark.file_tasks import FileTask
from dpcore.spark.noise_plans import NoisePlan
from dpcore.spark.privatising import job_of
from dpcore.spark.workers import stamp
from support.spark import kill_executor
from support.spark_noise import ROWS, failing_once, failures, is_complete, job, naive, noise_of, rows_of, write_input


@pytest.fixture(scope="module")
def people(spark, tmp_path_factory):
    """Four files, a partition each."""
    path = write_input(tmp_path_factory.mktemp("people") / "in")
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(12_000))
    return spark.read.parquet(path)


def ages(rows) -> dict[int, float]:
    return {row["id"]: row["age"] for row in rows}


def files_of_attempts(plan, key, folder: Path, *, fails: bool) -> dict[int, list[pa.Table]]:
    """What every attempt has written, those that failed behind their last row included, by partition."""
    folder.mkdir()
    task = FileTask(plan.noise(key), plan.types, str(folder), "parquet", "none", stamp())

    def work(batches):
        from pyspark import TaskContext

        yield from task(batches)
        if fails and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("a fault on purpose")

    plan.rows(key)[0].mapInArrow(work, "partition int, name string, rows bigint, bytes bigint, sha256 string").collect()
    found = collections.defaultdict(list)
    for path in sorted(folder.iterdir()):
        found[int(path.name[:5])].append(pq.read_table(path))
    return found


def test_a_task_that_fails_after_drawing(people, tmp_path):
    """Whatever sees both attempts, such as a log, a spill or a sink, sees two noises of naive code, and one of ours."""
    seen = str(tmp_path / "seen")
    Path(seen).mkdir()

    def watch(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        for place, batch in enumerate(batches):
            name = f"{context.partitionId()}-{place}-{context.attemptNumber()}"
            Path(seen, name).write_text(repr(batch.column("age").to_pylist()))
            yield batch
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            raise RuntimeError("a fault on purpose")

    naive(people).mapInArrow(watch, "id bigint, age double").count()
    assert Path(seen, "0-0-0").read_text() != Path(seen, "0-0-1").read_text()

    plan = NoisePlan(people, job_of(job(keyed=False)))
    with JobKey() as key:
        attempts = files_of_attempts(plan, key, tmp_path / "attempts", fails=True)
    assert len(attempts) >= 2
    for partition in attempts.values():
        assert len(partition) == 2
        assert partition[0].equals(partition[1])
    with JobKey() as key:
        others = files_of_attempts(plan, key, tmp_path / "others", fails=False)
    assert not others[0][0]["age"].equals(attempts[0][0]["age"])


def test_a_sink_of_partitions_with_a_retry(people, tmp_path):
    published = str(tmp_path / "published")
    Path(published).mkdir()

    def send(rows):
        from pyspark import TaskContext

        context = TaskContext.get()
        with Path(published, f"{context.partitionId()}").open("a") as file:
            file.writelines(f"{row['id']}\n" for row in rows)
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            raise RuntimeError("a fault on purpose")

    naive(people).foreachPartition(send)
    records = [line for path in Path(published).iterdir() for line in path.read_text().splitlines()]
    assert len(records) > ROWS
    assert len(set(records)) == ROWS
    for sink in ("foreachPartition", "foreach", "jdbc"):
        with pytest.raises(JobError, match="two noises"):
            privatize(people, job()).write(tmp_path / "out", format=sink)
    assert not hasattr(privatize(people, job()), "foreachPartition")


def test_two_actions_on_one_noisy_frame(people, tmp_path):
    noisy = naive(people)
    assert ages(noisy.collect()) != ages(noisy.collect())
    pending = privatize(people, job(keyed=False))
    pending.write(tmp_path / "out")
    with pytest.raises(JobError, match="has been written"):
        pending.write(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_join_of_a_noisy_frame_with_itself(people):
    noisy = naive(people)
    joined = noisy.join(noisy.selectExpr("id", "age AS again"), "id").collect()
    assert any(row["age"] != row["again"] for row in joined)
    assert not hasattr(privatize(people, job()), "join")


def test_a_cached_column_after_an_executor_was_lost(spark, people, tmp_path):
    noisy = naive(people).cache()
    before = ages(noisy.collect())
    assert ages(noisy.collect()) == before
    kill_executor(spark)
    deadline = time.monotonic() + 120
    while (after := ages(noisy.collect())) == before and time.monotonic() < deadline:
        time.sleep(1)  # until Spark has noticed
    assert after != before
    noisy.unpersist()

    cached = people.cache()
    assert cached.count() == ROWS
    privatize(cached, job()).write(tmp_path / "before")
    kill_executor(spark)
    privatize(cached, job()).write(tmp_path / "after")
    cached.unpersist()
    assert is_complete(rows_of(tmp_path / "after"))
    assert rows_of(tmp_path / "after").equals(rows_of(tmp_path / "before"))


def test_append_run_twice(people, tmp_path):
    for _ in range(2):
        naive(people).write.mode("append").parquet(str(tmp_path / "naive"))
    found = rows_of(tmp_path / "naive")
    assert found.num_rows == 2 * ROWS
    noise = noise_of(found)
    assert (noise[::2] != noise[1::2]).any()
    with pytest.raises(JobError, match="append"):
        privatize(people, job()).write(tmp_path / "out", mode="append")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("committer", ["dpcore", "spark"])
def test_tasks_that_fail_on_purpose_leave_each_record_once_and_the_same_bits(people, tmp_path, committer):
    privatize(people, job()).write(tmp_path / "quiet", committer=committer)
    pending = privatize(people, job())
    named = pending._plan.rows(None)[0]
    pending._plan.rows = lambda key: (failing_once(named, tmp_path / "marks"), True)
    pending.write(tmp_path / "flaky", committer=committer)
    assert failures(tmp_path / "marks") >= 2
    found = rows_of(tmp_path / "flaky")
    assert is_complete(found)
    assert found.equals(rows_of(tmp_path / "quiet"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flaky", "marks", "quiet"]


def slowly(frame):
    """The same rows, a while later."""

    def wait(batches):
        time.sleep(2)
        yield from batches

    return frame.mapInArrow(wait, frame.schema)


def test_a_worker_that_is_killed_leaves_each_record_once_and_nothing_is_seen_before(spark, people, tmp_path):
    privatize(people, job()).write(tmp_path / "quiet")
    pending = privatize(people, job())
    named = pending._plan.rows(None)[0]
    pending._plan.rows = lambda key: (slowly(named), True)
    seen, killed = [], []

    def look(done, total):
        seen.append((tmp_path / "out").exists())
        if not killed and any(tmp_path.glob(".out.*.spill/*")):
            killed.append(kill_executor(spark))

    pending.write(tmp_path / "out", progress=look)
    assert killed
    assert seen
    assert not any(seen)
    found = rows_of(tmp_path / "out")
    assert is_complete(found)
    assert found.equals(rows_of(tmp_path / "quiet"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "quiet"]


def test_two_jobs_cannot_write_one_name_at_a_time(people, tmp_path):
    held = NameLock(tmp_path / "out")
    try:
        with pytest.raises(OSError, match="another job is writing"):
            privatize(people, job()).write(tmp_path / "out")
        assert not (tmp_path / "out").exists()
    finally:
        held.release(keep=False)
    privatize(people, job()).write(tmp_path / "out")
    assert is_complete(rows_of(tmp_path / "out"))


def test_noise_of_unequal_partitionings_is_independent(people, tmp_path):
    """The same key, the same rows, cut into other partitions: no batch is the same, so no noise is."""
    privatize(people, job()).write(tmp_path / "one")
    privatize(people.coalesce(1), job()).write(tmp_path / "two")
    one, two = (noise_of(rows_of(tmp_path / name)) for name in ("one", "two"))
    same = np.flatnonzero(one.round(9) == two.round(9))
    assert len(same) < ROWS // 2
