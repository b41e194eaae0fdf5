"""Signals that wait until a step is complete."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    Handler = Callable[[int, FrameType | None], object]

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Deferred:
    """A block that no signal interrupts: the first signal that arrives is handled at the end of the block.

    This works for signals that have a Python handler, on the main thread. On other threads the block has no effect.
    """

    def __init__(self) -> None:
        self._before: dict[int, Handler] = {}
        self._arrived: list[int] = []
        self._holding = True

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        try:
            for name in NAMES:
                number = getattr(signal, name, None)
                handler = None if number is None else signal.getsignal(number)
                if number is not None and callable(handler):
                    self._before[number] = handler
                    signal.signal(number, self._take)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()
        if self._arrived:
            self._before[self._arrived[0]](self._arrived[0], None)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._holding:
            self._arrived.append(number)
        else:
            self._before[number](number, frame)

    def _restore(self) -> None:
        # From here on signals are passed on at once, so one may interrupt the loop.
        self._holding = False
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._take:
                signal.signal(number, handler)
