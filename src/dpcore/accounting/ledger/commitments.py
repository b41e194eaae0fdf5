"""Commitments: which spends are releases under a key that was committed to, and the rule that a run has one key, and a key one run.

A commitment hides its key. That it is recorded with the charge, before a row is read, shows later that the key was not changed afterwards.
A run that died before it published may be run again with the same key, and is charged again; with another key it may not.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from dpcore.accounting.ledger import database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from dpcore.accounting.ledger.states import State

COMMITMENTS = """CREATE TABLE IF NOT EXISTS commitment (
        spend INTEGER PRIMARY KEY REFERENCES spend (id), run TEXT NOT NULL, commitment TEXT NOT NULL, digest TEXT NOT NULL)"""
"""A table that a ledger gets with its first commitment."""
HAS_COMMITMENTS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'commitment'"
READ_COMMITMENTS = "SELECT spend, run, commitment, digest FROM commitment ORDER BY spend"
WRITE_COMMITMENT = "INSERT INTO commitment (spend, run, commitment, digest) VALUES (?, ?, ?, ?)"
PUBLISHED = ("sealed", "published", "done")


def read(connection: sqlite3.Connection, path: Path) -> dict[int, tuple[str, str]]:
    """The run and the commitment of each spend that has one."""
    if connection.execute(HAS_COMMITMENTS).fetchone() is None:
        return {}
    found = {}
    for *row, said in connection.execute(READ_COMMITMENTS):
        if _digest(row) != said:
            raise database.damaged(path)
        found[row[0]] = (row[1], row[2])
    return found


def write(connection: sqlite3.Connection, spend: int, run: str, commitment: str) -> None:
    """Record the commitment of a spend."""
    connection.execute(COMMITMENTS)
    row = [spend, run, commitment]
    connection.execute(WRITE_COMMITMENT, (*row, _digest(row)))


def refusal(known: Iterable[tuple[int, str | None, str, State]], run: str | None, commitment: str | None) -> str | None:
    """Return why a run may not have a commitment, or none; None if it may.

    Parameters
    ----------
    known : iterable of (int, str, str, State)
        Number, run, commitment and state of the spends that have a commitment.
    run : str or None
        Identifies the run.
    commitment : str or None
        Its commitment; None for noise that nothing is committed to.
    """
    for number, other_run, other, state in known:
        if other == commitment and other_run != run:
            return f"commitment must be new, but entry {number} has it for another run: a key is for one run"
        if run is not None and other_run == run and other != commitment:
            said = "no commitment" if commitment is None else "another one"
            return (
                f"this run has the commitment {other} (entry {number}), and {said} is given: a run never has two different noises. Give "
                "its own key file, or name another output, which makes another run"
            )
        if other == commitment and state in PUBLISHED:
            return f"commitment must be new, but entry {number} has released under it: a key releases once"
    return None


def _digest(row: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(list(row), default=repr).encode()).hexdigest()
