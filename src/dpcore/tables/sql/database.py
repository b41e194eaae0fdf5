"""The database that evaluates expressions: in memory, without files, extensions or other people's settings."""

from __future__ import annotations

import ctypes
import os
import threading

from dpcore.tables.sql.installed import duckdb

MEMORY = "1TB"
"""No limit: how many threads evaluate, and how many rows have long texts, must not decide whether a job ends. The length of every text
is bounded, and so are the rows of a piece (`tables.derivation`)."""
# Global, so that they hold for every cursor.
SETTINGS = """
    set enable_progress_bar = false;
    set global ieee_floating_point_ops = false;
    set global error_on_division_by_zero = false;
    set lock_configuration = true;
"""


def opened(threads: int = 1) -> duckdb.DuckDBPyConnection:
    """Open a database of its own. A division by zero is NULL there, and so is a square root or logarithm that does not exist."""
    database = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
            "memory_limit": MEMORY,
            "threads": threads,
        },
    )
    database.execute(SETTINGS).fetchall()
    return database


class _Shared:
    """The one database of a process for expressions, opened with the first: that takes longer than most questions about a small table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None

    def forget(self) -> None:
        """Open another one next; a child of fork never closes that of its parent, whose locks other threads may hold."""
        if self._database is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))
        self._lock, self._database = threading.Lock(), None

    def connected(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._database is None:
                self._database = opened()
            return self._database.cursor()


_shared = _Shared()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.forget)


def connected() -> duckdb.DuckDBPyConnection:
    """Connect to the database of this process, where a statement has one thread; the caller closes the connection.

    No other connection sees the tables that are registered with it.
    """
    return _shared.connected()
