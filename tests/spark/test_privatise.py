"""Local privacy on Spark: the files, schema, metadata and law of one machine; every sink that could publish twice is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.accounting import Ledger
from dpcore.batch import estimate as local_estimate
from dpcore.batch import make_plan, parse_job
from dpcore.batch import privatize as local_privatize
from dpcore.errors import BudgetError, DataError, JobError, ParameterTypeError, StorageError
from dpcore.spark import estimate, privatize
from support.jobs import EVERY_MECHANISM, health_survey
from support.spark_noise import COLUMNS, ROWS, is_complete, job, noise_of, rows_of, write_input

SURVEY_ROWS = 6_000


@pytest.fixture(scope="module")
def people(spark, tmp_path_factory):
    """Where the rows are, and a frame of them."""
    path = write_input(tmp_path_factory.mktemp("people") / "in")
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def survey(tmp_path_factory) -> Path:
    """A column for each mechanism, nulls among them, as a file."""
    draw = np.arange(SURVEY_ROWS)
    texts = pa.array([["excellent", "good", "fair", "poor"][place % 4] for place in draw])
    table = health_survey(texts, pa.array(draw % 31), pa.array(np.array([0, 25, 50, 95, 100])[draw % 5]), pa.array(draw % 2))
    path = tmp_path_factory.mktemp("survey") / "survey.parquet"
    pq.write_table(table, path)
    return path


def survey_job(survey: Path, output: Path) -> dict:
    columns = [{"name": name, "epsilon": 1.0} | said for name, said in EVERY_MECHANISM.items()]
    columns = [each | {"missing": False} if each["name"] == "binary" else each for each in columns]
    return {
        "version": 1,
        "input": {"path": str(survey)},
        "output": {"path": str(output)},
        "privacy": {"max_epsilon": 16.0, "max_delta": 1e-5},
        "testing": {"key_hex": "07" * 32},
        "column": columns,
    }


def test_every_mechanism_has_the_schema_and_the_metadata_of_one_machine_and_estimates_agree(spark, survey, tmp_path):
    said = survey_job(survey, tmp_path / "local.parquet")
    local_privatize(make_plan(parse_job(said)))
    written = privatize(spark.read.parquet(str(survey)).repartition(3), said).write(tmp_path / "spark")
    assert (written.rows, written.files) == (SURVEY_ROWS, 3)
    wanted = pq.read_schema(tmp_path / "local.parquet")
    for file in (tmp_path / "spark").iterdir():
        assert pq.read_schema(file).equals(wanted, check_metadata=True)
    here, there = local_estimate(tmp_path / "local.parquet"), local_estimate(tmp_path / "spark")
    for one, other in zip(here.columns, there.columns, strict=True):
        distance = np.abs(np.asarray(one.estimate.value) - np.asarray(other.estimate.value))
        assert (distance <= 6 * math.sqrt(2) * np.asarray(one.estimate.stderr)).all(), one.column.name
    assert json.dumps(estimate(tmp_path / "spark").document(), default=repr) == json.dumps(there.document(), default=repr)


def test_estimates_of_one_file_are_those_of_one_machine(spark, people, tmp_path):
    privatize(people.coalesce(1), job()).write(tmp_path / "out")
    (file,) = (tmp_path / "out").iterdir()
    for columns in (None, ["smoker"]):
        here, there = local_estimate(file, columns=columns), estimate(file, columns=columns)
        assert repr(here.document()) == repr(there.document())


@pytest.mark.parametrize("output_format", ["arrow", "csv"])
def test_other_formats_are_those_of_one_machine(people, tmp_path, output_format):
    written = privatize(people, job()).write(tmp_path / "out", format=output_format)
    assert written.rows == ROWS
    found = local_estimate(tmp_path / "out")
    assert found.rows == ROWS
    assert not found.secure


def test_a_keyed_job_repeats_its_bits_and_other_jobs_do_not(people, tmp_path):
    for name, keyed in (("one", True), ("two", True), ("three", False), ("four", False)):
        written = privatize(people, job(keyed=keyed)).write(tmp_path / name)
        assert written.secure is not keyed
        assert written.covers_attempts
    tables = [rows_of(tmp_path / name) for name in ("one", "two", "three", "four")]
    assert all(map(is_complete, tables))
    assert tables[0].equals(tables[1])
    noises = [noise_of(found) for found in tables[1:]]
    for place, one in enumerate(noises):
        for other in noises[:place]:
            # Two noises of some 2 to the 28 likely values are equal by chance: one pair in twelve of such outputs has an equal value.
            assert np.isin(one.round(9), other.round(9)).sum() < 12


def test_the_committer_of_spark_publishes_the_same_rows(people, tmp_path):
    privatize(people, job()).write(tmp_path / "one")
    written = privatize(people, job()).write(tmp_path / "two", committer="spark")
    assert written.rows == ROWS
    one, two = rows_of(tmp_path / "one"), rows_of(tmp_path / "two")
    assert one.to_pydict() == two.to_pydict()
    assert repr(local_estimate(tmp_path / "one").columns[0].estimate) == repr(local_estimate(tmp_path / "two").columns[0].estimate)
    assert repr(estimate(tmp_path / "two").document()["columns"]) == repr(local_estimate(tmp_path / "one").document()["columns"])


def test_reports_that_spark_has_no_type_for_are_refused_with_its_committer(spark, survey, tmp_path):
    frame = spark.read.parquet(str(survey))
    column = {"name": "hashing", "epsilon": 1.0} | EVERY_MECHANISM["hashing"] | {"unknown": "fair"}
    said = {"version": 1, "privacy": {"max_epsilon": 1.0}, "column": [column]}
    with pytest.raises(JobError, match="Spark has no type like"):
        privatize(frame, said).write(tmp_path / "out", committer="spark")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"mode": "append"}, "another noise"),
        ({"mode": "ignore"}, "not made"),
        ({"format": "jdbc"}, "two noises"),
        ({"format": "foreach"}, "two noises"),
        ({"format": "foreachPartition"}, "two noises"),
        ({"format": "kafka"}, "two noises"),
        ({"format": "memory"}, "noisy frame"),
        ({"format": "console"}, "before the job is complete"),
        ({"format": "orc"}, "metadata"),
        ({"format": "com.example.Unknown"}, "not known to publish each record once"),
        ({"format": "delta"}, "does not have it"),
        ({"format": "iceberg"}, "does not have it"),
        ({"path": "s3a://bucket/out"}, "without renames"),
        ({"path": "gs://bucket/out"}, "without renames"),
        ({"path": "ftp://host/out"}, "without renames"),
    ],
)
def test_sinks_that_could_publish_twice_are_refused_with_the_reason(people, tmp_path, arguments, reason):
    pending = privatize(people, job())
    with pytest.raises(JobError, match=reason):
        pending.write(**{"path": tmp_path / "out"} | arguments)
    assert list(tmp_path.iterdir()) == []


def test_version_2_of_the_committer_is_refused(spark, people, tmp_path):
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    name = "mapreduce.fileoutputcommitter.algorithm.version"
    before = hadoop.get(name)
    hadoop.set(name, "2")
    try:
        with pytest.raises(JobError, match="version 2 shows the files of a task before the job is complete"):
            privatize(people, job()).write(tmp_path / "out", committer="spark")
    finally:
        hadoop.set(name, before or "1")


def test_an_output_that_exists_is_kept_unless_it_is_to_be_replaced(people, tmp_path):
    out = tmp_path / "out"
    privatize(people, job()).write(out)
    before = rows_of(out)
    with pytest.raises(JobError, match="exists"):
        privatize(people, job(testing={"key_hex": "11" * 32})).write(out)
    assert rows_of(out).equals(before)
    privatize(people, job(testing={"key_hex": "11" * 32})).write(out, mode="overwrite")
    assert is_complete(rows_of(out))
    assert not rows_of(out).equals(before)
    (out / "notes.txt").write_text("of someone else")
    with pytest.raises(JobError, match=r"notes\.txt"):
        privatize(people, job()).write(out, overwrite=True)
    file = tmp_path / "file.parquet"
    file.write_bytes(b"")
    with pytest.raises(JobError, match="is a file"):
        privatize(people, job()).write(file, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.parquet", "out"]


def test_a_pending_write_is_written_once_and_is_no_frame(people, tmp_path):
    pending = privatize(people, job())
    pending.write(tmp_path / "out")
    with pytest.raises(JobError, match="has been written"):
        pending.write(tmp_path / "again")
    shown = {name for name in dir(pending) if not name.startswith("_")}
    assert shown == {"guarantee", "job", "privacy", "schema", "write"}
    assert type(pending).__mro__[1] is object


def test_a_cell_that_nothing_stands_for_ends_the_job_and_is_not_quoted(spark, tmp_path):
    frame = spark.range(100).selectExpr("id", "IF(id = 77, NULL, id * 1.25D) AS age", "id = 3 AS smoker")
    said = job(column=[{key: value for key, value in each.items() if key != "missing"} for each in COLUMNS])
    with pytest.raises(DataError, match=r"^column 'age': ") as caught:
        privatize(frame, said).write(tmp_path / "out")
    assert "77" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_a_job_needs_is_checked_before_anything_runs(spark, people, tmp_path):
    with pytest.raises(ParameterTypeError, match="frame must be a pyspark"):
        privatize([1, 2], job())
    with pytest.raises(ParameterTypeError, match="job must be"):
        privatize(people, 5)
    with pytest.raises(JobError, match="no column 'weight'"):
        privatize(people, job(column=[COLUMNS[0] | {"name": "weight"}]))
    with pytest.raises(JobError, match="has type string"):
        privatize(people.selectExpr("id", "string(age) AS age", "smoker"), job())
    with pytest.raises(BudgetError):
        privatize(people, job(privacy={"max_epsilon": 1.0}))
    path = tmp_path / "job.toml"
    path.write_text(
        'version = 1\n[input]\npath = "people"\n[output]\npath = "x.parquet"\n[privacy]\nmax_epsilon = 1\n'
        '[[column]]\nname = "smoker"\nmechanism = "binary"\nepsilon = 1\nmissing = false\n'
    )
    assert privatize(people, path).schema.names == ["smoker"]


def test_a_frame_without_rows_gives_a_table_without_rows(people, tmp_path):
    written = privatize(people.where("id < 0"), job()).write(tmp_path / "out")
    assert (written.rows, written.files) == (0, 1)
    assert rows_of(tmp_path / "out").num_rows == 0


def test_a_source_that_cannot_name_its_rows_is_covered_for_the_published_attempt_only(spark, people, tmp_path):
    frame = spark.createDataFrame([(0, 1.0, True), (1, 2.0, False)], "id bigint, age double, smoker boolean")
    assert not privatize(frame, job()).write(tmp_path / "one").covers_attempts
    joined = people.join(people.selectExpr("id", "age AS other"), "id")
    written = privatize(joined, job()).write(tmp_path / "two")
    assert not written.covers_attempts
    assert is_complete(rows_of(tmp_path / "two"))


def test_an_input_that_changes_while_it_is_read_ends_the_job(spark, tmp_path):
    path = Path(write_input(tmp_path / "in"))
    pending = privatize(spark.read.parquet(str(path)), job())
    whole = pending._plan.rows

    def change(key):
        rows = whole(key)
        (path / "in-3.parquet").unlink()
        pq.write_table(pq.read_table(path / "in-2.parquet"), path / "in-3.parquet", compression="none")
        return rows

    pending._plan.rows = change
    with pytest.raises(StorageError):
        pending.write(tmp_path / "out")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in"]


def ledger_job(tmp_path: Path, **sections) -> dict:
    if not (tmp_path / "people.ledger").exists():
        Ledger.create(tmp_path / "people.ledger", epsilon=5.0)
    return job(keyed=False, ledger={"path": str(tmp_path / "people.ledger")}, **sections)


def test_a_ledger_pays_once_for_a_run_and_knows_its_output(people, tmp_path):
    written = privatize(people, ledger_job(tmp_path)).write(tmp_path / "out")
    ledger = Ledger(tmp_path / "people.ledger")
    (entry,) = ledger.entries()
    assert (entry.state, entry.id, ledger.spent.epsilon) == ("done", written.entry, 2.0)
    with pytest.raises(JobError, match="already published"):
        privatize(people, ledger_job(tmp_path)).write(tmp_path / "out")
    assert Ledger(tmp_path / "people.ledger").spent.epsilon == 2.0
    (tmp_path / "out" / "part-00000.parquet").write_bytes(b"changed")
    with pytest.raises(JobError, match="that is not what is there now"):
        privatize(people, ledger_job(tmp_path)).write(tmp_path / "out")
    privatize(people, ledger_job(tmp_path)).write(tmp_path / "out", overwrite=True)
    with pytest.raises(BudgetError):
        privatize(people, ledger_job(tmp_path)).write(tmp_path / "third")
    assert [each.state for each in Ledger(tmp_path / "people.ledger").entries()] == ["done", "done"]


def unit_job(path: str, output: Path, **privacy) -> dict:
    """Almost no noise, so that an answer of "a" is a row that is hidden."""
    column = {"name": "answer", "mechanism": "kary", "epsilon": 40.0, "categories": ["a", "b"], "missing": "a", "unknown": "a"}
    return {
        "version": 1,
        "keep": ["id"],
        "input": {"path": path},
        "output": {"path": str(output)},
        "privacy": {"max_epsilon": 200.0, "unit": "who", "max_rows_per_unit": 3} | privacy,
        "testing": {"key_hex": "05" * 32},
        "column": [column],
    }


@pytest.mark.parametrize("null_unit", ["drop", "own"])
def test_rows_that_are_too_many_of_a_unit_are_noised_as_missing_as_on_one_machine(spark, tmp_path, null_unit):
    rows = 4_000
    who = [None if place % 10 == 9 else f"person {place % 500}" for place in range(rows)]
    pq.write_table(pa.table({"id": np.arange(rows), "who": who, "answer": ["b"] * rows}), tmp_path / "in.parquet")
    said = unit_job(str(tmp_path / "in.parquet"), tmp_path / "local.parquet", null_unit=null_unit)
    local_privatize(make_plan(parse_job(said)))
    here = pq.read_table(tmp_path / "local.parquet")
    frame = spark.read.parquet(str(tmp_path / "in.parquet"))
    for name in ("one", "two"):
        privatize(frame.repartition(3), said).write(tmp_path / name)
    found = rows_of(tmp_path / "one")
    assert is_complete(found, rows)
    assert found.equals(rows_of(tmp_path / "two"))
    assert found["answer"].to_pylist().count("a") == here["answer"].to_pylist().count("a") > 1000
    kept = {}
    for row in found.to_pylist():
        if row["answer"] == "b":
            kept[who[row["id"]]] = kept.get(who[row["id"]], 0) + 1
    assert max(count for unit, count in kept.items() if unit is not None) == 3
    assert pq.read_schema(next((tmp_path / "one").glob("*.parquet"))).equals(here.schema, check_metadata=True)
    order = pa.concat_tables([pq.read_table(file) for file in sorted((tmp_path / "one").iterdir())])["id"].to_pylist()
    assert order != sorted(order)


def test_a_unit_that_may_end_the_job_is_refused(people):
    said = job(privacy={"max_epsilon": 9.0, "unit": "city", "max_rows_per_unit": 2})
    with pytest.raises(JobError, match="no column 'city'"):
        privatize(people, said)
    said = job(keep=[], privacy={"max_epsilon": 9.0, "unit": "id", "max_rows_per_unit": 2, "over_limit": "refuse"})
    with pytest.raises(JobError, match="outside the guarantee"):
        privatize(people, said)


def test_an_address_is_written_under_a_hidden_name_and_renamed(spark, people, tmp_path):
    """The way of hdfs:// and its like, on the file system that Hadoop has here."""
    from dpcore.spark.committed import _Writing, spark_schema
    from dpcore.spark.noise_plans import NoisePlan
    from dpcore.spark.outer_places import Address
    from dpcore.spark.privatising import job_of
    from dpcore.spark.sinks import sink_of

    def write(said, *, overwrite=False):
        plan = NoisePlan(people, job_of(said))
        sink = sink_of(spark, plan.job, tmp_path / "out", None, mode="error", overwrite=overwrite, committer="spark")
        sink = replace(sink, path=(tmp_path / "out").as_uri())
        return _Writing(plan, sink, spark_schema(plan.schema), None).to_place(Address(spark, sink, renames=True))

    said = ledger_job(tmp_path)
    said["privacy"] = {"max_epsilon": 2.0}
    assert write(said).entry == 1
    first = rows_of(tmp_path / "out")
    assert is_complete(first)
    with pytest.raises(JobError, match="exists"):
        write(said)
    assert write(said, overwrite=True).entry == 2
    assert is_complete(rows_of(tmp_path / "out"))
    assert not rows_of(tmp_path / "out").equals(first)
    refusing = job(column=[{key: value for key, value in COLUMNS[0].items() if key != "missing"}])
    nulls = spark.range(50).selectExpr("id", "IF(id = 7, NULL, 1.0D) AS age")
    plan = NoisePlan(nulls, job_of(refusing))
    sink = replace(sink_of(spark, plan.job, tmp_path / "no", None, mode="error", overwrite=False, committer="spark"))
    with pytest.raises(DataError):
        _Writing(plan, sink, spark_schema(plan.schema), None).to_place(Address(spark, sink, renames=True))
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("people")) == ["out"]
    assert [each.state for each in Ledger(tmp_path / "people.ledger").entries()] == ["done", "done"]
