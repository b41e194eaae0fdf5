"""A ledger's arithmetic, its records, and what it says about files that are none."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import Privacy, __version__, accounting
from dpcore.accounting import Ledger, Uses
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "a ledger?#%41", Privacy(1.0, 1e-6))


@pytest.fixture
def zcdp(tmp_path):
    return Ledger.create(tmp_path / "zcdp", Privacy(1.0, 1e-6), accounting="zcdp")


def edit(ledger, *statements):
    with sqlite3.connect(ledger.path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


# Sums


def test_tenths_add_up_as_they_are_written(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", Privacy(0.3))
    for _ in range(3):  # 0.1 + 0.1 + 0.1 > 0.3 in float64
        ledger.spend(Privacy(0.1), what="tenth").done()
    assert ledger.spent == Privacy(0.3)
    assert ledger.remaining == Privacy(0.0)
    with pytest.raises(BudgetError, match=r"^'crumb' needs epsilon 5e-324, delta 0\.0; the ledger has epsilon 0\.0, delta 0\.0 left$"):
        ledger.spend(Privacy(5e-324), what="crumb")


def test_delta_is_a_budget_of_its_own(ledger):
    ledger.spend(Privacy(0.25, 7e-7), what="a")
    with pytest.raises(BudgetError, match=r"'b' needs epsilon 0\.25, delta 4e-07; the ledger has epsilon 0\.75, delta 3e-07 left"):
        ledger.spend(Privacy(0.25, 4e-7), what="b")
    ledger.spend(Privacy(0.0, 3e-7), what="c")
    assert ledger.remaining == Privacy(0.75, 0.0)
    assert ledger.spent == Privacy(0.25, 1e-6)


def test_a_refusal_writes_nothing(ledger):
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetError):
        ledger.spend(Privacy(1.5), what="too much")
    assert ledger.path.read_bytes() == before
    assert ledger.spend(Privacy(0.5), what="fits").id == 1


# Each example makes a file and syncs it.
@given(st.lists(st.floats(1e-6, 0.4), min_size=1, max_size=12))
def test_totals_are_exact(tmp_path_factory, amounts):
    ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "x", Privacy(1.0))
    exact = Fraction(0)
    for amount in amounts:
        fits = exact + Fraction(repr(amount)) <= 1
        try:
            ledger.spend(Privacy(amount), what="x")
            granted = True
        except BudgetError:
            granted = False
        assert granted == fits
        exact += Fraction(repr(amount)) if granted else 0
    assert Fraction(repr(ledger.spent.epsilon)) >= exact
    left = ledger.remaining
    assert Fraction(repr(left.epsilon)) <= 1 - exact < Fraction(repr(math.nextafter(left.epsilon, 2.0)))
    ledger.spend(left, what="the rest")


def test_uses_cost_what_basic_composition_says(ledger):
    ledger.spend(Uses("approximate", 4, epsilon=0.1, delta=1e-7), what="four")
    ledger.spend(Uses("laplace", 3, epsilon=0.1), what="three")
    assert ledger.spent == Privacy(0.7, 4e-7)
    with pytest.raises(ParameterError, match="mechanism='gaussian' has none"):
        ledger.spend(Uses("gaussian", 1, rho=0.01), what="no epsilon")


# zCDP


def test_a_zcdp_ledger_adds_rho_and_converts(zcdp):
    zcdp.spend(0.001, what="given as rho")
    zcdp.spend(0.002, what="given as rho").done()
    zcdp.spend(Privacy(0.05), what="pure")
    zcdp.spend(Uses("bounded_range", 4, epsilon=0.02), what="selections")
    zcdp.spend(Uses("gaussian", 2, rho=0.001), what="gaussians")
    rho = 0.003 + accounting.rho_pure(0.05) + 4 * accounting.rho_bounded_range(0.02) + 0.002
    assert zcdp.spent_rho == pytest.approx(rho, rel=1e-14)
    assert zcdp.spent.epsilon == pytest.approx(accounting.zcdp_epsilon(zcdp.spent_rho, 1e-6), rel=1e-14)
    left = zcdp.remaining_rho
    assert accounting.zcdp_epsilon(rho + left, 1e-6) == pytest.approx(1.0, rel=1e-8)
    with pytest.raises(BudgetError, match=r"'x' needs rho 1\.0; the ledger has rho 0\.0\d+ left"):
        zcdp.spend(1.0, what="x")
    zcdp.spend(left, what="the rest")
    assert zcdp.spent.epsilon <= 1.0
    assert zcdp.remaining_rho < 1e-9


def test_delta_of_approximate_spends_is_not_there_for_the_conversion(zcdp):
    zcdp.spend(0.01, what="rho")
    before = zcdp.spent.epsilon
    zcdp.spend(Privacy(0.0, 9e-7), what="failures only")
    assert zcdp.spent_rho == 0.01
    assert zcdp.spent.epsilon == accounting.zcdp_epsilon(0.01, 1e-7) > before
    with pytest.raises(BudgetError):
        zcdp.spend(Privacy(0.0, 1e-7), what="nothing left for the conversion")


def test_what_remains_of_a_zcdp_ledger_can_be_spent(zcdp):
    zcdp.spend(0.004, what="x")
    zcdp.spend(zcdp.remaining, what="the rest")
    assert zcdp.remaining.epsilon < 1e-3


def test_totals_of_rho_are_for_zcdp_only(ledger):
    with pytest.raises(ParameterError, match="accounting must be 'zcdp'"):
        _ = ledger.spent_rho
    with pytest.raises(ParameterError, match="accounting must be 'zcdp'"):
        _ = ledger.remaining_rho


# Reservations and records


def test_a_block_that_ends_well_is_done_and_one_that_fails_stays_reserved(ledger):
    with ledger.spend(Privacy(0.25), what="well", job="job-1") as spend:
        assert [entry.state for entry in ledger.entries()] == ["reserved"]
    with pytest.raises(ZeroDivisionError), ledger.spend(Privacy(0.25), what="badly"):
        _ = 1 // 0
    spend.done()  # again: no matter
    first, second = ledger.entries()
    assert (first.id, first.what, first.epsilon, first.delta, first.rho) == (1, "well", 0.25, 0.0, None)
    assert (first.job, first.version, first.state) == ("job-1", __version__, "done")
    assert (second.what, second.job, second.state) == ("badly", None, "reserved")
    assert first.when.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - first.when) < timedelta(minutes=5)
    assert ledger.spent.epsilon == 0.5  # both count
    assert repr(spend) == "Reservation(id=1, done=True)"


def test_a_reservation_is_on_disk_before_spend_returns(ledger):
    ledger.spend(Privacy(0.25), what="x")
    with sqlite3.connect(f"{ledger.path.as_uri()}?mode=ro", uri=True) as other:
        assert other.execute("SELECT what, done FROM spend").fetchall() == [("x", None)]
    other.close()


def test_a_ledger_is_opened_again_with_what_it_was_made_with(zcdp, monkeypatch):
    monkeypatch.chdir(zcdp.path.parent)
    again = Ledger("zcdp")
    monkeypatch.chdir("/")
    again.spend(0.001, what="from elsewhere")
    assert (again.path, again.budget, again.accounting) == (zcdp.path, zcdp.budget, "zcdp")
    assert zcdp.spent_rho == 0.001
    assert "accounting='zcdp'" in repr(again)
    assert Ledger(zcdp.path, Privacy(1.0, 1e-6), accounting="zcdp").spent_rho == 0.001
    with pytest.raises(ParameterError, match=r"budget must be the one .* got Privacy\(epsilon=2"):
        Ledger(zcdp.path, Privacy(2.0, 1e-6))
    with pytest.raises(ParameterError, match="accounting must be the one the ledger was made with, 'zcdp', got 'basic'"):
        Ledger(zcdp.path, accounting="basic")


def test_relation_is_kept(tmp_path):
    ledger = Ledger.create(tmp_path / "x", Privacy(1.0, 0.0, "add_remove"))
    assert Ledger(tmp_path / "x").budget.relation == "add_remove"
    with pytest.raises(ParameterError, match="amount must be for the budget's relation, 'add_remove', got 'replace'"):
        ledger.spend(Privacy(0.1), what="x")
    assert ledger.spent.relation == ledger.remaining.relation == "add_remove"


def test_unit_is_kept(tmp_path):
    path = tmp_path / "people"
    assert Ledger(path, Privacy(1.0), unit="person").unit == "person"
    assert Ledger(path).unit == Ledger(path, unit="person").unit == "person"
    with pytest.raises(ParameterError, match="unit must be the one the ledger was made with, 'person', got 'row'"):
        Ledger(path, unit="row")
    assert Ledger.create(tmp_path / "rows", Privacy(1.0)).unit == "row"
    with pytest.raises(ParameterError, match="unit must be a text"):
        Ledger.create(tmp_path / "none", Privacy(1.0), unit="")
    assert not (tmp_path / "none").exists()


def test_a_file_with_two_names_is_refused(ledger, tmp_path):
    os.link(ledger.path, tmp_path / "other")
    with pytest.raises(ParameterError, match="hard link"):
        Ledger(tmp_path / "other")
    with pytest.raises(ParameterError, match="hard link"):
        ledger.spend(Privacy(0.01), what="anything")
    (tmp_path / "other").unlink()
    ledger.spend(Privacy(0.01), what="anything")


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


# Wrong arguments


@pytest.mark.parametrize(
    ("amount", "error", "message"),
    [
        (0.1, ParameterTypeError, "amount must be a Privacy in a ledger with accounting='basic'"),
        (True, ParameterTypeError, "amount must be a Privacy, a Uses or a number rho, got True"),
        ("0.1", ParameterTypeError, "amount must be a Privacy, a Uses or a number rho, got '0.1'"),
        (Privacy(math.inf), ParameterError, "amount must have a finite epsilon, got inf"),
    ],
)
def test_amounts_that_are_none_are_refused(ledger, amount, error, message):
    with pytest.raises(error, match=message):
        ledger.spend(amount, what="x")
    assert list(ledger.entries()) == []


@pytest.mark.parametrize("amount", [-0.1, math.inf, math.nan])
def test_rho_outside_its_range_is_refused(zcdp, amount):
    with pytest.raises(ParameterError, match=r"amount must be in \[0\.0, inf\)"):
        zcdp.spend(amount, what="x")


@pytest.mark.parametrize(
    ("text", "error"), [("", ParameterError), ("a\0b", ParameterError), ("\ud800", ParameterError), (3, ParameterTypeError)]
)
def test_texts_are_texts(ledger, text, error):
    with pytest.raises(error, match="what must be"):
        ledger.spend(Privacy(0.1), what=text)
    with pytest.raises(error, match="job must be"):
        ledger.spend(Privacy(0.1), what="x", job=text)


@pytest.mark.parametrize(
    ("budget", "options", "error", "message"),
    [
        (Privacy(math.inf), {}, ParameterError, "budget must have a finite epsilon"),
        (Privacy(1.0), {"accounting": "zcdp"}, ParameterError, "budget must have delta > 0"),
        (Privacy(1.0), {"accounting": "best"}, ParameterError, "accounting must be one of 'basic', 'zcdp'"),
        (1.0, {}, ParameterTypeError, "budget must be a dpcore.Privacy"),
        (Privacy(1.0), {"timeout": -1.0}, ParameterError, "timeout must be in"),
    ],
)
def test_wrong_budgets_are_refused_and_leave_no_file(tmp_path, budget, options, error, message):
    with pytest.raises(error, match=message):
        Ledger.create(tmp_path / "x", budget, **options)
    assert list(tmp_path.iterdir()) == []


# Files


def test_a_ledger_is_never_overwritten(ledger):
    for path in (ledger.path, Path(__file__)):
        before = path.read_bytes()
        with pytest.raises(FileExistsError, match="never overwritten"):
            Ledger.create(path, Privacy(1.0))
        assert path.read_bytes() == before


def test_no_ledger_and_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no ledger here: make one .*nothing"):
        Ledger(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []  # SQLite would have made a file
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Ledger.create(tmp_path / "no" / "ledger", Privacy(1.0))
    with pytest.raises(IsADirectoryError):
        Ledger(tmp_path)
    with pytest.raises(IsADirectoryError):
        Ledger.create(tmp_path, Privacy(1.0))


@pytest.mark.parametrize(
    ("path", "error"), [("", ParameterError), ("a\0b", ParameterError), (3, ParameterTypeError), (b"x", ParameterTypeError)]
)
def test_paths_that_are_none(path, error):
    with pytest.raises(error, match="path must be"):
        Ledger(path)


def test_files_that_are_no_ledgers(tmp_path):
    path = tmp_path / "x"
    for content, words in ((b"", "this file is empty"), (b"epsilon,delta\n" * 500, "no SQLite file"), (b"x", "empty or too short")):
        path.write_bytes(content)
        with pytest.raises(ParameterError, match=words):
            Ledger(path)
        assert path.read_bytes() == content
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    with pytest.raises(ParameterError, match="another SQLite database"):
        Ledger(path)
    with pytest.raises(FileExistsError):
        Ledger.create(path, Privacy(1.0))


@pytest.mark.skipif(os.name != "posix", reason="named pipes of POSIX")
def test_a_pipe_is_no_ledger_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ParameterError, match="path must name a regular file"):
        Ledger(tmp_path / "pipe")


def test_an_empty_file_becomes_a_ledger(tmp_path):
    """What a process leaves that dies while it makes one."""
    (tmp_path / "x").touch()
    assert Ledger.create(tmp_path / "x", Privacy(1.0)).remaining == Privacy(1.0)


def test_a_later_format_is_refused(ledger):
    edit(ledger, "PRAGMA user_version = 2")
    with pytest.raises(ParameterError, match="a ledger of format 1, and this one has format 2"):
        Ledger(ledger.path)


@pytest.mark.parametrize("text", ["", "a lot", "-0.5", "nan", "1/0"])
def test_amounts_that_nobody_wrote_are_damage(ledger, text):
    ledger.spend(Privacy(0.1), what="x")
    edit(ledger, f"UPDATE spend SET epsilon = '{text}'")
    for use in (lambda: ledger.spent, lambda: list(ledger.entries()), lambda: ledger.spend(Privacy(0.1), what="y")):
        with pytest.raises(OSError, match="damaged"):
            use()


@pytest.mark.parametrize("change", ["epsilon = 'much'", "delta = '2'", "relation = 'friends'", "epsilon = 'nan'"])
def test_a_budget_that_nobody_wrote_is_damage(ledger, change):
    edit(ledger, f"UPDATE budget SET {change}")
    with pytest.raises(OSError, match="damaged"):
        Ledger(ledger.path)


def test_damaged_pages_are_noticed_when_the_ledger_is_opened(ledger):
    for i in range(200):
        edit(ledger, f"INSERT INTO spend (what, reserved, epsilon, delta, version) VALUES ('{i}', '2026-01-01', '0', '0', '0')")
        if i == 60:
            break
    content = bytearray(ledger.path.read_bytes())
    content[-4096:] = bytes(range(256)) * 16
    ledger.path.write_bytes(content)
    with pytest.raises(OSError, match="damaged"):
        Ledger(ledger.path)
    ledger.path.write_bytes(content[:6000])
    with pytest.raises(OSError, match="damaged"):
        Ledger(ledger.path)


def test_a_ledger_that_is_gone_is_not_made_again(ledger):
    ledger.path.unlink()
    with pytest.raises(FileNotFoundError, match="the ledger is gone"):
        ledger.spend(Privacy(0.1), what="x")
    assert not ledger.path.exists()


def test_a_lock_that_is_never_given_back_ends_in_a_timeout(ledger):
    impatient = Ledger(ledger.path, timeout=0.05)
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(TimeoutError, match="stayed locked by another process"):
        impatient.spend(Privacy(0.1), what="x")
    assert impatient.remaining.epsilon == 1.0  # reading does not need that lock
    holder.close()
    impatient.spend(Privacy(0.1), what="x")


UNPRIVILEGED = textwrap.dedent("""
    import os, sys
    from dpcore import Privacy
    from dpcore.accounting import Ledger
    Ledger(sys.argv[1]).spent  # everything is imported while the interpreter's own files can be read
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    ledger = Ledger(sys.argv[1])
    print(ledger.remaining.epsilon)
    try:
        ledger.spend(Privacy(0.1), what="x")
    except PermissionError as error:
        print("refused:", error.strerror)
""")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_ledger_that_may_be_read_only_is_read_and_not_spent_from():
    """Root may write anywhere, so that the reader becomes nobody; pytest's own folders are closed to that one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        ledger = Ledger.create(Path(folder) / "ledger", Privacy(1.0))
        ledger.path.chmod(0o444)
        done = subprocess.run([sys.executable, "-c", UNPRIVILEGED, str(ledger.path)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["1.0", "refused: the ledger or its folder cannot be written to"], done.stderr


def test_ledgers_are_loaded_when_they_are_used():
    program = "import sys, dpcore.accounting; print([name for name in ('sqlite3', 'mpmath', 'scipy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("other", [Privacy(0.25), Privacy(9.0), Privacy(1.0, 1e-9), Privacy(1.0, 0.0, "add_remove")])
def test_a_file_that_takes_the_place_of_an_open_ledger(tmp_path, other):
    """What was opened decides nothing about a file that came later: neither may it overspend that one, nor be held against its spends."""
    ledger = Ledger.create(tmp_path / "one.ledger", Privacy(1.0))
    Ledger.create(tmp_path / "other.ledger", other).path.replace(ledger.path)
    for use in (lambda: ledger.spend(Privacy(0.5, 0.0, other.relation), what="x"), lambda: ledger.remaining, lambda: ledger.spent):
        with pytest.raises((OSError, ParameterError), match=r"another ledger has taken the place|relation"):
            use()
    assert Ledger(ledger.path).remaining == other
    assert list(Ledger(ledger.path).entries()) == []
