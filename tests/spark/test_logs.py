"""Nothing that the driver prints at level WARN quotes a literal of a plan or what a task failed by. Logs of executors may."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.spark import run_alone

WORD = "quillfeather"
PROGRAM = """
import sys
from dpcore import PrivateTable
from dpcore.errors import DpcoreError
from dpcore.spark import estimate, make_session, privatize, release
folder, word, master = sys.argv[1:4]
conf = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "3", "spark.local.dir": f"{folder}/local"}
spark = make_session(master, conf=conf)
files = spark.read.parquet(f"{folder}/in.parquet")
chosen = f"city <> '{word}'"
listed = spark.createDataFrame([(number, "a", number % 7, 2.0) for number in range(50)], "id long, city string, who long, age double")
frames = {
    "files": files.where(chosen),
    "shuffled": files.where(chosen).repartition(2),
    "listed": listed.where(chosen),
    "joined": files.where(chosen).join(listed.selectExpr("id"), "id"),
    "union": files.where(chosen).union(listed.select(*files.columns)),
}
age = {"name": "age", "mechanism": "laplace", "lower": 0, "upper": 100, "epsilon": 1.0, "missing": 5}
unit = {"unit": "who", "max_rows_per_unit": 2}
count = {"name": "n", "kind": "count", "epsilon": 1.0}
mean = {"name": "m", "kind": "mean", "column": "age", "lower": 0, "upper": 100, "missing": 5, "epsilon": 1.0}
asked = 0

def fails(work):
    global asked
    asked += 1
    try:
        work()
    except DpcoreError as error:
        assert word not in str(error), error
        print("refused:", error)

for name, frame in frames.items():
    for privacy in ({}, unit):
        asked += 1
        job = {"version": 1, "privacy": {"max_epsilon": 4.0} | privacy, "column": [age]}
        committer = "spark" if privacy else "dpcore"
        privatize(frame, job).write(f"{folder}/{name}-{len(privacy)}-{committer}", committer=committer)
        release(frame, {"version": 1, "privacy": {"max_epsilon": 4.0} | privacy, "query": [count, mean]})
    table = PrivateTable(frame, unit="who", max_rows_per_unit=2)
    table.count(epsilon=1.0), table.mean("age", lower=0, upper=100, epsilon=1.0)
estimate(f"{folder}/files-0-dpcore")
bad = {"version": 1, "privacy": {"max_epsilon": 4.0}, "column": [age | {"name": "nowhere"}]}
fails(lambda: privatize(frames["joined"], bad))
fails(lambda: release(frames["files"], {"version": 1, "privacy": {"max_epsilon": 1.0}, "query": [mean | {"column": "nowhere"}]}))
fails(lambda: release(None, {"version": 1, "input": {"path": "table:nowhere"}, "privacy": {"max_epsilon": 1.0}, "query": [count]}))
broken = files.where(chosen).selectExpr("id", f"cast(concat(city, '{word}') as int) as age", "who")
fails(lambda: release(broken, {"version": 1, "privacy": {"max_epsilon": 4.0} | unit, "query": [mean]}))
print("asked", asked)
spark.stop()
"""


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_no_log_has_a_literal_of_a_plan(tmp_path, master):
    rows = {"id": range(200), "city": ["a", "b"] * 100, "who": [number % 9 for number in range(200)], "age": [3.5] * 200}
    pq.write_table(pa.table({name: list(cells) for name, cells in rows.items()}), tmp_path / "in.parquet")
    done = run_alone(PROGRAM, str(tmp_path), WORD, master, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "asked 14" in done.stdout
    assert done.stdout.count("refused:") == 4
    found = [line for line in [*done.stdout.splitlines(), *done.stderr.splitlines()] if WORD in line]
    assert [line[:200] for line in found] == []


LOUDER = """
import sys
from dpcore.spark import make_session
from dpcore.spark.watching import unlogged
folder, master = sys.argv[1:3]
conf = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.local.dir": f"{folder}/local", "spark.sql.ansi.enabled": "true"}
spark = make_session(master, conf=conf)
for level in ("ERROR", "INFO"):  # Spark 4 does nothing if the level is what it was
    spark.sparkContext.setLogLevel(level)
try:
    with unlogged():
        spark.read.parquet(f"{folder}/in.parquet").selectExpr("cast(city AS int)").collect()
except Exception as error:
    print("failed:", sys.argv[3] in str(error))
spark.stop()
"""


def test_what_a_task_failed_by_is_in_no_log_of_the_driver_at_level_info(tmp_path):
    """Other things are: so the page promises level WARN. The schedulers tell at INFO why a stage failed."""
    pq.write_table(pa.table({"city": [WORD]}), tmp_path / "in.parquet")
    done = run_alone(LOUDER, str(tmp_path), "local-cluster[1,1,1024]", WORD, timeout=900)
    assert "failed: True" in done.stdout
    assert re.search("INFO (DAG|Task)Scheduler", done.stderr) is None
    assert " INFO " in done.stderr
    assert [line[:200] for line in done.stderr.splitlines() if WORD in line] == []
