"""The life of a spend: the table of its states, and runs that die between any two steps and are finished by whoever comes next."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("fcntl", reason="locks of POSIX")

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from dpcore import Privacy
from dpcore.accounting import Ledger, SealedFile, _ledger_rows, _sealed_files, _states, move_into_place
from dpcore.accounting._amounts import Amount
from dpcore.errors import ParameterError, ParameterTypeError
from support.crashes import Steps, job, locked, sealed

# What the documentation's table says, read by nobody but this test.
ALLOWED = {
    "reserved": {"seal": "sealed", "finish": "done", "fail": "failed"},
    "sealed": {"publish": "published", "fail": "failed"},
    "published": {"publish": "published", "finish": "done"},
    "done": {"publish": "done", "finish": "done"},
    "failed": {"fail": "failed"},
}
WAY = {"reserved": "", "sealed": "seal", "published": "seal publish", "done": "finish", "failed": "fail"}
OUTPUTS = {"out.csv": b"1,2\n", "out.json": b"{}\n"}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", epsilon=1.0)


def happen(reservation, event, folder):
    if event == "seal":
        reservation.seal([sealed(folder, "out", b"x")])
    elif event == "fail":
        reservation.failed("storage")
    else:
        {"publish": reservation.published, "finish": reservation.done}[event]()


@pytest.mark.parametrize("event", get_args(_states.Event))
@pytest.mark.parametrize("state", get_args(_states.State))
def test_every_event_in_every_state(ledger, tmp_path, state, event):
    reservation = ledger.spend(Privacy(0.25), what="x")
    for step in WAY[state].split():
        happen(reservation, step, tmp_path)
    assert [entry.state for entry in ledger.entries()] == [state]
    expected = ALLOWED[state].get(event)
    if expected is None:
        with pytest.raises(ParameterError, match=f"a spend that is '{state}' cannot {event}"):
            happen(reservation, event, tmp_path)
    else:
        happen(reservation, event, tmp_path)
    (entry,) = ledger.entries()
    assert entry.state == (expected or state)
    assert (entry.reason is None) == (entry.state != "failed")
    assert ledger.spent.epsilon == 0.25


def test_a_block_that_leaves_by_an_exception_after_sealing_stays_sealed(ledger, tmp_path):
    def interrupted():
        with ledger.spend(Privacy(0.25), what="x") as reservation:
            reservation.seal([sealed(tmp_path, "out", b"x")])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [entry.state for entry in ledger.entries()] == ["sealed"]


def test_what_cannot_be_sealed_is_refused(ledger, tmp_path):
    good = sealed(tmp_path, "out", b"x")
    reservation = ledger.spend(Privacy(0.25), what="x")
    for files in ([], [good, "out"], None):
        with pytest.raises((ParameterTypeError, TypeError)):
            reservation.seal(files)
    for change in (
        {"temporary": Path("relative")},
        {"path": tmp_path / "elsewhere" / "out"},
        {"path": good.temporary},
        {"sha256": "x"},
        {"sha256": good.sha256.upper()},
    ):
        with pytest.raises(ParameterError):
            SealedFile(**({"temporary": good.temporary, "path": good.path, "sha256": good.sha256} | change))
    with pytest.raises(ParameterTypeError):
        SealedFile(str(good.temporary), good.path, good.sha256)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]


# Moves


def test_a_move_never_takes_the_name_of_another_file(tmp_path):
    file = sealed(tmp_path, "out", b"new")
    file.temporary.write_bytes(b"new")
    for stand in ("file", "link", "folder"):
        match stand:
            case "file":
                file.path.write_bytes(b"old")
            case "link":
                file.path.symlink_to("nowhere")
            case "folder":
                file.path.mkdir()
        with pytest.raises(FileExistsError):
            move_into_place(file, overwrite=False)
        assert file.temporary.read_bytes() == b"new"
        file.path.rmdir() if stand == "folder" else file.path.unlink()
    move_into_place(file, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert file.path.read_bytes() == b"new"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_move_that_was_made_already_has_nothing_left_to_do(tmp_path, overwrite):
    file = sealed(tmp_path, "out", b"new")
    file.path.write_bytes(b"new")
    move_into_place(file, overwrite=overwrite)
    assert file.path.read_bytes() == b"new"
    file.path.write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        move_into_place(file, overwrite=overwrite)
    assert file.path.read_bytes() == b"old"


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "no links")

    monkeypatch.setattr(os, "link", refuse)
    file = sealed(tmp_path, "out", b"new")
    file.temporary.write_bytes(b"new")
    file.path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        move_into_place(file, overwrite=False)
    file.path.unlink()
    move_into_place(file, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


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
    with pytest.raises(ParameterError, match="number must be the id of an entry of this ledger, got 2"):
        ledger.abandon(2)


# Any order of events


class Runs(RuleBasedStateMachine):
    """Processes that begin, seal, move and die, others that complete, files that take names: against a model of dictionaries."""

    runs = Bundle("runs")

    def __init__(self):
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name)
        self.ledger = Ledger.create(self.folder / "ledger", epsilon=1e6)
        self.count, self.held, self.state, self.content, self.foreign = 0, {}, {}, {}, {}

    def teardown(self):
        for number in list(self.held):
            self.die(number)
        self.place.cleanup()

    @rule(target=runs, name=st.sampled_from("ab"))
    def begin(self, name):
        self._completed()
        reservation = self.ledger.spend(Privacy(0.5), what="run")
        self.count += 1
        content = b"%d" % self.count
        temporary = self.folder / f".{name}.{self.count}.tmp"
        file = SealedFile(temporary, self.folder / name, hashlib.sha256(content).hexdigest())
        self.held[reservation.id] = [locked(temporary, content)]
        self.state[reservation.id], self.content[reservation.id] = "reserved", content
        return reservation, file

    @rule(run=runs)
    def seal(self, run):
        reservation, file = run
        if reservation.id in self.held and self.state[reservation.id] == "reserved":
            reservation.seal([file])
            self.state[reservation.id] = "sealed"

    @rule(run=runs)
    def move(self, run):
        reservation, file = run
        if reservation.id not in self.held or self.state[reservation.id] != "sealed":
            return
        if file.path.exists():
            with pytest.raises(FileExistsError):
                move_into_place(file, overwrite=False)
        else:
            move_into_place(file, overwrite=False)
            self.foreign[file.path] = self.content[reservation.id]
            reservation.published()
            self.state[reservation.id] = "published"

    @rule(run=runs)
    def fail(self, run):
        reservation, _ = run
        if reservation.id in self.held and self.state[reservation.id] in ("reserved", "sealed"):
            reservation.failed("storage")
            self.state[reservation.id] = "failed"

    @rule(run=consumes(runs))
    def crash(self, run):
        self.die(run[0].id)
        self.state.setdefault(("file", run[0].id), run[1])

    def die(self, number):
        for descriptor in self.held.pop(number, ()):
            os.close(descriptor)

    @rule(name=st.sampled_from("ab"))
    def take_a_name(self, name):
        path = self.folder / name
        if not path.exists():
            path.write_bytes(b"foreign")
            self.foreign[path] = b"foreign"

    @rule(name=st.sampled_from("ab"))
    def give_it_back(self, name):
        path = self.folder / name
        path.unlink(missing_ok=True)
        self.foreign.pop(path, None)

    @rule()
    def complete(self):
        self._completed()
        Ledger(self.ledger.path).complete()

    def _completed(self):
        """What the next opening for writing makes of the model, in the order of the runs."""
        dead = {key[1]: file for key, file in self.state.items() if isinstance(key, tuple)}
        for number, file in sorted(dead.items()):
            if self.state[number] == "sealed" and (file.path not in self.foreign or self.foreign[file.path] == self.content[number]):
                self.foreign[file.path] = self.content[number]
                self.state[number] = "done"
        for number, state in list(self.state.items()):
            if state == "published":
                self.state[number] = "done"

    @invariant()
    def nothing_is_forgotten_and_no_file_is_lost(self):
        entries = {entry.id: entry.state for entry in self.ledger.entries()}
        assert entries == {number: state for number, state in self.state.items() if not isinstance(number, tuple)}
        assert self.ledger.spent.epsilon == 0.5 * self.count
        assert {path: path.read_bytes() for path in self.folder.iterdir() if path.name in "ab"} == self.foreign


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)


def careless(monkeypatch):
    """Locks of live processes are not looked at."""
    monkeypatch.setattr(_sealed_files, "fcntl", None)


def greedy(monkeypatch):
    """A name that was taken is taken back."""
    monkeypatch.setattr(_sealed_files, "identity", lambda _: None)
    monkeypatch.setattr(_sealed_files, "move_into_place", lambda file, overwrite: file.temporary.replace(file.path))


def generous(monkeypatch):
    """What failed is given back."""
    add = _ledger_rows.check_spends

    def refunding(connection, path, header, before):
        checked = add(connection, path, header, before)
        (failed,) = connection.execute("SELECT count(*) FROM spend WHERE state = 'failed'").fetchone()
        return replace(checked, total=Amount(checked.total.epsilon - failed * Fraction(1, 2), checked.total.delta, None))

    monkeypatch.setattr(_ledger_rows, "check_spends", refunding)


@pytest.mark.parametrize("twin", [careless, generous, pytest.param(greedy, marks=pytest.mark.long)])
def test_twins_are_caught(monkeypatch, twin):
    twin(monkeypatch)
    with pytest.raises((AssertionError, OSError, ParameterError)):
        run_state_machine_as_test(
            Runs, settings=settings(max_examples=200, stateful_step_count=20, deadline=None, phases=[Phase.generate], database=None)
        )


@pytest.mark.long
def test_runs_for_long():
    run_state_machine_as_test(Runs, settings=settings(max_examples=300, stateful_step_count=50, deadline=None))
