"""Series in a ledger: paid for once, with their last step."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from dpcore import Privacy
from dpcore.accounting import Ledger
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError


def ledger_of(folder, **budget):
    return Ledger.create(folder / "series.ledger", **(budget or {"epsilon": 1.0}))


@pytest.mark.parametrize(("budget", "amount"), [({"epsilon": 1.0}, Privacy(0.75)), ({"rho": 0.5}, 0.4)])
def test_a_series_is_paid_for_once(tmp_path, budget, amount):
    ledger = ledger_of(tmp_path, **budget)
    assert ledger.last_step("visits") is None
    first = ledger.spend(amount, what="step 1", series="visits")
    assert ledger.last_step("visits") == (0, "")
    spent = ledger.spent
    ledger.note_step(first.id, "visits", 1, "a")
    second = ledger.spend(amount, what="step 2", series="visits")
    assert ledger.spent == spent
    ledger.note_step(second.id, "visits", 2, "b")
    assert Ledger(ledger.path).last_step("visits") == (2, "b")
    assert [entry.what for entry in ledger.entries()] == ["step 1", "step 2"]
    with pytest.raises(BudgetError):
        ledger.spend(amount, what="another", series="others")
    assert ledger.last_step("others") is None


def test_a_step_has_one_answer(tmp_path):
    ledger = ledger_of(tmp_path)
    spend = ledger.spend(Privacy(0.5), what="step 1", series="visits")
    ledger.note_step(spend.id, "visits", 1, "a")
    ledger.note_step(spend.id, "visits", 1, "a")
    for step, answer in ((1, "b"), (3, "c")):
        with pytest.raises(ParameterError, match=r"step must be the next one of its series, which has step 1 in the ledger"):
            ledger.note_step(spend.id, "visits", step, answer)
    with pytest.raises(ParameterError, match="which has no step in the ledger, got 1"):
        ledger.note_step(spend.id, "others", 1, "a")
    for arguments in (("visits", 0, "a"), ("", 2, "a"), ("visits", 2, "")):
        with pytest.raises(ParameterError):
            ledger.note_step(spend.id, *arguments)
    with pytest.raises(ParameterTypeError):
        ledger.last_step(3)
    with pytest.raises(OSError, match="damaged"):
        ledger.note_step(99, "visits", 2, "b")


@pytest.mark.parametrize(
    "damage", ["UPDATE step SET answer = 'x' WHERE step = 1", "DELETE FROM step WHERE step = 1", "UPDATE step SET spend = 7"]
)
def test_damage_is_noticed(tmp_path, damage):
    ledger = ledger_of(tmp_path)
    spend = ledger.spend(Privacy(0.5), what="step 1", series="visits")
    for step in (1, 2):
        ledger.note_step(spend.id, "visits", step, "a")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(damage)
    with pytest.raises(OSError, match="damaged"):
        ledger.last_step("visits")
