"""Masters of standalone Spark clusters: whether one answers, and whether it takes programs from anybody.

A master with `spark.master.rest.enabled`, as which Spark 4.1 and later start unless told otherwise, runs what it gets on that port as the
user of its workers, and asks for no secret.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.errors import StorageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEME, MASTER = "spark://", "spark.master"
REST, REST_PORT, USUAL_PORT = "spark.master.rest.enabled", "spark.master.rest.port", 6066
HOST = re.compile(r"(?P<host>\[[^\]]+\]|[^:/\s]+):(?P<port>\d{1,5})")
SETTING = re.compile(r"^\s*(spark\.[\w.]+)[\s=:]+(.*?)\s*$", re.MULTILINE)
SECONDS, LOOK_SECONDS = 10.0, 2.0
"""For a master to take a connection, and for the port of submissions to answer."""
MOST_BYTES = 1 << 16


def hosts_of(master: str) -> list[tuple[str, int]]:
    """Host and port of each master that `spark://host:port,host:port` names; nothing of another kind of master, or of one that is wrong."""
    if not master.startswith(SCHEME):
        return []
    found = [HOST.fullmatch(part) for part in master.removeprefix(SCHEME).split(",")]
    return [] if None in found else [(each["host"].strip("[]"), int(each["port"])) for each in found if each is not None]


def check_answers(master: str) -> None:
    """Raise `StorageError` if no master of a standalone cluster takes a connection; Spark itself finds that out in two minutes."""
    hosts = hosts_of(master)
    if not hosts:
        return
    with ThreadPoolExecutor(len(hosts)) as threads:
        failed = list(threads.map(_refusal, hosts))
    if all(failed):
        raise StorageError(f"no Spark master answers at {master}{failed[0]}: start it, or name the one that runs")


def open_submissions(hosts: Iterable[str], port: int = USUAL_PORT) -> list[str]:
    """Addresses at which a master takes programs without a secret.

    Parameters
    ----------
    hosts : iterable of str
        Where to look.
    port : int, default 6066
        `spark.master.rest.port` of the master.

    Returns
    -------
    list of str
        `host:port` of each that answers as such a master does.
    """
    named = list(dict.fromkeys(hosts))
    if not named:
        return []
    with ThreadPoolExecutor(len(named)) as threads:
        answers = threads.map(lambda host: _takes_programs(host, port), named)
        return [f"{host}:{port}" for host, answer in zip(named, answers, strict=True) if answer]


def warning_of(places: Iterable[str]) -> str | None:
    """What to say of ports that take programs; None if there are none."""
    shown = ", ".join(places)
    if not shown:
        return None
    return (
        f"a Spark master takes programs without a secret at {shown}, and runs them as the user of its workers, who may read the cluster's "
        f"secret and the tables: write '{REST} false' into the spark-defaults.conf of the master, and start it again"
    )


def warning_for(conf: Mapping[str, str]) -> str | None:
    """What to say of the masters of a session with these settings."""
    hosts = [host for host, _ in hosts_of(conf.get(MASTER, ""))]
    return warning_of(open_submissions(hosts, _port_of(conf)))


def warning_here() -> str | None:
    """What to say of the masters that this machine runs, or that its settings name; for `dpcore info`."""
    conf = _settings_of_files()
    here = [os.environ.get(name) for name in ("SPARK_MASTER_HOST", "SPARK_LOCAL_IP")]
    hosts = [host for host, _ in hosts_of(conf.get(MASTER, ""))]
    return warning_of(open_submissions([*hosts, *filter(None, here), "127.0.0.1", socket.gethostname()], _port_of(conf)))


def _refusal(place: tuple[str, int]) -> str | None:
    """Why a host does not take a connection, for a message; None if it does."""
    try:
        socket.create_connection(place, timeout=SECONDS).close()
    except TimeoutError:
        return f" (no answer within {SECONDS:.0f} seconds)"
    except OSError as error:
        return reason(error) or f" ({type(error).__name__})"
    return None


def _takes_programs(host: str, port: int) -> bool:
    """Whether a server answers a question about submissions; the question names none, and changes nothing."""
    with contextlib.suppress(OSError, HTTPException, ValueError), contextlib.closing(HTTPConnection(host, port, LOOK_SECONDS)) as asked:
        asked.request("GET", "/v1/submissions/status/none")
        answer = json.loads(asked.getresponse().read(MOST_BYTES))
        return isinstance(answer, dict) and "serverSparkVersion" in answer
    return False


def _port_of(conf: Mapping[str, str]) -> int:
    port = conf.get(REST_PORT, "")
    return int(port) if port.isdigit() else USUAL_PORT


def _settings_of_files() -> dict[str, str]:
    """The settings of `spark-defaults.conf`, where Spark would read it."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not folder:
        return {}
    try:
        return dict(SETTING.findall(Path(folder, "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return {}
