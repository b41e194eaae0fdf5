"""A release on Spark that bounds units, beside what Spark needs without privacy, in one run: `python benchmarks/spark_release.py`.

Three of Spark's own: the means of groups after the same shuffle by unit; the same through a pass-through of Python behind that shuffle; and
at most k rows of each unit, by a window in random order. CPU seconds are those of Java, of its Python workers and of this process; wall
seconds are of use on a quiet machine only. The answers are checked.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.spark import make_session, release

GROUPS, LIMIT, FILES = 20, 3, 8
JOB = {
    "version": 1,
    "privacy": {"unit": "person", "max_rows_per_unit": LIMIT, "max_epsilon": 1e5},
    "query": [
        {
            "name": "means", "kind": "mean", "column": "value", "lower": 0, "upper": 100, "missing": 0, "group_by": "part",
            "groups": list(range(GROUPS)), "epsilon": 1e5,
        }
    ],
}  # fmt: skip


def make_input(folder: Path, rows: int, units: int) -> None:
    """The rows, in a few files; the means of the groups are 50."""
    chance = np.random.default_rng(7)
    for part in range(FILES):
        count = rows * (part + 1) // FILES - rows * part // FILES
        columns = {
            "person": chance.integers(0, units, count),
            "part": chance.integers(0, GROUPS, count),
            "value": chance.random(count) * 100,
        }
        pq.write_table(pa.table(columns), folder / f"in-{part}.parquet")


def cpu_seconds(java: int) -> float:
    """What Java, all processes below it, and this one have used."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            cells = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)], used[int(path.parent.name)] = int(cells[1]), sum(map(int, cells[11:15]))
    below, todo = {java}, [java]
    while todo:
        above = todo.pop()
        more = {child for child, parent in parents.items() if parent == above} - below
        below |= more
        todo += more
    return sum(used.get(each, 0) for each in below) / os.sysconf("SC_CLK_TCK") + time.process_time()


def sides(frame):
    """What is compared, by name; each gives the means of the groups."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    def means(rows):
        return [row[1] for row in sorted(rows.groupBy("part").agg(F.avg("value")).collect())]

    def unchanged(batches):
        yield from batches

    by_unit = frame.repartition(FILES, "person")
    places = F.row_number().over(Window.partitionBy("person").orderBy(F.rand()))
    return {
        "means after a shuffle by unit": lambda: means(by_unit),
        "the same through Python": lambda: means(by_unit.mapInArrow(unchanged, frame.schema)),
        f"{LIMIT} random rows a unit": lambda: means(frame.withColumn("place", places).where(F.col("place") <= LIMIT)),
        "release": lambda: list(release(frame, JOB).value),
    }


def main() -> None:
    """Measure, check and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--units", type=int, default=1_000_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--master", default="local[2]")
    said = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dpcore-bench-"))
    try:
        (folder / "in").mkdir()
        make_input(folder / "in", said.rows, said.units)
        conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.local.dir": str(folder / "local")}
        conf |= {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": str(FILES)}
        measure(make_session(said.master, conf=conf), folder / "in", said.runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(spark, folder: Path, runs: int) -> None:
    """Take turns, so that all sides meet the same machine."""
    java = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - the process of Java has no public name
    compared = sides(spark.read.parquet(str(folder)))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in compared}
    for run in range(runs + 1):
        for name, action in compared.items():
            wall, used = time.perf_counter(), cpu_seconds(java)
            answer = action()
            taken = time.perf_counter() - wall, cpu_seconds(java) - used
            assert np.allclose(answer, 50, atol=1.0), (name, answer)
            if run:  # the first one starts the workers
                found[name].append(taken)
    middle = {name: [statistics.median(each) for each in zip(*times, strict=True)] for name, times in found.items()}
    for name, (wall, used) in middle.items():
        ratios = f"release: {middle['release'][0] / wall:.2f} × wall, {middle['release'][1] / used:.2f} × CPU"
        print(f"{name:30} {wall:7.2f} s wall {used:7.2f} s CPU   {ratios}", flush=True)


if __name__ == "__main__":
    main()
