"""The database that evaluates expressions: in memory, without files, extensions or other people's settings."""

from __future__ import annotations

import duckdb

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
