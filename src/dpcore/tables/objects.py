"""The objects of a store that a path of a job names: one, all below a prefix, or those that match a glob."""

from __future__ import annotations

import glob
import re
from typing import TYPE_CHECKING

from dpcore._disk import stores
from dpcore._disk.addresses import Address
from dpcore.errors import StorageError
from dpcore.tables.formats.logs import check_no_log_in
from dpcore.tables.partitions import is_hidden

if TYPE_CHECKING:
    from dpcore.tables.partitions import Found


def named_objects(address: Address, key: str, endings: tuple[str, ...]) -> list[Found]:
    """The objects that an address names, in their order; of a prefix those with one of the endings, or all if there are none.

    Raises
    ------
    JobError
        If they belong to a table with a log.
    StorageError
        If there are none, or the store refuses or fails.
    """
    kind = stores.kind(address)
    if kind == "object":
        check_no_log_in(address, [])
        return [(address, (), str(address.parent))]
    if kind == "folder":
        every = stores.listed(address)
        check_no_log_in(address, every)
        found = [(each, _folders(each, address), str(address)) for each in every]
        return [each for each in found if _is_data(each) and (not endings or each[0].suffix.lower() in endings)]
    if not glob.has_magic(address.key):
        raise StorageError(f"{key} = {str(address)!r}: no such object, and none below it")
    return _matching(address)


def _is_data(found: Found) -> bool:
    """Whether neither an object nor a part of its key before it has a name that stands for something else than data."""
    return not any(map(is_hidden, found[1])) and not found[0].name.startswith((".", "_"))


def _folders(each: Address, root: Address) -> tuple[str, ...]:
    """The parts of a key between a root and the last one."""
    return tuple(each.key[len(root.key) :].strip("/").split("/")[:-1])


def _matching(address: Address) -> list[Found]:
    """What a glob matches, part by part as in a file system."""
    parts = address.key.split("/")
    fixed = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    root = Address(address.scheme, address.bucket, "/".join(parts[:fixed]))
    pattern = pattern_of(parts[fixed:])
    every = stores.listed(root, recursive=len(parts) > fixed + 1 or parts[fixed] == "**")
    found: list[Found] = [
        (each, _folders(each, root), str(root)) for each in every if pattern.fullmatch(each.key[len(root.key) :].strip("/"))
    ]
    check_no_log_in(root, every if found else [])
    return found


def pattern_of(parts: list[str]) -> re.Pattern[str]:
    """The keys that the parts of a glob match; a wildcard at the beginning of a part matches no dot."""
    said = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            said += r"(?:[^/.][^/]*/)*" + (r"[^/.][^/]*" if last else "")
        else:
            said += ("" if part.startswith(".") else r"(?!\.)") + _part(part) + ("" if last else "/")
    return re.compile(said)


def _part(part: str) -> str:
    said, place = "", 0
    while place < len(part):
        letter, place = part[place], place + 1
        end = part.find("]", place + 1 + (part[place : place + 1] == "!")) if letter == "[" else -1
        if end > 0:
            inner = part[place:end].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
            said += f"[{'^' + inner[1:] if inner.startswith('!') else inner}]"
            place = end + 1
        else:
            said += {"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter))
    return said
