"""Runs of a schedule: settings of the command line, the id of a run, its log, and who spent."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime

import pytest

from dpcore.accounting import Ledger
from dpcore.jobs.settings import Settings, today
from support.jobs import COLUMNS, Workplace, edit, people, write_table
from support.releases import Counter, clinic

COUNT = {"a few": {"kind": "count", "column": "visits", "lower": 0, "upper": 100}}
KINDS = {"a few": {"kind": "histogram", "column": "region", "categories": ["north", "east"], "missing": "skip", "unknown": "skip"}}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", epsilon=10.0)


@pytest.fixture
def place(tmp_path, capsys, ledger):
    place = Counter(tmp_path, capsys)
    write_table(clinic(20), place.source)
    place.write_release(COUNT, ledger=ledger.path)
    return place


@pytest.fixture
def local(tmp_path, capsys, ledger):
    place = Workplace(tmp_path, capsys)
    write_table(people(20), place.source)
    place.write_job({"visits": COLUMNS["visits"]}, key=None, ledger=ledger.path)
    return place


def dry(place, *settings):
    done = place.run("--dry-run", *(word for setting in settings for word in ("--set", setting)))
    return done, json.loads(done.out) if done.code == 0 else None


# Settings


@pytest.mark.parametrize("quoted", ["{}", '"{}"', "'{}'"])
def test_quotes_of_a_text_do_not_become_part_of_it(place, quoted):
    done = place.release("--set", f"output.path={quoted.format(place.folder / 'b.json')}")
    assert done.code == 0, done.err
    assert (place.folder / "b.json").is_file()
    assert not any('"' in each.name or "'" in each.name for each in place.folder.rglob("*"))


@pytest.mark.parametrize(
    ("setting", "where", "value"),
    [
        ("privacy.max_epsilon=2", ("max_epsilon",), 2.0),
        ("query[0].epsilon=0.25", ("queries", 0, "privacy", "epsilon"), 0.25),
        ('query."a few".epsilon=0.25', ("queries", 0, "privacy", "epsilon"), 0.25),
        ("input.dataset=2026", ("dataset",), None),
        ("input.dataset=2026-11-23", ("dataset",), None),
        ('input.dataset="2026"', ("dataset",), None),
        ("privacy.max_delta=1e-9", ("max_delta",), 1e-9),
    ],
)
def test_a_key_of_the_job_is_set_with_its_type(place, setting, where, value):
    done, document = dry(place, setting)
    assert done.code == 0, done.err
    if value is not None:
        for part in where:
            document = document[part]
        assert document == value


def test_input_and_output_are_short_for_their_paths(place):
    other, target = place.folder / "other.parquet", place.folder / "new.json"
    write_table(clinic(31), other)
    done = place.release("--input", other, "--output", target)
    assert done.code == 0, done.err
    document = json.loads(target.read_text())
    assert (document["rows"], document["input"]["path"]) == (31, str(other))
    assert not place.target.exists()
    assert document["job"]["settings"] == [f"input.path={other}", f"output.path={target}"]


def test_privatize_takes_settings(local):
    target = local.folder / "elsewhere.parquet"
    done = local.privatize("--output", target, "--set", "column.visits.epsilon=0.5", "--set", "privacy.max_epsilon=0.5")
    assert done.code == 0, done.err
    assert json.loads(done.out)["epsilon"] == 0.5
    assert target.exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("privacy.max_epsilo=2", ("privacy.max_epsilo: unknown key", "did you mean 'max_epsilon'?")),
        ("privaci.max_epsilon=2", ("privaci: unknown key",)),
        ("query.fews.epsilon=1", ("no [[query]] of the job is named 'fews'",)),
        ("query.'a feww'.epsilon=1", ("named 'a feww'; did you mean 'a few'?",)),
        ("query[1].epsilon=1", ("the job has 1 [[query]], counted from 0",)),
        ("column[0].label=x", ("the job has no [[column]]",)),
        ("query[0].epsilon=many", ("query[0].epsilon", "'many'")),
        ("query[0].epsilon=-1", ("query[0].epsilon", "-1")),
        ("version.x=1", ("version is a value of the job, and no table",)),
        ("privacy", ("must be KEY=VALUE",)),
        ("a b=1", ("must be KEY=VALUE",)),
        ("REGION=1", ("no value of the job holds ${REGION}",)),
        ("DATE=yesterday", ("must be a date such as 2026-11-23",)),
        ("REGION=a\tb", ("must not hold control characters",)),
    ],
)
def test_a_wrong_setting_is_explained(place, setting, words):
    before = sorted(place.folder.rglob("*"))
    done = place.release("--set", setting)
    assert (done.code, done.out) == (2, ""), done.err
    for word in words:
        assert word in done.err, done.err
    assert sorted(place.folder.rglob("*")) == before


# Words of values


def test_the_date_is_that_of_the_run(place):
    edit(place, "answers.json", "answers-${DATE}.json")
    assert dry(place)[1]["output"]["path"].endswith(f"answers-{datetime.now(UTC):%Y-%m-%d}.json")
    assert dry(place, "DATE=2026-11-22")[1]["output"]["path"].endswith("answers-2026-11-22.json")


def test_other_words_come_from_the_command_and_never_from_the_environment(place, monkeypatch):
    edit(place, "answers.json", "answers-${REGION}-$${DATE}.json")
    monkeypatch.setenv("REGION", "south")
    done, _ = dry(place)
    assert done.code == 2
    assert "output.path: ${REGION} is not set; give --set REGION=VALUE (the environment is not read)" in done.err
    assert dry(place, "REGION=north")[1]["output"]["path"].endswith("answers-north-${DATE}.json")
    assert "did you mean 'REGIO'?" in dry(place, "REGIO=north")[0].err
    # A value is not looked at again.
    assert dry(place, "REGION=${DATE}")[1]["output"]["path"].endswith("answers-${DATE}-${DATE}.json")


@pytest.mark.parametrize("word", ["${region}", "${", "${}", "${A B}", "${1}"])
def test_what_is_no_word_is_refused(place, word):
    edit(place, "answers.json", f"{word}.json")
    done, _ = dry(place)
    assert done.code == 2
    assert "is no variable" in done.err
    assert "write $${ for a plain ${" in done.err


def test_words_stand_in_lists_and_tables(place):
    place.write_release({"a few": KINDS["a few"] | {"categories": ["north", "${WHERE}"]}})
    document = dry(place, "WHERE=east")[1]
    assert document["queries"][0]["categories"] == ["north", "east"]


def test_settings_are_read_in_any_order():
    one = Settings.read(["A=1", "x.y=2"], source="in", target="out")
    assert one.written() == ["input.path=in", "output.path=out", "x.y=2", "A=1"]
    assert today() == f"{datetime.now(UTC):%Y-%m-%d}"


# The id of a run


def test_a_retry_of_a_run_spends_nothing_and_another_run_on_the_same_name_is_refused(place, ledger):
    edit(place, "answers.json", "${REGION}-${DATE}.json")
    day = ("--set", "REGION=north", "--set", "DATE=2026-11-22")
    first = place.release(*day)
    assert first.code == 0, first.err
    document = json.loads(first.out)
    write_table(clinic(25), place.source)  # the table has changed: that must not show
    again = place.release(*day)
    assert (again.code, json.loads(again.out)) == (0, document)
    assert "already published" in again.err
    other = place.release(*day, "--set", "query[0].epsilon=0.5")
    assert other.code == 2
    assert "exists" in other.err
    versioned = place.release(*day, "--set", "input.dataset=v2")
    assert versioned.code == 2
    assert len(list(ledger.entries())) == 1
    tomorrow = place.release("--set", "REGION=north", "--set", "DATE=2026-11-23")
    assert tomorrow.code == 0, tomorrow.err
    one, two = ledger.entries()
    assert (one.run, two.run) == (document["run"], json.loads(tomorrow.out)["run"])
    assert one.run != two.run


def test_the_id_does_not_depend_on_how_settings_came_about(place):
    edit(place, "epsilon = 1.0", "epsilon = 0.5")
    written = dry(place)[1]["run"]
    edit(place, "epsilon = 0.5", "epsilon = 1.0")
    assert dry(place)[1]["run"] != written
    assert dry(place, "query[0].epsilon=0.5")[1]["run"] == written


def test_the_document_says_where_it_comes_from(place, ledger):
    done = place.release("--set", "input.dataset=v1", "--report", place.folder / "report")
    document = json.loads(done.out)
    assert document["input"] == {"path": str(place.source), "format": "parquet", "files": 1, "dataset": "v1"}
    assert document["job"]["path"] == str(place.job)
    assert document["job"]["settings"] == ["input.dataset=v1"]
    assert document["ledger"]["entry"] == 1
    assert abs(datetime.fromisoformat(document["time"]) - next(ledger.entries()).when).total_seconds() < 60
    assert "protects one row" in document["guarantee"]
    page = (place.folder / "report" / "answers.html").read_text(encoding="utf-8").replace("<wbr>", "")
    for word in (document["run"], document["job"]["sha256"], "input.dataset=v1", "Ledger entry"):
        assert word in page


def test_a_keyed_document_is_the_same_at_any_time(place):
    place.write_release(COUNT)
    first = place.release()
    assert first.code == 0, first.err
    assert json.loads(first.out)["time"] is None
    assert place.release("--overwrite").out == first.out


def test_entries_name_user_and_host(place, ledger):
    import pwd

    assert place.release().code == 0
    (entry,) = ledger.entries()
    assert (entry.user, entry.host) == (pwd.getpwuid(os.getuid()).pw_name, platform.node())
    shown = json.loads(place.dpcore("ledger", "show", ledger.path).out)["entries"][0]
    assert (shown["user"], shown["host"]) == (entry.user, entry.host)


# The log


def lines(log):
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("kind", ["place", "local"])
def test_a_log_has_the_time_and_the_id_of_the_run(kind, request):
    place = request.getfixturevalue(kind)
    log = place.folder / "logs" / "run.jsonl"
    assert place.run("--log", log).code == 0
    assert place.run("--log", log).code == 0
    said = lines(log)
    events = ["started", "planned", "published", "started", "planned", "already published"]
    assert [line["event"] for line in said if line["event"] != "stage"] == events
    assert len({line["run"] for line in said if line["run"] is not None}) == 1
    assert all(datetime.fromisoformat(line["time"]).tzinfo is not None for line in said)
    published = next(line for line in said if line["event"] == "published")
    assert (published["entry"], published["outputs"]) == (1, [str(place.target)])


def test_a_log_tells_why_a_run_was_refused(place):
    log = place.folder / "run.jsonl"
    done = place.release("--log", log, "--set", "query[0].epsilon=99", "--set", "privacy.max_epsilon=5")
    assert done.code == 2
    last = lines(log)[-1]
    assert (last["event"], last["reason"]) == ("refused", "job")
    assert "max_epsilon = 5" in last["message"]


def test_a_log_tells_the_class_of_what_rows_did_and_nothing_else(place):
    place.write_release({"h": {"kind": "histogram", "column": "region", "categories": ["north", "east"]}})
    log = place.folder / "run.jsonl"
    for option in ((), ("--curator",)):
        done = place.release("--log", log, *option)
        assert done.code == 3
        last = lines(log)[-1]
        assert (last["event"], last["reason"]) == ("failed", "data")
        assert "message" not in last


def test_the_log_is_the_same_whatever_the_rows_hold(place):
    said = []
    for rows in (20, 37):
        write_table(clinic(rows), place.source)
        log = place.folder / f"{rows}.jsonl"
        target = place.folder / "one.json"
        assert place.release("--log", log, "--overwrite", "--output", target).code == 0
        said.append([{key: value for key, value in line.items() if key not in ("time", "entry")} for line in lines(log)])
    assert said[0] == said[1]


@pytest.mark.parametrize("which", ["source", "job"])
def test_a_log_never_goes_into_another_file(place, which):
    victim = getattr(place, which)
    before = victim.read_bytes()
    done = place.release("--log", victim)
    assert done.code == 2
    assert "no log of dpcore" in done.err
    assert victim.read_bytes() == before


def test_a_log_that_cannot_be_opened_ends_the_run_before_it_spends(place, ledger):
    done = place.release("--log", place.folder / "in.parquet" / "run.log")
    assert done.code == 4
    assert not list(ledger.entries())
    assert place.release("--log", place.target).code == 2  # the output's own name


def test_estimate_writes_its_json_to_a_file_and_logs(local):
    assert local.privatize().code == 0
    target, log = local.folder / "found" / "estimates.json", local.folder / "run.jsonl"
    done = local.estimate("--output", target, "--log", log)
    assert done.code == 0, done.err
    assert json.loads(target.read_text()) == json.loads(done.out)
    assert [line["event"] for line in lines(log) if line["event"] != "stage"] == ["started", "done"]
    again = local.estimate("--output", target)
    assert again.code == 2
    assert "exists" in again.err
    assert local.estimate("--output", target, "--overwrite").code == 0
    assert local.estimate("--output", local.target, "--overwrite").code == 2


def test_the_example_of_a_schedule_runs(tmp_path, capsys, repository, monkeypatch):
    place = Workplace(tmp_path, capsys)
    monkeypatch.chdir(repository)
    target, budget = tmp_path / "answers.json", tmp_path / "daily.ledger"
    Ledger.create(budget, epsilon=2.0, delta=1e-5)
    options = ("--set", f"ledger.path={budget}", "--output", f"{tmp_path}/answers-${{REGION}}.json", "--set", "REGION=north")
    for _ in range(2):
        done = place.dpcore("release", "examples/daily.toml", *options)
        assert done.code == 0, done.err
    document = json.loads(target.with_name("answers-north.json").read_text())
    assert document["accounting"]["method"] == "zcdp"
    assert document["privacy"]["epsilon"] <= 1.0
    assert len(list(Ledger(budget).entries())) == 1
