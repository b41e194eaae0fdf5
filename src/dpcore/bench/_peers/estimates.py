"""Peers of the estimates: servers of local hashing with 1,024 hash values a report, and the Walsh-Hadamard transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.bench._peers.local import EPSILON, PRIME, Array, lh_client, pure
from dpcore.bench.benchmark import Work


@dataclass(frozen=True)
class EstimatePeer:
    """A server of local hashing; `prepare` makes reports of so many records, all of category 3, and returns estimates or counts."""

    name: str
    prepare: Callable[[Any, int], Callable[[], Any]]
    records: int
    package: str = "numpy"


def lh_server(mechanism: Any, n: int) -> Callable[[], Array]:
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI

    client = lh_client(mechanism)
    reports = [client(3) for _ in range(n)]
    return lambda: LH_Aggregator_MI(reports, mechanism.k, EPSILON)


def pure_lh_server(mechanism: Any, n: int) -> Callable[[], Array]:
    from pure_ldp.frequency_oracles import LHServer

    client = pure("LHClient", use_olh=True)(mechanism)
    reports = [client(3) for _ in range(n)]

    def work() -> Any:
        server = LHServer(EPSILON, mechanism.k, use_olh=True, index_mapper=int)
        server.aggregate_all(reports)
        return server.estimate_all(range(mechanism.k), suppress_warnings=True)

    return work


def numpy_server(mechanism: Any, n: int) -> Callable[[], Array]:
    """Support counts of our reports, a hundred reports by all categories at a time."""
    reports = mechanism.privatize(np.full(n, 3))
    v, g = np.arange(mechanism.k), mechanism.g

    def work() -> Array:
        counts = np.zeros(mechanism.k, np.int64)
        for start in range(0, n, 100):
            part = reports[start : start + 100]
            a, b = ((s[:, None]).astype(np.int64) for s in (part["seed"] & np.uint64(PRIME), part["seed"] >> np.uint64(31)))
            counts += ((a * v + b) % PRIME % g == part["code"][:, None]).sum(axis=0)
        if not np.array_equal(counts, mechanism.aggregate(reports).counts):
            raise AssertionError("support counts differ from NumPy's")
        return counts

    return work


ESTIMATE_PEERS = (
    EstimatePeer("multi-freq-ldpy's loop, 500 reports", lh_server, 500, "multi_freq_ldpy"),
    EstimatePeer("pure-ldp's loop, 500 reports", pure_lh_server, 500, "pure_ldp"),
    EstimatePeer("NumPy in blocks, 10,000 reports", numpy_server, 10_000),
)


def butterflies(values: Array) -> Work:
    """The Walsh-Hadamard transform as vectorised NumPy, two passes over the array a level."""

    def work() -> Array:
        out, half = values.copy(), 1
        while half < out.size:
            pairs = out.reshape(-1, 2, half)
            out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
            half *= 2
        return out

    return work
