"""Show the progress of a job on standard error: as a bar on a terminal, as a plain line elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as RichProgress

    from dpcore.tables.progress import Progress

STEPS = 10
"""Parts of the input that a line reports."""


class _Bar:
    """A rich bar with rows, rate and time left for each stage."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self.begin("")

    def begin(self, stage: str) -> None:
        """Take the finished bar away and start a new one."""
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._task = self._bar.add_task(stage, total=1.0, rows=0, rate=0)
        self._start = time.monotonic()

    def update(self, rows: int, fraction: float) -> None:
        """Redraw."""
        rate = rows / max(time.monotonic() - self._start, 1e-9)
        self._bar.update(self._task, completed=fraction, rows=rows, rate=rate)


class _Lines:
    """A line for each stage, which grows with every tenth of the input.

    Its words do not depend on the rows, since it may be kept in a log: how much of a file lies before a row depends on the text
    of the rows, and the pieces of a table depend on their number.
    """

    def __init__(self, stream: TextIO, *, count_rows: bool) -> None:
        self._stream, self._count_rows = stream, count_rows
        self._step = STEPS

    def begin(self, stage: str) -> None:
        """Start a line."""
        self.end()
        self._stage, self._step = stage, 0

    def update(self, rows: int, fraction: float) -> None:
        """Print the tenths that are done, each by itself, and at the end the number of rows."""
        reached = int(fraction * STEPS)
        words = "".join(f" {step / STEPS:4.0%}" for step in range(self._step + 1, reached + 1))
        if not words:
            return
        self._write((self._stage if self._step == 0 else "") + words)
        self._step = reached
        if reached == STEPS:
            self._write(f"  {rows:,} rows\n" if self._count_rows else "\n")

    def end(self) -> None:
        """End a line that a failure has cut off."""
        if 0 < self._step < STEPS:
            self._write("\n")
        self._step = STEPS

    def _write(self, words: str) -> None:
        # A closed stream must not end a job that has paid.
        with suppress(OSError):
            self._stream.write(words)
            self._stream.flush()


@contextmanager
def shown_on(stream: TextIO, *, count_rows: bool = True) -> Iterator[Progress]:
    """Show progress on `stream` for as long as the context lasts; without rows if their number is private, as logs are kept."""
    console = Console(file=stream)
    if not console.is_terminal:
        lines = _Lines(stream, count_rows=count_rows)
        try:
            yield lines
        finally:
            lines.end()
        return
    with _bar_on(console, count_rows=count_rows) as bar:
        yield _Bar(bar)


def _bar_on(console: Console, *, count_rows: bool) -> RichProgress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    counts = (TextColumn("{task.fields[rows]:,} rows"), TextColumn("{task.fields[rate]:,.0f} rows/s"))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *(counts if count_rows else ()),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)
