"""The output of a job in several files, which are encoded at the same time."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

from dpcore.tables.output import shards
from dpcore.tables.output.output import Output
from dpcore.tables.output.writers import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    import pyarrow as pa

    from dpcore._disk.addresses import Location
    from dpcore._disk.sealed_files import SealedFile
    from dpcore.tables.output.publication import Publication
    from dpcore.tables.sections import Format


class ShardedOutput:
    """A table whose row groups are dealt out to several files in turn, with a manifest beside them.

    Parameters
    ----------
    publication : Publication
        Whose files these are.
    paths : sequence of Path or Address
        The shards.
    manifest : Path or Address
        The file that names them.
    schema : pyarrow.Schema
        Of each shard, with its metadata.
    output_format, compression : str
        How they are written.
    said : dict
        The privacy metadata of the table, for the manifest.
    threads : int
        Row groups that are encoded at the same time; no more of them are held.

    Attributes
    ----------
    rows : int
        Rows taken so far.
    """

    def __init__(
        self,
        publication: Publication,
        paths: Sequence[Location],
        manifest: Location,
        schema: pa.Schema,
        output_format: Format,
        compression: str,
        said: dict[str, Any],
        *,
        threads: int,
    ) -> None:
        self.rows = 0
        self._said, self._threads = said, threads
        self._parts = parts_of(output_format, schema)
        self._shards = [Output(publication, path, schema, output_format, compression, {}, needs_digest=True) for path in paths]
        self._manifest = publication.open(manifest)
        self._dealt = 0
        self._last: dict[int, Future[None]] = {}
        self._running: deque[Future[None]] = deque()
        self._pool = ThreadPoolExecutor(min(threads, len(paths)), thread_name_prefix="dpcore-encode")

    @property
    def spill(self) -> Path:
        """A folder for state that outgrows memory; it goes when the job ends."""
        return self._shards[0].spill

    def allocate(self, rows: int) -> None:
        """Take room on the disk for about so many rows."""
        for shard in self._shards:
            shard.allocate(rows // len(self._shards))

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; every so often this waits until a row group is encoded."""
        self.rows += len(batch)
        for part in self._parts.add(batch):
            self._deal(part)

    def _deal(self, part: pa.RecordBatch) -> None:
        """Write a part into the next shard, when the parts before it are written."""
        place = self._dealt % len(self._shards)
        self._dealt += 1
        if place in self._last:
            self._last[place].result()
        while len(self._running) >= self._threads:
            self._running.popleft().result()
        self._last[place] = self._pool.submit(self._shards[place].write, part)
        self._running.append(self._last[place])

    def seal(self) -> tuple[SealedFile, ...]:
        """Complete the files: the shards, and the manifest that has their digests."""
        for part in self._parts.rest():
            self._deal(part)
        while self._running:
            self._running.popleft().result()
        sealed = [file for each in self._pool.map(Output.seal, self._shards) for file in each]
        self._pool.shutdown()
        listed = [
            shards.Shard(file.path, shard.rows, file.temporary.stat().st_size, file.sha256)
            for file, shard in zip(sealed, self._shards, strict=True)
        ]
        self._manifest.write(shards.manifest_content(self._said, listed))
        return (*sealed, self._manifest.seal())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._parts.clear()
            for shard in self._shards:
                shard.discard()
