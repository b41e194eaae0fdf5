"""Where tasks keep rows that do not fit into memory, so that no other user reads them and none are left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dpcore._disk.locks import remove_if_unlocked, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = Path("/dev/shm")  # noqa: S108 - its folders are made by name and for their owner alone
"""A file system in memory: no disk has what lies there."""
ROOM = 1 << 30
"""Containers often have 64 MiB of it, with which a task would end where a disk would do."""
PREFIX = "dpcore-task-"
OLD = 3600.0
"""Seconds after which a folder without a lock belongs to no task that has just begun."""


@contextlib.contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder that only its owner opens, and that goes when the task ends; what killed tasks have left goes when the next one begins."""
    place = _place()
    with TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True) as folder:
        if os.name == "nt":  # where no folder has a lock
            yield Path(folder)
            return
        _sweep(place)
        held = os.open(folder, os.O_RDONLY)
        try:
            try_lock(held)  # until the process ends, however it ends
            yield Path(folder)
        finally:
            os.close(held)


def _place() -> Path | None:
    """Memory; without room there the folder of the executor, which Spark names to its workers and removes; None is the system's own."""
    with contextlib.suppress(OSError):
        if os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
            return MEMORY
    named = [Path(name) for name in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if name]
    return next((folder for folder in named if os.access(folder, os.W_OK | os.X_OK)), None)


def _sweep(place: Path | None) -> None:
    """Remove folders whose tasks are gone: they are old, and nobody holds their locks."""
    for folder in () if place is None else place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.lstat().st_mtime >= OLD:
                remove_if_unlocked(folder)
