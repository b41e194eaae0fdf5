"""The Python of the executors: whether each has the dpcore of the driver, asked before a job spends anything."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._version import __version__, code_digest
from dpcore.errors import JobError
from dpcore.rng import STREAM_VERSION
from dpcore.spark.failures import INSTALL, SECRET, sealing
from dpcore.spark.settings import is_connect
from dpcore.spark.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = tuple[str, str, int, str, str, str, int]
"""Host, version of dpcore, of its stream, digest of its code, CPU level, Python and user; without dpcore the version is empty, and what
stands for the CPU level says why."""
MOST_TASKS = 10_000
PAUSE = 0.02
"""Seconds that a report takes, so that no executor answers for its neighbours."""
SHOWN = 12
"""Digits of a digest in messages."""


@dataclass(frozen=True, slots=True)
class Workers:
    """What the executors have answered.

    Attributes
    ----------
    levels : dict
        How many tasks answered for each CPU level. Levels may differ: all give the same bits.
    have_own_user : bool
        Whether all of them run as the user of the driver, so that a folder of theirs can be closed to everybody else.
    """

    levels: dict[str, int]
    have_own_user: bool


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an executor must agree on with the driver, to be pickled into tasks.

    Attributes
    ----------
    version : str
        Of dpcore.
    stream : int
        Version of the stream: what a key produces.
    secret : bytes
        What tasks seal their errors with.
    code : str
        Digest of the package's code. It comes last: in an executor with dpcore 0.1, whose stamp has none, the others keep their places.
    """

    version: str
    stream: int
    secret: bytes = field(default=SECRET, repr=False)
    code: str = field(default_factory=code_digest)

    @contextlib.contextmanager
    def guarding(self) -> Iterator[None]:
        """Do the work of a task in a worker that agrees with the driver; errors leave it sealed."""
        with sealing(self.secret):
            self.check()
            yield

    def check(self) -> None:
        """Raise `JobError` in a worker whose dpcore is another one, such as that of an executor that came late."""
        if (self.version, self.stream, self.code) != (__version__, STREAM_VERSION, code_digest()):
            raise JobError(
                f"an executor on {platform.node()} has dpcore {_words(__version__, STREAM_VERSION, code_digest())}, the driver "
                f"{_words(self.version, self.stream, self.code)}; {INSTALL}"
            )


def stamp() -> Stamp:
    """The driver's own."""
    return Stamp(__version__, STREAM_VERSION)


def _words(version: str, stream: int, code: str, *more: str) -> str:
    """A package of dpcore in messages; two of one version differ in their code."""
    known = [f"stream {stream}", *([f"code {code[:SHOWN]}"] if code else []), *more]
    return f"{version} ({', '.join(known)})"


def check_workers(spark: SparkSession) -> Workers:
    """Ask the executors for their dpcore; call it before anything is spent.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        A running session.

    Returns
    -------
    Workers
        What they answered.

    Raises
    ------
    JobError
        If an executor has no dpcore, another version or other code of it, or one that cannot be loaded. The message names the hosts.

    Notes
    -----
    Tasks are spread over the executors that are there. One that comes later is found by `Stamp.guarding`, which every task of a job calls.
    """
    reports = watched(spark, lambda: _reports(spark))
    judge(reports)
    levels = [level for _, _, _, _, level, _, _ in reports]
    return Workers({level: levels.count(level) for level in dict.fromkeys(levels)}, all(report[-1] == own_user() for report in reports))


def _reports(spark: SparkSession) -> list[Report]:
    """Which Python, and which dpcore, many tasks have."""
    if is_connect(spark):
        from dpcore.spark.connect import reports

        return reports(spark, _reporter(PAUSE), MOST_TASKS)
    tasks = min(MOST_TASKS, 2 * max(2, spark.sparkContext.defaultParallelism))
    found: list[Report] = spark.range(0, tasks, 1, tasks).rdd.mapPartitions(_reporter(PAUSE)).collect()
    return found


def judge(reports: Iterable[Report]) -> None:
    """Raise `JobError` if a report does not agree with the driver."""
    problems: dict[str, str] = {}
    for host, version, stream, code, level, python, _ in reports:
        if not version:
            problems[host] = f"{host}: dpcore cannot be imported by its Python {python} ({level})"
        elif (version, stream, code) != (__version__, STREAM_VERSION, code_digest()):
            problems[host] = f"{host}: dpcore {_words(version, stream, code)}, and Python {python}"
    if problems:
        own = f"the driver has dpcore {_words(__version__, STREAM_VERSION, code_digest(), f'CPU level {_backend.selected_level()}')}"
        shown = [f"    {line}" for line in list(problems.values())[:8]] + (["    …"] if len(problems) > 8 else [])
        raise JobError("\n".join([f"executors do not have the dpcore of the driver: {own}", *shown, f"    {INSTALL}"]))


def _reporter(pause: float) -> Callable[[Iterator[object]], list[Report]]:
    """A function for executors, which may have no dpcore: it is pickled by value, as it belongs to no module."""

    def report(_: Iterator[object]) -> list[tuple[str, str, int, str, str, str, int]]:
        import os
        import platform
        import time

        time.sleep(pause)
        python, user = platform.python_version(), getattr(os, "geteuid", lambda: -1)()
        try:
            import dpcore
            from dpcore import _backend, _version
            from dpcore.rng import STREAM_VERSION

            code = getattr(_version, "code_digest", str)()  # dpcore 0.1 has none
            return [(platform.node(), dpcore.__version__, STREAM_VERSION, code, _backend.selected_level(), python, user)]
        except Exception as error:
            return [(platform.node(), "", 0, "", type(error).__name__, python, user)]

    return report


def own_user() -> int:
    """The number of the user of this process; -1 on systems without."""
    return getattr(os, "geteuid", lambda: -1)()


def partition_number() -> int:
    """Return the number of the partition that this process works on, as a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise AssertionError("no task of Spark")
    return int(context.partitionId())
