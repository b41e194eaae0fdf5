"""Speculative attempts on a standalone cluster of two machines: naive code draws two noises for a record, a job of dpcore publishes one."""

from __future__ import annotations

import json
from pathlib import Path

from support.spark import CONF, PATIENCE, SPECULATION, Standalone, attempts, run_alone
from support.spark_noise import is_complete, rows_of, write_input

PROGRAM = """
import json, sys
from pathlib import Path
from dpcore.spark import make_session, privatize
from support.spark import second_attempt
from support.spark_noise import job, naive
url, conf, source, folder = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4]
spark = make_session(url, conf=conf)
spark.conf.set("spark.sql.files.maxPartitionBytes", "12000")
people = spark.read.parquet(source)

def late(frame, wait):
    "The same rows; a task calls `wait` behind its last."

    def then_wait(batches):
        yield from batches
        wait()

    return frame.mapInArrow(then_wait, frame.schema)

def sink(wait):
    "A sink that acts at once."

    def send(rows):
        from pyspark import TaskContext
        context = TaskContext.get()
        with open(f"{folder}/sent-{context.partitionId()}-{context.attemptNumber()}", "w") as file:
            for row in rows:
                print(row["id"], row["age"], file=file, flush=True)
        wait()

    return send

naive(people).foreachPartition(sink(second_attempt(Path(folder, "marks-naive"))))
privatize(people, job()).write(f"{folder}/quiet")
for committer in ("dpcore", "spark"):
    pending = privatize(people, job())
    named = late(pending._plan.rows(None)[0], second_attempt(Path(folder, f"marks-{committer}")))
    pending._plan.rows = lambda key: (named, True)
    pending.write(f"{folder}/{committer}", committer=committer)
spark.stop()
"""


def sent(folder: Path, attempt: int) -> dict[str, str]:
    return dict(line.split() for line in (folder / f"sent-0-{attempt}").read_text().splitlines())


def test_speculative_attempts_publish_each_record_once_with_the_same_bits(tmp_path):
    source = write_input(tmp_path / "in")
    with Standalone(tmp_path / "cluster") as cluster:
        conf = CONF | cluster.conf | SPECULATION | {"spark.local.dir": str(tmp_path / "local")}
        arguments = (cluster.url, json.dumps(conf), source, str(tmp_path))
        run_alone(PROGRAM, *arguments, PYTHONPATH=str(Path(__file__).resolve().parents[1]), timeout=4 * PATIENCE)
    assert {"0-0", "0-1"} <= attempts(tmp_path / "marks-naive")
    one, two = sent(tmp_path, 0), sent(tmp_path, 1)
    assert one
    assert one.keys() == two.keys()
    assert all(one[record] != two[record] for record in one)
    quiet = rows_of(tmp_path / "quiet")
    for committer in ("dpcore", "spark"):
        assert {"0-0", "0-1"} <= attempts(tmp_path / f"marks-{committer}")
        found = rows_of(tmp_path / committer)
        assert is_complete(found)
        assert found.equals(quiet) or found.to_pydict() == quiet.to_pydict()
    assert not list(tmp_path.glob(".*.spill"))
