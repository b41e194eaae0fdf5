"""`dpcore ledger`: what it makes, what it shows, and which exit code each refusal has."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3

import pytest

from dpcore import BudgetError, Privacy, __version__
from dpcore.accounting import Budget, GaussianPrivacy, Ledger, mu_pure, zcdp_rho
from dpcore.query.page import ledger_shown
from support.crashes import sealed
from support.jobs import Workplace


@pytest.fixture
def place(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Workplace(tmp_path, capsys)


def test_a_ledger_is_made_and_shown(place):
    done = place.dpcore("ledger", "create", "deep/folder/b.ledger", "--epsilon", 3, "--delta", 1e-6, "--table")
    assert done.code == 0, done.err
    assert "deep/folder/b.ledger: a ledger with a budget of epsilon 3, delta 1e-06; kind basic; relation replace; unit row; " in done.out
    shown = place.dpcore("ledger", "show", "deep/folder/b.ledger", "--table")
    assert shown.code == 0, shown.err
    assert re.search(r"^budget +epsilon 3, delta 1e-06$", shown.out, re.MULTILINE)
    assert re.search(r"^spent +epsilon 0, delta 0$", shown.out, re.MULTILINE)
    assert re.search(r"^remaining +epsilon 3, delta 1e-06$", shown.out, re.MULTILINE)
    assert "Nothing has been spent." in shown.out
    assert Ledger("deep/folder/b.ledger").budget == Budget(3.0, 1e-6)


def test_what_is_said_is_kept(place):
    kept = ("--relation", "add_remove", "--unit", "person", "--dataset", "claims-2026")
    done = place.dpcore("ledger", "create", "z", "--zcdp", "--epsilon", 3, "--delta", 1e-6, "--failure-delta", 1e-7, *kept, "--table")
    assert done.code == 0, done.err
    assert "Everything that it pays for is together (epsilon 3, delta 1e-06)-private." in done.out
    ledger = Ledger("z")
    assert (ledger.kind, ledger.relation, ledger.unit, ledger.dataset) == ("zcdp", "add_remove", "person", "claims-2026")
    assert ledger.budget == Budget(None, 1e-7, zcdp_rho(3.0, 1e-6, failure_delta=1e-7))
    about = "kind zcdp: rho and the delta of failures add up; relation add_remove; unit person; data set claims-2026)"
    assert about in place.dpcore("ledger", "show", "z", "--table").out
    assert place.dpcore("ledger", "create", "r", "--rho", 0.5).code == 0
    assert Ledger("r").budget == Budget(None, 0.0, 0.5)


@pytest.mark.parametrize(("option", "value"), [("--epsilon", 0), ("--epsilon", "-0.0"), ("--rho", 0)])
def test_a_budget_must_be_positive(place, option, value):
    done = place.dpcore("ledger", "create", "b.ledger", option, value)
    assert (done.code, f"{option} must be positive, got {float(value)!r}" in done.err) == (2, True), done.said
    assert not (place.folder / "b.ledger").exists()


@pytest.fixture
def spent(place):
    """A ledger with one spend that is done and one that is not."""
    ledger = Ledger.create("b.ledger", epsilon=0.5, delta=1e-6)
    ledger.spend(Privacy(0.1), what="[red]first", job="january").done()
    ledger.spend(Privacy(0.2, 1e-7), what="killed")
    return place


def test_spends_are_listed_with_what_is_reserved(spent):
    shown = spent.dpcore("ledger", "show", "b.ledger", "--table").out
    # Sums of decimal numbers: 0.1 + 0.2 is 0.3.
    assert re.search(r"^spent +epsilon 0\.3, delta 1e-07$", shown, re.MULTILINE)
    assert re.search(
        r"^unfinished +epsilon 0\.2, delta 1e-07 \(part of spent: jobs that are running or were killed\)$", shown, re.MULTILINE
    )
    assert re.search(r"^remaining +epsilon 0\.2, delta 9e-07$", shown, re.MULTILINE)
    assert re.search(r"^when +id +epsilon +delta +state +what +job, by its output +dpcore", shown, re.MULTILINE)
    when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.search(rf"^{when} +1 +0\.1 +0 +done +\[red\]first +january +{re.escape(__version__)}", shown, re.MULTILINE)
    assert re.search(rf"^{when} +2 +0\.2 +1e-07 +reserved +killed +–", shown, re.MULTILINE)


def test_what_was_spent_is_rounded_up_and_what_remains_down(place):
    ledger = Ledger.create("b.ledger", epsilon=1.0)
    ledger.spend(Privacy(0.12345678901), what="x").done()
    shown = place.dpcore("ledger", "show", "b.ledger", "--table").out
    assert re.search(r"^spent +epsilon 0\.1234567891, delta 0$", shown, re.MULTILINE)
    assert re.search(r"^remaining +epsilon 0\.8765432109, delta 0$", shown, re.MULTILINE)  # of 0.87654321099
    assert re.search(r"^\S+ +1 +0\.1234567891 +0 +done", shown, re.MULTILINE)
    parts = {"budget": {"epsilon": 1.0}, "spent": {"epsilon": 0.12345678901}, "remaining": {"epsilon": 0.87654321099}}
    [row, _] = ledger_shown(parts, {"epsilon": 0.12345678901, "delta": 0.0})["rows"]
    assert (row["job"], row["spent"], row["remaining"]) == ("0.1234567891", "0.1234567891", "0.8765432109")


def test_the_same_as_json(spent):
    done = spent.dpcore("ledger", "show", "b.ledger", "--json")
    state = json.loads(done.out)
    about = ["format", "path", "kind", "relation", "unit", "dataset"]
    assert list(state) == [*about, "budget", "spent", "unfinished", "failed", "remaining", "entries"]
    assert [state[key] for key in about] == [2, "b.ledger", "basic", "replace", "row", None]
    assert state["budget"] == {"epsilon": 0.5, "delta": 1e-6}
    assert state["spent"] == {"epsilon": 0.3, "delta": 1e-7}
    assert state["unfinished"] == {"epsilon": 0.2, "delta": 1e-7}
    assert state["failed"] == {"epsilon": 0.0, "delta": 0.0}
    assert state["remaining"] == {"epsilon": 0.2, "delta": 9e-7}
    first, second = state["entries"]
    assert {key: first[key] for key in ("id", "what", "state", "epsilon", "delta", "job", "version")} == {
        "id": 1,
        "what": "[red]first",
        "state": "done",
        "epsilon": 0.1,
        "delta": 0.0,
        "job": "january",
        "version": __version__,
    }
    assert (second["state"], second["job"]) == ("reserved", None)


def test_commands_print_json_where_nobody_looks(place):
    made = place.dpcore("ledger", "create", "b.ledger", "--epsilon", 1)
    assert json.loads(made.out) == json.loads(place.dpcore("ledger", "show", "b.ledger").out)
    assert json.loads(made.out)["remaining"] == {"epsilon": 1.0, "delta": 0.0}


def test_rho_is_shown_where_it_adds_up(place):
    ledger = Ledger.create("z", rho=0.5, failure_delta=1e-7)
    ledger.spend(0.01, what="gauss").done()
    ledger.spend(0.02, what="more")
    ledger.spend(0.03, what="lost").failed("storage")
    state = json.loads(place.dpcore("ledger", "show", "z", "--json").out)
    assert state["unfinished"] == {"rho": 0.02, "delta": 0.0}
    assert state["failed"] == {"rho": 0.03, "delta": 0.0}
    assert state["spent"] == {"rho": 0.06, "delta": 0.0}
    assert state["remaining"] == {"rho": 0.44, "delta": 1e-7}
    assert [entry["rho"] for entry in state["entries"]] == [0.01, 0.02, 0.03]
    assert [entry["epsilon"] for entry in state["entries"]] == [None, None, None]
    shown = place.dpcore("ledger", "show", "z", "--table").out
    assert re.search(r"^unfinished +rho 0\.02, delta 0 \(part of spent", shown, re.MULTILINE)
    assert re.search(r"^failed +rho 0\.03, delta 0 \(part of spent\)", shown, re.MULTILINE)
    assert re.search(r"Z +1 +0\.01 +0 +done +– +gauss", shown)
    assert re.search(r"Z +3 +0\.03 +0 +failed +storage +lost", shown)


def test_a_terminal_is_shown_what_was_written_and_obeys_none_of_it(place):
    wild = "\x1b[2J\x1b]0;title\x07\n\u202e"
    ledger = Ledger.create("w", epsilon=1.0, dataset=wild, unit=wild)
    ledger.spend(Privacy(0.5), what=wild, job=wild, run=wild)
    for arguments in (("show", "w", "--table"), ("show", "w"), ("complete", "w", "--table"), ("complete", "w"), ("export", "w")):
        done = place.dpcore("ledger", *arguments)
        assert done.code == 0, done.err
        assert not set(done.out + done.err) & set("\x1b\x07\u202e")
    for name, form in (("v", "--table"), ("u", "--json")):
        done = place.dpcore("ledger", "create", name, "--epsilon", 1, "--dataset", wild, form)
        assert done.code == 0, done.err
        assert not set(done.out + done.err) & set("\x1b\x07\u202e")


def test_showing_changes_nothing(spent):
    before = (spent.folder / "b.ledger").read_bytes()
    spent.dpcore("ledger", "show", "b.ledger", "--table")
    spent.dpcore("ledger", "show", "b.ledger", "--json")
    assert (spent.folder / "b.ledger").read_bytes() == before
    assert sorted(path.name for path in spent.folder.iterdir()) == ["b.ledger"]


def test_what_exists_is_never_replaced(spent):
    before = (spent.folder / "b.ledger").read_bytes()
    done = spent.dpcore("ledger", "create", "b.ledger", "--epsilon", 100)
    assert done.code == 2
    assert "b.ledger exists already, and a ledger is never replaced" in done.err
    assert (spent.folder / "b.ledger").read_bytes() == before
    (spent.folder / "notes.txt").write_text("mine")
    assert spent.dpcore("ledger", "create", "notes.txt", "--epsilon", 100).code == 2
    assert (spent.folder / "notes.txt").read_text() == "mine"


def test_a_ledger_that_another_process_made_just_now(place, monkeypatch):
    Ledger.create("b", epsilon=1.0)
    monkeypatch.setattr("pathlib.Path.exists", lambda _: False)
    done = place.dpcore("ledger", "create", "b", "--epsilon", 2)
    assert (done.code, "another process has just made it" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", -1), "epsilon must be in"),
        (("--epsilon", "inf"), "epsilon"),
        (("--epsilon", 1, "--delta", 1), "delta must be in"),
        (("--epsilon", 1, "--zcdp"), "--zcdp needs a --delta above --failure-delta"),
        (("--epsilon", 1, "--failure-delta", 1e-7), "--failure-delta is for --rho, --mu and --zcdp"),
        (("--epsilon", 1, "--rho", 1), "--rho is a budget by itself"),
        (("--epsilon", "much"), "not a valid float"),
        ((), "--epsilon"),
        (("--rho", "nan"), "rho must be in"),
        (("--mu", -1), "mu must be in"),
        (("--mu", 0), "--mu must be positive"),
        (("--mu", 1, "--rho", 1), "--rho is a budget by itself: leave out --mu"),
        (("--mu", 1, "--epsilon", 1), "--mu is a budget by itself: leave out --epsilon"),
    ],
)
def test_parameters_that_make_no_budget(place, arguments, message):
    done = place.dpcore("ledger", "create", "b.ledger", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not (place.folder / "b.ledger").exists()


def test_a_ledger_of_gaussian_privacy(place):
    done = place.dpcore("ledger", "create", "b.ledger", "--mu", 0.5, "--failure-delta", 1e-7, "--table")
    assert done.code == 0, done.err
    assert "a budget of mu 0.5, delta 1e-07; kind gdp" in done.out
    with Ledger(place.folder / "b.ledger").spend(GaussianPrivacy(0.3), what="a mean"):
        pass
    shown = place.dpcore("ledger", "show", "b.ledger", "--table").out
    assert "kind gdp: squares of mu and the delta of failures add up" in shown
    assert "remaining   mu 0.4" in shown
    assert "0.045" in shown  # the rho of the spend, half its square


GAUSSIAN_JOB = """
version = 1
[input]
path = "t.csv"
[output]
path = "out.json"
[ledger]
path = "b.ledger"
[privacy]
max_epsilon = 1.5
max_delta = 1e-7
accounting = "zcdp"
[[query]]
name = "x"
kind = "histogram"
column = "x"
categories = [1, 2, 3]
missing = 1
unknown = 1
epsilon = 0.25
"""


def test_a_job_pays_in_a_ledger_of_gaussian_privacy(place):
    """By its (ε, δ): the ρ of its answers would be taken for a μ."""
    ledger = Ledger.create(place.folder / "b.ledger", mu=3.0, failure_delta=1e-6)
    (place.folder / "t.csv").write_text("x\n1\n2\n3\n")
    (place.folder / "job.toml").write_text(GAUSSIAN_JOB)
    done = place.dpcore("release", "job.toml")
    assert done.code == 0, done.said
    [entry] = ledger.entries()
    assert entry.epsilon is not None
    assert ledger.spent.mu == pytest.approx(mu_pure(entry.epsilon), rel=1e-12)
    assert ledger.spent.mu > 0.2
    Ledger.create(place.folder / "small.ledger", mu=0.1)
    (place.folder / "job.toml").write_text(GAUSSIAN_JOB.replace("b.ledger", "small.ledger").replace("out.json", "other.json"))
    refused = place.dpcore("release", "job.toml")
    assert refused.code == 2
    assert f"the job needs mu {mu_pure(entry.epsilon):.6g}, delta" in refused.err
    assert "has mu 0.1, delta 0.0 left" in refused.err


def test_what_is_no_ledger(place):
    (place.folder / "text").write_text("no ledger " * 1000)
    sqlite3.connect(place.folder / "other").execute("CREATE TABLE t (x)").connection.close()
    for name in ("text", "other"):
        done = place.dpcore("ledger", "show", name)
        assert done.code == 2, done.err
        assert "must name a ledger" in done.err


def test_what_the_system_does_not_give(place):
    done = place.dpcore("ledger", "show", "absent.ledger")
    assert done.code == 4
    assert "absent.ledger: there is no ledger of this name; make one with" in done.err
    assert place.dpcore("ledger", "show", place.folder).code == 4
    (place.folder / "file").write_text("")
    done = place.dpcore("ledger", "create", "file/b.ledger", "--epsilon", 1)
    assert done.code == 4
    assert "cannot make the folder" in done.err


def test_a_budget_that_is_used_up_says_so(spent):
    with pytest.raises(BudgetError):
        Ledger("b.ledger").spend(Privacy(0.21), what="too much")
    assert "too much" not in spent.dpcore("ledger", "show", "b.ledger").out


def test_the_help_teaches(place):
    shown = {
        name: " ".join(place.dpcore("ledger", *name, "--help").out.split())
        for name in ((), ("create",), ("show",), ("complete",), ("export",))
    }
    for words in (
        "reserves its cost before it draws any noise",
        "[ledger] path =",
        "not an access control",
        "dpcore ledger show",
    ):
        assert words in shown[()], words
    for words in ("--rho", "basic", "zcdp", "--dataset", "Exit codes: 0 made; 2"):
        assert words in shown[("create",)], words
    for words in ("reserved", "was killed", "--json", "Exit codes: 0 shown; 2"):
        assert words in shown[("show",)], words
    assert "--abandon ID" in shown[("complete",)]
    assert "(epsilon, 2 delta)" in shown[("export",)]
    assert "ledger" in place.dpcore("--help").out


# Runs that were killed


@pytest.fixture
def killed(place):
    """A ledger with two runs that were sealed and killed."""
    ledger = Ledger.create("b.ledger", epsilon=1.0)
    files = [sealed(place.folder, name, b"content") for name in ("first", "second")]
    spends = [ledger.spend(Privacy(0.25), what=f"run of {file.path.name}", run=file.path.name) for file in files]
    for spend, file in zip(spends, files, strict=True):
        file.temporary.write_bytes(b"content")
        spend.seal([file])
    return place


def test_sealed_runs_are_completed(killed):
    done = killed.dpcore("ledger", "complete", "b.ledger", "--table")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [f"b.ledger: entry {i} is published: run of {name}" for i, name in ((1, "first"), (2, "second"))]
    assert (killed.folder / "first").read_bytes() == (killed.folder / "second").read_bytes() == b"content"
    assert killed.dpcore("ledger", "complete", "b.ledger", "--table").out == ""


def test_what_is_completed_as_json(killed):
    (killed.folder / "second").write_text("mine")
    done = killed.dpcore("ledger", "complete", "b.ledger")
    said = json.loads(done.out)
    assert (done.code, said["path"], said["abandoned"]) == (4, "b.ledger", [])
    assert "runs stay sealed in b.ledger (id 2): their names are taken" in done.err
    assert [[entry["what"] for entry in said[key]] for key in ("published", "sealed")] == [["run of first"], ["run of second"]]
    said = json.loads(killed.dpcore("ledger", "complete", "b.ledger", "--abandon", 2).out)
    assert [(entry["id"], entry["state"]) for entry in said["abandoned"]] == [(2, "failed")]
    assert said["published"] == said["sealed"] == []


def test_what_cannot_be_completed_is_said(killed):
    (killed.folder / "second").write_text("mine")
    done = killed.dpcore("ledger", "complete", "b.ledger", "--table")
    assert (done.code, done.out) == (4, "b.ledger: entry 1 is published: run of first\n")
    assert "b.ledger: entry 2 stays sealed: run of second" in done.err
    assert "their names are taken" in done.err
    assert (killed.folder / "second").read_text() == "mine"
    assert "second" in killed.dpcore("ledger", "show", "b.ledger").out
    given_up = killed.dpcore("ledger", "complete", "b.ledger", "--abandon", 2, "--table")
    assert (given_up.code, given_up.out) == (0, "b.ledger: entry 2 is abandoned; its cost stays spent\n")
    assert killed.dpcore("ledger", "complete", "b.ledger").code == 0
    assert killed.dpcore("ledger", "complete", "b.ledger", "--abandon", 7).code == 2
    state = json.loads(killed.dpcore("ledger", "show", "b.ledger", "--json").out)
    assert [(entry["state"], entry["reason"]) for entry in state["entries"]] == [("done", None), ("failed", "abandoned")]
    assert state["failed"] == {"epsilon": 0.25, "delta": 0.0}


# Ledgers of format 1, as earlier versions wrote them


OLD = """
CREATE TABLE budget (
    one INTEGER PRIMARY KEY CHECK (one = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, relation TEXT NOT NULL,
    accounting TEXT NOT NULL CHECK (accounting IN ('basic', 'zcdp')), unit TEXT NOT NULL, created TEXT NOT NULL,
    version TEXT NOT NULL);
CREATE TABLE spend (
    id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL, reserved TEXT NOT NULL, done TEXT,
    epsilon TEXT, delta TEXT, rho TEXT, job TEXT, version TEXT NOT NULL);
PRAGMA application_id = 1685087084;
PRAGMA user_version = 1;
"""


def old_ledger(path, accounting, spends):
    connection = sqlite3.connect(path)
    connection.executescript(OLD)
    connection.execute("INSERT INTO budget VALUES (1, '1.0', '1e-06', 'add_remove', ?, 'person', '2026-01-01', '0.1.0')", (accounting,))
    for what, done, *amounts in spends:
        row = (what, "2026-02-03T04:05:06.789+00:00", done, *amounts, "job", "0.1.0")
        connection.execute(
            "INSERT INTO spend (what, reserved, done, epsilon, delta, rho, job, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        )
    connection.commit()
    connection.close()
    return path.read_bytes()


BASIC = [("well", "2026-02-03", "0.1", "1e-7", None), ("killed", None, "0.2", "0", None)]
ZCDP = [
    ("gauss", "2026-02-03", None, "0", "0.001"),
    ("approximate", "2026-02-03", "0.05", "1e-7", "0.00125"),
    ("killed", None, None, "0", "0.002"),
]


def test_old_ledgers_are_refused_with_the_command_that_carries_them_over(place):
    old_ledger(place.folder / "old ledger", "basic", BASIC)
    for arguments in (("show", "old ledger"), ("complete", "old ledger")):
        done = place.dpcore("ledger", *arguments)
        assert done.code == 2
        assert "of format 2 or 3, but this one has format 1" in done.err
        assert f"`dpcore ledger export '{place.folder / 'old ledger'}' --into NEW`" in done.err


def test_an_old_basic_ledger_is_carried_over_as_it_is(place):
    before = old_ledger(place.folder / "old", "basic", BASIC)
    done = place.dpcore("ledger", "export", "old", "--into", "new", "--dataset", "claims-2026", "--table")
    assert done.code == 0, done.err
    assert "remaining  epsilon 0.7, delta 9e-07" in done.out
    new = Ledger("new")
    assert (new.kind, new.budget, new.spent) == ("basic", Budget(1.0, 1e-6), Budget(0.3, 1e-7))
    assert (new.relation, new.unit, new.dataset) == ("add_remove", "person", "claims-2026")
    first, second = new.entries()
    assert (first.what, first.state, first.job, first.version) == ("well", "done", "job", "0.1.0")
    assert (second.what, second.state) == ("killed", "reserved")
    assert first.when.isoformat() == "2026-02-03T04:05:06.789000+00:00"
    assert (place.folder / "old").read_bytes() == before
    new.spend(Privacy(0.7, 9e-7, "add_remove"), what="the rest")


def test_an_old_zcdp_ledger_fixes_its_failures_when_it_is_carried_over(place):
    old_ledger(place.folder / "old", "zcdp", ZCDP)
    assert place.dpcore("ledger", "export", "old", "--into", "new").code == 0
    new = Ledger("new")
    assert new.budget == Budget(None, 1e-7, zcdp_rho(1.0, 1e-6, failure_delta=1e-7))
    assert new.spent == Budget(None, 1e-7, 0.00425)
    assert new.privacy(1e-6).epsilon <= 1.0
    done = place.dpcore("ledger", "export", "old", "--into", "more", "--failure-delta", 5e-7)
    assert done.code == 0, done.err
    assert Ledger("more").remaining.delta == 4e-7
    assert Ledger("more").privacy(1e-6).epsilon <= 1.0
    refused = ((5e-8, "at least what was spent, 1e-07"), (1e-6, "leave enough of delta"), ("nan", "must be in [0.0, inf), got nan"))
    for failures, words in refused:
        done = place.dpcore("ledger", "export", "old", "--into", "none", "--failure-delta", failures)
        assert (done.code, words in done.err) == (2, True)
    assert not (place.folder / "none").exists()


def test_an_old_zcdp_ledger_that_is_used_up_stays_used_up(place):
    rho = zcdp_rho(1.0, 1e-6) * (1 + 1e-11)  # as near to its limit as a search can tell
    old_ledger(place.folder / "old", "zcdp", [("all", "2026-02-03", None, "0", repr(rho))])
    assert place.dpcore("ledger", "export", "old", "--into", "new").code == 0
    assert Ledger("new").remaining.rho < 1e-9
    assert Ledger("new").spent.rho == pytest.approx(rho)


def test_ledgers_of_either_format_are_printed_as_json(place):
    old_ledger(place.folder / "old", "zcdp", ZCDP)
    state = json.loads(place.dpcore("ledger", "export", "old").out)
    assert (state["format"], state["accounting"], state["budget"]) == (1, "zcdp", {"epsilon": 1.0, "delta": 1e-6})
    assert [entry["rho"] for entry in state["entries"]] == [0.001, 0.00125, 0.002]
    assert [entry["state"] for entry in state["entries"]] == ["done", "done", "reserved"]
    place.dpcore("ledger", "export", "old", "--into", "new")
    assert place.dpcore("ledger", "export", "new").out == place.dpcore("ledger", "show", "new", "--json").out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("old", "--into", "old"), 2, "exists already"),
        (("old", "--into", "no/folder"), 4, "the folder of the ledger does not exist"),
        (("old", "--dataset", "x"), 2, "--failure-delta and --dataset are for --into"),
        (("old", "--table"), 2, "--table is for --into"),
        (("old", "--into", "new", "--failure-delta", 1e-7), 2, "failure_delta must be left out for a ledger with accounting 'basic'"),
        (("none", "--into", "new"), 4, "no ledger of this name"),
        (("text", "--into", "new"), 2, "not an SQLite file"),
        (("text",), 2, "not an SQLite file"),
    ],
)
def test_what_cannot_be_exported(place, arguments, code, words):
    before = old_ledger(place.folder / "old", "basic", BASIC)
    (place.folder / "text").write_text("no ledger " * 1000)
    done = place.dpcore("ledger", "export", *arguments)
    assert (done.code, words in done.err) == (code, True), done.err
    assert not (place.folder / "new").exists()
    assert (place.folder / "old").read_bytes() == before


@pytest.mark.parametrize("change", ["epsilon = 'much'", "delta = NULL", "epsilon = '-1'"])
def test_old_ledgers_that_are_damaged(place, change):
    old_ledger(place.folder / "old", "basic", BASIC)
    with contextlib.closing(sqlite3.connect(place.folder / "old")) as connection, connection:
        connection.execute(f"UPDATE spend SET {change}")
    done = place.dpcore("ledger", "export", "old", "--into", "new")
    assert (done.code, "damaged" in done.err) == (4, True)
    assert not (place.folder / "new").exists()
