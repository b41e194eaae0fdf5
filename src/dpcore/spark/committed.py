"""Outputs that Spark writes and commits: each task's rows count once, by the coordinator and the committer of the session."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore._disk.files import NO_DIGEST, digest_of
from dpcore.accounting.ledger.states import reason_of
from dpcore.errors import JobError, PublishedError, StorageError, reason
from dpcore.spark.committers import check_committers
from dpcore.spark.folders import FolderPublication, at_once, check_folder
from dpcore.spark.noise_plans import NoisePlan, Written
from dpcore.spark.outer_places import Address, LoggedTable
from dpcore.spark.own_files import charged
from dpcore.spark.rows_tasks import RowsTask
from dpcore.spark.sinks import FILES, TABLES
from dpcore.spark.snapshots import pinned
from dpcore.spark.watching import watched
from dpcore.spark.workers import check_workers, stamp
from dpcore.tables.local_paths import SCHEME
from dpcore.tables.output import metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from dpcore.rng import JobKey
    from dpcore.spark.outer_places import Place
    from dpcore.spark.sinks import Sink
    from dpcore.tables.output.charge import Charge
    from dpcore.tables.progress import Shown


def write_committed(plan: NoisePlan, sink: Sink, progress: Shown) -> Written:
    """Run a job whose output Spark writes.

    Raises
    ------
    JobError
        If the session's committers could publish a record twice, or Spark has no type for a column of reports.
    """
    shown = spark_schema(plan.schema)
    if sink.format in ("csv", "arrow"):
        raise JobError(f"format = {sink.format!r}: Spark's own writer does not keep the metadata; use 'parquet', or committer = 'dpcore'")
    writing = _Writing(plan, sink, shown, progress)
    if sink.format in TABLES:
        return writing.to_place(LoggedTable(plan.session, sink))
    scheme = (SCHEME.match(sink.path) is not None and sink.path.partition(":")[0]) or "file"
    renames = check_committers(plan.session, scheme)
    if scheme == "file":
        return writing.to_folder()
    return writing.to_place(Address(plan.session, sink, renames=renames))


def spark_schema(schema: pa.Schema) -> StructType:
    """The types of Spark for an output, with dpcore's metadata: those of the table at every column of reports.

    Raises
    ------
    JobError
        If Spark has no such type.
    """
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in schema:
        kind: Any = None
        try:
            kind = from_arrow_type(field.type)
            is_same = not metadata.is_noisy(field) or to_arrow_type(kind) == field.type
        except Exception:
            is_same = False
        if not is_same:
            raise JobError(
                f"column {field.name!r}: Spark has no type like {field.type}, as which its reports are stored; use committer = 'dpcore'"
            )
        said = {}
        if metadata.is_noisy(field):
            said = {"dpcore": field.metadata[metadata.KEY].decode(), metadata.TABLE: schema.metadata[metadata.KEY].decode()}
        fields.append(StructField(field.name, kind, nullable=field.nullable, metadata=said))
    return StructType(fields)


class _Writing:
    """One run of a job whose output Spark writes."""

    def __init__(self, plan: NoisePlan, sink: Sink, shown: StructType, progress: Shown) -> None:
        self._plan, self._sink, self._shown, self._progress = plan, sink, shown, progress
        self._session, self._job = plan.session, sink.job
        self._covers = False

    def to_folder(self) -> Written:
        """Write into a folder of this machine: the states of the ledger are those of any job."""
        place = Path(self._sink.path)
        charge = charged(self._plan, self._sink)
        if charge.earlier is None:
            check_folder(place, overwrite=self._sink.overwrite)
        workers = check_workers(self._session)
        snapshot = pinned(self._plan.frame)
        publication = FolderPublication([place], charge, overwrite=self._sink.overwrite)
        with publication.truth(), publication, self._plan.key() as key:
            folder = publication.open_folder(is_private=workers.have_own_user)
            publication.reserve()
            written = folder.spill / "committed"
            self._run(key, lambda noisy: self._writer(noisy).save(written.absolute().as_uri()))
            snapshot.check(self._plan.frame)
            files, rows = _taken(written, folder.temporary, is_recorded=charge.is_recorded)
            publication.publish([folder.seal(files)])
        return self._written(rows, len(files), charge)

    def to_place(self, place: Place) -> Written:
        """Write to another system, which shows the output in one step; the ledger knows that it was paid for, and that it is done."""
        place.check()
        charge = charged(self._plan, self._sink, is_repeatable=False)
        check_workers(self._session)
        snapshot = pinned(self._plan.frame)
        charge.reserve(None)
        try:
            with self._plan.key() as key:
                self._run(key, lambda noisy: place.write(self._writer(noisy)))
            snapshot.check(self._plan.frame, is_shown=place.is_shown)
            place.show()
            charge.done()
        except BaseException as error:
            if place.is_shown:  # whatever failed then, the output is out
                with contextlib.suppress(OSError):
                    charge.done()
                raise PublishedError([self._sink.path]) from error
            place.drop()
            charge.failed(reason_of(error))
            raise
        return self._written(None, None, charge)

    def _writer(self, noisy: DataFrame) -> Any:
        kind = "parquet" if self._sink.format in FILES else self._sink.format
        writer = noisy.write.format(kind).mode("overwrite" if kind in TABLES and self._sink.overwrite else "error")
        return writer.option("compression", self._sink.compression) if kind == "parquet" else writer

    def _run(self, key: JobKey, write: Callable[[DataFrame], None]) -> None:
        """Add the noise and write; the frame with noise is used once, here."""
        rows, self._covers = self._plan.rows(key)
        task = RowsTask(self._plan.noise(key), self._plan.types, stamp())

        def work(batches: Any) -> Any:
            return task(batches)

        watched(self._session, lambda: write(rows.mapInArrow(work, self._shown)), self._progress, "privatising")

    def _written(self, rows: int | None, files: int | None, charge: Charge) -> Written:
        job = self._job
        return Written(self._sink.path, rows, files, job.total, job.secure, self._covers, charge.entry)


def _taken(written: Path, folder: Path, *, is_recorded: bool) -> tuple[dict[str, str], int]:
    """Move what Spark has committed into the hidden folder of the output; return the digests of the files, and their rows."""
    import pyarrow.parquet as pq

    def moved(item: tuple[int, Path]) -> tuple[str, str, int]:
        position, part = item
        name = f"part-{position:05}.parquet"
        digest, rows = digest_of(part) if is_recorded else NO_DIGEST, pq.read_metadata(part).num_rows
        part.rename(folder / name)
        return name, digest, rows

    try:
        found = at_once(moved, enumerate(sorted(written.glob("part-*.parquet"))))
    except OSError as error:
        raise StorageError(f"cannot complete the output{reason(error)}") from None
    if not found:
        raise StorageError("the output is not there: the executors do not write to a disk that the driver sees")
    return {name: digest for name, digest, _ in found}, sum(rows for _, _, rows in found)
