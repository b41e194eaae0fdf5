"""Exact sums and private means beside their peers and the memory's speed: `make bench`. Each benchmark checks its answer.

`python -m pytest benchmarks/bench_means.py` prints the table of ratios; DPCORE_BENCH_VALUES is the number of values (10^7). Times are
nanoseconds a value.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpcore import _backend, inference
from dpcore.bench import Row, take_turns
from dpcore.bench.means import RADIUS, SumCase, bandwidth_row, check_sum, plain_sum_row, sum_cases, thread_row
from peers_means import EPSILON, PEERS, MeanPeer
from ratios import ABSENT, ROWS

N = int(os.environ.get("DPCORE_BENCH_VALUES", "10000000"))
ROUNDS = 9
THREADS = _backend.default_threads()
each_case = pytest.mark.parametrize("case", sum_cases(), ids=lambda case: case.name)


def compare(benchmark: Any, comparison: Callable[[], Row]) -> None:
    """Keep the row for the table and in the benchmark's record, whose own time is that of the whole comparison."""
    row = benchmark.pedantic(comparison, rounds=1)
    ROWS.append(row)
    benchmark.extra_info.update(ratio=row.ratio, against=row.against, target=row.target, met=row.met, ours_ns=row.ours_ns)


def checked(case: SumCase) -> Any:
    values = case.values(N)
    check_sum(case, values)
    return values


@each_case
def test_bandwidth(case: SumCase, level: str, benchmark: Any) -> None:
    compare(benchmark, partial(bandwidth_row, case, checked(case), level, ROUNDS))


@each_case
def test_plain_sum(case: SumCase, level: str, benchmark: Any) -> None:
    compare(benchmark, partial(plain_sum_row, case, checked(case), level, ROUNDS))


@each_case
def test_threads(case: SumCase, level: str, benchmark: Any) -> None:
    if THREADS == 1:
        pytest.skip("one core")
    compare(benchmark, partial(thread_row, case, checked(case), level, THREADS, ROUNDS))


def mean_row(peer: MeanPeer, level: str) -> Row:
    """Ours against a peer's private mean of the same column, one thread each."""
    x = SumCase(None).values(round(N * peer.share))
    ours = partial(inference.mean, x, EPSILON, 0.0, RADIUS, threads=1)
    theirs = peer.prepare(x)
    timing = take_turns(ours, theirs, ROUNDS)
    truth, noise = float(np.clip(x, -RADIUS, RADIUS).mean()), 2 * RADIUS / (EPSILON * x.size)
    for name, value in (("inference.mean", ours().value), (peer.name, theirs())):
        # Laplace noise beyond 30 scales has probability 10^-13.
        if not abs(float(value) - truth) < 30 * noise:
            raise AssertionError(f"{name}: {abs(float(value) - truth) / noise:.1f} noise scales off")
    ns = 1e9 / x.size
    return Row("inference.mean (n,)", peer.name, level, 1, timing.ours * ns, timing.other * ns, timing.ratio)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_mean(peer: MeanPeer, level: str, benchmark: Any) -> None:
    if not peer.installed:
        ABSENT.append(f"{peer.name}: {peer.package} is not installed")
        pytest.skip(f"{peer.package} is not installed")
    compare(benchmark, partial(mean_row, peer, level))
