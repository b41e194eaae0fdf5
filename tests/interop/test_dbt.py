"""The recipes for dbt on docs/interop/dbt-airflow.md run as they are: what is charged, what a second try gives, and what logs hold."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbt.adapters.duckdb", reason="make test-interop PEER=dbt")

import duckdb

from support import recipes
from support.recipes import DAYS, MARK, block, entries, failing_once, files_with_the_mark, left_in

pytestmark = [pytest.mark.long, pytest.mark.source_tree]

PROJECT = {
    "dbt_project.yml": "name: survey\nversion: '1.0'\nprofile: survey\nmodel-paths: [models]\n",
    "profiles.yml": (
        "survey:\n  target: here\n  outputs:\n    here:\n      type: duckdb\n      path: private/survey.duckdb\n      threads: 1\n"
    ),
}


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the page, which dbt has read once: reading it takes longer than a run."""
    folder = tmp_path_factory.mktemp("dbt") / "survey"
    (folder / "models").mkdir(parents=True)
    (folder / "private").mkdir()
    shown = {"models/people.sql": block("jinja"), "models/ages.py": block("py", 0), "models/schema.yml": block("yaml")}
    for name, text in (PROJECT | shown | {"models/incomes.py": block("py", 1)}).items():
        (folder / name).write_text(text, encoding="utf-8")
    assert dbt(folder, "parse").returncode == 0
    return folder


@pytest.fixture
def project(parsed: Path, tmp_path: Path) -> Path:
    """A copy of it with the table, without a ledger."""
    folder = tmp_path / "survey"
    shutil.copytree(parsed, folder)
    answer_survey(folder, age=30)
    return folder


def answer_survey(folder: Path, age: int) -> None:
    """The table of the database that the models read."""
    found = recipes.people(age=age)
    with duckdb.connect(folder / "private/survey.duckdb") as database:
        database.execute("create or replace table answers as from found")
    del found


def dbt(folder: Path, *words: str, day: str = DAYS[0], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command of dbt, as the page has it."""
    page = recipes.command(1)
    assert page[:3] == ["dbt", "run", "--vars"], page
    variables = recipes.block("console", 1).split("'")[1]
    assert DAYS[2] in variables
    command = [Path(sys.executable).parent / "dbt", *words, "--vars", variables.replace(DAYS[2], day), "--profiles-dir", "."]
    told = {"DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "False", **(environment or recipes.on_path())}
    return subprocess.run(command, cwd=folder, env=os.environ | told, capture_output=True, text=True, check=False, timeout=300)


def table(folder: Path, name: str) -> list[tuple]:
    """The rows of a model."""
    with duckdb.connect(folder / "private/survey.duckdb") as database:
        return database.sql(f"from {name}").fetchall()


def logged(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    """All that dbt has said and written down; none of it is a cell."""
    files = files_with_the_mark(folder)
    assert [name for name in files if not name.startswith("private/")] == []
    written = (folder / "logs/dbt.log").read_text(encoding="utf-8")
    assert str(MARK) not in done.stdout + done.stderr + written
    return written


def test_a_day_is_charged_once_and_the_ledger_ends_them(project):
    recipes.make_job(project, runs=2)
    assert dbt(project, "run", "--exclude", "incomes").returncode == 0
    first = table(project, "ages")
    assert [region for region, _, _ in first] == ["north", "south"]
    assert all(abs(age - 30) < 10 * stderr < 40 for _, age, stderr in first)
    answer_survey(project, age=60)
    assert dbt(project, "run", "--exclude", "incomes").returncode == 0
    assert table(project, "ages") == first  # of the day, not of the table as it is now
    assert dbt(project, "run", "--exclude", "incomes", day=DAYS[1]).returncode == 0
    second = table(project, "ages")
    assert all(abs(age - 60) < 10 * stderr < 40 for _, age, stderr in second)
    assert [entry.state for entry in entries(project)] == ["done"] * 2
    refused = dbt(project, "run", "--exclude", "incomes", day=DAYS[2])
    assert refused.returncode == 1
    assert "dpcore release ended with exit code 2" in logged(refused, project)
    assert table(project, "ages") == second
    assert left_in(project) == [f"ages-{day}.json" for day in DAYS[:2]]
    assert len(entries(project)) == 2


@pytest.mark.parametrize(
    ("fault", "states"),
    [("when its noise is drawn", ["reserved", "done"]), ("when it is sealed", ["done"]), ("after it is published", ["done"])],
)
def test_the_next_run_after_a_crash_publishes_one_document(project, fault, states):
    recipes.make_job(project, runs=2)
    environment = failing_once(project.parent, fault)
    done = dbt(project, "run", "--exclude", "incomes", environment=environment)
    assert done.returncode == 1
    assert "ended with exit code -9" in logged(done, project)
    document = project / f"released/ages-{DAYS[0]}.json"
    earlier = document.read_bytes() if document.exists() else None
    assert (earlier is not None) == (fault == "after it is published")
    done = dbt(project, "retry", environment=environment)
    assert done.returncode == 0, done.stdout
    assert [entry.state for entry in entries(project)] == states
    assert left_in(project) == [document.name]
    assert earlier in (None, document.read_bytes())
    assert all(str(age) in document.read_text(encoding="utf-8") for _, age, _ in table(project, "ages"))
    logged(done, project)


def test_a_twin_that_overwrites_releases_twice(project):
    """The test above would not pass with another recipe."""
    recipes.make_job(project, runs=2)
    text = block("py", 0)
    assert text.count('"--json", ') == 1
    (project / "models/ages.py").write_text(text.replace('"--json", ', '"--json", "--overwrite", '), encoding="utf-8")
    found = []
    for _ in range(2):
        assert dbt(project, "run", "--exclude", "incomes").returncode == 0
        found.append(table(project, "ages"))
    assert found[0] != found[1]
    assert [entry.state for entry in entries(project)] == ["done"] * 2


def test_a_private_table_in_a_model_spends_at_each_run(project):
    recipes.make_job(project, runs=2)
    found = []
    for _ in range(2):
        assert dbt(project, "run", "--exclude", "ages").returncode == 0
        found.append(table(project, "incomes"))
    assert found[0] != found[1]
    assert len(entries(project)) == 2
    done = dbt(project, "run", "--exclude", "ages")
    assert done.returncode == 1
    assert "BudgetError" in logged(done, project)
    assert table(project, "incomes") == found[1]
    assert len(entries(project)) == 2


def test_a_row_that_fails_below_a_private_table_is_shown_to_nobody(project):
    """A view is read when the model runs, so that a cast fails inside dpcore; what DuckDB says of it would hold the cell."""
    recipes.make_job(project, runs=1)
    cast = "select person, region, cast('x' || age as integer) as age from {{ source('survey', 'answers') }}"
    (project / "models/people.sql").write_text("{{ config(materialized='view') }}\n" + cast, encoding="utf-8")
    done = dbt(project, "run", "--exclude", "ages")
    assert done.returncode == 1
    assert "its rows cannot be read; what the library says is not shown" in logged(done, project)
    assert [entry.state for entry in entries(project)] == ["failed"]
