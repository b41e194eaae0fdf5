"""A database that spills into a folder, on a thread of its own: for counts that may not fit into memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from dpcore._dataclasses import dataclass
from dpcore._disk.signals import Deferred
from dpcore.errors import StorageError
from dpcore.tables.pipeline import POLL_SECONDS, UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duckdb

Answer = TypeVar("Answer")
MEMORY = "256MB"
"""Memory of the database, beyond which it spills to disk."""
THREADS = 2
"""Each of its threads needs a share of `MEMORY`; with more of them the shares are too small to spill from."""


@dataclass(slots=True)
class Advance:
    """How far a pass has come."""

    rows: int = 0
    done: float = 0.0


def in_database(
    spill: Path,
    threads: int,
    progress: Advance,
    update: Callable[[int, float], None],
    work: Callable[[duckdb.DuckDBPyConnection], Answer],
    what: str,
) -> Answer:
    """Let a database that spills into a folder do some work on a separate thread.

    Parameters
    ----------
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that work.
    progress : Advance
        What the work notes.
    update : callable
        Told the rows read and the fraction of the input they are, on the calling thread.
    work : callable
        What to do with the database.
    what : str
        The work in words, for messages.

    Raises
    ------
    StorageError
        If there is no room.
    """
    with Deferred():
        from dpcore.tables.sql.installed import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "temp_directory": str(spill),
        "threads": min(threads, THREADS),
        "preserve_insertion_order": False,
    }
    # It will hold values of the input, and lies where results are published. The database would make it for everybody to read.
    spill.mkdir(mode=0o700, parents=True, exist_ok=True)
    with duckdb.connect(":memory:", config=settings) as database, ThreadPoolExecutor(1) as worker:
        # Its own bar would be drawn on standard output.
        database.execute("set enable_progress_bar = false").fetchall()
        working = worker.submit(work, database)
        try:
            while not wait([working], POLL_SECONDS).done:
                update(progress.rows, min(progress.done, UNFINISHED))
            answer = working.result()
        except duckdb.Error:  # whose messages may quote values
            raise StorageError(f"{what} failed; it may need more room in {spill.parent}") from None
        except BaseException:
            database.interrupt()
            raise
    update(progress.rows, 1.0)
    return answer
