"""Servers of Spark Connect on the loopback device, each with a driver and executors of its own, for tests that reach Spark through one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.spark import CONF, MASTER, SECONDS, environment

SERVER = """
import json, sys
from dpcore.spark import make_session

spark = make_session(sys.argv[1], conf=json.loads(sys.argv[2]))
print("ready", flush=True)
sys.stdin.read()
spark.stop()
"""
"""A driver that is its own process, and runs until its input ends."""
PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
"""What makes a driver a server."""


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes
    ----------
    url : str
        Its address.
    folder : Path
        Where it writes: its log to `log`, its events below `events`.
    """

    url: str
    folder: Path

    def log(self) -> str:
        """All that it has printed."""
        return self.folder.joinpath("log").read_text(errors="replace")

    def events(self) -> str:
        """The events that Spark has written."""
        return "\n".join(each.read_text(errors="replace") for each in self.folder.joinpath("events").rglob("*") if each.is_file())


@contextlib.contextmanager
def serving(folder: Path, master: str = MASTER, **conf: str) -> Iterator[Server]:
    """A server with encryption on, as `make_session` starts a driver."""
    import json

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.joinpath("events").mkdir(parents=True)
    places = {"spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    connect = {"spark.plugins": PLUGIN, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(folder / "events"), "spark.eventLog.compress": "false"}
    given = CONF | {"spark.log.level": "WARN"} | places | connect | events | {name.replace("_", "."): value for name, value in conf.items()}
    variables = {name: value for name, value in environment().items() if not name.startswith("SPARK_")} | {"SPARK_LOCAL_IP": "127.0.0.1"}
    with folder.joinpath("log").open("w") as log:
        command = [sys.executable, "-c", SERVER, master, json.dumps(given)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=variables, cwd=folder)
        try:
            _wait(server, folder)
            yield Server(f"sc://127.0.0.1:{port}", folder)
        finally:
            server.stdin.close()
            try:
                server.wait(SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


def _wait(server: subprocess.Popen, folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while "ready" not in folder.joinpath("log").read_text(errors="replace"):
        assert server.poll() is None, folder.joinpath("log").read_text(errors="replace")[-3000:]
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.2)


@contextlib.contextmanager
def session_on(server: Server, **conf: str) -> Iterator:
    """A new session, set as dpcore needs it, beside whatever session of its own driver this process has.

    It is stopped while its server runs: pyspark would wait for ten minutes for one that is gone.
    """
    from pyspark.sql.connect.session import SparkSession

    from dpcore.spark.connect import NEEDED

    os.environ.pop("SPARK_REMOTE", None)
    session = SparkSession.builder.remote(server.url).create()
    try:
        wanted = {each.name: each.value for each in NEEDED} | {name.replace("_", "."): value for name, value in conf.items()}
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield session
    finally:
        session.stop()
