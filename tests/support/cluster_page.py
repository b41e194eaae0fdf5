"""The cluster that docs/cluster.md tells people to start: its commands, run on two more addresses of this machine, and its open ports."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.spark import SECONDS, descendants, environment, free_port, wait_for

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
FIRST, SECOND = "127.0.0.2", "127.0.0.3"
OWN = "127.0.0.1"
"""Stands for the addresses that only the machine itself reaches; the two machines have other ones."""
RPC = 3, struct.pack(">qi", 1, 4) + b"\x00abc"
"""A request to Spark's own servers, with a message that nobody understands: who asks for the secret does not look at it."""
SERVED = {1: "a block", 4: "an answer", 7: "a stream"}
"""Kinds of frames with which Spark's servers give somebody something."""
AUTHENTICATION = b"Unknown challenge message"
"""What Spark answers to a request of somebody who has not shown the secret."""


def commands(page: str) -> list[str]:
    """What a reader types between the heading "Two machines" and the next one, each with the lines that go with it."""
    section = page.partition("## Two machines\n")[2].partition("\n## ")[0]
    found: list[str] = []
    for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(line.removeprefix("$ "))
            else:
                found[-1] += f"\n{line}"
    return found


class PageCluster:
    """The processes of the page, and the shell in which its other commands run.

    Parameters
    ----------
    home : Path
        The home folder of the reader.
    settings : list of str, optional
        The lines of `spark-defaults.conf` beside the secret, in the place of the page's.

    Attributes
    ----------
    url : str
        The master.
    jobs : list of str
        The commands that run jobs.
    """

    def __init__(self, home: Path, settings: list[str] | None = None) -> None:
        self.home, self.port = home, free_port()
        self.url = f"spark://{FIRST}:{self.port}"
        typed = [self._here(line) for line in commands(PAGE.read_text(encoding="utf-8"))]
        self._exports = [line for line in typed if line.startswith("export ")]
        self._daemons = [line for line in typed if line.startswith("spark-class ")]
        self.jobs = [line for line in typed if line.startswith("dpcore ")]
        # The environment of the test is the one that the first line makes; and both machines have one disk.
        self._making = [line for line in typed if line not in (*self._exports, *self._daemons, *self.jobs)][1:]
        assert self._making[-1].startswith("scp ")
        self._making.pop()
        assert len(self._daemons) == 3
        self._settings, self.processes = settings, []

    def _here(self, line: str) -> str:
        for word, place in (("first", FIRST), ("second", SECOND), ("7077", str(self.port))):
            line = re.sub(rf"(?<![\w-]){word}(?![\w-])", place, line)
        return line

    def __enter__(self):
        self.home.mkdir()
        for line in self._making:
            assert self.run(line, is_set=False).returncode == 0, line
        self.conf = self.home / "cluster" / "spark-defaults.conf"
        if self._settings is not None:
            secret = self.conf.read_text().splitlines()[0]
            self.conf.write_text("\n".join([secret, *self._settings, ""]))
        return self

    def start(self, *, workers: bool = True) -> None:
        """Start the master, and the workers when it listens."""
        for number, line in enumerate(self._daemons if workers else self._daemons[:1]):
            with (self.home / f"daemon-{number}.log").open("wb") as log:
                shell = ["bash", "-c", f"{self._preamble}\nexec {line.replace('&', '')}"]
                self.processes.append(subprocess.Popen(shell, stdout=log, stderr=log, env=self._variables, cwd=self.home))
            wait_for(self.port, FIRST)

    def run(self, line: str, *, is_set: bool = True, **options: Any) -> subprocess.CompletedProcess:
        """Run a command as the reader does."""
        text = f"{self._preamble if is_set else ''}\n{line}"
        return subprocess.run(
            ["bash", "-c", text], capture_output=True, text=True, check=False, env=self._variables, cwd=self.home, timeout=600, **options
        )

    def popen(self, line: str) -> subprocess.Popen:
        """Start a command as the reader does."""
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return subprocess.Popen(["bash", "-c", f"{self._preamble}\nexec {line}"], env=self._variables, cwd=self.home, **pipes)

    @property
    def _preamble(self) -> str:
        return "\n".join(self._exports)

    @property
    def _variables(self) -> dict[str, str]:
        tests, programs = str(Path(__file__).resolve().parents[1]), str(Path(sys.executable).parent)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        return environment() | {"HOME": str(self.home), "PATH": path, "PYTHONPATH": tests, "SPARK_DAEMON_MEMORY": "512m"}

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            for child in descendants(process.pid, b""):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            process.terminate()
        for process in self.processes:
            process.wait(SECONDS)


def listening(pid: int) -> set[tuple[str, int]]:
    """The addresses on which a process and all below it listen."""
    found = set()
    for each in (pid, *descendants(pid, b"")):
        inodes = set()
        for descriptor in Path(f"/proc/{each}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(str(descriptor.readlink()).partition("socket:[")[2].rstrip("]"))
        for family in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                for row in Path(f"/proc/{each}/net/{family}").read_text().splitlines()[1:]:
                    cells = row.split()
                    if cells[3] == "0A" and cells[9] in inodes:
                        found.add(_address(cells[1]))
    return found


def _address(text: str) -> tuple[str, int]:
    """Address and port as /proc has them: words of four bytes, of this machine's order."""
    place, port = text.split(":")
    raw = b"".join(struct.pack("=I", int(place[start : start + 8], 16)) for start in range(0, len(place), 8))
    if raw.startswith(bytes(10) + b"\xff\xff"):
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


def ask(place: tuple[str, int], words: bytes, seconds: float = 3) -> bytes:
    """What a server answers until it closes the connection or says no more."""
    found = b""
    with contextlib.suppress(OSError), contextlib.closing(socket.create_connection(place, timeout=seconds)) as asked:
        asked.sendall(words)
        while len(found) < 1 << 16 and (more := asked.recv(1 << 16)):
            found += more
    return found


def framed(kind: int, body: bytes) -> bytes:
    """A frame of Spark's network."""
    return struct.pack(">qB", 9 + len(body), kind) + body


def stream(name: str) -> bytes:
    """A request for a stream, such as a file that a job ships."""
    return framed(6, struct.pack(">i", len(name)) + name.encode())


def shown(place: tuple[str, int], **streams: str) -> list[str]:
    """What a server shows or does for somebody who has no secret; nothing if it asks for one."""
    found = []
    page = ask(place, b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n", seconds=30)
    if page.startswith(b"HTTP/1.1 200"):
        found.append("a page")
    answer = ask(place, framed(*RPC))
    if len(answer) > 9 and answer[:4] == bytes(4):  # the length of a frame
        if answer[8] in SERVED:
            found.append(SERVED[answer[8]])
        elif AUTHENTICATION not in answer:
            found.append("requests are read")
    for name, address in {"a jar": "/jars/none.jar", **streams}.items():
        answer = ask(place, stream(address))
        if len(answer) > 9 and answer[:4] == bytes(4) and answer[8] in SERVED:
            found.append(name)
    if b"Py4J" not in ask(place, b"c\nt\nreflectionShell\ne\n") and ask(place, b"r\nu\njava\nrj\ne\n").startswith(b"!y"):
        found.append("Java")
    return found
