"""Local privacy on Spark: each row gets its noise in the last map before one write, and no noisy frame is ever handed out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError, ParameterTypeError
from dpcore.jobs.privatize_job import Job, load_job, parse_job
from dpcore.spark import settings
from dpcore.spark.committed import write_committed
from dpcore.spark.noise_plans import FRAME, NoisePlan
from dpcore.spark.own_files import write_files
from dpcore.spark.sinks import sink_of
from dpcore.spark.watching import unlogged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from dpcore.privacy import Privacy
    from dpcore.spark.noise_plans import Written
    from dpcore.tables.progress import Shown

UNNAMED = "unnamed.parquet"
"""Stands for the path of the output where a job names none."""


@unlogged()
def privatize(frame: DataFrame, job: Job | Mapping[str, Any] | str | Path) -> PendingWrite:
    """Plan a local job on a Spark frame; the noise is added while the result is written.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    job : Job, mapping, str or Path
        A job of `dpcore privatize`, as an object, a mapping or a TOML file. A mapping needs neither `input` nor `output`.

    Returns
    -------
    PendingWrite
        Its `write` runs the job. It has no frame: a frame with noise that is used twice has two noises.

    Raises
    ------
    ParameterTypeError
        If `frame` is no frame of Spark, or `job` is no job.
    JobError
        If the session is not set as the protocol needs it, a column is missing or of a wrong type, or the job needs something that this
        engine does not have.
    BudgetError
        If the columns spend more than `[privacy]` allows.

    Notes
    -----
    Guarantee: the rows that one unit owns are protected at `job.total`, as on one machine, however often Spark repeats a task.

    Cost: nothing is read. A write takes one pass over the rows.

    Source: docs/exactness-cluster.md has the proof.

    Examples
    --------
    >>> from dpcore.spark import make_session, privatize
    >>> spark = make_session("local[2]")  # doctest: +SKIP
    >>> job = {
    ...     "version": 1,
    ...     "privacy": {"max_epsilon": 1.0},
    ...     "column": [{"name": "smoker", "mechanism": "binary", "epsilon": 1.0}],
    ... }
    >>> privatize(spark.read.parquet("people"), job).write("private")  # doctest: +SKIP
    """
    _check_frame(frame)
    return PendingWrite(frame, job_of(job))


def job_of(job: object) -> Job:
    """A job that is given as an object, a mapping, or a file."""
    if isinstance(job, Job):
        return job
    if isinstance(job, str | Path):
        return load_job(job)
    if hasattr(job, "keys"):
        given: Any = job
        return parse_job({"input": {"path": FRAME}, "output": {"path": UNNAMED}} | dict(given))
    raise ParameterTypeError(
        f"job must be the path of a job file, a mapping, or what load_job or parse_job makes, got {type(job).__name__}"
    )


def _check_frame(frame: object) -> None:
    session = getattr(frame, "sparkSession", None)
    if session is None or type(frame).__name__ != "DataFrame":
        raise ParameterTypeError(f"frame must be a pyspark.sql.DataFrame, got {type(frame).__name__}")
    settings.check_is_session(session)
    if getattr(frame, "isStreaming", False):
        raise JobError("frame is a stream: its rows have no end, and a job spends its budget once; write the stream to a table first")


class PendingWrite:
    """A planned job of local privacy on Spark, which can be written, once.

    `dpcore.spark.privatize` makes it.

    Attributes
    ----------
    job : Job
        The job.
    schema : pyarrow.Schema
        Of the output, metadata included: the same as on one machine.
    """

    def __init__(self, frame: DataFrame, job: Job) -> None:
        settings.check(frame.sparkSession)
        self.job = job
        self._plan, self._used = NoisePlan(frame, job), False
        self.schema = self._plan.schema

    @property
    def privacy(self) -> Privacy:
        """What the job guarantees each unit."""
        return self.job.total

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication."""
        return self.job.guarantee

    def __repr__(self) -> str:
        return f"PendingWrite(columns={[column.name for column in self._plan.columns]}, privacy={self.privacy})"

    @unlogged()
    def write(
        self,
        path: str | Path | None = None,
        *,
        format: str | None = None,  # noqa: A002  # as Spark calls it
        mode: str = "error",
        overwrite: bool = False,
        committer: str | None = None,
        progress: Shown = None,
    ) -> Written:
        """Add the noise, and publish the output under its name in one step.

        Parameters
        ----------
        path : str or Path, optional
            The folder, or "table:NAME" for a table that the session knows; default: the output of the job.
        format : str, optional
            "parquet", "arrow" or "csv", whose files are those of the local engine; "delta" or "iceberg" where the session has them, which
            is not tested here. Default: what the job says.
        mode : {"error", "overwrite"}, default "error"
            What to do if the output exists, in Spark's words. "append" is refused.
        overwrite : bool, default False
            The same as mode "overwrite".
        committer : {"dpcore", "spark"}, optional
            Which files of all attempts count: those whose answers the driver accepted, or those that Spark's own committer moved.
            Default: "dpcore" on a file system that this machine has mounted, "spark" elsewhere.
        progress : callable or Progress, optional
            Called as `progress(done, total)`, a few times a second.

        Returns
        -------
        Written
            What was written.

        Raises
        ------
        JobError
            If the output exists, if the sink could publish a record twice, or if the ledger has this run already.
        BudgetError
            If the ledger does not have what the job spends.
        DataError
            If a cell is missing or unknown, and the job declares nothing for it.
        StorageError
            If the input changes or the output cannot be written. Nothing has the final name then.
        PublishedError
            If something fails after the output was published.
        """
        settings.check(self._plan.session)  # again: what matters is how the session is set while it writes
        sink = sink_of(self._plan.session, self.job, path, format, mode=mode, overwrite=overwrite, committer=committer)
        if self._used:
            raise JobError("this job has been written: a second output would have another noise, and spend the budget again. Plan it again")
        self._used = True
        return (write_committed if sink.committer == "spark" else write_files)(self._plan, sink, progress)
