"""Many processes spend from one ledger, some are killed at any moment: the total is never beyond the budget, the file never damaged."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from fractions import Fraction
from pathlib import Path

import pytest

from dpcore import Privacy
from dpcore.accounting import Ledger
from dpcore.accounting.ledger import rows
from dpcore.accounting.ledger.amounts import Amount
from dpcore.errors import BudgetError

PROCESSES = 8
posix = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is the subject")

# A spender notes on its own, synced, what it was granted before it would draw any noise: what the ledger may not forget.
SPENDER = textwrap.dedent("""
    import os, sys
    from dpcore import Privacy
    from dpcore.accounting import Ledger
    from dpcore.errors import BudgetError
    path, note, epsilon, tries = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    ledger = Ledger(path)
    log = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, b"up\\n")
    sys.stdin.readline()
    for _ in range(tries):
        try:
            spend = ledger.spend(Privacy(epsilon), what="query", job=note)
        except BudgetError:
            os.write(log, b"refused\\n")
            break
        os.write(log, b"granted\\n")
        spend.done()
        os.write(log, b"done\\n")
""")

INSERT = """INSERT INTO spend (what, reserved, epsilon, delta, version, relation, unit, secure, digest, state, changed, mark)
    VALUES ('x', '2026-01-01T00:00:00+00:00', ?, '0', '0', 'replace', 'row', 1, '', 'reserved', '', '')"""


class Round:
    """Eight spenders on one ledger."""

    def __init__(self, folder, budget, epsilon, tries):
        self.path, self.epsilon = folder / "ledger", epsilon
        self.ledger = Ledger.create(self.path, epsilon=budget)
        self.budget = Fraction(repr(budget))
        self.notes = [folder / f"note-{i}" for i in range(PROCESSES)]
        arguments = [repr(epsilon), str(tries)]
        self.spenders = [
            subprocess.Popen([sys.executable, "-c", SPENDER, str(self.path), str(note), *arguments], stdin=subprocess.PIPE, text=True)
            for note in self.notes
        ]
        while any(self.said(i, "up") == 0 for i in range(PROCESSES)):
            time.sleep(0.005)
        for spender in self.spenders:
            spender.stdin.write("go\n")
            spender.stdin.flush()

    def said(self, i, word):
        return self.notes[i].read_text().split().count(word) if self.notes[i].exists() else 0

    def granted(self):
        return sum(self.said(i, "granted") for i in range(PROCESSES))

    def finish(self, killed=()):
        for i, spender in enumerate(self.spenders):
            spender.stdin.close()
            code = spender.wait(timeout=120)
            assert code == (-signal.SIGKILL if i in killed else 0) or (i in killed and code == 0)

    def check(self):
        """Whatever happened: within the budget, nothing granted is forgotten, the file is sound and can be used."""
        entries = list(Ledger(self.path).entries())
        spent = sum(Fraction(repr(entry.epsilon)) for entry in entries)
        assert spent <= self.budget
        for i, note in enumerate(self.notes):
            mine = [entry for entry in entries if entry.job == str(note)]
            granted, done = self.said(i, "granted"), self.said(i, "done")
            assert granted <= len(mine) <= granted + 1  # killed between the commit and the note
            assert done <= sum(entry.state == "done" for entry in mine) <= done + 1
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert [name.name for name in self.path.parent.iterdir() if "journal" in name.name] == []
        return spent, entries


@pytest.mark.long
def test_eight_processes_take_the_budget_and_no_more(tmp_path):
    """0.1 + 0.2 tenths: 40 spends of 0.05 fit into 2 exactly; sums of float64 would lose or gain one."""
    contest = Round(tmp_path, 2.0, 0.05, tries=100)
    contest.finish()
    spent, entries = contest.check()
    assert spent == contest.budget
    assert contest.granted() == len(entries) == 40
    assert all(contest.said(i, "refused") == 1 for i in range(PROCESSES))
    with pytest.raises(BudgetError):
        contest.ledger.spend(Privacy(1e-300), what="one more")


def kill_some(folder, kills, seed):
    """One round in which `kills` spenders die by SIGKILL, at moments spread over the round."""
    draw = random.Random(seed)
    contest = Round(folder, 6.0, 0.05, tries=1000)
    killed = draw.sample(range(PROCESSES), kills)
    for step, i in enumerate(killed, 1):
        while contest.granted() < step * 100 // (kills + 1) and contest.spenders[i].poll() is None:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.02)
        contest.spenders[i].send_signal(signal.SIGKILL)
    contest.finish(killed)
    spent, entries = contest.check()
    assert spent == contest.budget  # the survivors take the rest, whatever the dead have left reserved
    return sum(entry.state == "reserved" for entry in entries)


@pytest.mark.long
@posix
def test_killed_processes_leave_reservations_and_no_damage(tmp_path):
    kill_some(tmp_path, 3, seed=1)


@posix
@pytest.mark.long
def test_a_hundred_rounds_with_killed_processes(tmp_path):
    left = 0
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        left += kill_some(folder, 1 + seed % (PROCESSES - 1), seed)
    assert left > 0  # some did die between the two transactions, which is what the rounds are about


def test_a_ledger_that_forgets_the_lock_overspends(tmp_path):
    """The twin: totals read in one transaction and the reservation written in another. The same check must catch it."""
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    fitting = [ledger.fits(Privacy(0.75)) for _ in range(2)]
    for fits in fitting:  # two spenders have both looked before either writes
        assert fits
        with ledger._opened.transaction(write=True) as connection:
            values = ("x", rows.now(), None, None, "0", "replace", "row", None)
            rows.write_spend(connection, ledger._opened.check_spends(connection), Amount(Fraction(3, 4), Fraction(0), None), values)
    assert sum(Fraction(repr(entry.epsilon)) for entry in ledger.entries()) > 1
    with pytest.raises(BudgetError):
        ledger.spend(Privacy(1e-300), what="one more")


@posix
def test_a_process_killed_inside_its_transaction_spends_nothing(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    program = textwrap.dedent("""
        import os, signal, sys
        from dpcore import Privacy
        from dpcore.accounting import Ledger
        from dpcore.accounting.ledger import decision
        def dies(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        decision.fits = dies
        Ledger(sys.argv[1]).spend(Privacy(0.5), what="never")
    """)
    assert subprocess.run([sys.executable, "-c", program, str(ledger.path)], check=False).returncode == -signal.SIGKILL
    assert list(ledger.entries()) == []
    assert ledger.remaining.epsilon == 1.0


@posix
def test_a_commit_that_was_cut_off_is_rolled_back_by_the_next_who_opens_the_ledger(tmp_path):
    """A hot journal: pages are in the file, the journal still there, as after a crash in the middle of a commit."""
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    ledger.spend(Privacy(0.25), what="before").done()
    program = textwrap.dedent("""
        import os, signal, sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("PRAGMA cache_spill = 1")
        connection.execute("BEGIN IMMEDIATE")
        for i in range(2000):
            connection.execute(sys.argv[2], ("0.1",))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert subprocess.run([sys.executable, "-c", program, str(ledger.path), INSERT], check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "ledger-journal").exists()
    assert [entry.what for entry in Ledger(ledger.path).entries()] == ["before"]
    assert ledger.spend(Privacy(0.75), what="after").id == 2


@pytest.mark.long
def test_of_many_processes_that_make_one_ledger_one_does(tmp_path):
    program = textwrap.dedent("""
        import sys
        from dpcore import Privacy
        from dpcore.accounting import Ledger
        try:
            Ledger.create(sys.argv[1], epsilon=1.0)
            print("made")
        except FileExistsError:
            pass
        Ledger(sys.argv[1]).spend(Privacy(0.125), what="query")
    """)
    path = tmp_path / "ledger"
    makers = [subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    said = [maker.communicate(timeout=120)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0] * PROCESSES
    assert said.count("made\n") == 1
    assert Ledger(path).remaining.epsilon == 0.0


@posix
def test_a_disk_that_takes_no_more_refuses_and_leaves_the_ledger_sound(tmp_path):
    """A limit on the size of files stands for a full disk: the file may not grow by another page."""
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    program = textwrap.dedent("""
        import os, resource, sys
        from dpcore import Privacy
        from dpcore.accounting import Ledger
        ledger = Ledger(sys.argv[1])
        ledger.spent
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(sys.argv[1]).st_size,) * 2)
        granted = 0
        try:
            for i in range(1000):
                ledger.spend(Privacy(1e-6), what="x" * 500)
                granted += 1
        except OSError as error:
            print(granted, error.filename == str(ledger.path))
    """)
    done = subprocess.run([sys.executable, "-c", program, str(ledger.path)], capture_output=True, text=True, check=True)
    granted, named = done.stdout.split()
    assert named == "True"
    assert len(list(Ledger(ledger.path).entries())) == int(granted) < 1000
    ledger.spend(Privacy(0.5), what="after room was made").done()


# Runs that are killed


KILLED = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    from support.crashes import Steps, job
    class Plainly:
        setattr = staticmethod(setattr)
    steps = Steps(Plainly, die=lambda: os.kill(os.getpid(), signal.SIGKILL))
    folder = Path(sys.argv[2])
    taken = steps.run(lambda: job(folder, {"out.csv": b"1,2", "out.json": b"{}"}, overwrite=sys.argv[3] == "overwrite"), int(sys.argv[4]))
    print(taken)
""")


def killed(folder, how, end):
    """Run a job that is killed at a step; whether it was, and not done before."""
    folder.mkdir()
    Ledger.create(folder / "ledger", epsilon=1.0)
    if how == "overwrite":
        (folder / "out.csv").write_bytes(b"old")
    support = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", KILLED, support, str(folder), how, str(end)], capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.long
@posix
@pytest.mark.parametrize("how", ["new", "overwrite"])
@pytest.mark.parametrize("ends", [[4, 8, 12], pytest.param(range(1, 40), marks=pytest.mark.long)])
def test_a_killed_run_is_nothing_or_whole(tmp_path, how, ends):
    for end in ends:
        folder = tmp_path / str(end)
        if not killed(folder, how, end):
            break
        ledger = Ledger(folder / "ledger")
        ledger.check_writable()
        states = [entry.state for entry in ledger.entries()]
        outputs = {name: (folder / name).read_bytes() for name in ("out.csv", "out.json") if (folder / name).exists()}
        if states == ["done"]:
            assert outputs == {"out.csv": b"1,2", "out.json": b"{}"}
            assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")]
        else:
            assert states in ([], ["reserved"])
            assert outputs == ({"out.csv": b"old"} if how == "overwrite" else {})
        assert ledger.spent.epsilon == 0.25 * len(states)
    else:
        assert len(list(ends)) == 3  # the long list ends with a job that is done before it would be killed
