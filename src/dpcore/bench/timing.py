"""Times of works that take turns, so that a change of the machine's speed affects all of them."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dpcore.bench.benchmark import Work

TURN = 2e-4
"""Least seconds of a turn. Turns are short, so that many of them meet no other work, and long beside the clock's own time."""
MOST_CALLS = 1 << 16
TRIES = 3
"""How often a number of calls is timed before it is taken for a turn."""
Stopwatch = Callable[[Work, int], float]
"""From a work and a number of calls to the seconds of a call."""


def by_clock(work: Work, calls: int) -> float:
    """Seconds of a call by the clock.

    Parameters
    ----------
    work : callable
        What is called.
    calls : int
        How many times.
    """
    clock = time.perf_counter
    start = clock()
    for _ in range(calls):
        work()
    return (clock() - start) / calls


def by_children(work: Work, calls: int) -> float:
    """Seconds of CPU time of the child processes that a call runs; where the system does not count them, seconds by the clock.

    Parameters
    ----------
    work, calls
        As for `by_clock`.
    """
    try:
        import resource
    except ModuleNotFoundError:
        return by_clock(work, calls)

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    start = used()
    for _ in range(calls):
        work()
    return (used() - start) / calls


@contextmanager
def without_collection() -> Iterator[None]:
    """Turn the garbage collector off."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def calls_of_a_turn(work: Work, stopwatch: Stopwatch = by_clock, least: float = TURN) -> tuple[int, float]:
    """Return how many calls make a turn, and the seconds of a call. The work has been called before.

    Parameters
    ----------
    work : callable
        What is timed.
    stopwatch : callable, default by_clock
        How.
    least : float
        Least seconds of a turn.
    """
    calls = 1
    while True:
        # The least of several: a turn that other work interrupts looks long, and would be taken for a slow call.
        seconds = min(stopwatch(work, calls) for _ in range(TRIES))
        if seconds * calls >= least or calls >= MOST_CALLS:
            return calls, seconds
        calls = min(MOST_CALLS, max(2 * calls, round(1.2 * least / max(seconds, 1e-9))))


def take_turns(
    works: Sequence[Work],
    calls: Sequence[int],
    seconds: float,
    *,
    stopwatch: Stopwatch = by_clock,
    once: Sequence[bool] = (),
    least: int = 1,
    deadline: float = math.inf,
) -> list[list[float]]:
    """Time works in turns.

    Parameters
    ----------
    works : sequence of callable
        Functions without arguments, called before. Their order alternates, so that none is always the one after another.
    calls : sequence of int
        Calls of each in a turn.
    seconds : float
        How long the turns go on; there is at least one.
    stopwatch : callable, default by_clock
        What measures.
    once : sequence of bool, optional
        Which of them take part in the first turn only, because they are slow.
    least : int, default 1
        Least number of turns.
    deadline : float, optional
        A reading of `time.perf_counter` after which no second turn begins.

    Returns
    -------
    list of list of float
        Seconds of a call, for each work and turn.

    Raises
    ------
    Exception
        Any error of the works.

    Notes
    -----
    Cost: `seconds`, or one turn of each work. The garbage collector is off in the meantime.

    Examples
    --------
    >>> from dpcore.bench import take_turns
    >>> fast, slow = take_turns([lambda: sum(range(100)), lambda: sum(range(20_000))], [10, 1], seconds=0.01)
    >>> min(fast) < min(slow)
    True
    """
    found: list[list[float]] = [[] for _ in works]
    end = time.perf_counter() + seconds
    turn = 0
    with without_collection():
        while turn == 0 or (time.perf_counter() < deadline and (turn < least or time.perf_counter() < end)):
            order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
            for i in order:
                if turn == 0 or not (once and once[i]):
                    found[i].append(stopwatch(works[i], calls[i]))
            turn += 1
            if once and all(once):
                break
    return found
