"""A ledger that is open: its transactions, its totals, and the states of its spends."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from dpcore._disk import sealed_files
from dpcore.accounting.ledger import database, rows, series
from dpcore.accounting.ledger.spends import Entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from dpcore._disk.sealed_files import SealedFile
    from dpcore.accounting.ledger.amounts import Amount
    from dpcore.accounting.ledger.rows import Checked
    from dpcore.accounting.ledger.states import Event


class OpenLedger:
    """The file behind a `Ledger`, which is opened anew for every transaction.

    Parameters
    ----------
    path : Path
        The file itself, absolute.
    timeout : float
        Seconds to wait for other processes.

    Attributes
    ----------
    header : Header
        What was fixed when the ledger was made.
    checked : Checked or None
        How far the digests of the spends have been checked.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ParameterError
        If the file is not a ledger of the current format.
    OSError
        If it cannot be read or is damaged.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self.timeout = path, timeout
        if database.size(path) is None:
            raise FileNotFoundError(
                errno.ENOENT,
                "there is no ledger of this name; make one with Ledger.create(path, epsilon=...) or `dpcore ledger create`",
                str(path),
            )
        with database.transaction(path, timeout) as connection:
            database.check_format(connection, path)
            self.header = rows.read_header(connection, path)
            self.checked: Checked | None = rows.check_spends(connection, path, self.header, None)

    def transaction(self, *, write: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """Begin a transaction on the file that was opened; another file of the same name is an error."""
        return rows.transaction(self.path, self.timeout, self.header, write=write)

    def check_spends(self, connection: sqlite3.Connection) -> Checked:
        """Check the digests of the spends that are new, and add up all spends."""
        self.checked = rows.check_spends(connection, self.path, self.header, self.checked)
        return self.checked

    def total(self) -> Amount:
        """Return the sum of all spends."""
        with self.transaction() as connection:
            return self.check_spends(connection).total

    def entries(self, wanted: Callable[[Entry], bool] = lambda _: True) -> list[Entry]:
        """Return the spends that are wanted, in their order."""
        with self.transaction() as connection:
            every = [Entry(*values) for values in rows.entries(connection, self.path)]
        return [entry for entry in every if wanted(entry)]

    def advance(
        self, number: int, event: Event, *, reason: str | None = None, files: Sequence[SealedFile] = (), overwrite: bool = False
    ) -> None:
        """Record what happened to a spend."""
        with self.transaction(write=True) as connection:
            rows.advance(connection, self.path, number, event, reason)
            if files:
                rows.seal(connection, number, files, overwrite=overwrite)

    def last_step(self, name: str) -> tuple[int, str] | None:
        """The last step of a series, and the digest of what it released; None if it was not paid for."""
        with self.transaction() as connection:
            return series.last_step(connection, self.path, name)

    def note_step(self, number: int, name: str, step: int, answer: str) -> None:
        """Record the next step of a series."""
        with self.transaction(write=True) as connection:
            rows.state_of(connection, self.path, number)
            series.write_step(connection, self.path, number, name, step, answer)

    def complete(self) -> tuple[Entry, ...]:
        """Publish the outputs that processes had sealed before they died, and return their entries."""
        with self.transaction() as connection:
            runs = rows.unfinished(connection, self.path)
        finished = {
            number
            for number, state, outputs in runs
            if state == "published" or sealed_files.finish(outputs.files, outputs.replaces, overwrite=outputs.overwrite)
        }
        if not finished:
            return ()
        with self.transaction(write=True) as connection:
            for number in finished:
                if rows.state_of(connection, self.path, number) != "failed":  # abandoned in the meantime
                    rows.advance(connection, self.path, number, "publish")
                    rows.advance(connection, self.path, number, "finish")
        return tuple(self.entries(lambda entry: entry.id in finished))

    def note_check(self) -> None:
        """Write the time of a check, which shows that the ledger can be written."""
        with self.transaction(write=True) as connection:
            self.check_spends(connection)
            connection.execute("INSERT OR REPLACE INTO checked VALUES (1, ?)", (rows.now(),))
