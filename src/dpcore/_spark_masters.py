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
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.errors import StorageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEME, MASTER = "spark://", "spark.master"
REST, REST_PORT, USUAL_PORT = "spark.master.rest.enabled", "spark.master.rest.port", 6066
HOST = re.compile(r"(?P<host>\[[^\]]+\]|[^:/\s]+):(?P<port>[0-9]{1,5})")
SETTING = re.compile(r"^[^\S\n]*(spark\.[\w.]+)(?:[^\S\n]|[=:])+(.*?)[^\S\n]*$", re.MULTILINE)
"""A line of `spark-defaults.conf`. A key may stand alone in its line."""
SECONDS, LOOK_SECONDS, MOST_SECONDS = 10.0, 2.0, 4.0
"""For a master to take a connection; for a port of submissions to say something; and for all that is said of submissions."""
RETRIES = 16
"""A master takes the next port if one is taken, so often (`spark.port.maxRetries`)."""
LISTENS = "0A"
"""The state of a socket that listens, in Linux's tables."""
MOST_BYTES, MOST_PORT, MOST_DIGITS = 1 << 16, 65535, 5


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
    found: dict[str, int | None] = dict.fromkeys(hosts)

    def look(host: str) -> None:
        found[host] = _port_of_submissions(host, port)

    # The holder of the port may answer a byte at a time: no look is waited for to its end.
    threads = [threading.Thread(target=look, args=(host,), daemon=True) for host in found]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + MOST_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [f"{host}:{answers}" for host, answers in found.items() if answers is not None]


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
    port = _port_of(conf)
    here = [os.environ.get("SPARK_MASTER_HOST"), os.environ.get("SPARK_LOCAL_IP"), conf.get("spark.driver.host")]
    hosts = [host for host, _ in hosts_of(conf.get(MASTER, ""))]
    hosts += [*filter(None, here), "127.0.0.1", socket.gethostname(), *_listening(range(port, port + RETRIES + 1))]
    return warning_of(open_submissions(hosts, port))


def _refusal(place: tuple[str, int]) -> str | None:
    """Why a host does not take a connection, for a message; None if it does."""
    if not 0 < place[1] <= MOST_PORT:
        return f" (a port is a number from 1 to {MOST_PORT})"
    try:
        socket.create_connection(place, timeout=SECONDS).close()
    except TimeoutError:
        return f" (no answer within {SECONDS:.0f} seconds)"
    except UnicodeError:
        return " (no host has this name)"
    except OSError as error:
        return reason(error) or f" ({type(error).__name__})"
    return None


def _port_of_submissions(host: str, port: int) -> int | None:
    """The first port from one on at which a host takes programs; None if it does not.

    A master that finds its port taken takes the next one. So a port on which nobody listens ends the search.
    """
    for each in range(port, min(port + RETRIES, MOST_PORT) + 1):
        try:
            socket.create_connection((host, each), timeout=LOOK_SECONDS).close()
        except (OSError, UnicodeError):  # of the codec for names of hosts
            return None
        if _takes_programs(host, each):
            return each
    return None


def _takes_programs(host: str, port: int) -> bool:
    """Whether a server answers a question about submissions; the question names none, and changes nothing."""
    with contextlib.suppress(OSError, HTTPException, ValueError), contextlib.closing(HTTPConnection(host, port, LOOK_SECONDS)) as asked:
        asked.request("GET", "/v1/submissions/status/none")
        answer = json.loads(asked.getresponse().read(MOST_BYTES))
        return isinstance(answer, dict) and "serverSparkVersion" in answer
    return False


def _listening(ports: range) -> list[str]:
    """The addresses of this machine on which somebody listens on one of the ports, where Linux tells; a master binds one address alone."""
    found = []
    for family, kind in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(OSError, ValueError):
            for row in Path("/proc/net", family).read_text(encoding="ascii").splitlines()[1:]:
                address, port = row.split()[1].split(":")
                if row.split()[3] == LISTENS and int(port, 16) in ports:
                    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
                    found.append(_plain(socket.inet_ntop(kind, struct.pack(f"={len(words)}I", *words))))
    return found


def _plain(address: str) -> str:
    """An address to which a connection can be made: that of this machine for all of them, and of IPv4 for one that IPv6 embeds."""
    address = address.removeprefix("::ffff:")
    return {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(address, address)  # noqa: S104 - nothing is bound


def _port_of(conf: Mapping[str, str]) -> int:
    port = conf.get(REST_PORT, "")
    return int(port) if port.isdecimal() and len(port) <= MOST_DIGITS else USUAL_PORT


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
