"""Outputs in an object store: complete or not there, never over another, and finished by the next start if their job was killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from dpcore.accounting import Ledger
from dpcore.batch import estimate
from dpcore.pages.numbers import json_text
from support.jobs import COLUMNS, FORMATS, people, start, write_table
from support.stores import Store

JOB = {"visits": COLUMNS["visits"], "age": COLUMNS["age"]}
SUMS = {"all": {"kind": "sum", "column": "visits", "lower": 0, "upper": 20, "missing": 0, "epsilon": 1.0}}


@pytest.fixture(autouse=True)
def staging(tmp_path, monkeypatch):
    """The folder in which outputs wait."""
    folder = tmp_path / "staging"
    monkeypatch.setenv("DPCORE_STAGING", str(folder))
    return folder


def waiting(staging: Path) -> list[str]:
    """What lies in the folder."""
    return sorted(file.name for file in staging.iterdir()) if staging.exists() else []


@pytest.mark.parametrize(("ending", "shards"), [*((ending, None) for ending in FORMATS), ("parquet", 3)])
def test_tables_estimates_and_digests_are_those_of_files(place, store: Store, staging, ending, shards):
    write_table(people(3000), place.source, row_group_rows=500)
    more = {} if shards is None else {"shards": shards}
    place.target = place.folder / "out" / f"t.{ending}"
    place.write_job(JOB, **more)
    assert place.privatize().code == 0
    local = {path.name: path.read_bytes() for path in place.target.parent.iterdir()}
    read = place.target if shards is None else place.target.with_name("t.shards.json")
    truth = estimate(read).document()["columns"]
    place.target = store.address(f"deep/t.{ending}")
    place.write_job(JOB, **more)
    done = place.privatize()
    assert done.code == 0, done.said
    assert {key.removeprefix("deep/"): store.get(key) for key in store.names()} == local
    assert json_text(estimate(store.address(f"deep/{read.name}")).document()["columns"]) == json_text(truth)
    assert waiting(staging) == []
    done = place.privatize()
    assert done.code == 2
    assert f"{place.target if shards is None else store.address('deep/t-')}" in done.err
    assert "exists" in done.err
    assert place.privatize("--overwrite").code == 0


def test_answers_and_estimates_of_answers_go_to_stores(counter, store: Store, staging):
    write_table(people(300), counter.source)
    counter.target = store.address("answers/a.json")
    counter.write_release(SUMS)
    assert counter.release().code == 0
    remote = json.loads(store.get("answers/a.json"))
    counter.target = counter.folder / "a.json"
    counter.write_release(SUMS)
    assert counter.release().code == 0
    assert json.loads(counter.target.read_text(encoding="utf-8"))["queries"] == remote["queries"]
    assert counter.dpcore("privatize", counter.job).code == 2


def test_what_estimate_writes_may_be_an_object(place, store: Store, staging):
    write_table(people(300), place.source)
    place.write_job(JOB)
    assert place.privatize().code == 0
    for code in (0, 2):
        assert place.estimate("--output", store.address("e.json")).code == code
    assert json.loads(store.get("e.json"))["rows"] == 300
    assert place.estimate("--output", store.address("e.json"), "--overwrite").code == 0
    assert place.estimate("--output", f"{store.scheme}://no-such-bucket/e.json").code == 2
    assert waiting(staging) == []


@pytest.mark.parametrize("target", ["{}-absent/o.parquet", "{}/", "{}"])
def test_places_that_cannot_be_written_are_refused_before_anything_is_read(place, store: Store, staging, target):
    write_table(people(30), place.source)
    place.target = target.format(f"{store.scheme}://{store.bucket}")
    place.write_job(JOB)
    if place.target.endswith("t"):
        place.job.write_text(place.job.read_text(encoding="utf-8").replace("[output]", '[output]\nformat = "parquet"'), encoding="utf-8")
    assert place.privatize().code == 2
    assert waiting(staging) == []


def test_an_output_is_not_written_into_its_own_input(place, store: Store):
    address = store.put("in/x.parquet", write_table(people(30), place.source))
    for source in (store.address("in"), store.address("in/*.parquet"), address):
        place.source = source
        place.target = store.address("in/o.parquet") if source != address else address
        place.write_job(JOB)
        done = place.privatize("--overwrite")
        assert (done.code, store.names()) == (2, ["in/x.parquet"])


def test_ledgers_logs_and_pages_stay_on_this_machine(place, store: Store, monkeypatch):
    monkeypatch.chdir(place.folder)
    write_table(people(30), place.source)
    place.write_job(JOB, key=None, ledger=store.address("study.ledger"))
    before = sorted(place.folder.rglob("*"))
    assert "addresses are not supported" in place.privatize().err
    place.write_job(JOB)
    for option in ("--report", "--log"):
        done = place.privatize(option, store.address("there"))
        assert (done.code, sorted(place.folder.rglob("*"))) == (2, before)


def test_a_ledger_knows_an_object_again(place, store: Store, staging):
    write_table(people(300), place.source)
    ledger = Ledger.create(place.folder / "study.ledger", epsilon=10.0, delta=1e-3)
    place.target = store.address("o.parquet")
    place.write_job(JOB, key=None, ledger=ledger.path)
    assert place.privatize().code == 0
    first = store.get("o.parquet")
    done = place.privatize()
    assert (done.code, store.get("o.parquet")) == (0, first)
    assert f"already published as {place.target}" in done.err
    store.put("o.parquet", b"another")
    done = place.privatize()
    assert done.code == 2
    assert "that is not what is there now" in done.err
    assert [entry.state for entry in ledger.entries()] == ["done"]


KILLED = """
import os, signal
from dpcore._disk import stores
def die(*args, **more):
    os.kill(os.getpid(), signal.SIGKILL)
{}
from dpcore.cli import main
main()
"""
STEPS = {"before the upload": "stores._send = die", "after it": "send = stores._send\nstores._send = lambda *each: (send(*each), die())"}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("way", ["the next start", "dpcore ledger complete"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_killed_job_is_completed(place, store: Store, staging, step, way, ending):
    write_table(people(300), place.source)
    ledger = Ledger.create(place.folder / "study.ledger", epsilon=10.0, delta=1e-3)
    place.target = store.address(f"o.{ending}")
    place.write_job(JOB, key=None, ledger=ledger.path)
    process = start("privatize", place.job, script=KILLED.format(STEPS[step]), environment=dict(os.environ))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert [entry.state for entry in ledger.entries()] == ["sealed"]
    assert f"o.{ending}" not in store.names() or (step == "after it" and ending == "parquet")
    done = place.privatize() if way == "the next start" else place.dpcore("ledger", "complete", ledger.path)
    assert done.code == 0, done.said
    assert [entry.state for entry in ledger.entries()] == ["done"]
    assert estimate(place.target).rows == 300
    assert [name for name in waiting(staging) if not name.endswith(".lock")] == []
    assert place.privatize().code == 0
    assert len(list(ledger.entries())) == 1


def test_two_jobs_with_one_output_do_not_both_write_it(place, store: Store, staging):
    from dpcore._disk.addresses import Address
    from dpcore._disk.locks import NameLock
    from dpcore._disk.staging import staged

    write_table(people(30), place.source)
    place.target = store.address("o.parquet")
    place.write_job(JOB)
    staging.mkdir()
    lock = NameLock(staged(Address.of(place.target), staging))
    done = place.privatize()
    lock.release()
    assert done.code == 4
    assert f"another job is writing {place.target}" in done.err
    assert store.names() == []


def test_an_object_that_appears_meanwhile_stays(place, store: Store, staging, monkeypatch):
    from dpcore._disk import stores

    write_table(people(30), place.source)
    place.target = store.address("o.csv")
    place.write_job(JOB)
    send = stores._send

    def send_after_another(file, address):
        send(file, address)
        store.put("o.csv", b"of another job")

    monkeypatch.setattr(stores, "_send", send_after_another)
    done = place.privatize()
    assert done.code == 4
    assert "File exists" in done.err
    assert (store.names(), store.get("o.csv")) == (["o.csv"], b"of another job")
    assert waiting(staging) == []


def test_a_large_object_is_sent_in_parts(store: Store, tmp_path):
    from dpcore._disk import stores
    from dpcore._disk.addresses import Address
    from dpcore._disk.files import digest_of

    content = tmp_path / "content"
    content.write_bytes(os.urandom(1 << 20) * 21)
    stores.upload(content, Address.of(store.address("large")), digest_of(content), overwrite=False)
    assert store.get("large") == content.read_bytes()
