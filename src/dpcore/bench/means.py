"""Exact sums and private means beside NumPy, their peers, and the speed of the memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import inference, sums
from dpcore._dataclasses import dataclass
from dpcore.bench._peers.means import EPSILON, PEERS, RADIUS, MeanPeer
from dpcore.bench.benchmark import Benchmark, Plan, Prepare, Side, Work
from dpcore.bench.noise import copy
from dpcore.bench.scaling import thread_benchmark, thread_counts

Array = npt.NDArray[Any]
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


def _inputs(case: SumCase, n: int) -> tuple[Array]:
    return (case.values(max(n, 1000)),)


def _summing(case: SumCase, n: int, threads: int, group: str, sides: tuple[Side, ...], **more: Any) -> Benchmark:
    size = max(n, 1000)
    return Benchmark(
        group=group, name=case.name, size=size - size % (case.columns or 1), threads=threads, inputs=partial(_inputs, case, n),
        ours=lambda made: case.work(made[0], threads), check=lambda made, _result: check_sum(case, made[0]), sides=sides, **more,
    )  # fmt: skip


def _mean_side(peer: MeanPeer, size: int) -> Side:
    count = round(size * peer.share)
    return Side(
        name=peer.name, package=peer.package, safe=peer.safe, size=None if count == size else count,
        prepare=lambda made: peer.prepare(made[0][:count]),
        check=lambda made, result: check_mean(peer.name, made[0][:count], float(result)),
    )  # fmt: skip


def check_mean(name: str, values: Array, found: float) -> None:
    """Raise if a private mean is more than 30 scales of its noise off, which has probability 10^-13."""
    truth, noise = float(np.clip(values, -RADIUS, RADIUS).mean()), 2 * RADIUS / (EPSILON * values.size)
    if not abs(found - truth) < 30 * noise:
        raise AssertionError(f"{name}: {abs(found - truth) / noise:.1f} noise scales off")


def sum_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Sums of several shapes, and the private mean of one column.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    for case in sum_cases():
        plain = Side(name="np.sum, not clipped", prepare=lambda made: partial(made[0].sum, axis=0), kind="bound", judges=True)
        yield _summing(case, plan.size, 1, "sums", (plain, Side(name="copy", prepare=copy, kind="bound")), levels=case.columns is None)
    size = max(plan.size, 1000)
    yield Benchmark(
        group="sums", name="inference.mean (n,)", size=size, inputs=partial(_inputs, SumCase(None), plan.size),
        ours=lambda made: partial(inference.mean, made[0], EPSILON, 0.0, RADIUS, threads=1),
        check=lambda made, result: check_mean("inference.mean", made[0], float(result.value)),
        sides=tuple(_mean_side(peer, size) for peer in PEERS),
    )  # fmt: skip


def sum_thread_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Sums on several threads, beside one.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    size = max(plan.threaded or plan.size, 1000)
    for case in sum_cases():
        for threads in thread_counts(plan.cores):
            yield thread_benchmark(
                case.name, size - size % (case.columns or 1), threads, partial(_inputs, case, size), partial(_on, case),
                partial(_check_any, case), bound_by="memory", quick=case.columns is None,
            )  # fmt: skip


def _on(case: SumCase, threads: int) -> Prepare:
    return lambda made: case.work(made[0], threads)


def _check_any(case: SumCase, made: tuple[Array], _result: object) -> None:
    check_sum(case, made[0])
