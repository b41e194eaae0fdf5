"""When each row is measured: several visits to all of them, which share the time that is left, and an end that holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

Progress = Callable[[int, int], object]
BLOCKS = 9
"""Blocks of turns of a row, spread over the run."""


class Visited(Protocol):
    """What is scheduled."""

    visits: int
    """Blocks until now."""
    spent: float
    """Seconds of all of them."""
    cheapest: float
    """Seconds of the shortest."""

    @property
    def weight(self) -> float:
        """Its share of the time."""

    @property
    def is_short(self) -> bool:
        """Whether it needs little time."""

    @property
    def is_broken(self) -> bool:
        """Whether it cannot be measured."""

    def visit(self, allowance: float, deadline: float) -> None:
        """Measure a block of turns, about as long as allowed; after the deadline no turn begins."""


def measure_all(
    rows: Sequence[Visited], end: float, after_each: Callable[[], object], progress: Progress | None = None, *, grace: float = 0.0
) -> None:
    """Visit rows until the end: those that need little time first, because on a busy machine large arrays would leave them none.

    Parameters
    ----------
    rows : sequence of Visited
        What is measured. A row that there is no time for has no visits.
    end : float
        A reading of `time.perf_counter`. No turn begins after it.
    after_each : callable
        Called after each visit.
    progress : callable, optional
        Called as progress(done, total) after each visit, or where one was left out.
    grace : float, default 0
        Seconds by which first visits may exceed the end.
    """
    done, total, weight = 0, BLOCKS * len(rows), sum(row.weight for row in rows)
    start = time.perf_counter()

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    for short in (True, False):
        part = [row for row in rows if row.is_short is short]
        if part:
            own = max(0.0, end - start) * sum(row.weight for row in part) / weight if short else max(0.0, end - time.perf_counter())
            _pass_over(part, min(end, time.perf_counter() + own), end, grace, after_each, tick)
    _fill(rows, end, after_each)


def _pass_over(
    rows: Sequence[Visited], end: float, deadline: float, grace: float, after_each: Callable[[], object], tick: Callable[[], None]
) -> None:
    """Visit all rows `BLOCKS` times; what is left of the time is divided anew before each visit.

    A row whose least visit takes longer than its share waits until its shares have added up. First visits may go on until the
    deadline, and the grace beyond it.
    """
    weight, seconds = sum(row.weight for row in rows), end - time.perf_counter()
    for visit in range(BLOCKS):
        ahead = weight * (BLOCKS - visit)
        for row in rows:
            now, share = time.perf_counter(), seconds * row.weight / weight
            left, least = max(0.0, end - now) * row.weight / ahead, share / BLOCKS / 4
            ahead -= row.weight
            if visit == 0:
                chosen, allowance = now < deadline + grace, min(share / BLOCKS, left)
            else:
                allowance = min(share * (visit + 1) / BLOCKS - row.spent, left)
                chosen = allowance > least and not row.is_broken and row.visits > 0 and now + row.cheapest < end
            if chosen:
                row.visit(max(allowance, least), deadline + (grace if visit == 0 else 0.0))
                after_each()
            tick()


def _fill(rows: Sequence[Visited], end: float, after_each: Callable[[], object]) -> None:
    """Spend what is left of the time on rows with the fewest blocks."""
    for blocks in range(1, BLOCKS):
        for row in rows:
            if row.visits == blocks and not row.is_broken and time.perf_counter() + row.cheapest < end:
                row.visit(row.cheapest / 2, end)
                after_each()
