"""Paths that a job names are those of files on this machine, or addresses of a store."""

from __future__ import annotations

import re

from dpcore._disk.addresses import SCHEMES, Address, is_address
from dpcore.errors import JobError

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Of an address. A single letter is a drive."""


def check_local(key: str, path: str) -> None:
    """Raise `JobError` if a path is an address: as a path it would name a folder called `s3:`.

    Parameters
    ----------
    key : str
        What messages call the path.
    path : str
        As it was given.
    """
    if SCHEME.match(path):
        scheme = path.partition(":")[0]
        raise JobError(f"{key} = {path!r}: {scheme}: addresses are not supported; name a file or folder that this machine has mounted")


def address_of(key: str, path: str) -> Address | None:
    """The address that a path is; None for that of a file on this machine.

    Raises
    ------
    JobError
        If it is an address of something else than a store.
    """
    if is_address(path):
        return Address.of(path, key)
    if SCHEME.match(path):
        scheme, stores = path.partition(":")[0], ", ".join(f"{each}://" for each in SCHEMES)
        raise JobError(
            f"{key} = {path!r}: {scheme}: addresses are not supported; name a file or folder of this machine, or one of {stores}"
        )
    return None
