"""Kills a command at its k-th step: a warm process forks one child for each, so that a step costs milliseconds.

A step is a call that changes what a later process finds: of the system (a file is made, written out, cut, renamed, linked, removed,
synced), or of a ledger (a transaction begins, is about to be committed, is committed).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

CALLS = ("open", "fsync", "ftruncate", "link", "mkdir", "posix_fallocate", "rename", "replace", "unlink", "write")


WARM = (
    "dpcore.cli",
    "dpcore.jobs.commands.release",
    "dpcore.query.run",
    "dpcore.query.kinds.running_total",
    "dpcore.accounting.ledger.ledger",
)
"""What a child would load before its first step."""


class Steps:
    """A warm process that runs commands, each in a fork of its own."""

    def __init__(self) -> None:
        script = "from support.steps import serve; serve()"
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        self._process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, *arguments: object, step: int = 0, twin: str = "") -> tuple[int, int, str]:
        """Run a command, and kill it just before its step of this number; 0 is never.

        Returns
        -------
        tuple
            How it ended (−9: killed), its steps so far (0 if it was killed), and what it said.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"arguments": list(map(str, arguments)), "step": step, "twin": twin}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code, steps, said = json.loads(self._process.stdout.readline())
        return code, steps, said

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def serve() -> None:
    """Answer requests, one a line."""
    for module in WARM:
        importlib.import_module(module)
    for line in sys.stdin:
        asked = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _work(asked, write)
        os.close(write)
        with os.fdopen(read) as said:
            words = said.read()
        _, status = os.waitpid(child, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        steps, _, words = words.rpartition("steps ") if code == -signal.SIGKILL else (words.rpartition("steps ")[2], "", words)
        print(json.dumps([code, int(steps or 0), words]), flush=True)


def _work(asked: dict[str, Any], write: int) -> None:
    """Run the command in a child that does not return."""
    os.dup2(write, 1)
    os.dup2(write, 2)
    counted = 0

    def step() -> None:
        nonlocal counted
        counted += 1
        if counted == asked["step"]:
            os.kill(os.getpid(), signal.SIGKILL)

    _count(step)
    if asked["twin"]:
        TWINS[asked["twin"]]()
    from dpcore.cli import run

    code = 99
    try:
        code = run(asked["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        sys.__stderr__.write(f"steps {counted}")  # type: ignore[union-attr]
        sys.__stderr__.flush()  # type: ignore[union-attr]
    finally:
        os._exit(code)


def _count(step: Any) -> None:
    for name in CALLS:
        setattr(os, name, _counted(getattr(os, name), step))
    with contextlib.suppress(ImportError):
        from dpcore.accounting.ledger import database

        database.transaction = _counted_transaction(database.transaction, step)


def _counted(call: Any, step: Any) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        step()
        return call(*args, **kwargs)

    return counted


def _counted_transaction(transaction: Any, step: Any) -> Any:
    @contextlib.contextmanager
    def counted(*args: Any, **kwargs: Any) -> Any:
        step()
        with transaction(*args, **kwargs) as connection:
            yield connection
            step()
        step()

    return counted


# Twins: orders that lose something if the process dies in between.


def _renamed_before_it_is_sealed() -> None:
    from dpcore.tables.output.publication import Publication

    def publish(self: Any, files: Any) -> None:
        self._show(files)
        self._seal(files)
        self.state = "published"
        self.charge.published()

    Publication.publish = publish  # type: ignore[method-assign]


def _table_before_sidecar() -> None:
    from dpcore.tables.output.publication import Publication

    show = Publication._show
    Publication._show = lambda self, files: show(self, files[::-1])  # type: ignore[method-assign]


def _overwritten_one_by_one() -> None:
    from dpcore._disk.sealed_files import move_into_place
    from dpcore.tables.output.publication import Publication

    def show(_self: Any, files: Any) -> None:
        for file in files:
            move_into_place(file, overwrite=True)

    Publication._show = show  # type: ignore[method-assign]


def _charged_at_the_end() -> None:
    from dpcore.tables.output.publication import Publication

    reserve, seal = Publication.reserve, Publication._seal
    Publication.reserve = lambda self: None  # type: ignore[method-assign,misc]

    def sealed(self: Any, files: Any) -> None:
        self._show(files)
        reserve(self)
        seal(self, files)

    Publication._seal = sealed  # type: ignore[method-assign]


def _stored_after_it_is_published() -> None:
    from dpcore.query.series import Series
    from dpcore.tables.output.state_file import StateFile

    replace, leave = StateFile.replace, Series.__exit__
    waiting: list[Any] = []
    StateFile.replace = lambda self, state: waiting.append((self, state))  # type: ignore[method-assign]

    def left(self: Any, *error: Any) -> None:
        for file, state in waiting:
            replace(file, state)
        leave(self, *error)

    Series.__exit__ = left  # type: ignore[method-assign]


def _noted_before_it_is_stored() -> None:
    from dpcore.query.series import Series
    from dpcore.tables.output.state_file import StateFile

    replace, note = StateFile.replace, Series._note
    StateFile.replace = lambda self, state: None  # type: ignore[method-assign]

    def noted(self: Any) -> None:
        note(self)
        if self._state:
            replace(self._file, self._state)

    Series._note = noted  # type: ignore[method-assign]


TWINS = {
    "stored after it is published": _stored_after_it_is_published,
    "noted before it is stored": _noted_before_it_is_stored,
    "renamed before it is sealed": _renamed_before_it_is_sealed,
    "table before sidecar": _table_before_sidecar,
    "overwritten one by one": _overwritten_one_by_one,
    "charged at the end": _charged_at_the_end,
}
