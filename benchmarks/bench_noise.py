"""Noise beside its peers and bounds: `make bench`. Each benchmark checks its answer; the ratios are in `extra_info` and in the table."""

from __future__ import annotations

import os
import timeit
from typing import Any

import numpy as np
import pytest

from dpcore import _backend, noise
from dpcore.bench import Case, Row, cases, check_answer, take_turns
from dpcore.bench.noise import bound_row, thread_row
from dpcore.testing import KeyedRandom
from peers import PEERS, Peer
from ratios import ABSENT, ROWS

N = int(os.environ.get("DPCORE_BENCH_VALUES", "10000000"))
ROUNDS = 7
CASES = {case.name: case for case in cases()}
THREADS = _backend.default_threads()
each_case = pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)


def arrays(case: Case) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Zeros, and a place for the result whose pages are there already."""
    return np.zeros(N, case.dtype), np.ones(N, case.dtype)


def record(benchmark: Any, row: Row, work: Any) -> None:
    """Keep the row for the table and in the benchmark's own record."""
    ROWS.append(row)
    benchmark.extra_info.update(ratio=row.ratio, against=row.against, target=row.target, met=row.met)
    benchmark.pedantic(work, rounds=1)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: f"{peer.ours}-{peer.name}")
def test_peer(peer: Peer, level: str, benchmark: Any) -> None:
    if not peer.installed:
        ABSENT.append(f"{peer.name}: {peer.package} is not installed")
        pytest.skip(f"{peer.package} is not installed")
    case = CASES[peer.ours]
    values, out = arrays(case)
    theirs = np.ones_like(out)
    work = case.work(values, out, 1)
    timing = take_turns(work, lambda: peer.add(values, theirs, case.scale), ROUNDS)
    check_answer(case, out)
    ns = 1e9 / N
    row = Row(
        case.name, peer.name, level, 1, timing.ours * ns, timing.other * ns, timing.ratio, peer.targets.get(level), required=peer.required
    )
    record(benchmark, row, work)


@each_case
def test_bound(case: Case, level: str, benchmark: Any) -> None:
    values, out = arrays(case)
    row = bound_row(case, values, out, level, 1, ROUNDS)
    check_answer(case, out)
    record(benchmark, row, case.work(values, out, 1))


@each_case
def test_threads(case: Case, level: str, benchmark: Any) -> None:
    if THREADS == 1:
        pytest.skip("one core")
    values, out = arrays(case)
    row = thread_row(case, values, out, level, THREADS, ROUNDS)
    check_answer(case, out)
    record(benchmark, row, case.work(values, out, THREADS))


@each_case
def test_keyed_source(case: Case, level: str, benchmark: Any) -> None:
    values, out = arrays(case)
    rng = KeyedRandom(bytes(32))
    timing = take_turns(case.work(values, out, 1, rng), case.work(values, np.ones_like(out), 1), ROUNDS)
    check_answer(case, out)
    ns = 1e9 / N
    row = Row(f"{case.name}, keyed", "secure source", level, 1, timing.ours * ns, timing.other * ns, timing.ratio)
    record(benchmark, row, case.work(values, out, 1, rng))


def test_scalar_latency(benchmark: Any) -> None:
    calls = 20_000
    released = noise.laplace(3.0, 1.0)
    assert isinstance(released, float)
    assert released % noise.default_grid(1.0) == 0
    ns = min(timeit.repeat(lambda: noise.laplace(3.0, 1.0), number=calls, repeat=5)) / calls * 1e9
    row = Row("laplace(3.0, 1.0), a scalar", "3 µs", _backend.selected_level(), 1, ns, 3000.0, ns / 3000, 1.0, bound=True)
    record(benchmark, row, lambda: noise.laplace(3.0, 1.0))
