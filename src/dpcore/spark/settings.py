"""What a Spark session must be set to, and the words in which another one is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore._java import OLDEST_SPARK, check_spark, spark_version
from dpcore.errors import JobError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of a setting
DURABLE = "spark.dpcore.durableDisk"
"""Set to true by someone who knows that the driver's disk outlives its container."""
DEPLOY_MODE, IN_POD = "spark.submit.deployMode", "spark.kubernetes.submitInDriver"
REDACTION = "spark.redaction.regex"
BATCH_ROWS = 65536
NOT_HERE = (
    "spark must be a session with its driver in this process, got one of Spark Connect: the key of the noise would go to its server "
    "in the plan, and stay there in its cache of plans when the job is over; if each task drew a key of its own, a task that Spark "
    "repeats would draw a second noise, and a server does not show which attempt its committer keeps. Run privatize where the driver "
    "runs, by spark-submit or with dpcore.spark.make_session(); releases and PrivateTable take frames of Spark Connect"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting that the protocol needs.

    Attributes
    ----------
    name, value : str
        Its name in Spark, and the value that it must have.
    unset : str
        The value of Spark itself where nobody sets it.
    why : str
        What it protects, in words.
    while_running : bool
        Whether `spark.conf.set` changes it in a session that runs.
    """

    name: str
    value: str
    unset: str
    why: str
    while_running: bool = False


SPILLS = Setting("spark.io.encryption.enabled", "true", "false", "what Spark spills to disks holds rows, and the key of the noise")
CRYPTO = Setting("spark.network.crypto.enabled", "true", "false", "the key of the noise goes to the executors over the network")
RPC = (
    Setting("spark.authenticate", "true", "false", "everybody who reaches the driver could otherwise fetch the key of the noise"),
    CRYPTO,
)
TLS, SINCE = "spark.ssl.rpc.enabled", (4, 0)
"""What encrypts the network as well, and the first Spark in which it does; before, the setting has no effect. It asks for no secret."""
HIDDEN = re.compile(r"(?i)secret|password|token|credential|access[.]?key|account[.]key")
"""Names of settings whose values are for nobody else: those that Spark itself hides on its pages, and the keys of object stores."""
ADAPTIVE = Setting(
    "spark.sql.adaptive.enabled", "false", "true", "adaptive execution cuts partitions by the sizes of data", while_running=True
)
READS = tuple(
    Setting(f"spark.sql.files.ignore{what}Files", "false", "false", "a run would leave out rows without a word", while_running=True)
    for what in ("Missing", "Corrupt")
)
COMMIT = Setting(
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version", "1", "1", "version 2 shows files of a task before the job is complete"
)
ALWAYS = (SPILLS, ADAPTIVE, *READS, COMMIT)
"""What every session needs. RPC is needed where executors are other processes."""
USUAL = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.network.crypto.saslFallback": "false",
}
"""What sessions of dpcore have unless their user wants it otherwise; a session without it is accepted."""


def required(master: str) -> tuple[Setting, ...]:
    """What a session on a master must be set to."""
    return (*ALWAYS, *RPC) if has_executors(master) else ALWAYS


def has_executors(master: str) -> bool:
    """Whether the work is done by processes other than the driver's."""
    return master.startswith("local-cluster") or not master.startswith("local")


def check(spark: SparkSession) -> None:
    """Raise `JobError` unless a session is set as the protocol needs it.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        A running session.

    Raises
    ------
    ParameterTypeError
        If it is no session of Spark, or one of Spark Connect, which `dpcore.spark.connect` checks.
    JobError
        If Spark is too old or a setting is wrong. The message has a line for each, with its value and what to set.
    """
    check_is_session(spark)
    check_spark(version_of(spark.version))
    context = spark.sparkContext
    conf = dict(context.getConf().getAll())
    version = version_of(spark.version)
    wrong = [each for each in required(context.master) if not _is_met(each, _value(spark, conf, each), conf, version)]
    lines = [line(each, _value(spark, conf, each)) for each in wrong]
    if not _hides_secrets(conf.get(REDACTION)):
        lines.append(f"    {REDACTION} is {conf[REDACTION]!r}: it must match {SECRET}, which Spark would show; leave it unset")
    if lines:
        raise JobError("\n".join(["the Spark session is not set as dpcore needs it", *lines, advice(wrong)]))


def check_conf(conf: Mapping[str, str], master: str) -> None:
    """Raise `JobError` if settings for a new session contradict what the protocol needs."""
    version = spark_version() or OLDEST_SPARK
    given = [each for each in required(master) if each.name in conf]
    lines = [line(each, conf[each.name]) for each in given if not _is_met(each, conf[each.name], conf, version)]
    if not _hides_secrets(conf.get(REDACTION)):
        lines.append(f"    {REDACTION} is {conf[REDACTION]!r}: it must match {SECRET}; leave it unset")
    if lines:
        raise JobError("\n".join(["these settings of Spark contradict what dpcore needs", *lines]))


def check_durable(spark: SparkSession, path: object) -> None:
    """Raise `JobError` if a ledger would be on a disk that ends with the driver's container.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session of the job.
    path : object
        The ledger, for the message.
    """
    if is_connect(spark):
        return  # The ledger is a file of this process, which is no driver.
    conf = dict(spark.sparkContext.getConf().getAll())
    in_cluster = conf.get(DEPLOY_MODE) == "cluster" or conf.get(IN_POD) == "true"
    if in_cluster and conf.get(DURABLE) != "true":
        raise JobError(
            f"[ledger] path is {str(path)!r}: the driver runs in the cluster ({DEPLOY_MODE} is cluster), where its disk may end with its "
            f"container, and the ledger too. Run with --deploy-mode client from a machine that keeps the ledger; or set {DURABLE} to "
            "true if the path is on a disk that stays and that only one machine mounts at a time"
        )


def check_is_session(spark: object) -> None:
    """Raise `ParameterTypeError` unless the object is a session of Spark that has a driver in this process."""
    kind = type(spark)
    if is_connect(spark):
        raise ParameterTypeError(NOT_HERE)
    if kind.__name__ != "SparkSession" or not kind.__module__.startswith("pyspark.sql"):
        raise ParameterTypeError(f"spark must be a pyspark.sql.SparkSession, got {kind.__name__}")


def is_connect(found: object) -> bool:
    """Whether a session or a frame is one of Spark Connect, whose driver is another program."""
    return type(found).__module__.startswith("pyspark.sql.connect")


def functions_of(found: object) -> Any:
    """The functions of columns for a session or a frame: Spark Connect has its own."""
    if is_connect(found):
        from pyspark.sql.connect import functions as theirs

        return theirs
    from pyspark.sql import functions

    return functions


def version_of(text: str) -> tuple[int, int]:
    """(4, 3) for 4.3.0; also for versions that a vendor has extended."""
    numbers = re.findall(r"\d+", text)
    return int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0


def _value(spark: SparkSession, conf: Mapping[str, str], setting: Setting) -> str:
    """The value of a setting: of one that may change while a session runs, the value of now."""
    if setting.while_running:
        return str(spark.conf.get(setting.name, setting.unset))
    return conf.get(setting.name, setting.unset)


def _is_met(setting: Setting, value: str, conf: Mapping[str, str], version: tuple[int, int]) -> bool:
    if setting == CRYPTO and version >= SINCE and conf.get(TLS, "false") == "true":
        return True
    return value.strip().lower() == setting.value


def _hides_secrets(pattern: str | None) -> bool:
    """Whether the pattern of what Spark does not show covers the secret of the network."""
    if pattern is None:
        return True
    try:
        return re.search(pattern, SECRET) is not None
    except re.error:
        return False


def line(setting: Setting, value: str) -> str:
    """What is wrong with a setting."""
    return f"    {setting.name} is {value!r}: it must be {setting.value!r}, because {setting.why}"


def advice(wrong: Iterable[Setting]) -> str:
    """What to do about settings that are wrong."""
    wrong = tuple(wrong)
    if wrong and all(each.while_running for each in wrong):
        return "    " + "; ".join(f'spark.conf.set("{each.name}", "{each.value}")' for each in wrong)
    return "    Stop the session and start it with these values, or with dpcore.spark.make_session(), which sets all of them"


def conf_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as Spark writes them: true and false in small letters."""
    return {str(name): str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()}
