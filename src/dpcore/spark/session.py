"""A Spark session for dpcore: the one that runs, or a new one with encryption on and the Java that fits."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import warnings
from typing import TYPE_CHECKING, Any

from dpcore._java import home
from dpcore._spark_masters import MASTER, check_answers, warning_for
from dpcore.errors import JobError, StorageError
from dpcore.spark.connect import address_of, opened
from dpcore.spark.connect import running as running_on_server
from dpcore.spark.served_files import warning_of_files
from dpcore.spark.settings import HIDDEN, SECRET, USUAL, check, check_conf, conf_of, has_executors, is_connect, required

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

ALONE = "local[*]"
"""The master where nothing names one: this machine."""
PYTHON = "PYSPARK_PYTHON"
"""The Python of the executors."""
BAR = "spark.ui.showConsoleProgress"
"""Spark's own bar of progress, which a shell of Python has unless the setting is there before Java starts."""
QUOTING = {
    "org.apache.spark.scheduler.TaskSetManager": "ERROR",
    "org.apache.spark.scheduler": "WARN",
    "org.apache.spark.executor.Executor": "OFF",
}
"""Java loggers that print what a task failed by, which may quote a cell or a literal of the plan, each with a level where it does not."""
STRANGE = "what answers there is no Spark master, or it has another secret"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which has started Java already."""


def make_session(master: str | None = None, *, app_name: str = "dpcore", conf: Mapping[str, Any] | None = None) -> SparkSession:
    """Return the Spark session that runs in this process, or start one as dpcore needs it.

    Parameters
    ----------
    master : str, optional
        Where Spark runs: "local[4]", "spark://host:7077", "yarn", "k8s://…", or the server of Spark Connect at "sc://host:15002". Default:
        what the variable `SPARK_REMOTE`, `spark-submit` or `spark-defaults.conf` say, and otherwise this machine.
    app_name : str, default "dpcore"
        The name that Spark shows.
    conf : mapping, optional
        Further settings of Spark.

    Returns
    -------
    pyspark.sql.SparkSession
        A session with encrypted spills, and encrypted connections to executors; adaptive execution is off. One of Spark Connect has only
        the settings of a session; the others are its server's.

    Raises
    ------
    JobError
        If pyspark is absent or too old, if no Java fits, if a setting contradicts what dpcore needs, or if a session runs and another was
        wanted.
    StorageError
        If Spark does not start, or the master of a standalone cluster or the server does not answer.

    Warns
    -----
    UserWarning
        If the master of a standalone cluster takes programs without its secret (`spark.master.rest.enabled`), or if this Spark, of 4.0 to
        4.2.0, gives files of its user to anybody who reaches the driver.

    Notes
    -----
    Guarantee: none; a session reads nothing. A secret of the network that Spark must be given, as with "local-cluster", is new for each
    session. It is neither on a command line nor in a log, and Spark shows it as redacted. Nor are settings of `conf` whose names say that
    they are secret, such as `spark.hadoop.fs.s3a.secret.key`, on the command line of Java.

    Cost: some seconds to start Java.

    Examples
    --------
    >>> from dpcore.spark import make_session
    >>> spark = make_session("local[2]", conf={"spark.driver.memory": "4g"})  # doctest: +SKIP
    """
    running = running_session()
    if running is not None:
        if master is not None or conf:
            where = "a server of Spark Connect" if is_connect(running) else running.sparkContext.master
            raise JobError(f"a Spark session runs already, on {where}; use it without master and conf, or call stop() on it first")
        if not is_connect(running):  # which is checked with what is declared of it
            check(running)
            _warn(warning_of_files(running))
        return running
    given = conf_of(conf or {})
    if master is not None and given.setdefault(MASTER, master) != master:
        raise JobError(f"master is {master!r} and conf has spark.master = {given[MASTER]!r}; name one of them")
    remote = address_of(given.get(MASTER))
    if remote is not None:
        return opened(remote, {name: value for name, value in given.items() if name != MASTER})
    check_conf(given, given.get(MASTER, ALONE))
    check_answers(given.get(MASTER, ALONE))  # before Java starts, which takes its time
    given.setdefault(BAR, "false")
    return _started(given, app_name)


def running_session() -> SparkSession | None:
    """The session of this process, set as it may be; None if none runs."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    if SparkContext._active_spark_context is None:  # noqa: SLF001 - whether one runs has no public name
        return running_on_server()
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _started(given: dict[str, str], app_name: str) -> SparkSession:
    """Start Java, settle the settings with what Spark's own files say, and start Spark."""
    if SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = str(home())
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # Java's command line is public on its machine: secrets are added when Java runs.
    public = SparkConf(loadDefaults=False).setAll([(name, value) for name, value in given.items() if not HIDDEN.search(name)])
    try:
        gateway = SparkContext._gateway or launch_gateway(public)  # noqa: SLF001 - stays after stop(), and cannot be had otherwise
    except (RuntimeError, OSError) as error:
        raise StorageError(f"Java did not start Spark ({type(error).__name__}); what it printed is above") from None
    settled = SparkConf(_jvm=gateway.jvm)
    _settle(settled, given, app_name)
    if MASTER not in given:
        check_answers(settled.get(MASTER, ALONE) or ALONE)
    _warn(warning_for(dict(settled.getAll())), above=4)
    context = None
    try:
        context = SparkContext(conf=settled, gateway=gateway)
        made = SparkSession(context)  # here it is seen that a master has not let the context in
        served = warning_of_files(made)
    except Exception as error:
        _stop(context)
        failed = StorageError(f"Spark did not start on {settled.get(MASTER)}{_reason(error)}")
    else:
        _quiet(gateway.jvm)
        try:
            _warn(served, above=4)
        except Warning:  # where warnings are errors
            _stop(context)
            raise
        return made
    raise failed


def _stop(context: SparkContext | None) -> None:
    """Stop what has begun to start, if anything has."""
    if context is not None:
        with contextlib.suppress(Exception):
            context.stop()


def _quiet(jvm: Any) -> None:
    """Keep the driver's log from quoting what tasks failed by; that a stage failed is logged by others.

    A level stays as it is if less is logged under it. Where Spark logs by something else than log4j 2, all is as that is set.
    """
    with contextlib.suppress(Exception):
        log4j = jvm.org.apache.logging.log4j
        for name, level in QUOTING.items():
            set_now, wanted = log4j.LogManager.getLogger(name).getLevel(), log4j.Level.toLevel(level)
            quieter = set_now if set_now.isMoreSpecificThan(wanted) else wanted
            log4j.core.config.Configurator.setLevel(name, quieter)


def _warn(said: str | None, above: int = 3) -> None:
    """Warn the caller of `make_session`, if there is something to say."""
    if said is not None:
        warnings.warn(said, UserWarning, stacklevel=above)


def _settle(settled: SparkConf, given: Mapping[str, str], app_name: str) -> None:
    """Complete the settings: those of the call, those of Spark's files, and for the rest those of dpcore."""
    settled.setAll(list(given.items()))
    if not settled.contains("spark.app.name") or settled.get("spark.app.name") == "pyspark-shell":
        settled.setAppName(app_name)
    settled.setIfMissing(MASTER, ALONE)
    master = settled.get(MASTER)
    check_conf(dict(settled.getAll()), master)
    for setting in required(master):
        settled.setIfMissing(setting.name, setting.value)
    for name, value in USUAL.items():
        settled.setIfMissing(name, value)
    if master.startswith("local"):
        if PYTHON not in os.environ:
            settled.setIfMissing("spark.pyspark.python", sys.executable)
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            settled.setIfMissing(name, "127.0.0.1")
    if settled.contains("spark.pyspark.python"):
        os.environ[PYTHON] = settled.get("spark.pyspark.python")  # pyspark itself reads the variable alone
    _add_secret(settled, master)


def _add_secret(settled: SparkConf, master: str) -> None:
    """Make a secret for a cluster that lives in this process; Spark makes one on YARN and Kubernetes, and other clusters have their own."""
    if not has_executors(master) or settled.get("spark.authenticate") != "true" or settled.contains(SECRET):
        return
    if master.startswith("local-cluster"):
        settled.set(SECRET, secrets.token_hex(32))
    elif master.startswith("spark://"):
        raise JobError(
            f"{SECRET} is not set: a standalone cluster has one secret, which its master, its workers and every job must have. Write it "
            "into spark-defaults.conf in $SPARK_CONF_DIR, readable by you alone; docs/cluster.md shows how"
        )


def _reason(error: BaseException) -> str:
    """Why Spark did not start, where the words are those of a known cause; others may quote a setting."""
    text = f"{error} {getattr(error, 'java_exception', '')}"
    known = {
        "Could not parse Master URL": "it is no master that Spark knows, such as local[4], spark://host:7077, yarn or k8s://https://host",
        "All masters are unresponsive": STRANGE,
        "stopped SparkContext": STRANGE,
        "secret": "the secret of the network is not the cluster's",
        "UnknownHostException": "the host is not known",
        "BindException": "its address cannot be used on this machine",
        "container image": "spark.kubernetes.container.image is not set; docs/yarn-kubernetes.md says what the image has",
        "KubernetesClientException": "the API server of Kubernetes does not answer, or refuses; Spark's log above says which",
    }
    return next((f": {words}" for sign, words in known.items() if sign in text), f"; Spark's log above says why ({type(error).__name__})")
