"""Tables with a log, which says which of their files and rows still count: reading every file would bring removed rows back."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._disk import stores
from dpcore._extras import install
from dpcore.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcore._disk.addresses import Address

FOLDERS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
"""Folders in which a log is, and whose it is."""
_ICEBERG = re.compile(r"(?:(.*)/)?metadata/[^/]*\.metadata\.json[^/]*", re.DOTALL)


def check_no_log(paths: Iterable[Path]) -> None:
    """Raise `JobError` for files of a table with a log."""
    files = [path.absolute() for path in paths]
    own = {Path(name) for name in {os.path.dirname(path) for path in files}}  # noqa: PTH120  # of thousands of files there are few
    inner = own | {each.resolve() for each in own} | {path.resolve().parent for path in files if path.is_symlink()}
    for folder in sorted(inner.union(*(each.parents for each in inner))):
        kind = _kind_of_log(folder)
        if kind is not None:
            raise refusal(folder, kind)


def check_no_log_in(root: Address, objects: Sequence[Address]) -> None:
    """Raise `JobError` if some of the objects below an address are the log of a table, or it is itself below one."""
    start = len(root.key) + 1 if root.key else 0
    for each in objects:
        inner = each.key[start:]
        for name, kind in FOLDERS.items():
            before, found, _ = f"/{inner}".partition(f"/{name}/")
            if found:
                raise refusal(root.below(before.strip("/")) if before.strip("/") else root, kind)
        iceberg = _ICEBERG.fullmatch(inner)
        if iceberg is not None:
            raise refusal(root.below(iceberg[1]) if iceberg[1] else root, "Iceberg")
    for parent in root.parents:
        for name, kind in FOLDERS.items():
            if stores.kind(parent.below(name)) == "folder":
                raise refusal(parent, kind)
        below = parent.below("metadata")
        if any(_ICEBERG.fullmatch(each.key[len(parent.key) :].strip("/")) for each in stores.listed(below, recursive=False)):
            raise refusal(parent, "Iceberg")


def refusal(folder: Path | Address, kind: str) -> JobError:
    """The error for such a table."""
    return JobError(
        f"{folder} is a table of {kind}, whose log says which files and rows still count, and dpcore does not read it; "
        f"{install('delta') + ', and name the folder of the table, or ' if kind == FOLDERS['_delta_log'] else ''}"
        "export the table, and read the export"
    )


def _kind_of_log(folder: Path) -> str | None:
    found = next((kind for name, kind in FOLDERS.items() if (folder / name).is_dir()), None)
    return found or ("Iceberg" if any(folder.glob("metadata/*.metadata.json*")) else None)
