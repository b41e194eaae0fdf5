"""The output of a job: a table, for CSV with its sidecar, that exists completely or not at all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from dpcore.batch import metadata
from dpcore.batch.atomic import AtomicFile, remove_stale, sync_folder
from dpcore.batch.errors import StorageError, reason
from dpcore.batch.writers import open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dpcore.batch.job import Format
    from dpcore.batch.plan import Plan


class Output:
    """Where the rows of a table go.

    Parameters
    ----------
    path : Path
        The file. Folders above it are made; temporaries of dead jobs beside it are removed.
    schema : pyarrow.Schema
        Of the table, with its metadata.
    output_format, compression : str
        How it is written.
    sidecar : bytes
        Metadata that go beside a CSV file.

    Attributes
    ----------
    rows : int
        Rows taken so far.

    Raises
    ------
    StorageError
        If the place cannot be written.
    """

    def __init__(self, path: Path, schema: pa.Schema, output_format: Format, compression: str, sidecar: bytes) -> None:
        self.rows = 0
        self._path = path
        self._in_place: list[Path] = []
        make_folder(path.parent)
        remove_stale(path)
        with contextlib.ExitStack() as undo, self._refusals():
            self._table = AtomicFile(path)
            undo.callback(self._table.abort)
            self._sidecar = _sidecar(path, sidecar) if output_format == "csv" else None
            if self._sidecar is not None:
                undo.callback(self._sidecar.abort)
            self._sink = pa.OSFile(str(self._table.temporary), "wb")
            undo.callback(_close, self._sink)
            self._writer = open_writer(output_format, self._sink, schema, compression)
            undo.callback(self._writer.discard)
            self._undo = undo.pop_all()

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Where a plan's rows go."""
        section = plan.job.output
        sidecar = metadata.sidecar(plan.job, plan.columns)
        return cls(plan.output, plan.schema, section.resolved_format, section.resolved_compression, sidecar)

    @property
    def spill(self) -> Path:
        """A folder for state that outgrows memory; it goes when the job ends."""
        return self._table.spill

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        with self._refusals():
            self._writer.write(batch)
        self.rows += len(batch)

    def commit(self) -> None:
        """Show the finished output under its name."""
        with self._refusals():
            self._writer.close()
            self._sink.close()
            if self._sidecar is not None:
                # Killed between these steps, the job leaves an old sidecar, a new one or none, but no table that lacks its own.
                self._path.unlink(missing_ok=True)
                sync_folder(self._path.parent)
                self._sidecar.commit()
                self._in_place.append(self._sidecar.path)
            self._table.commit()
            self._in_place.append(self._path)

    def withdraw(self) -> None:
        """Take back what was committed, for a job that fails after that."""
        for path in self._in_place:
            with contextlib.suppress(OSError):
                path.unlink()

    def abort(self) -> None:
        """Leave nothing behind but what was committed as a whole."""
        if self._path not in self._in_place:
            self.withdraw()
        self._undo.close()

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot write {self._path} after {self.rows} rows{reason(error)}") from None


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}{reason(error)}") from None


def _sidecar(table: Path, content: bytes) -> AtomicFile:
    path = metadata.sidecar_path(table)
    remove_stale(path)
    file = AtomicFile(path)
    try:
        file.write(content)
    except BaseException:
        file.abort()
        raise
    return file


def _close(sink: pa.NativeFile) -> None:
    # What could not be flushed belongs to a file that is about to be removed.
    with contextlib.suppress(OSError, pa.ArrowException):
        sink.close()
