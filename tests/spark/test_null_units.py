"""Rows that name no unit: left out before they are moved, or spread by their own names; answers are those of one machine."""

from __future__ import annotations

import collections

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.jobs.release_job import parse_release_job
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from dpcore.spark import privatize, release
from dpcore.spark.noise_plans import NoisePlan
from dpcore.spark.noise_tasks import FILE, INDEX
from dpcore.spark.part_passes import SparkPasses
from dpcore.spark.privatising import job_of
from dpcore.spark.unit_tasks import MEETING, UnitTask
from dpcore.spark.workers import stamp
from support.spark import settings
from support.spark_noise import HEX

NULLS, PARTITIONS = 10_000, 8
QUERIES = [
    {"name": "rows", "kind": "count", "epsilon": 1.0},
    {"name": "mean", "kind": "mean", "column": "age", "lower": 0, "upper": 10, "missing": 0, "epsilon": 1.0},
    {"name": "people", "kind": "count_distinct", "epsilon": 1.0},
]
COLUMN = {"name": "age", "mechanism": "laplace", "epsilon": 1.0, "lower": 0, "upper": 10, "missing": 0}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Equal rows without a unit, and 200 units of three rows."""
    path = tmp_path_factory.mktemp("nulls") / "in.parquet"
    table = pa.table(
        {"who": pa.array([None] * NULLS + list(range(200)) * 3, pa.int64()), "age": [7.0] * NULLS + [float(n % 5) for n in range(600)]}
    )
    pq.write_table(table, path)
    return path


def job(policy: str, **sections) -> dict:
    unit = {"max_epsilon": 9.0, "unit": "who", "max_rows_per_unit": 2, "null_unit": policy}
    return {"version": 1, "privacy": unit, "testing": {"key_hex": HEX}} | sections


def per_partition(frame, condition: str) -> list[int]:
    """How many rows each partition has that meet a condition."""
    from pyspark.sql import functions

    found = frame.where(condition).groupBy(functions.spark_partition_id().alias("part")).count().collect()
    counts = collections.Counter({row["part"]: row["count"] for row in found})
    return [counts[part] for part in range(PARTITIONS)]


def is_even(counts: list[int]) -> bool:
    """Whether each row may have been thrown into a partition of its own accord, at an error rate far below 10⁻⁶."""
    expected = NULLS / PARTITIONS
    return bool(np.all(np.abs(np.array(counts) - expected) < 8 * np.sqrt(expected)))


def moved(spark, monkeypatch, source, policy: str):
    """The rows of a release behind its shuffle."""
    seen = []
    before = SparkPasses._by

    def look(passes, frame, column):
        seen.append((before(passes, frame, column), column))
        return seen[-1][0]

    monkeypatch.setattr(SparkPasses, "_by", look)
    monkeypatch.setattr(SparkPasses, "_shuffled", lambda passes, frame: PARTITIONS)
    release(spark.read.parquet(str(source)), job(policy, query=QUERIES))
    frame, column = seen[0]
    return frame, f"`{column}` IS NULL"


def test_a_release_that_drops_them_moves_none(spark, monkeypatch, source):
    assert sum(per_partition(*moved(spark, monkeypatch, source, "drop"))) == 0


def test_a_release_to_which_they_are_units_spreads_them(spark, monkeypatch, source):
    assert is_even(per_partition(*moved(spark, monkeypatch, source, "own")))
    assert not is_even([NULLS // 2, NULLS // 2, *[0] * 6])


@pytest.mark.parametrize("policy", ["drop", "own"])
def test_local_noise_spreads_them_before_and_behind_the_choice(spark, source, policy):
    plan = NoisePlan(spark.read.parquet(str(source)), job_of(job(policy, column=[COLUMN])))
    with settings(spark, spark_sql_shuffle_partitions=str(PARTITIONS)), plan.key() as key:
        # Behind the second shuffle, and so also behind the first, where equal rows would otherwise have met.
        assert is_even(per_partition(plan.rows(key)[0], "who IS NULL"))
        made = UnitTask.keyed(key, {}, "who", limit=2, null_is_unit=policy == "own", stamp=stamp())
    names = pa.table({"who": pa.nulls(NULLS, pa.int64()), FILE: np.full(NULLS, 7), INDEX: np.arange(NULLS)})
    places = np.concatenate([batch.column(MEETING).to_numpy() for batch in made.met(names.to_batches())])
    assert is_even(np.bincount(places % PARTITIONS, minlength=PARTITIONS).tolist())


@pytest.mark.parametrize("policy", ["drop", "own"])
@pytest.mark.parametrize("named", [True, False])
def test_the_answers_are_those_of_one_machine(spark, source, tmp_path, policy, named):
    given = job(policy, query=QUERIES, input={"path": str(source)}, output={"path": str(tmp_path / "here.json")})
    here = run(make_release_plan(parse_release_job(given)))
    frame = spark.read.parquet(str(source)).repartition(5)
    if not named:
        frame = spark.createDataFrame([(row.who, row.age) for row in frame.collect()], frame.schema)
    there = release(frame, {name: part for name, part in given.items() if name not in ("input", "output")})
    assert [there[query["name"]].document["value"] for query in QUERIES] == [query["value"] for query in here["queries"]]


@pytest.mark.parametrize("policy", ["drop", "own"])
def test_local_noise_keeps_all_rows_and_hides_those_that_are_dropped(spark, source, tmp_path, policy):
    made = job(policy, column=[COLUMN | {"epsilon": 1e6}], privacy=job(policy)["privacy"] | {"max_epsilon": 1e7})
    privatize(spark.read.parquet(str(source)), made).write(tmp_path / "out")
    ages = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))])["age"].to_numpy()
    assert len(ages) == NULLS + 600
    assert (np.round(ages) == 7).sum() == (NULLS if policy == "own" else 0)  # the age of no row with a unit
