"""The SQLite database behind a `Ledger`: its transactions, and SQLite's errors as errors of the system.

A connection is opened for every transaction and closed after it, so forks and threads share nothing. Nothing else opens the file, because
under POSIX a process loses all its locks on a file when it closes any descriptor of it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._disk.addresses import argument
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

APPLICATION = int.from_bytes(b"dpcl", "big")
"""SQLite's application id, by which `file` and other tools recognise a ledger."""
FORMAT = 2
FORMAT_OF_GDP = 3
"""Of ledgers of kind "gdp", so that earlier versions, which would take any ρ for a μ, refuse them."""
FORMATS = (FORMAT, FORMAT_OF_GDP)
OLD_FORMAT = 1
JOURNALS = ("-journal", "-wal", "-shm")
"""Endings of SQLite's own files beside a ledger. SQLite removes files with these names, even if they contain something else."""
DAMAGED = "the ledger is damaged; restore it from a copy, and count what was spent since then as spent"
SPENDER = """CREATE TABLE IF NOT EXISTS spender (
        spend INTEGER PRIMARY KEY REFERENCES spend (id), user TEXT NOT NULL, host TEXT NOT NULL, digest TEXT NOT NULL)"""
"""Who spent, and where: a table that earlier ledgers get with their next spend."""
ASKED = """CREATE TABLE IF NOT EXISTS asked (
        spend INTEGER PRIMARY KEY REFERENCES spend (id), queries TEXT NOT NULL, digest TEXT NOT NULL)"""
"""What was asked: a table that earlier ledgers get with their next spend, too."""
SCHEMA = (
    """CREATE TABLE ledger (
        one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('basic', 'zcdp', 'gdp')),
        epsilon TEXT, delta TEXT NOT NULL, rho TEXT, relation TEXT NOT NULL, unit TEXT NOT NULL, dataset TEXT, created TEXT NOT NULL,
        version TEXT NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TABLE spend (
        id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL, reserved TEXT NOT NULL, epsilon TEXT, delta TEXT NOT NULL, rho TEXT,
        job TEXT, run TEXT, version TEXT NOT NULL, relation TEXT NOT NULL, unit TEXT NOT NULL, dataset TEXT,
        secure INTEGER NOT NULL CHECK (secure = 1), digest TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT, changed TEXT NOT NULL, mark TEXT NOT NULL)""",
    """CREATE TABLE sealed (
        spend INTEGER NOT NULL REFERENCES spend (id), place INTEGER NOT NULL, files INTEGER NOT NULL, temporary BLOB NOT NULL,
        path BLOB NOT NULL, sha256 TEXT NOT NULL, replaces TEXT, overwrite INTEGER NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (spend, place))""",
    SPENDER,
    ASKED,
    "CREATE TABLE checked (one INTEGER PRIMARY KEY CHECK (one = 1), at TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)

_ERRNO = {
    sqlite3.SQLITE_BUSY: (errno.ETIMEDOUT, "the ledger stayed locked by another process"),
    sqlite3.SQLITE_LOCKED: (errno.ETIMEDOUT, "the ledger stayed locked by another connection"),
    sqlite3.SQLITE_READONLY: (errno.EACCES, "the ledger or its folder cannot be written to"),
    sqlite3.SQLITE_PERM: (errno.EACCES, "the ledger cannot be accessed"),
    sqlite3.SQLITE_CANTOPEN: (errno.EACCES, "the ledger, or the journal beside it, cannot be opened"),
    sqlite3.SQLITE_FULL: (errno.ENOSPC, "no space is left for the ledger"),
    sqlite3.SQLITE_IOERR: (errno.EIO, "the ledger cannot be read or written"),
    sqlite3.SQLITE_NOMEM: (errno.ENOMEM, "not enough memory for the ledger"),
}


def resolve(given: object) -> Path:
    """Return the absolute path with all links resolved, so that a later change of a link or of the working directory has no effect."""
    if not isinstance(given, (str, os.PathLike)):
        raise ParameterTypeError(f"path must be a str or a path, got {given!r}")
    text = os.fspath(given)
    if not isinstance(text, str):
        raise ParameterTypeError(f"path must be a str or a path, got {given!r}")
    if not text or "\0" in text:
        raise ParameterError(f"path must be the name of a file, got {text!r}")
    try:
        path = Path(text).resolve()
    except RuntimeError:  # a circle of links, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), text) from None
    if path.name.endswith(JOURNALS):
        raise ParameterError(
            f"path must not end in {', '.join(JOURNALS)}, which SQLite uses for the journals of another ledger, got {text!r}"
        )
    return path


def size(path: Path) -> int | None:
    """Return the size of a regular file, or None if there is no file. Raise for anything else with this name."""
    try:
        status = path.lstat()  # it was resolved: a link that stands here now came later
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a ledger is a file, and this is a folder", str(path))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ESTALE, "a link has replaced the ledger; open it again with Ledger(path)", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ParameterError(f"path must name a regular file, got {str(path)!r}")
    if status.st_nlink > 1:
        # SQLite names the journal after the path: what a crash left under one name would be missed under the other.
        raise ParameterError(f"path must name a file that has no other name (hard link), got {str(path)!r}")
    return status.st_size


def check_beside(path: Path) -> None:
    """Raise if there are files with the names of the journals of a new ledger, because SQLite would remove them."""
    for beside in (path.with_name(path.name + ending) for ending in JOURNALS):
        if os.path.lexists(beside):
            raise FileExistsError(
                errno.EEXIST,
                "SQLite would take this file for the journal of the new ledger and remove it; choose another name for the ledger",
                str(beside),
            )


@contextmanager
def transaction(path: Path, timeout: float, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Run a block in a transaction. It is on disk when the block has ended, and an error undoes it.

    With `write` the lock for writing is taken at the beginning: a process that reads the totals to decide on a spend is the only one that
    can write until it has decided.
    """
    try:
        # No write-ahead log: it needs shared memory beside the file, and a second file that must be copied along.
        connection = sqlite3.connect(f"{path.as_uri()}?mode={'rwc' if create else 'rw'}", timeout=timeout, isolation_level=None, uri=True)
        try:
            # EXTRA also syncs the folder after the journal is removed. Otherwise a power cut could undo a committed reservation.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            # The schema in the file must not call functions, and the cells of a page are checked when it is read.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            _check_journal(connection, path)
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back what was not committed
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except UnicodeDecodeError as error:  # of SQLite's message about a schema that is no text
        raise damaged(path) from error


def _check_journal(connection: sqlite3.Connection, path: Path) -> None:
    """Turn off a write-ahead log that another program has set: its contents are lost if only the main file is moved."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        return
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        words = "another program has given the ledger a write-ahead log and has it open; close it there"
        raise OSError(errno.EBUSY, words, str(path)) from error


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """Return the error of the system that fits an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return ParameterError(f"path must name a ledger, but this is not an SQLite file: {str(path)!r}")
    # All other codes mean damage: a ledger that dpcore made does not refuse its statements.
    number, words = _ERRNO.get(code, (errno.EIO, DAMAGED))
    return OSError(number, words, str(path))  # the errno picks the class: PermissionError, TimeoutError, ...


def damaged(path: Path) -> OSError:
    """Return the error for contents that dpcore did not write."""
    return OSError(errno.EIO, DAMAGED, str(path))


def check_format(connection: sqlite3.Connection, path: Path, *, expected: Sequence[int] = FORMATS) -> None:
    """Raise if a database is not a ledger, has another format, or is damaged."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        words = (
            "this SQLite database is not one"
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            else "this file is empty or too short"
        )
        raise ParameterError(f"path must name a ledger, but {words}: {str(path)!r}")
    if version not in expected:
        raise ParameterError(_other_format(version, expected, path))
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path)


def _other_format(version: int, expected: Sequence[int], path: Path) -> str:
    said = f"path must name a ledger of format {' or '.join(map(str, expected))}, but this one has format {version}: {str(path)!r}"
    if version == OLD_FORMAT:
        said += f"; `dpcore ledger export {argument(path)} --into NEW` makes a new ledger of its budget and its spends"
    return said
