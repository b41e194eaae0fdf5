"""Damaged files: an error that says so, or the same ledger as before; never a larger budget, a hang or an exception of another kind."""

from __future__ import annotations

import contextlib
import random
import sqlite3

import pytest

from dpcore import Privacy
from dpcore.accounting import Ledger
from dpcore.errors import ParameterError
from support.crashes import sealed

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A ledger of several pages, with spends in every state, and what it says."""
    folder = tmp_path_factory.mktemp("whole")
    ledger = Ledger.create(folder / "ledger", epsilon=100.0, delta=1e-3, dataset="claims-2026")
    for i in range(40):
        spend = ledger.spend(Privacy(1.25, 1e-5), what=f"query {i} " + "x" * 60, job="job", run=f"run {i}")
        if i % 5 == 1:
            spend.failed("storage")
        elif i % 5 == 2:
            spend.seal([sealed(folder, f"output {i}", b"content")])
        elif i % 5 == 3:
            spend.done()
    assert ledger.path.stat().st_size > 4 * PAGE
    return ledger.path.read_bytes(), said(ledger)


def said(ledger):
    return ledger.budget, ledger.relation, ledger.unit, ledger.dataset, ledger.spent, list(ledger.entries())


def damaged(content, draw):
    """One kind of damage, at random."""
    changed, at = bytearray(content), draw.randrange(len(content))
    match draw.choice(["bit", "bytes", "zeros", "page", "cut", "longer", "swapped"]):
        case "bit":
            changed[at] ^= 1 << draw.randrange(8)
        case "bytes":
            changed[at : at + 64] = draw.randbytes(len(changed[at : at + 64]))
        case "zeros":
            changed[at : at + 512] = bytes(len(changed[at : at + 512]))
        case "page":
            start = at // PAGE * PAGE
            changed[start : start + PAGE] = draw.randbytes(PAGE)
        case "cut":
            del changed[at:]
        case "longer":
            changed += draw.randbytes(draw.randrange(1, 2 * PAGE))
        case "swapped":
            first, second = (draw.randrange(len(content) // PAGE) * PAGE for _ in range(2))
            changed[first : first + PAGE], changed[second : second + PAGE] = (
                content[second : second + PAGE],
                content[first : first + PAGE],
            )
    return bytes(changed)


@pytest.mark.parametrize("rounds", [150, pytest.param(6000, marks=pytest.mark.long)])
def test_damage_is_noticed_or_does_not_matter(whole, tmp_path, rounds):
    content, before = whole
    draw, messages = random.Random(7), []
    for i in range(rounds):
        path = tmp_path / "ledger"
        path.write_bytes(damaged(content, draw))
        try:
            ledger = Ledger(path, timeout=0.1)
            assert said(ledger) == before, f"round {i}"
            ledger.spend(Privacy(0.25), what="after")
            assert ledger.spent.epsilon == before[4].epsilon + 0.25
        except (OSError, ParameterError) as error:
            messages.append(str(error))
        for left in tmp_path.iterdir():
            left.unlink()
    assert len(messages) > rounds / 2
    assert all(str(path) in message for message in messages)


def test_a_ledger_without_digests_would_lose_a_spend(whole, tmp_path):
    """The twin: SQLite's own check sees nothing where a digit of an amount has flipped."""
    content, _ = whole
    flipped = content.replace(b"1.25", b"0.25")
    assert flipped != content
    path = tmp_path / "ledger"
    path.write_bytes(flipped)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT sum(epsilon) FROM spend").fetchone()[0] < 40
    connection.close()
    with pytest.raises(OSError, match="damaged"):
        Ledger(path)


def test_a_journal_of_random_bytes_is_no_journal(whole, tmp_path):
    content, before = whole
    for i in range(20):
        (tmp_path / "ledger").write_bytes(content)
        (tmp_path / "ledger-journal").write_bytes(random.Random(i).randbytes(5000))
        assert said(Ledger(tmp_path / "ledger")) == before


@pytest.mark.parametrize(
    "change",
    ["path = CAST('/elsewhere' AS BLOB)", "sha256 = 'x'", "replaces = '1'", "overwrite = 1", "place = 1", "files = 2", "digest = ''"],
)
def test_outputs_that_nobody_sealed_are_damage(tmp_path, change):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    file = sealed(tmp_path, "out", b"x")
    file.temporary.write_bytes(b"x")
    ledger.spend(Privacy(0.25), what="x").seal([file])
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(f"UPDATE sealed SET {change}")
    for use in (ledger.complete, lambda: ledger.spend(Privacy(0.25), what="y"), lambda: list(ledger.entries())):
        with pytest.raises(OSError, match="damaged"):
            use()
    assert file.temporary.exists()


@pytest.mark.parametrize("column", ["identity", "epsilon", "delta", "relation", "unit", "dataset", "created", "version", "digest"])
def test_a_header_that_is_no_text_is_damage(tmp_path, column):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(f"UPDATE ledger SET {column} = x'00ff'")
    for use in (lambda: Ledger(ledger.path), lambda: ledger.spend(Privacy(0.25), what="x")):
        with pytest.raises(OSError, match="damaged"):
            use()


@pytest.mark.parametrize(
    "change",
    ["state = 'done'", "state = 'failed'", "reason = 'data'", "changed = ''", "mark = ''", "reason = x'00ff'", "changed = x'00ff'"],
)
def test_a_fate_that_nobody_wrote_is_damage(tmp_path, change):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    reservation = ledger.spend(Privacy(0.25), what="x")
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute(f"UPDATE spend SET {change}")
    for use in (lambda: list(ledger.entries()), reservation.done):
        with pytest.raises(OSError, match="damaged"):
            use()
    assert ledger.spent.epsilon == 0.25
