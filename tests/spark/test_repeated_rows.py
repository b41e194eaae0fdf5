"""Frames that may have other rows when Spark computes a part of them again: refused where Spark cannot tell, else ended by Spark."""

from __future__ import annotations

import collections
import re
import time

import pytest

from dpcore.errors import JobError, StorageError
from dpcore.spark import privatize, release
from dpcore.spark import repeated_rows as repeated
from support.spark import executors, kill_executor
from support.spark_noise import COLUMNS, ROWS, is_complete, rows_of, write_input

JOB = {"version": 1, "keep": ["id"], "privacy": {"max_epsilon": 4.0, "unit": "unit", "max_rows_per_unit": 2}, "column": COLUMNS}
COUNT = {"version": 1, "privacy": {"max_epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "epsilon": 1.0}]}
WORDS = r"may have other rows when Spark \S+ computes a part of it again \({}\), and rows move between tasks"


@pytest.fixture(scope="module")
def people(spark, tmp_path_factory):
    """Four files."""
    frame = spark.read.parquet(write_input(tmp_path_factory.mktemp("people") / "in"))
    frame.createOrReplaceTempView("repeated_people")
    return frame


@pytest.fixture
def blind(monkeypatch):
    """A Spark before its checksums, whichever runs the test."""
    monkeypatch.setattr(repeated, "notices", lambda session: False)


def by_chance(frame, name="unit"):
    """A column that every attempt draws anew."""
    from pyspark.sql.functions import udf

    def draw(number):
        import os

        return int.from_bytes(os.urandom(2), "little") % 500

    return frame.withColumn(name, udf(draw, "int").asNondeterministic()("id"))


def by_pandas(people):
    """An aggregate in Python, of floats: it follows from the order of the rows, and is the code of others."""
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    def total(values):
        return float(values.sum())

    total.__annotations__ = {"values": pd.Series, "return": float}
    return people.groupBy("smoker").agg(pandas_udf(total, "double")("age").alias("total"))


def refusal(frame, *, is_moved: bool) -> str | None:
    """What is named as the reason, if there is one."""
    try:
        repeated.check_repeats(frame, is_moved=is_moved)
    except JobError as error:
        return str(error).partition("again (")[2].partition(")")[0]
    return None


def sql(text):
    return lambda people: people.sparkSession.sql(text)


SAME = {
    "files": lambda people: people,
    "a condition": lambda people: people.where("age > 3").withColumn("more", people.age + 1),
    "a shuffle": lambda people: people.repartition(3),
    "a shuffle by value": lambda people: people.repartition(3, "id"),
    "an order": lambda people: people.orderBy("age"),
    "a join": lambda people: people.join(people.selectExpr("id", "age AS again"), "id"),
    "itself twice": lambda people: people.union(people),
    "counts": lambda people: people.groupBy("smoker").count(),
    "sums of whole numbers": lambda people: people.groupBy("smoker").sum("id"),
    "different rows": lambda people: people.distinct(),
    "a list": lambda people: people.sparkSession.createDataFrame([(1, "a"), (2, "b")], "x int, y string"),
    "a long list": lambda people: people.sparkSession.createDataFrame([(number,) for number in range(5000)], "x int"),
    "numbers": lambda people: people.sparkSession.range(10),
    "rows of a query": sql("SELECT * FROM VALUES (1, 2) t(a, b)"),
    "a view and a mean": sql("SELECT * FROM repeated_people WHERE age > (SELECT avg(age) FROM repeated_people)"),
    "a table in a condition": sql("SELECT * FROM repeated_people WHERE id IN (SELECT id + 1 FROM repeated_people)"),
    "a named query": sql("WITH a AS (SELECT * FROM repeated_people) SELECT * FROM a JOIN a b USING (id)"),
    "functions of Spark": lambda people: people.selectExpr(
        "upper(substring(string(id), 1, 2)) AS a",
        "CASE WHEN age > 3 THEN round(age, 1) ELSE coalesce(age, 0) END AS b",
        "date_add(DATE '2024-01-31', int(id % 9)) AS c",
        "regexp_replace(concat_ws('-', id, smoker), '-', ':') AS d",
        "transform(array(id, id + 1), x -> x * 2) AS e",
        "map('a', named_struct('b', age)) AS f",
        "to_timestamp('2024-01-31 10:00:00') + INTERVAL 1 DAY AS g",
        "id IN (1, 2, 3) AND smoker IS NOT NULL OR age BETWEEN 1 AND 2 AS h",
        "split(string(id), '1')[0] LIKE 'a%' AS i",
        "hash(id) + xxhash64(age) AS j",
        "decimal(id) / 3 AS k",
        "current_date() AS l",
        "try_cast(smoker AS int) AS m",
    ),
    "several rows of one": lambda people: people.selectExpr("id", "explode(array(1, 2)) AS e"),
}
OTHER = {
    "a function of Python": (by_chance, "PythonUDF", False),
    "chance": (lambda people: people.where("rand() < 0.5"), "Rand", False),
    "a cipher": (lambda people: people.selectExpr("aes_encrypt(string(id), '0000111122223333') AS c"), "AesEncrypt", False),
    "an aggregate of pandas": (by_pandas, "PythonUDAF", True),
    "a map": (lambda people: people.mapInArrow(lambda batches: batches, people.schema), r"(Python)?MapInArrow", False),
    "an RDD": (
        lambda people: people.sparkSession.createDataFrame(people.rdd.map(lambda row: (row.id,)), "id long"),
        "LogicalRDD",
        True,
    ),
    "a sample": (lambda people: people.sample(0.5), "Sample", False),
    "a cache of chance": (lambda people: by_chance(people).cache().where("id > 1"), "PythonUDF", False),
    "chance behind a shuffle": (lambda people: people.where("rand() < 0.5").repartition(2), "Rand", True),
    "a limit": (lambda people: people.limit(10), "GlobalLimit", True),
    "a window": (sql("SELECT *, row_number() OVER (ORDER BY smoker) AS r FROM repeated_people"), "Window", True),
    "one row of several": (lambda people: people.dropDuplicates(["smoker"]), "Deduplicate", True),
    "sums of floats": (lambda people: people.groupBy("smoker").sum("age"), "Sum", True),
    "a table by chance": (
        sql("SELECT * FROM repeated_people WHERE id IN (SELECT id FROM repeated_people WHERE rand() < 0.5)"),
        "ListQuery",
        True,
    ),
}


@pytest.mark.parametrize("way", SAME)
def test_what_is_the_same_at_every_attempt_passes(people, blind, way):
    assert refusal(SAME[way](people), is_moved=True) is None


@pytest.mark.parametrize("way", OTHER)
def test_what_may_vary_is_refused_if_rows_move(people, blind, way):
    make, reason, moves = OTHER[way]
    frame = make(people)
    assert re.fullmatch(reason, refusal(frame, is_moved=True) or "")
    assert (refusal(frame, is_moved=False) is not None) == moves


def test_a_spark_without_checksums_is_known_by_its_settings(spark, people):
    from support.spark import settings

    by_version = repeated.version_of(spark.version) >= repeated.NOTICES
    assert repeated.notices(spark) == by_version
    if by_version:
        with settings(spark, **{repeated.CHECKSUMS[1]: "false"}):
            assert not repeated.notices(spark)
            assert refusal(by_chance(people), is_moved=True) == "PythonUDF"


def test_jobs_are_refused_before_anything_is_spent(people, tmp_path, blind):
    from dpcore.accounting import Ledger

    Ledger.create(tmp_path / "a.ledger", epsilon=9.0, unit="unit")
    Ledger.create(tmp_path / "b.ledger", epsilon=9.0)
    varying = by_chance(people)
    with pytest.raises(JobError, match=WORDS.format("PythonUDF")):
        privatize(varying, JOB | {"ledger": {"path": str(tmp_path / "a.ledger")}})
    for frame, job in {varying: COUNT | {"privacy": JOB["privacy"]}, varying.repartition(2): COUNT}.items():
        path = tmp_path / ("a.ledger" if "unit" in job["privacy"] else "b.ledger")
        with pytest.raises(JobError, match="PythonUDF"):
            release(frame, job | {"ledger": {"path": str(path)}, "output": {"path": str(tmp_path / "answers.json")}})
    assert [list(Ledger(tmp_path / name).entries()) for name in ("a.ledger", "b.ledger")] == [[], []]
    assert release(varying, COUNT).value >= 0  # no row moves


def written_while_an_executor_is_lost(spark, frame, folder) -> tuple[int, str | None]:
    """Privatise, and kill the executors that the first files come from before the others are read; which were killed, and the error."""
    pending = privatize(frame, JOB)
    made, killed = pending._plan.rows, []

    def slowly(rows):
        def wait(batches):
            from pyspark import TaskContext

            if TaskContext.get().partitionId() > 1:
                time.sleep(3)
            yield from batches

        return rows.mapInArrow(wait, rows.schema)

    def rows(key):
        found, covers = made(key)
        return slowly(found), covers

    def look(done, total):
        if not killed and len(list(folder.parent.glob(f".{folder.name}.*.spill/*"))) >= 1:
            killed.append(kill_executor(spark))

    pending._plan.rows = rows
    try:
        pending.write(folder, progress=look)
    except StorageError as error:
        return len(killed), str(error)
    return len(killed), None


def test_a_lost_executor_between_map_and_write(spark, people, tmp_path, monkeypatch):
    """The rows of a unit are moved twice. Without checksums a varying frame is refused, and the twin that is not loses records."""
    steady = people.selectExpr("*", "id % 500 AS unit")
    killed, failed = written_while_an_executor_is_lost(spark, steady, tmp_path / "steady")
    assert (killed, failed) == (1, None)
    assert is_complete(rows_of(tmp_path / "steady"))
    executors(spark)
    varying = by_chance(people)
    if not repeated.notices(spark):
        with pytest.raises(JobError, match=WORDS.format("PythonUDF")):
            privatize(varying, JOB)
        monkeypatch.setattr("dpcore.spark.noise_plans.check_repeats", lambda frame, *, is_moved: None)
        killed, failed = written_while_an_executor_is_lost(spark, varying, tmp_path / "twin")
        assert (killed, failed) == (1, None)
        times = collections.Counter(rows_of(tmp_path / "twin")["id"].to_pylist())
        assert len(times) < ROWS or max(times.values()) > 1
        return
    killed, failed = written_while_an_executor_is_lost(spark, varying, tmp_path / "varying")
    assert killed == 1
    if failed is None:  # nothing was read yet that had to be thrown away, or all of it could be
        assert is_complete(rows_of(tmp_path / "varying"))
    else:
        assert "what Spark computed again had other rows than before, so it ended the job; nothing was published" in failed
        assert "write it to files, and pass what you read from them" in failed
        assert not (tmp_path / "varying").exists()


def test_parts_of_a_release_move_by_their_numbers(spark, people, monkeypatch):
    """Statistics that are merged by tasks go to the same one at every attempt, whatever they hold: their number alone decides."""
    from dpcore.spark import part_passes, partitions

    taken, rows = [], part_passes._rows

    def looking(parts, size):
        plan = parts._jdf.queryExecution().executedPlan().toString()
        taken.append([line for line in plan.splitlines() if "Exchange" in line])
        return rows(parts, size)

    monkeypatch.setattr(partitions, "DIRECT_BYTES", 0)
    monkeypatch.setattr(part_passes, "_rows", looking)
    assert round(release(people, COUNT | {"privacy": {"max_epsilon": 1e6}, "query": [COUNT["query"][0] | {"epsilon": 1e5}]}).value) == ROWS
    (moves,) = taken
    assert [re.search(r"Exchange (hashpartitioning\(place|SinglePartition)", line) is not None for line in moves] == [True, True]
    assert "hashpartitioning(place" in moves[-1]
