"""Times of sums, which means are made of, compared with the speed of memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, sums
from dpcore.bench.local import copying
from dpcore.bench.noise import at_levels
from dpcore.bench.table import Row
from dpcore.bench.timing import Timing, Work, take_turns

Array = npt.NDArray[Any]
RADIUS = 1.0
BANDWIDTH = 0.6
"""Share of the memory's speed that `clipped_sum` reaches."""
COLUMNS = (None, 3, 10, 1000)
"""Shapes (n,) and (n/d, d)."""


@dataclass(frozen=True, slots=True)
class SumCase:
    """`clipped_sum` of one shape.

    Attributes
    ----------
    columns : int or None
        Number of columns; None for a one-dimensional array.
    """

    columns: int | None

    @property
    def name(self) -> str:
        """Name in the report."""
        return "clipped_sum (n,)" if self.columns is None else f"clipped_sum (n, {self.columns})"

    def values(self, n: int) -> Array:
        """Random values, a third of them clipped; n in all, up to a last row."""
        values = np.random.default_rng(1).standard_normal(n)
        return values if self.columns is None else values[: n - n % self.columns].reshape(-1, self.columns)

    def work(self, values: Array, threads: int = 1) -> Work:
        """Add them up."""
        return partial(sums.clipped_sum, values, RADIUS, threads=threads)


def sum_cases() -> tuple[SumCase, ...]:
    """All shapes that are timed."""
    return tuple(map(SumCase, COLUMNS))


def check_sum(case: SumCase, values: Array) -> None:
    """Raise if the sum is wrong. Each value may move by half a grid."""
    rows = values.reshape(len(values), -1)
    found = np.atleast_1d(np.asarray(sums.clipped_sum(values, RADIUS).high))
    for column in {0, rows.shape[1] - 1}:
        expected = math.fsum(np.clip(rows[:, column], -RADIUS, RADIUS))
        if not abs(found[column] - expected) <= len(rows) * 2.0**-51:
            raise AssertionError(f"{case.name}: column {column} is {abs(found[column] - expected)!r} off")


def _row(case: SumCase, against: str, level: str, threads: int, timing: Timing, n: int, **more: Any) -> Row:
    ns = 1e9 / n
    return Row(case.name, against, level, threads, timing.ours * ns, timing.other * ns, timing.ratio, **more)


def plain_sum_row(case: SumCase, values: Array, level: str, rounds: int) -> Row:
    """Ours against NumPy's sum, which does not clip: for one column it reads at the speed of memory."""
    timing = take_turns(case.work(values), partial(values.sum, axis=0), rounds)
    return _row(case, "np.sum, not clipped", level, 1, timing, values.size, target=BANDWIDTH)


def bandwidth_row(case: SumCase, values: Array, level: str, rounds: int) -> Row:
    """Ours against a copy, which moves every byte twice, in bytes a second."""
    timing = take_turns(case.work(values), copying(values), rounds)
    by_bytes = Timing(timing.ours, timing.other / 2, timing.ratio / 2)
    return _row(case, "bytes a second of a copy", level, 1, by_bytes, values.size, target=BANDWIDTH)


def thread_row(case: SumCase, values: Array, level: str, threads: int, rounds: int) -> Row:
    """One thread against all. There is no target, as the speed of memory limits the gain."""
    timing = take_turns(case.work(values, threads), case.work(values), rounds)
    return _row(case, "itself on one thread", level, threads, timing, values.size)


def means_bounds(n: int, rounds: int) -> list[Row]:
    """The rows without a peer, at every level of this machine."""
    rows, threads = [], _backend.default_threads()
    for level in at_levels():
        for case in sum_cases():
            values = case.values(max(n, 1000))
            check_sum(case, values)
            rows.append(plain_sum_row(case, values, level, rounds))
            rows.append(bandwidth_row(case, values, level, rounds))
            if threads > 1:
                rows.append(thread_row(case, values, level, threads, rounds))
    return rows
