"""How far a job is: a bar on a terminal, plain lines elsewhere, both on standard error."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.batch.engine import Progress

STEPS = 10
"""Plain lines that a job prints."""


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
    """One line for each tenth of the input."""

    def __init__(self, stream: TextIO, *, count_rows: bool) -> None:
        self._stream, self._count_rows = stream, count_rows
        self.begin("")

    def begin(self, stage: str) -> None:
        """Start the clock anew."""
        self._stage = stage
        self._start = time.monotonic()
        self._step = 0

    def update(self, rows: int, fraction: float) -> None:
        """Print if another tenth is done."""
        if int(fraction * STEPS) <= self._step:
            return
        self._step = int(fraction * STEPS)
        elapsed = max(time.monotonic() - self._start, 1e-9)
        left = elapsed * (1 - fraction) / fraction
        line = f"{self._stage}{fraction:5.0%}" + (f"  {rows:,} rows  {rows / elapsed:,.0f} rows/s" if self._count_rows else "")
        # Nobody may be there to read it, which is no reason to end a job that has paid.
        with suppress(OSError):
            self._stream.write(f"{line}  {left:,.0f} s left\n" if fraction < 1 else f"{line}\n")
            self._stream.flush()


@contextmanager
def shown_on(stream: TextIO, *, count_rows: bool = True) -> Iterator[Progress]:
    """Show progress on `stream` for as long as the context lasts; without rows if their number is private, as logs are kept."""
    console = Console(file=stream)
    if not console.is_terminal:
        yield _Lines(stream, count_rows=count_rows)
        return
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
    with RichProgress(*columns, console=console) as bar:
        yield _Bar(bar)
