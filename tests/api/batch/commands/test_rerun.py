"""The same job again, and a dry run of a job that would be refused: what they print, and that it never depends on the rows."""

from __future__ import annotations

import json

import pytest

from dpcore.accounting import Ledger
from dpcore.tables import run_ids
from support.jobs import COLUMNS, Workplace, people, write_table
from support.releases import Counter, clinic

COUNT = {"n": {"kind": "count", "column": "visits", "lower": 0, "upper": 100}}
DECLARED = {"visits": COLUMNS["visits"]}
OLD = "If the table has changed since, these are still the old"


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", epsilon=10.0)


@pytest.fixture
def release(tmp_path, capsys, ledger):
    place = Counter(tmp_path, capsys)
    write_table(clinic(20), place.source)
    place.write_release(COUNT, key=None, ledger=ledger.path)
    return place


@pytest.fixture
def local(tmp_path, capsys, ledger):
    place = Workplace(tmp_path, capsys)
    write_table(people(20), place.source)
    place.write_job(DECLARED, key=None, ledger=ledger.path)
    return place


def test_a_release_again_prints_what_was_published(release, ledger):
    first = release.release()
    assert first.code == 0, first.err
    outputs = []
    for rows in (20, 37):
        write_table(clinic(rows), release.source)
        folder = release.folder / f"report{rows}"
        again = release.release("--report", folder)
        assert (again.code, again.out) == (0, first.out), again.err
        assert again.out == release.target.read_text()
        outputs.append(
            (again.err.replace(str(folder), "DIR"), (folder / "answers.html").read_bytes(), (folder / "answers.json").read_bytes())
        )
    assert outputs[0] == outputs[1]
    (entry,) = ledger.entries()
    assert f"on {entry.when:%Y-%m-%d %H:%M} UTC (entry 1 of the ledger {ledger.path})" in again.err
    assert OLD + " answers. For new ones name another output.path, or give --overwrite; both spend again" in again.err.replace("\n", " ")
    value = json.loads(first.out)["queries"][0]["value"]
    assert str(value) in release.release("--table").out
    assert len(list(ledger.entries())) == 1


@pytest.mark.parametrize(("ending", "rows"), [("parquet", 20), ("csv", None)])
def test_privatize_again_describes_what_was_published(local, ledger, ending, rows):
    local.target = local.folder / f"out/private.{ending}"
    local.write_job(DECLARED, key=None, ledger=ledger.path)
    assert local.privatize().code == 0
    before, outputs = local.target.read_bytes(), []
    for size in (20, 37):
        write_table(people(size), local.source)
        folder = local.folder / f"report{size}"
        again = local.privatize("--report", folder)
        assert (again.code, json.loads(again.out)["output"]["rows"]) == (0, rows), again.err
        outputs.append((again.out, again.err.replace(str(folder), "DIR"), (folder / "private.html").read_bytes()))
        table = local.privatize("--table").out
        assert ("20 rows" in table, str(local.target) in table) == (rows is not None, True)
    assert outputs[0] == outputs[1]
    assert OLD + " rows" in again.err
    assert local.target.read_bytes() == before
    assert len(list(ledger.entries())) == 1


def test_what_running_again_spends_is_said_as_it_is(release, local, ledger):
    with_ledger = "Running this same job again spends nothing"
    local.write_job(DECLARED, key=None, ledger=ledger.path)
    assert with_ledger in local.privatize("--table").out
    local.write_job(DECLARED, key=None)
    done = local.privatize("--table", "--overwrite")
    assert "spends this budget again" in done.out
    assert with_ledger not in done.out
    release.job = release.folder / "release.toml"
    release.write_release(COUNT, key=None, ledger=ledger.path)
    for arguments in (["--dry-run", "--table"], []):
        done = release.release(*arguments)
        assert with_ledger in done.said
        assert "spends this budget again" not in done.said


# A run of an earlier version of dpcore


@pytest.mark.parametrize("kind", ["release", "privatize"])
def test_a_run_under_an_earlier_stream_is_known_and_not_paid_again(kind, release, local, ledger, monkeypatch):
    """A schedule's retry after an update: it looks for the ids that its run had, and spends nothing."""
    place = release if kind == "release" else local
    if kind == "release":
        release.write_release(COUNT, key=None, ledger=ledger.path)
    else:
        local.write_job(DECLARED, key=None, ledger=ledger.path)
    run = getattr(place, kind)
    first = run()
    assert first.code == 0, first.err
    (entry,) = ledger.entries()
    before = place.target.read_bytes()
    monkeypatch.setattr(run_ids, "STREAM_VERSION", run_ids.STREAM_VERSION + 2)
    assert "a run would spend nothing and read nothing: already published as" in run("--dry-run").err
    again = run()
    assert (again.code, "already published as" in again.err) == (0, True), again.err
    assert json.loads(again.out)["run"] == entry.run
    assert place.target.read_bytes() == before
    assert list(ledger.entries()) == [entry]
    # A run that is asked for anew has the id of today, and is then the one that is known.
    assert run("--overwrite").code == 0
    assert place.target.read_bytes() != before
    assert "(entry 2 of the ledger" in run().err
    assert len({each.run for each in ledger.entries()}) == len(list(ledger.entries())) == 2


def test_a_twin_that_forgets_earlier_ids_pays_again(release, ledger, monkeypatch):
    release.write_release(COUNT, key=None, ledger=ledger.path)
    assert release.release().code == 0
    monkeypatch.setattr(run_ids, "STREAM_VERSION", run_ids.STREAM_VERSION + 1)
    monkeypatch.setattr(run_ids, "FIRST_STREAM", run_ids.STREAM_VERSION)
    done = release.release()
    assert (done.code, "already published as" in done.err) == (2, False), done.err
    assert release.release("--overwrite").code == 0
    assert len(list(ledger.entries())) == 2


# A dry run


def test_a_dry_run_of_a_job_that_is_published_prints_the_plan(release, local, ledger):
    for run, place, write in (
        (release.release, release, lambda: release.write_release(COUNT, key=None, ledger=ledger.path)),
        (local.privatize, local, lambda: local.write_job(DECLARED, key=None, ledger=ledger.path)),
    ):
        write()
        assert run().code == 0
        done = run("--dry-run")
        assert (done.code, json.loads(done.out)["dry_run"]) == (0, True), done.err
        assert "a run would spend nothing and read nothing: already published as" in done.err
        place.target.write_text("something else")
        done = run("--dry-run")
        assert (done.code, json.loads(done.out)["dry_run"]) == (2, True), done.err
        assert "a run would be refused" in done.err
        assert "is not what is there now" in done.err
        assert place.target.read_text() == "something else"


def test_a_dry_run_that_would_be_refused_prints_the_plan_and_ends_as_the_run_would(release, ledger):
    def dry(code, *words):
        done = release.release("--dry-run")
        assert (done.code, json.loads(done.out)["dry_run"]) == (code, True), done.err
        for word in ("a run would be refused", *words):
            assert word in done.err, (word, done.err)

    release.target.parent.mkdir()
    release.target.write_text("precious")
    dry(2, "exists", "--overwrite")
    assert release.target.read_text() == "precious"
    release.write_release(COUNT, key=None)
    dry(2, "exists", "--overwrite")
    release.target.unlink()
    assert release.release("--dry-run").code == 0
    small = Ledger.create(release.folder / "small.ledger", epsilon=0.01)
    release.write_release(COUNT, key=None, ledger=small.path)
    dry(2, "the job needs epsilon")
    release.write_release(COUNT, key=None, ledger=release.folder / "none.ledger")
    dry(4, "no such file; make one with dpcore ledger create")
    assert not list(ledger.entries())
    assert not list(small.entries())


def test_a_dry_run_of_a_job_with_a_mistake_has_no_plan(release, ledger):
    release.write_release({"n": COUNT["n"] | {"column": "nobody"}}, key=None, ledger=ledger.path)
    done = release.release("--dry-run")
    assert (done.code, done.out) == (2, ""), done.err
