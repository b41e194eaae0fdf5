"""The file behind a `Ledger`: an SQLite database, opened anew for every transaction, and SQLite's errors in the system's words.

A connection never outlives a transaction, so forks and threads share nothing. The file is never opened by other means: POSIX gives up all
of a process's locks on a file as soon as the process closes any descriptor of it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION = int.from_bytes(b"dpcl", "big")
"""What `file` and other tools know a ledger by: SQLite's application id."""
FORMAT = 1
SCHEMA = (
    """CREATE TABLE budget (
        one INTEGER PRIMARY KEY CHECK (one = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, relation TEXT NOT NULL,
        accounting TEXT NOT NULL CHECK (accounting IN ('basic', 'zcdp')), unit TEXT NOT NULL, created TEXT NOT NULL,
        version TEXT NOT NULL)""",
    """CREATE TABLE spend (
        id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL, reserved TEXT NOT NULL, done TEXT,
        epsilon TEXT, delta TEXT, rho TEXT, job TEXT, version TEXT NOT NULL)""",
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
    sqlite3.SQLITE_CORRUPT: (errno.EIO, "the ledger is damaged: restore it from a copy, and count what was spent since as spent"),
}


def resolve(path: object) -> Path:
    """Return an absolute path, so that a later change of the working directory finds the same file."""
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterTypeError(f"path must be a str or a path, got {path!r}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise ParameterTypeError(f"path must be a str or a path, got {path!r}")
    if not text or "\0" in text:
        raise ParameterError(f"path must be the name of a file, got {text!r}")
    return Path(text).absolute()


def size(path: Path) -> int | None:
    """Give the size of a regular file, None if there is no file; anything else that has the name is an error."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a ledger is a file, and this is a folder", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ParameterError(f"path must name a regular file, got {str(path)!r}")
    if status.st_nlink > 1:
        # SQLite names the journal after the path: what a crash left under one name would be missed under the other.
        raise ParameterError(f"path must name a file that has no other name (hard link), got {str(path)!r}")
    return status.st_size


@contextmanager
def transaction(path: Path, timeout: float, *, write: bool = False, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Run a block in a transaction that is on the disk when the block's end returns; an error undoes it.

    `write` takes the lock at once ("immediate"): whoever reads the totals to decide on a spend is the only one who can write until then.
    """
    try:
        # No journal of the write-ahead kind: it needs shared memory beside the file and a second file to copy along.
        connection = sqlite3.connect(f"{path.as_uri()}?mode={'rwc' if create else 'rw'}", timeout=timeout, isolation_level=None, uri=True)
        try:
            # EXTRA: the folder is synced as well after the journal is removed, else a power cut could undo a committed reservation.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back what was not committed
    except sqlite3.Error as error:
        raise translated(error, path) from error


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """Say what SQLite said, in an error that fits the cause."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return ParameterError(f"path must name a ledger, and this is no SQLite file: {str(path)!r}")
    number, words = _ERRNO.get(code, (errno.EIO, f"the ledger cannot be used: {error}"))
    return OSError(number, words, str(path))  # the errno picks the class: PermissionError, TimeoutError, ...


def sync_folder(path: Path) -> None:
    """Make the name of a new file last; systems that cannot sync a folder have nothing to do here."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(folder)
    except OSError:
        return
    finally:
        os.close(folder)


def make(path: Path, timeout: float, budget: tuple[str, ...]) -> bool:
    """Write an empty ledger in one transaction; False if something was there by the time the lock was had."""
    with transaction(path, timeout, write=True, create=True) as connection:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return False
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO budget VALUES (1, ?, ?, ?, ?, ?, ?, ?)", budget)
    sync_folder(path)
    return True


def read_budget(connection: sqlite3.Connection) -> tuple[Any, ...] | None:
    """Give ε, δ, relation, accounting and unit as they stand in the file."""
    row: tuple[Any, ...] | None = connection.execute("SELECT epsilon, delta, relation, accounting, unit FROM budget").fetchone()
    return row


def read_header(connection: sqlite3.Connection, path: Path) -> tuple[Any, ...]:
    """Give ε, δ, relation, accounting and unit of the budget; refuse a database that is no ledger, of another format, or damaged."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        words = (
            "this is another SQLite database"
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            else "this file is empty or too short"
        )
        raise ParameterError(f"path must name a ledger, and {words}: {str(path)!r}")
    if version != FORMAT:
        raise ParameterError(f"path must name a ledger of format {FORMAT}, and this one has format {version}: {str(path)!r}")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    row = read_budget(connection)
    if verdict != "ok" or row is None:
        raise OSError(*_ERRNO[sqlite3.SQLITE_CORRUPT], str(path))
    return row
