"""Selection beside its peers and bounds: `make bench`. Each benchmark checks its answer, and the peer's too.

`python -m pytest benchmarks/bench_selection.py` prints the table of ratios; DPCORE_BENCH_VALUES is the number of values (10^7): argmax
and the rows of threads take as many scores, all others a tenth. Times are nanoseconds a score.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dpcore import _backend
from dpcore.bench import Row
from dpcore.bench.selection import (
    SHAPES,
    TIMED,
    argmax_row,
    check_choice,
    check_ours,
    peer_timing_row,
    selection_cases,
    thread_row,
    time_row,
    unpruned_row,
)
from peers_selection import PEERS, SelectionPeer
from ratios import ABSENT, ROWS

N = int(os.environ.get("DPCORE_BENCH_VALUES", "10000000"))
ROUNDS, SLOW_REPEATS = 7, 20
CASES = {case.name: case for case in selection_cases()}
THREADS = _backend.default_threads()
LEVELS = _backend.available_levels()[::-1]
each_case = pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)


def compare(benchmark: Any, comparison: Callable[[], Row]) -> None:
    """Keep the row for the table and in the benchmark's record, whose own time is that of the whole comparison."""
    row = benchmark.pedantic(comparison, rounds=1)
    ROWS.append(row)
    benchmark.extra_info.update(ratio=row.ratio, against=row.against, target=row.target, met=row.met, ours_ns=row.ours_ns)


def peer_row(peer: SelectionPeer, level: str) -> Row:
    case = CASES[peer.ours]
    d = max(1000, round(case.size(N) * peer.share))
    check_choice(case, lambda scores: peer.prepare(case, scores)(), 1000)
    scores = case.scores(d, peer.shape)
    counts = {"rounds": peer.rounds, "repeats": SLOW_REPEATS if peer.slow else 1}
    more = {"target": None if level == "baseline" else peer.target, "required": not peer.goal}
    return peer_timing_row(case, peer.name, level, scores, peer.prepare(case, scores), **counts, **more)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: f"{peer.ours}-{peer.name}")
def test_peer(peer: SelectionPeer, level: str, benchmark: Any) -> None:
    if not peer.installed:
        ABSENT.append(f"{peer.name}: {peer.package} is not installed")
        pytest.skip(f"{peer.package} is not installed")
    if peer.slow and level != LEVELS[0]:
        pytest.skip("slow peers are measured at the best level")
    compare(benchmark, partial(peer_row, peer, level))


@each_case
def test_argmax(case: Any, level: str, benchmark: Any) -> None:
    check_ours(case)
    compare(benchmark, partial(argmax_row, case, level, case.size(N), ROUNDS))


@each_case
def test_threads(case: Any, level: str, benchmark: Any) -> None:
    if THREADS == 1:
        pytest.skip("one core")
    compare(benchmark, partial(thread_row, case, level, THREADS, N, ROUNDS))


def test_time(level: str, benchmark: Any) -> None:
    compare(benchmark, partial(time_row, CASES["top_s gumbel, s=100"], level, TIMED, ROUNDS))


@pytest.mark.parametrize("name", ["top_s gumbel, s=100", "top_s peeling, s=100", "noisy_argmax laplace", "permute_and_flip"])
@pytest.mark.parametrize("shape", SHAPES)
def test_unpruned(name: str, shape: str, level: str, benchmark: Any) -> None:
    case = CASES[name]
    d, rounds = (case.size(N // 10), 1) if "peeling" in name else (case.size(N // 10), ROUNDS)
    compare(benchmark, partial(unpruned_row, case, shape, level, d, rounds))
