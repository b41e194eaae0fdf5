"""Runs actions of Spark so that the calling thread shows their progress and can end them."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpcore.spark.failures import from_spark
from dpcore.spark.settings import has_executors, is_connect
from dpcore.tables.progress import Progress, Shown, shown_by

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
SECONDS = 0.2
"""Between two looks at Spark's status."""
LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
"""The last one is silent unless a variable of Spark Connect gives it a level, and at some levels logs plans."""
PATIENCE = 30.0
"""Seconds after which a job without an executor says so, once."""
LONELY = (
    "no executor has come yet, so the job waits: the cluster may have no worker, none with as many free cores and as much free memory as "
    "an executor asks for (spark.executor.memory, spark.cores.max), or none that starts one; the page and the logs of the master say which"
)
UNFINISHED = 0.999
"""The most that is shown before an action has returned."""


def watched(spark: SparkSession, action: Callable[[], Result], progress: Shown = None, stage: str = "") -> Result:
    """Run an action of Spark, show its progress on the calling thread, and cancel it if that thread is interrupted.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session of the action.
    action : callable
        Runs one or several jobs of Spark, one after another, and returns their result. It runs on a thread of its own.
    progress : callable or Progress, optional
        Where the progress is shown; see `dpcore.tables.progress`.
    stage : str, default ""
        The stage that begins here; empty if the caller has begun one.

    Returns
    -------
    object
        What `action` returned.

    Raises
    ------
    DpcoreError
        What a task of dpcore raised, or a `StorageError` for any other failure of Spark.
    """
    shown = shown_by(progress)
    if stage:
        shown.begin(stage)
    run = _Run(_jobs_of(spark), action)
    run.start()
    try:
        with _impatient(run.jobs.is_alone):
            _show(run, shown)
    except BaseException:
        run.cancel()  # an interrupt: the cluster must not work on for a job that is over
        raise
    if run.error is not None:
        raise from_spark(run.error) from None
    shown.update(0, 1.0)
    return run.result  # type: ignore[no-any-return]


class _Jobs(Protocol):
    """The jobs of one action, which are known to Spark together."""

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        """A thread for the action."""

    def begun(self) -> contextlib.AbstractContextManager[None]:
        """What the calling thread does inside belongs to the action."""

    def cancel(self) -> None:
        """End them."""

    def fraction(self) -> float:
        """The share of the tasks that are done."""

    def is_alone(self) -> bool:
        """Whether they wait for executors of which there is none."""


def _jobs_of(spark: SparkSession) -> _Jobs:
    if is_connect(spark):
        from dpcore.spark.tagged_jobs import Tagged

        return Tagged(spark)
    return _Group(spark.sparkContext)


class _Group:
    """The jobs of one action, which have one group."""

    def __init__(self, context: SparkContext) -> None:
        self._context, self._group = context, f"dpcore-{secrets.token_hex(8)}"

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        from pyspark import InheritableThread

        made: threading.Thread = InheritableThread(target=target)
        return made

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        self._context.setJobGroup(self._group, "dpcore", interruptOnCancel=True)
        yield

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def fraction(self) -> float:
        return _fraction(self._context, self._group)

    def is_alone(self) -> bool:
        return _is_alone(self._context)


class _Run:
    """An action on a thread of its own."""

    def __init__(self, jobs: _Jobs, action: Callable[[], Any]) -> None:
        self.jobs = jobs
        self.result: Any = None
        self.error: BaseException | None = None
        self._action = action
        self._thread = jobs.thread(self._act)
        self._thread.daemon = True

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether the action has ended, at the latest after so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Cancel its jobs; the thread ends when Spark has answered."""
        try:
            self.jobs.cancel()
        except Exception:
            return
        self.wait(10)

    def _act(self) -> None:
        try:
            with unlogged(), self.jobs.begun():
                self.result = self._action()
        except BaseException as error:
            self.error = error


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Keep pyspark from logging the errors of this thread: their messages quote the plan with its literals, and may quote cells.

    Every function that a user calls runs in it, and every action, which has a thread of its own.
    """
    thread = threading.get_ident()
    loggers = _loggers()

    def is_foreign(record: logging.LogRecord) -> bool:
        return record.thread != thread

    for logger in loggers:
        logger.addFilter(is_foreign)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_foreign)


def _loggers() -> list[logging.Logger]:
    """The loggers by which pyspark tells of errors; none before pyspark 4."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return []
    return [PySparkLogger.getLogger(name) for name in LOGGERS]


def _show(run: _Run, shown: Progress) -> None:
    """Look at Spark's status until the action has ended."""
    reached = 0.0
    while not run.wait(SECONDS):
        reached = max(reached, min(run.jobs.fraction(), UNFINISHED))
        shown.update(0, reached)


def impatient(context: SparkContext) -> contextlib.AbstractContextManager[None]:
    """Warn once if the work inside waits for executors of which none comes."""
    return _impatient(_Group(context).is_alone)


@contextlib.contextmanager
def _impatient(is_alone: Callable[[], bool]) -> Iterator[None]:
    def look() -> None:
        if is_alone():
            warnings.warn(LONELY, UserWarning, stacklevel=1)

    timer = threading.Timer(PATIENCE, look)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_alone(context: SparkContext) -> bool:
    """Whether a driver that needs executors has none."""
    if not has_executors(context.master):
        return False
    jvm: Any = context._jsc  # noqa: SLF001 - which executors there are has no public name in Python
    try:
        return int(jvm.sc().getExecutorMemoryStatus().size()) <= 1  # the driver is one of them
    except Exception:
        return False


def _fraction(context: SparkContext, group: str) -> float:
    """The share of the tasks that are done, among the stages that Spark has begun."""
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            each = tracker.getStageInfo(stage)
            if each is not None:
                done, total = done + each.numCompletedTasks, total + each.numTasks
    return done / total if total else 0.0
