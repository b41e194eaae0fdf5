"""The merging of the statistics of many tasks in one process, without Spark: what tasks send, what merging tasks do, what the driver does.

Nothing is scaled but what says so: each of 10⁵ tasks sends its pieces, which are those of 40 different parts in turn, so that the
right sums are known; a merging task adds up all pieces of its ranges. Run it with

    PYTHONPATH=tests python -m support.statistics_simulation --tasks 100000 --groups 1000000
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcore.query.statistics import SumsOfGroups
from dpcore.spark.part_totals import PartOfTotals, merged
from dpcore.spark.partitions import merging

DIFFERENT = 40
"""Parts that differ; the others are like them, in turn."""


@dataclass
class Found:
    """What a run took.

    Attributes
    ----------
    sent : int
        Bytes that a task sends, on average.
    moved : int
        Bytes that all tasks send.
    mergers, simulated : int
        Tasks that merge, and how many of them were run.
    slowest, memory : float
        CPU seconds of the slowest of them, and the most bytes that one held at a time beside a piece.
    driver, driver_memory : float
        The same of the driver, which puts all merged ranges together.
    is_right : bool
        Whether the sums of all ranges that were merged are those of the parts.
    """

    sent: int
    moved: int
    mergers: int
    simulated: int
    slowest: float
    memory: int
    driver: float
    driver_memory: int
    is_right: bool


def part(groups: int, held: int, seed: int) -> PartOfTotals:
    """A part that holds so many groups: all, or some of which few are in most parts, as names of persons or towns are."""
    chance = np.random.default_rng(seed)
    where = np.arange(groups) if held >= groups else np.unique((groups * chance.random(held) ** 3).astype(np.int64))
    total = SumsOfGroups(groups, -1000.0, 1000.0)
    total.totals[where, 0] = chance.integers(-(2**63), 2**63, len(where))
    total.totals[where, 1] = chance.integers(-5, 5, len(where))
    total.totals[where, 2] = chance.integers(1, 100, len(where))
    return PartOfTotals([total], int(total.totals[:, 2].sum()))


def whole(total: SumsOfGroups) -> list[tuple[int, int]]:
    """Its sums and numbers of rows, as integers of Python."""
    return [((high << 64) + low % 2**64, rows) for low, high, rows in total.totals.tolist()]


def simulate(tasks: int, groups: int, held: int, most_mergers: int) -> Found:
    """Run the merging; of the tasks that merge at most so many, evenly chosen, whose ranges alone are then compared."""
    nothing = _empty(groups)
    parts = [part(groups, held, seed) for seed in range(min(DIFFERENT, tasks))]
    pieces = [list(each.pieces()) for each in parts]
    sizes = [sum(len(piece) for _, piece in each) for each in pieces]
    turns = [len(range(start, tasks, len(parts))) for start in range(len(parts))]
    steps = merging(nothing.size, nothing.ranges, tasks)
    assert len(steps) == 1, "with few groups a range is shared; the simulation is one of many"
    mergers, _ = steps[0]
    ran = sorted({round(place) for place in np.linspace(0, mergers - 1, min(most_mergers, mergers))})
    of_mergers: dict[int, list[list[tuple[int, bytes]]]] = {each: [[] for _ in pieces] for each in ran}
    for number, each in enumerate(pieces):
        for place, piece in each:
            if place % mergers in of_mergers:
                of_mergers[place % mergers][number].append((place, piece))
    slowest, memory, sent = 0.0, 0, []
    for each in ran:
        own = of_mergers[each]
        seconds, _, found = _measured(lambda own=own: list(merged(_pieces(own, tasks)).pieces()))
        _, bytes_held, _ = _measured(lambda own=own: list(merged(_pieces(own, min(tasks, 1000))).pieces()), is_traced=True)
        slowest, memory = max(slowest, seconds), max(memory, bytes_held)
        sent += found
    total = nothing.filled(merged(sent))
    # What comes to the driver does not grow with the tasks: each group once, if some part holds it.
    every = list(merged(piece for each in pieces for piece in each).pieces())
    driver, driver_memory = (
        _measured(lambda: _empty(groups).filled(merged(every)), is_traced=is_traced)[is_traced] for is_traced in (False, True)
    )
    is_right = _compared(total, parts, turns, {place for place, _ in sent})
    moved = sum(size * turn for size, turn in zip(sizes, turns, strict=True))
    return Found(sum(sizes) // len(sizes), moved, mergers, len(ran), slowest, memory, driver, driver_memory, is_right)


def _empty(groups: int) -> PartOfTotals:
    return PartOfTotals([SumsOfGroups(groups, -1000.0, 1000.0)], 0)


def _pieces(own: list[list[tuple[int, bytes]]], tasks: int) -> Iterator[tuple[int, bytes]]:
    """What so many tasks send to one that merges."""
    return (piece for task in range(tasks) for piece in own[task % len(own)])


def _measured(action: Callable[[], Any], *, is_traced: bool = False) -> tuple[float, int, Any]:
    """CPU seconds, bytes (if they are traced, which takes time), and the result."""
    if is_traced:
        tracemalloc.start()
    start = time.process_time()
    found = action()
    seconds = time.process_time() - start
    held = tracemalloc.get_traced_memory()[1] if is_traced else 0
    tracemalloc.stop()
    return seconds, held, found


def _compared(total: PartOfTotals, parts: list[PartOfTotals], turns: list[int], places: set[int]) -> bool:
    """Whether groups in these ranges have the sums of all parts, each so many times, in integers of Python."""
    wanted: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    length = 512
    chosen = [place for place in sorted(places) if place * length < len(total.totals[0].totals)][:40]
    where = np.concatenate([np.arange(place * length, min((place + 1) * length, len(total.totals[0].totals))) for place in chosen])
    for each, turn in zip(parts, turns, strict=True):
        some = SumsOfGroups(0, -1.0, 1.0)
        some.totals = each.totals[0].totals[where]
        for group, (value, rows) in zip(where.tolist(), whole(some), strict=True):
            known = wanted[group]
            wanted[group] = (known[0] + turn * value, known[1] + turn * rows)
    some = SumsOfGroups(0, -1.0, 1.0)
    some.totals = total.totals[0].totals[where]
    return whole(some) == [wanted[group] for group in where.tolist()]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tasks", type=int, default=100_000)
    options.add_argument("--groups", type=int, default=1_000_000)
    options.add_argument("--held", type=int, default=100, help="groups of a task in the skewed case")
    options.add_argument("--mergers", type=int, default=4, help="tasks that merge and are run, of all that there are")
    said = options.parse_args()
    for word, held in (("dense", said.groups), ("skewed", said.held)):
        found = simulate(said.tasks, said.groups, held, said.mergers)
        print(
            f"{word}: a task sends {found.sent / 1e6:.3f} MB, all {found.moved / 1e9:.1f} GB to {found.mergers} tasks, of which one takes "
            f"{found.slowest:.1f} s of CPU and {found.memory / 1e6:.1f} MB (the slowest of {found.simulated}); the driver takes "
            f"{found.driver:.3f} s and {found.driver_memory / 1e6:.1f} MB; right: {found.is_right}",
            flush=True,
        )


if __name__ == "__main__":
    main()
