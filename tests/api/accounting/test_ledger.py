"""A ledger's arithmetic, what its entries say, and which arguments it refuses."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import Privacy, __version__, accounting
from dpcore.accounting import Budget, Ledger, Uses
from dpcore.accounting.ledger.reservation import Reservation
from dpcore.errors import BudgetError, DataError, EntropyError, ParameterError, ParameterTypeError


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "a ledger?#%41", epsilon=1.0, delta=1e-6)


@pytest.fixture
def zcdp(tmp_path):
    return Ledger.create(tmp_path / "zcdp", rho=0.02, failure_delta=1e-7)


# Sums


def test_tenths_add_up_as_they_are_written(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=0.3)
    for _ in range(3):  # 0.1 + 0.1 + 0.1 > 0.3 in float64
        ledger.spend(Privacy(0.1), what="tenth").done()
    assert ledger.spent == Budget(0.3, 0.0)
    assert ledger.remaining == Budget(0.0, 0.0)
    with pytest.raises(BudgetError, match=r"^'crumb' needs epsilon 5e-324, delta 0\.0; the ledger has epsilon 0\.0, delta 0\.0 left$"):
        ledger.spend(Privacy(5e-324), what="crumb")


def test_delta_is_a_budget_of_its_own(ledger):
    ledger.spend(Privacy(0.25, 7e-7), what="a")
    with pytest.raises(BudgetError, match=r"'b' needs epsilon 0\.25, delta 4e-07; the ledger has epsilon 0\.75, delta 3e-07 left"):
        ledger.spend(Privacy(0.25, 4e-7), what="b")
    ledger.spend(Privacy(0.0, 3e-7), what="c")
    assert ledger.remaining == Budget(0.75, 0.0)
    assert ledger.spent == Budget(0.25, 1e-6)


def test_a_refusal_writes_nothing(ledger):
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetError):
        ledger.spend(Privacy(1.5), what="too much")
    assert ledger.path.read_bytes() == before
    assert ledger.spend(Privacy(0.5), what="fits").id == 1


# Each example makes a file and syncs it.
@pytest.mark.long
@given(st.booleans(), st.lists(st.floats(1e-6, 0.4), min_size=1, max_size=8))
def test_totals_are_exact(tmp_path_factory, by_rho, amounts):
    path = tmp_path_factory.mktemp("ledger") / "x"
    ledger = Ledger.create(path, rho=1.0) if by_rho else Ledger.create(path, epsilon=1.0)
    counted = "rho" if by_rho else "epsilon"
    exact = Fraction(0)
    for amount in amounts:
        fits = exact + Fraction(repr(amount)) <= 1
        wanted = amount if by_rho else Privacy(amount)
        assert ledger.fits(wanted) == fits
        try:
            ledger.spend(wanted, what="x")
            granted = True
        except BudgetError:
            granted = False
        assert granted == fits
        exact += Fraction(repr(amount)) if granted else 0
    assert Fraction(repr(getattr(ledger.spent, counted))) >= exact
    left = getattr(ledger.remaining, counted)
    assert Fraction(repr(left)) <= 1 - exact < Fraction(repr(math.nextafter(left, 2.0)))
    ledger.spend(left if by_rho else Privacy(left), what="the rest")


def test_uses_cost_what_basic_composition_says(ledger):
    ledger.spend(Uses("approximate", uses=4, epsilon=0.1, delta=1e-7), what="four")
    ledger.spend(Uses("laplace", uses=3, epsilon=0.1), what="three")
    assert ledger.spent == Budget(0.7, 4e-7)
    with pytest.raises(ParameterError, match="mechanism='gaussian' have only rho"):
        ledger.spend(Uses("gaussian", rho=0.01), what="no epsilon")


def test_several_amounts_are_one_spend_of_their_sum(ledger, zcdp):
    parts = [Privacy(0.1, 1e-8), [Uses("laplace", uses=2, epsilon=0.1)]]
    assert ledger.cost(parts) == Budget(0.3, 1e-8)
    ledger.spend(parts, what="two parts")
    assert ledger.spent == Budget(0.3, 1e-8)
    zcdp.spend([0.001, 0.002, Uses("gaussian", uses=2, rho=0.001), Privacy(0.0, 1e-8)], what="four parts")
    assert zcdp.spent == Budget(None, 1e-8, 0.005)
    with pytest.raises(ParameterError, match="amount must have at least one part"):
        ledger.spend([], what="none")


# zCDP


def test_a_zcdp_ledger_adds_rho_and_the_delta_of_failures(zcdp):
    zcdp.spend(0.001, what="given as rho")
    zcdp.spend(0.002, what="given as rho").done()
    zcdp.spend(Privacy(0.05, 1e-8), what="approximate")
    zcdp.spend(Uses("bounded_range", uses=4, epsilon=0.02), what="selections")
    zcdp.spend(Uses("gaussian", uses=2, rho=0.001), what="gaussians")
    rho = 0.003 + accounting.rho_pure(0.05) + 4 * accounting.rho_bounded_range(0.02) + 0.002
    assert zcdp.spent.rho == pytest.approx(rho, rel=1e-14)
    assert (zcdp.spent.epsilon, zcdp.spent.delta) == (None, 1e-8)
    assert accounting.rho_pure(0.05) <= 0.05**2 / 2
    with pytest.raises(BudgetError, match=r"'x' needs rho 1\.0, delta 0\.0; the ledger has rho 0\.0\d+, delta 9e-08 left"):
        zcdp.spend(1.0, what="x")
    zcdp.spend(zcdp.remaining.rho, what="the rest")
    assert zcdp.remaining.rho < 1e-17


def test_rho_is_never_traded_for_delta(zcdp):
    """Nothing was spent of ρ, so that a conversion would have all of a δ to give; there is the δ of failures and no other."""
    with pytest.raises(BudgetError, match=r"needs rho 0\.0, delta 2e-07; the ledger has rho 0\.02, delta 1e-07 left"):
        zcdp.spend(Privacy(0.0, 2e-7), what="failures")
    assert not zcdp.fits(Privacy(0.0, 2e-7))
    zcdp.spend(Privacy(0.0, 1e-7), what="failures")
    zcdp.spend(0.02, what="and yet all of rho")


def test_the_promise_follows_from_the_budget_alone(zcdp, ledger):
    before = zcdp.privacy(1e-6)
    assert before == Privacy(accounting.zcdp_epsilon(0.02, 9e-7), 1e-6)
    zcdp.spend(0.015, what="x")
    zcdp.spend(Privacy(0.0, 1e-7), what="y")
    assert zcdp.privacy(1e-6) == before
    assert ledger.privacy() == Privacy(1.0, 1e-6)
    with pytest.raises(ParameterTypeError, match="delta must be given"):
        zcdp.privacy()
    with pytest.raises(ParameterError, match="delta must be above the failure_delta of the ledger, 1e-07, got 1e-07"):
        zcdp.privacy(1e-7)
    with pytest.raises(ParameterError, match="delta must be left out for a ledger of kind 'basic'"):
        ledger.privacy(1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "failures"), [(1.0, 1e-6, 0.0), (3.0, 1e-6, 1e-7), (0.1, 1e-9, 0.0), (20.0, 0.5, 0.4)])
def test_the_rho_for_a_target_keeps_it_and_is_the_largest(tmp_path, epsilon, delta, failures):
    rho = accounting.zcdp_rho(epsilon, delta, failure_delta=failures)
    made = Ledger.create(tmp_path / "x", rho=rho, failure_delta=failures)
    assert made.privacy(delta).epsilon <= epsilon
    assert accounting.zcdp_epsilon(rho * (1 + 1e-8), delta - failures) > epsilon


# Roundings


@pytest.mark.parametrize("third", [Fraction(1, 3), Decimal(1) / 3])
def test_budgets_round_down_and_amounts_round_up(tmp_path, third):
    exact = Fraction(third)
    basic = Ledger.create(tmp_path / "basic", epsilon=third, delta=third)
    zcdp = Ledger.create(tmp_path / "zcdp", rho=third, failure_delta=third)
    for limit in (basic.budget.epsilon, basic.budget.delta, zcdp.budget.rho, zcdp.budget.delta):
        assert Fraction(repr(limit)) < exact <= Fraction(repr(math.nextafter(limit, 1.0)))
    cost = zcdp.cost(third).rho
    assert Fraction(repr(math.nextafter(cost, 0.0))) < exact <= Fraction(repr(cost))
    with pytest.raises(BudgetError):
        zcdp.spend(third, what="as much, but rounded the other way")
    for guarantee in (Privacy(exact), Privacy(0.0, exact)):
        assert max(Fraction(guarantee.epsilon), Fraction(guarantee.delta)) >= exact
        with pytest.raises(BudgetError):
            basic.spend(guarantee, what="as much, but rounded the other way")


def test_numbers_that_float64_holds_are_taken_as_they_are(tmp_path):
    for place, quarter in enumerate((0.25, np.float32(0.25), np.float64(0.25), Fraction(1, 4), Decimal("0.25"))):
        assert Ledger.create(tmp_path / str(place), epsilon=quarter).budget == Budget(0.25, 0.0)
    assert Ledger.create(tmp_path / "int", epsilon=np.int64(2)).budget == Budget(2.0, 0.0)
    assert Ledger.create(tmp_path / "tenth", epsilon=Decimal("0.1")).budget == Budget(0.1, 0.0)


def test_decimals_of_any_size_are_rounded_in_no_time(tmp_path):
    tiny, huge = Decimal("1e-99999999"), Decimal("1e99999999")  # as fractions, numbers of a hundred million digits
    ledger = Ledger.create(tmp_path / "tiny", rho=1.0, failure_delta=tiny)
    assert ledger.budget.delta == 0.0
    assert ledger.cost(tiny).rho == 5e-324
    for number in (huge, Decimal("-1e99999999"), -1):
        with pytest.raises(ParameterError, match=r"amount must be in \[0.0, inf\)"):
            ledger.cost(number)


def test_no_amount_is_negative(ledger, zcdp):
    loss, uses, several = Privacy(0.5), Uses("pure", epsilon=0.5), Uses("gaussian", rho=0.01)
    object.__setattr__(loss, "epsilon", -0.5)  # pickles, too, are not checked when they are read
    object.__setattr__(uses, "uses", -3)
    object.__setattr__(several, "rho", -0.01)
    for which, amount in ((ledger, loss), (ledger, uses), (ledger, [Privacy(0.75), loss]), (zcdp, uses), (zcdp, several)):
        with pytest.raises(ParameterError, match=r"negative|must be in"):
            which.spend(amount, what="x")
        assert list(which.entries()) == []


# Reservations and records


def test_a_block_that_ends_well_is_done_and_one_that_fails_has_failed(ledger):
    with ledger.spend(Privacy(0.25), what="well", job="job-1", run="run-1") as spend:
        assert [entry.state for entry in ledger.entries()] == ["reserved"]
    with pytest.raises(ZeroDivisionError), ledger.spend(Privacy(0.25), what="badly"):
        _ = 1 // 0
    spend.done()  # again: no matter
    first, second = ledger.entries()
    assert (first.id, first.what, first.epsilon, first.delta, first.rho) == (1, "well", 0.25, 0.0, None)
    assert (first.job, first.run, first.version, first.state, first.reason) == ("job-1", "run-1", __version__, "done", None)
    assert (first.relation, first.unit, first.dataset, first.secure) == ("replace", "row", None, True)
    assert (second.what, second.job, second.run, second.state, second.reason) == ("badly", None, None, "failed", "error")
    assert first.when.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - first.when) < timedelta(minutes=5)
    assert ledger.spent.epsilon == 0.5  # both count
    assert repr(spend) == "Reservation(id=1, state='done')"


def test_a_spend_pays_for_one_block(ledger):
    done, failed = ledger.spend(Privacy(0.25), what="done"), ledger.spend(Privacy(0.25), what="failed")
    with done:
        pass
    with pytest.raises(ZeroDivisionError), failed:
        _ = 1 // 0
    for spend, state in ((done, "done"), (failed, "failed")):
        with pytest.raises(ParameterError, match=f"one release, and this one is already '{state}': call Ledger.spend"), spend:
            pytest.fail("a second release for one charge")


def test_the_error_of_a_block_is_told_whatever_became_of_its_spend(ledger):
    spend = ledger.spend(Privacy(0.25), what="x")
    Reservation(spend.id, spend._advance).done()  # as another process may have done
    with pytest.raises(ZeroDivisionError), spend:
        _ = 1 // 0
    assert [entry.state for entry in ledger.entries()] == ["done"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(3), "interrupted"),
        (OSError(28, "full"), "storage"),
        (MemoryError(), "memory"),
        (EntropyError("none"), "entropy"),
        (DataError("row 7"), "data"),
        (ValueError("someone's diagnosis"), "error"),
    ],
)
def test_a_failure_leaves_its_class_and_nothing_of_its_message(ledger, error, reason):
    with pytest.raises(type(error)), ledger.spend(Privacy(0.25), what="x"):
        raise error
    (entry,) = ledger.entries()
    assert (entry.state, entry.reason) == ("failed", reason)
    assert b"diagnosis" not in ledger.path.read_bytes()
    assert ledger.spent.epsilon == 0.25


@pytest.mark.parametrize("reason", ["", "Two words", "row 7: Ann Example", "x" * 33, "é", "7"])
def test_a_reason_is_one_word(ledger, reason):
    spend = ledger.spend(Privacy(0.25), what="x")
    with pytest.raises(ParameterError, match="reason must be one word") as raised:
        spend.failed(reason)
    assert not reason or reason not in str(raised.value).replace("7", "")
    spend.failed("storage")


def test_a_reservation_is_on_disk_before_spend_returns(ledger):
    ledger.spend(Privacy(0.25), what="x")
    with contextlib.closing(sqlite3.connect(f"{ledger.path.as_uri()}?mode=ro", uri=True)) as other, other:
        assert other.execute("SELECT what, state FROM spend").fetchall() == [("x", "reserved")]
    other.close()


def test_a_ledger_is_opened_again_with_what_it_was_made_with(tmp_path):
    made = Ledger.create(tmp_path / "x", rho=0.5, failure_delta=1e-7, relation="add_remove", unit="person", dataset="claims-2026")
    again = Ledger(tmp_path / "x")
    for one in (made, again):
        assert (one.kind, one.budget, one.relation, one.unit, one.dataset) == (
            "zcdp", Budget(None, 1e-7, 0.5), "add_remove", "person", "claims-2026",
        )  # fmt: skip
    again.spend(0.001, what="x")
    assert made.spent.rho == 0.001
    (entry,) = made.entries()
    assert (entry.relation, entry.unit, entry.dataset) == ("add_remove", "person", "claims-2026")


def test_find_gives_the_newest_run_that_has_not_failed(ledger):
    assert ledger.find("r") is None
    ledger.spend(Privacy(0.1), what="first", run="r").failed("storage")
    assert ledger.find("r") is None
    ledger.spend(Privacy(0.1), what="second", run="r").done()
    ledger.spend(Privacy(0.1), what="third", run="r")
    ledger.spend(Privacy(0.1), what="fourth", run="r").failed("storage")
    ledger.spend(Privacy(0.1), what="of another run", run="q")
    found = ledger.find("r")
    assert (found.what, found.state) == ("third", "reserved")
    assert ledger.find("p", "r") == ledger.find("r", "r") == found
    assert ledger.find("r", "q").what == ledger.find("q", "r").what == "of another run"  # the newest under any of the ids
    with pytest.raises(ParameterError, match="run must not be empty"):
        ledger.find("")
    with pytest.raises(ParameterError, match="run must not be empty"):
        ledger.find("r", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_spends_from_the_same_budget(ledger):
    child = os.fork()
    if not child:
        try:
            ledger.spend(Privacy(0.25), what="child").done()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert ledger.remaining.epsilon == 0.75


def test_threads_share_a_ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "x", epsilon=1.0)

    def spend(_):
        try:
            ledger.spend(Privacy(0.1), what="x").done()
        except BudgetError:
            return 0
        return 1

    with ThreadPoolExecutor(6) as executor:
        assert sum(executor.map(spend, range(12))) == 10
    assert ledger.spent.epsilon == 1.0
    assert [entry.state for entry in ledger.entries()] == ["done"] * 10


# What does not agree


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("unit", ["row", "person"])
def test_relations_and_units_do_not_add_up(tmp_path, relation, unit):
    ledger = Ledger.create(tmp_path / "x", epsilon=1.0, relation=relation, unit=unit)
    ledger.spend(Privacy(0.1, 0.0, relation), what="x", relation=relation, unit=unit)
    other = {"replace": "add_remove", "add_remove": "replace"}[relation]
    with pytest.raises(ParameterError, match=f"amount must have the relation of the ledger, '{relation}', got '{other}'"):
        ledger.spend(Privacy(0.1, 0.0, other), what="x")
    with pytest.raises(ParameterError, match=f"relation must be that of the ledger, '{relation}', got '{other}'"):
        ledger.spend(Uses("pure", epsilon=0.1), what="x", relation=other)
    for wrong in ("household", "row" if unit == "person" else "person"):
        with pytest.raises(ParameterError, match=f"unit must be that of the ledger, '{unit}', got '{wrong}'"):
            ledger.spend(Privacy(0.1, 0.0, relation), what="x", unit=wrong)
    assert len(list(ledger.entries())) == 1


def test_a_ledger_of_one_data_set_refuses_others(tmp_path):
    ledger = Ledger.create(tmp_path / "one", epsilon=1.0, dataset="claims-2026")
    ledger.spend(Privacy(0.1), what="x", dataset="claims-2026")
    ledger.spend(Privacy(0.1), what="the ledger's own")
    with pytest.raises(ParameterError, match="dataset must be the one the ledger was made for, 'claims-2026', got 'claims-2025'"):
        ledger.spend(Privacy(0.1), what="x", dataset="claims-2025")
    assert [entry.dataset for entry in ledger.entries()] == ["claims-2026"] * 2
    several = Ledger.create(tmp_path / "several", epsilon=1.0)
    for name in ("claims-2026", "claims-2025", None):
        several.spend(Privacy(0.1), what="x", dataset=name)
    assert [entry.dataset for entry in several.entries()] == ["claims-2026", "claims-2025", None]
    assert several.spent.epsilon == 0.3  # one person may be in all of them


def test_a_ledger_shows_what_is_left(tmp_path):
    made = Ledger.create(str(tmp_path / "x"), 1, Fraction(1, 10**6), unit="<person>")  # epsilon and delta by position
    made.spend(Privacy(0.75), what="x")
    shown = repr(made).splitlines()
    assert shown[0] == "Ledger"
    for line in ("budget     epsilon 1.0, delta 1e-06", "spent      epsilon 0.75, delta 0.0", "remaining  epsilon 0.25, delta 1e-06"):
        assert f"  {line}" in shown
    page = made._repr_html_()
    assert "remaining</th><td>epsilon 0.25, delta 1e-06</td>" in page
    assert "&lt;person&gt;" in page
    assert "<person>" not in page
    made.path.unlink()
    assert "  remaining  unknown, because the file cannot be read" in repr(made).splitlines()


@pytest.mark.parametrize("secure", [False, 0, None, "yes"])
def test_keyed_noise_is_not_paid_for(ledger, secure):
    with pytest.raises(ParameterError, match="secure must be True"):
        ledger.spend(Privacy(0.1), what="x", secure=secure)
    assert list(ledger.entries()) == []


# Wrong arguments


@pytest.mark.parametrize(
    ("amount", "error", "message"),
    [
        (0.1, ParameterTypeError, r"amount must be a Privacy or Uses .*'basic', got 0\.1; for an epsilon write Privacy\(0\.1\)"),
        (True, ParameterTypeError, "amount must be a Privacy, a Uses, a GaussianPrivacy, a number rho, or a sequence of these, got True"),
        ("0.1", ParameterTypeError, "amount must be a Privacy, a Uses, a GaussianPrivacy, a number rho, or a sequence of these, got '0.1'"),
        ([Privacy(0.1), None], ParameterTypeError, "amount must be .* got None"),
        (Privacy(math.inf), ParameterError, "amount must have a finite epsilon, got inf"),
    ],
)
def test_amounts_that_are_none_are_refused(ledger, amount, error, message):
    for use in (ledger.cost, ledger.fits, lambda amount: ledger.spend(amount, what="x")):
        with pytest.raises(error, match=message):
            use(amount)
    assert list(ledger.entries()) == []


@pytest.mark.parametrize("amount", [-0.1, math.inf, math.nan, Fraction(-1, 3), Decimal("inf"), Decimal("nan"), 10**400])
def test_rho_outside_its_range_is_refused(zcdp, amount):
    with pytest.raises(ParameterError, match=r"amount must be in \[0\.0, inf\)"):
        zcdp.spend(amount, what="x")


@pytest.mark.parametrize(
    ("text", "error"), [("", ParameterError), ("a\0b", ParameterError), ("\ud800", ParameterError), (3, ParameterTypeError)]
)
def test_texts_are_texts(ledger, text, error):
    for name in ("what", "job", "run", "dataset"):
        with pytest.raises(error, match=f"{name} must "):
            ledger.spend(Privacy(0.1), **{"what": "x", name: text})
    for name in ("unit", "dataset"):
        with pytest.raises(error, match=f"{name} must "):
            Ledger.create(ledger.path.with_name("new"), epsilon=1.0, **{name: text})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ParameterTypeError, r"a ledger needs a budget: give epsilon \(and delta\), or rho"),
        ({"epsilon": 1.0, "rho": 1.0}, ParameterTypeError, r"epsilon and rho must not both be given, got 1\.0 and 1\.0"),
        ({"epsilon": math.inf}, ParameterError, r"epsilon must be in \[0\.0, inf\), got inf"),
        ({"epsilon": -1.0}, ParameterError, r"epsilon must be in \[0\.0, inf\), got -1\.0"),
        ({"epsilon": "1"}, ParameterTypeError, "epsilon must be a real number, got '1'"),
        ({"epsilon": True}, ParameterTypeError, "epsilon must be a real number, got True"),
        ({"epsilon": 1.0, "delta": 1.0}, ParameterError, r"delta must be in \[0\.0, 1\.0\), got 1\.0"),
        ({"epsilon": 1.0, "failure_delta": 1e-7}, ParameterError, "failure_delta must be left out together with epsilon, got 1e-07"),
        ({"rho": 1.0, "delta": 1e-7}, ParameterError, "delta must be left out together with rho, got 1e-07"),
        ({"rho": math.nan}, ParameterError, r"rho must be in \[0\.0, inf\), got nan"),
        ({"rho": 1.0, "failure_delta": -1e-7}, ParameterError, r"failure_delta must be in \[0\.0, inf\), got -1e-07"),
        ({"epsilon": 1.0, "relation": "friends"}, ParameterError, "relation must be one of 'replace', 'add_remove'"),
        ({"epsilon": 1.0, "timeout": -1.0}, ParameterError, "timeout must be in"),
    ],
)
def test_wrong_budgets_are_refused_and_leave_no_file(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        Ledger.create(tmp_path / "x", **options)
    assert list(tmp_path.iterdir()) == []


def test_ledgers_are_loaded_when_they_are_used():
    program = (
        "import sys, dpcore.accounting; "
        "print([name for name in ('sqlite3', 'dpcore._exact.intervals', 'dpcore._disk.sealed_files', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
