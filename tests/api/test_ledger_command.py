"""`dpcore ledger`: what it makes, what it shows, and which exit code each refusal has."""

from __future__ import annotations

import json
import re
import sqlite3

import pytest

from dpcore import BudgetError, Privacy, __version__
from dpcore.accounting import Budget, Ledger, zcdp_rho
from support.jobs import Workplace


@pytest.fixture
def place(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Workplace(tmp_path, capsys)


def test_a_ledger_is_made_and_shown(place):
    done = place.dpcore("ledger", "create", "deep/folder/b.ledger", "--epsilon", 3, "--delta", 1e-6)
    assert done.code == 0, done.err
    assert "deep/folder/b.ledger: a ledger with a budget of epsilon 3, delta 1e-06; kind basic, relation replace, unit row, " in done.out
    shown = place.dpcore("ledger", "show", "deep/folder/b.ledger")
    assert shown.code == 0, shown.err
    assert re.search(r"^budget +epsilon 3, delta 1e-06$", shown.out, re.MULTILINE)
    assert re.search(r"^spent +epsilon 0, delta 0$", shown.out, re.MULTILINE)
    assert re.search(r"^remaining +epsilon 3, delta 1e-06$", shown.out, re.MULTILINE)
    assert "Nothing has been spent." in shown.out
    assert Ledger("deep/folder/b.ledger").budget == Budget(3.0, 1e-6)


def test_what_is_said_is_kept(place):
    kept = ("--relation", "add_remove", "--unit", "person", "--dataset", "claims-2026")
    done = place.dpcore("ledger", "create", "z", "--zcdp", "--epsilon", 3, "--delta", 1e-6, "--failure-delta", 1e-7, *kept)
    assert done.code == 0, done.err
    assert "All that it pays for is (epsilon 3, delta 1e-06)-private together." in done.out
    ledger = Ledger("z")
    assert (ledger.kind, ledger.relation, ledger.unit, ledger.dataset) == ("zcdp", "add_remove", "person", "claims-2026")
    assert ledger.budget == Budget(None, 1e-7, zcdp_rho(3.0, 1e-6, failure_delta=1e-7))
    about = "kind zcdp: rho and the delta of failures add up; relation add_remove; unit person; data set claims-2026)"
    assert about in place.dpcore("ledger", "show", "z").out
    assert place.dpcore("ledger", "create", "r", "--rho", 0.5).code == 0
    assert Ledger("r").budget == Budget(None, 0.0, 0.5)


@pytest.fixture
def spent(place):
    """A ledger with one spend that is done and one that is not."""
    ledger = Ledger.create("b.ledger", epsilon=0.5, delta=1e-6)
    ledger.spend(Privacy(0.1), what="[red]first", job="january").done()
    ledger.spend(Privacy(0.2, 1e-7), what="killed")
    return place


def test_spends_are_listed_with_what_is_reserved(spent):
    shown = spent.dpcore("ledger", "show", "b.ledger").out
    # Sums of decimal numbers: 0.1 + 0.2 is 0.3.
    assert re.search(r"^spent +epsilon 0\.3, delta 1e-07$", shown, re.MULTILINE)
    assert re.search(r"^unfinished +epsilon 0\.2, delta 1e-07 \(part of spent: jobs that run or were killed\)$", shown, re.MULTILINE)
    assert re.search(r"^remaining +epsilon 0\.2, delta 9e-07$", shown, re.MULTILINE)
    assert re.search(r"^when +id +epsilon +delta +state +what +job +dpcore", shown, re.MULTILINE)
    when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.search(rf"^{when} +1 +0\.1 +0 +done +\[red\]first +january +{re.escape(__version__)}", shown, re.MULTILINE)
    assert re.search(rf"^{when} +2 +0\.2 +1e-07 +reserved +killed +–", shown, re.MULTILINE)


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
    shown = place.dpcore("ledger", "show", "z").out
    assert re.search(r"^unfinished +rho 0\.02, delta 0 \(part of spent", shown, re.MULTILINE)
    assert re.search(r"^failed +rho 0\.03, delta 0 \(part of spent\)", shown, re.MULTILINE)
    assert re.search(r"Z +1 +0\.01 +0 +done +– +gauss", shown)
    assert re.search(r"Z +3 +0\.03 +0 +failed +storage +lost", shown)


def test_showing_changes_nothing(spent):
    before = (spent.folder / "b.ledger").read_bytes()
    spent.dpcore("ledger", "show", "b.ledger")
    spent.dpcore("ledger", "show", "b.ledger", "--json")
    assert (spent.folder / "b.ledger").read_bytes() == before
    assert sorted(path.name for path in spent.folder.iterdir()) == ["b.ledger"]


def test_what_exists_is_never_replaced(spent):
    before = (spent.folder / "b.ledger").read_bytes()
    done = spent.dpcore("ledger", "create", "b.ledger", "--epsilon", 100)
    assert done.code == 2
    assert "b.ledger exists already: a ledger is never replaced" in done.err
    assert (spent.folder / "b.ledger").read_bytes() == before
    (spent.folder / "notes.txt").write_text("mine")
    assert spent.dpcore("ledger", "create", "notes.txt", "--epsilon", 100).code == 2
    assert (spent.folder / "notes.txt").read_text() == "mine"


def test_a_ledger_that_another_process_made_just_now(place, monkeypatch):
    Ledger.create("b", epsilon=1.0)
    monkeypatch.setattr("pathlib.Path.exists", lambda _: False)
    done = place.dpcore("ledger", "create", "b", "--epsilon", 2)
    assert (done.code, "made just now by another process" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", -1), "epsilon must be in"),
        (("--epsilon", "inf"), "epsilon"),
        (("--epsilon", 1, "--delta", 1), "delta must be in"),
        (("--epsilon", 1, "--zcdp"), "--zcdp needs a --delta above --failure-delta"),
        (("--epsilon", 1, "--failure-delta", 1e-7), "--failure-delta is for --rho and --zcdp"),
        (("--epsilon", 1, "--rho", 1), "--rho is a budget by itself"),
        (("--epsilon", "much"), "not a valid float"),
        ((), "--epsilon"),
        (("--rho", "nan"), "rho must be in"),
    ],
)
def test_parameters_that_make_no_budget(place, arguments, message):
    done = place.dpcore("ledger", "create", "b.ledger", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not (place.folder / "b.ledger").exists()


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
    assert "absent.ledger: no ledger here: make one with" in done.err
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
    shown = {name: " ".join(place.dpcore("ledger", *name, "--help").out.split()) for name in ((), ("create",), ("show",), ("complete",))}
    for words in (
        "reserves what it is about to spend before any noise is drawn",
        "[ledger] path =",
        "no access control",
        "dpcore ledger show",
    ):
        assert words in shown[()], words
    for words in ("--rho", "basic", "zcdp", "--dataset", "Exit codes: 0 made; 2"):
        assert words in shown[("create",)], words
    for words in ("reserved", "it was killed", "--json", "Exit codes: 0 shown; 2"):
        assert words in shown[("show",)], words
    assert "--abandon ID" in shown[("complete",)]
    assert "ledger" in place.dpcore("--help").out
