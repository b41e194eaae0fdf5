"""Central releases on Spark: tasks find exact statistics, and the driver charges the ledger and draws the noise as on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterTypeError
from dpcore.frames.results import Answered, TablePlan, TableResult
from dpcore.jobs.release_job import load_release_job, parse_release_job
from dpcore.query.in_memory import NOWHERE, make_unwritten_plan
from dpcore.query.request import ReleaseJob
from dpcore.query.written_plans import written_plan
from dpcore.spark.connect import check_session
from dpcore.spark.joined_inputs import joined_inputs
from dpcore.spark.reading import table_of
from dpcore.spark.running import answered_by_spark
from dpcore.spark.session import make_session
from dpcore.spark.settings import is_connect
from dpcore.spark.table_input import NAME, SparkInput
from dpcore.spark.table_source import SparkSource, checked_frame
from dpcore.spark.watching import unlogged
from dpcore.tables.partitions import declared_sorts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dpcore.spark.connect import Declared
    from dpcore.tables.progress import Shown


@unlogged()
def release(
    frame: DataFrame | None,
    job: str | Path | Mapping[str, Any] | ReleaseJob,
    *,
    joined: Mapping[str, DataFrame] | None = None,
    overwrite: bool = False,
    progress: Shown = None,
    connect: Declared | None = None,
) -> TableResult | dict[str, TableResult]:
    """Answer the queries of a release job on a Spark table; `dpcore release` does so on one machine, with the same answers.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame or None
        The table. None: what `[input]` of the job names, read by Spark.
    job : str, Path, mapping or ReleaseJob
        A TOML file, or a job as `tomllib` loads it. A mapping may leave out `input` if there is a `frame`, and `output` if it writes
        nothing.
    joined : mapping of str to pyspark.sql.DataFrame, optional
        The tables that `[[join]]` of the job names, by their `path`. Default: Spark reads those as it does `[input]`.
    overwrite : bool, default False
        Accept an output that exists.
    progress : callable or Progress, optional
        As for `dpcore.batch.release`.
    connect : Declared, optional
        For a session of Spark Connect, and required there: what you declare of it, `Declared(encrypted=True)`. The document records it.

    Returns
    -------
    TableResult or dict of str to TableResult
        The answer; of several queries those by name. The JSON file of the job's output has the same.

    Raises
    ------
    ParameterTypeError, ParameterError
        If `frame` is no table of Spark, or a stream.
    JobError
        If the job is wrong, the session is not set as dpcore needs it or not declared, or an executor has another dpcore.
    BudgetError
        If the ledger does not have what the job spends.
    DataError
        If a row does not fit its declaration and the job declares nothing for it.
    StorageError
        If the table cannot be read, changes meanwhile, or an output cannot be written.

    Notes
    -----
    Guarantee: that of `dpcore.batch.release`: all answers together protect one unit at `job.total`. Statistics are integers, so neither
    partitions nor failed tasks change them. The ledger, on the driver's disk, is charged before Spark begins.

    Cost: one pass over the table, with one shuffle if the unit is a column; another for each query for private groups, one for bounds of
    groups that are found, and one for queries that count different values.

    Source: docs/exactness-cluster-releases.md.

    Examples
    --------
    >>> from dpcore.spark import release
    >>> query = {"name": "smokers", "kind": "mean", "column": "smoker", "lower": 0, "upper": 1, "epsilon": 1.0}
    >>> job = {"version": 1, "privacy": {"max_epsilon": 1.0}, "query": [query]}
    >>> release(spark.table("people"), job)  # doctest: +SKIP
    TableResult(smokers: 0.482 in [0.479, 0.485], epsilon=1)
    """
    frame = None if frame is None else checked_frame(frame)
    parsed = _job_of(job, frame)
    session = make_session() if frame is None else frame.sparkSession
    declared = declared_sorts(parsed.query)
    if is_connect(session):
        check_session(session, connect)
    if frame is None:
        inputs = table_of(session, parsed.input, declared, connect)
    else:
        inputs = SparkInput.of(frame, parsed.input.path, connect=connect)
    is_written = parsed.output.path != NOWHERE
    tables, others = joined_inputs(session, parsed, inputs, joined or {})
    if is_written:
        plan = written_plan(parsed, inputs, tables, overwrite=overwrite, others=others)
    else:
        plan = make_unwritten_plan(parsed, inputs, tables)
    document = answered_by_spark(plan, session, progress, is_written=is_written, connect=connect)
    places = range(len(plan.estimators))
    source = SparkSource(inputs.frame, parsed.input.path, connect)
    answers = Answered(source.native, source.name, document, TablePlan.of(plan), places)
    found = {each["name"]: TableResult(answers, place) for place, each in enumerate(document["queries"])}
    return found if len(found) > 1 else next(iter(found.values()))


def _job_of(job: object, frame: object) -> ReleaseJob:
    if isinstance(job, ReleaseJob):
        return job
    if isinstance(job, Mapping):
        document = dict(job)
        if frame is not None and isinstance(document.get("input", {}), Mapping):
            document["input"] = {"path": NAME, **document.get("input", {})}
        document.setdefault("output", {"path": NOWHERE})
        return parse_release_job(document)
    if isinstance(job, str | Path):
        return load_release_job(job)
    raise ParameterTypeError(f"job must be the path of a TOML file, a mapping or a ReleaseJob, got {type(job).__name__}")
