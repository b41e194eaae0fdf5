"""Series of releases that are paid for once: how far each has come, and the digest of what its last step released.

A series is paid for by the spend that first names it. From then on a ledger has the number of its last step, so that a copy of the files
of the series that is older, and would release a step a second time, is known by it. Step 0 is the payment.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from dpcore.accounting.ledger import database
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

STEPS = """CREATE TABLE IF NOT EXISTS step (
        series TEXT NOT NULL, step INTEGER NOT NULL, spend INTEGER NOT NULL REFERENCES spend (id), answer TEXT NOT NULL,
        digest TEXT NOT NULL, PRIMARY KEY (series, step))"""
"""A table that a ledger gets with its first series."""
HAS_STEPS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'step'"
READ_STEPS = "SELECT series, step, spend, answer, digest FROM step WHERE series = ? ORDER BY step"
WRITE_STEP = "INSERT INTO step (series, step, spend, answer, digest) VALUES (?, ?, ?, ?, ?)"


def last_step(connection: sqlite3.Connection, path: Path, series: str) -> tuple[int, str] | None:
    """The last step of a series and the digest of what it released: (0, "") after its payment, None before."""
    if connection.execute(HAS_STEPS).fetchone() is None:
        return None
    found, before = None, ""
    for place, (*row, said) in enumerate(connection.execute(READ_STEPS, (series,))):
        before = _digest(before, row)
        if before != said or row[1] != place:
            raise database.damaged(path)
        found = (row[1], row[3])
    return found


def write_step(connection: sqlite3.Connection, path: Path, spend: int, series: str, step: int, answer: str) -> None:
    """Record a step, the next one of its series; one that is there stays, and another answer of it is refused."""
    connection.execute(STEPS)
    last = last_step(connection, path, series)
    if last == (step, answer):
        return
    if step != (0 if last is None else last[0] + 1):
        found = "no step" if last is None else f"step {last[0]}"
        raise ParameterError(f"step must be the next one of its series, which has {found} in the ledger, got {step}")
    if last is None:
        before = ""
    else:
        (before,) = connection.execute("SELECT digest FROM step WHERE series = ? AND step = ?", (series, last[0])).fetchone()
    row = [series, step, spend, answer]
    connection.execute(WRITE_STEP, (*row, _digest(before, row)))


def _digest(before: str, row: list[object]) -> str:
    return hashlib.sha256(json.dumps([before, *row], default=repr).encode()).hexdigest()
