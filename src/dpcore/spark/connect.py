"""Sessions of Spark Connect, whose driver is another program: what can be asked of it, and what its user must declare.

The driver is a server to which plans are sent and which sends results back. It shows no plan, no scheduler and no file system. What the
rest of this package asks of a driver in its own process is asked here by other ways; what has none is declared by the user or refused.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import sys
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from dpcore._dataclasses import dataclass
from dpcore._extras import needs
from dpcore._java import spark_version
from dpcore.errors import JobError, ParameterError, ParameterTypeError, StorageError
from dpcore.spark import settings
from dpcore.spark.watching import unlogged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

SCHEME = "sc://"
"""Beginning of the address of a server."""
REMOTE = "SPARK_REMOTE"
"""Variable of Spark in which the address may be, with a token that no command line should show."""
ADDRESS = re.compile(r"sc://(?P<host>\[[^\]]+\]|[^:/;]+)(?::(?P<port>[0-9]{1,5}))?(?:/(?P<options>.*))?")
PORT, SECONDS = 15002, 10.0
"""Of a server unless its address has another; and how long it may take to accept a connection, for which pyspark would try ten minutes."""
OLDEST = (4, 2)
"""The first Spark that sees itself, without being shown the plan, that a second attempt at a task had other rows."""
CHECKSUMS = tuple(
    settings.Setting(
        f"spark.sql.shuffle.orderIndependentChecksum.{name}",
        "true",
        "false",
        "a record that is computed again could count twice",
        while_running=True,
    )
    for name in ("enabled", "enableFullRetryOnMismatch")
)
NEEDED = (settings.ADAPTIVE, *settings.READS, *CHECKSUMS)
"""What a session must be set to. All of them may be asked for and set while it runs."""
UNKNOWN = -1
"""Size and time of a file that the server does not let its users open by its address."""
FILES_AT_A_TIME = 1000
BYTES_OF_PARTITION = 16 << 20
"""Bytes of the files of a table for which there should be a partition behind a shuffle."""
GLOB = re.compile(r"([\\*?\[\]{}])")
ABSENT = ("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")
"""Spark's names for the error that a file is not there."""
REPORT = "host string, version string, stream int, code string, level string, python string, user long"
EVERYWHERE = 1 << 14
"""Rows of the job that finds out how many tasks the server runs at a time, which makes a partition for each of them."""
MISSING = (
    "connect is not given, and nothing shows whether a session of Spark Connect keeps exact statistics from others. Pass "
    "connect=dpcore.spark.Declared(encrypted=True), or --connect-encrypted, if the connection to its server, those between its server"
    " and its executors, and the disks to which they spill are encrypted, or reached by nobody who may not see the table; the "
    "document will say that you declared it"
)


@dataclass(frozen=True, slots=True)
class Declared:
    """What you declare of a session of Spark Connect, because no session shows it. The document of a release records it.

    Parameters
    ----------
    encrypted : bool
        Whether nobody who may not see the table reads exact statistics on their way or on disks: the connection from this process to the
        server is encrypted, those between the server and its executors are, and so is what they spill. What cannot be reached by others,
        such as the loopback device of a machine of your own, counts as encrypted.

    Raises
    ------
    ParameterTypeError
        If `encrypted` is no bool.

    Examples
    --------
    >>> from dpcore.spark import Declared
    >>> Declared(encrypted=True)
    Declared(encrypted=True)
    """

    encrypted: bool

    def __post_init__(self) -> None:
        if not isinstance(self.encrypted, bool):
            raise ParameterTypeError(f"encrypted must be True or False, got {type(self.encrypted).__name__}")

    def document(self) -> dict[str, str]:
        """What the document of a release says."""
        return {"encrypted": "declared"}


def check_session(spark: Any, connect: object) -> None:
    """Raise an error unless a session of either kind is set as the protocol needs it, and declared if it is one of Spark Connect.

    Raises
    ------
    ParameterError
        If something is declared of a session that shows it.
    JobError, ParameterTypeError
        As `dpcore.spark.settings.check` and `check`.
    """
    if settings.is_connect(spark):
        check(spark, connect)
        return
    settings.check_is_session(spark)
    if connect is not None:
        raise ParameterError("connect is for sessions of Spark Connect; this one has its driver in this process, and shows its settings")
    settings.check(spark)


def check_again(spark: Any) -> None:
    """Raise `JobError` if a session of Spark Connect, which other programs may set as well, is not set as it was."""
    if settings.is_connect(spark):
        check_settings(spark)


def check(session: Any, connect: object) -> None:
    """Raise `JobError` unless a session is declared, new enough and set as the protocol needs it.

    Parameters
    ----------
    session : pyspark.sql.connect.session.SparkSession
        A running session.
    connect : Declared or None
        What its user declares of it.
    """
    check_declared(connect)
    for where, version in (("the server has", settings.version_of(session.version)), ("this process has pyspark", spark_version())):
        if version is not None and version < OLDEST:
            raise JobError(
                f"Spark Connect needs Spark {OLDEST[0]}.{OLDEST[1]} or later on both sides, and {where} {version[0]}.{version[1]}: before, "
                "Spark does not notice that a second attempt at a task has other rows, and through Spark Connect nothing shows whether a "
                "table may vary, so a record could count twice"
            )
    check_settings(session)
    _warn_of_plain_text(session)


def check_declared(connect: object) -> None:
    """Raise an error unless the user declares what a session does not show."""
    if connect is not None and not isinstance(connect, Declared):
        raise ParameterTypeError(f"connect must be dpcore.spark.Declared(encrypted=True), got {type(connect).__name__}")
    if connect is None or not connect.encrypted:
        raise JobError(MISSING)


def check_settings(session: Any) -> None:
    """Raise `JobError` if a setting of the session is wrong now."""
    values = {each: _value(session, each.name) for each in NEEDED}
    wrong = {each: value for each, value in values.items() if value.lower() != each.value}
    if wrong:
        lines = [settings.line(each, value) for each, value in wrong.items()]
        raise JobError("\n".join(["the session of Spark Connect is not set as dpcore needs it", *lines, settings.advice(wrong)]))


def _value(session: Any, name: str) -> str:
    """What the server says that a setting is; empty if it does not say."""
    try:
        with unlogged():
            return str(session.conf.get(name)).strip()
    except Exception:  # servers may hide settings, and what is hidden counts as wrong
        return ""


def _warn_of_plain_text(session: Any) -> None:
    """Warn if exact statistics will come from another machine without an encryption that pyspark sees."""
    with contextlib.suppress(AttributeError):
        builder = session.client._builder  # noqa: SLF001 - whether the connection is encrypted has no public name
        if not builder.secure and not _is_loopback(builder.host):
            warnings.warn(
                f"the connection to {builder.host} is not encrypted by Spark Connect, and exact statistics come over it: add ;use_ssl=true "
                "to its address, unless something below encrypts it, as you declared",
                UserWarning,
                stacklevel=2,
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def running() -> Any:
    """The session of Spark Connect that runs in this process; None if none does."""
    module = sys.modules.get("pyspark.sql.connect.session")
    if module is None:
        return None
    try:
        return module.SparkSession.active()
    except Exception:
        return None


def address_of(master: str | None) -> str | None:
    """The address of a server that is given, or that the variable of Spark has where nothing is; None if there is none."""
    found = os.environ.get(REMOTE) if master is None else master
    return found if found is not None and found.startswith(SCHEME) else None


def opened(address: str, conf: Mapping[str, str]) -> Any:
    """A new session on a server, set as dpcore needs it.

    Parameters
    ----------
    address : str
        As `sc://host:port/;use_ssl=true`.
    conf : mapping of str to str
        Further settings of the session.

    Raises
    ------
    JobError
        If packages are not installed, the address is none, or a setting cannot be set or contradicts what dpcore needs.
    StorageError
        If no server answers.
    """
    _check_answers(address)
    contradicted = [each for each in NEEDED if conf.get(each.name, each.value).strip().lower() != each.value]
    if contradicted:
        lines = [settings.line(each, conf[each.name]) for each in contradicted]
        raise JobError("\n".join(["these settings of Spark contradict what dpcore needs", *lines]))
    usual = {name: value for name, value in settings.USUAL.items() if name.startswith("spark.sql.")}
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    failed: Exception | None
    try:
        session = builder.remote(address).create()
    except Exception as error:
        failed = _unopened(error)
    else:
        failed = _set(session, usual | {each.name: each.value for each in NEEDED} | dict(conf))
        if failed is None:
            return session
        session.stop()
    raise failed


def _set(session: Any, wanted: Mapping[str, str]) -> Exception | None:
    """Set what a session is to have; the error about the first setting that its server does not let it have."""
    for name, value in wanted.items():
        try:
            session.conf.set(name, value)
        except Exception:
            return JobError(f"the server of Spark Connect does not let its users set {name}")
    return None


def _unopened(error: Exception) -> Exception:
    """Why there is no session, without what the server says."""
    if type(error).__name__ in ("ImportError", "PySparkImportError", "ModuleNotFoundError"):
        return JobError(needs("Spark Connect needs packages of", "spark-connect"))
    return StorageError(
        f"the server of Spark Connect gave no session ({type(error).__name__}): its address may lack a token, or use_ssl=true"
    )


def _check_answers(address: str) -> None:
    """Raise an error if an address is none, or nothing takes a connection there."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise JobError("the address of a server of Spark Connect must be like sc://host:15002 or sc://host:443/;use_ssl=true")
    host, port = found["host"].strip("[]"), int(found["port"] or PORT)
    try:
        socket.create_connection((host, port), SECONDS).close()
    except (OSError, OverflowError):
        raise StorageError(f"no server of Spark Connect answers at {host}:{port}") from None


def files_of(frame: Any) -> dict[str, tuple[int, int]]:
    """The files of a frame as they are now: size and time by address, both `UNKNOWN` where the server opens none for its users.

    Raises
    ------
    StorageError
        If one is gone.
    """
    names = sorted(set(frame.inputFiles()))
    found: dict[str, tuple[int, int]] = {}
    for start in range(0, len(names), FILES_AT_A_TIME):
        some = names[start : start + FILES_AT_A_TIME]
        try:
            found |= _looked_at(frame.sparkSession, some)
        except Exception as error:
            if str(getattr(error, "getCondition", str)()) in ABSENT:
                raise
            found |= dict.fromkeys(some, (UNKNOWN, UNKNOWN))
    return found


def _looked_at(session: Any, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Size and time of files, which executors look at without reading them."""
    by_place = {_place(unquote(name)): name for name in names}
    table = session.read.format("binaryFile").load([GLOB.sub(r"\\\1", unquote(name)) for name in names])
    table = table.selectExpr("path", "length", "unix_micros(modificationTime)")
    found = {by_place.get(_place(row[0])): (int(row[1]), int(row[2])) for row in table.collect()}
    if {*found} != {*names}:
        raise StorageError("a file of the input is gone")
    return {name: found[name] for name in names}


def _place(address: str) -> str:
    """An address of which only one form exists: file:///a and file:/a are one."""
    return re.sub(r"^(\w[\w+.-]*):/+", r"\1:/", address)


def partitions_for(session: Any, files: Iterable[tuple[int, int]]) -> int:
    """How many partitions a table should have behind a shuffle: by the bytes of its files, else as the session says."""
    sizes = [size for size, _ in files]
    if not sizes or UNKNOWN in sizes:
        return max(int(_value(session, "spark.sql.shuffle.partitions") or 1), 1)
    return max(sum(sizes) // BYTES_OF_PARTITION, 1)


def reports(session: Any, report: Callable[[Iterator[object]], list[Any]], most: int) -> list[Any]:
    """What a function says in each of many tasks: first in as many as run at a time, then in twice as many."""
    told = _told(report)
    first = session.range(EVERYWHERE).mapInArrow(told, REPORT).collect()
    tasks = min(most, 2 * max(2, len(first)))
    return [tuple(row) for row in [*first, *session.range(0, tasks, 1, tasks).mapInArrow(told, REPORT).collect()]]


def _told(report: Callable[[Iterator[object]], list[Any]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same for tasks of Arrow, which have no dpcore either: it is pickled by value."""
    names = [field.split()[0] for field in REPORT.split(", ")]

    def told(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            pass
        columns = [pa.array(column) for column in zip(*report(iter(())), strict=True)]
        columns[2] = columns[2].cast(pa.int32())
        yield pa.RecordBatch.from_arrays(columns, names)

    return told
