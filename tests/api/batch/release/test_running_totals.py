"""Running totals of a schedule: what runs publish, keep and spend, and what is refused before a row is read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from dpcore import noise
from dpcore.accounting import Ledger
from dpcore.jobs.commands.answers_text import answer_table
from dpcore.mechanisms import RunningTotals
from dpcore.query.noise import APART
from dpcore.testing import KeyedRandom
from support.jobs import KEY
from support.running_totals import COUNTS, FIRST, STEPS, Series, week

TOTALS = np.cumsum(COUNTS)


def test_each_run_adds_a_step_and_the_budget_is_spent_once(tmp_path):
    series = Series(tmp_path)
    for number in range(1, STEPS + 1):
        answer = series.done(number)
        assert answer["value"] == pytest.approx(TOTALS[number - 1], abs=60)
        assert (answer["steps"], answer["taken"], answer["at"]) == (STEPS, number, week(number))
        assert answer["interval"][0] < answer["value"] < answer["interval"][1]
        assert answer["coverage"] == "at least"
    assert series.spent() == [1.0, 0.0, 0.0, 0.0]
    assert [entry.state for entry in Ledger(series.budget).entries()] == ["done"] * 4
    assert [entry.what.partition(" on ")[0] for entry in Ledger(series.budget).entries()] == [
        f"step {number} of 4 of 'visits'" for number in range(1, 5)
    ]


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_keyed_series_is_that_of_the_mechanism_bit_for_bit(tmp_path, delta):
    """The step is the position in the stream of the key; groups stand apart."""
    series = Series(tmp_path / "all", ledger=False, keyed=True, query={"delta": delta or None})
    found = [series.done(number)["value"] for number in range(1, STEPS + 1)]
    totals = RunningTotals(STEPS, 1.0, delta, relation="add_remove")
    assert found == totals.release(COUNTS, rng=KeyedRandom(KEY).at(0)).tolist()

    grouped = Series(tmp_path / "groups", ledger=False, keyed=True, query={"delta": delta or None, "group_by": "g", "groups": ["b", "a"]})
    found = [grouped.done(number)["value"] for number in range(1, STEPS + 1)]
    counts = [[sum(i % 3 == at for i in range(count)) for count in COUNTS] for at in (1, 0)]
    expected = [totals.release(each, rng=KeyedRandom(KEY).at(0, place * APART)).tolist() for place, each in enumerate(counts)]
    assert found == [list(each) for each in zip(*expected, strict=True)]
    words = noise.discrete_gaussian(np.zeros(STEPS, np.int64), totals.scale, rng=KeyedRandom(KEY).at(0))
    assert len(set(words.tolist())) == STEPS


def test_the_state_is_secret_and_is_wiped_after_the_last_step(tmp_path):
    series = Series(tmp_path, ledger=False, keyed=True)
    for number in range(1, STEPS + 1):
        before = series.state.open("rb") if number > 1 else None
        series.done(number)
        if before is not None:
            with before:
                assert set(before.read()) == {0}, "the bytes of the state before are overwritten"
        if os.name == "posix":
            assert stat.S_IMODE(series.state.stat().st_mode) == 0o600
            assert stat.S_IMODE(series.state.parent.stat().st_mode) == 0o700
        kept = series.kept()["kept"]
        assert kept is None if number == STEPS else kept[0][0] == list(COUNTS[:number])
        assert [path.name for path in series.state.parent.iterdir()] == [series.state.name]
    assert all("kept" not in json.loads(series.output(number).read_text()) for number in range(1, 5))
    assert series.run(5 - 1, "--overwrite")[0] == 0, "the last answer is published again"


def test_a_tree_keeps_its_open_nodes_alone(tmp_path):
    series = Series(tmp_path, query={"delta": None})
    for number in range(1, 4):
        series.done(number)
    assert [[node[0], node[1]] for node in series.kept()["kept"][0]] == [[2, 40], [1, 50]]


def test_a_run_that_is_repeated_publishes_what_is_stored(tmp_path):
    """By the same command; under another output; after the output was lost: never a second draw, and nothing is spent."""
    series = Series(tmp_path)
    series.done(1)
    answer = series.done(2)
    code, said = series.run(2)
    assert code == 0
    assert "already published" in said
    series.rows(2, 1000)  # other data: they are not read again
    (tmp_path / "in-2026-01-12.parquet").write_bytes((tmp_path / "in-2026-01-12.parquet").read_bytes()[:50])
    series.rows(2, 1000)
    assert series.done(2, "--overwrite") == answer
    other = tmp_path / "elsewhere" / "again.json"
    code, said = series.run(2, "--output", other)
    assert code == 0, said
    assert json.loads(other.read_text())["queries"][0] == answer
    assert "publishes its stored answer again" in said
    assert series.spent() == [1.0, 0.0, 0.0, 0.0]
    series.rows(2, COUNTS[1])
    assert series.done(3)["taken"] == 3


def test_steps_may_be_numbers_days_and_months(tmp_path):
    series = Series(tmp_path / "numbers", ledger=False, query={"step": "${STEP}", "first": None, "every": None})
    for number in (1, 2):
        code, said = series.run(number, "--set", f"STEP={number}")
        assert code == 0, said
        assert series.answer(number)["at"] == str(number)
    for every, dates in {"day": ("2026-01-05", "2026-01-06"), "month": ("2025-12-28", "2026-01-28")}.items():
        series = Series(tmp_path / every, ledger=False, query={"every": every, "first": dates[0], "step": "${STEP}"})
        for number, date in enumerate(dates, 1):
            code, said = series.run(number, "--set", f"STEP={date}")
            assert code == 0, said
            assert series.answer(number)["at"] == date


# Refusals: each names the key, its value, and what to do.


def refused(series, number, *more):
    before = series.spent() if series.has_ledger else None
    state = series.state.read_bytes() if series.state.exists() else None
    code, said = series.run(number, *more)
    assert code in {2, 4}, said
    assert not series.has_ledger or series.spent() == before, "a refusal spends nothing"
    assert (series.state.read_bytes() if series.state.exists() else None) == state
    return said


@pytest.mark.parametrize("ledger", [True, False])
def test_steps_that_are_skipped_repeated_or_out_of_order(tmp_path, ledger):
    series = Series(tmp_path, ledger=ledger)
    said = refused(series, 2)
    assert "query[0].step = '2026-01-12' is step 2, and there is no query[0].state" in said
    assert "begins with 2026-01-05" in said
    series.done(1)
    said = refused(series, 3)
    assert "query[0].step = '2026-01-19' is step 3" in said
    assert "2026-01-12 comes first" in said
    series.done(2)
    said = refused(series, 1, "--overwrite")
    assert "has step 2 (2026-01-12): steps are made once" in said
    assert "The next one is 2026-01-19" in said
    for date, words in {
        "2026-01-13": "step = 2026-01-13 is no step: there is one every week from first = 2026-01-05. Beside it are 2026-01-12 and "
        "2026-01-19: --set DATE=2026-01-12",
        "2026-02-02": "is beyond the last of steps = 4, 2026-01-26: the series has ended",
        "2026-01-27": "is beyond the last of steps = 4, 2026-01-26: the series has ended",
        "2025-12-29": "is before the first step, 2026-01-05",
        "2026-01-04": "is before the first step, 2026-01-05",
    }.items():
        code, said = series.run(1, "--set", f"query[0].step={date}")
        assert code == 2
        assert words in " ".join(said.split())


def test_no_row_is_read_for_a_refusal(tmp_path, monkeypatch):
    series = Series(tmp_path)
    series.done(1)

    def read(*_args, **_options):
        raise AssertionError("rows were read")

    monkeypatch.setattr("dpcore.query.local_backend.LocalPasses.add_up", read)
    refused(series, 3)
    series.output(1).unlink()
    assert series.run(1, "--overwrite")[0] == 0, "nor for a stored answer"


def test_a_restored_copy_is_refused(tmp_path):
    series = Series(tmp_path)
    series.done(1)
    copy = tmp_path / "copy"
    shutil.copy2(series.state, copy)
    series.done(2)
    newest = series.state.read_bytes()
    shutil.copy2(copy, series.state)
    for number in (1, 2, 3):
        said = refused(series, number, "--overwrite")
        assert "has step 1, but step 2 was published: it is an older copy" in said
        assert "Restore the newest copy of it" in said
    series.state.unlink()
    assert "is not there, but step 2 was published" in refused(series, 1, "--overwrite")
    series.state.write_bytes(newest)
    series.state.chmod(0o600)
    series.done(3)


def test_a_copy_that_goes_its_own_way_is_refused(tmp_path):
    """Two copies of one state, each with another answer of one step: the second one to be noted is none of the ledger's history."""
    series = Series(tmp_path)
    series.done(1)
    other = tmp_path / "other" / "visits.state"
    other.parent.mkdir()
    shutil.copy2(series.state, other)
    series.done(2)
    series.write(state=str(other))
    assert "older copy" in refused(series, 2, "--overwrite")
    assert "older copy" in refused(series, 3)


def test_of_two_copies_at_a_time_one_is_published(tmp_path, monkeypatch):
    """Both draw a step; the ledger takes the answer of the first, and the other one is published nowhere."""
    from dpcore.query.local_backend import LocalPasses

    series = Series(tmp_path)
    series.done(1)
    other = tmp_path / "other" / "visits.state"
    other.parent.mkdir()
    shutil.copy2(series.state, other)
    add_up, seen = LocalPasses.add_up, []

    def while_it_reads(self, *args, **options):
        if not seen:
            seen.append(None)
            series.write(state=str(other))
            seen.append(series.run(2, "--output", tmp_path / "out2" / "other.json"))
            series.write()
        return add_up(self, *args, **options)

    monkeypatch.setattr(LocalPasses, "add_up", while_it_reads)
    code, said = series.run(2)
    assert seen[1][0] == 0
    assert code == 4
    assert "another run has gone on from a copy of query[0].state" in " ".join(said.split())
    assert not series.output(2).exists()


def test_a_ledger_that_is_older_or_another_is_refused(tmp_path):
    series = Series(tmp_path)
    for number in (1, 2):
        series.done(number)
    ledger = series.budget.read_bytes()
    for number in (3, 4):
        series.done(number)
    series.output(4).unlink()
    series.budget.write_bytes(ledger)
    assert "the ledger has step 2 of another history" in refused(series, 4, "--overwrite")
    series.budget.unlink()
    Ledger.create(series.budget, epsilon=10.0, delta=1e-5, relation="add_remove")
    assert "the ledger has not been paid for this series" in refused(series, 4, "--overwrite")
    series.has_ledger = False
    series.write()
    assert 'ledger = "is not named", but the series' in refused(series, 4, "--overwrite")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 5}, "query[0].steps = 5, but the series"),
        ({"epsilon": 0.5}, "query[0].epsilon = 0.5, but the series"),
        ({"delta": 1e-7}, "query[0].delta = 1e-07"),
        ({"name": "others"}, 'query[0].name = "others"'),
        ({"first": "2025-12-29"}, 'query[0].first = "2025-12-29", but the series'),
        ({"column": "x", "lower": 0, "upper": 5}, "query[0].column"),
        ({"where": "x > 3"}, 'query[0].where = "x > 3"'),
        ({"group_by": "g", "groups": ["a", "b"]}, "query[0].group_by"),
        ({"max_steps_per_unit": 2}, "query[0].max_steps_per_unit = 2"),
    ],
    ids=str,
)
def test_a_state_of_another_job_is_refused(tmp_path, change, words):
    series = Series(tmp_path, ledger=False)
    series.done(1)
    series.write(**change)
    said = refused(series, 2)
    assert words in said
    assert "one job has one state" in said


def test_a_confidence_may_change_and_the_data_set_not(tmp_path):
    series = Series(tmp_path, ledger=False)
    series.done(1)
    wide = series.done(1, "--overwrite")
    series.write(confidence=0.5)
    narrow = series.done(1, "--overwrite")
    assert (narrow["value"], narrow["confidence"]) == (wide["value"], 0.5)
    assert narrow["interval"][1] < wide["interval"][1]
    assert series.done(2)["confidence"] == 0.5
    for key, value in {"privacy.max_epsilon": "1.5", "privacy.max_delta": "1e-5"}.items():
        code, said = series.run(2, "--overwrite", "--set", f"{key}={value}")
        assert code == 0, said
    for key, value in {"where": "x > 3", "privacy.unit": "person", "privacy.relation": "replace"}.items():
        more = (
            ("--set", "privacy.max_rows_per_unit=2")
            if value == "person"
            else ("--set", "query[0].where=x > 1")
            if value == "replace"
            else ()
        )
        code, said = series.run(3, "--set", f"{key}={value}", *more)
        assert code == 2
        assert f'{key} = "{value}", but the series' in said
    code, said = series.run(3, "--set", "input.dataset=other")
    assert code == 2
    assert 'input.dataset = "other", but the series' in said


@pytest.mark.parametrize("how", ["cut", "edited", "empty", "nothing of ours"])
def test_a_damaged_state_is_refused(tmp_path, how):
    series = Series(tmp_path)
    series.done(1)
    content = series.state.read_bytes()
    series.state.write_bytes(
        {"cut": content[:-20], "edited": content.replace(b'"step": 1', b'"step": 0'), "empty": b"", "nothing of ours": b"[1, 2]"}[how]
    )
    said = refused(series, 2)
    assert "is damaged: it was cut, edited or not written by dpcore. Restore the newest copy of it" in said


@pytest.mark.skipif(os.name != "posix", reason="rights and links of POSIX")
def test_a_state_that_others_may_read_or_that_has_another_name_is_refused(tmp_path):
    series = Series(tmp_path)
    series.done(1)
    series.state.chmod(0o644)
    assert "has the rights 0644, and others may read it" in refused(series, 2)
    series.state.chmod(0o600)
    os.link(series.state, tmp_path / "link")
    assert "has another name (a hard link)" in refused(series, 2)
    (tmp_path / "link").unlink()
    series.state.unlink()
    series.state.mkdir()
    assert "is no regular file" in series.run(2)[1]


def test_a_state_has_a_place_of_its_own(tmp_path):
    series = Series(tmp_path)
    for place, words in {
        tmp_path / "out" / "visits.state": "is beside output.path",
        tmp_path / "out" / f"total-{week(1)}.json": "the same file as",
        tmp_path / f"in-{week(1)}.parquet": "input.path",
        series.budget: "the same file as ledger.path",
    }.items():
        series.write(state=str(place))
        series.query["state"] = str(place)
        said = refused(series, 1)
        assert words in said, said
    series.write(state="s3://bucket/visits.state")
    assert "query[0].state = 's3://bucket/visits.state'" in refused(series, 1)
    series.write(state=str(tmp_path / "report" / "visits.state"))
    assert "is beside a file of --report" in refused(series, 1, "--report", tmp_path / "report")


@pytest.mark.parametrize(
    ("query", "privacy", "words"),
    [
        ({}, {"relation": "replace"}, "ask kind = 'count', which costs nothing"),
        ({"steps": 0}, {}, "steps must be in [1, 16384], got 0"),
        ({"steps": None}, {}, "query[0].steps"),
        ({"state": None}, {}, "query[0].state"),
        ({"first": None}, {}, "are required where step is a date"),
        ({"every": "year"}, {}, "every"),
        ({"step": "soon"}, {}, "step must be a date such as 2026-11-23, or a number, got 'soon'"),
        ({"step": 3}, {}, "first and every are for steps that are dates"),
        ({"step": 9, "first": None, "every": None}, {}, "step = 9 is beyond the last of steps = 4, 4"),
        ({"first": "2026-01-31", "every": "month"}, {}, "the day must be at most 28"),
        ({"first": "2025-12-06", "every": "month"}, {}, "Beside it are 2025-12-06 and 2026-01-06: --set DATE=2025-12-06"),
        ({"first": "9999-12-25"}, {}, "end after the year 9999"),
        ({"max_steps_per_unit": 5}, {}, "max_steps_per_unit must be in [1, steps = 4], got 5"),
        ({"group_by": "g", "groups": "private"}, {}, "is not for a running_total"),
        ({"steps": 16384, "group_by": "x", "groups": {"x": {"edges": list(range(500))}}}, {}, "must be at most 4194304"),
        ({"epsilon": None}, {}, "epsilon, or in its place weight"),
    ],
    ids=str,
)
def test_jobs_that_are_refused(tmp_path, query, privacy, words):
    series = Series(tmp_path, query=query, **privacy)
    assert words in " ".join(refused(series, 1).split())


def test_it_is_alone_in_its_job(tmp_path):
    series = Series(tmp_path)
    with series.job.open("a", encoding="utf-8") as file:
        file.write('[[query]]\nname = "n"\nkind = "count"\nepsilon = 0.1\n')
    assert "'visits' (running_total) must be the only [[query]] of its job" in " ".join(refused(series, 1).split())


def test_two_runs_of_one_series_at_a_time(tmp_path, monkeypatch):
    """The second one, with another output, is refused while the first one reads."""
    from dpcore.query.local_backend import LocalPasses

    series = Series(tmp_path)
    add_up, seen = LocalPasses.add_up, []

    def while_it_reads(self, *args, **options):
        if not seen:
            seen.append(None)
            seen.append(series.run(1, "--output", tmp_path / "out2" / "other.json"))
        return add_up(self, *args, **options)

    monkeypatch.setattr(LocalPasses, "add_up", while_it_reads)
    series.done(1)
    code, said = seen[1]
    assert code == 4
    assert "another run is using query[0].state" in said


# Guarantees in words, and other doors.


def test_every_text_says_whom_it_protects(tmp_path):
    series = Series(tmp_path / "event", ledger=False)
    series.done(1, "--report", tmp_path / "pages")
    document = json.loads(series.output(1).read_text())
    page = (tmp_path / "pages" / "total-2026-01-05.html").read_text()
    event = "All 4 steps of the series together spend this once, and it protects one event: what one row has in one step."
    assert event in document["guarantee"]
    assert str(answer_table(document).columns[0]._cells[0]) == "visits"
    assert "protects one event" in page
    person = Series(
        tmp_path / "person", ledger=False, query={"max_steps_per_unit": 2}, unit="person", max_rows_per_unit=2, relation="replace"
    )
    person.done(1, "--report", tmp_path / "pages of people")
    document = json.loads(person.output(1).read_text())
    assert "it protects what is in at most 2 steps: the job declares this, and nothing checks it" in document["guarantee"]
    assert "nothing enforces it from one file to the next" in (tmp_path / "pages of people" / "total-2026-01-05.html").read_text()
    assert document["queries"][0]["max_steps_per_unit"] == 2
    code, said = person.run(2, "--dry-run")
    assert code == 0, said


def test_frames_say_what_to_do(tmp_path):
    from dpcore.batch import parse_release_job
    from dpcore.errors import JobError
    from dpcore.frames import PrivateTable
    from dpcore.query.in_memory import make_unwritten_plan
    from support.jobs import read_table

    series = Series(tmp_path)
    table = PrivateTable(read_table(tmp_path / f"in-{week(1)}.parquet"), max_epsilon=1.0)
    with pytest.raises(AttributeError, match=r"goes on from one run of a job to the next, kind = \"running_total\" of dpcore release"):
        table.running_total(epsilon=1.0)
    query = series.query | {"step": str(FIRST)}
    job = {"version": 1, "input": {"path": str(tmp_path / f"in-{week(1)}.parquet")}, "output": {"path": "-"}, "privacy": series.privacy}
    with pytest.raises(JobError, match="ask it in a job that writes its answers"):
        make_unwritten_plan(parse_release_job(job | {"query": [query]}))


def test_the_ledger_reveals_nothing_that_is_not_published(tmp_path):
    """The digest that it keeps follows from what is released alone: not from the entries."""
    series = Series(tmp_path, ledger=False, keyed=True)
    other = Series(tmp_path / "other", ledger=False, keyed=True)
    series.done(1)
    other.rows(1, COUNTS[0] + 1)
    other.done(1)
    one, two = series.kept(), other.kept()
    assert one["kept"][0][0] != two["kept"][0][0]
    answers = one["kept"][0][1]
    expected = hashlib.sha256(json.dumps([one["before"], 1, answers], sort_keys=True).encode()).hexdigest()
    assert one["chain"] == expected
