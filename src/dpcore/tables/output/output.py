"""The output of a job: a table, for CSV with its sidecar, that exists completely or not at all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from dpcore._disk.files import NO_DIGEST
from dpcore.errors import StorageError, reason
from dpcore.tables.output import metadata
from dpcore.tables.output.writers import open_writer
from dpcore.tables.types.row_bytes import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from dpcore._disk.addresses import Location
    from dpcore._disk.sealed_files import SealedFile
    from dpcore.tables.output.publication import Publication
    from dpcore.tables.sections import Format


class TableOutput(Protocol):
    """Where the rows of a job go: one file, or several. As a context manager it drops what is pending if the job fails."""

    rows: int

    @property
    def spill(self) -> Path:
        """A folder for state that outgrows memory; it goes when the job ends."""

    def allocate(self, rows: int) -> None:
        """Take room on the disk for about so many rows."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def seal(self) -> tuple[SealedFile, ...]:
        """Complete the files, in the order in which they appear."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End."""


class Output:
    """The output table of a job.

    Parameters
    ----------
    publication : Publication
        What the table is a part of, alone or with others.
    path : Path or Address
        The file.
    schema : pyarrow.Schema
        Of the table, with its metadata.
    output_format, compression : str
        How it is written.
    sidecar : dict
        Metadata that go beside a CSV file, with the digest of the table.
    needs_digest : bool, default False
        Whether the digest is wanted though no ledger and no sidecar names it.

    Attributes
    ----------
    rows : int
        Rows taken so far.

    Raises
    ------
    StorageError
        If the place cannot be written.
    """

    def __init__(
        self,
        publication: Publication,
        path: Location,
        schema: pa.Schema,
        output_format: Format,
        compression: str,
        sidecar: dict[str, Any],
        *,
        needs_digest: bool = False,
    ) -> None:
        self.rows = 0
        self._path, self._said = path, sidecar
        self._row_bytes = stored_bytes({field.name: field.type for field in schema if metadata.is_noisy(field)})
        self._table = publication.open(path)
        self._sidecar = publication.open(metadata.sidecar_path(path)) if output_format == "csv" else None
        # What is not asked for is not computed: a table without a ledger needs no digest, unless a sidecar names it.
        self._needs_digest = needs_digest or publication.charge.is_recorded or self._sidecar is not None
        with self._refusals():
            self._sink = pa.OSFile(str(self._table.temporary), "wb")
            self._writer = open_writer(output_format, self._sink, schema, compression)

    @property
    def spill(self) -> Path:
        """A folder for state that outgrows memory; it goes when the job ends."""
        return self._table.spill

    def allocate(self, rows: int) -> None:
        """Take room on the disk for about so many rows."""
        self._table.allocate(rows * self._row_bytes)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        with self._refusals():
            self._writer.write(batch)
            if self._needs_digest:
                self._table.written(self._sink.tell())
        self.rows += len(batch)

    def seal(self) -> tuple[SealedFile, ...]:
        """Complete the files, in the order in which they appear: never a table that lacks its sidecar."""
        with self._refusals():
            self._writer.close()
            size = self._sink.tell()
            self._sink.close()
            table = self._table.seal(size, None if self._needs_digest else NO_DIGEST)
            if self._sidecar is None:
                return (table,)
            said = self._said | {"table": {"bytes": size, "sha256": table.sha256}}
            self._sidecar.write(metadata.sidecar_content(said))
            return self._sidecar.seal(), table

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self.discard()

    def discard(self) -> None:
        """Write no more; the temporaries belong to the publication."""
        self._writer.discard()
        # What could not be flushed belongs to a file that is about to be removed.
        with contextlib.suppress(OSError, pa.ArrowException):
            self._sink.close()

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot write {self._path} after {self.rows} rows{reason(error)}") from None
