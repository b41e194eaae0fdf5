"""Releases on Spark: every way to ask gives the answer of one machine, no failure on the way changes it, and what is wrong is refused."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dpcore import PrivateTable
from dpcore.accounting import Ledger
from dpcore.batch import load_release_job, make_release_plan
from dpcore.batch import release as on_one_machine
from dpcore.errors import DataError, JobError, ParameterError, ParameterTypeError, StorageError
from dpcore.spark import part_passes, partitions, release, repeated_rows
from dpcore.testing import KeyedRandom
from support.every_query import job_text, others, table, weights
from support.jobs import KEY

ROWS, PEOPLE = 500, 60
PROVENANCE = {"run", "time", "input", "job"}
LIGHT = [
    {"name": "n", "kind": "count", "epsilon": 1.0},
    {"name": "sum", "kind": "sum", "column": "v", "lower": -1, "upper": 3, "missing": 2, "epsilon": 1.0},
]
MEANS = {"name": "means", "kind": "mean", "column": "w", "lower": 0, "upper": 4, "missing": 0, "epsilon": 9.0, "where": "p < 3"}
QUERIES = [
    *LIGHT,
    {"name": "g", "kind": "groups", "group_by": "g", "epsilon": 1.0, "delta": 0.01},
    MEANS | {"group_by": "g", "groups": "private"},
    {"name": "codes", "kind": "count_distinct", "column": "code", "max_values_per_unit": 2, "epsilon": 1.0},
]
UNIT = {"unit": "person", "max_rows_per_unit": 3, "max_epsilon": 100.0, "max_delta": 0.1}


@pytest.fixture
def folder(tmp_path):
    pq.write_table(table(ROWS, PEOPLE), tmp_path / "in.parquet", row_group_size=100)
    return tmp_path


def job(**changes):
    """A job on people, under the test key."""
    found = {"version": 1, "privacy": UNIT, "query": QUERIES, "testing": {"key_hex": KEY.hex()}} | changes
    return {key: value for key, value in found.items() if value is not None}


def written(folder, name, source="in.parquet", **changes):
    """A job file."""
    files = {"input": {"path": str(folder / source)}, "output": {"path": str(folder / f"{name}.json")}}
    path = folder / f"{name}.toml"
    path.write_text(job_text(files | job(**changes)))
    return path


def here(folder, source="in.parquet", **changes):
    """The document of one machine."""
    return on_one_machine(make_release_plan(load_release_job(written(folder, f"here-{source}", source, **changes))))


def said(document):
    return {key: value for key, value in document.items() if key not in PROVENANCE}


def answers(found):
    return {name: answer.document for name, answer in found.items()}


def by_name(document):
    return {answer["name"]: answer for answer in document["queries"]}


def read(spark, folder):
    return spark.read.parquet(str(folder / "in.parquet"))


def test_a_file_a_mapping_and_a_table_ask_the_same(spark, folder):
    wanted = here(folder)
    release(None, written(folder, "there"))
    assert said(json.loads((folder / "there.json").read_text())) == said(wanted)
    assert answers(release(read(spark, folder), job())) == by_name(wanted)
    one, other = (
        PrivateTable(frame, unit="person", max_rows_per_unit=3, rng=KeyedRandom(KEY)).where("p < 3")
        for frame in (read(spark, folder), table(ROWS, PEOPLE))
    )
    asked = [each.group_by("g", groups=["a", "b"]).mean("w", epsilon=1.0, lower=0, upper=4, missing=0) for each in (one, other)]
    assert asked[0].document == asked[1].document
    assert [row["value"] for row in asked[0].to_native().collect()] == asked[0].value.tolist()
    assert "Spark DataFrame" in repr(one)


def test_text_of_a_csv(spark, folder):
    rows = table(ROWS, PEOPLE).drop(["day", "paid"])
    pa_csv.write_csv(rows, folder / "in.csv")
    wanted = here(folder, "in.csv", query=LIGHT)
    release(None, written(folder, "there", "in.csv", query=LIGHT))
    assert said(json.loads((folder / "there.json").read_text())) == said(wanted)


@pytest.mark.parametrize("parts", [1, 7])
def test_partitions_do_not_matter(spark, folder, parts):
    assert answers(release(read(spark, folder).repartition(parts), job())) == by_name(here(folder))


def test_partitions_without_rows(spark, folder):
    few = read(spark, folder).repartition(5, "person").where("person = 3")
    pq.write_table(pa.Table.from_pandas(few.toPandas(), table(ROWS, PEOPLE).schema), folder / "few.parquet")
    assert answers(release(few, job(query=LIGHT))) == by_name(here(folder, "few.parquet", query=LIGHT))
    nobody = read(spark, folder).where("person = -1")
    pq.write_table(table(ROWS, PEOPLE).slice(0, 0), folder / "none.parquet")
    assert answers(release(nobody, job())) == by_name(here(folder, "none.parquet"))


def test_a_task_that_fails_gives_the_same_answer(spark, folder, monkeypatch):
    """The first attempt of each task dies after it has read some of its rows.

    Code of others is refused where Spark has no checksums; this code gives the same rows each time, which is said here.
    """
    monkeypatch.setattr(repeated_rows, "notices", lambda session: True)
    marks = folder / "marks"
    marks.mkdir()

    def failing(batches):
        import itertools
        import os
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        mark = Path(marks, f"{context.stageId()}-{context.partitionId()}")
        yield from itertools.islice(batches, 1)
        if not mark.exists():
            mark.touch()
            os._exit(1)
        yield from batches

    frame = read(spark, folder).repartition(2)
    assert answers(release(frame.mapInArrow(failing, frame.schema), job())) == by_name(here(folder))
    assert list(marks.iterdir())


def test_statistics_that_are_merged_by_tasks_are_the_same(spark, folder, monkeypatch):
    for module in (part_passes, partitions):
        monkeypatch.setattr(module, "DIRECT_BYTES", 0)
    assert answers(release(read(spark, folder).repartition(7), job(query=LIGHT))) == by_name(here(folder, query=LIGHT))
    monkeypatch.setattr(part_passes, "MOST_BYTES", 1)
    charged = written(folder, "large", ledger={"path": str(folder / "large.ledger")}, query=LIGHT, testing=None)
    ledger = Ledger.create(folder / "large.ledger", epsilon=50.0, delta=0.1, unit="person")
    with pytest.raises(JobError, match="statistics of all queries take 0 MiB, and at most 0 MiB fit"):
        release(read(spark, folder), charged)
    assert list(ledger.entries()) == []


def test_tasks_take_several_partitions_where_their_statistics_would_be_too_many(spark, folder, monkeypatch):
    """The bound is kept by fewer tasks, or, where these hold rows, by a refusal before the charge."""
    monkeypatch.setattr(partitions, "MOVED_BYTES", 1000)
    rows, tasks, bound = {"max_epsilon": 100.0, "max_delta": 0.1}, [], partitions.most_tasks
    monkeypatch.setattr(part_passes, "most_tasks", lambda size: tasks.append(bound(size)) or tasks[-1])
    frame = read(spark, folder).repartition(30)
    assert answers(release(frame, job(query=LIGHT, privacy=rows))) == by_name(here(folder, query=LIGHT, privacy=rows))
    assert 1 < max(tasks) < 30
    monkeypatch.setattr(partitions, "MOST_TASKS", 1000)
    charged = written(folder, "moved", ledger={"path": str(folder / "moved.ledger")}, query=LIGHT, testing=None)
    ledger = Ledger.create(folder / "moved.ledger", epsilon=50.0, delta=0.1, unit="person")
    with pytest.raises(JobError, match="and 30 tasks have them: more than 0 TiB together would move"):
        release(frame, charged)
    assert list(ledger.entries()) == []


def test_units_choose_as_many_rows_without_a_key(spark, folder):
    query = {"name": "n", "kind": "count", "epsilon": 1e6, "where": "v IS NULL OR v = v"}
    found = release(read(spark, folder), job(query=[query], testing=None, privacy=UNIT | {"max_epsilon": 1e6}))
    rows = [person for person in table(ROWS, PEOPLE).column("person").to_pylist() if person is not None]
    assert found.value == sum(min(rows.count(person), 3) for person in set(rows))
    assert found.document["noise"]


def test_the_ledger_pays_once_and_before_spark_begins(spark, folder):
    ledger = Ledger.create(folder / "study.ledger", epsilon=50.0, delta=0.1, unit="person")
    path = written(folder, "paid", ledger={"path": str(folder / "study.ledger")}, query=LIGHT, testing=None)
    release(read(spark, folder), path)
    assert [entry.state for entry in ledger.entries()] == ["done"]
    with pytest.raises(JobError, match="already published"):
        release(read(spark, folder), path)
    assert [entry.state for entry in ledger.entries()] == ["done"]


class Replacing:
    """A progress that writes another table over the input when a stage begins."""

    def __init__(self, folder, stage):
        self.folder, self.stage = folder, stage

    def begin(self, stage):
        if re.search(self.stage, stage):
            pq.write_table(table(ROWS, PEOPLE, seed=2), self.folder / "new.parquet")
            (self.folder / "new.parquet").replace(self.folder / "in.parquet")

    def update(self, rows, fraction):
        pass


@pytest.mark.parametrize("stage", ["counting", "adding up"])
def test_a_table_that_changes_after_it_was_planned(spark, folder, stage):
    with pytest.raises(StorageError, match=r"changed while it was read"):
        release(read(spark, folder), written(folder, "changed"), progress=Replacing(folder, stage))
    assert not (folder / "changed.json").exists()


def test_a_cell_without_a_declaration_is_named_by_its_column(spark, folder):
    query = {"name": "sum", "kind": "sum", "column": "v", "lower": -1, "upper": 3, "epsilon": 1.0}
    with pytest.raises(DataError, match="column 'v' holds a cell that is") as caught:
        release(read(spark, folder), job(query=[query]))
    assert "Spark" not in str(caught.value)


def test_what_is_no_table_or_no_job_is_refused(spark, folder):
    with pytest.raises(ParameterTypeError, match=r"frame must be a pyspark.sql.DataFrame, got Column"):
        release(read(spark, folder)["v"], job())
    with pytest.raises(ParameterError, match="is a stream"):
        release(spark.readStream.format("rate").load(), job())
    with pytest.raises(ParameterTypeError, match="job must be the path of a TOML file"):
        release(read(spark, folder), 5)
    with pytest.raises(JobError, match="there is no column 'w'"):
        release(read(spark, folder).drop("w"), job())
    with pytest.raises(StorageError, match="no such file or folder"):
        release(None, written(folder, "nothing", "absent.parquet"))
    (folder / "in.arrow").touch()
    with pytest.raises(JobError, match="Spark reads no Arrow files"):
        release(None, written(folder, "arrow", "in.arrow"))


def test_a_public_table_of_spark_is_looked_up(spark, folder):
    public = spark.read.parquet(str(weights(folder)))
    people = PrivateTable(read(spark, folder), rng=KeyedRandom(KEY))
    found = people.lookup(public, key="g", columns=["weight"]).sum("weight", epsilon=1.0, lower=0, upper=4, missing=0)
    wanted = PrivateTable(table(ROWS, PEOPLE), rng=KeyedRandom(KEY)).lookup(
        pq.read_table(weights(folder)), key="g", columns=["weight"]
    ).sum("weight", epsilon=1.0, lower=0, upper=4, missing=0)  # fmt: skip
    assert found.value == wanted.value


# Tables that are joined

JOIN = {"path": "others.parquet", "unit": "who", "how": "inner", "per_unit": {"more": "max(x)"}}
JOINED = [*LIGHT, {"name": "more", "kind": "sum", "column": "more", "lower": 0, "upper": 5, "missing": 0, "epsilon": 1.0}]


def test_joined_tables_are_files_or_frames(spark, folder):
    """A job whose other table Spark reads, one with a frame in its place, and tables that are joined: the answers of one machine."""
    path = others(folder)
    join = JOIN | {"path": str(path)}
    wanted = by_name(here(folder, join=[join], query=JOINED))
    assert answers(release(read(spark, folder), written(folder, "file", join=[join], query=JOINED))) == wanted
    frame = spark.read.parquet(str(path)).repartition(3)
    assert answers(release(read(spark, folder), job(join=[JOIN], query=JOINED), joined={"others.parquet": frame})) == wanted
    one = PrivateTable(read(spark, folder), unit="person", max_rows_per_unit=3, rng=KeyedRandom(KEY))
    with one.join(PrivateTable(frame, unit="who").per_unit(more="max(x)"), how="inner").batch(epsilon=3.0) as batch:
        found = [
            batch.count(epsilon=1.0), batch.sum("v", epsilon=1.0, lower=-1, upper=3, missing=2),
            batch.sum("more", epsilon=1.0, lower=0, upper=5, missing=0),
        ]  # fmt: skip
    assert [each.document["value"] for each in found] == [wanted[name]["value"] for name in ("n", "sum", "more")]


def test_joined_tables_of_text(spark, folder):
    """Of a CSV, whose units are text as it is written."""
    columns = table(ROWS, PEOPLE)
    text = pa.array([None if each is None else f"p{each}" for each in columns.column("person").to_pylist()])
    pq.write_table(columns.set_column(0, "person", text), folder / "in.parquet")
    rows = pq.read_table(others(folder))
    names = pa.array([None if each is None else f"p{each}" for each in rows.column("who").to_pylist()])
    pa_csv.write_csv(pa.table({"who": names, "x": rows.column("x")}), folder / "others.csv")
    join = JOIN | {"path": str(folder / "others.csv"), "per_unit": {"more": {"sum": "CAST(x AS DOUBLE)", "lower": 0, "upper": 9}}}
    wanted = by_name(here(folder, join=[join], query=JOINED))
    assert answers(release(read(spark, folder), written(folder, "text", join=[join], query=JOINED))) == wanted


def test_what_cannot_be_joined_on_spark_is_refused(spark, folder):
    path = others(folder)
    frame = spark.read.parquet(str(path))
    with pytest.raises(JobError, match="a table is not joined to itself"):
        release(read(spark, folder), job(join=[JOIN | {"path": str(folder / "in.parquet"), "unit": "person"}], query=JOINED))
    with pytest.raises(ParameterError, match="joined has 'else'"):
        release(read(spark, folder), job(join=[JOIN], query=JOINED), joined={"else": frame})
    one = PrivateTable(read(spark, folder), unit="person", max_rows_per_unit=3)
    with pytest.raises(ParameterError, match="one engine"):
        one.join(PrivateTable(pq.read_table(path), unit="who").per_unit(more="max(x)"))
    with pytest.raises(JobError, match="is the same file as"):
        release(read(spark, folder), written(folder, "w", join=[JOIN | {"path": str(path)}], query=JOINED, output={"path": str(path)}))


def test_a_joined_table_that_changes_ends_the_job(spark, folder, monkeypatch):
    path = others(folder)
    run = part_passes.SparkPasses._run

    def changing(self, action, stage):
        pq.write_table(pq.read_table(path).slice(1), path)
        return run(self, action, stage)

    monkeypatch.setattr(part_passes.SparkPasses, "_run", changing)
    with pytest.raises(StorageError, match="the input changed while it was read"):
        release(read(spark, folder), job(join=[JOIN | {"path": str(path)}], query=JOINED))
