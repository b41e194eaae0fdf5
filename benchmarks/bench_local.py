"""Local randomisers beside their peers and bounds: `make bench`. Each benchmark checks its answer, and the peer's too.

`python -m pytest benchmarks/bench_local.py` prints the table of ratios; DPCORE_BENCH_VALUES is the number of values (10^7). Binary
response takes ten times as many, unary encoding and hashing a tenth.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from dpcore import _backend
from dpcore.bench import Row, Timing, take_turns
from dpcore.bench.local import (
    LocalCase,
    aggregate_row,
    check_estimate,
    copy_row,
    copying,
    local_cases,
    packed_row,
    thread_row,
    transform_row,
)
from peers_local import PEERS, LocalPeer
from peers_local_estimates import ESTIMATE_PEERS, EstimatePeer, butterflies
from ratios import ABSENT, ROWS

N = int(os.environ.get("DPCORE_BENCH_VALUES", "10000000"))
ROUNDS = 5
CASES = {case.name: case for case in local_cases()}
THREADS = _backend.default_threads()
each_case = pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)


def compare(benchmark: Any, comparison: Callable[[], Row]) -> None:
    """Keep the row for the table and in the benchmark's record, whose own time is that of the whole comparison."""
    row = benchmark.pedantic(comparison, rounds=1)
    ROWS.append(row)
    rates = {"records a second": round(1e9 / row.ours_ns), "their records a second": round(1e9 / row.other_ns)}
    benchmark.extra_info.update(ratio=row.ratio, against=row.against, target=row.target, met=row.met, **rates)


def skip_if_absent(peer: LocalPeer | EstimatePeer) -> None:
    if not peer.installed:
        ABSENT.append(f"{peer.name}: {peer.package} is not installed")
        pytest.skip(f"{peer.package} is not installed")


def scaled_row(ours: str, against: str, level: str, timing: Timing, n: int, theirs: int, **more: Any) -> Row:
    """A row of `n` records of ours and `theirs` of the peer's, each by its own number of records."""
    return Row(ours, against, level, 1, timing.ours * 1e9 / n, timing.other * 1e9 / theirs, timing.ratio * n / theirs, **more)


def peer_row(peer: LocalPeer, level: str) -> Row:
    case = CASES[peer.ours]
    records = case.records(N)
    theirs = records[: peer.records]
    work = peer.prepare(case.mechanism, theirs)
    check_estimate(case, theirs, peer.reports(case.mechanism, work()))
    out = case.mechanism.privatize(records)
    timing = take_turns(case.work(records, out, 1), work, ROUNDS)
    check_estimate(case, records, out)
    name = peer.name if peer.records is None else f"{peer.name}, {theirs.size:,} records"
    return scaled_row(case.name, name, level, timing, records.size, theirs.size, target=peer.targets.get(level), required=peer.required)


def estimate_row(peer: EstimatePeer, level: str) -> Row:
    case = CASES["LocalHashing k=1024"]
    work = peer.prepare(case.mechanism, peer.records)
    if np.argmax(work()) != 3:
        raise AssertionError(f"{peer.name}: the one category that there is has not the largest estimate")
    records = case.records(N)
    reports = case.mechanism.privatize(records)
    timing = take_turns(lambda: case.mechanism.estimate(case.mechanism.aggregate(reports, threads=1)), work, 3)
    check_estimate(case, records, reports)
    target = 20.0 if peer.package != "numpy" else None
    return scaled_row(f"{case.name}, estimate", peer.name, level, timing, records.size, peer.records, target=target)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: f"{peer.ours}-{peer.name}")
def test_peer(peer: LocalPeer, level: str, benchmark: Any) -> None:
    skip_if_absent(peer)
    compare(benchmark, partial(peer_row, peer, level))


@pytest.mark.parametrize("peer", ESTIMATE_PEERS, ids=lambda peer: peer.name)
def test_estimate(peer: EstimatePeer, level: str, benchmark: Any) -> None:
    skip_if_absent(peer)
    compare(benchmark, partial(estimate_row, peer, level))


@each_case
def test_copy(case: LocalCase, level: str, benchmark: Any) -> None:
    compare(benchmark, partial(copy_row, case, case.records(N), level, ROUNDS))


@each_case
def test_threads(case: LocalCase, level: str, benchmark: Any) -> None:
    if THREADS == 1:
        pytest.skip("one core")
    compare(benchmark, partial(thread_row, case, case.records(N), level, THREADS, ROUNDS))


def test_packed(level: str, benchmark: Any) -> None:
    case = CASES["BinaryResponse"]
    compare(benchmark, partial(packed_row, case, case.records(N), level, ROUNDS))


@pytest.mark.parametrize("copies", [1, 16])
def test_aggregate(copies: int, level: str, benchmark: Any) -> None:
    compare(benchmark, partial(aggregate_row, copies, max(1, N // 10), level, ROUNDS))


@pytest.mark.parametrize(("name", "other"), [("NumPy butterflies", butterflies), ("copy of its input", copying)])
def test_transform(name: str, other: Any, level: str, benchmark: Any) -> None:
    compare(benchmark, partial(transform_row, name, other, level, ROUNDS))
