"""A ledger holds the commitments of releases: a key is for one run, a run has one key, and a key releases once."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

import pytest

from dpcore import Privacy
from dpcore.accounting import Ledger
from dpcore.errors import ParameterError, ParameterTypeError

ONE, TWO = "a" * 64, "b" * 64
EPSILON = Privacy(0.125)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", epsilon=2.0)


def spend(ledger, **keys):
    return ledger.spend(EPSILON, what="release", **keys)


def test_a_commitment_is_recorded_with_its_charge(ledger):
    spend(ledger, run="run", commitment=ONE).done()
    spend(ledger, run="another run").done()
    assert [(entry.run, entry.commitment) for entry in Ledger(ledger.path).entries()] == [("run", ONE), ("another run", None)]


def test_a_key_is_for_one_run(ledger):
    spend(ledger, run="run", commitment=ONE)
    with pytest.raises(ParameterError, match="entry 1 has it for another run: a key is for one run"):
        spend(ledger, run="another", commitment=ONE)
    assert len(list(ledger.entries())) == 1
    spend(ledger, run="another", commitment=TWO)


@pytest.mark.parametrize("given", [TWO, None])
def test_a_run_has_one_key(ledger, given):
    spend(ledger, run="run", commitment=ONE)
    with pytest.raises(ParameterError, match="a run never has two different noises"):
        spend(ledger, run="run", commitment=given)
    assert len(list(ledger.entries())) == 1


@pytest.mark.parametrize("end", ["done", "sealed"])
def test_a_key_releases_once(ledger, tmp_path, end):
    spent = spend(ledger, run="run", commitment=ONE)
    if end == "sealed":
        from support.crashes import sealed

        (tmp_path / ".out.json.1.tmp").write_bytes(b"x")
        spent.seal([sealed(tmp_path, "out.json", b"y")])
    else:
        spent.done()
    with pytest.raises(ParameterError, match="entry 1 has released under it"):
        spend(ledger, run="run", commitment=ONE)


@pytest.mark.parametrize("end", [None, "failed"])
def test_a_run_that_died_is_charged_again(ledger, end):
    spent = spend(ledger, run="run", commitment=ONE)
    if end:
        spent.failed("storage")
    spend(ledger, run="run", commitment=ONE).done()
    assert ledger.spent.epsilon == 0.25


def test_a_commitment_needs_its_run(ledger):
    with pytest.raises(ParameterError, match="run is required with commitment"):
        spend(ledger, commitment=ONE)
    with pytest.raises(ParameterTypeError, match="commitment must be a str"):
        spend(ledger, run="run", commitment=1)
    with pytest.raises(ParameterError, match="commitment must not be empty"):
        spend(ledger, run="run", commitment="")
    assert list(ledger.entries()) == []


def test_runs_without_a_commitment_are_as_they_were(ledger):
    for _ in range(2):
        spend(ledger, run="run").done()
    spend(ledger).done()
    assert [entry.commitment for entry in ledger.entries()] == [None] * 3
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'commitment'").fetchone() is None


def test_a_ledger_that_was_there_before_takes_them(ledger):
    """The table is made with the first commitment."""
    spend(ledger, run="old").done()
    spend(ledger, run="new", commitment=ONE).done()
    assert [entry.commitment for entry in Ledger(ledger.path).entries()] == [None, ONE]


def test_damage_is_noticed(ledger):
    spend(ledger, run="run", commitment=ONE)
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("UPDATE commitment SET commitment = ?", (TWO,))
    with pytest.raises(OSError, match="damaged"):
        list(Ledger(ledger.path).entries())
    with pytest.raises(OSError, match="damaged"):
        spend(ledger, run="run", commitment=TWO)


def test_of_many_at_once_one_gets_the_commitment(ledger):
    """Each of eight runs wants the same key; the transaction that looks is the one that writes."""
    got, refused = [], []

    def work(number):
        try:
            got.append(spend(Ledger(ledger.path), run=f"run {number}", commitment=ONE).id)
        except ParameterError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)
