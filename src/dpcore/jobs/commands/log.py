"""The log of a run for `--log FILE`: lines of JSON with the time and the id of the run, and never anything about the data."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dpcore._version import __version__
from dpcore.accounting.ledger.states import reason_of
from dpcore.errors import BudgetError, DataError, JobError, ParameterError, PublishedError, StorageError, reason
from dpcore.tables.local_paths import check_local
from dpcore.tables.places import LOG, check_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

    from dpcore.tables.plans import JobPlan
    from dpcore.tables.progress import Progress

BEGINNING = b'{"time": "'
REFUSALS = (JobError, BudgetError, ParameterError)


class RunLog:
    """A file that lines are added to. Each line is written at once, and with one call, so that several runs may share a file.

    Parameters
    ----------
    stream : TextIO or None
        The file; None for a run without a log.
    command : str
        The name of the command.
    curator : bool
        Whether messages may tell of the data, outside the guarantee. The log then has none.
    """

    def __init__(self, stream: TextIO | None, command: str, *, curator: bool) -> None:
        self._stream, self._command, self._curator = stream, command, curator
        self.run: str | None = None

    def write(self, event: str, **facts: Any) -> None:
        """Add a line. If that fails the run goes on, since it may have paid, and a warning is printed once."""
        if self._stream is None:
            return
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": moment, "command": self._command, "run": self.run, "event": event, **facts}
        try:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
        except OSError as error:
            with contextlib.suppress(OSError):
                click.echo(f"warning: the log cannot be written{reason(error)}; the run goes on without it", err=True)
            self._stream = None

    def planned(self, plan: JobPlan, *, dry_run: bool) -> None:
        """Note the id of the run, and what it is about to do."""
        self.run = plan.publication.charge.run
        outputs = [str(name) for name in plan.publication.names]
        self.write("planned", dry_run=dry_run, input=plan.job.input.path, dataset=plan.job.input.dataset, outputs=outputs)

    def done(self, plan: JobPlan, event: str) -> None:
        """Note that the outputs are there."""
        ledger = plan.job.ledger
        charged = {} if ledger is None else {"ledger": ledger.path, "entry": plan.publication.charge.entry}
        self.write(event, outputs=[str(name) for name in plan.publication.names], **charged)

    def failed(self, error: BaseException) -> None:
        """Note the class of a failure. The message is noted where it tells of the job or the system, and not where it tells of rows."""
        cause = error.__cause__ if isinstance(error, PublishedError) and error.__cause__ is not None else error
        told = isinstance(cause, (*REFUSALS, StorageError)) and not isinstance(cause, DataError) and not self._curator
        event = "refused" if isinstance(error, REFUSALS) else "failed after publication" if isinstance(error, PublishedError) else "failed"
        word = "job" if isinstance(cause, REFUSALS) else reason_of(cause)
        self.write(event, reason=word, **({"message": str(cause)} if told else {}))


class Logged:
    """Progress that is shown and whose stages are logged."""

    def __init__(self, shown: Progress, log: RunLog) -> None:
        self._shown, self._log = shown, log

    def begin(self, stage: str) -> None:
        """Begin a stage, and log it."""
        self._log.write("stage", stage=stage)
        self._shown.begin(stage)

    def update(self, rows: int, fraction: float) -> None:
        """Show it; how many rows there are is not logged."""
        self._shown.update(rows, fraction)


@contextlib.contextmanager
def logged(path: Path | None, command: str, *, curator: bool = False, **facts: Any) -> Iterator[RunLog]:
    """Open the log of a run for as long as the context lasts; it begins with a line "started" and ends with what became of the run.

    Parameters
    ----------
    path : Path or None
        The file; None for no log.
    command : str
        The name of the command.
    curator : bool, default False
        Whether messages may tell of the data; they are then not logged.
    **facts
        What the first line holds beside time and version.
    """
    with contextlib.ExitStack() as opened:
        log = RunLog(None if path is None else opened.enter_context(_appended(path)), command, curator=curator)
        log.write("started", version=__version__, **facts)
        try:
            yield log
        except BaseException as error:
            log.failed(error)
            raise


def _appended(path: Path) -> TextIO:
    """Open a file that does not exist, is empty, or is a log; any other is refused, since it may be the input or the ledger."""
    check_local(LOG, str(path))
    check_regular(path, LOG)
    try:
        if path.exists() and not _is_log(path):
            raise JobError(f"--log {path} is a file, and no log of dpcore; name another file")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"--log {path} cannot be written{reason(error)}") from None


def _is_log(path: Path) -> bool:
    """Whether a file is empty or begins as a log does."""
    with path.open("rb") as file:
        first = file.read(len(BEGINNING))
    return BEGINNING.startswith(first)
