"""Timing of two functions in turns, so that a change of the machine's speed affects both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], object]
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians over the rounds of one comparison.

    Attributes
    ----------
    ours, other : float
        Seconds of one call.
    ratio : float
        Median over the rounds of other ÷ ours: above 1, ours is faster.
    """

    ours: float
    other: float
    ratio: float


def _seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def take_turns(ours: Work, other: Work, rounds: int = ROUNDS) -> Timing:
    """Time two functions in turns.

    Parameters
    ----------
    ours, other : callable
        Functions without arguments. Each is called once to warm up and then once in each round.
    rounds : int, default 9
        Number of rounds.

    Returns
    -------
    Timing
        Medians of both times, and of their ratio within a round.

    Raises
    ------
    Exception
        Any error of the two functions.

    Notes
    -----
    Cost: rounds + 1 calls of each function. The garbage collector is off in the meantime.

    Examples
    --------
    >>> from dpcore.bench import take_turns
    >>> timing = take_turns(lambda: sum(range(100)), lambda: sum(range(20_000)), rounds=3)
    >>> timing.ratio > 1
    True
    """
    ours(), other()
    collecting = gc.isenabled()
    gc.disable()
    try:
        pairs = [(_seconds(ours), _seconds(other)) for _ in range(rounds)]
    finally:
        if collecting:
            gc.enable()
    mine, theirs = zip(*pairs, strict=True)
    return Timing(statistics.median(mine), statistics.median(theirs), statistics.median(b / a for a, b in pairs))
