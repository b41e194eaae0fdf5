"""Runs benchmarks: all of them several times, a block of turns each time, so that every row sees the machine at several moments."""

from __future__ import annotations

import math
import os
import statistics
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from dpcore import _backend
from dpcore.bench.bands import undisturbed
from dpcore.bench.benchmark import Benchmark, Side, Work, installed
from dpcore.bench.machine import commit_record, machine_record
from dpcore.bench.results import OURS, Absent, Broken, Jitter, Results, Row, Timed
from dpcore.bench.schedule import Progress, measure_all
from dpcore.bench.timing import MOST_CALLS, TURN, by_children, by_clock, calls_of_a_turn, take_turns
from dpcore.pages.printable import printable

KEPT = 1 << 17
"""Inputs of so many units stay in memory between blocks."""
LARGE = 10**5
"""From this size on the memory of a call is measured."""
LONG = 20.0
"""A first call that is longer than so many turns is not repeated to find out how many calls make a turn."""
WAIT = 0.5
"""Seconds; a call that is longer is not repeated only to find out how long it is."""
LEAST_TURNS = {"call": 5, "cache": 5, "compute": 3, "memory": 3, "whole": 1}
"""Turns of a block, but for slow sides: the first turn finds the cache cold, and other work interrupts some."""
COPIED = 1 << 23
"""Bytes of the copy that measures the noise of the machine: more than most caches keep for one program."""
LONGEST_REASON = 300
DIGITS = 6
"""Digits of a time; the clock has no more."""


class _OutOfTimeError(Exception):
    """The run must end: a row that has no block yet is left out."""


class _Running:
    """One side of a row while it is measured."""

    def __init__(self, name: str, kind: str, size: int, side: Side | None = None) -> None:
        self.name, self.kind, self.size, self.side = name, kind, size, side
        self.blocks: list[float | None] = []
        self.turns, self.calls, self.seconds, self.spent = 0, 1, 0.0, 0.0
        self.peak: int | None = None
        self.cpu: list[float] = []
        self.why: str | None = None

    def timed(self) -> Timed:
        """The result."""
        side = self.side
        return Timed(
            self.name, self.kind, self.size, tuple(self.blocks), self.turns, self.calls, safe=side is None or side.safe,
            package="numpy" if side is None else side.package, judges=side is not None and side.judges, peak_bytes=self.peak,
            cpu_seconds=float(f"{statistics.median(self.cpu):.{DIGITS}g}") if self.cpu else None,
        )  # fmt: skip


class _RowInProgress:
    """A benchmark at one CPU level while it is measured."""

    def __init__(self, item: Benchmark, level: str, *, best: bool, memory: bool) -> None:
        self.item, self.level = item, level
        self._memory = memory and best and not item.children
        self.ours = _Running(OURS, "ours", item.size)
        # A peer does not depend on our CPU level: beside the other levels stand bounds only.
        sides = [side for side in item.sides if installed(side.package) and (best or side.kind != "peer")]
        self.others = [_Running(side.name, side.kind, side.size or item.size, side) for side in sides]
        self.spent, self.cheapest, self.visits = 0.0, math.inf, 0
        self._deadline = math.inf
        self._stopwatch = by_children if item.children else by_clock
        self._kept: list[tuple[Any, list[Work]]] = []

    @property
    def weight(self) -> float:
        """Its share of the time: more for a row with many sides, less for calls on few values, which need little."""
        return self.item.weight * (0.25 if self.item.character == "call" else 0.6 + 0.2 * len(self.others))

    @property
    def is_short(self) -> bool:
        """Whether it needs little time."""
        return self.item.character in {"call", "cache"}

    @property
    def is_broken(self) -> bool:
        """Whether our side has failed."""
        return self.ours.why is not None

    @property
    def alive(self) -> list[_Running]:
        """Sides that are not broken."""
        return [side for side in (self.ours, *self.others) if side.why is None]

    def visit(self, allowance: float, deadline: float) -> None:
        """Measure a block of turns, about as long as allowed; after the deadline no turn begins."""
        start, self._deadline = time.perf_counter(), deadline
        _backend.select_level(self.level)
        try:
            self._measure(allowance)
        except _OutOfTimeError:
            self._kept.clear()
        except Exception as error:
            self.ours.why = _reason(error)
        seconds = time.perf_counter() - start
        self.visits, self.spent, self.cheapest = self.visits + 1, self.spent + seconds, min(self.cheapest, seconds)

    def _measure(self, allowance: float) -> None:
        inputs, works = self._kept.pop() if self._kept else self._prepared()
        if self.visits == 0:
            works = self._first_calls(inputs, works)
        sides = self.alive
        if self.ours.why is not None:
            return
        taking = [side is self.ours or self._takes_part(side, allowance) for side in sides]
        chosen = [i for i, part in enumerate(taking) if part]
        calls = [sides[i].calls for i in chosen]
        least = LEAST_TURNS[self.item.character]
        turns_of = [sides[i].seconds * sides[i].calls for i in chosen]
        slow = [seconds > allowance / least / min(4, len(chosen)) and least * sum(turns_of) > allowance for seconds in turns_of]
        timed = [self._counted(sides[i], works[i]) for i in chosen]
        self._go_on()
        try:
            if self.item.children and self.visits:
                for i in chosen:
                    works[i]()  # the files of a program leave memory while other rows are measured
            turns = take_turns(timed, calls, allowance, stopwatch=self._stopwatch, once=slow, least=least, deadline=self._deadline)
        except Exception:
            self._find_broken(sides, works)  # the next block goes on without them
            return
        self._keep(sides, chosen, turns)
        if self.item.size <= KEPT:
            self._kept.append((inputs, works))

    def _go_on(self) -> None:
        """Raise if the run must end."""
        if time.perf_counter() >= self._deadline:
            raise _OutOfTimeError

    def _counted(self, side: _Running, work: Work) -> Work:
        """The work, which also writes down the CPU time of all threads that it uses, if it uses several."""
        if self.item.threads == 1 or self.item.children:
            return work

        def counted() -> None:
            before = time.process_time()
            work()
            side.cpu.append(time.process_time() - before)

        return counted

    def _prepared(self) -> tuple[Any, list[Work]]:
        inputs = self.item.inputs()
        works: list[Work] = [self.item.ours(inputs)]
        for other in self.others:
            self._go_on()
            if other.why is None and other.side is not None:
                try:
                    works.append(other.side.prepare(inputs))
                except Exception as error:
                    other.why = _reason(error)
        return inputs, works

    def _first_calls(self, inputs: Any, works: list[Work]) -> list[Work]:
        """Check each answer, and find how many calls make a turn. Return the works that gave none wrong."""
        good: list[Work] = []
        for side, work in zip(self.alive, works, strict=True):
            self._go_on()
            begin = time.perf_counter()
            try:
                result, first = self._first_call(side, work)
                check = self.item.check if side.side is None else side.side.check
                if check is not None:
                    check(inputs, result)
                del result
                if LONG * TURN < first < WAIT:
                    first = min(first, self._stopwatch(work, 1))  # other work may have interrupted it
                side.calls, side.seconds = (1, first) if first > LONG * TURN else calls_of_a_turn(work, self._stopwatch)
                good.append(work)
            except Exception as error:
                side.why = _reason(error)
            side.spent += time.perf_counter() - begin
        return good

    def _first_call(self, side: _Running, work: Work) -> tuple[Any, float]:
        """The result, and seconds. The memory is measured too, but not that of peers that take one value a call: it would take long."""
        begin = time.perf_counter()
        if self._memory and self.item.size >= LARGE and (side.side is None or side.side.size is None):
            result, side.peak = _peak(work)
        else:
            result = work()
        return result, time.perf_counter() - begin

    def _find_broken(self, sides: Sequence[_Running], works: Sequence[Work]) -> None:
        for side, work in zip(sides, works, strict=True):
            try:
                work()
            except Exception as error:
                side.why = _reason(error)

    def _takes_part(self, side: _Running, allowance: float) -> bool:
        """A slow side takes part as long as it has not used more time than all others should."""
        return self.visits == 0 or side.seconds * side.calls <= allowance / 2 or side.spent <= self.spent / 3

    def _keep(self, sides: Sequence[_Running], chosen: Sequence[int], turns: Sequence[Sequence[float]]) -> None:
        for side in (self.ours, *self.others):
            side.blocks.append(None)
        for i, measured in zip(chosen, turns, strict=True):
            side = sides[i]
            side.blocks[-1] = float(f"{undisturbed(measured):.{DIGITS}g}")
            side.turns += len(measured)
            side.seconds = min(side.seconds, *measured)
            if side.calls * side.seconds < TURN / 2:
                side.calls = min(MOST_CALLS, math.ceil(TURN / side.seconds)) if side.seconds > 0 else MOST_CALLS
            side.spent += sum(measured) * side.calls

    def row(self) -> Row | None:
        """The result; None if nothing was measured."""
        if self.ours.why is not None or not any(self.ours.blocks):
            return None
        item, others = self.item, [side.timed() for side in self.others if side.why is None and any(side.blocks)]
        return Row(item.group, item.name, item.size, item.unit, item.threads, self.level, item.character, self.ours.timed(), tuple(others))

    def broken(self) -> list[Broken]:
        """Sides that raised an error or gave a wrong answer."""
        return [Broken(self.item.name, side.name, side.why) for side in (self.ours, *self.others) if side.why is not None]


def _reason(error: Exception) -> str:
    return printable(f"{type(error).__name__}: {error}".rstrip(": "))[:LONGEST_REASON]


def _peak(work: Work) -> tuple[object, int]:
    """The result of a call, and the bytes that it allocates at most; NumPy's arrays are counted."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = work()
        return result, max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


class _NoiseMeter:
    """Times one copy between rows."""

    def __init__(self) -> None:
        self._source = np.ones(COPIED // 8)
        self._target = np.ones(COPIED // 8)
        self.times: list[float] = []

    def look(self) -> None:
        """Copy once more; two copies bring back what a row has driven out of the caches, which is no noise of the machine."""
        copy = partial(np.copyto, self._target, self._source)
        copy()
        copy()
        self.times.append(float(f"{by_clock(copy, 1):.{DIGITS}g}"))


def absent_packages(items: Iterable[Benchmark]) -> tuple[Absent, ...]:
    """Packages that are not installed, each with what it keeps from being measured.

    Parameters
    ----------
    items : iterable of Benchmark
        What would run.
    """
    names: dict[str, dict[str, None]] = {}
    for item in items:
        for package, name in ((item.package, item.name), *((side.package, side.name) for side in item.sides)):
            if not installed(package):
                names.setdefault(package, {})[name] = None
    return tuple(Absent(package, tuple(found)) for package, found in names.items())


def _levels() -> tuple[str, ...]:
    """All levels of this machine, the best first; one if the environment has chosen it."""
    return (_backend.selected_level(),) if os.environ.get("DPCORE_ISA") else _backend.available_levels()[::-1]


def run(
    items: Sequence[Benchmark],
    seconds: float,
    *,
    mode: str,
    levels: Sequence[str] = (),
    progress: Progress | None = None,
    grace: float = 0.0,
) -> tuple[Results, BaseException | None]:
    """Measure benchmarks.

    Parameters
    ----------
    items : sequence of Benchmark
        What runs. Those whose package is absent do not.
    seconds : float
        How long the run takes. After it no call begins; what there was no time for is left out, and named.
    mode : str
        "quick" or "full": it is written down, and a quick run has other CPU levels only for work in the cache.
    levels : sequence of str, optional
        CPU levels, the best first. Default: those of this machine, or the one that DPCORE_ISA names.
    progress : callable, optional
        Called as progress(done, total) after each block.
    grace : float, default 0
        Seconds by which the first blocks of all rows may exceed the time.

    Returns
    -------
    results : Results
        What was measured until the end, or until an interruption.
    interruption : BaseException or None
        What ended the run early.
    """
    every = tuple(levels) or _levels()
    before, start = _backend.selected_level(), time.perf_counter()
    rows = [
        _RowInProgress(item, level, best=level == every[0], memory=mode != "quick")
        for item in items
        if installed(item.package)
        for level in (every if item.levels and (mode != "quick" or item.character == "cache") else every[:1])
    ]
    meter = _NoiseMeter()
    interruption: BaseException | None = None
    try:
        measure_all(rows, start + seconds, meter.look, progress, grace=grace)
    except Exception:
        raise
    except BaseException as error:  # a signal: what is done is kept
        interruption = error
    finally:
        _backend.select_level(before)
    found = [(row, row.row()) for row in rows]
    results = Results(
        rows=tuple(done for _, done in found if done is not None), machine=machine_record(), commit=commit_record(), mode=mode,
        unreached=tuple(row.item.name for row, done in found if done is None and not row.is_broken),
        noise=Jitter(tuple(meter.times)), absent=absent_packages(items), broken=tuple(b for row in rows for b in row.broken()),
        interrupted=interruption is not None, seconds=time.perf_counter() - start, made=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip
    return results, interruption
