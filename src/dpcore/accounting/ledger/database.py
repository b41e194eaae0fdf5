"""The file behind a `Ledger`: an SQLite database, opened anew for every transaction, and SQLite's errors in the system's words.

A connection never outlives a transaction, so forks and threads share nothing. The file is never opened by other means: POSIX gives up all
of a process's locks on a file as soon as the process closes any descriptor of it.
"""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION = int.from_bytes(b"dpcl", "big")
"""What `file` and other tools know a ledger by: SQLite's application id."""
FORMAT = 2
OLD_FORMAT = 1
JOURNALS = ("-journal", "-wal", "-shm")
"""What SQLite adds to a ledger's name for files of its own, which it removes without looking whose they are."""
DAMAGED = "the ledger is damaged: restore it from a copy, and count what was spent since as spent"
SCHEMA = (
    """CREATE TABLE ledger (
        one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('basic', 'zcdp')),
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
    sqlite3.SQLITE_IOERR: (errno.EIO, "the ledger cannot be read or written: the system reported an error"),
    sqlite3.SQLITE_NOMEM: (errno.ENOMEM, "not enough memory for the ledger"),
}


def resolve(given: object) -> Path:
    """Return the absolute path of the file itself: a later change of a link or of the working directory does not lead elsewhere."""
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
        raise ParameterError(f"path must not end in {', '.join(JOURNALS)}, which are the names of another ledger's journals, got {text!r}")
    return path


def size(path: Path) -> int | None:
    """Give the size of a regular file, None if there is no file; anything else that has the name is an error."""
    try:
        status = path.lstat()  # it was resolved: a link that stands here now came later
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a ledger is a file, and this is a folder", str(path))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ESTALE, "a link has taken the place of the ledger: open it anew", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ParameterError(f"path must name a regular file, got {str(path)!r}")
    if status.st_nlink > 1:
        # SQLite names the journal after the path: what a crash left under one name would be missed under the other.
        raise ParameterError(f"path must name a file that has no other name (hard link), got {str(path)!r}")
    return status.st_size


def check_beside(path: Path) -> None:
    """Raise if files stand where a ledger that is not there yet will have its journals: SQLite would remove them."""
    for beside in (path.with_name(path.name + ending) for ending in JOURNALS):
        if os.path.lexists(beside):
            raise FileExistsError(errno.EEXIST, "a ledger of this name would take this file for its journal, and remove it", str(beside))


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
            # What stands in the file is not trusted to call functions, and the cells of a page are checked when it is read.
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
    """Undo a journal of the write-ahead kind, which another program has set: what it holds is lost where the file alone is moved."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        return
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        words = "another program has given the ledger a journal of the write-ahead kind, and has it open: close it there"
        raise OSError(errno.EBUSY, words, str(path)) from error


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """Say what SQLite said, in an error that fits the cause."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return ParameterError(f"path must name a ledger, and this is no SQLite file: {str(path)!r}")
    # Whatever else: a ledger that dpcore made does not refuse its statements.
    number, words = _ERRNO.get(code, (errno.EIO, DAMAGED))
    return OSError(number, words, str(path))  # the errno picks the class: PermissionError, TimeoutError, ...


def damaged(path: Path) -> OSError:
    """Make the error for contents that no dpcore wrote."""
    return OSError(errno.EIO, DAMAGED, str(path))


def check_format(connection: sqlite3.Connection, path: Path, *, expected: int = FORMAT) -> None:
    """Refuse a database that is no ledger, of another format, or damaged."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        words = (
            "this is another SQLite database"
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            else "this file is empty or too short"
        )
        raise ParameterError(f"path must name a ledger, and {words}: {str(path)!r}")
    if version != expected:
        raise ParameterError(_other_format(version, expected, path))
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path)


def _other_format(version: int, expected: int, path: Path) -> str:
    said = f"path must name a ledger of format {expected}, and this one has format {version}: {str(path)!r}"
    if version == OLD_FORMAT:
        said += f"; `dpcore ledger export {shlex.quote(str(path))} --into NEW` makes a new ledger of its budget and of all that was spent"
    return said
