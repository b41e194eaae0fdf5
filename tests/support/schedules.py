"""Thread switches where they hurt: a task is stopped at each of its steps in turn, and another task runs there.

A race needs switches at certain places. Threads and time find them now and then; this finds them always, since it tries every place. The
other task runs where a thread would, between two steps of the first: where that is inside a lock, the two must not share it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Task = Callable[[], object]


@dataclass(frozen=True)
class Steps:
    """What counts as a step: lines, or instructions, of the files whose names hold one of these texts; or of some functions there."""

    watched: tuple[str, ...]
    opcodes: bool = False
    functions: tuple[str, ...] = ()

    def _watches(self, frame: FrameType) -> bool:
        code = frame.f_code
        return any(name in code.co_filename for name in self.watched) and (not self.functions or code.co_name in self.functions)

    @contextmanager
    def each(self, at_step: Callable[[int], object]) -> Iterator[list[int]]:
        """Call `at_step(number)` before each step of this thread; gives a list whose only item is the number of steps so far."""
        count, busy = [0], [False]
        event_of_a_step = "opcode" if self.opcodes else "line"

        def step(frame: FrameType, event: str, _: Any) -> Any:
            if event == event_of_a_step and not busy[0]:
                busy[0] = True
                at_step(count[0])
                count[0] += 1
                busy[0] = False
            return step

        def enter(frame: FrameType, event: str, _: Any) -> Any:
            if busy[0] or not self._watches(frame):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = self.opcodes, not self.opcodes
            return step

        before = sys.gettrace()
        sys.settrace(enter)
        try:
            yield count
        finally:
            sys.settrace(before)


class _Paused:
    """A task in a thread of its own that stands still before one of its steps."""

    def __init__(self, task: Task, at: int, steps: Steps) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(task, at, steps), daemon=True)

    def _run(self, task: Task, at: int, steps: Steps) -> None:
        def pause(number: int) -> None:
            if number == at:
                self._reached.set()
                self._go_on.wait()

        try:
            with steps.each(pause):
                task()
        except BaseException as error:
            self._error = error
        finally:
            self._reached.set()

    def start(self) -> None:
        """Run up to the step."""
        self._thread.start()
        self._reached.wait()

    def finish(self) -> None:
        """Run to the end, from the beginning if the step was never reached, and raise what the task raised."""
        self._go_on.set()
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join()
        if self._error is not None:
            raise self._error


def count_steps(task: Task, steps: Steps) -> int:
    """Number of steps of a task."""
    with steps.each(lambda _: None) as count:
        task()
    return count[0]


def every_switch(task: Callable[[], T], other: Task, reset: Task, steps: Steps, at_most: int | None = None) -> list[T]:
    """What the task returns when `other` runs from start to end before a step of it: for each of the first steps, after `reset`."""
    results = []
    reset()
    n_steps = count_steps(task, steps)
    for at in range(n_steps if at_most is None else min(n_steps, at_most)):
        reset()
        with steps.each(lambda number, at=at: other() if number == at else None):  # type: ignore[misc]
            results.append(task())
    return results


def every_two_switches(task: Callable[[], T], other: Task, reset: Task, steps: Steps) -> list[T]:
    """What the task returns when `other` runs before a step of it, but only up to a step of its own, and ends when the task has ended."""
    results = []
    reset()
    ends = count_steps(other, steps)
    reset()
    for at in range(count_steps(task, steps)):
        for end in range(ends):
            reset()
            paused = _Paused(other, end, steps)
            try:
                with steps.each(lambda number, at=at, paused=paused: paused.start() if number == at else None):  # type: ignore[misc]
                    results.append(task())
            finally:
                paused.finish()
    return results
