"""The contents of a ledger's file: its header, its spends, and a chain of digests.

The digest of a spend covers its columns and the digest before it; the first one covers the header. So a flipped byte, a lost row and a
restored older file are noticed. The digests protect against damage and not against an attacker who can write the file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from dpcore._dataclasses import dataclass
from dpcore._disk.addresses import location_of
from dpcore._disk.sealed_files import SealedFile, identity, sync_folder
from dpcore._version import __version__
from dpcore.accounting.ledger import commitments, database
from dpcore.accounting.ledger.amounts import NOTHING, Amount, amount_in_file
from dpcore.accounting.ledger.spender import host_name, user_name
from dpcore.accounting.ledger.spends import Kind
from dpcore.accounting.ledger.states import START, State, after
from dpcore.privacy import Relation, written_up

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from dpcore.accounting.ledger.states import Event

STATES, KINDS, RELATIONS = (frozenset(get_args(each)) for each in (State, Kind, Relation))

READ_HEADER = "SELECT identity, kind, epsilon, delta, rho, relation, unit, dataset, created, version, digest FROM ledger"
WRITE_HEADER = """INSERT INTO ledger (one, identity, kind, epsilon, delta, rho, relation, unit, dataset, created, version, digest)
    VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# The digest of a spend covers the columns that never change, and its mark covers the state.
READ_SPENDS = """SELECT id, what, reserved, epsilon, delta, rho, job, run, version, relation, unit, dataset, secure, digest
    FROM spend WHERE id > ? ORDER BY id"""
WRITE_SPEND = """INSERT INTO spend (id, what, reserved, epsilon, delta, rho, job, run, version, relation, unit, dataset, secure, digest,
    state, changed, mark) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
WRITE_STATE = "UPDATE spend SET state = ?, reason = ?, changed = ?, mark = ? WHERE id = ?"
READ_STATE = "SELECT id, state, reason, changed, mark FROM spend WHERE id = ?"
READ_UNFINISHED = "SELECT id, state, reason, changed, mark FROM spend WHERE state IN ('sealed', 'published') ORDER BY id"
READ_SEALED = "SELECT spend, place, files, temporary, path, sha256, replaces, overwrite, digest FROM sealed ORDER BY spend, place"
WRITE_SEALED = """INSERT INTO sealed (spend, place, files, temporary, path, sha256, replaces, overwrite, digest)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
HAS_SPENDERS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'spender'"
READ_SPENDERS = "SELECT spend, user, host, digest FROM spender"
WRITE_SPENDER = "INSERT INTO spender (spend, user, host, digest) VALUES (?, ?, ?, ?)"
HAS_ASKED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'asked'"
READ_ASKED = "SELECT spend, queries, digest FROM asked"
WRITE_ASKED = "INSERT INTO asked (spend, queries, digest) VALUES (?, ?, ?)"
READ_ENTRIES = """SELECT id, what, reserved, epsilon, delta, rho, job, run, version, relation, unit, dataset, secure, state, reason,
    changed, mark FROM spend ORDER BY id"""


def now() -> str:
    """Return the current time as text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _digest(previous: str, values: Sequence[object]) -> str:
    # dpcore writes text and numbers only; other types, which damage may leave, give another digest
    return hashlib.sha256(json.dumps([previous, *values], default=repr).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Header:
    """The part of a ledger that is fixed when it is made."""

    kind: Kind
    budget: Amount
    relation: Relation
    unit: str
    dataset: str | None
    identity: str = field(default_factory=lambda: secrets.token_hex(16))
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """The spends that have been checked so far, and their sum."""

    id: int
    digest: str
    total: Amount


def create(path: Path, timeout: float, header: Header, carried: Iterable[tuple[Amount, Sequence[object], State]] = ()) -> bool:
    """Write a ledger in one transaction, with the spends of another one. Return False if another process was faster."""
    with database.transaction(path, timeout, write=True, create=True) as connection:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return False
        for statement in database.SCHEMA:
            connection.execute(statement)
        if header.kind == "gdp":
            connection.execute(f"PRAGMA user_version = {database.FORMAT_OF_GDP}")
        row = (header.identity, header.kind, *header.budget.texts(), header.relation, header.unit, header.dataset, now(), __version__)
        digest = _digest("", row)
        connection.execute(WRITE_HEADER, (*row, digest))
        checked = Checked(0, digest, NOTHING)
        for amount, values, state in carried:
            checked = write_spend(connection, checked, amount, values, state)
    sync_folder(path.parent)
    return True


@contextmanager
def transaction(path: Path, timeout: float, header: Header, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Run a block in a transaction on the ledger that was opened; another file of the same name is an error."""
    if database.size(path) is None:
        raise FileNotFoundError(errno.ENOENT, "the ledger was removed or renamed", str(path))
    with database.transaction(path, timeout, write=write) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != database.APPLICATION or read_header(connection, path) != header:
            raise OSError(errno.ESTALE, "another file has replaced this ledger; open it again with Ledger(path)", str(path))
        yield connection


def read_header(connection: sqlite3.Connection, path: Path) -> Header:
    """Read the header, and raise if its digest is wrong."""
    row = connection.execute(READ_HEADER).fetchone()
    if row is None or _digest("", row[:-1]) != row[-1]:
        raise database.damaged(path)
    name, kind, *amounts, relation, unit, dataset, _, _, digest = row
    try:
        epsilon, delta, rho = map(amount_in_file, amounts)
    except ValueError as error:
        raise database.damaged(path) from error
    texts = (name, unit) if dataset is None else (name, unit, dataset)
    if kind not in KINDS or relation not in RELATIONS or not all(isinstance(each, str) for each in texts):
        raise database.damaged(path)
    if (epsilon if kind == "basic" else rho) is None:
        raise database.damaged(path)
    return Header(kind, Amount(epsilon, delta or NOTHING.delta, rho), relation, unit, dataset, name, digest)


def check_spends(connection: sqlite3.Connection, path: Path, header: Header, before: Checked | None) -> Checked:
    """Check and add up the spends after an earlier check; raise if one is damaged or was removed."""
    count, last = connection.execute("SELECT count(*), coalesce(max(id), 0) FROM spend").fetchone()
    (given,) = connection.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence").fetchone()
    if not count == last == given:
        raise database.damaged(path)
    at, digest, total = (0, header.digest, NOTHING) if before is None else (before.id, before.digest, before.total)
    if at and connection.execute("SELECT digest FROM spend WHERE id = ?", (at,)).fetchone() != (digest,):
        raise OSError(
            errno.ESTALE,
            "an older or damaged copy has replaced the ledger, and its missing spends still count; restore the newest copy",
            str(path),
        )
    try:
        for *row, said in connection.execute(READ_SPENDS, (at,)):
            digest = _digest(digest, row)
            if digest != said or row[0] != at + 1:
                raise database.damaged(path)
            at, total = row[0], total + _amount(row[3:6], header.kind)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise database.damaged(path) from error
    return Checked(at, digest, total)


def _amount(texts: Sequence[str | None], kind: Kind) -> Amount:
    epsilon, delta, rho = map(amount_in_file, texts)
    if delta is None or (epsilon if kind == "basic" else rho) is None:  # which would count as nothing
        raise ValueError("a part that the ledger counts is missing")
    return Amount(epsilon, delta, rho)


def write_spend(
    connection: sqlite3.Connection, checked: Checked, amount: Amount, values: Sequence[object], state: State = START
) -> Checked:
    """Write a spend; `values` are its description, time, job, run, version, relation, unit and data set."""
    what, reserved, *rest = values
    row = (checked.id + 1, what, reserved, *amount.texts(), *rest, 1)
    digest, changed = _digest(checked.digest, row), now()
    connection.execute(WRITE_SPEND, (*row, digest, state, changed, _mark(checked.id + 1, state, None, changed)))
    return Checked(checked.id + 1, digest, checked.total + amount)


# States


def _mark(number: int, state: str, reason: str | None, changed: str) -> str:
    return _digest(str(number), (state, reason, changed))


def _state(row: Sequence[Any] | None, path: Path) -> State:
    """Check number, state, reason, time and mark; return the state."""
    if row is None or row[1] not in STATES or _mark(*row[:-1]) != row[-1]:
        raise database.damaged(path)
    state: State = row[1]
    return state


def state_of(connection: sqlite3.Connection, path: Path, number: int) -> State:
    """Read the state of a spend."""
    return _state(connection.execute(READ_STATE, (number,)).fetchone(), path)


def advance(connection: sqlite3.Connection, path: Path, number: int, event: Event, reason: str | None = None) -> None:
    """Record an event of a spend."""
    state = state_of(connection, path, number)
    following = after(state, event)
    if following != state:
        changed = now()
        connection.execute(WRITE_STATE, (following, reason, changed, _mark(number, following, reason, changed), number))


def seal(connection: sqlite3.Connection, number: int, files: Sequence[SealedFile], *, overwrite: bool) -> None:
    """Record the outputs of a sealed run."""
    for place, file in enumerate(files):
        names = (os.fsencode(file.temporary), os.fsencode(str(file.path)))
        row = (number, place, len(files), *names, file.sha256, identity(file.path) if overwrite else None, int(overwrite))
        connection.execute(WRITE_SEALED, (*row, _digest_of_sealed(row)))


def _digest_of_sealed(row: Sequence[Any]) -> str:
    return _digest("", [value.hex() if isinstance(value, bytes) else value for value in row])


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a sealed run."""

    files: tuple[SealedFile, ...] = ()
    replaces: tuple[str | None, ...] = ()
    overwrite: bool = False


def unfinished(connection: sqlite3.Connection, path: Path) -> list[tuple[int, State, Outputs]]:
    """Read the number, state and outputs of every run that was sealed and is not done."""
    rows = connection.execute(READ_UNFINISHED).fetchall()
    outputs = sealed_outputs(connection, path) if rows else {}
    if not all(row[0] in outputs for row in rows):
        raise database.damaged(path)
    return [(row[0], _state(row, path), outputs[row[0]]) for row in rows]


def sealed_outputs(connection: sqlite3.Connection, path: Path) -> dict[int, Outputs]:
    """Read the outputs of all sealed runs, by the number of the spend."""
    found: dict[int, Outputs] = {}
    numbers: dict[int, int] = {}
    for *row, said in connection.execute(READ_SEALED):
        number, place, files, temporary, name, sha256, replaces, overwrite = row
        before = found.get(number, Outputs())
        if _digest_of_sealed(row) != said or place != len(before.files):
            raise database.damaged(path)
        try:
            hidden, shown = (os.fsdecode(each) for each in (temporary, name))
            file = SealedFile(Path(hidden), location_of(shown), sha256)
        except (ValueError, TypeError) as error:  # those of SealedFile are of these classes, too
            raise database.damaged(path) from error
        if "\0" in hidden or "\0" in shown:  # which no name of a file holds
            raise database.damaged(path)
        found[number] = Outputs((*before.files, file), (*before.replaces, replaces), bool(overwrite))
        numbers[number] = files
    if any(numbers[number] != len(outputs.files) for number, outputs in found.items()):
        raise database.damaged(path)
    return found


# Who spent


def write_spender(connection: sqlite3.Connection, number: int) -> None:
    """Write which user of which machine made a spend."""
    connection.execute(database.SPENDER)
    row = (number, user_name(), host_name())
    connection.execute(WRITE_SPENDER, (*row, _digest("", row)))


def _spenders(connection: sqlite3.Connection, path: Path) -> dict[int, tuple[str, str]]:
    """Read who made each spend; nothing is known of those of earlier versions."""
    if connection.execute(HAS_SPENDERS).fetchone() is None:
        return {}
    found = {}
    for *row, said in connection.execute(READ_SPENDERS):
        if _digest("", row) != said:
            raise database.damaged(path)
        found[row[0]] = (row[1], row[2])
    return found


# What was asked


def write_asked(connection: sqlite3.Connection, number: int, queries: str) -> None:
    """Write the queries of a spend, as JSON."""
    connection.execute(database.ASKED)
    row = (number, queries)
    connection.execute(WRITE_ASKED, (*row, _digest("", row)))


def _asked(connection: sqlite3.Connection, path: Path) -> dict[int, tuple[dict[str, Any], ...]]:
    """Read the queries of each spend; nothing is known of those of earlier versions."""
    if connection.execute(HAS_ASKED).fetchone() is None:
        return {}
    found = {}
    for *row, said in connection.execute(READ_ASKED):
        if _digest("", row) != said:
            raise database.damaged(path)
        try:
            found[row[0]] = tuple(json.loads(row[1]))
        except (ValueError, TypeError, RecursionError) as error:
            raise database.damaged(path) from error
    return found


# Entries


def entries(connection: sqlite3.Connection, path: Path) -> list[tuple[Any, ...]]:
    """Read all spends, in their order, as the fields of `Entry`."""
    outputs, spenders, asked = sealed_outputs(connection, path), _spenders(connection, path), _asked(connection, path)
    committed = commitments.read(connection, path)
    return [
        (
            *_entry(row, path),
            outputs.get(row[0], Outputs()).files,
            *spenders.get(row[0], (None, None)),
            asked.get(row[0], ()),
            committed.get(row[0], (None, None))[1],
        )
        for row in connection.execute(READ_ENTRIES)
    ]


def _entry(row: Sequence[Any], path: Path) -> tuple[Any, ...]:
    number, what, reserved, *amounts, job, run, version, relation, unit, dataset, secure, _, reason, _, _ = row
    state = _state((number, *row[-4:]), path)
    try:
        epsilon, delta, rho = (None if exact is None else written_up(exact) for exact in map(amount_in_file, amounts))
        when = datetime.fromisoformat(reserved)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise database.damaged(path) from error
    return number, what, when, epsilon, delta, rho, job, run, version, relation, unit, dataset, bool(secure), state, reason
