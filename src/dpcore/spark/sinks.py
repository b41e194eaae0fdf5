"""Where a job may write: only where every record is published once, however often a task is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from dpcore._dataclasses import dataclass
from dpcore._validation import check_choice
from dpcore.errors import JobError, ParameterTypeError
from dpcore.spark.reading import TABLE
from dpcore.tables.local_paths import SCHEME
from dpcore.tables.sections import SUFFIXES, OutputSection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dpcore.jobs.privatize_job import Job
    from dpcore.tables.sections import Format

FILES = ("parquet", "csv", "arrow")
"""Formats of dpcore's own files."""
TABLES = {
    "delta": "org.apache.spark.sql.delta.sources.DeltaDataSource",
    "iceberg": "org.apache.iceberg.spark.source.IcebergSource",
}
"""Formats whose tables have a log with one atomic commit, and the class that a session with them has."""
TWICE = "a task that is repeated has sent its rows already, and the record is out twice, with two noises"
REFUSED = {
    "jdbc": f"a database takes rows while tasks run: {TWICE}",
    "foreach": f"a function that is called for each row acts at once: {TWICE}",
    "foreachpartition": f"a function that is called for each partition acts at once: {TWICE}",
    "foreachbatch": f"a function that is called for each batch acts at once: {TWICE}",
    "kafka": f"a stream takes rows while tasks run: {TWICE}",
    "console": "rows on a console are seen before the job is complete",
    "memory": "a table in memory is a noisy frame, and a frame that is used twice has two noises",
    "noop": "nothing would be published, and the budget spent",
    "orc": "its files have no room for dpcore's metadata, without which nothing can be estimated",
    "json": "its files have no room for dpcore's metadata, without which nothing can be estimated",
    "text": "its files have no room for dpcore's metadata, without which nothing can be estimated",
    "avro": "its files have no room for dpcore's metadata, without which nothing can be estimated",
}
MODES = {
    "append": "rows of two runs would lie side by side: a run that is repeated publishes its records again, with another noise. Write each "
    "run into a folder of its own; dpcore estimate reads several",
    "ignore": "a run that is not made looks like one that is; use the mode 'error'",
}
OVERWRITE = ("error", "errorifexists", "overwrite")


@dataclass(frozen=True, slots=True)
class Sink:
    """A place that publishes each record once.

    Attributes
    ----------
    path : str
        The folder, its address, or the name of a table.
    format, compression : str
        How rows are written.
    overwrite : bool
        Whether an output that exists is replaced.
    committer : str
        "dpcore" or "spark".
    job : Job
        The job, with this output.
    """

    path: str
    format: Any
    compression: str
    overwrite: bool
    committer: Literal["dpcore", "spark"]
    job: Job


def sink_of(
    spark: SparkSession, job: Job, path: str | Path | None, given: str | None, *, mode: str, overwrite: bool, committer: str | None
) -> Sink:
    """The sink that a write names, or the reason why there is none.

    Raises
    ------
    ParameterTypeError
        If an argument has a wrong type.
    JobError
        If the sink could publish a record twice, or before the job is complete.
    """
    replaces = overwrite or _replaces(mode)
    kind = (given or job.output.format or _by_ending(path if path is not None else job.output.path)).lower()
    _check_format(spark, kind)
    if path is not None and not isinstance(path, str | Path):
        raise ParameterTypeError(f"path must be a str or a Path, got {type(path).__name__}")
    place, is_local = _place(str(path if path is not None else job.output.path))
    if place.startswith(TABLE) and kind not in TABLES:
        raise JobError(f"path = {place!r} names a table, which only the formats {', '.join(map(repr, TABLES))} have; name a folder")
    if committer is None:
        committer = "dpcore" if is_local and kind in FILES else "spark"
    check_choice("committer", committer, ("dpcore", "spark"))
    if committer == "dpcore" and not (is_local and kind in FILES):
        raise JobError(
            f"committer = 'dpcore' writes {', '.join(FILES)} on a file system that this machine has mounted; use committer = 'spark'"
        )
    if job.output.shards is not None:
        raise JobError("output.shards: on Spark there is a file for each partition; leave shards out, and use frame.coalesce(n)")
    section = _section(job.output, place, kind)
    named = job.model_copy(update={"output": section})
    named = named if job.source is None else named.named(job.source)
    return Sink(place, kind, section.resolved_compression, replaces, committer, named)  # type: ignore[arg-type]


def _section(before: OutputSection, place: str, kind: str) -> OutputSection:
    """The output of the job, with the place and the format of this write."""
    stored: Format = kind if kind in FILES else "parquet"  # type: ignore[assignment]
    compression = before.compression if before.compression in OutputSection.COMPRESSIONS[stored] else None
    return before.model_copy(update={"path": place, "format": stored, "compression": compression})


def _replaces(mode: str) -> bool:
    if not isinstance(mode, str):
        raise ParameterTypeError(f"mode must be a str, got {type(mode).__name__}")
    if mode.lower() in MODES:
        raise JobError(f"mode = {mode!r} is refused: {MODES[mode.lower()]}")
    check_choice("mode", mode.lower(), OVERWRITE)
    return mode.lower() == "overwrite"


def _by_ending(path: str | Path) -> str:
    return SUFFIXES.get(Path(str(path)).suffix.lower(), "parquet")


def _check_format(spark: SparkSession, kind: str) -> None:
    if kind in REFUSED:
        raise JobError(f"format = {kind!r} is refused: {REFUSED[kind]}")
    if kind in FILES:
        return
    if kind not in TABLES:
        known = ", ".join(map(repr, (*FILES, *TABLES)))
        raise JobError(f"format = {kind!r} is refused: it is not known to publish each record once; use one of {known}")
    if not has_class(spark, TABLES[kind]):
        raise JobError(f"format = {kind!r}: the session does not have it; add its jar with spark.jars.packages, and its extension of SQL")


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether the driver's Java has a class."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no public way to ask
    try:
        jvm.java.lang.Class.forName(name, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())  # noqa: FBT003
    except Exception:
        return False
    return True


def _place(path: str) -> tuple[str, bool]:
    """A path, and whether it is on a file system of this machine."""
    if path.startswith("file:"):
        parts = urlsplit(path)
        return unquote(parts.path), True
    return path, SCHEME.match(path) is None and not path.startswith(TABLE)
