"""Local privacy on Spark beside the same map without noise, in one run: `python benchmarks/spark_rows.py --rows 10000000`.

Two ratios: of the map alone, whose rows go nowhere, and of a whole write, beside Spark's own writer behind a map that changes nothing. The
answers of both are checked: rows, and the means that the reports estimate.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.batch import estimate
from dpcore.spark import make_session, privatize
from dpcore.spark.committed import spark_schema
from dpcore.spark.noise_plans import NoisePlan
from dpcore.spark.privatising import job_of
from dpcore.spark.rows_tasks import RowsTask
from dpcore.spark.workers import stamp

JOB = {
    "version": 1,
    "keep": ["id"],
    "privacy": {"max_epsilon": 2.0},
    "column": [
        {"name": "age", "mechanism": "laplace", "epsilon": 1.0, "lower": 0.0, "upper": 100.0},
        {"name": "smoker", "mechanism": "binary", "epsilon": 1.0},
    ],
}
FILES = 4


def make_input(folder: Path, rows: int) -> None:
    """The rows, in a few files."""
    for part in range(FILES):
        places = np.arange(rows * part // FILES, rows * (part + 1) // FILES)
        table = pa.table({"id": places, "age": (places % 97).astype(np.float64), "smoker": places % 3 == 0})
        pq.write_table(table, folder / f"in-{part}.parquet")


def unchanged(batches):
    """A map that changes nothing."""
    yield from batches


def seconds(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    """Measure, check and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--master", default="local-cluster[2,1,1024]")
    said = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dpcore-bench-"))
    try:
        (folder / "in").mkdir()
        make_input(folder / "in", said.rows)
        conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.local.dir": str(folder / "local")}
        measure(make_session(said.master, conf=conf), folder, said.rows, said.runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(spark, folder: Path, rows: int, runs: int) -> None:
    """Take turns, so that both sides meet the same machine."""
    frame = spark.read.parquet(str(folder / "in"))
    plain = frame.mapInArrow(unchanged, frame.schema)
    plan = NoisePlan(frame, job_of(JOB))

    def noised(action):
        with plan.key() as key:
            task = RowsTask(plan.noise(key), plan.types, stamp())

            def work(batches):
                return task(batches)

            return action(plan.rows(key)[0].mapInArrow(work, spark_schema(plan.schema)))

    def go(rows):
        rows.write.format("noop").mode("overwrite").save()

    sides = {
        "map without noise": lambda: go(plain),
        "map with noise": lambda: noised(go),
        "write without noise": lambda: plain.write.mode("overwrite").parquet(str(folder / "plain")),
        "privatize(...).write": lambda: privatize(frame, JOB).write(folder / "private", overwrite=True),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in range(runs + 1):
        for name, action in sides.items():
            taken = seconds(action)
            if run:  # the first one starts the workers
                times[name].append(taken)
    found = estimate(folder / "private")
    truth = {"age": np.mean(np.arange(97)), "smoker": 1 / 3}
    (mapped,) = noised(lambda noisy: noisy.selectExpr("count(*)", "avg(age)", "count(distinct age)").collect())
    assert mapped[0] == rows
    assert abs(mapped[1] - truth["age"]) < 6 * 100 * math.sqrt(2 / rows)
    assert mapped[2] > 0.9 * rows
    for column in found.columns:
        assert abs(column.estimate.value - truth[column.column.name]) < 6 * column.estimate.stderr + 0.01, column.column.name
    assert found.rows == rows
    middle = {name: statistics.median(each) for name, each in times.items()}
    for name, each in times.items():
        print(f"{name:22} {middle[name]:7.2f} s  (from {min(each):.2f} to {max(each):.2f})")
    print(f"map:   {middle['map with noise'] / middle['map without noise']:.2f} × a map without noise")
    print(f"write: {middle['privatize(...).write'] / middle['write without noise']:.2f} × Spark's write behind such a map")


if __name__ == "__main__":
    main()
