"""What `dpcore privatize`, `release` and `estimate` do with `--engine spark`: the commands of the local engine, with other steps."""

from __future__ import annotations

import contextlib
import signal
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

import click

from dpcore._spark_masters import MASTER
from dpcore.errors import JobError
from dpcore.jobs.commands import estimate as estimate_command
from dpcore.jobs.commands import privatize as privatize_command
from dpcore.jobs.commands import release as release_command
from dpcore.jobs.commands.engines import Engine
from dpcore.jobs.privatize_plan import Plan
from dpcore.spark import settings
from dpcore.spark.committed import write_committed
from dpcore.spark.connect import REMOTE, Declared, address_of, check_session
from dpcore.spark.estimating import estimate as estimated
from dpcore.spark.folders import FolderPublication, check_folder
from dpcore.spark.noise_plans import NoisePlan
from dpcore.spark.own_files import published_by, write_files
from dpcore.spark.reading import table_of
from dpcore.spark.session import make_session, running_session
from dpcore.spark.sinks import sink_of
from dpcore.spark.watching import unlogged
from dpcore.tables.discovery import check_output_is_outside
from dpcore.tables.local_paths import SCHEME
from dpcore.tables.partitions import declared_sorts
from dpcore.tables.places import check_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from dpcore.jobs.commands.engines import Finished
    from dpcore.jobs.estimate import Estimates
    from dpcore.jobs.privatize_job import Job
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.request import ReleaseJob
    from dpcore.spark.sinks import Sink
    from dpcore.tables.places import Place
    from dpcore.tables.progress import Shown

QUIET = {"spark.log.level": "ERROR"}
"""Settings of the sessions of commands, unless `--conf` has others: what Spark logs stands between lines of progress."""
TOKEN = "token="  # noqa: S105 - the name of an option
"""What an address of Spark Connect has before the secret by which a server knows its user."""
THREADS = "--threads is for the local engine: on Spark every task has one thread; the cluster decides how many tasks run at a time"
CURATOR = "--curator is for the local engine: on Spark no message says which row is at fault, since rows have no place in a table"


@unlogged()
def privatize(*, master: str | None, conf: Sequence[str], **options: Any) -> None:
    """Run or describe a local job on Spark."""
    _check(options)
    with _Session(master, conf) as session:
        steps = _Privatizing(session)
        engine = Engine("spark", steps.plan, steps.run)
        privatize_command.run(**options, engine=engine)


@unlogged()
def release(*, master: str | None, conf: Sequence[str], connect_encrypted: bool = False, **options: Any) -> None:
    """Run or describe a central job on Spark."""
    _check(options)
    connect = Declared(encrypted=True) if connect_encrypted else None
    with _Session(master, conf) as session:
        engine = Engine("spark", partial(_plan_release, session, connect), partial(_run_release, session, connect))
        release_command.run(**options, engine=engine)


@unlogged()
def estimate(*, master: str | None, conf: Sequence[str], **options: Any) -> None:
    """Estimate on Spark, and print."""
    _check(options)
    with _Session(master, conf) as session:
        estimate_command.run(**options, estimating=partial(_estimate, session))


class _Session:
    """The session of a command: started when it is needed, so that a wrong job is refused first, and stopped at the end.

    Parameters
    ----------
    master : str or None
        As the command line has it.
    conf : sequence of str
        Settings as KEY=VALUE.
    """

    def __init__(self, master: str | None, conf: Sequence[str]) -> None:
        self._master, self._conf = master, settings_of(conf)
        if master is not None and TOKEN in master:
            raise JobError(f"--master {TOKEN}…: every user of this machine sees command lines; put the address into the variable {REMOTE}")
        self._spark: SparkSession | None = None
        self._is_own = True
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(_printed_warnings())
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            self._end()

    def _end(self) -> None:
        if self._spark is not None and self._is_own:
            with contextlib.suppress(Exception):  # its Java may be gone, which has been said
                self._spark.stop()

    def __call__(self) -> SparkSession:
        """The session."""
        if self._spark is None and self._master is None and not self._conf and running_session() is not None:
            self._spark, self._is_own = make_session(), False  # of a program that calls `dpcore.cli.run`
        if self._spark is None:
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            with _own_signals():
                quiet = {} if address_of(self._master or self._conf.get(MASTER)) else QUIET
                self._spark = make_session(self._master, conf=quiet | self._conf)
        return self._spark


@contextlib.contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print each warning for users as it comes, in a line of the command's own; one of another thread too, and one before a failure."""

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
    ) -> None:
        if category is UserWarning:
            click.echo(f"dpcore: warning: {message}", err=True)
        else:
            before(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        before, warnings.showwarning = warnings.showwarning, show
        yield


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the signals of the command: pyspark takes SIGINT, and each further one would break off what cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def settings_of(given: Sequence[str]) -> dict[str, str]:
    """Settings of Spark from the command line; raises `JobError` for one that is none, or that would show a secret."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise JobError(f"--conf {name!r} must be a setting of Spark and its value, such as spark.executor.memory=4g")
        if name == settings.SECRET:
            raise JobError(
                f"--conf {settings.SECRET}=…: every user of this machine sees command lines; write it into spark-defaults.conf in "
                "$SPARK_CONF_DIR"
            )
        if found.setdefault(name, value) != value:
            raise JobError(f"--conf {name} is given twice, with two values")
    return found


def _check(options: dict[str, Any]) -> None:
    """Refuse the options that have no meaning here."""
    if options.get("threads") is not None:
        raise click.UsageError(THREADS)
    if options.get("curator"):
        raise click.UsageError(CURATOR)


class _Privatizing:
    """The steps of `dpcore privatize` on Spark.

    Parameters
    ----------
    session : _Session
        Where.
    """

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._noise: NoisePlan | None = None
        self._sink: Sink | None = None

    def plan(self, job: Job, *, overwrite: bool, curator: bool, others: Sequence[Place]) -> Plan:
        """Check a job against the columns of its input."""
        _check_places(job, others)
        spark = self._session()
        settings.check_is_session(spark)
        inputs = table_of(spark, job.input, declared_sorts(job.column))
        if inputs.info.types is None:
            raise JobError(
                "input: on Spark a job of local privacy reads no CSV, whose numbers Spark reads by other rules; write the table as Parquet "
                "first"
            )
        settings.check(spark)
        noise = NoisePlan(inputs.frame, job)
        sink = sink_of(spark, job, None, None, mode="error", overwrite=overwrite, committer=None)
        publication = published_by(noise, sink)
        if sink.committer == "dpcore" and publication.charge.earlier is None:
            check_folder(Path(sink.path), overwrite=overwrite)
        self._noise, self._sink = noise, sink
        return Plan(
            job=sink.job,
            inputs=inputs,
            columns=noise.columns,
            read_types=noise.types,
            schema=noise.schema,
            output=Path(sink.path),
            rows=None,
            unit_type=None,
            publication=publication,
            curator=curator,
        )

    def run(self, plan: Plan, *, threads: int | None, progress: Shown) -> Finished:  # noqa: ARG002
        """Write the output of the plan."""
        if self._noise is None or self._sink is None or not isinstance(plan.publication, FolderPublication):
            raise AssertionError("there is no plan")
        if self._sink.committer == "dpcore":
            return write_files(self._noise, self._sink, progress, plan.publication)
        return write_committed(self._noise, self._sink, progress)


def _check_places(job: Job | ReleaseJob, others: Sequence[Place]) -> None:
    """Refuse an output that would be part of the input, or another file of the command."""
    if SCHEME.match(job.output.path) is None:
        place = Path(job.output.path)
        check_output_is_outside(place, job.input)
        check_distinct([("output.path", place), *others], [])


def _plan_release(
    session: _Session, connect: Declared | None, job: ReleaseJob, *, overwrite: bool, curator: bool, others: Sequence[Place]
) -> ReleasePlan:
    from dpcore.query.written_plans import written_plan
    from dpcore.spark.joined_inputs import joined_inputs

    if settings.is_connect(session()):
        check_session(session(), connect)
    inputs = table_of(session(), job.input, declared_sorts(job.query), connect)
    tables, places = joined_inputs(session(), job, inputs, {})
    return written_plan(job, inputs, tables, overwrite=overwrite, curator=curator, others=[*others, *places])


def _run_release(
    session: _Session,
    connect: Declared | None,
    plan: ReleasePlan,
    *,
    threads: int | None,  # noqa: ARG001
    progress: Shown,
) -> dict[str, Any]:
    from dpcore.spark.running import answered_by_spark

    return answered_by_spark(plan, session(), progress, is_written=True, connect=connect)


def _estimate(session: _Session, path: str, *, threads: int | None, **options: Any) -> Estimates:  # noqa: ARG001
    return estimated(path, session=session(), **options)
