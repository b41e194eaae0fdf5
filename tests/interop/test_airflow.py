"""The operator for Airflow on docs/interop/dbt-airflow.md, run as it is on SQLite: retries, cleared days, backfills, and what logs hold."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Importing Airflow makes its settings: it is imported in the processes that these tests start, which know where to.
try:
    importlib.metadata.version("apache-airflow")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("make test-interop PEER=airflow", allow_module_level=True)

from support import recipes
from support.recipes import DAYS, MARK, entries, failing_once, files_with_the_mark, left_in

pytestmark = [pytest.mark.long, pytest.mark.source_tree]

DRIVER = """
import json, sys
from datetime import datetime, timezone

sys.path.insert(0, "dags")
import ages

for day in sys.argv[1:]:
    run = ages.dag.test(logical_date=None if day == "none" else datetime.fromisoformat(day).replace(tzinfo=timezone.utc))
    (task,) = run.get_task_instances()
    print("\\n" + "ended", json.dumps([day, task.state, task.try_number]), flush=True)
"""
"""Runs the DAG for one day after the other, as the scheduler does: it tries again what asks for it."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of Airflow."""
    home = tmp_path_factory.mktemp("airflow")
    command = [Path(sys.executable).parent / "airflow", "db", "migrate"]
    subprocess.run(command, env=variables(home, home), check=True, capture_output=True, timeout=600)
    return home / "airflow.db"


@pytest.fixture
def survey(tmp_path: Path, database: Path) -> Path:
    """The folder of the job with its table, beside Airflow's, which has the DAG of the page for this folder and without the wait."""
    page = recipes.block("py", 2)
    for word in ("/srv/survey", "minutes=5"):
        assert page.count(word) == 1
    (tmp_path / "home/dags").mkdir(parents=True)
    (tmp_path / "survey").mkdir()
    text = page.replace("/srv/survey", str(tmp_path / "survey")).replace("minutes=5", "seconds=0")
    (tmp_path / "home/dags/ages.py").write_text(text, encoding="utf-8")
    shutil.copy(database, tmp_path / "home/airflow.db")
    recipes.write_people(tmp_path / "survey")
    return tmp_path / "survey"


def variables(home: Path, dags: Path) -> dict[str, str]:
    """The environment of Airflow."""
    told = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__DAGS_FOLDER": str(dags), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    told |= {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db", "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False"}
    return os.environ | recipes.on_path() | told


def start(survey: Path, *days: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Run the DAG for these days, in a process whose output has all logs."""
    home = survey.parent / "home"
    told = variables(home, home / "dags") | (environment or {})
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *days], cwd=home, env=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def ended(process: subprocess.Popen[str], survey: Path) -> tuple[list[list], str]:
    """The day, state and number of tries of each run, and the logs, which hold no cell; neither does Airflow's database."""
    logs = process.communicate(timeout=600)[0]
    found = [json.loads(line.removeprefix("ended ")) for line in logs.splitlines() if line.startswith("ended ")]
    assert process.returncode == 0, logs[-3000:]
    assert str(MARK) not in logs
    assert files_with_the_mark(survey.parent) == []  # in the file of the table it stands in binary
    return found, logs


def returned(survey: Path) -> list[str]:
    """What the tasks have returned to Airflow."""
    with sqlite3.connect(survey.parent / "home/airflow.db") as database:
        return sorted({json.loads(value) for (value,) in database.execute("select value from xcom where key = 'return_value'")})


def test_days_are_charged_once_and_a_backfill_ends_with_the_ledger(survey):
    recipes.make_job(survey, runs=2)
    found, logs = ended(start(survey, DAYS[0], DAYS[0], DAYS[1], DAYS[2], "none"), survey)
    assert found == [
        [DAYS[0], "success", 1],
        [DAYS[0], "success", 1],  # cleared, and run once more
        [DAYS[1], "success", 1],
        [DAYS[2], "failed", 1],  # by the ledger, which another try would not change
        ["none", "failed", 3],  # without a day nothing is asked
    ]
    assert logs.count("nothing was read, and nothing is spent") == 1
    assert logs.count("dpcore release ended with exit code 2\n") >= 1
    assert [(entry.state, entry.epsilon) for entry in entries(survey)] == [("done", 0.5)] * 2
    assert left_in(survey) == [f"ages-{day}.json" for day in DAYS[:2]]
    assert returned(survey) == sorted(entry.run for entry in entries(survey))


@pytest.mark.parametrize(
    ("fault", "states"),
    [
        ("before it is charged", ["done"]),
        ("when its noise is drawn", ["reserved", "done"]),
        ("when it is sealed", ["done"]),
        ("after it is published", ["done"]),
    ],
)
def test_a_retry_after_a_crash_releases_once(survey, fault, states):
    recipes.make_job(survey, runs=2)
    found, logs = ended(start(survey, DAYS[0], environment=failing_once(survey.parent, fault)), survey)
    assert found == [[DAYS[0], "success", 2]]
    assert "exit code -9: another try may help" in logs
    assert [entry.state for entry in entries(survey)] == states
    assert left_in(survey) == [f"ages-{DAYS[0]}.json"]
    assert ("nothing was read, and nothing is spent" in logs) == (fault in {"when it is sealed", "after it is published"})


def test_a_task_that_is_asked_to_end_ends_its_command(survey):
    recipes.make_job(survey, runs=2)
    process = start(survey, DAYS[0], environment=failing_once(survey.parent, "never, but it waits with its noise drawn"))
    while not (survey.parent / "waits").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    found, logs = ended(process, survey)
    assert found == [[DAYS[0], "success", 2]]
    assert "exit code 143: another try may help" in logs
    assert [(entry.state, entry.reason) for entry in entries(survey)] == [("failed", "interrupted"), ("done", None)]
