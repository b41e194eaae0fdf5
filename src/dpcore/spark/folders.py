"""The publication of a folder: written under a hidden name by many processes, and shown by one rename."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpcore._disk.files import AtomicFolder
from dpcore._disk.sealed_files import move_into_place
from dpcore._disk.signals import Deferred
from dpcore.errors import JobError, StorageError, reason
from dpcore.spark.file_tasks import empty_file, sidecar_of
from dpcore.tables.output import metadata
from dpcore.tables.output.publication import Publication
from dpcore.tables.sections import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from dpcore._disk.addresses import Location
    from dpcore._disk.sealed_files import SealedFile
    from dpcore.tables.sections import Format

Item = TypeVar("Item")
Found = TypeVar("Found")
AT_ONCE = 16
"""Files that are moved at a time: a file system of many machines answers each call after a millisecond or more, and to many at once."""
LEFT_BY_SPARK = ("_SUCCESS", "_committed_", "_started_")
"""Beginnings of names that Spark leaves in a folder of a table."""


class FolderPublication(Publication):
    """One folder as the output of a job: nothing has its name before the job is complete."""

    def open_folder(self, *, is_private: bool) -> AtomicFolder:
        """The hidden folder, private if the executors are of the driver's user; it goes at the end, unless it is published."""
        with Deferred():
            folder = AtomicFolder(Path(str(self.names[0])), is_private=is_private)
            self._files.append(folder)  # type: ignore[arg-type]  # released and aborted alike
        return folder

    def _check_place(self, name: Location) -> None:
        check_folder(Path(str(name)), overwrite=self.overwrite)

    def _show(self, files: Sequence[SealedFile]) -> None:
        for file in files:
            move_into_place(file, overwrite=self.overwrite)


def check_folder(path: Path, *, overwrite: bool) -> None:
    """Raise `JobError` unless a folder of this name may be written.

    An existing folder is replaced only if all that is in it looks like files of a table: it goes as a whole.
    """
    if path.is_symlink():
        raise JobError(f"path = {str(path)!r} is a symbolic link; name the folder itself")
    if not path.exists():
        return
    if not path.is_dir():
        raise JobError(f"path = {str(path)!r} is a file, and a job on Spark writes a folder; name another")
    if not overwrite:
        raise JobError(
            f"path = {str(path)!r} exists. Running the job again would spend its privacy budget a second time: two outputs of one table "
            "together protect it only at the sum of both. If that is intended, use overwrite=True, or --overwrite on the command line"
        )
    try:
        foreign = [entry for entry in path.iterdir() if not _is_of_a_table(entry)]
    except OSError as error:
        raise StorageError(f"cannot read the folder {path}{reason(error)}") from None
    if foreign:
        raise JobError(
            f"path = {str(path)!r} holds {foreign[0].name!r}, which is no file of a table, so the folder is not replaced; move it"
        )


def _is_of_a_table(entry: Path) -> bool:
    is_data = entry.suffix.lower() in SUFFIXES or entry.name.endswith((metadata.SIDECAR, ".crc"))
    return entry.is_file() and not entry.is_symlink() and (is_data or entry.name.startswith(LEFT_BY_SPARK))


class AcceptedAttempts:
    """The answers of the attempts that Spark accepted, one for each partition.

    Parameters
    ----------
    rows : iterable
        What Spark collected: partition, name, rows, bytes and sha256 of each file.

    Attributes
    ----------
    accepted : list
        The same.
    rows : int
        Rows of all files.

    Raises
    ------
    StorageError
        If a partition has two answers.
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self.rows = 0
        self.accepted = list(rows)
        self._named: dict[int, Any] = {}
        partitions: set[int] = set()
        for row in self.accepted:
            if row["partition"] in partitions:
                raise StorageError("a partition has two answers; nothing was published")
            partitions.add(row["partition"])
            self.rows += row["rows"]
            if row["name"] is not None:
                self._named[row["partition"]] = row

    def gathered(
        self, folder: AtomicFolder, schema: pa.Schema, output_format: Format, compression: str, sidecar: dict[str, Any]
    ) -> dict[str, str]:
        """Move the files of these attempts into the hidden folder of the output, and return the digest of each.

        Raises
        ------
        StorageError
            If a file is not there, or has another size than its attempt said: the folder is on no disk that all executors share.
        """

        def moved(item: tuple[int, Any]) -> tuple[str, str]:
            partition, row = item
            source, target = folder.spill / row["name"], folder.temporary / f"part-{partition:05}.{output_format}"
            if source.stat().st_size != row["bytes"]:
                raise StorageError(f"a part of {folder.path} has another size than its task has written; nothing was published")
            source.rename(target)
            return target.name, row["sha256"]

        try:
            files: dict[str, str] = dict(at_once(moved, sorted(self._named.items())))
            if not files:
                target = folder.temporary / f"part-00000.{output_format}"
                files[target.name] = empty_file(target, schema, output_format, compression)
            if output_format == "csv":
                files |= _sidecars(folder.temporary, files, sidecar)
        except FileNotFoundError:
            raise StorageError(
                f"a part of {folder.path} is not there: the executors do not write to a disk that the driver sees. Name a folder on a file "
                "system that all machines share, or an address that Spark can write"
            ) from None
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"cannot complete {folder.path}{reason(error)}") from None
        return files


def at_once(work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """What is made of each item, in their order, by threads that wait for a file system; after an error no thread works on."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(work, items))  # on an error `map` cancels what has not begun, and the end of the block waits for the rest


def _sidecars(folder: Path, files: dict[str, str], said: dict[str, Any]) -> dict[str, str]:
    """Write the metadata beside each CSV file, and return the digests of what was written."""
    import hashlib

    def written(item: tuple[str, str]) -> tuple[str, str]:
        name, digest = item
        place = metadata.sidecar_path(folder / name)
        content = sidecar_of(said, (folder / name).stat().st_size, digest)
        place.write_bytes(content)
        return place.name, hashlib.sha256(content).hexdigest()

    return dict(at_once(written, files.items()))
