"""What a worker writes: one file for each attempt at a partition, under a name of its own, in a hidden folder.

A file counts when the driver has accepted the attempt's answer, which names it: Spark accepts one answer for each partition, however many
attempts there are. Files of other attempts never get a name in the output.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore._disk.files import NO_DIGEST, digest_of
from dpcore.errors import DataError, DpcoreError, StorageError, reason
from dpcore.spark.noise_tasks import typed
from dpcore.spark.workers import partition_number
from dpcore.tables.output import metadata
from dpcore.tables.output.writers import open_writer
from dpcore.tables.types.values import CellError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpcore.spark.noise_tasks import NoiseTask
    from dpcore.spark.workers import Stamp
    from dpcore.tables.sections import Format

ANSWER = pa.schema([("partition", pa.int32()), ("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("sha256", pa.string())])
"""Of an attempt: its partition, and of the file that it wrote the name, the rows, the size and the digest; no name without a row."""
ANSWER_DDL = "partition int, name string, rows bigint, bytes bigint, sha256 string"


@dataclass(frozen=True)
class FileTask:
    """A partition's work: rows in, one file, and its name out.

    Attributes
    ----------
    noise : NoiseTask
        What is done to the rows.
    types : dict
        Types of the columns that are read, as the job was planned for them.
    folder : str
        Where attempts write, on a disk that the driver sees as well.
    format, compression : str
        How the file is written.
    stamp : Stamp
        The driver's dpcore.
    needs_digest : bool
        Whether a ledger or a sidecar names the digest of the file.
    """

    noise: NoiseTask
    types: dict[str, pa.DataType]
    folder: str
    format: Format
    compression: str
    stamp: Stamp
    needs_digest: bool = True

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work as an attempt that Spark has started."""
        with self.stamp.guarding():
            yield self.answer(batches, partition_number())

    def answer(self, batches: Iterable[pa.RecordBatch], partition: int) -> pa.RecordBatch:
        """Write the rows of a partition into a file, and return what the driver needs to know about it.

        Raises
        ------
        DataError
            If a cell is missing or unknown and its column declares nothing for it.
        StorageError
            If the file cannot be written. No message quotes a cell.
        """
        path = Path(self.folder, f"{partition:05}-{secrets.token_hex(8)}.{self.format}")
        try:
            rows = self._written(path, batches, partition)
            if not rows:
                return _answer(partition, None, 0, 0, None)
            return _answer(partition, path.name, rows, path.stat().st_size, digest_of(path) if self.needs_digest else NO_DIGEST)
        except CellError as error:
            _remove(path)
            raise DataError(f"column {error.column!r}: {error.problem}") from None
        except DpcoreError:
            _remove(path)
            raise
        except (OSError, pa.ArrowException) as error:
            _remove(path)
            said = reason(error) if isinstance(error, OSError) else f" ({type(error).__name__})"
            raise StorageError(f"cannot write a part of the output{said}") from None
        except BaseException:
            _remove(path)
            raise

    def _written(self, path: Path, batches: Iterable[pa.RecordBatch], partition: int) -> int:
        """Write all rows, and return their number; without a row there is no file."""
        rows = 0
        with contextlib.ExitStack() as opened:
            writer = None
            for batch in self.noise.noised(typed(batches, self.types), partition):
                if writer is None:
                    sink = opened.enter_context(pa.OSFile(str(path), "wb"))
                    writer = open_writer(self.format, sink, self.noise.schema, self.compression)
                writer.write(batch)
                rows += len(batch)
            if writer is not None:
                writer.close()
        if rows:
            _synced(path)
        return rows


def empty_file(path: Path, schema: pa.Schema, output_format: Format, compression: str) -> str:
    """Write a table without rows, and return its digest."""
    with pa.OSFile(str(path), "wb") as sink:
        open_writer(output_format, sink, schema, compression).close()
    _synced(path)
    return digest_of(path)


def sidecar_of(said: dict[str, Any], size: int, digest: str) -> bytes:
    """What lies beside a CSV file of this size and digest."""
    return metadata.sidecar_content(said | {"table": {"bytes": size, "sha256": digest}})


def _answer(*values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([value], field.type) for value, field in zip(values, ANSWER, strict=True)], schema=ANSWER)


def _synced(path: Path) -> None:
    import os

    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
