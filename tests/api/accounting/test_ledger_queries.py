"""What a ledger says of what was asked: names, kinds, columns, filters and groups, in jobs and in frames, short and never of the data."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("pandas")

from dpcore import ParameterError, ParameterTypeError, Privacy, PrivateTable
from dpcore.accounting import Ledger
from dpcore.batch import make_plan, make_release_plan, parse_job, parse_release_job, privatize, release
from dpcore.cli import run
from dpcore.tables.recorded import LISTED, LONGEST, MOST, in_words, recorded
from support.extras import evaluated
from support.jobs import write_table
from support.releases import REGIONS, clinic

SUM = {"lower": 0, "upper": 20, "missing": 0}
BOTH = {"lower": [0, 0], "upper": [9, 99], "missing": [0, 0], "epsilon": 1.0}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "study.ledger", epsilon=10.0, delta=1e-3)


def queries_of(ledger):
    return [entry.queries for entry in ledger.entries()]


@evaluated
def test_a_question_about_a_frame_is_recorded_with_its_filter_and_groups(ledger):
    table = PrivateTable(clinic(60).to_pandas(), ledger=ledger)
    table.where("cost >= 18").group_by("region", groups=REGIONS).sum("visits", epsilon=0.5, **SUM)
    (queries,) = queries_of(ledger)
    assert queries == (
        {
            "name": "sum of visits",
            "kind": "sum",
            "columns": ["visits"],
            "where": "cost >= 18",
            "group_by": ["region"],
            "groups": list(REGIONS),
        },
    )
    assert in_words(queries[0]) == f"sum of visits: sum of visits where cost >= 18 by region, groups {', '.join(REGIONS)}"


@evaluated
def test_the_questions_of_a_batch_are_recorded_with_the_conditions_of_both(ledger):
    table = PrivateTable(clinic(60).to_pandas(), ledger=ledger)
    with table.where("cost >= 18").batch(epsilon=1.0) as batch:
        batch.where("visits > 1").count(epsilon=0.5, name="often")
        batch.count("visits", epsilon=0.5, lower=0, upper=3)
    (queries,) = queries_of(ledger)
    assert queries == (
        {"name": "often", "kind": "count", "where": "(cost >= 18) AND (visits > 1)"},
        {"name": "count of visits", "kind": "count", "columns": ["visits"], "where": "cost >= 18"},
    )


def test_the_queries_of_a_job_are_recorded(ledger, tmp_path):
    write_table(clinic(60), tmp_path / "in.parquet")
    job = {
        "version": 1, "input": {"path": str(tmp_path / "in.parquet")}, "output": {"path": str(tmp_path / "out.json")},
        "privacy": {"max_epsilon": 3.0}, "ledger": {"path": str(ledger.path)},
        "query": [
            {"name": "all", "kind": "sum", "column": "visits", "epsilon": 1.0, **SUM},
            {"name": "two", "kind": "covariance", "columns": ["visits", "cost"], **BOTH},
        ],
    }  # fmt: skip
    release(make_release_plan(parse_release_job(job)))
    (queries,) = queries_of(ledger)
    assert [(query["name"], query["kind"], query["columns"]) for query in queries] == [
        ("all", "sum", ["visits"]),
        ("two", "covariance", ["visits", "cost"]),
    ]


def test_the_columns_of_a_local_job_are_recorded(ledger, tmp_path):
    write_table(clinic(60), tmp_path / "in.parquet")
    job = {
        "version": 1, "input": {"path": str(tmp_path / "in.parquet")}, "output": {"path": str(tmp_path / "out.parquet")},
        "privacy": {"max_epsilon": 3.0}, "ledger": {"path": str(ledger.path)},
        "column": [{"name": "visits", "mechanism": "laplace", "lower": 0, "upper": 20, "missing": 0, "epsilon": 1.0}],
    }  # fmt: skip
    privatize(make_plan(parse_job(job)))
    assert queries_of(ledger) == [({"name": "visits", "kind": "laplace", "columns": ["visits"]},)]


def test_long_texts_lists_and_many_queries_are_cut():
    groups = [f"group {place}" for place in range(10**5)]
    (query,) = recorded([{"name": "n" * 10**6, "where": "x = 1 OR " * 10**5, "columns": None, "groups": groups, "group_by": ()}])
    assert len(query["name"]) == len(query["where"]) == LONGEST
    assert query["groups"] == {"first": groups[:LISTED], "count": 10**5}
    assert set(query) == {"name", "where", "groups"}
    many = recorded({"name": str(place), "kind": "count", "where": "x > 0 " * 30} for place in range(4096))
    assert many[-1] == {"more": 4096 - len(many) + 1}
    assert len(json.dumps(many)) < 1.1 * MOST
    hostile = recorded([{"name": "a", "kind": "mean", "groups": {f"{key}" * 300: [["\U0001f600" * 300] * 50] * 50 for key in range(50)}}])
    assert hostile == ({"name": "a", "kind": "mean"},)
    assert in_words(many[-1]) == f"… {many[-1]['more']} more"


def test_no_value_of_the_data_is_recorded(ledger):
    frame = clinic(60).to_pandas()
    frame["region"] = "Atlantis-7"
    table = PrivateTable(frame, ledger=ledger)
    table.histogram("region", epsilon=1.0, categories=["north"], missing="north", unknown="north")
    table.group_by("region", groups=["north"]).count(epsilon=1.0)
    assert b"Atlantis" not in ledger.path.read_bytes()


@evaluated
def test_show_prints_them_and_no_text_commands_the_terminal(ledger, capsys):
    table = PrivateTable(clinic(60).to_pandas(), ledger=ledger)
    table.where("region <> '\x1b[2J\u202e'").sum("visits", epsilon=0.5, **SUM)
    with table.batch(epsilon=1.0) as batch:
        for place in range(20):
            batch.sum("visits", name=f"sum {place}", weight=1.0, **SUM)
    assert run(["ledger", "show", str(ledger.path), "--table"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    joined = " ".join(shown.split())
    assert "sum 7: sum of visits" in joined
    assert "12 more" in joined
    assert run(["ledger", "show", str(ledger.path), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [len(entry["queries"]) for entry in entries] == [1, 20]


def test_a_ledger_of_before_opens_and_gets_them_with_its_next_spend(ledger):
    ledger.spend(Privacy(0.5), what="a histogram").done()
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("DROP TABLE asked")
    old = Ledger(ledger.path)
    assert queries_of(old) == [()]
    old.spend(Privacy(0.5), what="a mean", queries=[{"name": "mean", "kind": "mean"}]).done()
    assert queries_of(Ledger(ledger.path)) == [(), ({"name": "mean", "kind": "mean"},)]


def test_changed_queries_are_damage(ledger):
    ledger.spend(Privacy(0.5), what="a mean", queries=[{"name": "mean"}]).done()
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("UPDATE asked SET queries = '[]'")
    with pytest.raises(OSError, match="damaged"):
        list(ledger.entries())


@pytest.mark.parametrize("wrong", ["text", {"name": "a"}, ["a"], 5])
def test_queries_of_a_spend_are_mappings(ledger, wrong):
    with pytest.raises(ParameterTypeError, match="queries must be"):
        ledger.spend(Privacy(0.1), what="a", queries=wrong)


@pytest.mark.parametrize("wrong", [{"a": object()}, {"a": float("nan")}, {"a": "x" * 2**18}])
def test_queries_of_a_spend_are_short_and_json(ledger, wrong):
    with pytest.raises(ParameterError, match="queries must h"):
        ledger.spend(Privacy(0.1), what="a", queries=[wrong])
    assert ledger.spent.epsilon == 0


def test_a_question_about_a_frame_is_charged_again_and_a_job_is_not(ledger, tmp_path):
    """As docs/tables.md and docs/batch.md say: a job has its answer in its output, and a frame has none."""
    table = PrivateTable(clinic(60).to_pandas(), ledger=ledger)
    first, again = (table.sum("visits", epsilon=0.5, **SUM) for _ in range(2))
    assert first.value != again.value
    assert ledger.spent.epsilon == 1.0
    assert queries_of(ledger)[0] == queries_of(ledger)[1]
    write_table(clinic(60), tmp_path / "in.parquet")
    job = tmp_path / "job.toml"
    job.write_text(
        f'version = 1\n[input]\npath = "{tmp_path}/in.parquet"\n[output]\npath = "{tmp_path}/out.json"\n[ledger]\npath = "{ledger.path}"\n'
        '[privacy]\nmax_epsilon = 1.0\n[[query]]\nname = "sum"\nkind = "sum"\ncolumn = "visits"\nlower = 0\n'
        "upper = 20\nmissing = 0\nepsilon = 0.5\n",
        encoding="utf-8",
    )
    assert run(["release", str(job)]) == run(["release", str(job)]) == 0
    assert ledger.spent.epsilon == 1.5
