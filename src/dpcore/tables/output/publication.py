"""One commit for all files of a job: charging, sealing and publishing, in an order that any process can finish.

A job goes through five states. *Planned*: nothing is spent, and the names of its outputs are locked. *Reserved*: the ledger is charged,
before the first row is read. *Sealed*: every file is complete and on the disk beside its name, and the ledger has the digests. *Published*:
the files have their names. *Done*: the ledger knows. A job that dies before it is sealed leaves nothing that counts, and its charge; one
that dies afterwards is finished by the next process that opens the ledger. Without a ledger the states are the same, and nothing is
recorded.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._disk.addresses import Address
from dpcore._disk.files import AtomicFile, remove_stale
from dpcore._disk.locks import NameLock
from dpcore._disk.sealed_files import has_content, move_into_place, remove_output, sync_folder
from dpcore._disk.signals import Deferred
from dpcore._disk.staging import staged, staging_folder
from dpcore.errors import PublishedError, StorageError, reason
from dpcore.tables.output import metadata
from dpcore.tables.output.spending import Spending
from dpcore.tables.places import check_regular
from dpcore.tables.sources import exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore._disk.addresses import Location
    from dpcore._disk.sealed_files import SealedFile
    from dpcore.tables.output.charge import Charge


class Publication(Spending):
    """The files of one job, and what it spends. As a context manager it holds their names, and at its end leaves files or nothing.

    Parameters
    ----------
    names : sequence of Path or Address
        Of all files, in the order in which they appear: a sidecar before its table, and last the files that describe the others.
    charge : Charge
        What the ledger is to pay.
    overwrite : bool
        Whether files that have the names may be replaced.

    Attributes
    ----------
    overwrite
        As given.
    """

    def __init__(self, names: Sequence[Location], charge: Charge, *, overwrite: bool) -> None:
        super().__init__(names, charge)
        self.overwrite = overwrite
        self._locks: list[NameLock] = []
        self._files: list[AtomicFile] = []

    def already(self) -> str | None:
        said = super().already()
        if said is not None:
            with contextlib.suppress(OSError), Deferred():  # What its process has left, if it died.
                places = [self._place(name) for name in self.names]
                self._locks = [NameLock(place) for place in places]
                for place in places:
                    remove_stale(place)
            self._clean_up()
        return said

    def open(self, path: Location) -> AtomicFile:
        """A temporary for one of the names; it goes at the end, unless it is published."""
        with Deferred():
            file = AtomicFile(path, self._place(path)) if isinstance(path, Address) else AtomicFile(path)
            self._files.append(file)
        return file

    def publish(self, files: Sequence[SealedFile]) -> None:
        """Seal complete files, then show all of them; a signal waits until that is done.

        Parameters
        ----------
        files : sequence of SealedFile
            One for each name, in the same order.

        Raises
        ------
        StorageError
            If the files cannot be sealed or shown.
        PublishedError
            If they are shown and the ledger cannot record it.
        """
        with Deferred():
            self._seal(files)
            try:
                sealed = [file.temporary.stat() for file in files]
            except OSError as error:
                raise self._unpublished([], error) from None
            try:
                self._show(files)
            except OSError as error:
                raise self._unpublished(list(zip(files, sealed, strict=True)), error) from None
            self.state = "published"
            for file in self._files:
                file.release()
            try:
                self.charge.published()
            except OSError as error:
                raise PublishedError(self.names) from error
            self.state = "done"

    def _place(self, name: Location) -> Path:
        """The name of a file of this machine: that of an output, or of one that waits to be uploaded."""
        return staged(name, staging_folder(self.charge.ledger_path)) if isinstance(name, Address) else name

    def _take_names(self) -> None:
        places = [self._place(name) for name in self.names]
        for folder in dict.fromkeys(place.parent for place in places):
            make_folder(folder)
        # In one order: of two jobs one gets all.
        for place, name in sorted(zip(places, self.names, strict=True), key=lambda each: str(each[0].absolute())):
            try:
                self._locks.append(NameLock(place))
            except BlockingIOError:
                raise StorageError(f"another job is writing {name}; nothing was read, and nothing is spent") from None
            except OSError as error:
                raise StorageError(f"cannot write into {place.parent}{reason(error)}") from None
        for found in {lock.found for lock in self._locks} - {""}:
            self.charge.finish(found, self.names)
        for place in places:
            remove_stale(place)
        for name in self.names:
            self._check_place(name)

    def _check_place(self, name: Location) -> None:
        check_regular(name, "output")
        if self.overwrite or not (exists(name) or (isinstance(name, Path) and name.is_symlink())):
            return
        if name.name.endswith(metadata.SIDECAR) and not exists(metadata.table_of(name)) and metadata.is_sidecar(name):
            remove_output(name)  # What a job left that was killed between the two files.
            return
        raise StorageError(f"{name} has appeared since the job was planned; nothing was read, and nothing is spent")

    def _show(self, files: Sequence[SealedFile]) -> None:
        if self.overwrite and len(files) > 1:
            # What is replaced goes first, the last file of it before the others: never a table beside the sidecar of another.
            for file in reversed(files):
                remove_output(file.path)
            for folder in {file.path.parent for file in files if isinstance(file.path, Path)}:
                sync_folder(folder)
        for file in files:
            move_into_place(file, overwrite=self.overwrite)

    def _seal(self, files: Sequence[SealedFile]) -> None:
        try:
            for lock in self._locks:
                self.charge.note(lock)
            self.charge.seal(files, overwrite=self.overwrite)
        except OSError as error:
            raise StorageError(f"cannot record in the ledger which files the job will publish{reason(error)}") from None
        self.state = "sealed"

    def _unpublished(self, shown: Sequence[tuple[SealedFile, os.stat_result]], error: OSError) -> StorageError:
        place = getattr(error, "place", None) or error.filename or self.names[-1]
        if self.charge.is_recorded:
            return StorageError(
                f"cannot put {place} in its place{reason(error)}. The output is complete, and sealed in the ledger: "
                "when the cause is mended, run the job again or dpcore ledger complete, which publishes it without spending again"
            )
        for file, sealed in shown:
            # A file may have its name already: if the folder cannot be synced, or its temporary name not be removed.
            with contextlib.suppress(OSError):
                if os.path.samestat(file.path.lstat(), sealed) if isinstance(file.path, Path) else has_content(file):
                    remove_output(file.path)
        self.state = "reserved"
        return StorageError(f"cannot complete {place}{reason(error)}")

    def _clean_up(self) -> None:
        kept = self.state == "sealed"
        for file in self._files:
            if kept:
                file.release()
            else:
                file.abort()
        for lock in self._locks:
            lock.release(keep=kept)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}{reason(error)}") from None
