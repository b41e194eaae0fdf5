"""Sessions of Spark for tests: one cluster of two processes for all of them, another on addresses of its own, and their processes."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dpcore._java import home

MASTER = "local-cluster[2,1,1024]"
"""Two workers with a process, a core and 1 GiB each."""
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.task.maxFailures": "4",
    "spark.log.level": "ERROR",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}
"""Settings under which a task that takes longer than others has a second attempt, however many rows it has read."""
EXECUTOR = b"CoarseGrainedExecutorBackend"
SECONDS = 120
PATIENCE = 300
"""Seconds that one attempt waits for another: on a busy machine that may begin a minute after the other tasks have ended."""
UNMET = "no second attempt came"
"""The name of the mark of a wait that was in vain."""
_shared: list = []


def shared(folder: Path):
    """The session of this process; it is started once, and ends with the process."""
    if not _shared:
        _shared.append(start(MASTER, folder))
        atexit.register(close, _shared[0])
    return _shared[0]


def start(master: str, folder: Path, **conf: str):
    """A session whose files are in `folder`."""
    from dpcore.spark import make_session

    places = {"spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    return make_session(master, conf=CONF | places | {name.replace("_", "."): value for name, value in conf.items()})


def close(spark) -> None:
    """Stop a session and the Java that ran it, which pyspark leaves running until the process ends."""
    import pyspark
    from pyspark import SparkContext

    gateway, application = SparkContext._gateway, spark.sparkContext.applicationId
    spark.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait(SECONDS)
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


def executors(spark) -> list[int]:
    """Process ids of the executors of a session."""
    deadline = time.monotonic() + SECONDS
    wanted = 2 if "local-cluster" in spark.sparkContext.master else 1
    while len(found := descendants(spark.sparkContext._gateway.proc.pid, EXECUTOR)) < wanted:
        assert time.monotonic() < deadline, "the executors did not start"
        time.sleep(0.1)
    return found


def kill_executor(spark) -> int:
    """Kill one executor, as a machine that fails does; Spark starts another. Returns its process id."""
    victim = executors(spark)[0]
    os.kill(victim, signal.SIGKILL)
    return victim


def descendants(pid: int, word: bytes) -> list[int]:
    """Processes below one whose command line has a word, oldest first."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(path.name)] = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    below, todo = [], [pid]
    while todo:
        above = todo.pop()
        children = [child for child, parent in parents.items() if parent == above]
        below += children
        todo += children
    found = []
    for each in sorted(below):
        with contextlib.suppress(OSError):
            if word in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(each)
    return found


def environment() -> dict[str, str]:
    """Variables with which the programs of Spark find their Java and their Python."""
    return os.environ | {"JAVA_HOME": str(home()), "PYSPARK_PYTHON": sys.executable}


def run_alone(program: str, *arguments: str, check: bool = True, timeout: float = 600, **variables: str):
    """Run a program of Python in a process of its own, for tests that need a session of another kind, or one that dies."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=check, timeout=timeout, env=environment() | variables, errors="replace"
    )


def second_attempt(marks: Path, patience: float = PATIENCE) -> Callable[[], None]:
    """Return what a task calls behind its rows: it marks its attempt, and the first two of task 0 wait for each other.

    Thus both have done their work before Spark ends one, however slow the machine is. `attempts` says which there were.
    """
    marks.mkdir(parents=True)
    folder, unmet = str(marks), UNMET  # What a task needs goes with the function: it cannot import this file.
    other = {"0-0": "0-1", "0-1": "0-0"}

    def wait() -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        name = f"{context.partitionId()}-{context.attemptNumber()}"
        Path(folder, name).touch()
        deadline = time.monotonic() + patience
        while name in other and not Path(folder, other[name]).exists():
            if time.monotonic() > deadline:
                Path(folder, unmet).touch()
                return
            time.sleep(0.1)

    return wait


def attempts(marks: Path) -> set[str]:
    """The attempts that `second_attempt` has marked, as task-attempt; fails if Spark did not start the one that was waited for."""
    found = {path.name for path in marks.iterdir()}
    assert UNMET not in found, f"Spark started no second attempt of task 0 within {PATIENCE} seconds, so nothing was tested"
    return found


class Standalone:
    """A standalone cluster with a master on 127.0.0.1 and a worker each on 127.0.0.2 and 127.0.0.3, between which Spark speculates.

    Attributes
    ----------
    url : str
        Its master, for `make_session`.
    conf : dict
        What a session needs to work there: the secret of the cluster, and its own address.
    """

    def __init__(self, folder: Path, workers: tuple[str, ...] = ("127.0.0.2", "127.0.0.3")) -> None:
        self._folder, self._names, self._processes = folder, workers, []
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.conf = {
            "spark.authenticate.secret": secrets.token_hex(16),
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }

    def __enter__(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = self._folder / "cluster.conf"
        self._file.write_text("".join(f"{name} {value}\n" for name, value in self.conf.items() if "driver" not in name))
        self._file.chmod(0o600)
        try:
            self._start("master", "127.0.0.1", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
            wait_for(self.port, "127.0.0.1")
            for name in self._names:
                ends = ("--host", name, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name))
                self._start("worker", name, *ends, self.url)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            for child in descendants(process.pid, EXECUTOR):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            process.terminate()
        for process in self._processes:
            process.wait(SECONDS)
        self._processes.clear()

    def _start(self, role: str, address: str, *options: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        name = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
        variables = environment() | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "512m"}
        with (self._folder / f"{role}-{address}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), name, "--properties-file", str(self._file), *options]
            self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(port: int, host: str) -> None:
    """Wait until someone listens."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on {host}:{port}"
            time.sleep(0.2)
        else:
            return


@contextlib.contextmanager
def settings(spark, **values: str) -> Iterator[None]:
    """Change settings of a running session, and change them back."""
    names = {name.replace("_", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
