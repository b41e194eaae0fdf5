"""The output of a job: a table, for CSV with its sidecar, that exists completely or not at all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.batch import metadata
from dpcore.batch.atomic import AtomicFile, remove_stale, sync_folder
from dpcore.batch.errors import StorageError, reason
from dpcore.batch.writers import TableWriter, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dpcore.batch.plan import Plan


class Output:
    """Where a plan's rows go.

    Parameters
    ----------
    plan : Plan
        Names the file, its format and its schema. Folders above it are made; temporaries of dead jobs beside it are removed.

    Attributes
    ----------
    rows : int
        Rows taken so far.

    Raises
    ------
    StorageError
        If the place cannot be written.
    """

    def __init__(self, plan: Plan) -> None:
        self.rows = 0
        self._path = plan.output
        _make_folder(plan.output.parent)
        remove_stale(plan.output)
        self._table = AtomicFile(plan.output)
        self._sidecar: AtomicFile | None = None
        self._sink: pa.NativeFile | None = None
        self._writer: TableWriter | None = None
        try:
            if plan.job.output.resolved_format == "csv":
                self._add_sidecar(plan)
            with self._refusals():
                section = plan.job.output
                self._sink = pa.OSFile(str(self._table.temporary), "wb")
                self._writer = open_writer(section.resolved_format, self._sink, plan.schema, section.resolved_compression)
        except BaseException:
            self.abort()
            raise

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
            self._table.commit()

    def abort(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.discard()
        if self._sink is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._sink.close()
        self._table.abort()
        if self._sidecar is not None:
            self._sidecar.abort()

    def _add_sidecar(self, plan: Plan) -> None:
        path = metadata.sidecar_path(plan.output)
        remove_stale(path)
        self._sidecar = AtomicFile(path)
        self._sidecar.write(metadata.sidecar(plan.job, plan.columns))

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot write {self._path} after {self.rows} rows{reason(error)}") from None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}{reason(error)}") from None
