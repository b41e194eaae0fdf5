"""Any order of events: processes that begin, seal, move and die, against a model of dictionaries."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("fcntl", reason="locks of POSIX")

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from dpcore import Privacy
from dpcore._disk import sealed_files
from dpcore._disk.sealed_files import SealedFile, move_into_place
from dpcore.accounting import Ledger
from dpcore.accounting.ledger import rows
from dpcore.accounting.ledger.amounts import Amount
from dpcore.errors import ParameterError
from support.crashes import locked


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
    monkeypatch.setattr(sealed_files, "try_lock", lambda _: True)


def greedy(monkeypatch):
    """A name that was taken is taken back."""
    monkeypatch.setattr(sealed_files, "identity", lambda _: None)
    monkeypatch.setattr(sealed_files, "move_into_place", lambda file, overwrite: file.temporary.replace(file.path))


def generous(monkeypatch):
    """What failed is given back."""
    add = rows.check_spends

    def refunding(connection, path, header, before):
        checked = add(connection, path, header, before)
        (failed,) = connection.execute("SELECT count(*) FROM spend WHERE state = 'failed'").fetchone()
        return replace(checked, total=Amount(checked.total.epsilon - failed * Fraction(1, 2), checked.total.delta, None))

    monkeypatch.setattr(rows, "check_spends", refunding)


@pytest.mark.long
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
