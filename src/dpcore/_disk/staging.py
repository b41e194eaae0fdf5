"""Where outputs for an object store are made and wait, complete and sealed, until they are uploaded: a folder of this machine."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.errors import StorageError, reason

if TYPE_CHECKING:
    from dpcore._disk.addresses import Address

VARIABLE = "DPCORE_STAGING"
"""Names another folder in the environment, such as one with more room."""


def staging_folder(ledger: Path | None) -> Path:
    """The folder for a job: that of the environment, else a hidden one beside its ledger, which a restart keeps, else a temporary one.

    Raises
    ------
    StorageError
        If it cannot be made, or is another user's.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    named = os.environ.get(VARIABLE)
    if named:
        folder = Path(named).absolute()
    elif ledger is not None:
        folder = ledger.absolute().parent / f".dpcore-staging-{user}"
    else:
        folder = Path(tempfile.gettempdir()).absolute() / f"dpcore-staging-{user}"
    try:
        # It holds outputs that are not published yet, and units of a job that do not fit into memory.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder} for outputs that are uploaded{reason(error)}") from None
    if not named and hasattr(os, "getuid") and (state.st_uid != user or not stat.S_ISDIR(state.st_mode)):
        raise StorageError(f"{folder} belongs to another user, so outputs cannot wait there; name a folder in {VARIABLE}")
    return folder


def staged(address: Address, folder: Path) -> Path:
    """The name of an output in the folder: one for each address."""
    return folder / f"{hashlib.sha256(str(address).encode()).hexdigest()[:16]}-{address.name[-80:]}"
