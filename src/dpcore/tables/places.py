"""Checks of paths: each must be a regular file of this file system, and no two the same file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._disk.addresses import Address, Location
from dpcore.errors import JobError, StorageError, reason
from dpcore.tables.local_paths import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

REPORT = "a file of --report"
"""Name of report files in messages."""
LOG = "--log"
"""Name of the log in messages."""
Place = tuple[str, Location]
"""The name of a file in messages, and its path."""


def check_regular(path: Location, key: str) -> None:
    """Raise `JobError` if what is there, through all links, is no regular file. An object is one."""
    if isinstance(path, Address):
        return
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return  # Making the file will show whether it can be made.
    except (OSError, ValueError) as error:  # a name with a zero in it is a ValueError
        raise StorageError(f"{key} = {str(path)!r} cannot be inspected{reason(error)}") from None
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in KINDS if is_kind(mode)), "no regular file")
        raise JobError(f"{key} = {str(path)!r} is {kind}; name a file")


def output_place(path: str | Path, key: str) -> Location:
    """Return the place of an output.

    A symbolic link is refused, not followed: the sidecar of a CSV file would lie beside the target of the link.

    Raises
    ------
    JobError
        If the path is an address or a link, or something that is no regular file has the name.
    StorageError
        If it cannot be inspected.
    """
    address = address_of(key, str(path))
    if os.path.basename(path) in {"", ".", ".."} or (address is not None and not address.key):  # noqa: PTH119  # A Path forgets the slash.
        raise JobError(f"{key} = {str(path)!r} is a folder; name a file")
    if address is not None:
        return address
    place = Path(path)
    try:
        is_link = place.is_symlink()
    except OSError as error:  # a name that is too long for the system, or a folder that may not be looked into
        raise StorageError(f"{key} = {str(path)!r} cannot be inspected{reason(error)}") from None
    if is_link:
        raise JobError(f"{key} = {str(path)!r} is a symbolic link; name the file itself")
    check_regular(place, key)
    return place


def ledger_places(path: str | Path, key: str = "ledger.path") -> list[Place]:
    """A ledger, and the journals that its database keeps beside it."""
    from dpcore.accounting.ledger.database import JOURNALS  # loads SQLite

    return [(key, Path(path)), *((f"the journal of {key}", Path(f"{Path(path).resolve()}{ending}")) for ending in JOURNALS)]


def check_distinct(written: Iterable[Place], read: Iterable[Place]) -> None:
    """Raise `JobError` if a file that is written is also another one of the command, under any name.

    Parameters
    ----------
    written, read : iterable of (str, Path)
        What messages call each file, and where it is. Files that are only read may be the same.
    """
    every = list(written)
    if not every:
        return
    seen: dict[object, Place] = {}
    for place in read:
        seen.setdefault(_mark(place[1]), place)
    for key, path in every:
        mark = _mark(path)
        if mark in seen:
            other, there = seen[mark]
            raise JobError(f"{key} = {str(path)!r} is the same file as {other} = {str(there)!r}; give each a different file")
        seen[mark] = key, path


def _mark(path: Location) -> object:
    """What two names of one file share: of one that is there the file, of one that is not the name without links.

    A file that is there has no name in common with one that is not, and to follow the links of thousands of files takes long.
    """
    if isinstance(path, Address):
        return path
    try:
        state = os.stat(path)  # noqa: PTH116  # half the time of the method of a path
    except OSError:
        state = None
    if state is not None and state.st_ino:
        return state.st_dev, state.st_ino
    try:
        return str(path.resolve())
    except (OSError, RuntimeError):  # a circle of links
        return str(path.absolute())
