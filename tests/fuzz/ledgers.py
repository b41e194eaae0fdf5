"""Ledgers: damage is noticed or does not matter, and never takes anything from what was spent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import sqlite3
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpcore import Privacy
from dpcore.accounting import Ledger
from dpcore.errors import BudgetError, DpcoreError
from fuzz.choices import NUMBERS, Choices
from fuzz.target import FoundError, Target
from support.crashes import sealed

if TYPE_CHECKING:
    from pathlib import Path

SPENDS = 9
TABLES = {
    "ledger": ("identity", "kind", "epsilon", "delta", "rho", "relation", "unit", "dataset", "created", "version", "digest"),
    "spend": ("id", "what", "reserved", "epsilon", "delta", "rho", "job", "run", "version", "relation", "unit", "dataset", "secure",
    "digest", "state",
              "reason", "changed", "mark"),
    "sealed": ("spend", "place", "files", "temporary", "path", "sha256", "replaces", "overwrite", "digest"),
    "spender": ("spend", "user", "host", "digest"),
    "asked": ("spend", "queries", "digest"),
    "step": ("series", "step", "spend", "answer", "digest"),
    "checked": ("one", "at"),
    "sqlite_sequence": ("name", "seq"),
    "sqlite_master": ("type", "name", "tbl_name", "rootpage", "sql"),
}  # fmt: skip
VALUES: tuple[object, ...] = (
    None, "", "0", "1", "-1", "0.25", "1e-400", "1e400", "1e99999999999", "nan", "inf", "1/3", "-0", " 1", "٣", "0x1", "x" * 300,
    b"\x00\xff", b"", "\x00",
    0, 1, -1, 2, 9, 2**31, 2**63 - 1, -(2**63), 0.5, 1e308, "reserved", "sealed", "published", "done", "failed", "basic", "zcdp", "gdp",
    "replace",
    "add_remove", "row", "2026-01-01T00:00:00.000+00:00", "yesterday", '[{"name": 1}]', "[" * 5000, "{}", "null", "0" * 64, "../x",
    b"/\x00", b"relative",
)  # fmt: skip
STATEMENTS = (
    "PRAGMA user_version = {}", "PRAGMA application_id = {}", "PRAGMA journal_mode = WAL", "DROP TABLE spend", "DROP TABLE sealed",
    "DROP TABLE asked",
    "DROP TABLE spender", "DROP TABLE checked", "DROP TABLE step", "DROP TABLE ledger", "VACUUM", "ALTER TABLE spend RENAME TO spent",
    "ALTER TABLE spend ADD COLUMN more TEXT", "CREATE TABLE more (x)", "CREATE VIEW more AS SELECT * FROM spend", "PRAGMA encoding",
    "CREATE TRIGGER t AFTER INSERT ON spend BEGIN DELETE FROM spend WHERE id = new.id; END",
    "CREATE TRIGGER t BEFORE UPDATE ON spend BEGIN SELECT RAISE(ABORT, 'no'); END",
    "DELETE FROM sqlite_sequence",
    "INSERT INTO ledger SELECT 2, identity, kind, epsilon, delta, rho, relation, unit, dataset, created, version, digest FROM ledger",
    "PRAGMA writable_schema = ON", "CREATE UNIQUE INDEX i ON spend (what)",
)  # fmt: skip


class Ledgers(Target):
    """A script of damage to a ledger: bytes of its file, rows of its tables, files beside it."""

    name: ClassVar[str] = "ledgers"
    promise: ClassVar[str] = (
        "damage of bytes, or of one row, is noticed or does not matter; what is spent is never less than before, or than its rows say"
    )
    # The system's own errors are documented ones of ledgers.
    errors: ClassVar[tuple[type[Exception], ...]] = (DpcoreError, OSError)
    longest: ClassVar[int] = 200

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        base = folder / "base"
        ledger = Ledger.create(base, epsilon=100.0, delta=1e-3, dataset="claims-2026")
        for i in range(SPENDS):
            series = {"series": "totals"} if i == 4 else {}
            spend = ledger.spend(
                Privacy(1.25, 1e-5), what=f"query {i}", job="job", run=f"run {i}", queries=[{"name": "n"}] if i == 5 else (), **series
            )
            if i == 4:
                ledger.note_step(spend.id, "totals", 1, "0" * 64)
            if i % 4 == 1:
                spend.failed("storage")
            elif i % 4 == 2:
                spend.seal([sealed(folder, f"output {i}", b"content")])
            elif i % 4 == 3:
                spend.done()
        ledger.check_writable()
        self._content, self._before = base.read_bytes(), core(ledger)
        self._spent = Fraction(ledger.spent.epsilon)
        for path in folder.iterdir():
            path.unlink()

    def is_watched(self, path: Path) -> bool:
        return not path.name.startswith("ledger")

    def run(self, data: bytes) -> None:
        path, script = self.folder / "ledger", Choices(data)
        path.write_bytes(self._content)
        rows_changed, is_signed = damaged(path, script)
        for _ in range(2):
            self._ask(path, may_differ=is_signed or rows_changed > 1)

    def _ask(self, path: Path, *, may_differ: bool) -> None:
        """Ask everything of the ledger, and spend."""
        ledger = Ledger(path, timeout=0.05)
        spent = _exact(ledger)
        if not may_differ and ((found := core(ledger)) != self._before or spent < self._spent):
            raise FoundError(f"the damage is not noticed: {found}, {float(spent)} is spent")
        if ledger.kind == "basic" and spent < (least := _sum_of_rows(path)):
            raise FoundError(f"{float(spent)} is spent, and the rows of the file say {float(least)}")
        _ = ledger.remaining, list(ledger.entries()), ledger.find("run 3"), ledger.last_step("totals"), repr(ledger), ledger._repr_html_()
        ledger.complete()
        ledger.check_writable()
        if not may_differ:
            ledger.abandon(1)
        with contextlib.suppress(BudgetError):
            ledger.spend(Privacy(0.25), what="after")
            if ledger.kind == "basic" and _exact(Ledger(path)) < spent + Fraction(1, 4):
                raise FoundError("a spend that was granted is not in the ledger")


def _exact(ledger: Ledger) -> Fraction:
    """What is spent; a sum beyond float64 is infinite, for which a number stands that no sum of a test reaches."""
    spent = ledger.spent.epsilon or 0.0
    return Fraction(spent) if math.isfinite(spent) else Fraction(10**5000)


def core(ledger: Ledger) -> tuple[Any, ...]:
    """What decides, and what a person would read of it; states may go on."""
    return (
        ledger.budget,
        ledger.relation,
        ledger.unit,
        ledger.dataset,
        [(each.id, each.epsilon, each.delta, each.what) for each in ledger.entries()][:SPENDS],
    )


def _sum_of_rows(path: Path) -> Fraction:
    """The sum of all rows, as SQLite and Python's fractions read it; 0 if they do not."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            texts = [text for (text,) in connection.execute("SELECT epsilon FROM spend")]
        return sum((Fraction(text) for text in texts if text is not None), Fraction(0)) * (1 - Fraction(1, 10**12))
    except (sqlite3.Error, ValueError, TypeError, ArithmeticError, UnicodeDecodeError):
        return Fraction(0)


def damaged(path: Path, script: Choices) -> tuple[int, bool]:
    """Damage a ledger; returns how many statements changed it, and whether digests were made again."""
    rows, is_signed = 0, False
    for _ in range(6):
        if script.is_over:
            break
        match script.below(12):
            case 0 | 1 | 2 | 3:
                path.write_bytes(_other_bytes(path.read_bytes(), script))
            case 4 | 5 | 6 | 7 | 8:
                rows += _other_rows(path, script)
            case 9:
                is_signed |= _sign(path)
                rows += 1
            case 10:
                beside = path.with_name(path.name + script.of(("-journal", "-wal", "-shm")))
                if not beside.exists():
                    beside.write_bytes(script.taken(script.below(64)) * script.of((1, 100)))
            case _:
                beside = path.with_name(path.name + script.of(("-journal", "-wal", "-shm")))
                if not beside.exists():
                    beside.mkdir()
    return rows, is_signed


def _other_bytes(content: bytes, script: Choices) -> bytes:
    changed = bytearray(content)
    if not changed:
        return content
    at = script.below(65_536) % len(changed)
    match script.below(9):
        case 0:
            changed[at] ^= 1 << script.below(8)
        case 1:
            changed[at : at + 8] = script.taken(8).ljust(8, b"\0")[: len(changed[at : at + 8])]
        case 2:
            changed[at : at + 512] = bytes(len(changed[at : at + 512]))
        case 3:
            other, start = script.below(65_536) % len(changed) // 4096 * 4096, at // 4096 * 4096
            one, two = changed[start : start + 4096], changed[other : other + 4096]
            changed[start : start + 4096], changed[other : other + 4096] = two, one
        case 4:
            del changed[at:]
        case 5:
            changed += script.taken(16) * script.of((1, 300))
        case 6:
            changed[at // 2 * 2 : at // 2 * 2 + 2] = (script.of(NUMBERS) % 65_536).to_bytes(2, "big")
        case 7:
            # Of the header: size of a page, versions, the counters and the schema.
            place = script.below(100)
            changed[place : place + 1] = bytes([script.below(256)])
        case _:
            changed = changed.replace(
                script.of((b"1.25", b"done", b"basic", b"query", b"CREATE")), script.of((b"0.25", b"fail", b"zcdp?", b"", b"\xff"))
            )
    return bytes(changed)


def _other_rows(path: Path, script: Choices) -> int:
    """Run one statement on the ledger; returns 1 if it changed something."""
    table = script.of(tuple(TABLES))
    column, value = script.of(TABLES[table]), script.of(VALUES)
    where = f"rowid = (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET {script.below(SPENDS)})"
    what = script.below(8)
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=0.05)) as connection, connection:
            if table == "sqlite_master":
                connection.execute("PRAGMA writable_schema = ON")
            match what:
                case 0:
                    done = connection.execute(f"DELETE FROM {table} WHERE {where}")
                case 1:
                    names = ", ".join(TABLES[table])
                    given = ", ".join("?" if name == column else name for name in TABLES[table])
                    done = connection.execute(f"INSERT INTO {table} ({names}) SELECT {given} FROM {table} WHERE {where}", (value,))
                case 2:
                    connection.execute(script.of(STATEMENTS).format(script.of((0, 1, 2, 3, 4, 1685087084))))
                    return 1
                case 3:
                    done = connection.execute(
                        f"UPDATE {table} SET {column} = (SELECT {column} FROM {table} ORDER BY rowid DESC LIMIT 1) WHERE {where}"
                    )
                case _:
                    done = connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))
            return int(done.rowcount > 0)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        return 0


def _sign(path: Path) -> bool:
    """Make all digests again, as somebody could who writes the file: those of the header, the spends, their states, and more."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=0.05)) as connection, connection:
            names = ", ".join(TABLES["ledger"][:-1])
            header = connection.execute(f"SELECT {names} FROM ledger").fetchone()
            before = _digest("", header)
            connection.execute("UPDATE ledger SET digest = ?", (before,))
            columns = ", ".join(TABLES["spend"][:13])
            for row in connection.execute(f"SELECT {columns} FROM spend ORDER BY id").fetchall():
                before = _digest(before, row)
                state = connection.execute("SELECT state, reason, changed FROM spend WHERE id = ?", (row[0],)).fetchone()
                connection.execute("UPDATE spend SET digest = ?, mark = ? WHERE id = ?", (before, _digest(str(row[0]), state), row[0]))
            for table in ("sealed", "spender", "asked"):
                columns = ", ".join(TABLES[table][:-1])
                for rowid, *row in connection.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
                    plain = [each.hex() if table == "sealed" and isinstance(each, bytes) else each for each in row]
                    connection.execute(f"UPDATE {table} SET digest = ? WHERE rowid = ?", (_digest("", plain), rowid))
    except (sqlite3.Error, UnicodeDecodeError, TypeError, ValueError, OverflowError):
        return False
    return True


def _digest(previous: str, values: Any) -> str:
    return hashlib.sha256(json.dumps([previous, *values], default=repr).encode()).hexdigest()
