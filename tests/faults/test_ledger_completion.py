"""Runs whose process dies between any two steps are finished by the next process that opens the ledger, or left alone."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("fcntl", reason="locks of POSIX")

from dpcore import Privacy
from dpcore.accounting import Ledger
from dpcore.errors import ParameterError
from support.crashes import Steps, job, locked, sealed

OUTPUTS = {"out.csv": b"1,2\n", "out.json": b"{}\n"}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", epsilon=1.0)


# Deaths


def settled(folder, outputs):
    """After the next opening for writing: all or nothing, and nothing forgotten."""
    ledger = Ledger(folder / "ledger")
    ledger.check_writable()
    entries = list(ledger.entries())
    assert ledger.spent.epsilon == 0.25 * len(entries)
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.name in outputs}
    states = [entry.state for entry in entries]
    left = [path for path in folder.iterdir() if path.name.endswith(".tmp")]
    return states, there, left


@pytest.mark.long
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_may_die_at_any_step(tmp_path, monkeypatch, overwrite):
    steps = Steps(monkeypatch)
    old = {"out.csv": b"old"} if overwrite else {}

    def place(name):
        folder = tmp_path / name
        folder.mkdir()
        Ledger.create(folder / "ledger", epsilon=100.0)
        for output, content in old.items():
            (folder / output).write_bytes(content)
        return folder

    folder = place("whole")
    whole = steps.run(lambda: job(folder, OUTPUTS, overwrite=overwrite))
    assert settled(tmp_path / "whole", OUTPUTS) == (["done"], OUTPUTS, [])
    seen = set()
    for end in range(1, whole + 1):
        folder = place(str(end))
        assert steps.run(lambda folder=folder: job(folder, OUTPUTS, overwrite=overwrite), end) is None
        states, there, left = settled(folder, OUTPUTS)
        seen |= set(states)
        if states in ([], ["reserved"]):
            assert there == old
            assert not (left and not states)
        else:
            assert (states, there, left) == (["done"], OUTPUTS, [])
    assert seen == {"reserved", "done"}


@pytest.mark.parametrize("twice", [False, pytest.param(True, marks=pytest.mark.long)])
def test_whoever_completes_may_die_at_any_step_as_well(tmp_path, monkeypatch, twice):
    """A run is sealed and its process dead; of those who complete it one dies at each step, and then the next one at each."""
    steps = Steps(monkeypatch)

    def place(name):
        folder = tmp_path / name
        folder.mkdir()
        ledger = Ledger.create(folder / "ledger", epsilon=100.0)
        files = [sealed(folder, output, content) for output, content in OUTPUTS.items()]
        for file in files:
            file.temporary.write_bytes(OUTPUTS[file.path.name])
        ledger.spend(Privacy(0.25), what="job").seal(files)
        return folder

    def complete(folder):
        return lambda: Ledger(folder / "ledger").complete()

    whole = steps.run(complete(place("whole")))
    for first in range(1, whole + 1):
        for second in range(1, whole + 1) if twice else [None]:
            folder = place(f"{first}-{second}")
            assert steps.run(complete(folder), first) is None
            if second is not None:
                steps.run(complete(folder), second)
            assert settled(folder, OUTPUTS) == (["done"], OUTPUTS, [])


# What completing leaves alone


@pytest.fixture
def run(ledger, tmp_path):
    """A sealed run of a dead process."""
    files = [sealed(tmp_path, name, content) for name, content in OUTPUTS.items()]
    for file in files:
        file.temporary.write_bytes(OUTPUTS[file.path.name])
    ledger.spend(Privacy(0.25), what="job", run="run").seal(files)
    return files


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "ledger"}


def test_a_run_of_a_live_process_is_left_alone(ledger, run, tmp_path):
    before = contents(tmp_path)
    for file in run:
        file.temporary.unlink()
    held = [locked(file.temporary, OUTPUTS[file.path.name]) for file in run]
    for alive in (held, held[1:]):
        assert ledger.complete() == ()
        ledger.spend(Privacy(0.25), what="another")
        assert contents(tmp_path) == before
        assert next(ledger.entries()).state == "sealed"
        os.close(alive[0])
    (entry,) = ledger.complete()
    assert (entry.run, entry.state) == ("run", "done")
    assert contents(tmp_path) == OUTPUTS


def test_a_name_that_was_taken_meanwhile_is_left_alone(ledger, run, tmp_path):
    run[1].path.write_bytes(b"somebody else's")
    before = contents(tmp_path)
    assert ledger.complete() == ()
    assert contents(tmp_path) == before  # not the other output either: both or none
    run[1].path.unlink()
    assert len(ledger.complete()) == 1
    assert contents(tmp_path) == OUTPUTS


@pytest.mark.parametrize("meanwhile", ["nothing", "rewritten", "replaced"])
def test_only_what_stood_there_at_sealing_is_overwritten(ledger, tmp_path, meanwhile):
    file = sealed(tmp_path, "out", b"new")
    file.path.write_bytes(b"old")
    file.temporary.write_bytes(b"new")
    ledger.spend(Privacy(0.25), what="job").seal([file], overwrite=True)
    if meanwhile == "rewritten":
        file.path.write_bytes(b"newer")
    elif meanwhile == "replaced":
        (tmp_path / "other").write_bytes(b"newer")
        (tmp_path / "other").replace(file.path)
    assert len(ledger.complete()) == (meanwhile == "nothing")
    assert file.path.read_bytes() == (b"new" if meanwhile == "nothing" else b"newer")
    assert file.temporary.exists() == (meanwhile != "nothing")


@pytest.mark.parametrize("change", ["longer", "shorter", "flipped", "gone", "a link", "a pipe", "a folder"])
def test_a_temporary_that_is_not_what_was_sealed_gets_no_name(ledger, run, tmp_path, change):
    temporary = run[0].temporary
    content = temporary.read_bytes()
    temporary.unlink()
    match change:
        case "longer":
            temporary.write_bytes(content + b"x")
        case "shorter":
            temporary.write_bytes(content[:-1])
        case "flipped":
            temporary.write_bytes(content[:-1] + b"\r")
        case "a link":
            (tmp_path / "target").write_bytes(content)
            temporary.symlink_to("target")
        case "a pipe":
            os.mkfifo(temporary)
        case "a folder":
            temporary.mkdir()
    assert ledger.complete() == ()
    assert not any(file.path.exists() for file in run)
    assert ledger.find("run").state == "sealed"
    ledger.abandon(1)
    assert ledger.find("run") is None
    assert [(entry.state, entry.reason) for entry in ledger.entries()] == [("failed", "abandoned")]
    assert ledger.spent.epsilon == 0.25


def test_an_output_that_has_its_name_already_is_found_there(ledger, run, tmp_path):
    for file in run:
        file.temporary.replace(file.path)
    assert len(ledger.complete()) == 1
    assert contents(tmp_path) == OUTPUTS


def test_a_process_that_comes_late_finds_its_run_done(ledger, tmp_path):
    """Locked out after sealing: another one has finished the run by the time it says so."""
    file = sealed(tmp_path, "out", b"x")
    file.temporary.write_bytes(b"x")
    reservation = ledger.spend(Privacy(0.25), what="job")
    reservation.seal([file])
    assert len(Ledger(ledger.path).complete()) == 1
    reservation.published()
    reservation.done()
    assert [entry.state for entry in ledger.entries()] == ["done"]


def test_entries_tell_the_outputs(ledger, run):
    ledger.spend(Privacy(0.25), what="without outputs")
    assert [list(entry.files) for entry in ledger.entries()] == [run, []]
    ledger.complete()
    assert list(ledger.find("run").files) == run


def test_new_and_old_outputs_never_stand_side_by_side(tmp_path, monkeypatch):
    """Both outputs of a run replace older ones; whoever completes it dies at any step."""
    steps = Steps(monkeypatch)
    old = dict.fromkeys(OUTPUTS, b"old")

    def place(name):
        folder = tmp_path / name
        folder.mkdir()
        files = [sealed(folder, output, content) for output, content in OUTPUTS.items()]
        for file in files:
            file.path.write_bytes(b"old")
            file.temporary.write_bytes(OUTPUTS[file.path.name])
        Ledger.create(folder / "ledger", epsilon=1.0).spend(Privacy(0.25), what="job").seal(files, overwrite=True)
        return folder

    folder, end, seen = place("0"), 1, set()
    while steps.run(lambda folder=folder: Ledger(folder / "ledger").complete(), end) is None:
        there = {path.name: path.read_bytes() for path in folder.iterdir() if path.name in OUTPUTS}
        assert there.items() <= old.items() or there.items() <= OUTPUTS.items()
        seen.add(tuple(sorted(there)))
        assert settled(folder, OUTPUTS) == (["done"], OUTPUTS, [])
        folder, end = place(str(end)), end + 1
    assert len(seen) >= 3


def test_abandoning_is_for_what_is_not_published(ledger, run):
    ledger.complete()
    with pytest.raises(ParameterError, match="a spend that is 'done' cannot fail"):
        ledger.abandon(1)
    with pytest.raises(ParameterError, match=r"number must be the id of an entry, in \[1, 1\], got 2"):
        ledger.abandon(2)
