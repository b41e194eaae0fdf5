"""Outputs that Spark writes and commits: each task's rows count once, by the coordinator and the committer of the session."""

from __future__ import annotations

import contextlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dpcore._files import NO_DIGEST, digest_of
from dpcore.batch.jobfile.local_paths import SCHEME
from dpcore.batch.tables import metadata
from dpcore.errors import JobError, StorageError, reason
from dpcore.spark.committers import check_committers
from dpcore.spark.folders import FolderPublication, check_folder
from dpcore.spark.noise_plans import NoisePlan, Written
from dpcore.spark.own_files import charged
from dpcore.spark.reading import TABLE
from dpcore.spark.rows_tasks import RowsTask
from dpcore.spark.sinks import FILES, TABLES
from dpcore.spark.snapshots import pinned
from dpcore.spark.watching import watched
from dpcore.spark.workers import check_workers, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from dpcore.batch.tables.charge import Charge
    from dpcore.batch.tables.progress import Shown
    from dpcore.rng import JobKey
    from dpcore.spark.sinks import Sink

IDENTIFIER = re.compile(r"[\w`]+(\.[\w`]+)*")


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
        return writing.to_place(_Table(plan.session, sink))
    scheme = (SCHEME.match(sink.path) is not None and sink.path.partition(":")[0]) or "file"
    renames = check_committers(plan.session, scheme)
    if scheme == "file":
        return writing.to_folder()
    return writing.to_place(_Address(plan.session, sink, renames=renames))


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
        self._named = False

    def to_folder(self) -> Written:
        """Write into a folder of this machine: the states of the ledger are those of any job."""
        place = Path(self._sink.path)
        charge = charged(self._plan, self._sink)
        if charge.earlier is None:
            check_folder(place, overwrite=self._sink.overwrite)
        check_workers(self._session)
        snapshot = pinned(self._plan.frame)
        publication = FolderPublication([place], charge, overwrite=self._sink.overwrite)
        with publication.truth(), publication, self._plan.key() as key:
            folder = publication.open_folder()
            publication.reserve()
            written = folder.spill / "committed"
            self._run(key, lambda noisy: self._writer(noisy).save(written.absolute().as_uri()))
            snapshot.check(self._plan.frame)
            files, rows = _taken(written, folder.temporary, is_recorded=charge.is_recorded)
            publication.publish([folder.seal(files)])
        return self._written(rows, len(files), charge)

    def to_place(self, place: _Place) -> Written:
        """Write to another system, which shows the output in one step; the ledger knows that it was paid for, and that it is done."""
        place.check()
        charge = charged(self._plan, self._sink, is_repeatable=False)
        check_workers(self._session)
        snapshot = pinned(self._plan.frame)
        charge.reserve(None)
        try:
            with self._plan.key() as key:
                self._run(key, lambda noisy: place.write(self._writer(noisy)))
            snapshot.check(self._plan.frame)
            place.show()
        except BaseException:
            place.drop()
            charge.failed("storage")
            raise
        charge.done()
        return self._written(None, None, charge)

    def _writer(self, noisy: DataFrame) -> Any:
        kind = "parquet" if self._sink.format in FILES else self._sink.format
        writer = noisy.write.format(kind).mode("overwrite" if kind in TABLES and self._sink.overwrite else "error")
        return writer.option("compression", self._sink.compression) if kind == "parquet" else writer

    def _run(self, key: JobKey, write: Callable[[DataFrame], None]) -> None:
        """Add the noise and write; the frame with noise is used once, here."""
        rows, self._named = self._plan.rows(key)
        task = RowsTask(self._plan.noise(key), self._plan.types, stamp())

        def work(batches: Any) -> Any:
            return task(batches)

        watched(self._session, lambda: write(rows.mapInArrow(work, self._shown)), self._progress, "privatising")

    def _written(self, rows: int | None, files: int | None, charge: Charge) -> Written:
        job = self._job
        return Written(self._sink.path, rows, files, job.total, job.secure, self._named, charge.entry)


def _taken(written: Path, folder: Path, *, is_recorded: bool) -> tuple[dict[str, str], int]:
    """Move what Spark has committed into the hidden folder of the output; return the digests of the files, and their rows."""
    import pyarrow.parquet as pq

    files, rows = {}, 0
    try:
        for position, part in enumerate(sorted(written.glob("part-*.parquet"))):
            name = f"part-{position:05}.parquet"
            files[name] = digest_of(part) if is_recorded else NO_DIGEST
            rows += pq.read_metadata(part).num_rows
            part.rename(folder / name)
    except OSError as error:
        raise StorageError(f"cannot complete the output{reason(error)}") from None
    if not files:
        raise StorageError("the output is not there: the executors do not write to a disk that the driver sees")
    return files, rows


class _Place(Protocol):
    """A place that shows an output in one step."""

    def check(self) -> None:
        """Raise `JobError` if the output exists and is not to be replaced."""

    def write(self, writer: Any) -> None:
        """Write with Spark."""

    def show(self) -> None:
        """Rename the output, if it does not have its name yet."""

    def drop(self) -> None:
        """Remove what is not shown."""


class _Table:
    """A table whose log has one commit for all files. Not tested here: no registry that dpcore's tests use has the jars."""

    def __init__(self, session: SparkSession, sink: Sink) -> None:
        self._session, self._sink = session, sink
        self._is_name = sink.path.startswith(TABLE)
        self._place = _table_name(sink.path) if self._is_name else _address(sink.path)

    def check(self) -> None:
        if not self._sink.overwrite and self._is_name and self._session.catalog.tableExists(self._place):
            raise JobError(f"the table {self._place} exists; if a second output is intended, which spends again, use overwrite=True")

    def write(self, writer: Any) -> None:
        if self._is_name:
            writer.saveAsTable(self._place)
        else:
            writer.save(self._place)

    def show(self) -> None:
        """Nothing: the commit of the log has shown the rows."""

    def drop(self) -> None:
        """Nothing: without the commit no reader sees the files."""


def _table_name(path: str) -> str:
    name = path.removeprefix(TABLE).strip()
    if IDENTIFIER.fullmatch(name) is None:
        raise JobError(f"path = {path!r}: after {TABLE!r} comes the name of a table, such as catalogue.schema.people")
    return name


def _address(path: str) -> str:
    """A path of this machine as its address: to Spark a bare one is of the cluster's own file system."""
    return path if SCHEME.match(path) is not None else Path(path).absolute().as_uri()


class _Address:
    """A folder of a file system that Hadoop reaches: hidden and renamed, or shown by a committer that needs no rename."""

    def __init__(self, session: SparkSession, sink: Sink, *, renames: bool) -> None:
        context: Any = session.sparkContext
        java = context._jvm.org.apache.hadoop.fs  # noqa: SLF001 - Python has no access to the file systems of Hadoop
        self._sink, self._renames = sink, renames
        self._final = java.Path(sink.path)
        self._system = self._final.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
        parent, name = self._final.getParent(), self._final.getName()
        mark = secrets.token_hex(8)
        self._hidden = java.Path(parent, f".{name}.{mark}.tmp") if renames else self._final
        self._before = java.Path(parent, f".{name}.{mark}.old")

    def check(self) -> None:
        if self._system.exists(self._final) and not (self._sink.overwrite and self._renames):
            asked = "; a committer without renames replaces nothing: name another folder" if self._sink.overwrite else ""
            raise JobError(f"path = {self._sink.path!r} exists: a second output of one table spends its budget again{asked}")

    def write(self, writer: Any) -> None:
        writer.save(self._hidden.toString())

    def show(self) -> None:
        if not self._renames:
            return
        replaced = self._system.exists(self._final) and self._system.rename(self._final, self._before)
        if not self._system.rename(self._hidden, self._final):
            raise StorageError(f"{self._sink.path} could not be given its name; nothing was published")
        if replaced:
            self._system.delete(self._before, True)  # noqa: FBT003  # with what is in it

    def drop(self) -> None:
        with contextlib.suppress(Exception):
            if self._renames:
                self._system.delete(self._hidden, True)  # noqa: FBT003  # with what is in it
