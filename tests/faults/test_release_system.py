"""A release that the system fails, or that is killed, leaves nothing under the output's name; what it may have spent stays spent."""

from __future__ import annotations

import errno
import importlib
import json
import math
import os
import random
import runpy
import shlex
import signal
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore._disk import files as atomic
from dpcore.accounting import Ledger, rho_pure, zcdp_rho
from dpcore.privacy import Privacy
from dpcore.tables.output import publication
from support.jobs import damage, peak_memory, start, write_table
from support.releases import Counter, clinic

release = importlib.import_module("dpcore.query.run")
"""The module: the package has its function under the name."""

posix = pytest.mark.skipif(os.name != "posix", reason="signals and file locks of POSIX are the subject")
COUNT = {"n": {"kind": "count", "column": "visits", "lower": 0, "upper": 100}}
SUM = {"s": {"kind": "sum", "column": "visits", "lower": 0, "upper": 20, "missing": 0}}


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(300), place.source, row_group_rows=100)
    place.write_release()
    return place


@pytest.fixture
def ledger(place):
    return Ledger.create(place.folder / "budget.ledger", epsilon=3.0, delta=1e-6)


def failed(place, *words, code=4):
    done = place.release()
    assert done.code == code, done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert "Traceback" not in done.err
    assert done.out == ""
    assert place.left_behind() == []


# Input and output


def test_no_input(place):
    place.source.unlink()
    failed(place, "in.parquet", "no such file or folder")


def test_no_job_file(place):
    place.job.unlink()
    failed(place, "cannot read the job file", os.strerror(errno.ENOENT))


@pytest.mark.parametrize("group", [0, 1, 2])
def test_an_unreadable_row_group(place, ledger, group):
    damage(place.source, group, "cost")
    place.write_release(ledger=ledger.path, epsilon=0.1)
    failed(place, f"in.parquet: row group {group} of 3 (counted from 0) is unreadable")
    assert [(entry.state, entry.reason) for entry in ledger.entries()] == [("failed", "storage")]


def test_columns_that_no_query_names_are_not_even_read(place):
    damage(place.source, 0, "cost")
    place.write_release(SUM)
    assert place.release().code == 0


def test_an_output_folder_that_is_a_file(place, ledger):
    (place.folder / "out").write_text("")
    place.write_release(SUM, ledger=ledger.path)
    done = place.release()
    assert done.code == 4
    assert "cannot make the folder" in done.err
    assert list(ledger.entries()) == []


def test_a_commit_that_fails(place, monkeypatch, ledger):
    def refuse(_file):
        raise atomic.StorageError("cannot complete it")

    place.write_release(SUM, ledger=ledger.path)
    monkeypatch.setattr(atomic.AtomicFile, "seal", refuse)
    failed(place, "cannot complete it")
    # The noise was drawn: what it cost is spent, whether anybody has seen it or not.
    assert [(entry.epsilon, entry.state, entry.reason) for entry in ledger.entries()] == [(1.0, "failed", "storage")]


@pytest.mark.long
def test_no_room_to_spill(place):
    (place.folder / "out").mkdir()
    place.write_release(SUM, privacy={"unit": "person", "max_rows_per_unit": 1})
    done = place.release()
    assert done.code == 0
    assert place.left_behind() == ["answers.json"]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from dpcore.cli import main
main()
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize(("limit", "unit"), [(8, {}), (4096, {"unit": "person", "max_rows_per_unit": 1})])
def test_a_file_that_may_not_grow(place, limit, unit):
    """The output, or what is kept beside it about units."""
    write_table(clinic(100_000), place.source)
    place.write_release(SUM, privacy=unit)
    process = start(limit, "release", place.job, script=LIMITED)
    out, err = process.communicate()
    assert (process.returncode, out) == (4, ""), err
    assert os.strerror(errno.EFBIG) in err or "it may need more room" in err
    assert place.left_behind() == []


# The ledger


def test_a_job_is_charged_once_and_says_so(place, ledger):
    place.write_release(COUNT | SUM, ledger=ledger.path)
    document = place.answers()
    assert document["ledger"]["path"] == str(ledger.path)
    assert document["ledger"]["spent"]["epsilon"] == 2.0
    assert document["ledger"]["remaining"] == {"epsilon": 1.0, "delta": 1e-6}
    (entry,) = ledger.entries()
    assert (entry.epsilon, entry.delta, entry.state, entry.job) == (2.0, 0.0, "done", str(place.target))
    assert entry.what == f"release of 2 queries on {place.source}"


def test_over_the_ledgers_budget_nothing_is_read_or_written(place, ledger):
    damage(place.source, 0, "visits")  # reading it would fail with another code
    place.write_release(COUNT | SUM, ledger=ledger.path, epsilon=1.75)
    failed(place, "the job needs epsilon 3.5, delta 0.0, but the ledger", "has epsilon 3.0, delta 1e-06 left", code=2)
    failed(place, f"`dpcore ledger show {ledger.path}` lists what was spent; `dpcore plan JOB` says how exact answers are", code=2)
    assert place.release("--dry-run").code == 2
    place.write_release({"n": {"kind": "count", "column": "visits", "lower": 0, "upper": 100, "delta": 1e-5}}, ledger=ledger.path)
    failed(place, "delta 1e-05, but the ledger", code=2)
    assert list(ledger.entries()) == []
    assert not place.target.parent.exists()


def test_jobs_spend_until_nothing_is_left(place, ledger):
    place.write_release(COUNT, ledger=ledger.path)
    for _ in range(3):
        assert place.release("--overwrite").code == 0
    done = place.release("--overwrite")
    assert done.code == 2
    assert "epsilon 0.0" in done.err
    assert place.left_behind() == ["answers.json"]
    assert ledger.spent.epsilon == 3.0


def test_another_job_that_takes_the_rest_in_between(place, ledger, monkeypatch):
    open_first = publication.AtomicFile

    def meanwhile(path):
        ledger.spend(Privacy(2.5), what="another").done()
        return open_first(path)

    monkeypatch.setattr(publication, "AtomicFile", meanwhile)
    place.write_release(COUNT, ledger=ledger.path)
    failed(place, "needs epsilon 1.0", "left", code=2)
    assert [entry.what for entry in ledger.entries()] == ["another"]


def test_a_dry_run_spends_nothing(place, ledger):
    place.write_release(COUNT, ledger=ledger.path)
    done = place.release("--dry-run", "--table")
    assert done.code == 0
    assert f"ledger  {ledger.path}" in done.out
    assert list(ledger.entries()) == []


def test_ledgers_that_are_not_there_or_are_none(place):
    place.write_release(COUNT, ledger=place.folder / "none.ledger")
    failed(place, "none.ledger': no such file; make one with dpcore ledger create", "none.ledger --epsilon 1.0 (this is")
    privacy = {"relation": "add_remove", "unit": "person", "max_rows_per_unit": 2}
    place.write_release({"n": {"kind": "count", "delta": 1e-6}}, ledger=place.folder / "none.ledger", privacy=privacy)
    failed(place, "none.ledger --epsilon 1.0 --delta 1e-06 --relation add_remove --unit person")
    place.write_release(COUNT, ledger=place.folder / "none.ledger")
    (place.folder / "none.ledger").write_text("something else, and long enough to be no empty database")
    failed(place, "none.ledger", code=2)


def test_a_ledger_for_other_neighbours(place):
    Ledger.create(place.folder / "other.ledger", epsilon=3.0, relation="add_remove")
    place.write_release(COUNT, ledger=place.folder / "other.ledger")
    failed(place, "privacy.relation = 'replace', but the budget of the ledger", "is for 'add_remove'", code=2)
    place.write_release(COUNT, ledger=place.folder / "other.ledger", privacy={"relation": "add_remove"})
    assert place.release().code == 0


def test_a_ledger_for_another_unit(place):
    Ledger.create(place.folder / "people.ledger", epsilon=3.0, unit="person")
    place.write_release(COUNT, ledger=place.folder / "people.ledger")
    failed(
        place,
        "privacy.unit = 'row', but the budget of the ledger",
        "is for 'person'",
        'write unit = "person" under [privacy]; a second ledger would spend the budget of the same people twice',
        "dpcore ledger create",
        "people-2.ledger --epsilon 1.0",
        code=2,
    )


def test_a_ledger_that_differs_in_several_ways(place):
    """All differences at once, and the whole command of a ledger that fits, which works as it is."""
    other = Ledger.create(place.folder / "other.ledger", epsilon=3.0, unit="person", dataset="clinic-2026")
    place.write_release(COUNT, ledger=other.path, privacy={"relation": "add_remove"})
    done = place.release()
    assert (done.code, done.out) == (2, ""), done.err
    for word in ("is for 'replace'", "is for 'person'", "is for the data set 'clinic-2026'"):
        assert word in done.err, (word, done.err)
    settings = ('relation = "replace" under [privacy]', 'unit = "person" under [privacy]', 'dataset = "clinic-2026" under [input]')
    assert f"If the data are those of the ledger, write {' and '.join(settings)}; a second" in done.err
    command = shlex.split(done.err[done.err.index("dpcore ledger create") : done.err.index(" (this is what one run spends")])
    assert place.dpcore(*command[1:]).code == 0
    assert command[3] == str(place.folder / "other-2.ledger")
    place.write_release(COUNT, ledger=command[3], privacy={"relation": "add_remove"})
    assert place.release().code == 0


def test_a_ledger_of_rho_takes_what_each_mechanism_costs(place):
    ledger = Ledger.create(place.folder / "rho.ledger", rho=zcdp_rho(3.0, 1e-6, failure_delta=1e-7), failure_delta=1e-7)
    noisy = {name: query | {"delta": 1e-7} for name, query in SUM.items()}
    place.write_release(COUNT | noisy, ledger=ledger.path, epsilon=0.5)
    document = place.answers()
    (entry,) = ledger.entries()
    scale = document["queries"][1]["noise"][0]["scale"]
    assert entry.rho == pytest.approx(rho_pure(0.5) + 20**2 / (2 * scale**2), rel=1e-9)
    assert entry.rho < rho_pure(1.0)  # what (ε, δ) of the whole job would cost
    assert document["ledger"]["spent"]["rho"] == pytest.approx(entry.rho, rel=1e-15)  # one as a decimal, one as a float64, each rounded up
    place.write_release(COUNT, ledger=ledger.path, epsilon=50.0)
    done = place.release("--overwrite")
    assert done.code == 2
    assert "rho" in done.err


# Kills


PAUSED = """
import sys, time
import importlib
release = importlib.import_module("dpcore.query.run")
document = release.document_of
def paused(*args):
    made = document(*args)
    print("drawn", file=sys.stderr, flush=True)
    time.sleep(30)
    return made
release.document_of = paused
from dpcore.cli import main
main()
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_job_that_ends_after_its_noise_was_drawn_has_spent(place, ledger, number, code):
    place.write_release(COUNT, ledger=ledger.path)
    process = start("release", place.job, script=PAUSED)
    while not process.stderr.readline().endswith("drawn\n"):
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert not place.target.exists()
    if number != signal.SIGKILL:
        assert place.left_behind() == []
        assert "the ledger was charged before the job ended, and stays charged" in err
    left = ("reserved", None) if number == signal.SIGKILL else ("failed", "interrupted")
    assert [(entry.epsilon, entry.state, entry.reason) for entry in ledger.entries()] == [(1.0, *left)]
    assert ledger.remaining.epsilon == 2.0
    assert place.release().code == 0
    assert place.left_behind() == ["answers.json"]
    assert ledger.remaining.epsilon == 1.0


KILLED = """
import os, signal
from dpcore.tables.output import publication
def killed(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
publication.move_into_place = killed
from dpcore.cli import main
main()
"""


@posix
def test_a_job_that_is_killed_when_it_is_sealed_is_published_by_the_next_and_leaves_nothing(place):
    ledger = Ledger.create(place.folder / "people.ledger", epsilon=3.0, unit="person")
    place.write_release(COUNT, privacy={"unit": "person", "max_rows_per_unit": 2}, ledger=ledger.path)
    process = start("release", place.job, script=KILLED)
    assert (process.communicate()[0], process.returncode) == ("", -9)
    assert [entry.state for entry in ledger.entries()] == ["sealed"]
    assert place.release().code == 0
    assert [entry.state for entry in ledger.entries()] == ["done"]
    assert place.left_behind() == ["answers.json"]


@pytest.mark.long
@posix
@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.long)])
def test_kill_nine_at_random_moments(place, times):
    write_table(clinic(300_000), place.source, row_group_rows=50_000)
    ledger = Ledger.create(place.folder / "large.ledger", epsilon=1000.0, unit="person")
    place.write_release(privacy={"unit": "person", "max_rows_per_unit": 2}, ledger=ledger.path)
    begun = time.monotonic()
    assert place.release("--overwrite").code == 0
    whole = time.monotonic() - begun
    place.target.unlink()
    runs = 1
    for _ in range(times):
        process = start("release", place.job, "--overwrite")
        time.sleep(random.uniform(0.2, 1.2 * whole + 0.8))
        process.kill()
        process.communicate()
        runs += 1
        if place.target.exists():
            assert len(json.loads(place.target.read_text(encoding="utf-8"))["queries"]) == 9
            place.target.unlink()
    assert place.release("--overwrite").code == 0
    assert place.left_behind() == ["answers.json"]
    entries = list(ledger.entries())
    assert 2 <= len(entries) <= runs + 1
    assert ledger.spent.epsilon == 9.0 * len(entries)


# Memory


LARGE = {
    "rows": {"kind": "count"},
    "ages": {"kind": "histogram", "column": "age", "edges": [18, 30, 50, 70, 100]},
    "visits": {"kind": "sum", "column": "visits", "lower": 0, "upper": 50},
    "mean cost": {"kind": "mean", "column": "cost", "lower": 0, "upper": 1000},
    "quartiles": {"kind": "quantile", "column": "cost", "q": [0.25, 0.5, 0.75], "grid": {"start": 0, "stop": 1000, "step": 5}},
}


def large_table(repository, rows, path):
    """The rows of the benchmarks, and a person for each: half as many people as rows."""
    make_rows = runpy.run_path(str(repository / "benchmarks/make_rows.py"))
    size = make_rows["ROW_GROUP_ROWS"]
    schema = make_rows["SCHEMA"].append(pa.field("person", pa.int64()))
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, size):
            stop = min(start + size, rows)
            person = (make_rows["uniform"](start, stop, 5) * (rows // 2)).astype("int64")
            writer.write_table(make_rows["row_group"](start, stop).append_column("person", pa.array(person)))


@posix
@pytest.mark.long
@pytest.mark.source_tree
@pytest.mark.parametrize("unit", [{}, {"unit": "person", "max_rows_per_unit": 2}])
def test_peak_memory_on_a_hundred_million_rows(place, repository, unit):
    rows = 100_000_000
    large_table(repository, rows, place.source)
    place.write_release(LARGE, privacy=unit)
    code, peak, err = peak_memory("release", place.job)
    assert code == 0, err
    (count, *_) = json.loads(place.target.read_text(encoding="utf-8"))["queries"]
    # A person has a Poisson(2) number of rows and keeps at most two: E min(N, 2) = 2 − 2·P(0) − P(1) = 2 − 4e⁻².
    expected = rows if not unit else rows // 2 * (2 - 4 * math.exp(-2))
    assert abs(count["value"] / expected - 1) < 1e-3
    assert peak <= 600 << 20


@pytest.mark.parametrize("change", ["grows", "shrinks", "other", "replaced"])
def test_an_input_that_changes_between_the_two_passes(place, monkeypatch, change):
    """Nobody has bounded the rows that came after the first pass, nor those of other units in the same places."""
    place.source = place.folder / "in.csv"
    row = "1,1.5\n"
    texts = {"grows": row * 103, "shrinks": row * 90, "other": "2,1.5\n" * 100, "replaced": "2,1.5\n" * 100}
    place.source.write_text("person,n\n" + row * 100)
    place.write_release({"x": {"kind": "sum", "column": "n", "lower": 0, "upper": 2}}, privacy={"unit": "person", "max_rows_per_unit": 2})
    passes = importlib.import_module("dpcore.tables.units.units")
    choose_rows = passes.choose_rows

    def choose_and_change(*arguments, **options):
        kept = choose_rows(*arguments, **options)
        target = place.folder / "new.csv" if change == "replaced" else place.source
        target.write_text("person,n\n" + texts[change])
        target.replace(place.source)
        return kept

    monkeypatch.setattr(passes, "choose_rows", choose_and_change)
    done = place.release()
    assert done.code == 4, done.said
    assert "the input changed while it was read" in done.err
    assert place.left_behind() == []


@posix
def test_what_spills_to_disk_is_nobody_elses_to_read(place, monkeypatch):
    """The folder of the output is often shared, and the spilled state holds the names of the units."""
    place.write_release(SUM, privacy={"unit": "person", "max_rows_per_unit": 2})
    seen = []

    class Watched(publication.AtomicFile):
        def seal(self):
            seen.append(self.spill.stat().st_mode & 0o777)
            return super().seal()

    monkeypatch.setattr(publication, "AtomicFile", Watched)
    before = os.umask(0o022)
    try:
        assert place.release().code == 0
    finally:
        os.umask(before)
    assert seen == [0o700]
